import { act, fireEvent, screen, within } from "@testing-library/react";
import { afterEach, expect, test, vi } from "vitest";
import { ApiError } from "../../core/api/api";
import { Announcer } from "../../ui/Announcer";
import { isTicking } from "../../ui/useSeconds";
import type { Delegation } from "../../core/state/delegations";
import type { Verb } from "../../core/testing/modelServer";
import type { DelegationDetail, DelegationItem } from "../../core/wire";
import { Conversation } from "../chat/Conversation";
import { ProblemsView } from "../problems/ProblemsView";
import { TestPage, PATIENT, flushPromises } from "../../core/testing/testPage";
import { DelegationsTab } from "./DelegationsTab";

const COMPANY: readonly Verb[] = ["a", "b", "c"].map((id) => ({ verb: "create", id, parent: null }));
const DAY: readonly Verb[] = [
  { verb: "ask", id: "a", text: "Is it done?" },
  { verb: "delegate", id: "a", target: "b", text: "Read <b>it</b>" },
  { verb: "hand", id: "a", at: 0 },
  { verb: "progress", id: "a", at: 0, text: "page 3" },
  { verb: "delegate", id: "a", target: "c", text: "Mend the door" },
  { verb: "answer", id: "a", text: "I asked the others" },
  { verb: "settle", id: "a", at: 0, how: "completed", text: "All of **it**" },
  { verb: "delegate", id: "a", target: "b", text: "Fail at this" },
  { verb: "settle", id: "a", at: 1, how: "failed", text: "no disk" },
  { verb: "delegate", id: "a", target: "b", text: "Say much" },
  { verb: "settle", id: "a", at: 1, how: "completed", text: "word ".repeat(80).trim() },
];

/** The clocks of the page start when its modules are loaded. */
vi.hoisted(() => vi.useFakeTimers({ now: Date.parse("2026-03-01T12:05:00Z"), toFake: ["Date"] }));
afterEach(() => void vi.useFakeTimers({ now: Date.parse("2026-03-01T12:05:00Z"), toFake: ["Date"] }));

function page(verbs: readonly Verb[] = [], options?: ConstructorParameters<typeof TestPage>[0]): TestPage {
  const made = new TestPage(options);
  for (const each of [...COMPANY, ...verbs]) made.server.do(each);
  return made;
}

const list = (): HTMLElement => screen.getByRole("list", { name: "Messages with Agent a" });
const bubble = (id: string): HTMLElement => {
  const found = list().querySelector<HTMLElement>(`[data-delegation="${id}"]`);
  if (found === null) throw new Error(`there is no bubble of ${id}`);
  return found;
};

async function openGroups(): Promise<void> {
  const closed = await screen.findAllByRole("button", { name: /^Agent a (asked|delegated)/, expanded: false }, PATIENT);
  for (const each of closed) fireEvent.click(each);
}

async function live(verbs: readonly Verb[], options?: ConstructorParameters<typeof TestPage>[0]): Promise<TestPage> {
  const made = page([], options).load();
  made.show(<Conversation workspaceId="a" />);
  await flushPromises();
  for (const each of verbs) made.server.do(each);
  made.deliver();
  return made;
}

test("bubbles made from history are the bubbles made live, to the letter", async () => {
  const first = await live(DAY);
  await openGroups();
  await vi.waitFor(() => expect(list().querySelector("strong")).not.toBeNull(), PATIENT);
  const shown = [...list().querySelectorAll("[data-delegation]")].map((each) => each.outerHTML);
  expect(shown).toHaveLength(4);
  first.session.stop();
  document.body.replaceChildren();

  const later = page(DAY).load();
  later.show(<Conversation workspaceId="a" />);
  await openGroups();
  await vi.waitFor(() => expect([...list().querySelectorAll("[data-delegation]")].map((each) => each.outerHTML)).toEqual(shown), PATIENT);
});

