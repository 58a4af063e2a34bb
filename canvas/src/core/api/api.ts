/** HTTP client of the server (same origin). An error response is thrown as an `ApiError` with a sentence for people. */

import { approvalOf, type DecisionInput, type Approval } from "../state/approvals";
import type { Delegation } from "../state/delegations";
import type { Attachment, Choice } from "../state/model";
import { chainOf, deadLetterOf, NO_PROBLEMS, questionOf, unansweredOf, unclaimedOf, type MessageChain, type DeadLetter, type Problems } from "../state/problems";
import { at, list, members, number, text } from "../state/json";
import type { UploadLimits } from "../text/files";
import type { BudgetView, ChainDetail, ConnectPage, ConversationPage, ConversationPeers, DelegateResponse, DelegationDetail, DelegationItem, DelegationPage, HostRow, LoginHelpResponse, RequestRunnerBody, RunnerRequestView, RunnerView, SampleTeamView, SearchResponse, SessionView, Snapshot, SnapshotPage, TimelinePage, TraceDetail } from "../wire";
import { sentence } from "../text/strings";
import { NoResponseError, ApiError } from "./errors";
import { upload, type UploadOptions } from "./upload";

export { NoResponseError, ApiError };

/** A workspace that was just created, with its token. */
export interface CreatedWorkspace {
  id: string;
  name: string;
  token: string;
}

/** A new token of a workspace. The server does not return it again. */
export interface IssuedToken {
  workspaceId: string;
  name: string;
  token: string;
  /** Seconds in which the earlier tokens still work, and their end. */
  grace: number;
  endsAt: string;
}

/** A member of the organisation, or an invited person. */
export interface Person {
  id: string;
  name: string;
  role: string;
}

/** An app that is connected to a workspace by OAuth. `client_name` is what the app calls itself. */
export interface ConnectedApp {
  id: string;
  client_name: string;
  scope: string;
  created_at: string;
  expires_at: string;
}

/** An OAuth client that an owner has registered. */
export interface OAuthClient {
  client_id: string;
  name: string;
  redirect_uris: readonly string[];
}

interface NewWorkspace {
  name: string;
  runtime?: string;
  parent_id?: string;
  role?: string;
  a2a_card_url?: string;
  a2a_credential?: A2ACredential;
  a2a_card_keys?: { jwks_url: string };
}

/** A credential for an A2A agent of others. No response contains it. */
export interface A2ACredential {
  kind: "bearer" | "api_key" | "oauth2";
  secret: string;
  client_id?: string;
}

export interface WorkspaceChange {
  parent_id?: string | null;
  name?: string;
  role?: string | null;
  runtime?: string;
  instruction_compact?: boolean;
  instruction_shape?: string | null;
  reply_seconds?: number | null;
  send_drafts?: boolean;
  a2a_card_url?: string | null;
  a2a_credential?: A2ACredential | null;
}

/** How the A2A agent of a workspace is reached. */
export interface A2AAgent {
  interfaceUrl: string;
  /** Transport and version. */
  protocol: string;
  /** How changes of its tasks arrive: stream, push or poll. */
  updates: string;
  /** Whether the agent offers push notifications. */
  pushOffered: boolean;
  /** What is known of the signature of its card: verified, not_checked or none. */
  signature: string;
  credential: string | null;
  /** Why the last check of its card failed. */
  error: string | null;
}

/** A message without a response for this long is shown as not sent; sending it again is safe, since it has a client id. */
const TIMEOUT_MS = 20_000;
const REACHABLE_MS = 2_000;

type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

/** At most this many pages of pending approvals are read at once. */
const MAX_PAGES = 10;

/** A message to a workspace, identified by its activity row. */
export interface MessageRef {
  workspaceId: string;
  activityId: string;
}

/** A delegation and the workspace that delegated it. */
type DelegationRef = Pick<Delegation, "id" | "sourceId">;

export class Api {
  private readonly onUnauthorized: () => void;
  /** Names the organisation whose login each request uses: this browser may have several. */
  private readonly orgHeader: Readonly<Record<string, string>>;
  private closed = false;

