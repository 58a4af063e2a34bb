import { act, fireEvent, screen, within } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { NoResponseError, ApiError } from "../../core/api/api";
import { TestPage, flushPromises } from "../../core/testing/testPage";
import type { EventFrame } from "../../core/wire";
import { ThreadsTab } from "./ThreadsTab";
import { ThreadView } from "./ThreadView";

type Item = Record<string, unknown>;

function thread(id: string, more: Item = {}): Item {
  return {
    ...{ thread_id: id, workspace_id: "a", org_id: "org", root_id: "t1", parent_thread_id: null, forked_from: null, path: "root", nickname: `Talk ${id}` },
    ...{ role: null, kind: "root", model: "small", effort: null, status: { type: "running", message: null }, active_flags: [], idle: false, closed: false },
    ...{ turn_id: "turn", queued: [], turns: 1, tokens_used: 7, tree_tokens_used: 7, last_ordinal: 1, revision: 1 },
    ...{ base: { version: 1, sha256: "s", provenance: { type: "prompt", source: "" }, item_id: "i", bytes: 1, tokens: 1 } },
    ...{ created_at: "2026-03-01T10:00:00.000Z", updated_at: "2026-03-01T10:00:00.000Z" },
    ...more,
  };
}

const line = (ordinal: number, text: string, type = "agent_message"): Item => ({ ordinal, item_id: `t1.${ordinal}`, turn_id: "turn", at: "2026-03-01T10:00:00.000Z", type, entry: { type, text } });

function told(ordinal: number, entry: Item | null): EventFrame {
  const payload = { thread_id: "t1", root_id: "t1", ordinal, type: "agent_message", turn_id: "turn", entry };
  return { event: "THREAD_ITEM", workspace_id: "a", timestamp: "2026-03-01T10:00:01.000Z", payload, entity: { kind: "thread", id: "t1", rev: ordinal } } as unknown as EventFrame;
}

/** A server with one thread whose log is `lines`. */
function opened(lines: Item[], answers: (path: string) => unknown = () => undefined, made = new TestPage()): { made: TestPage; asked: string[] } {
  made.server.do({ verb: "create", id: "a", parent: null });
  made.load();
  const asked: string[] = [];
  vi.spyOn(made.api, "request").mockImplementation((method, path) => {
    asked.push(`${method} ${path}`);
    const given = answers(path);
    if (given instanceof Error) return Promise.reject(given);
    if (given !== undefined) return Promise.resolve(given as never);
    const last = { last_ordinal: lines.length };
    if (path.endsWith("/tree")) return Promise.resolve({ threads: [thread("t1", last)], live: 0, lifetime: 0, tokens: 7 } as never);
    if (path.endsWith("/collab")) return Promise.resolve({ calls: [], mail: [] } as never);
    const after = /after=(\d+)/.exec(path);
    if (after !== null) return Promise.resolve({ items: lines.slice(Number(after[1])), reached_end: true } as never);
    return Promise.resolve(thread("t1", { ...last, base_instructions: "b", layers: [] }) as never);
  });
  return { made, asked };
}

const words = (): (string | null)[] => [...document.querySelectorAll("[data-said] p:last-child")].map((each) => each.textContent);

test("what is heard is shown at once; what was missed, or was too large to tell, is read", async () => {
  const lines = [line(1, "one")];
  const { made, asked } = opened(lines);
  made.show(<ThreadView id="t1" tab="said" />);
  await flushPromises();
  expect(words()).toEqual(["one"]);
  asked.length = 0;
  lines.push(line(2, "two <b>"));
  act(() => made.session.threadEvents.set([told(2, { type: "agent_message", text: "two <b>" })]));
  expect([words(), asked]).toEqual([["one", "two <b>"], []]);
  lines.push(line(3, "three"), line(4, "four"));
  for (let times = 0; times < 5; times += 1) act(() => made.session.threadEvents.set([told(4, null)]));
  await flushPromises();
  await flushPromises();
  expect(asked.filter((each) => each.endsWith("/tree"))).toHaveLength(2); // one at a time, and one more for the rest
  expect(words()).toEqual(["one", "two <b>", "three", "four"]);
  lines.push(line(5, "five"));
  act(() => made.session.threadEvents.set([]));
  await flushPromises();
  expect(words().at(-1)).toBe("five");
});

