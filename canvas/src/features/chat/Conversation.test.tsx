import { act, fireEvent, screen, within } from "@testing-library/react";
import { afterEach, expect, test, vi, type MockInstance } from "vitest";
import { NoResponseError, ApiError } from "../../core/api/api";
import { RETRY_MS } from "../../core/session/problemLists";
import { memoryStorage } from "../../core/testing/modelServer";
import type { TimelinePage } from "../../core/wire";
import { Conversation } from "./Conversation";
import { TestPage, PATIENT, flushPromises } from "../../core/testing/testPage";

const TALK = [
  { verb: "ask", text: "Where are **you**?" },
  { verb: "answer", text: "Here: `~/work`" },
  { verb: "answer", text: "and there" },
  { verb: "ask", text: "thanks" },
] as const;

afterEach(() => vi.useRealTimers());

function page(options?: ConstructorParameters<typeof TestPage>[0]): TestPage {
  const made = new TestPage(options);
  made.server.do({ verb: "create", id: "a", parent: null });
  return made;
}

const list = (): HTMLElement => screen.getByRole("list", { name: "Messages with Agent a" });
const field = (): HTMLElement => screen.getByRole("textbox", { name: "Message to Agent a" });
const bodies = (): HTMLElement[] => within(list()).getAllByRole("listitem").filter((item) => item.dataset["message"] !== undefined);

async function type(words: string, key: Partial<KeyboardEventInit> = {}): Promise<void> {
  fireEvent.change(field(), { target: { value: words } });
  fireEvent.keyDown(field(), { key: "Enter", ...key });
  await flushPromises();
}

test("bubbles made from history are the bubbles made live", async () => {
  const live = page().load();
  live.session.data.update((state) => state && { ...state, chats: new Map([["a", { unread: 0, readSeq: 99, countedSeq: 0, last: null, lines: [], loaded: true, holeAfter: null, reachedEnd: true }]]) });
  const first = live.show(<Conversation workspaceId="a" />);
  for (const each of TALK) live.server.do({ ...each, id: "a" });
  live.deliver();
  await vi.waitFor(() => expect(list().querySelector("strong")).not.toBeNull(), PATIENT);
  const shownLive = list().innerHTML;
  first.unmount();

  const later = page();
  for (const each of TALK) later.server.do({ ...each, id: "a" });
  later.load();
  later.session.data.update((state) => state && { ...state, chats: new Map([...state.chats].map(([id, chat]) => [id, { ...chat, unread: 0, readSeq: 99 }])) });
  later.show(<Conversation workspaceId="a" />);
  await flushPromises();
  await vi.waitFor(() => expect(list().innerHTML).toBe(shownLive), PATIENT);
});

test("an own message is there before the server answers, and becomes the server's without a double", async () => {
  const made = page().load();
  const send = vi.spyOn(made.api, "send").mockReturnValue(new Promise(() => undefined));
  made.show(<Conversation workspaceId="a" />);
  await flushPromises();
  await type("hello there");
  const [before] = bodies();
  expect(before?.textContent).toContain("Sending");
  expect(field()).toHaveProperty("value", "");
  const clientId = send.mock.calls[0]?.[1] ?? "";

  made.server.do({ verb: "ask", id: "a", text: "hello there" });
  const frame = made.server.journal.at(-1);
  if (frame) Object.assign(frame, { client_id: clientId });
  made.deliver();
  expect(bodies()).toHaveLength(1);
  expect(bodies()[0]).toBe(before);
  expect(before?.textContent).toContain("Queued");
});

test("what could not be sent is kept with its text, and can be sent again or discarded", async () => {
  const made = page().load();
  const send = vi.spyOn(made.api, "send").mockRejectedValue(new NoResponseError("The server did not respond."));
  made.show(<Conversation workspaceId="a" />);
  await flushPromises();
  await type("one");
  await type("two");
  expect(screen.getAllByText("Not sent")).toHaveLength(2);
  const ids = send.mock.calls.map((call) => call[1]);

  send.mockResolvedValue({});
  fireEvent.click(within(bodies()[0] as HTMLElement).getByRole("button", { name: "Retry" }));
  await flushPromises();
  expect(send.mock.calls.at(-1)?.[1]).toBe(ids[0]);
  expect(bodies()[0]?.textContent).toContain("Queued");
  fireEvent.click(within(bodies()[1] as HTMLElement).getByRole("button", { name: "Discard" }));
  expect(bodies()).toHaveLength(1);
});

