// Made by scripts/docs from the server's shapes (src/molecule_core/wire). Edit those, not this.

/** The protocol of the live channel that this page speaks; a server with a newer one asks for a reload. */
export const PROTOCOL = 1;

/** A workspace as persons and peers see it; also a row of GET /workspaces. Times are RFC 3339. */
export interface WorkspaceView {
  id: string;
  org_id: string;
  name: string;
  role: string | null;
  runtime: string;
  parent_id: string | null;
  delivery_mode: string;
  url: string | null;
  status: string;
  external: boolean;
  tier: number;
  active_tasks: number;
  max_concurrent_tasks: number;
  last_error_rate: number;
  uptime_seconds: number;
  agent_card: unknown;
  instruction_template_id: string | null;
  instruction_compact: boolean;
  broadcast_enabled: boolean;
  talk_to_user_enabled: boolean;
  collapsed: boolean;
  x: number;
  y: number;
  rev: number;
  created_at: string;
  updated_at: string;
  removed_at: string | null;
  key: string | null;
  instruction_shape: string | null;
  reply_seconds: number | null;
  send_drafts: boolean;
}

/** An agent sits in its seat and is heard. `recovered_from`: the status it had before. */
export interface AgentOnlinePayload {
  delivery_mode: string;
  recovered_from?: string;
  agent_card?: unknown;
  url?: string;
}

/** An agent answers, but says that much of its work fails. */
export interface AgentDegradedPayload {
  error_rate: number;
  sample_error?: string;
  runtime_state?: string;
}

/** No heartbeat for too long; None: never one. */
export interface AgentOfflinePayload {
  last_heard_at: string | null;
}

/** A person paused the workspace, or let it sleep. `previous_status`: how it stood before. */
export interface WorkspacePausedPayload {
  previous_status: string;
}

/**
 * The workspace stands below another one now, with all that are below it; None: at the top. Its peers, and those
 * of others, have changed with it. `name`: the new one, where its own was taken there.
 */
export interface WorkspaceMovedPayload {
  parent_id: string | null;
  old_parent_id: string | null;
  name?: string;
}

/** A workspace of a team. */
export interface ExpandedWorkspace {
  id: string;
  name: string;
  role: string | null;
}

/** A team was made below the workspace: all its members, those above before those below. */
export interface WorkspaceExpandedPayload {
  children: ExpandedWorkspace[];
}

/** A workspace that was removed. */
export interface CollapsedWorkspace {
  id: string;
  name: string;
}

/** All below the workspace was removed. */
export interface WorkspaceCollapsedPayload {
  removed_children: CollapsedWorkspace[];
}

/** Tokens of the workspace were issued (`issued`), or end (`ended`, at `ends_at`). Never a token itself. */
export interface CredentialsRotatedPayload {
  issued: number;
  ended: number;
  ends_at: string | null;
}

/** Who belongs to the organisation, or who may do what, has changed: read the list of people again. */
export interface PeopleChangedPayload {
  person_id: string;
}

/** The seat is gone; what it said stays readable for persons. */
export interface WorkspaceRemovedPayload {
  removed_at: string;
}

/** What the agent says of itself now. */
export interface CardUpdatedPayload {
  agent_card: unknown;
}

/**
 * A new row of a workspace's log, as GET /workspaces/{id}/activity shows it. `seq` numbers the log. Bodies that
 * are large are left out, but for a person's message. `instructions`: for the agent itself alone, if it asks.
 */
export interface ActivityPayload {
  activity_type: string;
  status: string;
  seq: number;
  method?: string;
  kind?: string;
  summary?: string;
  source_id?: string;
  target_id?: string;
  duration_ms?: number;
  request_body?: unknown;
  response_body?: unknown;
  tool_trace?: unknown;
  error_detail?: string;
  instructions?: Instructions;
}

/** An agent wrote to its user. `seq` orders the chat of its workspace. `options`: what a question lets choose. */
export interface AgentMessagePayload {
  message: string;
  workspace_id: string;
  name: string;
  seq: number;
  attachments?: Array<Record<string, unknown>>;
  options?: string[];
}

/**
 * A chain of messages ran into a limit (hops, messages or pingpong) and waits for a person. `workspace_id`:
 * whose message was refused; `hops` and `messages`: how far the chain went.
 */
export interface ChainFrozenPayload {
  root_id: string;
  workspace_id: string;
  reason: string;
  hops: number;
  messages: number;
}

/** A person lets a chain go on, up to so many hops and messages in all. */
export interface ChainReleasedPayload {
  root_id: string;
  most_hops: number;
  most_messages: number;
  by: string;
}

/** A person ended a chain: no message of it is taken any more. */
export interface ChainEndedPayload {
  root_id: string;
  by: string;
}

/**
 * What became of the messages of one inbox from `first_seq` to `last_seq`: wake_asked, handed_over, acked,
 * answered, declined, answered_outside or overdue.
 */
export interface MessageTickPayload {
  tick: string;
  first_seq: number;
  last_seq: number;
  at: string;
  attempt?: number;
  reason?: string;
}

/**
 * A message that wanted an answer has got none in time, and a reminder did not help. `draft`: its agent has said
 * something that it did not send. `template` (id@version): what it was told with.
 */
export interface MessageOverduePayload {
  activity_id: string;
  seq: number;
  source_id: string | null;
  handed_at: string;
  draft?: boolean;
  template?: string;
}

/** An agent said something in answer and did not send it: a person may. `state`: kept, sent or discarded. */
export interface MessageDraftedPayload {
  activity_id: string;
  seq: number;
  state: string;
}

/** A message was given up: expired, unreachable or refused. A person can requeue or discard it. */
export interface MessageDeadPayload {
  activity_id: string;
  seq: number;
  reason: string;
  detail: string | null;
  attempts: number;
}

/** A dead letter is handed out again. */
export interface MessageRequeuedPayload {
  activity_id: string;
  seq: number;
}

/** A dead letter is done with for good. */
export interface MessageDiscardedPayload {
  activity_id: string;
  seq: number;
}

/**
 * Old lines of a chat are gone. `kept`: of the agent's lines the numbers (`seq`) of those that are still there,
 * at most as many as are counted as unread.
 */
export interface ChatPrunedPayload {
  kept: number[];
}

/** A workspace wrote something down: `scope` (LOCAL, TEAM or GLOBAL) says for whom. What it is, tells a recall. */
export interface MemoryWrittenPayload {
  memory_id: string;
  scope: string;
  namespace: string;
}

/** A memory is not there any more. */
export interface MemoryForgottenPayload {
  memory_id: string;
}

/** An agent is there. */
export interface HeartbeatPayload {
  active_tasks: number;
  uptime_seconds: number;
  current_task: string | null;
  last_heard_at: string;
}

/** What an agent works on has changed. None: on nothing. */
export interface TaskUpdatedPayload {
  current_task: string | null;
  active_tasks: number;
}

/** Somebody who has a part in an approval. `kind`: person, workspace, rule, clock, server, requester or none. */
export interface Party {
  kind: string;
  id: string;
  name: string;
}

/** Whose turn it is. `kind`: workspace, person, requester (it is asked for more), or none (it has ended). */
export interface CurrentApprover {
  kind: string;
  workspace_id: string | null;
  name: string;
}

/**
 * Something that happened to an approval. `what`: requested, asked, escalated, info_requested, answered, edited,
 * approved, denied, expired, withdrawn or used. `why`: the reason that the server gives; `note`: what `by` said.
 */
export interface ApprovalHistoryEntry {
  at: string;
  what: string;
  by: Party;
  holder: Party | null;
  why: string;
  note: string;
}

/** Who decided. `session`: a short name of the credential it was done with. */
export interface DecidedBy {
  kind: string;
  id: string;
  name: string;
  session: string | null;
}

