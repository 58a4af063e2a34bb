/** Approvals for tests in wire shape: rows, and whole event histories. */

export type Item = Record<string, unknown>;

export interface Row {
  event: string;
  item: Item;
}

export function approvalRow(id: string, part: Item = {}): Item {
  return {
    approval_id: id,
    workspace_id: "a",
    requester_name: "Agent a",
    org_id: "org",
    action: "deploy",
    reason: "It is tested",
    details: { to: "production" },
    proposed: { to: "production" },
    edited: null,
    cost: null,
    task_id: null,
    status: "pending",
    revision: 1,
    action_hash: "0a1b",
    holder: { kind: "workspace", workspace_id: "b", name: "Agent b" },
    for_person: false,
    source: "tool",
    tool: null,
    risk: [],
    created_at: "2026-03-01T12:00:00Z",
    expires_at: "2036-03-01T13:00:00Z",
    level_deadline: null,
    decided: null,
    used_at: null,
    policy: [],
    path: [],
    message_id: null,
    seq: 1,
    ...part,
  };
}

const PERSON = { kind: "person", id: "ada", name: "Ada" };
const decided = (decision: string): Item => ({ decided: { decision, by: { ...PERSON, session: "s1" }, at: "2026-03-01T12:05:00Z", note: "", revision: 1, action_hash: "0a1b", edited: false } });

type Step = readonly [event: string, part: Item];
const UP: Step = ["APPROVAL_ESCALATED", { for_person: true, holder: { kind: "person", workspace_id: null, name: "" } }];
const WAYS: readonly (readonly Step[])[] = [
  [],
  [UP],
  [UP, ["APPROVAL_APPROVED", { status: "approved", ...decided("approve") }], ["APPROVAL_USED", { status: "approved", used_at: "2026-03-01T12:06:00Z" }]],
  [["APPROVAL_INFO_REQUESTED", { status: "info_requested" }], ["APPROVAL_ANSWERED", { status: "pending", revision: 2 }], ["APPROVAL_DENIED", { status: "denied", ...decided("deny") }]],
  [UP, ["APPROVAL_EXPIRED", { status: "expired" }]],
  [["APPROVAL_WITHDRAWN", { status: "withdrawn" }]],
];

/** Each returns all versions of one approval, in order. */
export const APPROVAL_HISTORIES: readonly ((id: string) => Row[])[] = WAYS.map((way) => (id) => {
  const steps: readonly Step[] = [["APPROVAL_REQUESTED", {}], ...way];
  let now: Item = {};
  return steps.map(([event, part], at) => {
    now = { ...now, ...part, seq: at + 1 };
    return { event, item: approvalRow(id, now) };
  });
});