test("words that could not even be kept for sending stay in their field", async () => {
  const made = page().load();
  vi.stubGlobal("crypto", {});
  const faults: ErrorEvent[] = [];
  window.addEventListener("error", (event) => {
    event.preventDefault();
    faults.push(event);
  }, { once: true });
  made.show(<Conversation workspaceId="a" />);
  await flushPromises();
  await type("do not lose me");
  expect(field()).toHaveProperty("value", "do not lose me");
  expect(made.session.drafts.read("a")).toBe("do not lose me");
  expect(faults).toHaveLength(1);
});

test("a refusal is told in the server's words", async () => {
  const made = page().load();
  vi.spyOn(made.api, "send").mockRejectedValue(new ApiError(429, "inbox_full", "The inbox of Agent a is full."));
  made.show(<Conversation workspaceId="a" />);
  await flushPromises();
  await type("one more");
  expect(screen.getByText("The inbox of Agent a is full.")).toBeTruthy();
});

test("a draft survives leaving and coming back, and is gone once it was sent", async () => {
  const storage = memoryStorage();
  const made = page({ storage }).load();
  vi.spyOn(made.api, "send").mockResolvedValue({});
  const first = made.show(<Conversation workspaceId="a" />);
  fireEvent.change(field(), { target: { value: "half a thou" } });
  first.unmount();
  made.show(<Conversation workspaceId="a" />);
  expect(field()).toHaveProperty("value", "half a thou");
  await type("half a thought");
  expect(storage.keys("molecule.draft")).toEqual([]);
});

test("Enter sends, Shift Enter does not, and the setting turns it round", async () => {
  const made = page().load();
  const send = vi.spyOn(made.api, "send").mockResolvedValue({});
  made.show(<Conversation workspaceId="a" />);
  await type("line", { shiftKey: true });
  expect(send).not.toHaveBeenCalled();
  made.app.settings.change({ enterSends: false });
  await flushPromises();
  await type("line");
  expect(send).not.toHaveBeenCalled();
  await type("line", { ctrlKey: true });
  expect(send).toHaveBeenCalledOnce();
});

test("nothing is sent that is empty or too long, and how much too long is told", async () => {
  const made = page().load();
  const send = vi.spyOn(made.api, "send").mockResolvedValue({});
  made.show(<Conversation workspaceId="a" />);
  await type("   \n ");
  await type("x".repeat(262_145));
  expect(send).not.toHaveBeenCalled();
  expect(screen.getByText(/1 bytes over the limit/)).toBeTruthy();
});

test("a viewer reads and is told why it does not write", () => {
  page({ role: "viewer" }).load().show(<Conversation workspaceId="a" />);
  expect(field()).toHaveProperty("disabled", true);
  expect(screen.getByText(/Viewers can read messages/)).toBeTruthy();
});

test("opening a chat reads it, and the server is told once", async () => {
  const made = page();
  made.server.do({ verb: "answer", id: "a", text: "hi" });
  made.load();
  made.show(<Conversation workspaceId="a" />);
  await flushPromises();
  expect(made.session.data.get()?.chats.get("a")?.unread).toBe(0);
  expect(made.api.markRead).toHaveBeenCalledExactlyOnceWith("a", 2);
  expect(screen.getByText("New")).toBeTruthy();
});

test("history that cannot be read says why, and can be tried again", async () => {
  const made = page().load();
  const timeline = vi.spyOn(made.api, "timeline").mockRejectedValueOnce(new ApiError(503, null, "The store is busy."));
  made.show(<Conversation workspaceId="a" />);
  await flushPromises();
  expect(screen.getByText("The store is busy.")).toBeTruthy();
  fireEvent.click(screen.getByRole("button", { name: "Try again" }));
  await flushPromises();
  expect(timeline).toHaveBeenCalledTimes(2);
  expect(screen.getByText("No messages yet")).toBeTruthy();
});