/** The decision. `decision`: approve or deny; `edited`: the details are not those that were proposed. */
export interface ApprovalDecision {
  decision: string;
  by: DecidedBy;
  at: string;
  note: string;
  revision: number;
  action_hash: string;
  edited: boolean;
}

/** Why it is asked, or went as it did. `kind`: rule, authority or deadline. */
export interface PolicyReason {
  kind: string;
  text: string;
}

/**
 * An approval. Times are RFC 3339 in UTC. `revision` counts what is decided about: it rises when that changes;
 * `seq` counts all changes, and is the `rev` of its events. `details` are the ones in force: `edited`, if
 * somebody has edited them, else `proposed`. `message_id`: the activity that the holder was asked by.
 * `thread_id`: the thread that waits for it.
 */
export interface ApprovalItem {
  approval_id: string;
  workspace_id: string;
  requester_name: string;
  org_id: string;
  action: string;
  reason: string;
  details: unknown;
  proposed: unknown;
  edited: unknown;
  cost: number | null;
  task_id: string | null;
  thread_id: string | null;
  status: string;
  revision: number;
  action_hash: string;
  holder: CurrentApprover;
  for_person: boolean;
  source: string;
  tool: string | null;
  risk: string[];
  created_at: string;
  expires_at: string;
  level_deadline: string | null;
  decided: ApprovalDecision | null;
  used_at: string | null;
  policy: PolicyReason[];
  path: ApprovalHistoryEntry[];
  message_id: string | null;
  seq: number;
}

/** Approvals. `reached_end`: there is none behind them. */
export interface ApprovalPage {
  approvals: ApprovalItem[];
  reached_end: boolean;
}

/** An approval is used, by whoever reads this and nobody else. */
export interface UseApprovalResponse {
  approval_id: string;
  used_at: string;
}

/**
 * Actions that need an approval: those whose name fits the pattern (`*` is any text; the server's own tools are
 * called `tool:<name>`). `cost_above`: only if they cost more, or nobody knows how much; `first_time`: only as
 * long as none like it was approved and used.
 */
export interface ApprovalRule {
  action: string;
  cost_above?: number;
  first_time?: boolean;
  note?: string;
}

/**
 * Actions that a workspace approves by itself for those below it: those whose name fits the pattern, up to a
 * cost, within a time (`from`, `until`: RFC 3339). What fits the pattern and is beyond the bounds is not its to
 * decide.
 */
export interface AuthorityGrant {
  action: string;
  cost_up_to?: number;
  from?: string;
  until?: string;
}

/** What a workspace needs leave for. */
export interface ApprovalRuleSet {
  rules: ApprovalRule[];
}

/** What a workspace decides by itself. */
export interface ApprovalAuthority {
  grants: AuthorityGrant[];
}

/** What a workspace needs leave for, or decides by itself, was set: so many rules and grants it has now. */
export interface PoliciesUpdatedPayload {
  rules: number;
  grants: number;
}

/**
 * A workspace gave work to another one. `seq`: the place of its own row in its log; `task_preview`: at most 100
 * bytes. `parent_id`: the delegation that this one is part of, `root_id` the first of all, `retry_of` the one
 * that is tried again.
 */
export interface DelegationSentPayload {
  delegation_id: string;
  target_id: string;
  task_preview: string;
  seq: number;
  root_id: string;
  depth: number;
  deadline_at: string;
  parent_id?: string;
  retry_of?: string;
}

/**
 * A delegation stands at another place now. With `current_step`, `tools_used`, `eta_hint` or `percent` it
 * changes nothing and only tells how far the work is: such an event has no `seq`, and the next one makes up for
 * it.
 */
export interface DelegationStatusPayload {
  delegation_id: string;
  target_id: string;
  status: string;
  phase: string;
  attempt?: number;
  taken_at?: string;
  error?: string;
  current_step?: string;
  tools_used?: string[];
  eta_hint?: string;
  percent?: number;
}

/**
 * A delegation is answered. `response_preview`: at most 200 bytes; `result_id`: the row that holds all of it, in
 * the inbox of who delegated; `via`: how the answer came.
 */
export interface DelegationCompletePayload {
  delegation_id: string;
  target_id: string;
  response_preview: string;
  via?: string;
  result_id?: string;
}

/**
 * A delegation has ended without an answer, as failed or cancelled: why (`reason`, of a closed list), in what
 * words (`error`), and what to do about it (`advice`).
 */
export interface DelegationFailedPayload {
  delegation_id: string;
  target_id: string;
  error: string;
  reason: string;
  advice: string;
  status: string;
}

/**
 * A guard stopped a delegation before it began: the limit (cycle, depth, children or root), how much of it is in
 * use, and what to do instead.
 */
export interface DelegationRefusedPayload {
  target_id: string;
  task_preview: string;
  limit: string;
  use: number;
  most: number;
  remedy: string;
  parent_id?: string;
}

/** How far the work is, in the words of who does it: said `at` a time. */
export interface DelegationProgress {
  at?: string;
  current_step?: string;
  tools_used?: string[];
  eta_hint?: string;
  percent?: number;
}

/**
 * The receipt of a delegation. `status`: `delegated` for a new one, as the original says it, else how it stands;
 * `state`: always how it stands. `settled`: it has ended, and `result` is the answer. `delivered`: the text is
 * `here`, was handed over `before` and stands here once more, or is a message in the `inbox`. `warning`: why it
 * will hardly begin soon.
 */
export interface DelegateResponse {
  delegation_id: string;
  status: string;
  target_id: string;
  state: string;
  phase: string;
  idempotent_hit?: boolean;
  settled?: boolean;
  result?: string;
  delivered?: string;
  error?: string;
  reason?: string;
  advice?: string;
  retry_of?: string;
  warning?: string;
  message?: string;
}

/** The receipt of a delegation that went another way and is only noted: `status` is `recorded`. */
export interface RecordDelegationResponse {
  delegation_id: string;
  status: string;
  idempotent_hit?: boolean;
}

/** How a delegation stands behind what one of its sides said of its end. One that had ended stays as it was. */
export interface UpdateDelegationResponse {
  delegation_id: string;
  status: string;
}

/**
 * What became of a report of progress: `status` is always `noted`, as older agents expect it; `noted`: it is
 * shown, which it is not of what has ended; `delegation_status`: how the delegation stands.
 */
export interface ReportProgressResponse {
  status: string;
  noted: boolean;
  delegation_status: string;
}

/**
 * A delegation in a list. `summary`: of the task; `error` and `error_detail` are the same text: older clients
 * read the second. `last_heartbeat`: the last sign of life of its work; `stuck`: there was none for too long.
 * `queue_position`: how many rows are before it in the target's inbox, while it waits there. `seq`: of the row
 * in the log of its source.
 */
export interface DelegationItem {
  delegation_id: string;
  source_id: string;
  source_name: string;
  target_id: string;
  target_name: string;
  summary: string;
  status: string;
  phase: string;
  attempt: number;
  reason: string | null;
  error: string | null;
  error_detail: string | null;
  advice: string | null;
  response_preview: string | null;
  result: string | null;
  via: string | null;
  created_at: string;
  updated_at: string;
  taken_at: string | null;
  last_heartbeat: string | null;
  settled_at: string | null;
  deadline: string;
  stuck: boolean;
  parent_id: string | null;
  root_id: string;
  depth: number;
  retry_of: string | null;
  recorded: boolean;
  progress: DelegationProgress | null;
  queue_position: number | null;
  seq: number;
}

/** One line of the time line of a delegation. `late`: it came after the end and has changed nothing. */
export interface DelegationTimelineEntry {
  at: string;
  fact: string;
  status: string;
  phase: string;
  attempt: number;
  late: boolean;
  detail: string | null;
}

/** How long something waited, and how long somebody worked on it. */
export interface TreeDurations {
  waiting: number;
  working: number;
}

/** A delegation and all below it, summed up. */
export interface TreeTotals {
  nodes: number;
  open: number;
  failed: number;
  waiting: number;
  working: number;
}