test("lines that show nothing leave no empty items", async () => {
  const { made } = opened([line(1, "one"), line(2, "", "usage"), line(3, "", "turn_started"), line(4, "two")]);
  made.show(<ThreadView id="t1" tab="said" />);
  await flushPromises();
  const items = within(screen.getByRole("region", { name: "Conversation" })).getAllByRole("listitem");
  expect(items.map((each) => each.textContent?.includes("one") || each.textContent?.includes("two"))).toEqual([true, true]);
});

test("pages that long lines fill are followed by the next, to the end and to the beginning", async () => {
  const lines = Array.from({ length: 330 }, (_, at) => line(at + 1, `said ${at + 1}`));
  const { made, asked } = opened(lines, (path) => {
    const [after, limit] = ["after", "limit"].map((name) => Number(new RegExp(`[?&]${name}=(\\d+)`).exec(path)?.[1]));
    if (after === undefined || limit === undefined || Number.isNaN(after)) return undefined;
    const end = Math.min(after + Math.min(limit, 9), lines.length);
    return { items: lines.slice(after, end), reached_end: end === lines.length };
  });
  made.show(<ThreadView id="t1" tab="said" />);
  for (let pages = 0; pages < 30; pages += 1) await flushPromises();
  expect(words()).toEqual(lines.slice(130).map((_, at) => `said ${at + 131}`));
  asked.length = 0;
  fireEvent.click(screen.getByRole("button", { name: "Show earlier entries" }));
  for (let pages = 0; pages < 20; pages += 1) await flushPromises();
  expect(words()).toEqual(lines.map((_, at) => `said ${at + 1}`));
  expect(asked).toHaveLength(15);
});

test("input that has no answer stays, and is sent again as the same input", async () => {
  const bodies: Item[] = [];
  const { made } = opened([line(1, "one")], (path) => (path.endsWith("/turns") ? new NoResponseError("The server did not respond.") : undefined));
  const ask = vi.mocked(made.api.request);
  made.show(<ThreadView id="t1" tab="said" />);
  await flushPromises();
  const field = screen.getByLabelText<HTMLTextAreaElement>("Message Talk t1");
  fireEvent.change(field, { target: { value: "Mind the step" } });
  for (let times = 0; times < 2; times += 1) {
    fireEvent.click(screen.getByRole("button", { name: "Steer" }));
    await flushPromises();
    bodies.push(ask.mock.calls.findLast(([, path]) => path.endsWith("/turns"))?.[2] as Item);
  }
  expect(screen.getByRole("alert").textContent).toBe("The server did not respond.");
  expect(field.value).toBe("Mind the step");
  expect(bodies[0]).toMatchObject({ input: "Mind the step", mode: "steer", expected_turn_id: "turn" });
  expect(bodies[1]).toEqual(bodies[0]);
});

test("a list is paged, filtered, and keeps what it shows when older ones cannot be read", async () => {
  const { made, asked } = opened([], (path) => {
    if (path.includes("before=t9")) return new ApiError(500, null, "Try again later.");
    return path.includes("/threads?") ? { threads: [thread("t9", { created_at: "2026-03-02T10:00:00.000Z", idle: true })], reached_end: false } : undefined;
  });
  made.show(<ThreadsTab workspaceId="a" />);
  await flushPromises();
  const list = screen.getByRole("list", { name: "Threads" });
  expect(within(list).getAllByRole("link").map((each) => each.textContent)).toEqual(["Talk t9"]);
  fireEvent.click(screen.getByRole("button", { name: "Load older threads" }));
  await flushPromises();
  expect(screen.getByRole("alert").textContent).toBe("Try again later.");
  expect(within(list).getAllByRole("link")).toHaveLength(1);
  fireEvent.click(screen.getByRole("radio", { name: "Closed" }));
  await flushPromises();
  expect(asked.at(-1)).toBe("GET /workspaces/a/threads?limit=50&state=closed");
});

test("who reads back in a conversation stays there while lines come, and who is at its end follows it", async () => {
  const { made } = opened([line(1, "one")]);
  vi.spyOn(HTMLElement.prototype, "clientHeight", "get").mockReturnValue(300);
  vi.spyOn(HTMLElement.prototype, "scrollHeight", "get").mockImplementation(() => words().length * 1_000);
  made.show(<ThreadView id="t1" tab="said" />);
  await flushPromises();
  const panel = screen.getByRole("tabpanel");
  expect(panel.scrollTop).toBe(1_000);
  const say = (ordinal: number): void => act(() => made.session.threadEvents.set([told(ordinal, { type: "agent_message", text: `${ordinal}` })]));
  say(2);
  expect(panel.scrollTop).toBe(2_000);
  panel.scrollTop = 100;
  fireEvent.scroll(panel);
  say(3);
  expect([words().length, panel.scrollTop]).toEqual([3, 100]);
  panel.scrollTop = 2_650;
  fireEvent.scroll(panel);
  say(4);
  expect(panel.scrollTop).toBe(4_000);
});