  constructor(onUnauthorized: () => void, orgId: string | null = null) {
    this.onUnauthorized = () => this.closed || onUnauthorized();
    this.orgHeader = orgId === null ? {} : { "X-Molecule-Org": orgId };
  }

  /** Reject further requests: the browser's session may belong to another person by now. Requests in flight complete. */
  close(): void {
    this.closed = true;
  }

  /** Whether the server answers. Not for long: the next question comes soon. */
  async isReachable(): Promise<boolean> {
    try {
      return (await fetch("/health", { cache: "no-store", credentials: "omit", signal: AbortSignal.timeout(REACHABLE_MS) })).ok;
    } catch {
      return false;
    }
  }

  session(): Promise<SessionView> {
    return this.request<SessionView>("GET", "/session");
  }

  /** The logins of this browser. */
  sessions(): Promise<SessionView[]> {
    return this.request<SessionView[]>("GET", "/sessions");
  }

  loginHelp(): Promise<LoginHelpResponse> {
    return this.request<LoginHelpResponse>("GET", "/login");
  }

  /** Without `replaceSession`, rejected with `other_session` where another person is logged in. */
  logIn(code: string, replaceSession = false): Promise<SessionView> {
    return this.request<SessionView>("POST", "/login", replaceSession ? { code, replace_session: true } : { code });
  }

  logOut(): Promise<unknown> {
    return this.request("POST", "/logout", {});
  }

  /** With all pages of workspaces: what they contain later than the snapshot, the events after it repeat. */
  async snapshot(orgId: string): Promise<Snapshot> {
    const path = `/orgs/${encodeURIComponent(orgId)}/snapshot`;
    const first = await this.request<Snapshot>("GET", path);
    const [workspaces, chats] = [[...first.workspaces], [...first.chats]];
    let next: string | null = first.next_workspace;
    while (next) {
      const page: SnapshotPage = await this.request<SnapshotPage>("GET", `${path}?after=${encodeURIComponent(next)}`);
      workspaces.push(...page.workspaces);
      chats.push(...page.chats);
      next = page.next_workspace;
    }
    return { ...first, workspaces, chats, next_workspace: null };
  }

  /** Messages and delegations of a workspace's chat, newest page first. `before`: sequence number of a line. */
  timeline(workspaceId: string, limit: number, before?: number): Promise<TimelinePage> {
    const older = before === undefined ? "" : `&before=${before}`;
    return this.request<TimelinePage>("GET", `${workspacePath(workspaceId)}/timeline?limit=${limit}${older}`);
  }

  /** The agents that exchanged messages with an agent, newest first. `before`: id of one of them. */
  peers(workspaceId: string, before?: string): Promise<ConversationPeers> {
    return this.request<ConversationPeers>("GET", `${workspacePath(workspaceId)}/conversations${before === undefined ? "" : `?before=${encodeURIComponent(before)}`}`);
  }

  /** What two agents wrote to each other, newest page first. `before`: id of an item. */
  conversation(workspaceId: string, peerId: string, limit: number, before?: string): Promise<ConversationPage> {
    const older = before === undefined ? "" : `&before=${encodeURIComponent(before)}`;
    return this.request<ConversationPage>("GET", `${workspacePath(workspaceId)}/conversations/${encodeURIComponent(peerId)}?limit=${limit}${older}`);
  }

  delegation(id: string): Promise<DelegationDetail> {
    return this.request<DelegationDetail>("GET", `/delegations/${encodeURIComponent(id)}`);
  }

  /** Texts that hold all of the words, newest first. */
  searchTexts(orgId: string, words: string, limit: number): Promise<SearchResponse> {
    const query = new URLSearchParams({ q: words, limit: String(limit) });
    return this.request<SearchResponse>("GET", `/orgs/${encodeURIComponent(orgId)}/search?${query.toString()}`);
  }

  /** What one request caused. `id`: of any message or delegation in it. */
  trace(orgId: string, id: string): Promise<TraceDetail> {
    return this.request<TraceDetail>("GET", `/orgs/${encodeURIComponent(orgId)}/traces/${encodeURIComponent(id)}`);
  }