test("from the first event to the answer it is the same element", async () => {
  const made = await live([{ verb: "delegate", id: "a", target: "b", text: "Read it" }]);
  const before = bubble("d1");
  expect(before.textContent).toContain("Queued");
  const tell = (verb: Verb): void => {
    made.server.do(verb);
    made.deliver();
  };
  tell({ verb: "hand", id: "a", at: 0 });
  expect(before.textContent).toContain("Working");
  tell({ verb: "progress", id: "a", at: 0, text: "page 3" });
  expect(before.textContent).toContain("page 3 · with grep · 6 % · soon");
  tell({ verb: "settle", id: "a", at: 0, how: "completed", text: "It says yes" });
  expect(bubble("d1")).toBe(before);
  expect(before.textContent).toContain("Answered");
  expect(before.textContent).toContain("It says yes");
  expect(before.textContent).not.toContain("page 3");
  expect(within(before).queryByRole("button", { name: "Cancel" })).toBeNull();
});

test("time runs once a second while something is open, and for nothing else", async () => {
  vi.useFakeTimers({ now: Date.parse("2026-03-01T12:00:04Z"), toFake: ["Date", "setInterval", "clearInterval"] });
  const made = await live([{ verb: "delegate", id: "a", target: "b", text: "Read it" }]);
  const elapsed = (): string => bubble("d1").querySelector("[data-elapsed]")?.textContent ?? "";
  expect(elapsed()).toBe("0:00");
  act(() => void vi.advanceTimersByTime(42_000));
  expect(elapsed()).toBe("0:42");
  expect(isTicking()).toBe(true);
  made.server.do({ verb: "settle", id: "a", at: 0, how: "cancelled", text: "enough" });
  made.deliver();
  expect(isTicking()).toBe(false);
});

test("what waits tells how many are before it, and that the agent is paused", async () => {
  await live([
    { verb: "delegate", id: "c", target: "b", text: "earlier" },
    { verb: "delegate", id: "a", target: "b", text: "Read it" },
    { verb: "pause", id: "b" },
  ]);
  expect(bubble("d2").textContent).toContain("1 task ahead, the agent is paused");
});

/** The server's response for an ended delegation. */
function ended(made: TestPage, how: "cancelled" | "completed" | "failed"): DelegationItem {
  made.server.do({ verb: "settle", id: "a", at: 0, how, text: "It was enough." });
  return made.server.timeline("a").find((item) => item.kind === "delegation") as DelegationItem;
}

test("work is cancelled at a press; what is refused is told beside it", async () => {
  const made = await live([{ verb: "delegate", id: "a", target: "b", text: "Read it" }]);
  const cancel = vi.spyOn(made.api, "cancel").mockRejectedValueOnce(new ApiError(503, null, "The store is busy."));
  cancel.mockImplementation(async () => ended(made, "cancelled"));
  fireEvent.click(within(bubble("d1")).getByRole("button", { name: "Cancel" }));
  await flushPromises();
  expect(within(bubble("d1")).getByRole("alert").textContent).toBe("The store is busy.");
  fireEvent.click(within(bubble("d1")).getByRole("button", { name: "Cancel" }));
  await flushPromises();
  expect(cancel).toHaveBeenLastCalledWith({ id: "d1", sourceId: "a" });
  made.deliver();
  expect(bubble("d1").textContent).toContain("Cancelled");
  expect(bubble("d1").textContent).toContain("It was enough.");
});

test.each(["cancelled", "completed", "failed"] as const)("after a press of Cancel it is told aloud what came of it: %s", async (how) => {
  const made = await live([{ verb: "delegate", id: "a", target: "b", text: "Read it" }]);
  made.show(<Announcer />);
  vi.spyOn(made.api, "cancel").mockImplementation(async () => ended(made, how));
  fireEvent.click(within(bubble("d1")).getByRole("button", { name: "Cancel" }));
  await flushPromises();
  const words = { cancelled: "Cancelled", completed: "Not cancelled: already answered", failed: "Not cancelled: already failed" };
  expect(screen.getByRole("status").textContent?.trim()).toBe(words[how]);
  expect(within(bubble("d1")).queryByRole("button", { name: "Cancel" })).toBeNull();
});

