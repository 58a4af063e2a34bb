// @vitest-environment node
import { expect, test } from "vitest";
import { orgNodeOf, type Workspace } from "../../core/state/model";
import { teamsOf } from "../../core/state/teams";
import { buildTree } from "../../core/state/tree";
import { countStatuses, PRECEDENCE, shownStatus, statusOf, taskOf, waitText, STATUS_TEXTS, type AgentStatus } from "../../core/state/agentStatus";
import type { Waits } from "../../core/state/waits";
import { workspaceRow } from "../../core/testing/modelServer";

const STATUSES = ["provisioning", "online", "offline", "degraded", "paused", "hibernated", "awaiting_agent", "failed", "removed", "of tomorrow"];

function agent(id: string, part: Partial<Workspace> = {}): Workspace {
  return { ...workspaceRow(id, part), reported_at: null };
}

const NO_WAITS: Waits = { forPerson: false, approvers: [], peers: [], delegated: 0, queued: 0 };
const waits = (part: Partial<Waits>): Waits => ({ ...NO_WAITS, ...part });
const FOR_PERSON = waits({ forPerson: true });
const FOR_LEAD = waits({ approvers: ["lead"] });
const FOR_BACKEND = waits({ peers: ["backend"], delegated: 1 });

test("every status and load has a standing, and every standing a word", () => {
  for (const status of STATUSES) {
    for (const active_tasks of [0, 2]) {
      for (const current_task of [null, "writing"]) {
        const standing = statusOf({ status, active_tasks, current_task, limited_until: null });
        expect(PRECEDENCE).toContain(standing);
        expect(STATUS_TEXTS[standing]).toBeTruthy();
      }
    }
  }
});

test("a team of any two is told by the one that is earlier in the table, and counts both", () => {
  const status: Record<AgentStatus, Partial<Workspace>> = {
    failed: { status: "failed" },
    waiting: { status: "online", active_tasks: 1 },
    peer: { status: "online", active_tasks: 1 },
    degraded: { status: "degraded" },
    limited: { status: "online", limited_until: "2026-11-28T14:05:00Z" },
    working: { status: "online", active_tasks: 1 },
    queued: { status: "online" },
    online: { status: "online" },
    paused: { status: "paused" },
    hibernated: { status: "hibernated" },
    provisioning: { status: "provisioning" },
    awaiting: { status: "awaiting_agent" },
    offline: { status: "offline" },
  };
  PRECEDENCE.forEach((one, at) => {
    PRECEDENCE.forEach((other, beside) => {
      const both = [agent("lead", status[one]), agent("member", { ...status[other], parent_id: "lead" })];
      const tree = buildTree(new Map(both.map((each) => [each.id, orgNodeOf(each)])));
      const waiting = new Map<string, Waits>();
      for (const [id, each] of [["lead", one], ["member", other]] as const) {
        if (each === "waiting") waiting.set(id, FOR_PERSON);
        if (each === "peer") waiting.set(id, FOR_BACKEND);
        if (each === "queued") waiting.set(id, waits({ queued: 1 }));
      }
      const team = teamsOf(tree, new Map(both.map((each) => [each.id, each])), waiting).get("lead");
      expect(team?.worst).toBe(PRECEDENCE[Math.min(at, beside)]);
      expect(team?.size).toBe(2);
      expect(team?.counts.get(other)).toBe(one === other ? 2 : 1);
    });
  });
});

test("an agent that is there and has work is working; one that is gone does nothing", () => {
  expect(statusOf({ status: "online", active_tasks: 1, current_task: null, limited_until: null })).toBe("working");
  expect(statusOf({ status: "online", active_tasks: 0, current_task: "thinking", limited_until: null })).toBe("working");
  expect(statusOf({ status: "offline", active_tasks: 1, current_task: "thinking", limited_until: null })).toBe("offline");
  expect(taskOf({ status: "offline", active_tasks: 1, current_task: "thinking", limited_until: null })).toBeNull();
});

