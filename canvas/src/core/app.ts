/** Login state of this page, and the hooks through which views reach the session. */

import { createContext, useContext } from "react";
import { SessionController } from "./session/sessionController";
import { Probe } from "./live/probe";
import { Api, ApiError, errorText } from "./api/api";
import { browserRouter, nameOrgInPaths, ORG, orgOfPath, pathOfOrg, type Place, type Router } from "./router";
import type { State } from "./state/model";
import { settingsStore, type Settings, type SettingsStore } from "./store/settings";
import { createStore, useSelected, useStored, type Store } from "./store/store";
import { ownerKey, Unsaved } from "./store/unsaved";
import { browserStorage, type KeyValueStorage } from "./store/browserStorage";
import type { LoginHelpResponse, SessionView } from "./wire";

type Access =
  | { kind: "checking" }
  | { kind: "unreachable"; problem: string }
  | { kind: "out"; problem: string | null }
  | { kind: "in"; session: SessionController };

/** Key of the organisation that was shown last, for a tab whose address names none. */
const LAST_ORG = "molecule.org";

const LOGIN_CODE = /^#login=(.+)$/;

export class App {
  readonly access: Store<Access> = createStore<Access>({ kind: "checking" });
  /** Why a login link failed while another session is active; null: there is no error, or it was dismissed. */
  readonly linkError: Store<string | null> = createStore<string | null>(null);
  /** The person of an opened login link that asks to replace the session of another person; null: there is none. */
  readonly otherLogin: Store<string | null> = createStore<string | null>(null);
  /** The server has another version of the page than this one. */
  readonly updated: Store<boolean> = createStore(false);
  /** All logins of this browser; empty until they are known. */
  readonly logins: Store<readonly SessionView[]> = createStore<readonly SessionView[]>([]);
  readonly settings: SettingsStore;
  readonly unsaved = new Unsaved();
  readonly router: Router;
  private readonly storage: KeyValueStorage;
  /** Used while no session is active. */
  private readonly api: Api;
  private hasRetried = false;
  private loggingOut = false;
  /** The code of a login link that was opened and has no response yet. It is no longer in the address bar and may still be
   * valid. */
  private code: string | null = null;
  private pendingLogin: Promise<void> = Promise.resolve();

  constructor(storage: KeyValueStorage = browserStorage(), router: Router = browserRouter()) {
    this.storage = storage;
    this.router = router;
    this.settings = settingsStore(storage);
    this.api = new Api(() => undefined);
    nameOrgInPaths(orgOfPath(location.pathname));
    window.addEventListener("storage", () => this.settings.reread());
    // Pasting a link into the address bar of an open page does not reload the page.
    window.addEventListener("hashchange", () => void (LOGIN_CODE.test(location.hash) && this.authenticate()));
  }

  /** Log in with the code of a one-time link, or resume the browser's session. Attempts run one after the other, since the
   * last response sets the browser's cookie. */
  authenticate(): Promise<void> {
    const code = LOGIN_CODE.exec(location.hash)?.[1] ?? this.code;
    if (location.hash !== "" && code !== null) history.replaceState(null, "", location.pathname + location.search);
    this.code = code;
    this.pendingLogin = this.pendingLogin.then(() => this.tryAuthenticate(false));
    return this.pendingLogin;
  }

  /** Replace the session by one of the person in `otherLogin`. */
  replaceSession(): Promise<void> {
    this.otherLogin.set(null);
    this.pendingLogin = this.pendingLogin.then(() => this.tryAuthenticate(true));
    return this.pendingLogin;
  }

  keepSession(): void {
    this.otherLogin.set(null);
    this.code = null;
  }

  /** Authenticate when the server answers. Returns what ends the wait. The first answer counts once: where the server answers
   * and the session cannot be read, only a server that was away meanwhile is worth another try. */
  awaitServer(): () => void {
    const probe = new Probe(
      () => this.api.isReachable(),
      () => {
        this.hasRetried = true;
        void this.authenticate();
      },
    );
    probe.start({ wasAway: !this.hasRetried });
    return () => probe.stop();
  }

  private async tryAuthenticate(replaces: boolean): Promise<void> {
    const { code } = this;
    // An active session stays open until the link is known to be valid: closing it would lose what only this page holds.
    if (code === null || this.access.get().kind !== "in") this.setAccess({ kind: "checking" });
    try {
      this.openSession(await (code === null ? this.resume() : this.api.logIn(code, replaces)));
      this.forgetCode(code);
    } catch (error) {
      await this.handleFailure(error, code);
    }
  }

  /** A link that was opened meanwhile keeps its code. */
  private forgetCode(code: string | null): void {
    if (this.code === code) this.code = null;
  }

  /** How a person gets a login link. */
  loginHelp(): Promise<LoginHelpResponse> {
    return this.api.loginHelp();
  }

