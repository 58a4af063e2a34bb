import { act, cleanup, fireEvent, screen, within } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { usePlace } from "../../core/app";
import { ApiError } from "../../core/api/api";
import { parsePlace } from "../../core/router";
import type { Verb } from "../../core/testing/modelServer";
import type { AcceptanceReport, DelegationDetail, DelegationItem, DelegationScope, DelegationTreeNode } from "../../core/wire";
import { TestPage, flushPromises } from "../../core/testing/testPage";
import { DelegationView } from "./DelegationView";

const COMPANY: readonly Verb[] = ["a", "b", "c"].map((id) => ({ verb: "create", id, parent: null }));
const TREE: readonly Verb[] = [
  { verb: "delegate", id: "a", target: "b", text: "Build it" },
  { verb: "hand", id: "a", at: 0 },
  { verb: "delegate", id: "b", target: "c", text: "Draw it", within: 0 },
  { verb: "delegate", id: "b", target: "c", text: "Paint it", within: 0 },
  { verb: "settle", id: "b", at: 0, how: "failed", text: "no paper" },
];

/** The clocks of the page start when its modules are loaded. */
vi.hoisted(() => vi.useFakeTimers({ now: Date.parse("2026-03-01T12:01:00Z"), toFake: ["Date"] }));

/** The server's response for a delegation, from its own rows. */
function fullOf(made: TestPage, id: string, earlier = 0, may: DelegationScope | null = null, acceptance: AcceptanceReport | null = null): DelegationDetail {
  const rows = ["a", "b", "c"].flatMap((each) => made.server.timeline(each)).filter((item) => item.kind === "delegation");
  const item = rows.find((each) => each.delegation_id === id);
  if (item === undefined) throw new ApiError(404, "unknown", "There is no such delegation.");
  const node = (each: DelegationItem): DelegationTreeNode => ({
    ...each,
    own_seconds: { waiting: 0, working: 0 },
    subtree: { nodes: 1, open: 1, failed: 0, waiting: 0, working: 0 },
    children: rows.filter(({ parent_id }) => parent_id === each.delegation_id).map(node),
  });
  const begun = { at: item.created_at, fact: "stored", status: "queued", phase: "waiting", attempt: 0, late: false, detail: null };
  return { delegation: item, task: `${item.summary}, all of it`, result: item.result, timeline: [begun], earlier, tree: node(item), a2a_state: "SUBMITTED", acceptance, may };
}

function Placed() {
  const place = usePlace();
  return place.view === "delegation" ? <DelegationView key={place.id} id={place.id} node={place.node} /> : null;
}

async function shown(verbs: readonly Verb[] = TREE, path = "/app/delegations/d1", earlier = 0, may: DelegationScope | null = null, acceptance: AcceptanceReport | null = null): Promise<TestPage> {
  const made = new TestPage();
  for (const each of [...COMPANY, ...verbs]) made.server.do(each);
  made.load();
  vi.spyOn(made.api, "delegation").mockImplementation(async (id) => fullOf(made, id, earlier, may, acceptance));
  made.app.router.go(parsePlace(path, ""));
  made.show(<Placed />);
  await act(() => new Promise((done) => setTimeout(done, 0)));
  await flushPromises();
  return made;
}

const rows = (): HTMLElement[] => screen.getAllByRole("treeitem");
const ids = (): (string | undefined)[] => rows().map((each) => each.dataset["node"]);

test("of a long time line the end is shown, and how much of it is left out", async () => {
  await shown();
  expect(screen.queryByText(/left out/)).toBe(null);
  cleanup();
  await shown(TREE, "/app/delegations/d1", 12);
  expect(screen.getByText("Only the latest entries are shown; 12 earlier ones are omitted.")).toBeTruthy();
});