test("a limited agent is shown as limited while it is there, and waits for a person before all else", () => {
  const limited = { active_tasks: 1, current_task: "deploying", limited_until: "2026-11-28T14:05:00Z" };
  expect(statusOf({ ...limited, status: "online" })).toBe("limited");
  expect(statusOf({ ...limited, status: "degraded" })).toBe("limited");
  expect(statusOf({ ...limited, status: "offline" })).toBe("offline");
  expect(statusOf({ ...limited, status: "paused" })).toBe("paused");
  expect(shownStatus({ ...limited, status: "online" }, FOR_PERSON)).toBe("waiting");
  expect(shownStatus({ ...limited, status: "online" }, FOR_BACKEND)).toBe("limited");
});

test("an agent with an approval to come does not work, whatever it said last; only a worse status takes precedence", () => {
  const busy = { status: "online", active_tasks: 1, current_task: "deploying", limited_until: null };
  expect(shownStatus(busy, FOR_PERSON)).toBe("waiting");
  expect(shownStatus(busy, FOR_LEAD)).toBe("peer");
  expect(shownStatus(busy, waits({ forPerson: true, approvers: ["lead"] }))).toBe("waiting");
  expect(shownStatus({ ...busy, status: "failed" }, FOR_PERSON)).toBe("failed");
  expect(shownStatus({ ...busy, status: "degraded" }, FOR_PERSON)).toBe("waiting");
  expect(shownStatus({ ...busy, status: "degraded" }, FOR_LEAD)).toBe("degraded");
  expect(shownStatus({ ...busy, status: "offline" }, FOR_LEAD)).toBe("peer");
  expect(shownStatus(busy, undefined)).toBe("working");
});

test("an agent waits for its peer while all that it works on can be what it delegated", () => {
  const agent = { status: "online", active_tasks: 0, current_task: null, limited_until: null };
  expect(shownStatus(agent, FOR_BACKEND)).toBe("peer");
  expect(shownStatus({ ...agent, active_tasks: 1, current_task: "in attempt 5" }, FOR_BACKEND)).toBe("peer");
  expect(shownStatus({ ...agent, active_tasks: 2 }, FOR_BACKEND)).toBe("working");
  expect(shownStatus({ ...agent, status: "offline" }, FOR_BACKEND)).toBe("offline");
  expect(shownStatus({ ...agent, status: "paused" }, FOR_BACKEND)).toBe("paused");
});

test("tasks are queued for an agent that is idle or paused, not for one that works or is gone", () => {
  const queued = waits({ queued: 2 });
  const agent = { status: "online", active_tasks: 0, current_task: null, limited_until: null };
  expect(shownStatus(agent, queued)).toBe("queued");
  expect(shownStatus({ ...agent, active_tasks: 1 }, queued)).toBe("working");
  for (const status of ["paused", "hibernated"]) expect(shownStatus({ ...agent, status }, queued)).toBe("queued");
  for (const status of ["offline", "awaiting_agent", "provisioning"]) expect(shownStatus({ ...agent, status }, queued)).not.toBe("queued");
});

test("a status says whom the agent waits for, and why tasks are queued", () => {
  const names = new Map([["backend", "Backend"], ["lead", "Lead"]]);
  const said = (status: AgentStatus, what: Waits | undefined, wire = "online"): string => waitText(status, { status: wire }, what, (id) => names.get(id));
  expect(said("peer", FOR_BACKEND)).toBe("Waiting for Backend");
  expect(said("peer", waits({ ...FOR_BACKEND, approvers: ["lead"] }))).toBe("Waiting for Lead");
  expect(said("peer", waits({ peers: ["backend", "lead"], delegated: 3 }))).toBe("Waiting for 2 agents");
  expect(said("peer", waits({ peers: ["gone"], delegated: 1 }))).toBe("Waiting for an agent");
  expect(said("queued", waits({ queued: 1 }))).toBe("Queued");
  expect(said("queued", waits({ queued: 1 }), "paused")).toBe("Queued, paused");
  expect(said("waiting", FOR_PERSON)).toBe("Waiting for you");
});

test("counts come in the order of urgency", () => {
  expect([...countStatuses(["online", "failed", "online"])]).toEqual([
    ["failed", 1],
    ["online", 2],
  ]);
});