/** A delegation in a tree. Who may read its top may read all of it. */
export interface DelegationTreeNode {
  delegation_id: string;
  status: string;
  phase: string;
  created_at: string;
  taken_at: string | null;
  settled_at: string | null;
  source_id: string | null;
  source_name: string | null;
  target_id: string | null;
  target_name: string | null;
  summary: string | null;
  attempt: number;
  reason: string | null;
  error: string | null;
  advice: string | null;
  response_preview: string | null;
  last_heartbeat: string | null;
  deadline: string | null;
  stuck: boolean;
  parent_id: string | null;
  depth: number;
  retry_of: string | null;
  progress: DelegationProgress | null;
  own_seconds: TreeDurations;
  subtree: TreeTotals;
  children: DelegationTreeNode[];
}

/**
 * All about one delegation: `task` and `result` in full, the end of its time line and how many lines stand
 * before it, the tree that it is the top of, and its state as A2A calls it.
 */
export interface DelegationDetail {
  delegation: DelegationItem;
  task: string;
  result: string | null;
  timeline: DelegationTimelineEntry[];
  earlier: number;
  tree: DelegationTreeNode;
  a2a_state: string;
}

/** Delegations of an organisation, newest first; how many are open in all, and how many of those are stuck. */
export interface DelegationPage {
  delegations: DelegationItem[];
  open: number;
  stuck: number;
}

/** Delegations by status and by reason, and the median of seconds from begin to end. */
export interface DelegationStats {
  by_status: Record<string, number>;
  by_reason: Record<string, number>;
  open: number;
  stuck: number;
  median_seconds: number | null;
}

/** A line of the chat on a time line. */
export interface TimelineMessage {
  kind: "message";
  id: string;
  role: string;
  content: string;
  timestamp: string;
  seq: number;
  user?: string;
  client_id?: string;
  attachments?: Array<Record<string, unknown>>;
  delivery?: string;
  trouble?: string;
  obligation?: ChatObligation;
  options?: string[];
  option_of?: string;
  option?: number;
}

/** A delegation of the workspace on its time line. */
export interface TimelineDelegation {
  kind: "delegation";
  delegation_id: string;
  source_id: string;
  source_name: string;
  target_id: string;
  target_name: string;
  summary: string;
  status: string;
  phase: string;
  attempt: number;
  reason: string | null;
  error: string | null;
  error_detail: string | null;
  advice: string | null;
  response_preview: string | null;
  result: string | null;
  via: string | null;
  created_at: string;
  updated_at: string;
  taken_at: string | null;
  last_heartbeat: string | null;
  settled_at: string | null;
  deadline: string;
  stuck: boolean;
  parent_id: string | null;
  root_id: string;
  depth: number;
  retry_of: string | null;
  recorded: boolean;
  progress: DelegationProgress | null;
  queue_position: number | null;
  seq: number;
}

/**
 * What a workspace and its users said and what it delegated, in one order, oldest first. `reached_end`: nothing
 * older is there.
 */
export interface TimelinePage {
  items: Array<TimelineMessage | TimelineDelegation>;
  reached_end: boolean;
}

/**
 * How to answer one message. `text` is the words; the other members say the same to programs. `available_tools`
 * are bare names, `reply_via` and `text` spell tools as the runtime does. `tokens`: what the words cost, about.
 */
export interface Instructions {
  reply_via: string;
  reply_args: Record<string, string>;
  stdout_warning: string;
  docs_url: string;
  available_tools: string[];
  template: string;
  form: "compact" | "delta" | "full";
  text: string;
  tokens: number;
  reply_handle?: string;
  due_at?: string;
}

/**
 * One row of GET /workspaces/{id}/activity. Times are RFC 3339. Members that are UNSET are left out. `root_id`,
 * `hop` and `cause_id` tell the chain of a message that another one caused. `reminder`: it was handed out
 * before, and nobody has answered it. `instructions` says to the agent itself how to answer, if it asks for
 * that.
 */
export interface ActivityRow {
  id: string;
  workspace_id: string;
  seq: number;
  activity_type: string;
  method: string | null;
  kind: string | null;
  intent: string | null;
  source_id: string | null;
  target_id: string | null;
  status: string;
  created_at: string;
  duration_ms: number | null;
  summary: string | null;
  error_detail: string | null;
  request_body?: unknown;
  response_body?: unknown;
  tool_trace?: unknown;
  root_id?: string;
  hop?: number;
  cause_id?: string;
  trace_parent?: string;
  attempt?: number;
  redelivered?: boolean;
  reminder?: boolean;
  peer_name?: string;
  peer_role?: string;
  agent_card_url?: string;
  attachments?: Array<Record<string, unknown>>;
  instructions?: Instructions;
}

/**
 * The duty to answer a person's message: open, answered, declined (`reason`), answered_outside or overdue.
 * `draft`: what the agent said and did not send. `template` (id@version), `form` and `tokens`: of the
 * instructions that it came with.
 */
export interface ChatObligation {
  state: string;
  due_at?: string;
  draft?: string;
  reason?: string;
  template?: string;
  form?: string;
  tokens?: number;
}

/**
 * One line of the chat between a workspace and its users. `role` is `user` or `agent`; `client_id` is the
 * messageId that the person's client chose. `delivery` tells how far a person's message has come (stored,
 * handed_over, acked, dead), `trouble` why it is dead, `obligation` whether it was answered. `options`: what an
 * agent's question lets choose; `option_of`: the question that a person's message answers, with its `option` of
 * this number.
 */
export interface ChatMessage {
  id: string;
  role: string;
  content: string;
  timestamp: string;
  seq: number;
  user?: string;
  client_id?: string;
  attachments?: Array<Record<string, unknown>>;
  delivery?: string;
  trouble?: string;
  obligation?: ChatObligation;
  options?: string[];
  option_of?: string;
  option?: number;
}

/** Who wrote some of the mail that waits: a workspace, or (with an empty id) a person on the canvas. */
export interface MailSender {
  workspace_id: string;
  name: string;
  count: number;
}

/** What waits in an inbox, without any of its words. `more`: there is more than was counted. */
export interface WaitingMail {
  workspace_id: string;
  name: string;
  waiting: number;
  more: boolean;
  oldest_at: string | null;
  senders: MailSender[];
}

/** A page of chat, oldest first. `reached_end`: nothing more lies in the direction that was asked for. */
export interface ChatPage {
  messages: ChatMessage[];
  reached_end: boolean;
}

/** What an event is about: `rev` counts the entity's changes; 0 for what never changes. */
export interface EventEntity {
  kind: string;
  id: string;
  rev: number;
}

/**
 * One event. `seq` numbers the organisation's journal; `prev` is the seq of the event before it on this channel.
 * Transient events (`WORKSPACE_HEARTBEAT`, `TASK_UPDATED`) have neither: nothing misses them. `client_id` is the
 * messageId of the person's message that caused it.
 */
export interface EventFrame {
  event: string;
  workspace_id: string;
  timestamp: string;
  payload: unknown;
  entity: EventEntity;
  seq?: number;
  prev?: number;
  client_id?: string;
}

/** Who looks. `kind`: person, workspace or admin; `role`: viewer, operator or owner. */
export interface SessionUser {
  id: string;
  name: string;
  kind: string;
  role: string;
}

/**
 * The first frame. `epoch` changes when numbers cannot be trusted any more: drop all, load a snapshot. `oldest`
 * is the first event that is kept: one can go on behind `oldest` - 1 or later.
 */
export interface HelloFrame {
  type: "hello";
  protocol: number;
  epoch: string;
  org_id: string;
  head: number;
  oldest: number;
  user: SessionUser;
  heartbeat_s: number;
  server_time: string;
}

/** From the client: go on behind `after`, which was learned in `epoch`. Without `after`: from here on. */
export interface SubscribeFrame {
  type: "subscribe";
  after?: number | null;
  epoch?: string | null;
}

