/** Who is logged in on this page, and what every view may use. */

import { createContext, useContext } from "react";
import { Desk } from "./session/sessionController";
import { Api, Refusal, wordsOf } from "./api/api";
import { browserRouter, type Place, type Router } from "./router";
import type { State } from "./state/model";
import { settingsStore, type Settings, type SettingsStore } from "./store/settings";
import { createStore, useSelected, useStored, type Store } from "./store/store";
import { ownerKey, Unsaved } from "./store/unsaved";
import { browserVault, type Vault } from "./store/browserStorage";
import type { SessionView } from "./wire";

type Door =
  | { kind: "checking" }
  | { kind: "unreachable"; problem: string }
  | { kind: "out"; problem: string | null }
  | { kind: "in"; desk: Desk };

const CODE = /^#login=(.+)$/;

export class App {
  readonly door: Store<Door> = createStore<Door>({ kind: "checking" });
  /** Why a link let nobody in, for whoever is in all the same; null: there is nothing to tell, or it was put away. */
  readonly refused: Store<string | null> = createStore<string | null>(null);
  readonly settings: SettingsStore;
  readonly unsaved = new Unsaved();
  readonly router: Router;
  private readonly vault: Vault;
  /** For whoever is not in yet. */
  private readonly api: Api;
  private leaving = false;
  /** Of a link that has been opened and not yet answered: it is out of the address bar, and may still be good. */
  private code: string | null = null;
  private entering: Promise<void> = Promise.resolve();

  constructor(vault: Vault = browserVault(), router: Router = browserRouter()) {
    this.vault = vault;
    this.router = router;
    this.settings = settingsStore(vault);
    this.api = new Api(() => undefined);
    window.addEventListener("storage", () => this.settings.reread());
    // A link pasted into the address bar of an open page loads nothing anew.
    window.addEventListener("hashchange", () => void (CODE.test(location.hash) && this.enter()));
  }

  /** Logs in with the code of a one-time link, also whoever is in already, or goes on with the session that the browser has.
   * One after the other: whose answer comes last has set the browser's cookie last. */
  enter(): Promise<void> {
    const code = CODE.exec(location.hash)?.[1] ?? this.code;
    if (location.hash !== "" && code !== null) history.replaceState(null, "", location.pathname + location.search);
    this.code = code;
    this.entering = this.entering.then(() => this.knock());
    return this.entering;
  }

  private async knock(): Promise<void> {
    const { code } = this;
    // Whoever is in stays so until a link is known to be good: what only this page has goes with its desk.
    if (code === null || this.door.get().kind !== "in") this.shut({ kind: "checking" });
    try {
      this.open(await (code === null ? this.api.session() : this.api.logIn(code)));
      this.forget(code);
    } catch (error) {
      await this.refuse(error, code);
    }
  }

  /** A link that was opened meanwhile is still to be tried. */
  private forget(code: string | null): void {
    if (this.code === code) this.code = null;
  }

  async logOut(): Promise<void> {
    const door = this.door.get();
    if (door.kind !== "in") return;
    this.leaving = true; // the live channel says that the session ended before the command is answered
    try {
      await door.desk.logOut();
      this.leave();
    } finally {
      this.leaving = false;
    }
  }

  private async refuse(error: unknown, code: string | null): Promise<void> {
    if (!(error instanceof Refusal)) return this.shut({ kind: "unreachable", problem: wordsOf(error) });
    this.forget(code);
    if (code === null) return this.shut({ kind: "out", problem: error.status === 401 ? null : error.message });
    if (this.door.get().kind !== "in") await this.goOn(error.message);
    if (this.door.get().kind === "in") this.refused.set(error.message);
  }

  /** A link was refused; the session that the browser has may be good all the same. */
  private async goOn(refusal: string): Promise<void> {
    try {
      this.open(await this.api.session());
    } catch (error) {
      const isOut = error instanceof Refusal && error.status === 401;
      this.shut(isOut ? { kind: "out", problem: refusal } : { kind: "unreachable", problem: wordsOf(error) });
    }
  }

  private open(session: SessionView): void {
    const desk = new Desk({
      session,
      api: new Api(() => this.leave()),
      vault: this.vault,
      onLogOut: () => this.leave(),
      onOther: () => void this.enter(),
    });
    this.refused.set(null);
    // Whoever comes back after their session has ended finds what they had changed; nobody else does.
    this.unsaved.retain((key) => key.startsWith(ownerKey(session)));
    this.shut({ kind: "in", desk });
    desk.start();
  }

  private leave(): void {
    if (this.door.get().kind !== "in") return;
    if (this.leaving) this.unsaved.retain(() => false);
    this.shut({ kind: "out", problem: this.leaving ? null : "Your session has ended." });
  }

  private shut(next: Door): void {
    const door = this.door.get();
    if (door.kind === "in") door.desk.stop();
    this.door.set(next);
  }
}

export const AppContext = createContext<App | null>(null);
export const DeskContext = createContext<Desk | null>(null);

export function useApp(): App {
  const app = useContext(AppContext);
  if (app === null) throw new Error("This view needs an app around it.");
  return app;
}

export function useDesk(): Desk {
  const desk = useContext(DeskContext);
  if (desk === null) throw new Error("This view needs a desk around it.");
  return desk;
}

/** A part of the state; only views inside the shell ask, and the shell shows them once there is a state. */
export function useData<R>(select: (state: State) => R): R {
  return useSelected(useDesk().data, (state) => select(known(state)));
}

/** The same for what is computed from all agents. */
export function useCalmData<R>(select: (state: State) => R): R {
  return useSelected(useDesk().calm, (state) => select(known(state)));
}

function known(state: State | null): State {
  if (state === null) throw new Error("The organisation has not been read yet.");
  return state;
}

export function usePlace(): Place {
  return useStored(useApp().router.place);
}

export function useSettings(): Settings {
  return useStored(useApp().settings);
}
