// @vitest-environment node
import { expect, test } from "vitest";
import { approvalOf, withApprovals, type Approval } from "../../core/state/approvals";
import { mergeDelegation, type Delegation } from "../../core/state/delegations";
import { NO_DELEGATION_PROBLEMS, type DelegationProblems } from "../../core/state/delegationLists";
import { countKinds, inboxItems, type InboxItem } from "../../core/state/inboxItems";
import { EMPTY_CHAT, type Workspace } from "../../core/state/model";
import { NO_PROBLEMS, type Problems } from "../../core/state/problems";
import { approvalRow } from "../../core/testing/approvalRows";
import { workspaceRow } from "../../core/testing/modelServer";
import { unreadChats, unreadTotal } from "./unread";

function agent(id: string, part: Partial<Workspace> = {}): Workspace {
  return { ...workspaceRow(id, { status: "online", ...part }), reported_at: null };
}

function work(id: string, part: Partial<Delegation> = {}): Delegation {
  return mergeDelegation(undefined, { id, sourceId: "lead", targetId: "backend", task: `Task ${id}`, status: "queued", phase: "waiting", createdAt: "2026-03-01T11:00:00Z", ...part }, 1);
}

interface Given {
  agents?: readonly Workspace[];
  approvals?: readonly Record<string, unknown>[];
  delegations?: readonly Delegation[];
  problems?: Partial<Problems>;
  tasks?: Partial<DelegationProblems>;
  mayDecide?: boolean;
}

function items({ agents = [], approvals = [], delegations = [], problems = {}, tasks = {}, mayDecide = true }: Given): readonly InboxItem[] {
  const state = {
    workspaces: new Map(agents.map((each) => [each.id, each])),
    approvals: withApprovals(new Map(), approvals.map((row) => approvalOf(row) as Approval)),
    delegations: new Map(delegations.map((each) => [each.id, each])),
  };
  return inboxItems(state, { ...NO_PROBLEMS, ...problems }, { ...NO_DELEGATION_PROBLEMS, ...tasks }, mayDecide);
}

const said = (all: readonly InboxItem[]): string[] => all.map(({ name, text }) => `${name}: ${text}`);

const QUESTION = { activityId: "q1", workspaceId: "a", workspaceName: "Writer", text: "Now?", isCut: false, options: ["Yes", "No"], askedAt: "2026-03-01T10:01:00Z" };
const OWED = {
  activityId: "m1", workspaceId: "a", workspaceName: "Writer", seq: 7, sourceId: null, summary: "Ready?", overdueAt: null, reminded: false,
  handedAt: "2026-03-01T10:02:00Z", draft: "Yes.", template: null,
};
const DEAD = { activityId: "m2", workspaceId: "a", workspaceName: "Writer", sourceId: null, summary: "Hi", reason: "expired", detail: null, attempts: 0, diedAt: "2026-03-01T10:04:00Z" };
const CHAIN = { rootId: "r", workspaceId: "a", workspaceName: "Writer", reason: "hops", frozenAt: "2026-03-01T10:05:00Z", hops: 3, messages: 4, summary: "" };
const MAIL = { workspaceId: "backend", workspaceName: "Backend", waiting: 3, more: false, since: "2026-03-01T10:06:00Z" };

test("everything that waits is listed once, oldest first, each with its kind and in words", () => {
  const all = items({
    agents: [agent("a", { name: "Writer" }), agent("lead", { name: "Lead" }), agent("f", { name: "Broken", status: "failed", updated_at: "2026-03-01T10:09:00Z" })],
    approvals: [approvalRow("p1", { for_person: true, created_at: "2026-03-01T10:00:00Z" }), approvalRow("p2", { created_at: "2026-03-01T10:00:00Z" })],
    problems: { questions: [QUESTION], unanswered: [OWED, { ...OWED, activityId: "m3", handedAt: "2026-03-01T10:03:00Z", draft: null }], deadLetters: [DEAD], chains: [CHAIN], unclaimed: [MAIL] },
    tasks: { failed: [work("d1", { status: "failed", settledAt: "2026-03-01T10:07:00Z" })], stuck: [work("d2", { lifeAt: "2026-03-01T10:08:00Z" })] },
  });
  expect(said(all)).toEqual([
    "Writer: Needs approval",
    "Writer: Asks a question",
    "Writer: Answer not sent",
    "Writer: Answer overdue",
    "Writer: Message not delivered",
    "Writer: Message chain stopped",
    "Backend: 3 messages not picked up",
    "Lead: Task failed",
    "Lead: Task stuck",
    "Broken: Failed",
  ]);
  expect(new Set(all.map(({ key }) => key)).size).toBe(all.length);
  expect(Object.fromEntries(countKinds(all))).toEqual({ approval: 1, question: 1, draft: 1, overdue: 1, undelivered: 2, chain: 1, task: 2, agent: 1 });
});

test("a peer that is gone is listed at once, once, with who waits for it", () => {
  const agents = [agent("lead", { name: "Lead" }), agent("qa", { name: "Quality" }), agent("backend", { name: "Backend", status: "offline", last_heard_at: "2026-03-01T11:30:00Z" })];
  const one = [work("d1"), work("d2", { phase: "working" })];
  const all = items({ agents, delegations: one, tasks: { stuck: [one[1] as Delegation] }, problems: { unclaimed: [MAIL] } });
  expect(said(all)).toEqual(["Backend: Offline, Lead waits for it"]);
  expect(all[0]?.since).toBe("2026-03-01T11:30:00Z");
  const two = items({ agents, delegations: [...one, work("d3", { sourceId: "qa" })] });
  expect(said(two)).toEqual(["Backend: Offline, 2 agents wait for it"]);
});

test("a peer that is gone with nothing to do, or with tasks that have ended, is not listed", () => {
  const agents = [agent("lead"), agent("backend", { status: "offline", last_heard_at: "2026-03-01T09:00:00Z" }), agent("new", { status: "awaiting_agent" })];
  expect(items({ agents })).toEqual([]);
  expect(items({ agents, delegations: [work("d1", { status: "completed", phase: "ended" })] })).toEqual([]);
  expect(items({ agents: [agent("backend")], delegations: [work("d1")] })).toEqual([]);
});

test("who only reads decides no request and answers no question", () => {
  const given: Given = { agents: [agent("a")], approvals: [approvalRow("p1", { for_person: true })], problems: { questions: [QUESTION], deadLetters: [DEAD] } };
  expect(items(given)).toHaveLength(3);
  expect(items({ ...given, mayDecide: false }).map(({ kind }) => kind)).toEqual(["undelivered"]);
});

test("unread chats are in order of their oldest unread message", () => {
  const last = (at: string) => ({ id: "m", author: "agent" as const, text: "hi", at, seq: 4 });
  const chats = new Map([
    ["read", { ...EMPTY_CHAT, last: last("2026-03-01T09:00:00Z") }],
    ["new", { ...EMPTY_CHAT, unread: 1, last: last("2026-03-01T11:00:00Z") }],
    ["old", { ...EMPTY_CHAT, unread: 2, last: last("2026-03-01T10:00:00Z") }],
  ]);
  expect(unreadChats(chats)).toEqual(["old", "new"]);
  expect(unreadTotal(chats)).toBe(3);
});
