// @vitest-environment node
import fc from "fast-check";
import { expect, test } from "vitest";
import type { EventFrame, Snapshot } from "../../core/wire";
import { applyAll } from "../../core/state/apply";
import { approvalLists, approvalOf, approvalsByWorkspace, isPending, placedWithin, withApprovals, type Approval, type Approvals } from "../../core/state/approvals";
import { approvalRow, APPROVAL_HISTORIES, type Row } from "../../core/testing/approvalRows";
import type { State } from "../../core/state/model";
import { applySnapshot } from "../../core/state/snapshot";
import { waitsByAgent } from "../../core/state/waits";
import { ModelServer } from "../../core/testing/modelServer";

const EMPTY: State = applySnapshot(null, new ModelServer().snapshot());
const life = fc.constantFrom(...APPROVAL_HISTORIES);

function frames(rows: readonly Row[], from = 0): EventFrame[] {
  return rows.map((row, at) => ({
    event: row.event,
    workspace_id: "a",
    timestamp: row.item["created_at"] as string,
    payload: row.item,
    entity: { kind: "approval", id: row.item["approval_id"] as string, rev: row.item["seq"] as number },
    seq: from + at + 1,
    prev: from + at,
  }));
}

function told(row: Row): Approval {
  const found = approvalOf(row.item);
  if (found === null) throw new Error("the row has another shape");
  return found;
}

test("whatever is told of approvals, in any order, again and again, the last word of each counts", () => {
  fc.assert(
    fc.property(fc.array(life, { minLength: 1, maxLength: 4 }), fc.infiniteStream(fc.nat()), fc.infiniteStream(fc.boolean()), (lives, picks, twice) => {
      const rows = lives.flatMap((each, at) => each(`p${at}`));
      const shuffled: Approval[] = [];
      for (const row of rows.flatMap((each) => (twice.next().value ? [each, each] : [each]))) shuffled.splice((picks.next().value as number) % (shuffled.length + 1), 0, told(row));
      const inOrder = withApprovals(new Map(), rows.map(told));
      expect(new Map([...shuffled.reduce<Approvals>((all, each) => withApprovals(all, [each]), new Map())].sort())).toEqual(new Map([...inOrder].sort()));
      expect([...inOrder.values()].map(({ seq }) => seq)).toEqual(lives.map((each) => each("p").length));
    }),
    { numRuns: 500 },
  );
});

test("old snapshot and events come to the same as a new snapshot, wherever it was taken", () => {
  fc.assert(
    fc.property(fc.array(life, { minLength: 1, maxLength: 3 }), fc.nat(), (lives, pick) => {
      const rows = lives.flatMap((each, at) => each(`p${at}`));
      const cut = pick % (rows.length + 1);
      const now = new Map<string, Row["item"]>();
      for (const { item } of rows.slice(0, cut)) now.set(item["approval_id"] as string, item);
      const snapshot = { ...new ModelServer().snapshot(), as_of: cut, approvals: [...now.values()] } as unknown as Snapshot;
      const later = applyAll(applySnapshot(null, snapshot), frames(rows));
      expect(later.approvals).toEqual(applyAll(EMPTY, frames(rows)).approvals);
      expect(later.unknownEvents).toBe(0);
    }),
    { numRuns: 300 },
  );
});

test("an open one that a new snapshot does not know is gone, an ended one stays", () => {
  const [open, denied] = [approvalRow("p1"), approvalRow("p2", { status: "denied", seq: 4 })];
  const before = applySnapshot(null, { ...new ModelServer().snapshot(), approvals: [open, denied] } as unknown as Snapshot);
  expect([...before.approvals.keys()]).toEqual(["p1", "p2"]);
  expect([...applySnapshot(before, new ModelServer().snapshot()).approvals.keys()]).toEqual(["p2"]);
});

test("what has another shape is counted and changes nothing", () => {
  fc.assert(
    fc.property(fc.oneof(fc.jsonValue(), fc.record({ approval_id: fc.string(), workspace_id: fc.string(), status: fc.constantFrom("pending", "toString", "x"), seq: fc.integer() }, { requiredKeys: [] })), (payload) => {
      const frame: EventFrame = { event: "APPROVAL_DENIED", workspace_id: "a", timestamp: "", payload, entity: { kind: "approval", id: "p", rev: 1 }, seq: 1, prev: 0 };
      const after = applyAll(EMPTY, [frame]);
      expect([after.approvals.size, after.unknownEvents]).toEqual([0, 1]);
    }),
  );
});