  /** The newest delegations, in one state or all, before one of them. */
  delegations(orgId: string, limit: number, state?: string, before: string | null = null): Promise<DelegationPage> {
    const within = state === undefined ? "" : `&state=${encodeURIComponent(state)}`;
    const older = before === null ? "" : `&before=${encodeURIComponent(before)}`;
    return this.request<DelegationPage>("GET", `/orgs/${encodeURIComponent(orgId)}/delegations?limit=${limit}${within}${older}`);
  }

  /** The newest delegations from or to a workspace. */
  delegationsOf(workspaceId: string, limit: number): Promise<DelegationItem[]> {
    return this.request<DelegationItem[]>("GET", `${workspacePath(workspaceId)}/delegations?direction=both&limit=${limit}`);
  }

  /** Returns the current state: a delegation that has already ended stays as it is. */
  cancel({ sourceId, id }: DelegationRef): Promise<DelegationItem> {
    return this.request<DelegationItem>("POST", `${workspacePath(sourceId)}/delegations/${encodeURIComponent(id)}/cancel`, {});
  }

  retry({ sourceId, id }: DelegationRef): Promise<DelegateResponse> {
    return this.request<DelegateResponse>("POST", `${workspacePath(sourceId)}/delegations/${encodeURIComponent(id)}/retry`, {});
  }

  send(
    workspaceId: string,
    clientId: string,
    words: string,
    { files = [], choice = null, when = "queue", replyTo = null }: { files?: readonly Attachment[]; choice?: Choice | null; when?: "queue" | "steer"; replyTo?: string | null } = {},
  ): Promise<unknown> {
    const said = words === "" ? [] : [{ kind: "text", text: words }];
    const parts = [...said, ...files.map(({ uri, name, type, size }) => ({ kind: "file", file: { uri, name, mimeType: type, size } }))];
    const metadata = { ...(choice === null ? {} : { option_of: choice.of, option: choice.option }), ...(when === "queue" ? {} : { when }), ...(replyTo === null ? {} : { in_reply_to: replyTo }) };
    const message = { role: "user", messageId: clientId, parts, ...(Object.keys(metadata).length === 0 ? {} : { metadata }) };
    const call = { jsonrpc: "2.0", id: clientId, method: "message/send", params: { message } };
    return this.request("POST", `${workspacePath(workspaceId)}/a2a`, call);
  }

  stopTurn(workspaceId: string, activityId: string): Promise<unknown> {
    return this.request("POST", `${workspacePath(workspaceId)}/live/stop`, { activity_id: activityId });
  }

  markRead(workspaceId: string, seq: number): Promise<unknown> {
    return this.request("POST", `${workspacePath(workspaceId)}/chat/read`, { seq }, { keepalive: true }); // the page may be closing
  }

  /** The messages after `seq` count as unread again. */
  markUnread(workspaceId: string, seq: number): Promise<unknown> {
    return this.request("POST", `${workspacePath(workspaceId)}/chat/read`, { seq, unread: true }, { keepalive: true });
  }

  /** When a message reached each step of its delivery. */
  async ticks(workspaceId: string, activityId: string): Promise<readonly { tick: string; at: string }[]> {
    const log = await this.request("GET", `${workspacePath(workspaceId)}/messages/${encodeURIComponent(activityId)}/ticks`);
    return list(log, "ticks").map((each) => ({ tick: text(each, "tick") ?? "", at: text(each, "at") ?? "" }));
  }

  async problems(orgId: string): Promise<Problems> {
    const org = `/orgs/${encodeURIComponent(orgId)}`;
    const [owed, waiting, dead, frozen, asked] = await Promise.all([
      this.request("GET", `${org}/obligations?state=unanswered&limit=100`),
      this.request("GET", `${org}/untaken`),
      this.request("GET", `${org}/dead-letters?limit=100`),
      this.request("GET", `${org}/chains?state=frozen`),
      this.request("GET", `${org}/questions?limit=100`),
    ]);
    return {
      unanswered: list(owed, "obligations").map(unansweredOf).filter((each) => each !== null),
      moreUnanswered: members(owed)?.["reached_end"] === false,
      unclaimed: list(waiting, "untaken").map(unclaimedOf).filter((each) => each !== null),
      moreUnclaimed: members(waiting)?.["reached_end"] === false,
      deadLetters: list(dead, "dead_letters").map(deadLetterOf).filter((each) => each !== null),
      moreDeadLetters: members(dead)?.["reached_end"] === false,
      chains: list(frozen, "chains").map(chainOf).filter((each) => each !== null),
      questions: list(asked, "questions").map(questionOf).filter((each) => each !== null),
      moreQuestions: members(asked)?.["reached_end"] === false,
      nextCheckSeconds: number(waiting, "next_check_seconds") ?? NO_PROBLEMS.nextCheckSeconds,
    };
  }

