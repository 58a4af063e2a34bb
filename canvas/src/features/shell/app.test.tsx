import { act, fireEvent, render, screen } from "@testing-library/react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Api } from "../../core/api/api";
import { ApiError } from "../../core/api/errors";
import { App } from "../../core/app";
import type { SessionController } from "../../core/session/sessionController";
import type { Parts } from "../instructions/model";
import { memoryStorage } from "../../core/testing/modelServer";
import { Root } from "./Root";
import { stubWindow, flushPromises } from "../../core/testing/testPage";
import type { SessionView } from "../../core/wire";

const WAY_IN = "Log in to Molecule";
const USED = "This login link was used before, or is too old.";

function sessionOf(id: string): SessionView {
  return { user: { id, name: id, kind: "person", role: "owner" }, org: { id: "org", name: "Acme" }, version: "1" };
}

/** A browser and its server: a login link works once, and the cookie decides the session. The test releases the responses. */
class Browser {
  cookie: string | null = null;
  links = new Map<string, string>();
  readonly asked: string[] = [];
  readonly tabs: App[] = [];
  answer: (path: string) => Promise<void> = () => Promise.resolve();

  constructor() {
    stubWindow();
    history.replaceState(null, "", "/app/");
    vi.stubGlobal("WebSocket", class {
      close(): void {}
      send(): void {}
    });
    vi.stubGlobal("BroadcastChannel", channels());
    vi.stubGlobal("fetch", async (path: string, { body }: RequestInit) => {
      this.asked.push(path);
      await this.answer(path);
      if (path === "/login") this.use((JSON.parse(body as string) as { code: string }).code);
      if (path === "/sessions") return Response.json(this.cookie === null ? [] : [sessionOf(this.cookie)]);
      if (path !== "/login" && path !== "/session") return new Promise<Response>(() => undefined);
      const failed = path === "/login" && this.refused ? USED : this.cookie === null ? "no session" : null;
      return failed === null ? Response.json(sessionOf(this.cookie ?? "")) : Response.json({ error: failed }, { status: 401 });
    });
  }

  async tab(link = ""): Promise<App> {
    history.replaceState(null, "", `/app/${link}`);
    const app = new App(memoryStorage());
    this.tabs.push(app);
    await app.authenticate();
    return app;
  }

  private refused = false;
  private use(code: string): void {
    const person = this.links.get(code);
    this.refused = person === undefined;
    this.cookie = person ?? this.cookie;
    this.links.delete(code);
  }
}

/** Broadcast channels that deliver at once. */
function channels(): unknown {
  const open = new Set<{ onmessage: ((message: { data: unknown }) => void) | null }>();
  return class {
    onmessage: ((message: { data: unknown }) => void) | null = null;
    constructor() {
      open.add(this);
    }
    postMessage(data: unknown): void {
      for (const each of open) if (each !== this) each.onmessage?.({ data });
    }
    close(): void {
      open.delete(this);
    }
  };
}

async function paste(app: App, code: string): Promise<void> {
  history.replaceState(null, "", `/app/#login=${code}`);
  await act(() => app.authenticate());
}

function controllerOf(app: App): SessionController | null {
  const access = app.access.get();
  return access.kind === "in" ? access.session : null;
}

let browser: Browser;
beforeEach(() => {
  Element.prototype.scrollTo = () => undefined; // jsdom has no layout and no scrolling
  browser = new Browser();
});
afterEach(() => browser.tabs.forEach((app) => controllerOf(app)?.stop()));

test("a used link opened in a fresh tab says so, and lets in by a session that is still good", async () => {
  browser.cookie = "ada";
  const app = await browser.tab("#login=used");
  render(<Root app={app} />);
  expect(screen.queryByText(WAY_IN)).toBeNull();
  expect(screen.getByRole("alert").textContent).toBe(`${USED} You are still logged in as ada.`);
  fireEvent.click(screen.getByRole("button", { name: "Dismiss" }));
  expect(screen.queryByRole("alert")).toBeNull();
});

