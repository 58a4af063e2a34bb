import { cleanup, fireEvent, render, screen } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { App, AppContext } from "../../core/app";
import { NoResponseError, ApiError } from "../../core/api/api";
import { memoryStorage } from "../../core/testing/modelServer";
import { ConnectView } from "../connect/ConnectView";
import { Login } from "./Login";
import { Root } from "./Root";
import { SettingsView } from "../settings/SettingsView";
import { TestPage, stubWindow, flushPromises } from "../../core/testing/testPage";

const TOKEN = "mol_ws_secret-of-the-seat";

test("who is not logged in reads how to, and why a link failed", async () => {
  stubWindow();
  const app = new App(memoryStorage());
  vi.spyOn(app, "loginHelp").mockResolvedValue({ command: "/opt/molecule login-link --port 80", is_exact: true, needs_admin_token: false });
  render(
    <AppContext value={app}>
      <Login problem="This link was used already." />
    </AppContext>,
  );
  expect(screen.getByRole("alert").textContent).toBe("This link was used already.");
  expect(screen.getByText("molecule login-link")).toBeTruthy();
  expect(screen.getByText(/Add/).textContent).toContain("--state-dir");
  await flushPromises();
  expect(screen.getByText("/opt/molecule login-link --port 80")).toBeTruthy();
  expect(screen.queryByText("molecule login-link")).toBeNull();
});

test("the code of a link leaves the address before anything else happens, and is sent once", async () => {
  stubWindow();
  history.replaceState(null, "", "/app/org?focus=x#login=one-time-code");
  const fetched = vi.fn().mockResolvedValue(Response.json({ error: "This link was used already." }, { status: 401 }));
  vi.stubGlobal("fetch", fetched);
  const app = new App(memoryStorage());
  const entering = app.authenticate();
  expect(location.href).not.toContain("one-time-code");
  render(<Root app={app} />);
  await entering;
  await flushPromises();
  expect(fetched.mock.calls.map(([asked]) => asked as string)).toEqual(["/login", "/session", "/sessions", "/login"]); // it may resume by its cookies
  const [path, request] = fetched.mock.calls[0] as [string, RequestInit];
  expect([path, request.method, request.body]).toEqual(["/login", "POST", '{"code":"one-time-code"}']);
  expect(request.headers).toMatchObject({ "X-Molecule-Client": "canvas", "Content-Type": "application/json" });
  expect(screen.getByRole("alert").textContent).toBe("This link was used already.");
});

test("a server that does not answer is told from not being logged in", async () => {
  stubWindow();
  history.replaceState(null, "", "/app/org");
  vi.stubGlobal("fetch", vi.fn().mockRejectedValue(new TypeError("failed")));
  const app = new App(memoryStorage());
  await app.authenticate();
  render(<Root app={app} />);
  expect(screen.getByText("Cannot reach Molecule")).toBeTruthy();
  expect(screen.getByRole("button", { name: "Try again" })).toBeTruthy();
});

test("a seat's token is shown once, and is nowhere after it was hidden", async () => {
  const page = new TestPage();
  page.server.do({ verb: "create", id: "lead", parent: null });
  page.load();
  const create = vi.spyOn(page.api, "createWorkspace").mockResolvedValue({ id: "n", name: "Nora", token: TOKEN });
  page.show(<ConnectView />);
  await flushPromises();
  fireEvent.click(screen.getByRole("button", { name: "Create workspace" }));
  expect(screen.getByRole("alert").textContent).toContain("Enter a name for the agent");
  fireEvent.change(screen.getByLabelText("Name"), { target: { value: " Nora " } });
  fireEvent.change(screen.getByLabelText("Reports to"), { target: { value: "lead" } });
  fireEvent.click(screen.getByRole("button", { name: "Create workspace" }));
  await flushPromises();
  expect(create).toHaveBeenCalledExactlyOnceWith({ name: "Nora", parent_id: "lead", runtime: "codex" });
  expect(document.body.innerHTML.split(TOKEN).length - 1).toBe(1);
  fireEvent.click(screen.getByRole("button", { name: "Done" }));
  expect(document.body.innerHTML).not.toContain(TOKEN);
  expect(screen.getByText(/^The token is hidden/).textContent).toContain("issue a new one with “New token…” under About");
  expect(JSON.stringify(localStorage) + location.href).not.toContain(TOKEN);
});

async function made(): Promise<TestPage> {
  const page = new TestPage().load();
  vi.spyOn(page.api, "createWorkspace").mockResolvedValue({ id: "n", name: "Nora", token: TOKEN });
  vi.spyOn(page.app.router, "go").mockReturnValue();
  page.show(<ConnectView />);
  await flushPromises();
  fireEvent.change(screen.getByLabelText("Name"), { target: { value: "Nora" } });
  fireEvent.click(screen.getByRole("button", { name: "Create workspace" }));
  await flushPromises();
  return page;
}