test("who unfolds what stands at the end of a conversation reads on where it is while lines come", async () => {
  const { made } = opened([line(1, "one"), line(2, "a long thought", "reasoning")]);
  const folded = (): HTMLDetailsElement => document.querySelector("details") as HTMLDetailsElement;
  const unfold = (open: boolean): void => {
    folded().open = open;
    fireEvent(folded(), new Event("toggle"));
  };
  vi.spyOn(HTMLElement.prototype, "clientHeight", "get").mockReturnValue(300);
  vi.spyOn(HTMLElement.prototype, "scrollHeight", "get").mockImplementation(() => words().length * 1_000 + (folded().open ? 3_000 : 0));
  made.show(<ThreadView id="t1" tab="said" />);
  await flushPromises();
  const panel = screen.getByRole("tabpanel");
  panel.scrollTop = 700; // the end of the scroll range
  const say = (ordinal: number): void => act(() => made.session.threadEvents.set([told(ordinal, { type: "agent_message", text: `${ordinal}` })]));
  act(() => unfold(true));
  say(3);
  expect([words().length, panel.scrollTop]).toEqual([2, 700]);
  panel.scrollTop = 1_700;
  act(() => unfold(false));
  say(4);
  expect(panel.scrollTop).toBe(3_000);
});

/** The log in pages of at most `most` lines. */
function paged(lines: readonly Item[], most: number): (path: string) => unknown {
  return (path) => {
    const [, after, limit] = /after=(\d+)&limit=(\d+)/.exec(path) ?? [];
    if (after === undefined) return undefined;
    const end = Math.min(Number(after) + Math.min(Number(limit), most), lines.length);
    return { items: lines.slice(Number(after), end), reached_end: end === lines.length };
  };
}

/** Add `count` lines from a number on. */
function saying(made: TestPage): (from: number, count: number) => void {
  return (from, count) => {
    const ordinals = Array.from({ length: count }, (_, at) => from + at);
    act(() => made.session.threadEvents.set(ordinals.map((at) => told(at, { type: "agent_message", text: `said ${at}` }))));
  };
}

test("no line goes away at the top while somebody reads back; at the end only the last ones are in the document", async () => {
  const lines = Array.from({ length: 500 }, (_, at) => line(at + 1, `said ${at + 1}`));
  const { made } = opened(lines, paged(lines, 200));
  vi.spyOn(HTMLElement.prototype, "clientHeight", "get").mockReturnValue(300);
  vi.spyOn(HTMLElement.prototype, "scrollHeight", "get").mockImplementation(() => words().length * 100);
  made.show(<ThreadView id="t1" tab="said" />);
  await flushPromises();
  const panel = screen.getByRole("tabpanel");
  const say = saying(made);
  const scroll = (to: number): void => {
    panel.scrollTop = to;
    fireEvent.scroll(panel);
  };
  say(501, 110);
  expect([words().length, words()[0]]).toEqual([300, "said 311"]);
  scroll(0);
  say(611, 10);
  expect([words().length, words()[0], panel.scrollTop]).toEqual([310, "said 311", 0]);
  scroll(31_000 - 300);
  expect([words().length, words()[0], panel.scrollTop]).toEqual([300, "said 321", 30_000]);
  say(621, 1);
  expect([words().length, words()[0]]).toEqual([300, "said 322"]);
  scroll(0);
  fireEvent.click(screen.getByRole("button", { name: "Show earlier entries" }));
  await flushPromises();
  expect(words()[0]).toBe("said 101");
});

test("nothing moves for whoever reads where the page scrolls around the panel, as it does with little height", async () => {
  const { made } = opened([line(1, "one")]);
  vi.spyOn(HTMLElement.prototype, "clientHeight", "get").mockReturnValue(300);
  vi.spyOn(HTMLElement.prototype, "scrollHeight", "get").mockImplementation(() => words().length * 100);
  const { container: around } = made.show(<ThreadView id="t1" tab="said" />);
  around.style.overflowY = "auto";
  await flushPromises();
  const say = saying(made);
  say(2, 310);
  fireEvent.scroll(around);
  const first = words()[0];
  say(312, 10);
  expect(words()[0]).toBe(first);
  around.scrollTop = 100_000;
  fireEvent.scroll(around);
  say(322, 1);
  expect(words().length).toBe(300);
});

