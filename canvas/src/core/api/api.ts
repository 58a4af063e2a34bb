/** The server's HTTP side, same origin. Every refusal becomes a `Refusal` that carries a sentence for people. */

import { approvalOf, type Answer, type Approval } from "../state/approvals";
import type { Delegation } from "../state/delegations";
import type { Attachment, Choice } from "../state/model";
import { chainOf, deadLetterOf, unansweredOf, untakenOf, type Chain, type DeadLetter, type Problems } from "../state/problems";
import { list, members, number, text } from "../state/json";
import type { UploadLimits } from "../text/files";
import type { ConnectPage, DelegateResponse, DelegationDetail, DelegationItem, DelegationPage, HostRow, SessionView, Snapshot, TimelinePage } from "../wire";
import { sentence } from "../text/words";
import { NoAnswer, Refusal } from "./errors";
import { upload, type Watch } from "./upload";

export { NoAnswer, Refusal };

/** A seat that was just made. */
export interface Connection {
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

interface NewSeat {
  name: string;
  runtime?: string;
  parent_id?: string;
  role?: string;
}

export interface SeatChange {
  parent_id?: string | null;
  name?: string;
  role?: string | null;
  instruction_compact?: boolean;
  instruction_shape?: string | null;
  reply_seconds?: number | null;
  send_drafts?: boolean;
}

/** A message longer than this wait counts as not sent: the person sees it and can send it again without harm. */
const PATIENCE_MS = 20_000;

type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

/** So many pages of what is not decided are read at once. */
const MOST_PAGES = 10;

/** A message to a workspace, by its row in the log. */
export interface Asked {
  workspaceId: string;
  activityId: string;
}

/** A delegation, and who gave it. */
type Given = Pick<Delegation, "id" | "sourceId">;

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
    return this.ask<SessionView>("GET", "/session");
  }

  logIn(code: string): Promise<SessionView> {
    return this.ask<SessionView>("POST", "/login", { code });
  }

  logOut(): Promise<unknown> {
    return this.ask("POST", "/logout", {});
  }

  snapshot(orgId: string): Promise<Snapshot> {
    return this.ask<Snapshot>("GET", `/orgs/${encodeURIComponent(orgId)}/snapshot`);
  }

  /** What a workspace and its people said, and what it delegated; `before` is the number of a line. */
  timeline(workspaceId: string, limit: number, before?: number): Promise<TimelinePage> {
    const older = before === undefined ? "" : `&before=${before}`;
    return this.ask<TimelinePage>("GET", `${seat(workspaceId)}/timeline?limit=${limit}${older}`);
  }

  delegation(id: string): Promise<DelegationDetail> {
    return this.ask<DelegationDetail>("GET", `/delegations/${encodeURIComponent(id)}`);
  }

  delegations(orgId: string, limit: number, state?: string): Promise<DelegationPage> {
    const within = state === undefined ? "" : `&state=${encodeURIComponent(state)}`;
    return this.ask<DelegationPage>("GET", `/orgs/${encodeURIComponent(orgId)}/delegations?limit=${limit}${within}`);
  }

  /** The newest delegations that a workspace gave or was given. */
  delegationsOf(workspaceId: string, limit: number): Promise<DelegationItem[]> {
    return this.ask<DelegationItem[]>("GET", `${seat(workspaceId)}/delegations?direction=both&limit=${limit}`);
  }

  /** How it stands then: what had ended stays as it was. */
  cancel({ sourceId, id }: Given): Promise<DelegationItem> {
    return this.ask<DelegationItem>("POST", `${seat(sourceId)}/delegations/${encodeURIComponent(id)}/cancel`, {});
  }

  retry({ sourceId, id }: Given): Promise<DelegateResponse> {
    return this.ask<DelegateResponse>("POST", `${seat(sourceId)}/delegations/${encodeURIComponent(id)}/retry`, {});
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
    return this.ask("POST", `${seat(workspaceId)}/a2a`, call);
  }

  markRead(workspaceId: string, seq: number): Promise<unknown> {
    return this.ask("POST", `${seat(workspaceId)}/chat/read`, { seq }, { keepalive: true }); // the page may be closing
  }

  async problems(orgId: string): Promise<Problems> {
    const org = `/orgs/${encodeURIComponent(orgId)}`;
    const [owed, waiting, dead, frozen] = await Promise.all([
      this.ask("GET", `${org}/obligations?state=unanswered&limit=100`),
      this.ask("GET", `${org}/untaken`),
      this.ask("GET", `${org}/dead-letters?limit=100`),
      this.ask("GET", `${org}/chains?state=frozen`),
    ]);
    return {
      unanswered: list(owed, "obligations").map(unansweredOf).filter((each) => each !== null),
      moreUnanswered: members(owed)?.["reached_end"] === false,
      untaken: list(waiting, "untaken").map(untakenOf).filter((each) => each !== null),
      moreUntaken: members(waiting)?.["reached_end"] === false,
      deadLetters: list(dead, "dead_letters").map(deadLetterOf).filter((each) => each !== null),
      moreDeadLetters: members(dead)?.["reached_end"] === false,
      chains: list(frozen, "chains").map(chainOf).filter((each) => each !== null),
    };
  }

  /** All that are open, also those that no person has to decide. */
  async pendingApprovals(orgId: string): Promise<Approval[]> {
    const all: Approval[] = [];
    for (let pages = 0; pages < MOST_PAGES; pages += 1) {
      const after = all.at(-1) === undefined ? "" : `&after=${encodeURIComponent(all.at(-1)?.id ?? "")}`;
      const page = await this.ask("GET", `/approvals/pending?org=${encodeURIComponent(orgId)}${after}`);
      all.push(...approvalsOf(page));
      if (members(page)?.["reached_end"] !== false) break;
    }
    return all;
  }

  /** Those that have ended, the newest first; `before`: one of them. */
  async approvalPage(orgId: string, before: string | null): Promise<{ approvals: Approval[]; reachedEnd: boolean }> {
    const older = before === null ? "" : `&before=${encodeURIComponent(before)}`;
    const page = await this.ask("GET", `/approvals?org=${encodeURIComponent(orgId)}&state=decided${older}`);
    return { approvals: approvalsOf(page), reachedEnd: members(page)?.["reached_end"] !== false };
  }

  /** The newest that a workspace asked, or was asked. */
  async approvalsOf(workspaceId: string): Promise<Approval[]> {
    return approvalsOf(await this.ask("GET", `${seat(workspaceId)}/approvals?role=any`));
  }

  async approval(workspaceId: string, id: string): Promise<Approval> {
    return known(await this.ask("GET", `${seat(workspaceId)}/approvals/${encodeURIComponent(id)}`));
  }

  /** How it stands then. What is answered is what was shown: its revision, the hash of its action, and whose turn it was. */
  async decide({ workspaceId, id, revision, actionHash, holder }: Approval, { verdict, note, details }: Answer): Promise<Approval> {
    const words = { ...(note === "" ? {} : { note }), ...(details === null ? {} : { details }) };
    const whose = verdict === "escalate" && holder.kind === "workspace" ? { holder: holder.id } : {};
    const decision = { decision: verdict, revision, action_hash: actionHash, ...whose, ...words };
    return known(await this.ask("POST", `${seat(workspaceId)}/approvals/${encodeURIComponent(id)}/decide`, decision));
  }

  /** Sends what an agent said and did not send, as the agent's answer: in other words if they were changed. */
  sendDraft(asked: Asked, words: string | null): Promise<unknown> {
    return this.ask("POST", `${draft(asked)}/send`, words === null ? {} : { text: words });
  }

  discardDraft(asked: Asked): Promise<unknown> {
    return this.ask("POST", `${draft(asked)}/discard`, {});
  }

  requeue({ workspaceId, activityId }: DeadLetter): Promise<unknown> {
    return this.ask("POST", `${deadLetter(workspaceId, activityId)}/requeue`, {});
  }

  discard({ workspaceId, activityId }: DeadLetter): Promise<unknown> {
    return this.ask("DELETE", deadLetter(workspaceId, activityId), {});
  }

  release(orgId: string, { rootId }: Chain): Promise<unknown> {
    return this.ask("POST", `${chain(orgId, rootId)}/release`, {});
  }

  end(orgId: string, { rootId }: Chain): Promise<unknown> {
    return this.ask("POST", `${chain(orgId, rootId)}/end`, {});
  }

  changeSeat(workspaceId: string, change: SeatChange): Promise<unknown> {
    return this.ask("PATCH", seat(workspaceId), change);
  }

  putAside(workspaceId: string, how: "pause" | "resume" | "hibernate"): Promise<unknown> {
    return this.ask("POST", `${seat(workspaceId)}/${how}`, {});
  }

  removeSeat(workspaceId: string, name: string): Promise<unknown> {
    return this.ask("DELETE", `${seat(workspaceId)}?confirm=true&name=${encodeURIComponent(name)}`, {});
  }

  collapse(workspaceId: string): Promise<unknown> {
    return this.ask("POST", `${seat(workspaceId)}/collapse?confirm=true`, {});
  }

  setAbilities(workspaceId: string, abilities: { broadcast_enabled?: boolean; talk_to_user_enabled?: boolean }): Promise<unknown> {
    return this.ask("PATCH", `${seat(workspaceId)}/abilities`, abilities);
  }

  async rotate(workspaceId: string): Promise<string> {
    const made = await this.ask("POST", `${seat(workspaceId)}/external/rotate`, {});
    return text(made, "auth_token") ?? text(made, "connection", "auth_token") ?? "";
  }

  async people(orgId: string): Promise<readonly Person[]> {
    return list(await this.ask("GET", people(orgId))).map(personOf).filter((each) => each !== null);
  }

  changePerson(orgId: string, personId: string, role: string): Promise<unknown> {
    return this.ask("PATCH", `${people(orgId)}/${encodeURIComponent(personId)}`, { role });
  }

  removePerson(orgId: string, personId: string): Promise<unknown> {
    return this.ask("DELETE", `${people(orgId)}/${encodeURIComponent(personId)}`, {});
  }

  async invitations(orgId: string): Promise<readonly Person[]> {
    return list(await this.ask("GET", `/orgs/${encodeURIComponent(orgId)}/invitations`)).map(personOf).filter((each) => each !== null);
  }

  /** The link that lets the invited person in once. */
  async invite(orgId: string, name: string, role: string): Promise<string> {
    return text(await this.ask("POST", `/orgs/${encodeURIComponent(orgId)}/invitations`, { name, role }), "url") ?? "";
  }

  withdraw(orgId: string, invitationId: string): Promise<unknown> {
    return this.ask("DELETE", `/orgs/${encodeURIComponent(orgId)}/invitations/${encodeURIComponent(invitationId)}`, {});
  }

  /** Throws Refusal, NoAnswer, Stopped. */
  async upload(workspaceId: string, file: File, watch: Watch): Promise<Attachment> {
    this.checkOpen();
    try {
      return await upload(`${seat(workspaceId)}/chat/uploads`, file, watch);
    } catch (error) {
      if (error instanceof Refusal && error.status === 401) this.onUnauthorized();
      throw error;
    }
  }

  async uploadLimits(): Promise<UploadLimits> {
    const told = await this.ask("GET", "/uploads/limits");
    return { fileBytes: number(told, "max_file_bytes") ?? Infinity, files: number(told, "max_attachments") ?? Infinity };
  }

  async createSeat(wanted: NewSeat): Promise<Connection> {
    const made = await this.ask("POST", "/workspaces", { ...wanted, external: true });
    const said = (...path: string[]): string => text(made, ...path) ?? "";
    return {
      id: said("id"),
      name: said("name") || wanted.name,
      token: said("connection", "auth_token"),
    };
  }

  /** Where agents can live. */
  hosts(): Promise<HostRow[]> {
    return this.ask<HostRow[]>("GET", "/hosts");
  }

  /** What to do on the agent's machine to connect a host. */
  connectPage(workspaceId: string, host: string): Promise<ConnectPage> {
    return this.ask<ConnectPage>("GET", `${seat(workspaceId)}/connect?host=${encodeURIComponent(host)}`);
  }

  /** One request, for what only some views ask. Throws Refusal, NoAnswer. */
  async ask<T>(method: Method, path: string, body?: unknown, more?: RequestInit): Promise<T> {
    const response = await this.fetch(method, path, body, more);
    const answer: unknown = await response.json().catch(() => null);
    if (!response.ok) throw this.refusal(path, response.status, answer);
    const problem = text(answer, "error", "message");
    if (problem !== null) throw new Refusal(response.status, text(answer, "code"), sentence(problem));
    return answer as T;
  }

  private checkOpen(): void {
    if (this.closed) throw new NoAnswer("The page had been left before this was sent.");
  }

  private async fetch(method: string, path: string, body: unknown, more: RequestInit = {}): Promise<Response> {
    this.checkOpen();
    const command: RequestInit =
      method === "GET"
        ? {}
        : { body: JSON.stringify(body), headers: { "Content-Type": "application/json", "X-Molecule-Client": "canvas" } };
    try {
      return await fetch(path, { ...more, ...command, method, credentials: "same-origin", signal: AbortSignal.timeout(PATIENCE_MS) });
    } catch {
      throw new NoAnswer("The server did not answer.");
    }
  }

  private refusal(path: string, status: number, answer: unknown): Refusal {
    if (status === 401 && path !== "/login" && path !== "/session") this.onUnauthorized();
    const words = text(answer, "error") ?? text(answer, "error", "message") ?? text(answer, "detail");
    return new Refusal(status, text(answer, "code"), sentence(words ?? `The server answered with status ${status}.`), answer);
  }
}

function seat(workspaceId: string): string {
  return `/workspaces/${encodeURIComponent(workspaceId)}`;
}

function draft({ workspaceId, activityId }: Asked): string {
  return `${seat(workspaceId)}/messages/${encodeURIComponent(activityId)}/draft`;
}

function deadLetter(workspaceId: string, activityId: string): string {
  return `${seat(workspaceId)}/dead-letters/${encodeURIComponent(activityId)}`;
}

function chain(orgId: string, rootId: string): string {
  return `/orgs/${encodeURIComponent(orgId)}/chains/${encodeURIComponent(rootId)}`;
}

function approvalsOf(answer: unknown): Approval[] {
  return list(answer, "approvals").map(approvalOf).filter((each) => each !== null);
}

function known(answer: unknown): Approval {
  const found = approvalOf(answer);
  if (found === null) throw new NoAnswer("The server answered with something that this page does not know. Load the page again.");
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
export function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message : "The server did not answer.";
}
