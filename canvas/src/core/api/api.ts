/** The server's HTTP side, same origin. Every refusal becomes a `Refusal` that carries a sentence for people. */

import { approvalOf, type DecisionInput, type Approval } from "../state/approvals";
import type { Delegation } from "../state/delegations";
import type { Attachment, Choice } from "../state/model";
import { chainOf, deadLetterOf, unansweredOf, unclaimedOf, type MessageChain, type DeadLetter, type Problems } from "../state/problems";
import { list, members, number, text } from "../state/json";
import type { UploadLimits } from "../text/files";
import type { ConnectPage, DelegateResponse, DelegationDetail, DelegationItem, DelegationPage, HostRow, SessionView, Snapshot, TimelinePage } from "../wire";
import { sentence } from "../text/strings";
import { NoResponseError, ApiError } from "./errors";
import { upload, type UploadOptions } from "./upload";

export { NoResponseError, ApiError };

/** A seat that was just made. */
export interface CreatedWorkspace {
  id: string;
  name: string;
  token: string;
}

/** Somebody who belongs to the organisation, or is invited to. */
export interface Person {
  id: string;
  name: string;
  role: string;
}

interface NewWorkspace {
  name: string;
  runtime?: string;
  parent_id?: string;
  role?: string;
}

export interface WorkspaceChange {
  parent_id?: string | null;
  name?: string;
  role?: string | null;
  instruction_compact?: boolean;
  instruction_shape?: string | null;
  reply_seconds?: number | null;
  send_drafts?: boolean;
}

/** A message longer than this wait counts as not sent: the person sees it and can send it again without harm. */
const TIMEOUT_MS = 20_000;

type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

/** So many pages of what is not decided are read at once. */
const MAX_PAGES = 10;

/** A message to a workspace, by its row in the log. */
export interface MessageRef {
  workspaceId: string;
  activityId: string;
}

/** A delegation, and who gave it. */
type DelegationRef = Pick<Delegation, "id" | "sourceId">;

export class Api {
  private readonly onUnauthorized: () => void;
  private closed = false;

  constructor(onUnauthorized: () => void) {
    this.onUnauthorized = () => this.closed || onUnauthorized();
  }

  /** Nothing more is asked: the browser's session may be of somebody else by now. What is on its way comes to its end. */
  close(): void {
    this.closed = true;
  }

  session(): Promise<SessionView> {
    return this.request<SessionView>("GET", "/session");
  }

  logIn(code: string): Promise<SessionView> {
    return this.request<SessionView>("POST", "/login", { code });
  }

  logOut(): Promise<unknown> {
    return this.request("POST", "/logout", {});
  }

  snapshot(orgId: string): Promise<Snapshot> {
    return this.request<Snapshot>("GET", `/orgs/${encodeURIComponent(orgId)}/snapshot`);
  }

  /** What a workspace and its people said, and what it delegated; `before` is the number of a line. */
  timeline(workspaceId: string, limit: number, before?: number): Promise<TimelinePage> {
    const older = before === undefined ? "" : `&before=${before}`;
    return this.request<TimelinePage>("GET", `${workspacePath(workspaceId)}/timeline?limit=${limit}${older}`);
  }

  delegation(id: string): Promise<DelegationDetail> {
    return this.request<DelegationDetail>("GET", `/delegations/${encodeURIComponent(id)}`);
  }

  delegations(orgId: string, limit: number, state?: string): Promise<DelegationPage> {
    const within = state === undefined ? "" : `&state=${encodeURIComponent(state)}`;
    return this.request<DelegationPage>("GET", `/orgs/${encodeURIComponent(orgId)}/delegations?limit=${limit}${within}`);
  }

  /** The newest delegations that a workspace gave or was given. */
  delegationsOf(workspaceId: string, limit: number): Promise<DelegationItem[]> {
    return this.request<DelegationItem[]>("GET", `${workspacePath(workspaceId)}/delegations?direction=both&limit=${limit}`);
  }