test("what failed says why and what to do, is tried again once, and both are linked", async () => {
  const made = await live([
    { verb: "delegate", id: "a", target: "b", text: "Read it" },
    { verb: "settle", id: "a", at: 0, how: "failed", text: "no disk" },
  ]);
  expect(bubble("d1").textContent).toContain("no disk");
  expect(bubble("d1").textContent).toContain("Read it, change the task, retry.");
  const retry = vi.spyOn(made.api, "retry").mockResolvedValue({ delegation_id: "d2", status: "delegated", target_id: "b", state: "queued", phase: "waiting" });
  fireEvent.click(within(bubble("d1")).getByRole("button", { name: "Retry" }));
  await flushPromises();
  expect(retry).toHaveBeenCalledExactlyOnceWith({ id: "d1", sourceId: "a" });
  made.server.do({ verb: "retry", id: "a", at: 0 });
  made.deliver();
  expect(within(bubble("d1")).queryByRole("button", { name: "Retry" })).toBeNull();
  expect(within(bubble("d1")).getByRole("link", { name: "Next attempt" }).getAttribute("href")).toBe("/app/delegations/d2");
  expect(within(bubble("d2")).getByRole("link", { name: "Previous attempt" }).getAttribute("href")).toBe("/app/delegations/d1");
});

test("a long answer is shown in part, and all of it when that is asked for", async () => {
  const long = `${"word ".repeat(80)}end`;
  const made = await live([{ verb: "delegate", id: "a", target: "b", text: "Say much" }, { verb: "settle", id: "a", at: 0, how: "completed", text: long }]);
  expect(bubble("d1").textContent).not.toContain("end");
  vi.spyOn(made.api, "delegation").mockResolvedValue({ result: long } as DelegationDetail);
  fireEvent.click(within(bubble("d1")).getByRole("button", { name: "Show all" }));
  await flushPromises();
  expect(bubble("d1").textContent).toContain("end");
  expect(within(bubble("d1")).queryByRole("button", { name: "Show all" })).toBeNull();
});

test("a viewer sees all and may do nothing", async () => {
  await live(DAY, { role: "viewer" });
  await openGroups();
  expect(within(bubble("d2")).queryByRole("button", { name: "Cancel" })).toBeNull();
  expect(within(bubble("d3")).queryByRole("button", { name: "Retry" })).toBeNull();
});

test("an update of one of five hundred open bubbles draws only that one anew", async () => {
  const many: Verb[] = [];
  for (let turn = 0; turn < 500; turn += 1) many.push({ verb: "delegate", id: "a", target: turn % 2 === 0 ? "b" : "c", text: `task ${turn}` });
  const made = await live(many);
  await openGroups();
  const touched: string[] = [];
  const watch = new MutationObserver((records) => {
    for (const { target } of records) {
      const element = target instanceof Element ? target : target.parentElement;
      if (element?.closest("[data-group]") != null) continue; // its heading counts them
      touched.push(element?.closest<HTMLElement>("[data-delegation]")?.dataset["delegation"] ?? "none");
    }
  });
  watch.observe(list(), { subtree: true, childList: true, attributes: true, characterData: true });
  made.server.do({ verb: "hand", id: "a", at: 499 });
  made.deliver();
  await flushPromises();
  watch.disconnect();
  expect(new Set(touched)).toEqual(new Set(["d500"]));
  expect(list().querySelectorAll("[data-delegation]").length).toBeLessThanOrEqual(300);
});

test("the work of an agent is listed, both what it gave and what it was given", async () => {
  const made = page([...DAY, { verb: "delegate", id: "b", target: "a", text: "Come back" }]).load();
  vi.spyOn(made.api, "delegationsOf").mockResolvedValue(made.server.timeline("a").filter((item) => item.kind === "delegation"));
  made.show(<DelegationsTab workspaceId="a" />);
  await flushPromises();
  const rows = within(screen.getByRole("list", { name: "Delegations" })).getAllByRole("listitem");
  expect(rows).toHaveLength(5);
  expect(rows[0]?.textContent).toContain("Delegated by Agent b");
  expect(rows[1]?.textContent).toContain("Delegated to Agent c");
});

test("work that could not be read anew is told of beside what is known, and read at a press", async () => {
  const made = page(DAY).load();
  const read = vi.spyOn(made.api, "delegationsOf").mockRejectedValueOnce(new ApiError(503, null, "The store is busy."));
  made.show(<DelegationsTab workspaceId="a" />);
  await flushPromises();
  expect(screen.getByRole("list", { name: "Delegations" })).toBeTruthy();
  expect(screen.getByRole("alert").textContent).toContain("The store is busy.");
  read.mockResolvedValue([]);
  fireEvent.click(screen.getByRole("button", { name: "Try again" }));
  await flushPromises();
  expect([read.mock.calls.length, screen.queryByRole("alert")]).toEqual([2, null]);
});

