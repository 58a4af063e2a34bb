// @vitest-environment node
import { expect, test } from "vitest";
import type { Delegation } from "../../core/state/delegations";
import { mergeDelegation } from "../../core/state/delegations";
import { waitsByAgent } from "../../core/state/waits";

function work(id: string, part: Partial<Delegation>): Delegation {
  return mergeDelegation(undefined, { id, sourceId: "lead", targetId: "backend", status: "queued", phase: "waiting", ...part }, 1);
}

const all = (...each: Delegation[]): Map<string, Delegation> => new Map(each.map((one) => [one.id, one]));

const NOTHING = { approvals: new Map(), delegations: new Map(), asking: new Set<string>() };

test("an open task keeps the delegating agent waiting, and is queued until it is picked up", () => {
  const waits = waitsByAgent({ ...NOTHING, delegations: all(work("d1", {}), work("d2", { phase: "working" }), work("d3", { targetId: "writer", status: "completed", phase: "ended" })) });
  expect(waits.get("lead")).toEqual({ forPerson: false, approvers: [], peers: ["backend"], delegated: 2, queued: 0 });
  expect(waits.get("backend")).toEqual({ forPerson: false, approvers: [], peers: [], delegated: 0, queued: 1 });
  expect(waits.has("writer")).toBe(false);
});

test("what changes no wait gives the same map, so that nothing is drawn again", () => {
  const before = waitsByAgent({ ...NOTHING, delegations: all(work("d1", { phase: "working" })) });
  const progressed = waitsByAgent({ ...NOTHING, delegations: all(work("d1", { phase: "working", lifeAt: "2026-03-01T12:00:00Z" })) });
  expect(progressed).toBe(before);
  expect(waitsByAgent({ ...NOTHING, delegations: all(work("d1", { status: "completed", phase: "ended" })) }).size).toBe(0);
});

test("an agent with an open question waits for a person", () => {
  expect(waitsByAgent({ ...NOTHING, asking: new Set(["writer"]) }).get("writer")?.forPerson).toBe(true);
});