/** `count` events follow, behind `after` and up to `upto`; then live ones. The first has `prev` == `after`. */
export interface ResumedFrame {
  type: "resumed";
  after: number;
  upto: number;
  count: number;
}

/** Nothing was missed: `after` is the head. */
export interface CurrentFrame {
  type: "current";
  after: number;
}

/** Load a snapshot and subscribe behind its `as_of`. `reason`: epoch_changed, too_many, ahead or pruned. */
export interface SnapshotRequiredFrame {
  type: "snapshot_required";
  reason: string;
}

/** The channel lives; `head_sent` is the seq of the last event sent on it. */
export interface PingFrame {
  type: "ping";
  head_sent: number;
}

/** A workspace with what its agent said last. */
export interface SnapshotWorkspace {
  id: string;
  org_id: string;
  name: string;
  role: string | null;
  runtime: string;
  parent_id: string | null;
  delivery_mode: string;
  url: string | null;
  status: string;
  external: boolean;
  tier: number;
  active_tasks: number;
  max_concurrent_tasks: number;
  last_error_rate: number;
  uptime_seconds: number;
  agent_card: unknown;
  instruction_template_id: string | null;
  instruction_compact: boolean;
  broadcast_enabled: boolean;
  talk_to_user_enabled: boolean;
  collapsed: boolean;
  x: number;
  y: number;
  rev: number;
  created_at: string;
  updated_at: string;
  removed_at: string | null;
  key: string | null;
  instruction_shape: string | null;
  reply_seconds: number | null;
  send_drafts: boolean;
  current_task: string | null;
  last_heard_at: string | null;
}

/** The last message of a chat. `content` is cut. */
export interface LastChatMessage {
  id: string;
  role: string;
  content: string;
  timestamp: string;
  seq: number;
}

/** How a workspace's chat stands for the person who asks. `unread` stops counting at 100. */
export interface SnapshotChat {
  workspace_id: string;
  unread: number;
  read_seq: number;
  last: LastChatMessage;
}

/**
 * Messages to a workspace that wait for an answer although it was due, by their `seq`: `overdue` ones, and those
 * whose agent said something `outside` and did not send it. One can be in both.
 */
export interface SnapshotUnanswered {
  workspace_id: string;
  overdue: number[];
  outside: number[];
}

/**
 * A delegation that has not ended, as its events tell it. `task_preview`: at most 100 bytes; `seq`: of the row
 * in the log of its source; `life_at`: the last sign of life of its work.
 */
export interface SnapshotDelegation {
  delegation_id: string;
  source_id: string;
  target_id: string;
  task_preview: string;
  status: string;
  phase: string;
  attempt: number;
  rev: number;
  seq: number;
  parent_id: string | null;
  root_id: string;
  depth: number;
  created_at: string;
  taken_at: string | null;
  life_at: string;
  deadline_at: string;
  error: string | null;
  retry_of: string | null;
  progress: DelegationProgress | null;
}

/** A delegation that a guard stopped before it began, as its event told it. `seq` and `at`: of the event. */
export interface SnapshotRejection {
  seq: number;
  at: string;
  source_id: string;
  target_id: string;
  task_preview: string;
  limit: string;
  use: number;
  most: number;
  remedy: string;
}

/** The organisation. */
export interface SnapshotOrg {
  id: string;
  name: string;
}

/** What the page must know before it asks. */
export interface SnapshotLimits {
  text_bytes: number;
  name_length: number;
  reply_seconds: number;
  stuck_seconds: number;
}

/**
 * All that the canvas shows of an organisation, as of one place in its journal. Events with `seq` <= `as_of`, or
 * whose entity's `rev` is not above the known one, are in it already.
 */
export interface Snapshot {
  protocol: number;
  epoch: string;
  as_of: number;
  server_time: string;
  org: SnapshotOrg;
  user: SessionUser;
  limits: SnapshotLimits;
  workspaces: SnapshotWorkspace[];
  chats: SnapshotChat[];
  unanswered: SnapshotUnanswered[];
  delegations: SnapshotDelegation[];
  refusals: SnapshotRejection[];
  approvals: ApprovalItem[];
}

/** Who is logged in. */
export interface SessionView {
  user: SessionUser;
  org: SnapshotOrg;
  version: string;
}

/** Something to do: what, the text to paste, and what that text is (a program, or the content of a file). */
export interface ConnectStep {
  title: string;
  text: string;
  language: string;
  hint: string;
}

/** A host that one can choose. */
export interface HostRow {
  name: string;
  title: string;
  runtime: string;
}

/** How one host is connected to one workspace: by one command, or by hand. No token stands in it. */
export interface ConnectPage {
  host: string;
  title: string;
  workspace_id: string;
  quick: ConnectStep | null;
  by_hand: ConnectStep[];
}

/**
 * What a template says by itself; the rest it has from the one it extends. `tools` and `lines` add, all else
 * replaces; `lines` and `blocks` are texts of the template language (docs/instructions.md).
 */
export interface TemplateParts {
  reply_tool?: string;
  docs_url?: string;
  stdout_warning?: string;
  tools?: string[];
  lines?: string[];
  blocks?: Record<string, string>;
}

/**
 * One version of a template. `runtime`: for which it is meant; empty: for any. `extends`: whose parts it has
 * beside its own; empty: those of the workspace's runtime; null: it has only its own. `built_in`: it came with
 * Molecule. Times are RFC 3339.
 */
export interface TemplateVersion {
  id: string;
  version: number;
  runtime: string;
  extends: string | null;
  parts: TemplateParts;
  note: string | null;
  created_at: string;
  created_by: string;
  built_in: boolean;
}

/**
 * A template that an organisation may use, in the version that is in force. `canary`: another version, which
 * gets `percent` of the messages. `edited`: it came with Molecule, and this organisation has its own version.
 * `used_by`: how many workspaces have chosen it, `default_for`: how many have it because of their runtime.
 */
export interface TemplateRow {
  template: TemplateVersion;
  canary: number | null;
  percent: number;
  since: string;
  edited: boolean;
  used_by: number;
  default_for: number;
}

/** A template with `base`: what those that it extends say together, for a workspace of its runtime. */
export interface TemplateDetail {
  row: TemplateRow;
  base: TemplateParts;
}

/** What was saved. `warnings`: what its author may not have meant. */
export interface SaveTemplateResponse {
  template: TemplateVersion;
  warnings: string[];
}

/**
 * What a workspace is told with. `chosen`: its own choice; null: that of its runtime, which `template` then is.
 * `inline_template`: the text, if it was given as one.
 */
export interface WorkspaceTemplate {
  workspace_id: string;
  chosen: string | null;
  template: TemplateVersion;
  inline_template: string | null;
  warnings: string[];
}

/** What an agent would be told. `text` is byte for byte what the server renders; `tokens` an estimate. */
export interface TemplatePreview {
  template: string;
  form: string;
  text: string;
  tokens: number;
  bytes: number;
  reply_via: string;
  docs_url: string;
  stdout_warning: string;
  available_tools: string[];
  warnings: string[];
}

/** What an agent would be told with one of its last messages; without `text` it would be told nothing. */
export interface RenderedMessage {
  activity_id: string;
  kind: string;
  summary: string | null;
  created_at: string;
  text: string | null;
  tokens: number;
}

/** What an agent would be told with its last messages, newest first. */
export interface RenderedMessageList {
  template: string;
  form: string;
  messages: RenderedMessage[];
  warnings: string[];
}

/**
 * Exactly one of them: a template by its id, or a text beside the template of the workspace's runtime (or the
 * parts of a template).
 */
export interface TemplateChoiceBody {
  template_id: string | null;
  inline_template: string | Record<string, unknown> | null;
}

/**
 * A template of instructions has a new version, or another one is in force, or it is gone (`version` 0).
 * `canary`: the version that gets `percent` of the messages.
 */