test("a delegation is shown with its task, its tree and what became of each part", async () => {
  await shown();
  expect(screen.getByRole("heading", { level: 2 }).textContent).toBe("Agent a delegated to Agent b");
  expect(screen.getByText("Build it, all of it")).toBeTruthy();
  expect(ids()).toEqual(["d1", "d2", "d3"]);
  expect(rows()[1]?.textContent).toContain("no paper");
  expect(rows()[1]?.textContent).toContain("Read it, change the task, retry.");
  expect(rows()[0]?.textContent).toContain("including sub-tasks: 3 delegations, 2 open, 1 failed");
  expect(screen.getByRole("region", { name: "History" }).textContent).toContain("In inbox");
});

test("what a task may do is listed, and nothing where nothing restricts it", async () => {
  await shown();
  expect(screen.queryByRole("region", { name: "May" })).toBe(null);
  cleanup();
  await shown(TREE, "/app/delegations/d1", 0, { tools: ["docs.read", "mail.*"], peers: ["c", "gone"], depth: 1, approvals: false });
  const lines = within(screen.getByRole("region", { name: "May" })).getAllByRole("listitem");
  expect(lines.map((line) => line.textContent)).toEqual([
    "Use only these tools: docs.read, mail.*",
    "Message only these agents: Agent c, gone",
    "Delegate 1 level deep",
    "Not request approvals",
  ]);
});

test("checks show what they found, who reviewed the answer, and the review that it waits for", async () => {
  const acceptance: AcceptanceReport = {
    checks: [{ type: "text", contains: "42" }, { type: "review", reviewer_id: "c" }],
    sentences: ["Write 42.", "Another workspace reviews the answer."],
    rounds: 2,
    answers: 2,
    evidence: [
      { check: 2, type: "review", answer: 1, outcome: "failed", detail: "Count again.", ran_by: "c", by: "Agent c" },
      { check: 1, type: "text", answer: 2, outcome: "passed", size: 2 },
      { check: 1, type: "command", answer: 1, outcome: "failed", detail: "exit code 1", size: 30, exit_code: 1, seconds: 2.5, output: "1 failed: test_total" },
    ],
    reviews: [{ check: 2, approval_id: "p1", reviewer_id: "c" }],
    commands: [],
  };
  await shown(TREE, "/app/delegations/d1", 0, null, acceptance);
  const checks = screen.getByRole("region", { name: "Checks" });
  expect(checks.textContent).toContain("Answer 1: failed by Agent cCount again.");
  expect(checks.textContent).toContain("30 bytesexit code 12.5 s");
  expect(within(checks).getByRole("region", { name: "End of the output" }).textContent).toBe("1 failed: test_total");
  expect(within(checks).getByRole("link", { name: "Waits for a review by Agent c" })).toBeTruthy();
});

test("the tree has the answer in one plain line", async () => {
  await shown([...TREE, { verb: "settle", id: "b", at: 1, how: "completed", text: "It is **red**.\n\n- and `blue`" }]);
  expect(rows()[2]?.textContent).toContain("It is red. and blue");
});

test("it grows as it happens, and what is folded stays folded", async () => {
  const made = await shown();
  const tell = (verb: Verb): void => {
    made.server.do(verb);
    made.deliver();
  };
  tell({ verb: "hand", id: "b", at: 0 });
  tell({ verb: "delegate", id: "c", target: "a", text: "Ask for colours", within: 0 });
  expect(ids()).toEqual(["d1", "d2", "d3", "d4"]);
  expect(rows()[3]?.getAttribute("aria-level")).toBe("3");
  const d3 = rows()[2] as HTMLElement;
  d3.focus();
  fireEvent.click(d3.querySelector("[data-twist]") as Element);
  expect(ids()).toEqual(["d1", "d2", "d3"]);
  tell({ verb: "delegate", id: "b", target: "c", text: "One more", within: 0 });
  expect(ids()).toEqual(["d1", "d2", "d3", "d5"]);
  expect(rows()[2]).toBe(d3);
});

test("nothing in the tree is called stuck while its agent says that it is at work", async () => {
  const made = await shown();
  act(() => made.session.data.update((state) => state && { ...state, stuckSeconds: 30 }));
  expect(rows()[0]?.textContent).toContain("Stuck");
  made.beat("b", "2026-03-01T12:00:50.000Z");
  expect(rows()[0]?.textContent).toContain("Working");
});