test("of ten thousand messages few are in the document", async () => {
  const made = page();
  for (let turn = 0; turn < 10_000; turn += 1) made.server.do({ verb: "answer", id: "a", text: `message ${turn}` });
  made.load();
  const first = made.show(<Conversation workspaceId="a" />);
  await flushPromises();
  expect(within(list()).getAllByRole("listitem").length).toBeLessThan(300);
  expect(screen.getByText("message 0")).toBeTruthy();
  fireEvent.click(screen.getByRole("button", { name: "Jump to latest" }));
  expect(within(list()).getAllByRole("listitem").length).toBeLessThan(300);
  expect(screen.getByText("message 9999")).toBeTruthy();
  first.unmount();
  made.show(<Conversation workspaceId="a" />);
  await flushPromises();
  expect(screen.getByText("message 9999"), "what was read to its end opens there").toBeTruthy();
});

/** A layout with lines of 100 pixels, three of them visible. A browser scrolls at once and reports it a frame later. */
function layOut(): HTMLElement {
  const lineOf = (element: Element): number => bodies().findIndex((line) => line === element);
  vi.spyOn(HTMLElement.prototype, "offsetHeight", "get").mockReturnValue(100);
  vi.spyOn(HTMLElement.prototype, "clientHeight", "get").mockReturnValue(300);
  vi.spyOn(HTMLElement.prototype, "scrollHeight", "get").mockImplementation(() => bodies().length * 100);
  vi.spyOn(HTMLElement.prototype, "offsetTop", "get").mockImplementation(function (this: HTMLElement) {
    return lineOf(this) * 100;
  });
  const scroller = list().parentElement;
  if (scroller === null) throw new Error("the list stands in no scroller");
  return scroller;
}

/** A long chat, scrolled to its end. */
async function atTheEnd(): Promise<{ made: TestPage; scroller: HTMLElement }> {
  const made = page();
  for (let turn = 0; turn < 20; turn += 1) made.server.do({ verb: "answer", id: "a", text: `message ${turn}` });
  made.load();
  made.show(<Conversation workspaceId="a" />);
  await flushPromises();
  const scroller = layOut();
  made.server.do({ verb: "answer", id: "a", text: "one more, and the page stands at its end" });
  made.deliver();
  return { made, scroller };
}

test.each([
  ["at the end, and goes up", [], 700],
  ["in the middle, and goes down", [500], 800],
  ["in the middle, and goes up", [900], 400],
])("who is %s, is not thrown back by what is drawn before the browser tells of it", async (_, before, to) => {
  const { made, scroller } = await atTheEnd();
  expect(scroller.scrollTop).toBeGreaterThan(1_700);
  for (const at of before) {
    scroller.scrollTop = at;
    fireEvent.scroll(scroller);
  }
  fireEvent.wheel(scroller);
  scroller.scrollTop = to;
  made.server.do({ verb: "answer", id: "a", text: "and one that comes just then" });
  made.deliver();
  expect(scroller.scrollTop).toBe(to);
});

test("a list that became shorter than it was scrolled is followed on", async () => {
  const { made, scroller } = await atTheEnd();
  scroller.scrollTop = 700;
  made.server.do({ verb: "answer", id: "a", text: "and one that comes just then" });
  made.deliver();
  expect(scroller.scrollTop).toBeGreaterThan(1_700);
});

test.each([
  ["seen, stays seen", 2_150, 2_150],
  ["further up than what is seen, is not looked back for", 600, 2_200],
])("what has the focus and is %s while the page follows the end", async (_, at, to) => {
  const { made, scroller } = await atTheEnd();
  const focused = within(list()).getAllByRole("button")[0] as HTMLElement;
  focused.focus();
  vi.spyOn(focused, "getBoundingClientRect").mockImplementation(() => new DOMRect(0, at - scroller.scrollTop, 20, 20));
  made.server.do({ verb: "answer", id: "a", text: "and one that comes just then" });
  made.deliver();
  expect(scroller.scrollTop).toBe(to);
});

test("where the keyboard's focus holds a chat back from its end, the page says what is new", async () => {
  const { made, scroller } = await atTheEnd();
  const focused = within(list()).getAllByRole("button")[0] as HTMLElement;
  focused.focus();
  vi.spyOn(focused, "getBoundingClientRect").mockImplementation(() => new DOMRect(0, -50, 20, 900));
  const at = scroller.scrollHeight - scroller.clientHeight;
  scroller.scrollTop = at;
  fireEvent.scroll(scroller);
  made.server.do({ verb: "answer", id: "a", text: "and one that comes just then" });
  made.deliver();
  made.server.do({ verb: "answer", id: "a", text: "and one more" });
  made.deliver();
  expect(scroller.scrollTop).toBe(at);
  expect(screen.getByRole("button", { name: /^\d new$/ })).toBeTruthy();
});