test("earlier lines are read once, however often they are asked for, and after a failed page from that page on", async () => {
  const lines = Array.from({ length: 900 }, (_, at) => line(at + 1, `said ${at + 1}`));
  const pages = paged(lines, 60);
  let failing: string | null = null;
  const { made, asked } = opened(lines, (path) => (failing !== null && path.includes(failing) ? new ApiError(503, null, "The store is busy.") : pages(path)));
  made.show(<ThreadView id="t1" tab="said" />);
  for (let times = 0; times < 8; times += 1) await flushPromises();
  expect([words().length, words()[0]]).toEqual([200, "said 701"]);
  asked.length = 0;
  failing = "after=620&";
  const button = (): HTMLButtonElement => screen.getByRole<HTMLButtonElement>("button", { name: /Show earlier entries|Loading…/ });
  for (let times = 0; times < 3; times += 1) fireEvent.click(button());
  expect([button().textContent, button().disabled]).toEqual(["Loading…", false]); // it keeps the focus
  for (let times = 0; times < 4; times += 1) await flushPromises();
  expect(screen.getByRole("alert").textContent).toBe("The store is busy.");
  expect([button().textContent, button().getAttribute("aria-disabled")]).toEqual(["Show earlier entries", "false"]);
  failing = null;
  fireEvent.click(button());
  for (let times = 0; times < 4; times += 1) await flushPromises();
  expect(asked.map((each) => /after=(\d+)/.exec(each)?.[1])).toEqual(["500", "560", "620", "620", "680"]);
  expect([words().length, words()[0]]).toEqual([400, "said 501"]);
  fireEvent.click(button());
  for (let times = 0; times < 8; times += 1) await flushPromises();
  expect([words().length, words()[0]]).toEqual([600, "said 301"]);
  fireEvent.click(button());
  for (let times = 0; times < 8; times += 1) await flushPromises();
  expect([words().length, words()[0]]).toEqual([800, "said 101"]);
});

test("input whose answer comes after the person left is said once: its words are gone, and sent before that they are the same input", async () => {
  const answers: (() => void)[] = [];
  const { made } = opened([line(1, "one")], (path) => (path.endsWith("/turns") ? new Promise((done) => answers.push(() => done({ joined: true }))) : undefined));
  const keys = (): unknown[] => vi.mocked(made.api.request).mock.calls.filter(([, path]) => path.endsWith("/turns")).map((call) => (call[2] as Item)["key"]);
  const field = (): HTMLTextAreaElement => screen.getByLabelText<HTMLTextAreaElement>("Message Talk t1");
  const send = (): boolean => fireEvent.click(screen.getByRole("button", { name: "Send" }));
  const come = async (): Promise<() => void> => {
    const { unmount } = made.show(<ThreadView id="t1" tab="said" />);
    await flushPromises();
    return unmount;
  };
  let pendingApproval = await come();
  fireEvent.change(field(), { target: { value: "Go on" } });
  send();
  pendingApproval();
  pendingApproval = await come();
  expect(field().value).toBe("Go on"); // no response yet
  send();
  expect(new Set(keys()).size).toBe(1);
  answers[0]?.();
  await flushPromises();
  expect([field().value, made.storage.keys("molecule.draft")]).toEqual(["", []]);
  answers[1]?.();
  await flushPromises();
  fireEvent.change(field(), { target: { value: "Go on" } });
  send();
  pendingApproval();
  expect([keys().length, new Set(keys()).size]).toEqual([3, 2]); // the same text again is another input
  answers[2]?.();
  await flushPromises();
  await come();
  expect([field().value, made.storage.keys("molecule.draft")]).toEqual(["", []]);
});

test("what was typed after it was sent stays when the answer comes", async () => {
  const answers: (() => void)[] = [];
  const { made } = opened([line(1, "one")], (path) => (path.endsWith("/turns") ? new Promise((done) => answers.push(() => done({ joined: true }))) : undefined));
  made.show(<ThreadView id="t1" tab="said" />);
  await flushPromises();
  const field = screen.getByLabelText<HTMLTextAreaElement>("Message Talk t1");
  fireEvent.change(field, { target: { value: "Go on" } });
  fireEvent.click(screen.getByRole("button", { name: "Send" }));
  fireEvent.change(field, { target: { value: "Go on, and mind the step" } });
  answers[0]?.();
  await flushPromises();
  expect([field.value, made.session.drafts.read("thread.t1")]).toEqual(["Go on, and mind the step", "Go on, and mind the step"]);
});