export interface TemplateSavedPayload {
  template_id: string;
  version: number;
  by: string;
  canary?: number;
  percent?: number;
}

/** A template could not be rendered: the message went out without instructions. */
export interface TemplateFailedPayload {
  template_id: string;
  version: number;
  workspace_id: string;
  reason: string;
}

/** A canary was answered less than the version in force, and is ended. Rates from 0 to 1, of so many outcomes. */
export interface TemplateRolledBackPayload {
  template_id: string;
  version: number;
  back_to: number;
  canary_rate: number;
  canary_outcomes: number;
  base_rate: number;
  base_outcomes: number;
}

/**
 * One version of a template: its `deliveries` (messages that wanted an answer, the newest that are still kept)
 * by what became of them, each counted once: what was overdue is nothing else, what was answered elsewhere first
 * was not answered. `rate`: answered and declined, of all whose outcome is known. `tokens`: of the instructions,
 * in all, estimated.
 */
export interface TemplateVersionMetrics {
  version: number;
  deliveries: number;
  answered: number;
  declined: number;
  answered_outside: number;
  overdue: number;
  open: number;
  rate: number | null;
  tokens: number;
}

/** One of two versions that share the messages: how many of its outcomes were good, and which part of them. */
export interface TrialArm {
  version: number;
  good: number;
  missed: number;
  rate: number | null;
}

/**
 * A canary beside the version in force, since it began. `chance`: how likely a version that is as good would
 * look as bad; `needs`: it is rolled back at this chance, or below; null: not at this moment, whatever happened.
 */
export interface CanaryTrial {
  since: string;
  percent: number;
  base: TrialArm;
  canary: TrialArm;
  chance: number;
  needs: number | null;
}

/** All versions of a template that were ever told with, newest first, and the trial that is under way. */
export interface TemplateMetrics {
  template_id: string;
  version: number;
  versions: TemplateVersionMetrics[];
  trial: CanaryTrial | null;
}

/** Which version of a template is in force since when, and which other one gets `percent` of the messages. */
export interface TemplateRollout {
  template_id: string;
  version: number;
  canary: number | null;
  percent: number;
  since: string;
}

/**
 * Why a prompt was put together. `kind`: start, file, event, reconnect, gap, command. `detail`: which file,
 * which event of whom.
 */
export interface BuildTrigger {
  kind: string;
  detail: string;
}

/**
 * One piece of a prompt. `source`: where it comes from, as `file:…`, `workspace:…`, `skill:…`, `molecule`.
 * `tokens` is an estimate. `shortened`: what was left out of it to keep the budget; null: nothing.
 */
export interface PromptSection {
  part: number;
  kind: string;
  title: string;
  source: string;
  text: string;
  bytes: number;
  tokens: number;
  hash: string;
  shortened: string | null;
}

/**
 * A whole prompt: its sections in order. `hash` is equal if and only if the prompt is; `budget`: so many tokens
 * it may have; `session_hash`: names the session that has it, where it was given to one.
 */
export interface PromptBuild {
  sections: PromptSection[];
  trigger: BuildTrigger;
  hash: string;
  tokens: number;
  budget: number;
  warnings: string[];
  session_hash: string | null;
}

/**
 * A prompt as the server keeps it. `built_at` (RFC 3339): when the server was told. `revision` counts those of
 * the workspace.
 */
export interface PromptBuildView {
  sections: PromptSection[];
  trigger: BuildTrigger;
  hash: string;
  tokens: number;
  budget: number;
  warnings: string[];
  session_hash: string | null;
  built_at: string;
  revision: number;
}

/** A line of a difference: in both (a blank), only in the newer (+), only in the older (-). */
export interface DiffLine {
  kind: " " | "+" | "-";
  text: string;
}

/** What differs in one section. */
export interface DiffSection {
  part: number;
  title: string;
  change: "added" | "changed" | "removed";
  lines: DiffLine[];
}

/** The newest prompt of a workspace's agent, the one before, and what differs; null and nothing for the first. */
export interface PromptView {
  build: PromptBuildView;
  previous: PromptBuildView | null;
  diff: DiffSection[];
}

/** A file that a workspace shares with its children. `path`: its name, with slashes between folders. */
export interface SharedFile {
  path: string;
  content: string;
}

/** The same as it is kept. Times are RFC 3339. */
export interface SharedFileView {
  path: string;
  content: string;
  bytes: number;
  updated_at: string;
}

/** All that a workspace shares with its direct children. `revision` is 0 if it never has. */
export interface SharedContext {
  workspace_id: string;
  revision: number;
  files: SharedFileView[];
}

/**
 * A workspace shares other files with its direct children now: so many. What they say, tells GET
 * /workspaces/{id}/shared-context.
 */
export interface SharedContextUpdatedPayload {
  revision: number;
  files: number;
}

/**
 * The agent of a workspace has put its system prompt together anew, and why. What it says, tells GET
 * /workspaces/{id}/prompt. `tokens` is an estimate.
 */
export interface PromptBuiltPayload {
  revision: number;
  hash: string;
  tokens: number;
  trigger: BuildTrigger;
}

/** Where base instructions come from. `source`: in words; `from_thread`: whose they were. */
export interface Provenance {
  type: "inherited" | "override" | "prompt" | "review" | "role" | "stored";
  source: string;
  from_thread?: string;
}

/** Base instructions without their text. `thread_id`: the thread that keeps it; a fork's are its source's. */
export interface BaseInstructionsRef {
  thread_id: string;
  version: number;
  sha256: string;
  item_id: string;
  provenance: Provenance;
  bytes: number;
  tokens: number;
}

/** What a fork sees of another thread: its log from behind `since` up to `position`. */
export interface LogPosition {
  thread_id: string;
  position: number;
  since?: number;
}

/** Who wrote something, as the credential proves it. `kind`: person, workspace, thread or server. */
export interface Author {
  kind: string;
  id: string;
  name: string;
}

/** Text for a turn. `peer`: the agent whose words an engine passes on, which are then not the user's. */
export interface TextInput {
  type: "text";
  text: string;
  peer?: string;
}

/** The thread is there. `base`: of a fork alone; `root_workspace_id`: if its tree begins in another workspace. */
export interface ThreadCreatedEntry {
  type: "created";
  thread_id: string;
  org_id: string;
  workspace_id: string;
  root_id: string;
  parent_thread_id: string | null;
  requester_thread_id: string | null;
  forked_from: LogPosition | null;
  path: string;
  task_name: string;
  nickname: string;
  role: string | null;
  kind: "fork" | "review" | "root" | "spawned";
  call_id: string | null;
  wake: "digest" | "queue" | "wake";
  model: string | null;
  effort: string | null;
  tools: string[] | null;
  permissions: Record<string, unknown> | null;
  base: BaseInstructionsRef | null;
  developer: number;
  context: number;
  root_workspace_id: string | null;
}

/** Base instructions of a version are in force. `text` is kept once, apart, and shown here. */
export interface BaseInstructionsEntry {
  type: "base";
  version: number;
  sha256: string;
  provenance: Provenance;
  item_id: string;
  bytes: number;
  tokens: number;
  text: string;
}

/** A layer of instructions has a new version. */
export interface InstructionLayerEntry {
  type: "layer";
  layer: "context" | "developer";
  version: number;
  text: string;
  origin: string;
}

/** What the thread works with from now on. */
export interface SettingsEntry {
  type: "settings";
  model: string | null;
  effort: string | null;
  tools: string[] | null;
  permissions: Record<string, unknown> | null;
}

/** A turn will be run, whatever dies meanwhile. `requester_thread_id`: who gets its end as mail. */
export interface TurnAcceptedEntry {
  type: "turn_accepted";
  turn_id: string;
  trigger: "compact" | "mail" | "message" | "review" | "user" | "wake";
  input: TextInput[];
  author: Author;
  key: string | null;
  requester_thread_id: string | null;
}