  async logOut(): Promise<void> {
    const access = this.access.get();
    if (access.kind !== "in") return;
    this.loggingOut = true; // the live connection reports the end of the session before the response arrives
    try {
      await access.session.logOut();
      void import("./live/shellWorker").then((found) => found.removeShellWorker(), () => undefined);
      this.endSession();
    } finally {
      this.loggingOut = false;
    }
  }

  private async handleFailure(error: unknown, code: string | null): Promise<void> {
    if (!(error instanceof ApiError)) return this.setAccess({ kind: "unreachable", problem: errorText(error) });
    if (error.code === "other_session") {
      if (this.access.get().kind !== "in") await this.resumeSession(error.message);
      this.otherLogin.set((error.body as { other: string }).other);
      return;
    }
    this.forgetCode(code);
    if (code === null) return this.setAccess({ kind: "out", problem: error.status === 401 ? null : error.message });
    if (this.access.get().kind !== "in") await this.resumeSession(error.message);
    if (this.access.get().kind === "in") this.linkError.set(error.message);
  }

  /** The login of the organisation that the address names; without one the only login, or the last one that was used. */
  private async resume(): Promise<SessionView> {
    const named = orgOfPath(location.pathname);
    try {
      return await new Api(() => undefined, named).session();
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 401) throw error;
      const logins = await this.api.sessions().catch(() => []);
      this.logins.set(logins);
      const last = this.storage.get(LAST_ORG);
      const found = named === null ? (logins.find(({ org }) => org.id === last) ?? logins[0]) : undefined;
      if (found === undefined) throw error;
      return found;
    }
  }

  /** Read the logins of this browser. With several, the addresses of this tab name its organisation. */
  async readLogins(): Promise<void> {
    const logins = await this.api.sessions().catch(() => null);
    if (logins === null) return;
    this.logins.set(logins);
    const access = this.access.get();
    if (access.kind !== "in") return;
    if (nameOrgInPaths(logins.length > 1 ? access.session.identity.org.id : null)) this.router.rename();
  }

  /** Show another organisation. The page is loaded anew: nothing of this one stays in it. */
  switchTo(orgId: string): void {
    location.assign(pathOfOrg(orgId));
  }

  /** Resume the browser's session after a link was rejected. */
  private async resumeSession(refusal: string): Promise<void> {
    try {
      this.openSession(await this.resume());
    } catch (error) {
      const isOut = error instanceof ApiError && error.status === 401;
      this.setAccess(isOut ? { kind: "out", problem: refusal } : { kind: "unreachable", problem: errorText(error) });
    }
  }

  private openSession(identity: SessionView): void {
    const before = this.access.get();
    const session = new SessionController({
      identity,
      api: new Api(() => this.endSession(), identity.org.id),
      storage: this.storage,
      onLogOut: () => this.endSession(),
      onOther: () => void this.authenticate(),
      onLogins: () => void this.readLogins(),
    });
    this.storage.set(LAST_ORG, identity.org.id);
    // The place belongs to the organisation that was shown.
    if (before.kind === "in" && before.session.identity.org.id !== identity.org.id) this.router.go(ORG, { replace: true });
    this.linkError.set(null);
    this.otherLogin.set(null);
    // The same person gets their unsaved changes back after the session has ended; other people's are dropped.
    this.unsaved.retain((key) => key.startsWith(ownerKey(identity)));
    this.setAccess({ kind: "in", session });
    this.hasRetried = false;
    session.start();
    void this.readLogins();
  }

  private endSession(): void {
    if (this.access.get().kind !== "in") return;
    if (this.loggingOut) this.unsaved.retain(() => false);
    this.setAccess({ kind: "out", problem: this.loggingOut ? null : "Your session has ended." });
    void this.readLogins();
  }

  private setAccess(next: Access): void {
    const access = this.access.get();
    if (access.kind === "in") access.session.stop();
    this.access.set(next);
  }
}

export const AppContext = createContext<App | null>(null);
export const SessionContext = createContext<SessionController | null>(null);

export function useApp(): App {
  const app = useContext(AppContext);
  if (app === null) throw new Error("useApp must be called inside the app.");
  return app;
}

export function useSession(): SessionController {
  const session = useContext(SessionContext);
  if (session === null) throw new Error("useSession must be called inside a session.");
  return session;
}

/** Select a part of the state. Only for views inside the shell, which renders them once there is a state. */
export function useData<R>(select: (state: State) => R): R {
  return useSelected(useSession().data, (state) => select(requireState(state)));
}

/** Like `useData`, throttled in a large organisation: for values computed from all agents. */
export function useThrottledData<R>(select: (state: State) => R): R {
  return useSelected(useSession().throttledData, (state) => select(requireState(state)));
}

function requireState(state: State | null): State {
  if (state === null) throw new Error("The organisation is not loaded yet.");
  return state;
}

export function usePlace(): Place {
  return useStored(useApp().router.place);
}

export function useSettings(): Settings {
  return useStored(useApp().settings);
}