/** A chat in which a line arrived before its newest page was read. */
async function unread(): Promise<{ made: TestPage; timeline: MockInstance<TestPage["api"]["timeline"]> }> {
  const made = page();
  made.server.do({ verb: "answer", id: "a", text: "what was said before" });
  made.load();
  made.server.do({ verb: "answer", id: "a", text: "what is said now" });
  made.deliver();
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  const timeline = vi.spyOn(made.api, "timeline").mockRejectedValueOnce(new ApiError(503, null, "The store is busy."));
  made.show(<Conversation workspaceId="a" />);
  await flushPromises();
  expect(bodies()).toHaveLength(1);
  expect(screen.getByRole("alert").textContent).toContain("The store is busy.");
  return { made, timeline };
}

test("a newest page that could not be read is told beside the lines that are there, and read at a press", async () => {
  await unread();
  fireEvent.click(screen.getByRole("button", { name: "Try again" }));
  await flushPromises();
  expect(bodies()).toHaveLength(2);
  expect(screen.queryByRole("alert")).toBeNull();
});

test("a newest page that could not be read is read later by itself, until it is there", async () => {
  const { timeline } = await unread();
  timeline.mockRejectedValueOnce(new NoResponseError("The server did not respond."));
  await act(() => vi.advanceTimersByTimeAsync(RETRY_MS));
  expect(screen.getByRole("alert").textContent).toContain("The server did not respond.");
  await act(() => vi.advanceTimersByTimeAsync(RETRY_MS));
  expect(bodies()).toHaveLength(2);
  expect(screen.queryByRole("alert")).toBeNull();
  await act(() => vi.advanceTimersByTimeAsync(2 * RETRY_MS));
  expect(timeline).toHaveBeenCalledTimes(3);
});

test.each([
  ["before", [0, 1]],
  ["after", [1, 0]],
] as const)("what events told in part is read after a snapshot too, though the page with it was asked for before, and comes %s the newest one", async (_, order) => {
  const made = page();
  made.server.do({ verb: "ask", id: "a", text: "Where are you?" });
  for (let turn = 0; turn < 60; turn += 1) made.server.do({ verb: "answer", id: "a", text: `message ${turn}` });
  made.load();
  made.show(<Conversation workspaceId="a" />);
  await flushPromises();
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  made.server.do({ verb: "hand_over", id: "a", count: 1 });
  made.deliver();
  const timeline = vi.mocked(made.api.timeline).mockClear();
  const all = made.server.timeline("a");
  const answers: ((page: TimelinePage) => void)[] = [];
  timeline.mockImplementation(() => new Promise((done) => answers.push(done)));
  const asked = async (): Promise<unknown[]> => {
    await act(() => vi.advanceTimersByTimeAsync(1_000));
    return timeline.mock.calls.map((call) => call[2]);
  };
  expect(await asked()).toEqual([all[1]?.seq]);
  made.cutOff();
  expect(await asked()).toEqual([all[1]?.seq, undefined]);
  const pages = [{ items: all.slice(0, 1), reached_end: true }, { items: all.slice(-50), reached_end: false }];
  for (const at of order) {
    answers[at]?.(pages[at] as TimelinePage);
    await flushPromises();
  }
  expect(await asked()).toEqual([all[1]?.seq, undefined, all[1]?.seq]);
});

test("what events told in part and could not be read is read later by itself, until it is there", async () => {
  const made = page();
  made.server.do({ verb: "ask", id: "a", text: "Where are you?" });
  made.load();
  made.show(<Conversation workspaceId="a" />);
  await flushPromises();
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  const timeline = vi.mocked(made.api.timeline).mockClear();
  timeline.mockRejectedValueOnce(new ApiError(503, null, "The store is busy.")).mockRejectedValueOnce(new NoResponseError("The server did not respond."));
  made.server.do({ verb: "hand_over", id: "a", count: 1 });
  made.deliver();
  const isWhole = (): boolean | undefined => made.session.data.get()?.chats.get("a")?.lines[0]?.complete;
  await act(() => vi.advanceTimersByTimeAsync(1_000));
  expect([timeline.mock.calls.length, isWhole()]).toEqual([1, false]);
  for (let times = 0; times < 2; times += 1) await act(() => vi.advanceTimersByTimeAsync(RETRY_MS));
  expect([timeline.mock.calls.length, isWhole()]).toEqual([3, true]);
  await act(() => vi.advanceTimersByTimeAsync(2 * RETRY_MS));
  expect(timeline).toHaveBeenCalledTimes(3);
});