/** An engine runs the turn. Once more with a higher generation: another engine, or another life of it, goes on. */
export interface TurnStartedEntry {
  type: "turn_started";
  turn_id: string;
  generation: number;
}

/** What the user says. */
export interface UserMessageEntry {
  type: "user_message";
  text: string;
  author: Author;
}

/** What another agent says: data, never the user's word. `author` and `recipient`: paths. */
export interface PeerMessageEntry {
  type: "peer_message";
  text: string;
  author: string;
  author_thread_id: string | null;
  recipient: string;
  mail_id: string;
  mail_type: "FINAL_ANSWER" | "MESSAGE" | "NEW_TASK";
}

/** How an agent stood when a call ended. `outcome`: of a wait. */
export interface AgentState {
  thread_id: string;
  path: string;
  nickname: string;
  role: string | null;
  status: "completed" | "errored" | "interrupted" | "not_found" | "pending_init" | "running" | "shutdown";
  message?: string;
  outcome?: "ended" | "interrupted" | "source_lost" | "timed_out" | "unknown";
}

/**
 * A call of a collaboration tool begins (`inProgress`) or ends: two entries with one `call_id`, also for a call
 * that is refused, fails or times out. Names and cases are those of the app-server's item. `unread`: of a wait
 * whose end nobody asked for at its deadline, the ends of agents that it tells, by number: not told before it is
 * read.
 */
export interface CollabCallEntry {
  type: "collab";
  call_id: string;
  tool: "close" | "followup" | "interrupt" | "list" | "resume" | "send" | "spawn" | "wait";
  status: "completed" | "failed" | "inProgress" | "interrupted";
  sender_thread_id: string;
  receiver_thread_ids: string[];
  new_thread_id: string | null;
  prompt: string | null;
  model: string | null;
  effort: string | null;
  agents: AgentState[];
  descendants: "close" | "detach" | "interrupt" | null;
  timed_out: boolean;
  reason: string | null;
  deadline: number | null;
  since: number;
  mode: "all" | "any" | null;
  clamped: string | null;
  after: Record<string, number> | null;
  unread: Record<string, number> | null;
}

/** A turn is over. */
export interface TurnEndedEntry {
  type: "turn_ended";
  turn_id: string;
  status: "completed" | "failed" | "interrupted";
  error: string | null;
  final: string | null;
}

/** The thread takes nothing more. `descendants`: what became of those below it. */
export interface ThreadClosedEntry {
  type: "closed";
  descendants: "close" | "detach" | "interrupt";
  by: Author;
}

/** Somebody takes the thread up again. */
export interface ThreadResumedEntry {
  type: "resumed";
  by: Author;
}

/** What the model says. */
export interface AgentMessageEntry {
  type: "agent_message";
  text: string;
}

/** What the model thinks. `data`: as its provider wants it back. */
export interface ReasoningEntry {
  type: "reasoning";
  text?: string;
  data?: unknown;
}

/** The model calls a tool. */
export interface ToolCallEntry {
  type: "tool_call";
  call_id: string;
  tool: string;
  arguments: unknown;
}

/** What came of the call. */
export interface ToolOutputEntry {
  type: "tool_output";
  call_id: string;
  text: string;
  is_error: boolean;
}

/** Something the model is told once: `peers changed: …`. */
export interface ContextNoteEntry {
  type: "context_note";
  text: string;
  origin: string;
}

/** The model sees the summary in place of all up to an ordinal. */
export interface CompactionEntry {
  type: "compaction";
  summary: string;
  upto: number;
  kind: "automatic" | "manual";
}

/** Tokens that a request has cost. The same `record_key` counts once. */
export interface UsageEntry {
  type: "usage";
  record_key: string;
  input: number;
  output: number;
}

/** What the thread waits for now; none of it if the list is empty. */
export interface StatusEntry {
  type: "status";
  flags: Array<"waiting_on_approval" | "waiting_on_user_input">;
}

/** A line of a log as clients read it. `at` is RFC 3339. */
export interface EntryItem {
  ordinal: number;
  item_id: string;
  turn_id: string | null;
  at: string;
  type: string;
  entry: unknown;
}

/** How a thread stands. `message`: its last answer if `completed`, the reason if `errored`. */
export interface ThreadStatus {
  type: "completed" | "errored" | "interrupted" | "not_found" | "pending_init" | "running" | "shutdown";
  message: string | null;
}

/** A thread stands otherwise. */
export interface ThreadStatusChangedPayload {
  thread_id: string;
  root_id: string;
  status: ThreadStatus;
  active_flags: Array<"waiting_on_agents" | "waiting_on_approval" | "waiting_on_child_approval" | "waiting_on_user_input">;
  revision: number;
}

/** A line of a thread's log. `entry` is null if it is large: GET /threads/{id}/items has it. */
export interface ThreadItemPayload {
  thread_id: string;
  root_id: string;
  ordinal: number;
  type: string;
  turn_id: string | null;
  entry: unknown;
}

/** An engine runs a turn of a thread. */
export interface TurnStartedPayload {
  thread_id: string;
  root_id: string;
  turn_id: string;
  generation: number;
}

/** A turn is over: completed, failed or interrupted. */
export interface TurnCompletedPayload {
  thread_id: string;
  root_id: string;
  turn_id: string;
  status: "completed" | "failed" | "interrupted";
  error: string | null;
  final: string | null;
}

/** A thread takes nothing more. */
export interface ThreadClosedPayload {
  thread_id: string;
  root_id: string;
  descendants: "close" | "detach" | "interrupt";
}

/** A receipt. `state`: accepted, delivered (in a request), answered or failed. */
export interface ThreadMailPayload {
  mail_id: string;
  mail_type: "FINAL_ANSWER" | "MESSAGE" | "NEW_TASK";
  author_thread_id: string | null;
  receiver_thread_id: string;
  root_id: string;
  state: "accepted" | "answered" | "delivered" | "failed";
}

/** The base instructions in force, without their text; `tokens` is an estimate. */
export interface BaseInstructionsItem {
  version: number;
  sha256: string;
  provenance: Provenance;
  item_id: string;
  bytes: number;
  tokens: number;
}

/**
 * A thread. Times are RFC 3339. `path`: root, root/task_a, root/task_a/sub. `turn_id`: of the turn that runs,
 * `queued`: of those that wait. `owner`: the engine that holds it. `tree_tokens_used` is null in events.
 */
export interface ThreadItem {
  thread_id: string;
  workspace_id: string;
  org_id: string;
  root_id: string;
  parent_thread_id: string | null;
  requester_thread_id: string | null;
  forked_from: LogPosition | null;
  path: string;
  task_name: string;
  nickname: string;
  role: string | null;
  kind: "fork" | "review" | "root" | "spawned";
  model: string | null;
  effort: string | null;
  tools: string[] | null;
  permissions: Record<string, unknown> | null;
  status: ThreadStatus;
  active_flags: Array<"waiting_on_agents" | "waiting_on_approval" | "waiting_on_child_approval" | "waiting_on_user_input">;
  idle: boolean;
  closed: boolean;
  turn_id: string | null;
  queued: string[];
  turns: number;
  generation: number;
  owner: string | null;
  owner_until: string | null;
  base: BaseInstructionsItem;
  tokens_used: number;
  tree_tokens_used: number | null;
  last_ordinal: number;
  created_at: string;
  updated_at: string;
  call_id: string | null;
  wake: "digest" | "queue" | "wake";
  revision: number;
}

/** A layer of instructions that is in force. */
export interface InstructionLayerItem {
  layer: string;
  version: number;
  origin: string;
  tokens: number;
  text: string;
}