test("a used link lets nobody in who has no session, whose end is told by the server alone", async () => {
  const app = await browser.tab("#login=used");
  expect(app.access.get()).toEqual({ kind: "out", problem: USED });
  browser.answer = (path) => (path === "/session" ? Promise.reject(new TypeError("cut")) : Promise.resolve());
  await paste(app, "used");
  expect(app.access.get().kind).toBe("unreachable");
});

test("a used link pasted into a page that is in leaves its session running", async () => {
  browser.cookie = "ada";
  const app = await browser.tab();
  const session = controllerOf(app);
  const stop = vi.spyOn(session as SessionController, "stop");
  render(<Root app={app} />);
  await paste(app, "used");
  expect([controllerOf(app) === session, stop.mock.calls.length]).toEqual([true, 0]);
  expect(screen.getByRole("alert").textContent).toContain(USED);
  expect(browser.asked.filter((path) => path === "/session")).toHaveLength(1);
});

test("a good link pasted into a page that is in stops its session once the server has said whose it is", async () => {
  browser.cookie = "ada";
  browser.links.set("good", "bob");
  const app = await browser.tab();
  const stop = vi.spyOn(controllerOf(app) as SessionController, "stop");
  let answer: () => void = () => undefined;
  browser.answer = () => new Promise((done) => (answer = done));
  const pasted = paste(app, "good");
  await flushPromises();
  expect([stop.mock.calls.length, controllerOf(app)?.identity.user.id]).toEqual([0, "ada"]);
  answer();
  await pasted;
  expect([stop.mock.calls.length, controllerOf(app)?.identity.user.id, app.linkError.get()]).toEqual([1, "bob", null]);
});

test.each(["Continue as bob", "Stay"])("a link of another person asks first: %s", async (choice) => {
  browser.cookie = "ada";
  browser.links.set("good", "bob");
  const app = await browser.tab();
  const logIn = vi.spyOn(Api.prototype, "logIn");
  const other = new ApiError(409, "other_session", "this browser is logged in", { current: "ada", other: "bob" });
  logIn.mockRejectedValueOnce(other);
  render(<Root app={app} />);
  await paste(app, "good");
  expect(controllerOf(app)?.identity.user.id).toBe("ada");
  expect(screen.getByRole("alert").textContent).toContain("This link logs in as bob. You are logged in as ada.");
  await act(async () => {
    fireEvent.click(screen.getByRole("button", { name: choice }));
    await flushPromises();
  });
  const stays = choice === "Stay";
  expect(controllerOf(app)?.identity.user.id).toBe(stays ? "ada" : "bob");
  expect(logIn.mock.calls).toEqual(stays ? [["good", false]] : [["good", false], ["good", true]]);
  expect(app.otherLogin.get()).toBeNull();
  logIn.mockRestore();
});

test("where somebody else logs in in one tab, the others ask who is in; those of the same person go on", async () => {
  browser.cookie = "ada";
  browser.links.set("bobs", "bob").set("bobs again", "bob");
  const [one, other] = [await browser.tab(), await browser.tab()];
  await paste(one, "bobs");
  await flushPromises();
  expect([controllerOf(one), controllerOf(other)].map((session) => session?.identity.user.id)).toEqual(["bob", "bob"]);
  const session = controllerOf(other);
  await paste(one, "bobs again");
  await flushPromises();
  expect(controllerOf(other)).toBe(session);
});