test.each(["Open chat", "Connect another agent"])("“%s” asks first while the token is shown, and does it once the person has it", async (way) => {
  const { app } = await made();
  const left = (): boolean => vi.mocked(app.router.go).mock.calls.length > 0 || screen.queryByRole("button", { name: "Create workspace" }) !== null;
  const press = (name: string): boolean => fireEvent.click(screen.getByRole("button", { name }));
  press(way);
  expect([screen.getByRole("dialog", { name: "Have you copied the token?" }).isConnected, left()]).toEqual([true, false]);
  press("Back to token");
  expect([screen.queryByRole("dialog"), screen.getByText(TOKEN).isConnected, left()]).toEqual([null, true, false]);
  press(way);
  press("Continue");
  expect(left()).toBe(true);
});

test("a token that was not put away is still shown to whoever comes back, and the browser asks before the page goes with it", async () => {
  const testPage = await made();
  const wouldAsk = (): boolean => !window.dispatchEvent(new Event("beforeunload", { cancelable: true }));
  cleanup();
  expect(wouldAsk()).toBe(true);
  const { unmount } = testPage.show(<ConnectView />);
  await flushPromises();
  expect(screen.getByText(TOKEN).isConnected).toBe(true);
  fireEvent.click(screen.getByRole("button", { name: "Done" }));
  expect(wouldAsk()).toBe(false);
  unmount();
  testPage.show(<ConnectView />);
  await flushPromises();
  expect(screen.getByRole("button", { name: "Create workspace" }).isConnected).toBe(true);
});

test("once the token was hidden its chat opens at one press", async () => {
  const { app } = await made();
  fireEvent.click(screen.getByRole("button", { name: "Done" }));
  fireEvent.click(screen.getByRole("button", { name: "Open chat" }));
  expect(app.router.go).toHaveBeenCalledExactlyOnceWith({ view: "org", focus: "n", panel: "chat", filter: "" });
});

test("where no answer comes a seat may have been made, and the page says where to look before another is", async () => {
  const testPage = new TestPage().load();
  vi.spyOn(testPage.api, "createWorkspace").mockRejectedValue(new NoResponseError("The server did not respond."));
  testPage.show(<ConnectView />);
  await flushPromises();
  fireEvent.change(screen.getByLabelText("Name"), { target: { value: "Nora" } });
  fireEvent.click(screen.getByRole("button", { name: "Create workspace" }));
  await flushPromises();
  expect(screen.getByRole("alert").textContent).toMatch(/^The server did not respond\. The workspace may still have been created\. Look for it in the organisation first/);
});

test("what the server refuses is told where it was asked", async () => {
  const page = new TestPage().load();
  vi.spyOn(page.api, "createWorkspace").mockRejectedValue(new ApiError(403, "forbidden", "Only an owner may make seats."));
  page.show(<ConnectView />);
  fireEvent.change(screen.getByLabelText("Name"), { target: { value: "Nora" } });
  fireEvent.click(screen.getByRole("button", { name: "Create workspace" }));
  await flushPromises();
  expect(screen.getByRole("alert").textContent).toBe("Only an owner may make seats.");
});

test("the checklist turns green as the agent arrives", async () => {
  const page = new TestPage();
  page.load();
  vi.spyOn(page.api, "createWorkspace").mockResolvedValue({ id: "n", name: "Nora", token: TOKEN });
  vi.spyOn(page.api, "send").mockResolvedValue({});
  page.show(<ConnectView />);
  fireEvent.change(screen.getByLabelText("Name"), { target: { value: "Nora" } });
  fireEvent.click(screen.getByRole("button", { name: "Create workspace" }));
  await flushPromises();
  const done = (): string[] => screen.getAllByRole("listitem").filter((item) => item.textContent?.includes(": done")).map((item) => item.querySelector("p")?.firstChild?.textContent ?? "");
  expect(done()).toEqual([]);
  page.server.do({ verb: "create", id: "n", parent: null });
  page.deliver();
  expect(done()).toEqual(["Token created"]);
  page.server.do({ verb: "online", id: "n" });
  page.deliver();
  expect(done()).toEqual(["Token created", "First contact"]);
  page.server.do({ verb: "card", id: "n" });
  page.deliver();
  expect(done()).toEqual(["Token created", "First contact", "Agent registered"]);
  page.server.do({ verb: "online", id: "n" });
  page.deliver();
  expect(done()).toEqual(["Token created", "First contact", "Agent registered", "Heartbeat"]);
  fireEvent.click(screen.getByRole("button", { name: "Send test message" }));
  page.server.do({ verb: "ask", id: "n", text: "hello" });
  page.deliver();
  expect(done()).toHaveLength(4);
  page.server.do({ verb: "hand_over", id: "n", count: 1 });
  page.deliver();
  expect(done()).toEqual(["Token created", "First contact", "Agent registered", "Heartbeat", "First message read"]);
  page.server.do({ verb: "answer", id: "n", text: "hello yourself" });
  page.deliver();
  expect(done()).toHaveLength(6);
  expect(screen.getByText("The agent is connected.")).toBeTruthy();
});