  /** All pending approvals, also those that no person has to decide. */
  async pendingApprovals(orgId: string): Promise<Approval[]> {
    const all: Approval[] = [];
    for (let pages = 0; pages < MAX_PAGES; pages += 1) {
      const after = all.at(-1) === undefined ? "" : `&after=${encodeURIComponent(all.at(-1)?.id ?? "")}`;
      const page = await this.request("GET", `/approvals/pending?org=${encodeURIComponent(orgId)}${after}`);
      all.push(...approvalsOf(page));
      if (members(page)?.["reached_end"] !== false) break;
    }
    return all;
  }

  /** Closed approvals, newest first. `before`: id of one of them. */
  async approvalPage(orgId: string, before: string | null): Promise<{ approvals: Approval[]; reachedEnd: boolean }> {
    const older = before === null ? "" : `&before=${encodeURIComponent(before)}`;
    const page = await this.request("GET", `/approvals?org=${encodeURIComponent(orgId)}&state=decided${older}`);
    return { approvals: approvalsOf(page), reachedEnd: members(page)?.["reached_end"] !== false };
  }

  /** The newest approvals that a workspace requested or was asked to decide. */
  async approvalsOf(workspaceId: string): Promise<Approval[]> {
    return approvalsOf(await this.request("GET", `${workspacePath(workspaceId)}/approvals?role=any`));
  }

  async approval(workspaceId: string, id: string): Promise<Approval> {
    return known(await this.request("GET", `${workspacePath(workspaceId)}/approvals/${encodeURIComponent(id)}`));
  }

  /** Returns the current state. The decision names what was shown (revision, action hash and holder), so that the server
   * rejects it if one of them has changed. With `keepalive` the request outlives the page. */
  async decide(approval: Approval, input: DecisionInput, keepalive: boolean): Promise<Approval> {
    const path = `${workspacePath(approval.workspaceId)}/approvals/${encodeURIComponent(approval.id)}/decide`;
    return known(await this.request("POST", path, decisionBody(approval, input), { keepalive }));
  }

  /** Send an unsent answer of the agent as its answer. `words`: the edited text, or null. */
  sendDraft(asked: MessageRef, words: string | null): Promise<unknown> {
    return this.request("POST", `${draft(asked)}/send`, words === null ? {} : { text: words });
  }

  discardDraft(asked: MessageRef): Promise<unknown> {
    return this.request("POST", `${draft(asked)}/discard`, {});
  }

  requeue({ workspaceId, activityId }: DeadLetter): Promise<unknown> {
    return this.request("POST", `${deadLetter(workspaceId, activityId)}/requeue`, {});
  }

  discard({ workspaceId, activityId }: DeadLetter): Promise<unknown> {
    return this.request("DELETE", deadLetter(workspaceId, activityId), {});
  }

  /** The messages of a chain after number `after`. */
  chainMessages(orgId: string, { rootId }: MessageChain, after: number): Promise<ChainDetail> {
    return this.request<ChainDetail>("GET", `${chain(orgId, rootId)}${after > 0 ? `?after=${after}` : ""}`);
  }

  release(orgId: string, { rootId }: MessageChain): Promise<unknown> {
    return this.request("POST", `${chain(orgId, rootId)}/release`, {});
  }

  end(orgId: string, { rootId }: MessageChain): Promise<unknown> {
    return this.request("POST", `${chain(orgId, rootId)}/end`, {});
  }

  changeWorkspace(workspaceId: string, change: WorkspaceChange): Promise<unknown> {
    return this.request("PATCH", workspacePath(workspaceId), change);
  }