/** A thread with its instructions. */
export interface ThreadView {
  thread_id: string;
  workspace_id: string;
  org_id: string;
  root_id: string;
  parent_thread_id: string | null;
  requester_thread_id: string | null;
  forked_from: LogPosition | null;
  path: string;
  task_name: string;
  nickname: string;
  role: string | null;
  kind: "fork" | "review" | "root" | "spawned";
  model: string | null;
  effort: string | null;
  tools: string[] | null;
  permissions: Record<string, unknown> | null;
  status: ThreadStatus;
  active_flags: Array<"waiting_on_agents" | "waiting_on_approval" | "waiting_on_child_approval" | "waiting_on_user_input">;
  idle: boolean;
  closed: boolean;
  turn_id: string | null;
  queued: string[];
  turns: number;
  generation: number;
  owner: string | null;
  owner_until: string | null;
  base: BaseInstructionsItem;
  tokens_used: number;
  tree_tokens_used: number | null;
  last_ordinal: number;
  created_at: string;
  updated_at: string;
  call_id: string | null;
  wake: "digest" | "queue" | "wake";
  revision: number;
  base_instructions: string;
  layers: InstructionLayerItem[];
}

/** Threads, newest first. `reached_end`: there is none behind them. */
export interface ThreadPage {
  threads: ThreadItem[];
  reached_end: boolean;
}

/** Lines of a log, oldest first. `reached_end`: there was none behind them. */
export interface EntryPage {
  items: EntryItem[];
  reached_end: boolean;
}

/**
 * One thing that the model will see. `item_id` is the same in every request. `origin`: where it comes from;
 * `tokens` is an estimate. `call_id`: of a call of a tool (`tool`, `arguments`), or of its output.
 */
export interface ModelContextItem {
  item_id: string;
  role: "assistant" | "developer" | "peer" | "tool" | "user";
  type: string;
  text: string;
  origin: string;
  tokens: number;
  version?: number;
  ordinal?: number;
  turn_id?: string;
  call_id?: string;
  tool?: string;
  arguments?: unknown;
  is_error?: boolean;
  author?: string;
  data?: unknown;
}

/** All that the model will see, in order, and about how many tokens it is. `stop`: why the turn is not to run. */
export interface ModelContext {
  items: ModelContextItem[];
  tokens: number;
  last_ordinal: number;
  stop: string | null;
}

/** A letter between agents with its receipt; its text stands in the receiver's log once it is delivered. */
export interface MailItem {
  mail_id: string;
  mail_type: "FINAL_ANSWER" | "MESSAGE" | "NEW_TASK";
  author_thread_id: string | null;
  receiver_thread_id: string;
  state: "accepted" | "answered" | "delivered" | "failed";
  sent_at: string;
}

/** The last begins and ends of calls in all logs of a tree, and the last letters to its threads, oldest first. */
export interface CollabPage {
  calls: EntryItem[];
  mail: MailItem[];
}

/**
 * A new thread of a workspace. `base_instructions`: in place of the prompt that the agent has told; `input`: the
 * first turn; `key`: the same again gets the same thread.
 */
export interface StartThreadBody {
  base_instructions: string | null;
  developer: string | null;
  context: string | null;
  model: string | null;
  effort: string | null;
  nickname: string;
  role: string | null;
  tools: string[] | null;
  permissions: Record<string, unknown> | null;
  input: string | TextInput[] | null;
  key: string | null;
}

/**
 * Input for a thread. `mode`: steer joins the turn that runs (`expected_turn_id`: only that one), queue makes a
 * turn of its own, auto does whatever fits.
 */
export interface StartTurnBody {
  input: string | TextInput[];
  mode: "auto" | "queue" | "steer";
  expected_turn_id: string | null;
  key: string | null;
}

/** A turn will be run. `joined`: it was running, and the input went into it. */
export interface TurnResponse {
  turn_id: string;
  joined: boolean;
}

/** What is to be otherwise from now on. Each is kept as a new version, or refused; never accepted and ignored. */
export interface ThreadOverrides {
  base_instructions: string | null;
  developer: string | null;
  context: string | null;
  model: string | null;
  effort: string | null;
  tools: string[] | null;
  permissions: Record<string, unknown> | null;
}

/** A thread that goes on from another one. `position`: the last ordinal that it sees; none: all of it. */
export interface ForkThreadBody {
  base_instructions: string | null;
  developer: string | null;
  context: string | null;
  model: string | null;
  effort: string | null;
  tools: string[] | null;
  permissions: Record<string, unknown> | null;
  position: number | null;
  nickname: string;
  key: string | null;
}

/** Stop what runs. `descendants`: what becomes of those below. */
export interface InterruptThreadBody {
  descendants: "detach" | "interrupt";
}

/** Take nothing more. `descendants`: what becomes of those below. */
export interface CloseThreadBody {
  descendants: "close" | "detach" | "interrupt";
}

/** An engine wants to run a thread. `owner`: what it calls itself. */
export interface ClaimThreadBody {
  owner: string;
}

/** A turn that has not ended. `status`: accepted, or running: another life has begun it. */
export interface OpenTurn {
  turn_id: string;
  trigger: "compact" | "mail" | "message" | "review" | "user" | "wake";
  status: "accepted" | "running";
}

/** The thread is the engine's, as long as it shows this generation before `until`; each of its calls renews that. */
export interface ThreadClaim {
  thread_id: string;
  generation: number;
  until: string;
  open_turn: OpenTurn | null;
}

/** An engine lets a thread go. */
export interface ReleaseThreadBody {
  generation: number;
}

/** An engine begins a turn. */
export interface BeginTurnBody {
  generation: number;
}

/**
 * What an engine adds to the log. None at all: it only renews its claim and asks for news. `seen`: up to where
 * its model was shown the log (left out: all that is there now and in `news`); a wait ends at once if the user
 * has said something behind that. `key`: the same again is added once.
 */
export interface AppendEntriesBody {
  generation: number;
  turn_id: string;
  entries: Array<AgentMessageEntry | ReasoningEntry | ToolCallEntry | ToolOutputEntry | ContextNoteEntry | CompactionEntry | UsageEntry | StatusEntry>;
  key: string | null;
  seen: number | null;
}

/**
 * `news`: what others have added that the engine has not been told. `stop`: interrupted, closed or budget:
 * nothing more is taken for this turn, but for costs and outputs of tools that were called where it is the
 * budget.
 */
export interface AppendEntriesResponse {
  last_ordinal: number;
  news: EntryItem[];
  stop: string | null;
}

/** A turn is over. `seen`: the last ordinal that the model was shown; input behind it gets a turn of its own. */
export interface EndTurnBody {
  generation: number;
  status: "completed" | "failed" | "interrupted";
  error: string | null;
  final: string | null;
  seen: number | null;
}

/** A thread with something to do: a turn that was accepted, or one whose engine was not heard of any more. */
export interface WorkItem {
  thread_id: string;
  path: string;
  turn_id: string;
  status: "accepted" | "running";
}

/** What engines of a workspace may claim, oldest first. */
export interface WorkList {
  threads: WorkItem[];
}

/**
 * A call of a collaboration tool. `call_id`: the same again gets the same end and does nothing; `generation`:
 * only as long as the thread is the engine's. The tool says which of the other members count.
 */
export interface AgentCallBody {
  call_id: string;
  generation: number | null;
  target: string | null;
  targets: string[] | null;
  message: string | null;
  task_name: string | null;
  nickname: string;
  role: string | null;
  kind: "review" | "spawned";
  base_instructions: string | null;
  model: string | null;
  effort: string | null;
  fork_turns: "all" | "none" | number;
  workspace_id: string | null;
  wake: "digest" | "queue" | "wake";
  mode: "all" | "any";
  after: Record<string, number> | null;
  timeout: number | null;
  descendants: "close" | "detach" | "interrupt";
}

/**
 * How a call stands. `call.status` is inProgress for a wait that goes on: ask again with the same `call_id`.
 * `after`: what a later wait may name, to hear no end twice. `undriven`: the paths of those that have something
 * to do and whose workspace (`quiet`) no engine has asked for work lately: they do not move before one does.
 */
