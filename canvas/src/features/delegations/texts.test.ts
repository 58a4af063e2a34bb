import { expect, test } from "vitest";
import type { DelegationTimelineEntry } from "../../core/wire";
import { groupText, shownTimeline } from "./texts";

const fact = (name: string, at: string, more: Partial<DelegationTimelineEntry> = {}): DelegationTimelineEntry => ({
  ...{ at, fact: name, status: "queued", phase: "waiting", attempt: 0, late: false, detail: null },
  ...more,
});

test("a fact that led over two states in one moment is told once", () => {
  const stored = fact("stored", "t1", { status: "dispatched" });
  expect(shownTimeline([fact("begun", "t1"), stored, fact("stored", "t1")])).toEqual([fact("begun", "t1"), stored]);
});

test("the same fact at another time or with other words is told again", () => {
  const all = [fact("busy", "t1"), fact("busy", "t2"), fact("busy", "t2", { detail: "for an hour" }), fact("claimed", "t2"), fact("busy", "t2")];
  expect(shownTimeline(all)).toEqual(all);
});

test("a group of delegations says whom the agent asked and how far they are", () => {
  const given = (targetId: string, status: "queued" | "completed" | "failed" | "cancelled") => ({ targetId, status }) as const;
  expect(groupText([given("a", "completed"), given("b", "queued"), given("c", "failed")])).toEqual({ asked: "asked 3 agents", progress: "1 done, 1 failed" });
  expect(groupText([given("a", "completed"), given("a", "completed")])).toEqual({ asked: "delegated 2 tasks to 1 agent", progress: "all done" });
});
