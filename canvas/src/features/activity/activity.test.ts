import { expect, test } from "vitest";
import type { LoggedEvent } from "../../core/wire";
import { fromLocalField, localField, MAIN_KINDS, requestParameters, withFilter, withoutOpen } from "./filters";
import { captionText, mostText } from "./Histogram";
import { itemLink, traceLink } from "./places";
import { logRows } from "./rows";

const NOW = Date.parse("2026-03-02T12:00:00Z");

function event(more: Partial<LoggedEvent> & { seq: number }): LoggedEvent {
  return {
    event: "USER_MESSAGE",
    timestamp: "2026-03-02T11:00:00Z",
    workspace_id: "a",
    workspace_name: "Lead",
    kind: "messages",
    state: null,
    direction: "in",
    line: { actor: "A person", verb: "wrote to", target: "Lead", target_id: "a", text: "Ship it" },
    entity: { kind: "activity", id: `m${more.seq}`, rev: 0 },
    payload: {},
    ...more,
  };
}

test("filters of the address become parameters of a request", () => {
  const filters = { q: "kiwi", agent: "a", team: "all", kind: "messages", direction: "in", since: "1h", until: "2026-03-02T11:30:00Z", open: "7" };
  expect(Object.fromEntries(requestParameters(filters, NOW))).toEqual({
    q: "kiwi", workspace: "a", subtree: "true", kind: "messages", direction: "in", since: "2026-03-02T11:00:00.000Z", until: "2026-03-02T11:30:00.000Z",
  });
  expect(requestParameters({ q: "?!", since: "yesterday", team: "all" }, NOW).toString()).toBe("");
  expect(MAIN_KINDS.split(",")).not.toContain("delivery");
});

test("a changed filter closes the open event, and no agent means no team", () => {
  expect(withFilter({ kind: "people", open: "7" }, "state", "failed")).toEqual({ kind: "people", state: "failed" });
  expect(withFilter({ agent: "a", team: "all", q: "kiwi" }, "agent", "")).toEqual({ q: "kiwi" });
  expect(withFilter({ agent: "a", team: "all" }, "state", "done")).toEqual({ agent: "a", team: "all", state: "done" });
  expect(withoutOpen({ q: "kiwi", open: "7", utm: "x" })).toEqual({ q: "kiwi" });
});

test("a time survives the way through its field", () => {
  expect(fromLocalField(localField("2026-03-02T11:30:00.000Z"))).toBe("2026-03-02T11:30:00.000Z");
  expect([localField(undefined), localField("1h"), fromLocalField("")]).toEqual(["", "", ""]);
});

test("rows have a heading for each day, and each change of an approval once", () => {
  const approval = { event: "APPROVAL_REQUESTED", kind: "approvals", entity: { kind: "approval", id: "r", rev: 1 } } as const;
  const rows = logRows([event({ seq: 9, ...approval }), event({ seq: 8, ...approval, workspace_id: "b" }), event({ seq: 7, timestamp: "2026-03-01T23:00:00Z" })], NOW, "UTC");
  expect(rows.map((row) => (row.kind === "day" ? row.heading : row.event.seq))).toEqual(["Today", 9, "Yesterday", 7]);
});

test.each([
  [event({ seq: 1 }), { view: "chats", workspaceId: "a", messageId: "m1" }],
  [event({ seq: 1, event: "ACTIVITY_LOGGED", payload: { source_id: "b" } }), { view: "peers", workspaceId: "a", peerId: "b", messageId: "m1" }],
  [event({ seq: 1, event: "ACTIVITY_LOGGED", payload: { source_id: "b", kind: "delegation" } }), { view: "delegation", id: "m1", node: null }],
  [event({ seq: 1, event: "ACTIVITY_LOGGED", payload: { target_id: "c" } }), { view: "peers", workspaceId: "a", peerId: "c", messageId: "m1" }],
  [event({ seq: 1, entity: { kind: "delegation", id: "d", rev: 2 } }), { view: "delegation", id: "d", node: null }],
  [event({ seq: 1, entity: { kind: "approval", id: "r", rev: 2 }, payload: { workspace_id: "b" } }), { view: "inbox", kind: "approval", list: "all", open: { id: "r", workspaceId: "b" }, item: null }],
  [event({ seq: 1, entity: { kind: "thread", id: "t", rev: 2 } }), { view: "thread", id: "t", tab: "said" }],
  [event({ seq: 1, entity: { kind: "template", id: "terse", rev: 2 } }), { view: "instructions", templateId: "terse" }],
  [event({ seq: 1, entity: { kind: "workspace", id: "a", rev: 2 } }), { view: "org", focus: "a", panel: "about", filter: "" }],
])("an event leads to what it is about: %#", (each, place) => {
  expect(itemLink(each)?.to).toEqual(place);
});

test("only messages and delegations lead to a trace, and people to nothing", () => {
  expect(traceLink(event({ seq: 1 }))?.to).toEqual({ view: "trace", id: "m1" });
  const people = event({ seq: 1, workspace_id: "", entity: { kind: "person", id: "p", rev: 0 } });
  expect([traceLink(people), itemLink(people)]).toEqual([null, null]);
});

test("the caption says what the bars show", () => {
  const counted = { kept_since: null, is_text_complete: true, total: 1204, counted_since: null, until: "2026-03-02T12:00:00Z" };
  const buckets = [{ at: "2026-03-01T10:00:00Z", count: 1204 }];
  expect(captionText({ ...counted, buckets }, NOW, "UTC")).toBe("1,204 events from Yesterday, 10:00 to now");
  expect(captionText({ ...counted, buckets, counted_since: "2026-03-02T09:30:00Z" }, NOW, "UTC")).toBe("1,204 events from 09:30 to now; older ones are not counted");
  expect(captionText({ ...counted, buckets, total: 1, until: "2026-03-02T11:00:00Z" }, NOW, "UTC")).toBe("1 event from Yesterday, 10:00 to 11:00");
  expect(captionText({ ...counted, buckets: [], total: 0, until: null }, NOW, "UTC")).toBe("No events in this time");
  expect(mostText(1204)).toBe("Most in one bar: 1,204");
});