test("work is not called stuck while its agent says that it is at work, in the chat and among the problems", async () => {
  const made = await live([{ verb: "delegate", id: "a", target: "b", text: "Read it" }, { verb: "hand", id: "a", at: 0 }]);
  act(() => made.session.data.update((state) => state && { ...state, stuckSeconds: 60 }));
  await made.session.problemLists.read();
  made.show(<ProblemsView />);
  expect(bubble("d1").textContent).toContain("Stuck");
  expect(bubble("d1").textContent).toContain("no activity for 4 min");
  expect(screen.getByRole("region", { name: "Stuck tasks" })).toBeTruthy();
  made.beat("b", "2026-03-01T12:03:30.000Z");
  expect(bubble("d1").textContent).toContain("no activity for 1 min");
  made.beat("b", "2026-03-01T12:04:50.000Z");
  expect(bubble("d1").textContent).toContain("Working");
  expect(screen.getByText("No problems")).toBeTruthy();
});

test("work in trouble is a problem until somebody has seen it, also on the next page", async () => {
  const made = page().load();
  for (const each of DAY) made.server.do(each);
  made.deliver();
  await made.session.problemLists.read();
  const first = made.show(<ProblemsView />);
  const region = screen.getByRole("region", { name: "Failed tasks" });
  expect(region.textContent).toContain("no disk");
  fireEvent.click(within(region).getByRole("button", { name: "Dismiss" }));
  expect(screen.getByText("No problems")).toBeTruthy();
  first.unmount();
  const again = page(DAY, { storage: made.storage }).load();
  again.deliver();
  await again.session.problemLists.read();
  again.show(<ProblemsView />);
  expect(screen.getByText("No problems")).toBeTruthy();
});

test("several delegations are one group, which counts them and opens", async () => {
  const made = await live(DAY.slice(0, 5));
  const group = await screen.findByRole("button", { name: "Agent a asked 2 agents · 0 done" }, PATIENT);
  expect(list().querySelectorAll("[data-delegation]")).toHaveLength(0);
  const bar = within(list()).getByRole("progressbar");
  expect([bar.getAttribute("aria-valuenow"), bar.getAttribute("aria-valuemax")]).toEqual(["0", "2"]);
  made.server.do({ verb: "settle", id: "a", at: 0, how: "completed", text: "All of it" });
  made.deliver();
  expect(group.textContent).toBe("Agent a asked 2 agents · 1 done");
  expect([bar.getAttribute("aria-valuenow"), bar.getAttribute("aria-valuetext")]).toEqual(["1", "1 done"]);
  fireEvent.click(group);
  expect([...list().querySelectorAll<HTMLElement>("[data-delegation]")].map((each) => each.dataset["delegation"])).toEqual(["d1", "d2"]);
  expect(group.getAttribute("aria-expanded")).toBe("true");
});

test("a group with the delegation that a link names is open", async () => {
  const made = page(DAY.slice(0, 5)).load();
  made.show(<Conversation workspaceId="a" messageId="d2" />);
  await screen.findByRole("button", { name: /^Agent a asked 2 agents/, expanded: true }, PATIENT);
  expect(bubble("d2")).toBeTruthy();
});

test("an answer is verified or not, and one that had checks opens them", async () => {
  const made = await live([
    { verb: "delegate", id: "a", target: "b", text: "Read it" },
    { verb: "delegate", id: "a", target: "b", text: "Count it" },
    { verb: "settle", id: "a", at: 0, how: "completed", text: "Read" },
  ]);
  await openGroups();
  expect(bubble("d1").textContent).toContain("not verified");
  expect(bubble("d1").querySelector("details")).toBeNull();
  const change = (part: Partial<Delegation>): void =>
    act(() => made.session.data.update((state) => state && { ...state, delegations: new Map(state.delegations).set("d2", { ...(state.delegations.get("d2") as Delegation), ...part }) }));
  expect(bubble("d2").querySelector("details")).toBeNull();
  change({ phase: "needs_work" });
  expect(bubble("d2").textContent).toMatch(/needs work: an answer failed a check.*Checks of the answer/);
  change({ status: "completed", phase: "ended", verified: true, reply: "Two" });
  expect(bubble("d2").textContent).toContain("verified: it passed all checks");
  expect(bubble("d2").querySelector("details")).not.toBeNull();
});