export interface AgentCallResponse {
  call: CollabCallEntry;
  after: Record<string, number> | null;
  undriven: string[];
  quiet: string[];
}

/** The agents of a tree whose paths begin so. `undriven`, `quiet`: as in an answer to a call. */
export interface AgentList {
  agents: AgentState[];
  undriven: string[];
  quiet: string[];
}

/** All threads of a tree, oldest first, with what they use of its limits. */
export interface ThreadTreeView {
  threads: ThreadItem[];
  live: number;
  lifetime: number;
  tokens: number;
}

/** What the server sends beside events; `type` tells which. */
export type ServerFrame = HelloFrame | ResumedFrame | CurrentFrame | SnapshotRequiredFrame | PingFrame;

/** What the page sends. */
export type ClientFrame = SubscribeFrame;

/** The payload of each event. */
export interface EventPayloads {
  WORKSPACE_PROVISIONING: WorkspaceView;
  WORKSPACE_UPDATED: WorkspaceView;
  WORKSPACE_ONLINE: AgentOnlinePayload;
  WORKSPACE_DEGRADED: AgentDegradedPayload;
  WORKSPACE_OFFLINE: AgentOfflinePayload;
  WORKSPACE_AWAITING_AGENT: AgentOfflinePayload;
  WORKSPACE_REMOVED: WorkspaceRemovedPayload;
  WORKSPACE_PAUSED: WorkspacePausedPayload;
  WORKSPACE_HIBERNATED: WorkspacePausedPayload;
  WORKSPACE_MOVED: WorkspaceMovedPayload;
  WORKSPACE_EXPANDED: WorkspaceExpandedPayload;
  WORKSPACE_COLLAPSED: WorkspaceCollapsedPayload;
  EXTERNAL_CREDENTIALS_ROTATED: CredentialsRotatedPayload;
  PEOPLE_CHANGED: PeopleChangedPayload;
  AGENT_CARD_UPDATED: CardUpdatedPayload;
  ACTIVITY_LOGGED: ActivityPayload;
  USER_MESSAGE: ActivityPayload;
  AGENT_MESSAGE: AgentMessagePayload;
  BROADCAST_MESSAGE: ActivityPayload;
  CHAIN_FROZEN: ChainFrozenPayload;
  CHAIN_RELEASED: ChainReleasedPayload;
  CHAIN_ENDED: ChainEndedPayload;
  MESSAGE_TICK: MessageTickPayload;
  MESSAGE_OVERDUE: MessageOverduePayload;
  MESSAGE_DRAFTED: MessageDraftedPayload;
  MESSAGE_DEAD: MessageDeadPayload;
  MESSAGE_REQUEUED: MessageRequeuedPayload;
  MESSAGE_DISCARDED: MessageDiscardedPayload;
  CHAT_PRUNED: ChatPrunedPayload;
  DELEGATION_SENT: DelegationSentPayload;
  DELEGATION_STATUS: DelegationStatusPayload;
  DELEGATION_COMPLETE: DelegationCompletePayload;
  DELEGATION_FAILED: DelegationFailedPayload;
  DELEGATION_REFUSED: DelegationRefusedPayload;
  APPROVAL_REQUESTED: ApprovalItem;
  APPROVAL_ESCALATED: ApprovalItem;
  APPROVAL_INFO_REQUESTED: ApprovalItem;
  APPROVAL_ANSWERED: ApprovalItem;
  APPROVAL_APPROVED: ApprovalItem;
  APPROVAL_DENIED: ApprovalItem;
  APPROVAL_EXPIRED: ApprovalItem;
  APPROVAL_WITHDRAWN: ApprovalItem;
  APPROVAL_USED: ApprovalItem;
  APPROVAL_POLICIES_UPDATED: PoliciesUpdatedPayload;
  MEMORY_WRITTEN: MemoryWrittenPayload;
  MEMORY_FORGOTTEN: MemoryForgottenPayload;
  SHARED_CONTEXT_UPDATED: SharedContextUpdatedPayload;
  PROMPT_BUILT: PromptBuiltPayload;
  THREAD_STARTED: ThreadItem;
  THREAD_STATUS_CHANGED: ThreadStatusChangedPayload;
  THREAD_ITEM: ThreadItemPayload;
  TURN_STARTED: TurnStartedPayload;
  TURN_COMPLETED: TurnCompletedPayload;
  THREAD_CLOSED: ThreadClosedPayload;
  THREAD_MAIL: ThreadMailPayload;
  INSTRUCTION_TEMPLATE_SAVED: TemplateSavedPayload;
  INSTRUCTION_TEMPLATE_FAILED: TemplateFailedPayload;
  INSTRUCTION_TEMPLATE_ROLLED_BACK: TemplateRolledBackPayload;
  WORKSPACE_HEARTBEAT: HeartbeatPayload;
  TASK_UPDATED: TaskUpdatedPayload;
}

export type EventName = keyof EventPayloads;

/** A frame with an event that this page knows; `event` tells what its payload is. */
export type KnownEventFrame = {
  [N in EventName]: Omit<EventFrame, "event" | "payload"> & { event: N; payload: EventPayloads[N] };
}[EventName];

/** Events with `seq` and `prev`: nobody misses one without noticing. */
export const JOURNALED = [
  "WORKSPACE_PROVISIONING",
  "WORKSPACE_UPDATED",
  "WORKSPACE_ONLINE",
  "WORKSPACE_DEGRADED",
  "WORKSPACE_OFFLINE",
  "WORKSPACE_AWAITING_AGENT",
  "WORKSPACE_REMOVED",
  "WORKSPACE_PAUSED",
  "WORKSPACE_HIBERNATED",
  "WORKSPACE_MOVED",
  "WORKSPACE_EXPANDED",
  "WORKSPACE_COLLAPSED",
  "EXTERNAL_CREDENTIALS_ROTATED",
  "PEOPLE_CHANGED",
  "AGENT_CARD_UPDATED",
  "ACTIVITY_LOGGED",
  "USER_MESSAGE",
  "AGENT_MESSAGE",
  "BROADCAST_MESSAGE",
  "CHAIN_FROZEN",
  "CHAIN_RELEASED",
  "CHAIN_ENDED",
  "MESSAGE_TICK",
  "MESSAGE_OVERDUE",
  "MESSAGE_DRAFTED",
  "MESSAGE_DEAD",
  "MESSAGE_REQUEUED",
  "MESSAGE_DISCARDED",
  "CHAT_PRUNED",
  "DELEGATION_SENT",
  "DELEGATION_STATUS",
  "DELEGATION_COMPLETE",
  "DELEGATION_FAILED",
  "DELEGATION_REFUSED",
  "APPROVAL_REQUESTED",
  "APPROVAL_ESCALATED",
  "APPROVAL_INFO_REQUESTED",
  "APPROVAL_ANSWERED",
  "APPROVAL_APPROVED",
  "APPROVAL_DENIED",
  "APPROVAL_EXPIRED",
  "APPROVAL_WITHDRAWN",
  "APPROVAL_USED",
  "APPROVAL_POLICIES_UPDATED",
  "MEMORY_WRITTEN",
  "MEMORY_FORGOTTEN",
  "SHARED_CONTEXT_UPDATED",
  "PROMPT_BUILT",
  "THREAD_STARTED",
  "THREAD_STATUS_CHANGED",
  "THREAD_ITEM",
  "TURN_STARTED",
  "TURN_COMPLETED",
  "THREAD_CLOSED",
  "THREAD_MAIL",
  "INSTRUCTION_TEMPLATE_SAVED",
  "INSTRUCTION_TEMPLATE_FAILED",
  "INSTRUCTION_TEMPLATE_ROLLED_BACK",
] as const satisfies readonly EventName[];

/** Events without them: the next one makes up for a lost one. */
export const TRANSIENT = [
  "WORKSPACE_HEARTBEAT",
  "TASK_UPDATED",
] as const satisfies readonly EventName[];