/** A thread whose inputs the test accepts: `answers` in the order of sending. */
async function sayer(made = new TestPage()): Promise<{ made: TestPage; put: (words: string) => void; send: () => void; answers: ((answer: unknown) => void)[]; keys: () => unknown[]; field: HTMLTextAreaElement }> {
  const answers: ((answer: unknown) => void)[] = [];
  opened([line(1, "one")], (path) => (path.endsWith("/turns") ? new Promise((done, fail) => answers.push((answer) => (answer instanceof Error ? fail(answer) : done(answer)))) : undefined), made);
  made.show(<ThreadView id="t1" tab="said" />);
  await flushPromises();
  const field = screen.getByLabelText<HTMLTextAreaElement>("Message Talk t1");
  return {
    ...{ made, answers, field },
    put: (words) => void fireEvent.change(field, { target: { value: words } }),
    send: () => void fireEvent.click(screen.getByRole("button", { name: "Send" })),
    keys: () => vi.mocked(made.api.request).mock.calls.filter(([, path]) => path.endsWith("/turns")).map((call) => (call[2] as Item)["key"]),
  };
}

test("words that were cut and pasted back while they were on their way are said once, and said anew they are another input", async () => {
  const { made, put, send, answers, keys, field } = await sayer();
  put("Go on");
  send();
  put("");
  put("Go on");
  answers[0]?.({ joined: true });
  await flushPromises();
  expect([field.value, made.storage.keys("molecule.draft")]).toEqual(["", []]);
  put("Go on");
  send();
  expect([keys().length, new Set(keys()).size]).toEqual([2, 2]);
});

test("words that had no answer, cut and pasted back, are sent again as the same input", async () => {
  const { put, send, answers, keys } = await sayer();
  put("Go on");
  send();
  answers[0]?.(new NoResponseError("The server did not respond."));
  await flushPromises();
  put("");
  put("Go on");
  send();
  expect([keys().length, new Set(keys()).size]).toEqual([2, 1]);
});

test("the same words begun anew after a while are said once more, though the answer to the first was lost", async () => {
  const { put, send, answers, keys } = await sayer();
  put("Go on");
  send();
  answers[0]?.(new NoResponseError("The server did not respond."));
  await flushPromises();
  put("");
  vi.spyOn(Date, "now").mockReturnValue(Date.now() + 61_000);
  put("Go on");
  send();
  expect(new Set(keys()).size).toBe(2);
});

test("what another tab says to the same thread meanwhile keeps no answer from its words, and none of its own from it", async () => {
  const { made, put, send, answers, field } = await sayer();
  const other = new TestPage({ storage: made.storage }).session.drafts;
  put("Go on");
  send();
  other.write("thread.t1", "Stop");
  const key = other.keyOf("thread.t1", "auto Stop", "k2");
  answers[0]?.({ joined: true });
  await flushPromises();
  expect([field.value, other.read("thread.t1"), other.keyOf("thread.t1", "auto Stop", "k3")]).toEqual(["", "Stop", key]);
  other.taken("thread.t1", key, "Stop");
  expect(made.storage.keys("molecule.draft")).toEqual([]);
});

test("a fork that is asked for again is the same, and asked for otherwise another one", async () => {
  const { made } = opened([line(1, "one")], (path) => (path.endsWith("/fork") ? new NoResponseError("lost") : undefined));
  made.show(<ThreadView id="t1" tab="said" />);
  await flushPromises();
  fireEvent.click(screen.getByRole("button", { name: "Fork…" }));
  const dialog = within(screen.getByRole("dialog"));
  const fork = async (): Promise<void> => {
    fireEvent.click(dialog.getByRole("button", { name: "Fork" }));
    await flushPromises();
  };
  await fork();
  await fork();
  fireEvent.change(dialog.getByLabelText(/^New base instructions/), { target: { value: "Be quick." } });
  await fork();
  const keys = vi.mocked(made.api.request).mock.calls.filter(([, path]) => path.endsWith("/fork")).map((call) => (call[2] as Item)["key"]);
  expect([keys.length, keys[0] === keys[1], keys[1] === keys[2]]).toEqual([3, true, false]);
});
