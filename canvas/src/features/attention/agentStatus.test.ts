// @vitest-environment node
import { expect, test } from "vitest";
import type { PendingApproval } from "../../core/state/approvals";
import { concerns, unreadTotal } from "./concerns";
import { EMPTY_CHAT, orgNodeOf, type Chat, type Workspace } from "../../core/state/model";
import { teamsOf } from "../../core/state/teams";
import { buildTree } from "../../core/state/tree";
import { countStatuses, PRECEDENCE, shownStatus, statusOf, taskOf, STATUS_TEXTS, type AgentStatus } from "../../core/state/agentStatus";
import { workspaceRow } from "../../core/testing/modelServer";

const STATUSES = ["provisioning", "online", "offline", "degraded", "paused", "hibernated", "awaiting_agent", "failed", "removed", "of tomorrow"];

function agent(id: string, part: Partial<Workspace> = {}): Workspace {
  return { ...workspaceRow(id, part), reported_at: null };
}

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
    asking: { status: "online", active_tasks: 1 },
    degraded: { status: "degraded" },
    limited: { status: "online", limited_until: "2026-11-28T14:05:00Z" },
    working: { status: "online", active_tasks: 1 },
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
      const pendingApprovals = new Map<string, PendingApproval>();
      for (const [id, each] of [["lead", one], ["member", other]] as const) if (each === "waiting" || each === "asking") pendingApprovals.set(id, each);
      const team = teamsOf(tree, new Map(both.map((each) => [each.id, each])), pendingApprovals).get("lead");
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
  expect(shownStatus({ ...limited, status: "online" }, "waiting")).toBe("waiting");
});

test("who waits for leave does not work, whatever it said last; only what is worse is told before it", () => {
  const busy = { status: "online", active_tasks: 1, current_task: "deploying", limited_until: null };
  expect(shownStatus(busy, "waiting")).toBe("waiting");
  expect(shownStatus(busy, "asking")).toBe("asking");
  expect(shownStatus({ ...busy, status: "failed" }, "waiting")).toBe("failed");
  expect(shownStatus({ ...busy, status: "degraded" }, "waiting")).toBe("waiting");
  expect(shownStatus({ ...busy, status: "degraded" }, "asking")).toBe("degraded");
  expect(shownStatus({ ...busy, status: "offline" }, "asking")).toBe("asking");
  expect(shownStatus(busy, undefined)).toBe("working");
});

test("counts come in the order of urgency", () => {
  expect([...countStatuses(["online", "failed", "online"])]).toEqual([
    ["failed", 1],
    ["online", 2],
  ]);
});

test("what needs a person is listed oldest first, and who was never there needs nobody", () => {
  const chat: Chat = { ...EMPTY_CHAT, unread: 2, last: { id: "m", author: "agent", text: "hi", at: "2026-03-01T11:00:00Z", seq: 4 } };
  const workspaces = [
    agent("a", { status: "failed", updated_at: "2026-03-01T12:00:00Z" }),
    agent("b", { status: "offline", last_heard_at: "2026-03-01T10:00:00Z" }),
    agent("c", { status: "online" }),
    agent("d", { status: "awaiting_agent" }),
  ];
  const state = { workspaces: new Map(workspaces.map((each) => [each.id, each])), chats: new Map([["c", chat]]), approvals: new Map() };
  expect(concerns(state).map(({ workspaceId, kind }) => `${workspaceId} ${kind}`)).toEqual(["b silent", "c unread", "a failed"]);
  expect(unreadTotal(state.chats)).toBe(2);
});