  /** How the A2A agent of a workspace is reached. */
  async a2aAgent(workspaceId: string): Promise<A2AAgent> {
    const found = await this.request("GET", `${workspacePath(workspaceId)}/a2a-agent`);
    return {
      interfaceUrl: text(found, "interface_url") ?? "",
      protocol: `A2A ${text(found, "version") ?? ""} ${text(found, "binding") ?? ""}`,
      updates: text(found, "updates") ?? "",
      signature: text(found, "signature") ?? "",
      pushOffered: at(found, "push_offered") === true,
      credential: text(found, "credential"),
      error: text(found, "error"),
    };
  }

  /** Create a team below a workspace, all or nothing. */
  expand(workspaceId: string, children: readonly { name: string; role?: string }[]): Promise<unknown> {
    return this.request("POST", `${workspacePath(workspaceId)}/expand`, { children });
  }

  renameOrg(orgId: string, name: string): Promise<unknown> {
    return this.request("PATCH", `/orgs/${encodeURIComponent(orgId)}`, { name });
  }

  sampleTeam(orgId: string): Promise<SampleTeamView> {
    return this.request<SampleTeamView>("GET", `/orgs/${encodeURIComponent(orgId)}/sample-team`);
  }

  addSampleTeam(orgId: string): Promise<SampleTeamView> {
    return this.request<SampleTeamView>("POST", `/orgs/${encodeURIComponent(orgId)}/sample-team`, {});
  }

  putAside(workspaceId: string, how: "pause" | "resume" | "hibernate"): Promise<unknown> {
    return this.request("POST", `${workspacePath(workspaceId)}/${how}`, {});
  }

  endLimit(workspaceId: string): Promise<unknown> {
    return this.request("DELETE", `${workspacePath(workspaceId)}/limit`, {});
  }

  removeWorkspace(workspaceId: string, name: string): Promise<unknown> {
    return this.request("DELETE", `${workspacePath(workspaceId)}?confirm=true&name=${encodeURIComponent(name)}`, {});
  }

  collapse(workspaceId: string): Promise<unknown> {
    return this.request("POST", `${workspacePath(workspaceId)}/collapse?confirm=true`, {});
  }

  setAbilities(workspaceId: string, abilities: { broadcast_enabled?: boolean; talk_to_user_enabled?: boolean }): Promise<unknown> {
    return this.request("PATCH", `${workspacePath(workspaceId)}/abilities`, abilities);
  }

  /** Issue a new token. The earlier ones end after `grace` seconds. */
  async rotate({ id, name }: { id: string; name: string }, grace: number): Promise<IssuedToken> {
    const made = await this.request("POST", `${workspacePath(id)}/external/rotate`, { grace_seconds: grace });
    return { workspaceId: id, name, token: text(made, "connection", "auth_token") ?? "", grace, endsAt: text(made, "ends_at") ?? "" };
  }

  async people(orgId: string): Promise<readonly Person[]> {
    return list(await this.request("GET", people(orgId))).map(personOf).filter((each) => each !== null);
  }

  changePerson(orgId: string, personId: string, role: string): Promise<unknown> {
    return this.request("PATCH", `${people(orgId)}/${encodeURIComponent(personId)}`, { role });
  }

  removePerson(orgId: string, personId: string): Promise<unknown> {
    return this.request("DELETE", `${people(orgId)}/${encodeURIComponent(personId)}`, {});
  }

  async invitations(orgId: string): Promise<readonly Person[]> {
    return list(await this.request("GET", `/orgs/${encodeURIComponent(orgId)}/invitations`)).map(personOf).filter((each) => each !== null);
  }

  /** Returns a one-time login link for the invited person. */
  async invite(orgId: string, name: string, role: string): Promise<string> {
    return text(await this.request("POST", `/orgs/${encodeURIComponent(orgId)}/invitations`, { name, role }), "url") ?? "";
  }

  withdraw(orgId: string, invitationId: string): Promise<unknown> {
    return this.request("DELETE", `/orgs/${encodeURIComponent(orgId)}/invitations/${encodeURIComponent(invitationId)}`, {});
  }

  async budgets(orgId: string): Promise<readonly BudgetView[]> {
    return list(await this.request("GET", budgets(orgId)), "budgets") as readonly BudgetView[];
  }