test("requests of a chat that could not be read are told, and read later by themselves and at a press", async () => {
  const made = page().load();
  const approvals = vi.mocked(made.api.approvalsOf).mockRejectedValue(new ApiError(503, null, "The store is busy."));
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  made.show(<Conversation workspaceId="a" />);
  await flushPromises();
  expect(screen.getByRole("alert").textContent).toContain("Could not load approvals for this chat: The store is busy.");
  await act(() => vi.advanceTimersByTimeAsync(RETRY_MS));
  expect(approvals).toHaveBeenCalledTimes(2);
  approvals.mockResolvedValue([]);
  fireEvent.click(screen.getByRole("button", { name: "Try again" }));
  await flushPromises();
  await act(() => vi.advanceTimersByTimeAsync(2 * RETRY_MS));
  expect([approvals.mock.calls.length, screen.queryByRole("alert")]).toEqual([3, null]);
});

test("how far messages of older pages have come while the page was cut off is read page by page, whether or not an answer is owed", async () => {
  const made = page();
  for (let turn = 0; turn < 120; turn += 1) made.server.do({ verb: "ask", id: "a", text: `question ${turn}` });
  made.load();
  vi.spyOn(made.api, "timeline").mockImplementation((id, limit, before = Infinity) => {
    const older = made.server.timeline(id).filter(({ seq }) => seq < before);
    return Promise.resolve({ items: older.slice(-limit), reached_end: older.length <= limit });
  });
  await made.session.readNewest("a");
  for (let pages = 0; pages < 2; pages += 1) await made.session.readOlder("a");
  const come = (): unknown[] => [...new Set(made.session.data.get()?.chats.get("a")?.lines.map(({ delivery, complete }) => `${delivery} ${complete}`))];
  expect(come()).toEqual(["stored true"]);
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  made.show(<Conversation workspaceId="a" />);
  made.server.do({ verb: "hand_over", id: "a", count: 120 });
  made.cutOff();
  for (let pages = 0; pages < 3; pages += 1) await act(() => vi.advanceTimersByTimeAsync(1_000));
  expect(come()).toEqual(["handed_over true"]);
});

test("Enter that ends a composition sends nothing, and the next one sends", async () => {
  const made = page().load();
  const send = vi.spyOn(made.api, "send").mockReturnValue(new Promise(() => undefined));
  made.show(<Conversation workspaceId="a" />);
  await flushPromises();
  expect(field().getAttribute("dir")).toBe("auto");
  await type("日本語", { isComposing: true });
  await type("日本語", { keyCode: 229 });
  expect(send).not.toHaveBeenCalled();
  expect((field() as HTMLTextAreaElement).value).toBe("日本語");
  await type("日本語", { keyCode: 13 });
  expect(send).toHaveBeenCalledOnce();
});

test("a reply quotes its message, keeps its reference and links to it", async () => {
  const made = page();
  made.server.do({ verb: "answer", id: "a", text: "**Two** ways:\n\n1. wait" });
  made.load();
  const send = vi.spyOn(made.api, "send").mockResolvedValue({});
  made.show(<Conversation workspaceId="a" />);
  await flushPromises();
  const id = made.server.history("a")[0]?.id ?? "";
  fireEvent.click(screen.getByRole("button", { name: "Reply" }));
  expect((await screen.findByRole("group", { name: "Reply" }, PATIENT)).textContent).toContain("Agent aTwo ways: wait");
  expect(document.activeElement).toBe(field());
  await type("the first");
  expect(send.mock.calls[0]?.slice(2)).toMatchObject(["> Two ways: wait\n\nthe first", { replyTo: id }]);
  expect(screen.queryByRole("group", { name: "Reply" })).toBeNull();
  const link = within(bodies()[1] as HTMLElement).getByRole("link", { name: /^In reply to: ?Two ways: wait/ });
  expect(link.getAttribute("href")).toBe(`/app/chat/a?m=${id}`);
  expect(bodies()[1]?.querySelector("[data-text]")?.textContent).toBe("the first");
});

