/** Render views in a session whose server is the test's model. */

import { act, render, type RenderResult } from "@testing-library/react";
import type { ReactNode } from "react";
import { vi } from "vitest";
import { App, AppContext, SessionContext } from "../app";
import { SessionController } from "../session/sessionController";
import { Api } from "../api/api";
import { applyAll } from "../state/apply";
import { NO_PROBLEMS } from "../state/problems";
import { applySnapshot } from "../state/snapshot";
import { memoryStorage, ModelServer } from "./modelServer";
import type { KeyValueStorage } from "../store/browserStorage";
import type { ConnectPage, ConnectStep, HostRow, SessionView } from "../wire";

/** Stub what jsdom lacks. */
export function stubWindow(): void {
  vi.stubGlobal("matchMedia", (media: string) => ({ media, matches: false, addEventListener: () => undefined, removeEventListener: () => undefined }));
  vi.stubGlobal(
    "ResizeObserver",
    class {
      observe(): void {}
      disconnect(): void {}
    },
  );
  HTMLElement.prototype.scrollIntoView ??= () => undefined;
  HTMLDialogElement.prototype.showModal ??= function showModal(this: HTMLDialogElement) {
    this.open = true;
  };
}

const HOSTS: HostRow[] = [
  { name: "codex", title: "Codex", runtime: "codex" },
  { name: "curl", title: "curl", runtime: "generic-mcp" },
];

/** The setup steps of a host: one command where it has one, and steps by hand. */
function pageOf(workspaceId: string, host: string): ConnectPage {
  const step = (title: string, text: string): ConnectStep => ({ title, text, language: "sh", hint: `How to: ${title}` });
  const quick = host === "codex" ? step("The quick way", `molecule connect codex --workspace ${workspaceId}`) : null;
  const by_hand = [step("Keep the token", "cat > token"), step(`Lines for ${host}`, `lines of ${host} for ${workspaceId}`)];
  return { host, title: host, workspace_id: workspaceId, quick, by_hand };
}

export class TestPage {
  readonly server = new ModelServer();
  readonly api = new Api(() => undefined);
  readonly storage: KeyValueStorage;
  readonly app: App;
  readonly session: SessionController;

  constructor({ role = "owner", storage = memoryStorage() }: { role?: string; storage?: KeyValueStorage } = {}) {
    stubWindow();
    this.storage = storage;
    const session: SessionView = { user: { id: "ada", name: "Ada", kind: "person", role }, org: { id: "org", name: "Acme" }, version: "1" };
    this.app = new App(storage);
    this.session = new SessionController({ identity: session, api: this.api, storage, onLogOut: () => undefined, onOther: () => undefined, onLogins: () => undefined });
    vi.spyOn(this.api, "markRead").mockResolvedValue({});
    vi.spyOn(this.api, "problems").mockResolvedValue(NO_PROBLEMS);
    vi.spyOn(this.api, "people").mockResolvedValue([]);
    vi.spyOn(this.api, "hosts").mockResolvedValue(HOSTS);
    vi.spyOn(this.api, "connectPage").mockImplementation((id, host) => Promise.resolve(pageOf(id, host)));
    vi.spyOn(this.api, "invitations").mockResolvedValue([]);
    vi.spyOn(this.api, "oauthClients").mockResolvedValue([]);
    vi.spyOn(this.api, "connectedApps").mockResolvedValue([]);
    vi.spyOn(this.api, "approvalsOf").mockResolvedValue([]);
    vi.spyOn(this.api, "uploadLimits").mockResolvedValue({ fileBytes: 1_000_000, files: 3 });
    vi.spyOn(this.api, "timeline").mockImplementation((id) => Promise.resolve({ items: this.server.timeline(id), reached_end: true }));
  }

  /** Load a snapshot. */
  load(): this {
    this.session.data.set(applySnapshot(null, this.server.snapshot()));
    return this;
  }

  /** Simulate a reconnect: the page receives a new snapshot. */
  cutOff(): void {
    act(() => this.session["receiveSnapshot"](this.server.snapshot()));
  }

  /** Deliver all journal events that the page has not applied. */
  deliver(): void {
    const own = this.server.journal.map((frame) => frame.client_id).filter((id) => id !== undefined);
    act(() => {
      this.session.data.update((state) => state && applyAll(state, this.server.journal));
      this.session.outbox.settle(new Set(own));
    });
  }

  /** Send a heartbeat of a working agent. */
  beat(id: string, timestamp: string): void {
    const payload = { active_tasks: 1, uptime_seconds: 60, current_task: "page 3", last_heard_at: timestamp };
    const frame = { event: "WORKSPACE_HEARTBEAT", workspace_id: id, timestamp, payload, entity: { kind: "workspace", id, rev: 0 } };
    act(() => this.session.data.update((state) => state && applyAll(state, [frame])));
  }

  show(view: ReactNode): RenderResult {
    return render(this.around(view));
  }

  /** The view inside this session, to render it again. */
  around(view: ReactNode): ReactNode {
    return (
      <AppContext value={this.app}>
        <SessionContext value={this.session}>{view}</SessionContext>
      </AppContext>
    );
  }
}

/** For lazily loaded views: long enough for a busy machine. */
export const PATIENT = { timeout: 5_000 };

/** Wait until resolved promises have been handled. */
export async function flushPromises(): Promise<void> {
  await act(async () => {
    for (let turn = 0; turn < 8; turn += 1) await Promise.resolve();
  });
}