test("the lists: what waits for a person oldest first, what is open, and what has ended newest first", () => {
  const all = withApprovals(new Map(), [
    approvalRow("young", { created_at: "2026-03-01T12:02:00Z", for_person: true }),
    approvalRow("old", { created_at: "2026-03-01T12:00:00Z", for_person: true }),
    approvalRow("with-agent", { created_at: "2026-03-01T12:01:00Z" }),
    approvalRow("asked", { created_at: "2026-03-01T12:03:00Z", for_person: true, status: "info_requested" }),
    approvalRow("done", { status: "approved", for_person: true, created_at: "2026-03-01T11:00:00Z" }),
    approvalRow("undone", { status: "expired", created_at: "2026-03-01T11:30:00Z" }),
  ].map((row) => told({ event: "", item: row })));
  const ids = (list: readonly Approval[]): string[] => list.map(({ id }) => id);
  const { waiting, open, decided } = approvalLists(all);
  expect([ids(waiting), ids(open), ids(decided)]).toEqual([["old", "young"], ["old", "with-agent", "young", "asked"], ["undone", "done"]]);
  expect(approvalLists(all)).toBe(approvalLists(all));
});

test("who asks for leave waits for a person before it waits for an agent; who has to answer a question waits for nobody", () => {
  const all = withApprovals(new Map(), [
    approvalRow("p1", { workspace_id: "a", for_person: true }),
    approvalRow("p2", { workspace_id: "a" }),
    approvalRow("p3", { workspace_id: "b" }),
    approvalRow("p4", { workspace_id: "c", for_person: true, status: "info_requested" }),
    approvalRow("p5", { workspace_id: "d", for_person: true, status: "approved" }),
  ].map((row) => told({ event: "", item: row })));
  const waits = waitsByAgent({ approvals: all, delegations: new Map(), asking: new Set() });
  expect([...waits].map(([id, { forPerson, approvers }]) => [id, forPerson, approvers.length])).toEqual([["a", true, 1], ["b", false, 1]]);
});

test("it stands in the chat of who asks, and of each workspace from when it was asked", () => {
  const at = (minute: number): string => `2026-03-01T12:0${minute}:00Z`;
  const by = { kind: "workspace", id: "a", name: "A" };
  const path = [
    { at: at(0), what: "requested", by, holder: null, why: "", note: "" },
    { at: at(0), what: "asked", by, holder: { kind: "workspace", id: "b", name: "B" }, why: "", note: "" },
    { at: at(1), what: "escalated", by: { kind: "workspace", id: "b", name: "" }, holder: { kind: "workspace", id: "d", name: "D" }, why: "", note: "" },
    { at: at(2), what: "asked", by, holder: { kind: "workspace", id: "c", name: "C" }, why: "", note: "" },
  ];
  const all = withApprovals(new Map(), [told({ event: "", item: approvalRow("p", { path, created_at: at(0) }) })]);
  const places = approvalsByWorkspace(all);
  expect(["a", "b", "c", "d"].map((id) => places.get(id)?.map((each) => each.at))).toEqual([[at(0)], [at(0)], [at(2)], undefined]);
  expect(all.get("p")?.path[2]?.by.name).toBe("B");
  const lines = [{ at: at(1) }, { at: at(3) }];
  const placed = places.get("a") ?? [];
  expect(placedWithin(placed, lines, { atBegin: false, atEnd: true })).toEqual([]);
  expect(placedWithin(placed, lines, { atBegin: true, atEnd: true })).toEqual(placed);
});

test("thousands of ended ones are not kept, open ones are", () => {
  const many = Array.from({ length: 2_200 }, (_, at) => told({ event: "", item: approvalRow(`p${at}`, { status: at === 0 ? "pending" : "denied" }) }));
  const all = withApprovals(new Map(), many);
  expect(all.size).toBe(2_000);
  expect([...all.values()].filter(isPending)).toHaveLength(1);
});