test("what was changed and not saved goes when its person logs out or somebody else comes, and stays for who comes back", async () => {
  browser.cookie = "ada";
  browser.links.set("bobs", "bob");
  const app = await browser.tab();
  const unsaved = (): string[] => [...app.unsaved.all.get().keys()];
  const change = (): void => app.unsaved.set(`org ${browser.cookie} support`, { parts: {} as Parts, from: 1 });
  change();
  browser.cookie = null;
  await app.authenticate();
  expect(app.access.get().kind).toBe("out");
  browser.cookie = "ada";
  await app.authenticate();
  expect(unsaved()).toEqual(["org ada support"]);
  await paste(app, "bobs");
  expect(unsaved()).toEqual([]);
  change();
  vi.spyOn(controllerOf(app) as SessionController, "logOut").mockResolvedValue();
  await app.logOut();
  expect([app.access.get(), unsaved()]).toEqual([{ kind: "out", problem: null }, []]);
});

test("whoever logs out takes what was not saved along, also if the live channel tells of it before the command is answered", async () => {
  browser.cookie = "ada";
  const app = await browser.tab();
  app.unsaved.set("org ada support", { parts: {} as Parts, from: 1 });
  let answer: () => void = () => undefined;
  const session = controllerOf(app) as SessionController;
  vi.spyOn(session.api, "logOut").mockReturnValue(new Promise((done) => (answer = () => done({}))));
  const left = app.logOut();
  app["endSession"]();
  answer();
  await left;
  expect([app.access.get(), [...app.unsaved.all.get().keys()]]).toEqual([{ kind: "out", problem: null }, []]);
});

test("what one person had in hand goes out under nobody else's session", async () => {
  browser.cookie = "ada";
  browser.links.set("bobs", "bob");
  const app = await browser.tab();
  const session = controllerOf(app) as SessionController;
  let bring: () => void = () => undefined;
  vi.spyOn(session.uploads, "send").mockReturnValue(new Promise((done) => (bring = () => done([]))));
  const sent = session.sendMessage("lead", "Here is the plan");
  await paste(app, "bobs");
  bring();
  await sent;
  expect(browser.asked.filter((path) => path.includes("lead"))).toEqual([]);
  expect(session.outbox.entries.get().map(({ text, state, again }) => [text, state, again])).toEqual([["Here is the plan", "not_sent", true]]);
});

test("a tab with several logins shows the one that its address names, else the last one", async () => {
  stubWindow();
  const asked: (string | null)[] = [];
  const logins = ["a", "b"].map((org): SessionView => ({ ...sessionOf(`ada of ${org}`), org: { id: org, name: `Org ${org}` } }));
  vi.stubGlobal("fetch", async (path: string, { headers }: RequestInit) => {
    if (path === "/sessions") return Response.json(logins);
    if (path !== "/session") return new Promise<Response>(() => undefined);
    const org = new Headers(headers).get("X-Molecule-Org");
    asked.push(org);
    const found = logins.find((each) => each.org.id === org);
    return found === undefined ? Response.json({ error: "no session" }, { status: 401 }) : Response.json(found);
  });
  const storage = memoryStorage();
  const open = async (path: string): Promise<App> => {
    history.replaceState(null, "", path);
    const app = new App(storage);
    await app.authenticate();
    await flushPromises();
    return app;
  };
  expect(controllerOf(await open("/app/o/b/settings"))?.identity.org.id).toBe("b");
  expect(location.pathname).toBe("/app/o/b/settings");
  expect(controllerOf(await open("/app/settings"))?.identity.org.id).toBe("b"); // the last one
  expect(location.pathname).toBe("/app/o/b/settings");
  expect(controllerOf(await open("/app/o/a/settings"))?.identity.org.id).toBe("a");
  const stranger = await open("/app/o/c/settings");
  expect(stranger.access.get().kind).toBe("out");
  expect(stranger.logins.get().map(({ org }) => org.id)).toEqual(["a", "b"]);
  render(<Root app={stranger} />);
  expect(screen.getAllByRole("link").map((each) => each.getAttribute("href"))).toEqual(["/app/o/a/org", "/app/o/b/org"]);
  expect(asked).toEqual(["b", null, "a", "c"]);
  history.replaceState(null, "", "/app/");
  await open("/app/");
});