test("a reply that was begun survives a reload and can be cancelled", async () => {
  const made = page();
  made.server.do({ verb: "answer", id: "a", text: "Two ways" });
  made.load();
  const first = made.show(<Conversation workspaceId="a" />);
  await flushPromises();
  fireEvent.click(screen.getByRole("button", { name: "Reply" }));
  first.unmount();
  const again = page({ storage: made.storage });
  again.load();
  again.show(<Conversation workspaceId="a" />);
  await screen.findByRole("group", { name: "Reply" }, PATIENT);
  fireEvent.keyDown(field(), { key: "Escape" });
  expect(screen.queryByRole("group", { name: "Reply" })).toBeNull();
  expect(made.storage.keys("molecule.reply")).toEqual([]);
});

test("a message that failed is sent again as a new one at a press", async () => {
  const made = page();
  for (const verb of [{ verb: "ask", text: "Is it done?" }, { verb: "hand_over", count: 1 }, { verb: "be_late", at: 0 }] as const) made.server.do({ ...verb, id: "a" });
  made.load();
  const send = vi.spyOn(made.api, "send").mockResolvedValue({});
  made.show(<Conversation workspaceId="a" />);
  await flushPromises();
  fireEvent.click(screen.getByRole("button", { name: "Ask again" }));
  await flushPromises();
  expect(send).toHaveBeenCalledTimes(1);
  expect(send.mock.calls[0]?.[2]).toBe("Is it done?");
  expect(bodies()).toHaveLength(2);
  expect(screen.queryByRole("button", { name: "Ask again" })).toBeNull();
});

async function write(words: string): Promise<void> {
  const input = field() as HTMLTextAreaElement;
  fireEvent.change(input, { target: { value: words } });
  input.setSelectionRange(words.length, words.length);
  fireEvent.select(input);
  await flushPromises();
}

test("@ completes the agents in reach with the keyboard, and inserts the name as text", async () => {
  const made = page();
  for (const id of ["b", "c"]) made.server.do({ verb: "create", id, parent: "a" });
  made.server.do({ verb: "create", id: "far", parent: "c" });
  made.load();
  const send = vi.spyOn(made.api, "send").mockResolvedValue({});
  made.show(<Conversation workspaceId="a" />);
  await flushPromises();
  await write("ask @Agent");
  const options = within(await screen.findByRole("listbox", { name: "Agents" }, PATIENT)).getAllByRole("option");
  expect(options.map((each) => each.querySelector("bdi")?.textContent)).toEqual(["Agent b", "Agent c"]);
  expect(field().getAttribute("aria-activedescendant")).toBe(options[0]?.id);
  fireEvent.keyDown(field(), { key: "ArrowDown" });
  expect(field().getAttribute("aria-activedescendant")).toBe(options[1]?.id);
  fireEvent.keyDown(field(), { key: "Enter" });
  expect(field()).toHaveProperty("value", "ask @Agent c ");
  expect(screen.queryByRole("listbox")).toBeNull();
  expect(send).not.toHaveBeenCalled();
  await write("ask @Agent");
  fireEvent.keyDown(field(), { key: "Escape" });
  expect(screen.queryByRole("listbox")).toBeNull();
  fireEvent.keyDown(field(), { key: "Enter" });
  await flushPromises();
  expect(send.mock.calls[0]?.[2]).toBe("ask @Agent");
});

test("/ completes the commands that the page has as buttons, and runs one", async () => {
  const made = page().load();
  const aside = vi.spyOn(made.api, "putAside").mockResolvedValue({});
  const send = vi.spyOn(made.api, "send").mockResolvedValue({});
  made.show(<Conversation workspaceId="a" />);
  await flushPromises();
  await write("/");
  const names = within(await screen.findByRole("listbox", { name: "Commands" }, PATIENT)).getAllByRole("option").map((each) => each.querySelector("bdi")?.textContent);
  expect(names).toEqual(["/pause", "/work", "/prompt"]);
  fireEvent.keyDown(field(), { key: "Enter" });
  await flushPromises();
  expect(aside).toHaveBeenCalledExactlyOnceWith("a", "pause");
  expect(field()).toHaveProperty("value", "");
  expect(send).not.toHaveBeenCalled();
  await write("/etc/hosts is missing");
  expect(screen.queryByRole("listbox")).toBeNull();
});
