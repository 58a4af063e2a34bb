import { act, screen } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { TestPage, flushPromises } from "../../core/testing/testPage";
import type { DelegationTreeNode, TraceDetail } from "../../core/wire";
import { TraceView } from "./TraceView";

const MESSAGE = { no: 0, activity_id: "m1", workspace_id: "a", workspace_name: "a", source_id: null, source_name: null, user_id: null, kind: "canvas_user", method: "message/send", hop: 0, cause_id: null, at: "2026-03-01T12:00:00Z", state: "open", closed_at: null };

const NODE: DelegationTreeNode = {
  delegation_id: "d1", status: "queued", phase: "waiting", created_at: "2026-03-01T12:00:01Z", taken_at: null, settled_at: null, source_id: "a", source_name: "a",
  target_id: "b", target_name: "b", summary: "Do it", attempt: 1, reason: null, error: null, advice: null, response_preview: null, last_heartbeat: null,
  deadline: null, stuck: false, parent_id: null, depth: 1, retry_of: null, progress: null, own_seconds: { waiting: 0, working: 0 },
  subtree: { nodes: 1, open: 0, failed: 0, waiting: 0, working: 0 }, children: [], checks: 0,
};

test("a turn says what it called and used, and leads to its thread", async () => {
  const made = new TestPage();
  made.server.do({ verb: "create", id: "a", parent: null });
  made.load();
  const turn = { activity_id: "m1", thread_id: "t1", turn_id: "u1", parent_turn_id: null, agent: null, workspace_id: "a", workspace_name: "a", at: "2026-03-01T12:00:30Z", seconds: 12, usage: { input_tokens: 1200, output_tokens: 30 }, tools: { read_file: 2, "<b>x</b>": 1 }, cost_micros: 2_500_000 };
  vi.spyOn(made.api, "trace").mockResolvedValue({ ...traceOf("Ship it"), turns: [turn, { ...turn, at: "2026-03-01T12:01:00Z", thread_id: null, turn_id: null, seconds: null, usage: {}, tools: {}, cost_micros: null }], cost_micros: 2_500_000 });
  made.show(<TraceView id="m1" />);
  await flushPromises();
  await vi.waitFor(() => expect(document.querySelector("[data-event=turn]")).not.toBeNull());
  const turns = [...document.querySelectorAll("[data-event=turn]")];
  expect(turns.map((each) => each.textContent)).toEqual([
    "+0:30Agent a finished a turn of 0:123 tool calls: read_file (2), <b>x</b>, 1,200 input and 30 output tokens, cost US$2.50",
    "+1:00Agent a began a turn",
  ]);
  expect(turns[0]?.querySelector("a[href='/app/threads/t1']")).not.toBeNull();
  expect(screen.getByRole("article", { name: "Request" }).textContent).toContain("2 turns · 3 tool calls · cost US$2.50");
});

test("turns of sub-agents are below the turn that asked for them", async () => {
  const made = new TestPage();
  made.server.do({ verb: "create", id: "a", parent: null });
  made.load();
  const turn = { activity_id: null, thread_id: "t1", workspace_id: "a", workspace_name: "a", seconds: 2, usage: {}, tools: {}, cost_micros: null };
  const turns = [
    { ...turn, turn_id: "u3", parent_turn_id: "u2", agent: "dig/deep", at: "2026-03-01T12:00:03Z" },
    { ...turn, turn_id: "u2", parent_turn_id: "u1", agent: "dig", at: "2026-03-01T12:00:04Z" },
    { ...turn, turn_id: "u1", parent_turn_id: null, agent: null, at: "2026-03-01T12:00:05Z" },
    { ...turn, turn_id: "u5", parent_turn_id: "cut off", agent: "late", at: "2026-03-01T12:00:09Z" },
  ];
  vi.spyOn(made.api, "trace").mockResolvedValue({ ...traceOf("Ship it"), turns });
  made.show(<TraceView id="m1" />);
  await vi.waitFor(() => expect(document.querySelectorAll("[data-event=turn]")).toHaveLength(4));
  const outline = (list: Element): unknown => [...list.children].map((each) => [each.querySelector("p")?.textContent, ...[...each.querySelectorAll(":scope > div > ol")].map(outline)]);
  const [events] = document.querySelectorAll("section[aria-label=Events] > ol");
  expect(outline(events!)).toEqual([
    ["A person wrote to Agent a, no answer yet"],
    ["Agent a finished a turn of 0:02", [["Agent a: sub-agent dig finished a turn of 0:02", [["Agent a: sub-agent dig/deep finished a turn of 0:02"]]]]],
    ["Agent a: sub-agent late finished a turn of 0:02"],
  ]);
});

function traceOf(summary: string): TraceDetail {
  return { root_id: "m1", messages: [{ ...MESSAGE, summary }], delegations: [], approvals: [], turns: [], usage: {}, cost_micros: null, currency: "USD", is_complete: true };
}

test("a read is shown although events arrive before its response, and an older response replaces no newer one", async () => {
  const made = new TestPage();
  made.server.do({ verb: "create", id: "a", parent: null });
  made.load();
  const responses: ((found: TraceDetail) => void)[] = [];
  vi.spyOn(made.api, "trace").mockImplementation(() => new Promise((done) => responses.push(done)));
  const event = (): void => act(() => made.session.data.update((state) => state && { ...state, last: state.last + 1 }));
  made.show(<TraceView id="m1" />);
  await vi.waitFor(() => expect(responses).toHaveLength(1));
  event();
  await act(async () => responses[0]!(traceOf("Ship it")));
  await flushPromises();
  expect(screen.getByRole("article", { name: "Request" }).textContent).toContain("Ship it");

  event();
  await vi.waitFor(() => expect(responses).toHaveLength(2), { timeout: 5_000 });
  event();
  await vi.waitFor(() => expect(responses).toHaveLength(3), { timeout: 5_000 });
  await act(async () => responses[2]!(traceOf("The newer one")));
  await act(async () => responses[1]!(traceOf("The older one")));
  expect(screen.getByRole("article", { name: "Request" }).textContent).toContain("The newer one");
});

test("a delegation of a trace is verified with its checks, or answered and not verified", async () => {
  const made = new TestPage();
  for (const id of ["a", "b"]) made.server.do({ verb: "create", id, parent: null });
  made.load();
  const node = { ...NODE, status: "completed", phase: "ended", settled_at: "2026-03-01T12:00:09Z" };
  const asked = { ...MESSAGE, kind: "delegation", workspace_id: "b", workspace_name: "b", source_id: "a", source_name: "a", state: null };
  const messages = ["m1", "d1", "d2"].map((activity_id, no) => ({ ...(no === 0 ? MESSAGE : asked), activity_id, no, summary: activity_id }));
  const delegations = [{ ...node, delegation_id: "d1", checks: 2 }, { ...node, delegation_id: "d2" }];
  vi.spyOn(made.api, "trace").mockResolvedValue({ ...traceOf("Ship it"), messages, delegations });
  made.show(<TraceView id="m1" />);
  await vi.waitFor(() => expect(document.querySelectorAll("[data-event=message]")).toHaveLength(3));
  const texts = [...document.querySelectorAll("[data-event=message]")].slice(1).map((each) => each.querySelector("div")?.textContent);
  expect(texts).toEqual(["Agent a delegated to Agent b, verifiedd1Checks of the answer", "Agent a delegated to Agent b, answered, not verifiedd2"]);
});