test("a test message that was not sent says why and is tried again, and is no message that was sent", async () => {
  const page = new TestPage().load();
  vi.spyOn(page.api, "createWorkspace").mockResolvedValue({ id: "n", name: "Nora", token: TOKEN });
  let answer: () => void = () => undefined;
  const send = vi.spyOn(page.api, "send").mockRejectedValueOnce(new ApiError(503, null, "The server is busy."));
  page.show(<ConnectView />);
  await flushPromises();
  fireEvent.change(screen.getByLabelText("Name"), { target: { value: "Nora" } });
  fireEvent.click(screen.getByRole("button", { name: "Create workspace" }));
  await flushPromises();
  page.server.do({ verb: "create", id: "n", parent: null });
  page.server.do({ verb: "online", id: "n" });
  page.deliver();
  fireEvent.click(screen.getByRole("button", { name: "Send test message" }));
  await flushPromises();
  expect(screen.getByRole("alert").textContent).toBe("Message not sent: The server is busy.");
  expect(screen.queryByRole("button", { name: "Sending…" })).toBeNull();
  send.mockReturnValueOnce(new Promise((done) => (answer = () => done({}))));
  fireEvent.click(screen.getByRole("button", { name: "Retry" }));
  await flushPromises();
  expect(screen.queryByRole("alert")).toBeNull();
  expect(screen.getByRole("button", { name: "Sending…" })).toHaveProperty("disabled", true);
  answer();
  await flushPromises();
  expect(screen.getByRole("button", { name: "Sent" })).toHaveProperty("disabled", true);
  const ids = send.mock.calls.map((call) => call[1]);
  expect([ids.length, new Set(ids).size]).toEqual([2, 1]);
});

test("another host shows its own lines, and one without a command shows them at once", async () => {
  const page = new TestPage().load();
  vi.spyOn(page.api, "createWorkspace").mockResolvedValue({ id: "n", name: "Nora", token: TOKEN });
  page.show(<ConnectView />);
  await flushPromises();
  fireEvent.change(screen.getByLabelText("Name"), { target: { value: "Nora" } });
  fireEvent.click(screen.getByRole("button", { name: "Create workspace" }));
  await flushPromises();
  expect(screen.getByRole("region", { name: "The quick way" }).textContent).toContain("--workspace n");
  expect(screen.getByText("Set up manually").closest("details")?.open).toBe(false);
  fireEvent.change(screen.getByLabelText("Agent runs in"), { target: { value: "curl" } });
  await flushPromises();
  expect(screen.queryByText("Set up manually")).toBeNull();
  expect(screen.getByRole("region", { name: "Lines for curl" }).textContent).toContain("lines of curl for n");
});

test("a server that does not tell the hosts is said, and a seat can be made all the same", async () => {
  const page = new TestPage().load();
  vi.spyOn(page.api, "hosts").mockRejectedValue(new NoResponseError("The server did not respond."));
  const create = vi.spyOn(page.api, "createWorkspace").mockResolvedValue({ id: "n", name: "Nora", token: TOKEN });
  page.show(<ConnectView />);
  await flushPromises();
  expect(screen.getByRole("alert").textContent).toBe("The server did not respond.");
  fireEvent.change(screen.getByLabelText("Name"), { target: { value: "Nora" } });
  fireEvent.click(screen.getByRole("button", { name: "Create workspace" }));
  await flushPromises();
  expect(create).toHaveBeenCalledExactlyOnceWith({ name: "Nora" });
});

test("choices are kept for the browser", () => {
  const storage = memoryStorage();
  const page = new TestPage({ storage }).load();
  page.show(<SettingsView />);
  fireEvent.click(screen.getByLabelText("Dark"));
  fireEvent.click(screen.getByLabelText("Single-key shortcuts"));
  expect(new App(storage).settings.get()).toEqual({ theme: "dark", singleKeys: false, enterSends: true, notify: false, cannotNotify: false, sound: false, miniMap: true, panelWidth: null, timeZone: "" });
});

test("logging out says so when the server does not answer", async () => {
  const page = new TestPage().load();
  vi.spyOn(page.app, "logOut").mockRejectedValue(new NoResponseError("The server did not respond."));
  vi.spyOn(page.api, "budgets").mockResolvedValue([]);
  page.show(<SettingsView />);
  fireEvent.click(screen.getByRole("button", { name: "Log out" }));
  await flushPromises();
  expect(screen.getByRole("alert").textContent).toBe("The server did not respond.");
});