  /** How it stands then: what had ended stays as it was. */
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
    files: readonly Attachment[] = [],
    choice: Choice | null = null,
  ): Promise<unknown> {
    const said = words === "" ? [] : [{ kind: "text", text: words }];
    const parts = [...said, ...files.map(({ uri, name, type, size }) => ({ kind: "file", file: { uri, name, mimeType: type, size } }))];
    const metadata = choice === null ? {} : { metadata: { option_of: choice.of, option: choice.option } };
    const message = { role: "user", messageId: clientId, parts, ...metadata };
    const call = { jsonrpc: "2.0", id: clientId, method: "message/send", params: { message } };
    return this.request("POST", `${workspacePath(workspaceId)}/a2a`, call);
  }

  markRead(workspaceId: string, seq: number): Promise<unknown> {
    return this.request("POST", `${workspacePath(workspaceId)}/chat/read`, { seq }, { keepalive: true }); // the page may be closing
  }

  async problems(orgId: string): Promise<Problems> {
    const org = `/orgs/${encodeURIComponent(orgId)}`;
    const [owed, waiting, dead, frozen] = await Promise.all([
      this.request("GET", `${org}/obligations?state=unanswered&limit=100`),
      this.request("GET", `${org}/untaken`),
      this.request("GET", `${org}/dead-letters?limit=100`),
      this.request("GET", `${org}/chains?state=frozen`),
    ]);
    return {
      unanswered: list(owed, "obligations").map(unansweredOf).filter((each) => each !== null),
      moreUnanswered: members(owed)?.["reached_end"] === false,
      unclaimed: list(waiting, "untaken").map(unclaimedOf).filter((each) => each !== null),
      moreUnclaimed: members(waiting)?.["reached_end"] === false,
      deadLetters: list(dead, "dead_letters").map(deadLetterOf).filter((each) => each !== null),
      moreDeadLetters: members(dead)?.["reached_end"] === false,
      chains: list(frozen, "chains").map(chainOf).filter((each) => each !== null),
    };
  }

  /** All that are open, also those that no person has to decide. */
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

  /** Those that have ended, the newest first; `before`: one of them. */
  async approvalPage(orgId: string, before: string | null): Promise<{ approvals: Approval[]; reachedEnd: boolean }> {
    const older = before === null ? "" : `&before=${encodeURIComponent(before)}`;
    const page = await this.request("GET", `/approvals?org=${encodeURIComponent(orgId)}&state=decided${older}`);
    return { approvals: approvalsOf(page), reachedEnd: members(page)?.["reached_end"] !== false };
  }

  /** The newest that a workspace asked, or was asked. */
  async approvalsOf(workspaceId: string): Promise<Approval[]> {
    return approvalsOf(await this.request("GET", `${workspacePath(workspaceId)}/approvals?role=any`));
  }

  async approval(workspaceId: string, id: string): Promise<Approval> {
    return known(await this.request("GET", `${workspacePath(workspaceId)}/approvals/${encodeURIComponent(id)}`));
  }

  /** How it stands then. What is answered is what was shown: its revision, the hash of its action, and whose turn it was. */
  async decide({ workspaceId, id, revision, actionHash, holder }: Approval, { verdict, note, details }: DecisionInput): Promise<Approval> {
    const words = { ...(note === "" ? {} : { note }), ...(details === null ? {} : { details }) };
    const whose = verdict === "escalate" && holder.kind === "workspace" ? { holder: holder.id } : {};
    const decision = { decision: verdict, revision, action_hash: actionHash, ...whose, ...words };
    return known(await this.request("POST", `${workspacePath(workspaceId)}/approvals/${encodeURIComponent(id)}/decide`, decision));
  }

  /** Sends what an agent said and did not send, as the agent's answer: in other words if they were changed. */
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

  release(orgId: string, { rootId }: MessageChain): Promise<unknown> {
    return this.request("POST", `${chain(orgId, rootId)}/release`, {});
  }

  end(orgId: string, { rootId }: MessageChain): Promise<unknown> {
    return this.request("POST", `${chain(orgId, rootId)}/end`, {});
  }

  changeWorkspace(workspaceId: string, change: WorkspaceChange): Promise<unknown> {
    return this.request("PATCH", workspacePath(workspaceId), change);
  }

  putAside(workspaceId: string, how: "pause" | "resume" | "hibernate"): Promise<unknown> {
    return this.request("POST", `${workspacePath(workspaceId)}/${how}`, {});
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

  async rotate(workspaceId: string): Promise<string> {
    const made = await this.request("POST", `${workspacePath(workspaceId)}/external/rotate`, {});
    return text(made, "auth_token") ?? text(made, "connection", "auth_token") ?? "";
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

  /** The link that lets the invited person in once. */
  async invite(orgId: string, name: string, role: string): Promise<string> {
    return text(await this.request("POST", `/orgs/${encodeURIComponent(orgId)}/invitations`, { name, role }), "url") ?? "";
  }

  withdraw(orgId: string, invitationId: string): Promise<unknown> {
    return this.request("DELETE", `/orgs/${encodeURIComponent(orgId)}/invitations/${encodeURIComponent(invitationId)}`, {});
  }

  /** Throws Refusal, NoAnswer, Stopped. */
  async upload(workspaceId: string, file: File, watch: UploadOptions): Promise<Attachment> {
    this.checkOpen();
    try {
      return await upload(`${workspacePath(workspaceId)}/chat/uploads`, file, watch);
    } catch (error) {
      if (error instanceof ApiError && error.status === 401) this.onUnauthorized();
      throw error;
    }
  }

  async uploadLimits(): Promise<UploadLimits> {
    const told = await this.request("GET", "/uploads/limits");
    return { fileBytes: number(told, "max_file_bytes") ?? Infinity, files: number(told, "max_attachments") ?? Infinity };
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

  /** Where agents can live. */
  hosts(): Promise<HostRow[]> {
    return this.request<HostRow[]>("GET", "/hosts");
  }

  /** What to do on the agent's machine to connect a host. */
  connectPage(workspaceId: string, host: string): Promise<ConnectPage> {
    return this.request<ConnectPage>("GET", `${workspacePath(workspaceId)}/connect?host=${encodeURIComponent(host)}`);
  }

  /** One request, for what only some views ask. Throws Refusal, NoAnswer. */
  async request<T>(method: Method, path: string, body?: unknown, more?: RequestInit): Promise<T> {
    const response = await this.fetch(method, path, body, more);
    const answer: unknown = await response.json().catch(() => null);
    if (!response.ok) throw this.refusal(path, response.status, answer);
    const problem = text(answer, "error", "message");
    if (problem !== null) throw new ApiError(response.status, text(answer, "code"), sentence(problem));
    return answer as T;
  }

  private checkOpen(): void {
    if (this.closed) throw new NoResponseError("The page had been left before this was sent.");
  }

  private async fetch(method: string, path: string, body: unknown, more: RequestInit = {}): Promise<Response> {
    this.checkOpen();
    const command: RequestInit =
      method === "GET"
        ? {}
        : { body: JSON.stringify(body), headers: { "Content-Type": "application/json", "X-Molecule-Client": "canvas" } };
    try {
      return await fetch(path, { ...more, ...command, method, credentials: "same-origin", signal: AbortSignal.timeout(TIMEOUT_MS) });
    } catch {
      throw new NoResponseError("The server did not answer.");
    }
  }

  private refusal(path: string, status: number, answer: unknown): ApiError {
    if (status === 401 && path !== "/login" && path !== "/session") this.onUnauthorized();
    const words = text(answer, "error") ?? text(answer, "error", "message") ?? text(answer, "detail");
    return new ApiError(status, text(answer, "code"), sentence(words ?? `The server answered with status ${status}.`), answer);
  }
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
  if (found === null) throw new NoResponseError("The server answered with something that this page does not know. Load the page again.");
  return found;
}

function people(orgId: string): string {
  return `/orgs/${encodeURIComponent(orgId)}/people`;
}

function personOf(row: unknown): Person | null {
  const [id, name, role] = [text(row, "id"), text(row, "name"), text(row, "role")];
  return id === null || name === null || role === null ? null : { id, name, role };
}

/** What went wrong, in a sentence for people. */
export function errorText(error: unknown): string {
  return error instanceof Error ? error.message : "The server did not answer.";
}