test("keys walk the tree, fold it, and open a child in place; the breadcrumb leads back", async () => {
  const made = await shown();
  (rows()[0] as HTMLElement).focus();
  const press = (key: string): void => void fireEvent.keyDown(document.activeElement as Element, { key });
  press("ArrowDown");
  expect((document.activeElement as HTMLElement).dataset["node"]).toBe("d2");
  press("ArrowLeft");
  expect((document.activeElement as HTMLElement).dataset["node"]).toBe("d1");
  press("ArrowLeft");
  expect(ids()).toEqual(["d1"]);
  press("ArrowRight");
  press("End");
  expect((document.activeElement as HTMLElement).dataset["node"]).toBe("d3");
  press("Enter");
  await act(() => new Promise((done) => setTimeout(done, 0)));
  await flushPromises();
  expect(made.app.router.place.get()).toEqual({ view: "delegation", id: "d1", node: "d3" });
  expect(ids()).toEqual(["d3"]);
  const trail = screen.getByRole("navigation", { name: "Breadcrumb" });
  fireEvent.click(within(trail).getByRole("link", { name: "Agent b" }));
  await flushPromises();
  expect(ids()).toEqual(["d1", "d2", "d3"]);
});

test("the time line tells waiting from working, in bars and in words, and is zoomed by keys and buttons", async () => {
  await shown([...TREE, { verb: "settle", id: "a", at: 0, how: "completed", text: "built" }]);
  const line = screen.getByRole("region", { name: "Timeline" });
  const bars = [...line.querySelectorAll<HTMLElement>("[data-track='d3'] [data-bar]")].map((each) => each.dataset["bar"]);
  expect(bars).toEqual(["waiting"]);
  const words = [...line.querySelectorAll("[data-track]")].map((each) => each.textContent ?? "");
  expect(words[2]).toMatch(/Agent c: waited 0:\d\d/);
  const zoom = (): string => within(line).getByRole("status").textContent ?? "";
  const box = within(line).getByRole("group", { name: /^Timeline bars/ });
  fireEvent.keyDown(box, { key: "+" });
  expect(zoom()).toBe("150 %");
  fireEvent.click(within(line).getByRole("button", { name: "Zoom in" }));
  expect(zoom()).toBe("225 %");
  fireEvent.keyDown(box, { key: "-" });
  fireEvent.keyDown(box, { key: "0" });
  expect(zoom()).toBe("100 %");
  fireEvent.wheel(box, { deltaY: -1 });
  expect(zoom()).toBe("100 %");
  fireEvent.wheel(box, { deltaY: -1, ctrlKey: true });
  expect(zoom()).toBe("150 %");
});

test("what ended badly and was looked at is no problem any more", async () => {
  const made = await shown([...TREE, { verb: "settle", id: "a", at: 0, how: "failed", text: "no wood" }]);
  expect(screen.getByRole("region", { name: "Why it ended" }).textContent).toContain("no wood");
  expect(made.session.seenProblems.get().has("d1")).toBe(true);
});

test("work that is not there, and work that cannot be read, each say so", async () => {
  await shown([], "/app/delegations/gone");
  expect(screen.getByText("Task not found")).toBeTruthy();
});

test("a part that the live channel brings before it was read is told of an unreadable one", async () => {
  const made = new TestPage().load();
  const read = vi.spyOn(made.api, "delegation").mockRejectedValueOnce(new ApiError(503, null, "The store is busy."));
  made.show(<DelegationView id="d1" node={null} />);
  await act(() => new Promise((done) => setTimeout(done, 0)));
  await flushPromises();
  expect(screen.getByText("The store is busy.")).toBeTruthy();
  for (const each of [...COMPANY, ...TREE]) made.server.do(each);
  read.mockImplementation(async (id) => fullOf(made, id));
  fireEvent.click(screen.getByRole("button", { name: "Try again" }));
  await act(() => new Promise((done) => setTimeout(done, 0)));
  await flushPromises();
  expect(ids()).toEqual(["d1", "d2", "d3"]);
});