  createBudget(orgId: string, budget: { scope: string; target_id: string; unit: string; limit: number; period: string }): Promise<unknown> {
    return this.request("POST", budgets(orgId), budget);
  }

  changeBudget(orgId: string, budgetId: string, limit: number): Promise<unknown> {
    return this.request("PUT", `${budgets(orgId)}/${encodeURIComponent(budgetId)}`, { limit });
  }

  deleteBudget(orgId: string, budgetId: string): Promise<unknown> {
    return this.request("DELETE", `${budgets(orgId)}/${encodeURIComponent(budgetId)}`, {});
  }

  async connectedApps(workspaceId: string): Promise<readonly ConnectedApp[]> {
    return list(await this.request("GET", `${workspacePath(workspaceId)}/oauth-grants`)).map(appOf).filter((each) => each !== null);
  }

  /** The tokens of the app end at once. */
  disconnectApp(workspaceId: string, appId: string): Promise<unknown> {
    return this.request("DELETE", `${workspacePath(workspaceId)}/oauth-grants/${encodeURIComponent(appId)}`, {});
  }

  async oauthClients(orgId: string): Promise<readonly OAuthClient[]> {
    return list(await this.request("GET", oauthClients(orgId))).map(clientOf).filter((each) => each !== null);
  }

  registerClient(orgId: string, name: string, redirectUris: readonly string[]): Promise<unknown> {
    return this.request("POST", oauthClients(orgId), { name, redirect_uris: redirectUris });
  }

  removeClient(orgId: string, clientId: string): Promise<unknown> {
    return this.request("DELETE", `${oauthClients(orgId)}/${encodeURIComponent(clientId)}`, {});
  }

  /** Throws ApiError, NoResponseError, UploadCancelledError. */
  async upload(workspaceId: string, file: File, watch: UploadOptions): Promise<Attachment> {
    this.checkOpen();
    try {
      return await upload(`${workspacePath(workspaceId)}/chat/uploads`, file, watch, this.orgHeader);
    } catch (error) {
      if (error instanceof ApiError && error.status === 401) this.onUnauthorized();
      throw error;
    }
  }

  async uploadLimits(): Promise<UploadLimits> {
    const limits = await this.request("GET", "/uploads/limits");
    return { fileBytes: number(limits, "max_file_bytes") ?? Infinity, files: number(limits, "max_attachments") ?? Infinity };
  }

  async createWorkspace(wanted: NewWorkspace): Promise<CreatedWorkspace> {
    const made = await this.request("POST", "/workspaces", { ...wanted, external: true });
    const said = (...path: string[]): string => text(made, ...path) ?? "";
    return {
      id: said("id"),
      name: said("name") || wanted.name,
      token: said("connection", "auth_token"),
    };
  }

  /** The machines with a runner, what is installed there, and the agents that they run. */
  runners(orgId: string): Promise<RunnerView[]> {
    return this.request<RunnerView[]>("GET", runners(orgId));
  }

  /** Request something of a runner, and wait a while for the outcome. */
  async requestRunner(orgId: string, runnerId: string, wanted: RequestRunnerBody): Promise<RunnerRequestView> {
    const requests = `${runners(orgId)}/${encodeURIComponent(runnerId)}/requests`;
    const made = await this.request<RunnerRequestView>("POST", requests, wanted);
    return this.request<RunnerRequestView>("GET", `${requests}/${encodeURIComponent(made.id)}?wait=10`);
  }

  /** The hosts that an agent can run in. */
  hosts(): Promise<HostRow[]> {
    return this.request<HostRow[]>("GET", "/hosts");
  }

  /** The setup steps for one host. */
  connectPage(workspaceId: string, host: string): Promise<ConnectPage> {
    return this.request<ConnectPage>("GET", `${workspacePath(workspaceId)}/connect?host=${encodeURIComponent(host)}`);
  }

  /** A request without a method of its own. Throws ApiError, NoResponseError. */
  async request<T>(method: Method, path: string, body?: unknown, more?: RequestInit): Promise<T> {
    const response = await this.fetch(method, path, body, more);
    const answer: unknown = await response.json().catch(() => null);
    if (!response.ok) throw this.refusal(path, response.status, answer);
    const problem = text(answer, "error", "message");
    if (problem !== null) throw new ApiError(response.status, text(answer, "code"), sentence(problem));
    return answer as T;
  }

