/** The server's HTTP side, same origin. Every refusal becomes a `Refusal` that carries a sentence for people. */

import type { Attachment } from "../state/model";
import { number, text } from "../state/reading";
import type { UploadLimits } from "../text/files";
import type { ChatPage, Session, Snapshot } from "../wire";
import { NoAnswer, Refusal, sentence } from "./answers";
import { upload, type Watch } from "./upload";

export { NoAnswer, Refusal };

export interface Connection {
  id: string;
  name: string;
  token: string;
  curl: string;
  python: string;
}

interface NewSeat {
  name: string;
  parent_id?: string;
  role?: string;
}

/** A message longer than this wait counts as not sent: the person sees it and can send it again without harm. */
const PATIENCE_MS = 20_000;

export class Api {
  private readonly onUnauthorized: () => void;

  constructor(onUnauthorized: () => void) {
    this.onUnauthorized = onUnauthorized;
  }

  session(): Promise<Session> {
    return this.ask<Session>("GET", "/session");
  }

  logIn(code: string): Promise<Session> {
    return this.ask<Session>("POST", "/login", { code });
  }

  logOut(): Promise<unknown> {
    return this.ask("POST", "/logout", {});
  }

  snapshot(orgId: string): Promise<Snapshot> {
    return this.ask<Snapshot>("GET", `/orgs/${encodeURIComponent(orgId)}/snapshot`);
  }

  history(workspaceId: string, limit: number, before?: string): Promise<ChatPage> {
    const older = before === undefined ? "" : `&before=${encodeURIComponent(before)}`;
    return this.ask<ChatPage>("GET", `${seat(workspaceId)}/chat-history?limit=${limit}${older}`);
  }

  send(workspaceId: string, clientId: string, words: string, files: readonly Attachment[] = []): Promise<unknown> {
    const said = words === "" ? [] : [{ kind: "text", text: words }];
    const parts = [...said, ...files.map(({ uri, name, type, size }) => ({ kind: "file", file: { uri, name, mimeType: type, size } }))];
    const message = { role: "user", messageId: clientId, parts };
    const call = { jsonrpc: "2.0", id: clientId, method: "message/send", params: { message } };
    return this.ask("POST", `${seat(workspaceId)}/a2a`, call);
  }

  markRead(workspaceId: string, seq: number): Promise<unknown> {
    return this.ask("POST", `${seat(workspaceId)}/chat/read`, { seq });
  }

  /** Throws Refusal, NoAnswer, Stopped. */
  async upload(workspaceId: string, file: File, watch: Watch): Promise<Attachment> {
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
      curl: said("connection", "curl"),
      python: said("connection", "python"),
    };
  }

  private async ask<T>(method: "GET" | "POST", path: string, body?: unknown): Promise<T> {
    const response = await this.fetch(method, path, body);
    const answer: unknown = await response.json().catch(() => null);
    if (!response.ok) throw this.refusal(path, response.status, answer);
    const problem = text(answer, "error", "message");
    if (problem !== null) throw new Refusal(response.status, text(answer, "code"), sentence(problem));
    return answer as T;
  }

  private async fetch(method: string, path: string, body: unknown): Promise<Response> {
    const command: RequestInit =
      method === "GET"
        ? {}
        : { body: JSON.stringify(body), headers: { "Content-Type": "application/json", "X-Molecule-Client": "canvas" } };
    try {
      return await fetch(path, { ...command, method, credentials: "same-origin", signal: AbortSignal.timeout(PATIENCE_MS) });
    } catch {
      throw new NoAnswer("The server did not answer.");
    }
  }

  private refusal(path: string, status: number, answer: unknown): Refusal {
    if (status === 401 && path !== "/login" && path !== "/session") this.onUnauthorized();
    const words = text(answer, "error") ?? text(answer, "error", "message") ?? text(answer, "detail");
    return new Refusal(status, text(answer, "code"), sentence(words ?? `The server answered with status ${status}.`));
  }
}

function seat(workspaceId: string): string {
  return `/workspaces/${encodeURIComponent(workspaceId)}`;
}

/** What went wrong, in a sentence for people. */
export function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message : "The server did not answer.";
}