  private checkOpen(): void {
    if (this.closed) throw new NoResponseError("The page was closed before this was sent.");
  }

  private async fetch(method: string, path: string, body: unknown, more: RequestInit = {}): Promise<Response> {
    this.checkOpen();
    const command: RequestInit =
      method === "GET"
        ? { headers: this.orgHeader }
        : { body: JSON.stringify(body), headers: { ...this.orgHeader, "Content-Type": "application/json", "X-Molecule-Client": "canvas" } };
    try {
      return await fetch(path, { ...more, ...command, method, credentials: "same-origin", signal: AbortSignal.timeout(TIMEOUT_MS) });
    } catch {
      throw new NoResponseError("The server did not respond.");
    }
  }

  private refusal(path: string, status: number, answer: unknown): ApiError {
    if (status === 401 && path !== "/login" && path !== "/session") this.onUnauthorized();
    const words = text(answer, "error") ?? text(answer, "error", "message") ?? text(answer, "detail");
    return new ApiError(status, text(answer, "code"), sentence(words ?? `The server responded with status ${status}.`), answer);
  }
}

/** The body of the request that decides an approval. */
export function decisionBody({ revision, actionHash, holder }: Approval, { verdict, note, details }: DecisionInput): unknown {
  const words = { ...(note === "" ? {} : { note }), ...(details === null ? {} : { details }) };
  const whose = verdict === "escalate" && holder.kind === "workspace" ? { holder: holder.id } : {};
  return { decision: verdict, revision, action_hash: actionHash, ...whose, ...words };
}

function workspacePath(workspaceId: string): string {
  return `/workspaces/${encodeURIComponent(workspaceId)}`;
}

function draft({ workspaceId, activityId }: MessageRef): string {
  return `${workspacePath(workspaceId)}/messages/${encodeURIComponent(activityId)}/draft`;
}

function deadLetter(workspaceId: string, activityId: string): string {
  return `${workspacePath(workspaceId)}/dead-letters/${encodeURIComponent(activityId)}`;
}

function chain(orgId: string, rootId: string): string {
  return `/orgs/${encodeURIComponent(orgId)}/chains/${encodeURIComponent(rootId)}`;
}

function approvalsOf(answer: unknown): Approval[] {
  return list(answer, "approvals").map(approvalOf).filter((each) => each !== null);
}

function known(answer: unknown): Approval {
  const found = approvalOf(answer);
  if (found === null) throw new NoResponseError("The server sent a response that this page cannot read. Reload the page.");
  return found;
}

function runners(orgId: string): string {
  return `/orgs/${encodeURIComponent(orgId)}/runners`;
}

function people(orgId: string): string {
  return `/orgs/${encodeURIComponent(orgId)}/people`;
}

function budgets(orgId: string): string {
  return `/orgs/${encodeURIComponent(orgId)}/budgets`;
}

function oauthClients(orgId: string): string {
  return `/orgs/${encodeURIComponent(orgId)}/oauth-clients`;
}

function appOf(row: unknown): ConnectedApp | null {
  const [id, name, scope] = [text(row, "id"), text(row, "client_name"), text(row, "scope")];
  const [created, expires] = [text(row, "created_at"), text(row, "expires_at")];
  if (id === null || name === null || scope === null || created === null || expires === null) return null;
  return { id, client_name: name, scope, created_at: created, expires_at: expires };
}

function clientOf(row: unknown): OAuthClient | null {
  const [id, name] = [text(row, "client_id"), text(row, "name")];
  if (id === null || name === null) return null;
  return { client_id: id, name, redirect_uris: list(row, "redirect_uris").filter((uri) => typeof uri === "string") };
}

function personOf(row: unknown): Person | null {
  const [id, name, role] = [text(row, "id"), text(row, "name"), text(row, "role")];
  return id === null || name === null || role === null ? null : { id, name, role };
}

/** Return the error as a sentence for people. */
export function errorText(error: unknown): string {
  return error instanceof Error ? error.message : "The server did not respond.";
}
