// Made by scripts/docs from the server's shapes (src/molecule_core/wire). Edit those, not this.

/** The protocol of the live channel that this page speaks; a server with a newer one asks for a reload. */
export const PROTOCOL = 1;

/** The workspace as people and peers see it, as in GET /workspaces. Times are RFC 3339. */
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
  limited_until: string | null;
  limit_reason: string | null;
  a2a_card_url: string | null;
  a2a_published: boolean;
}

/** An agent is connected and sends heartbeats. `recovered_from`: its previous status. */
export interface AgentOnlinePayload {
  delivery_mode: string;
  recovered_from?: string;
  agent_card?: unknown;
  url?: string;
}

/** An agent sends heartbeats, but reports a high error rate. */
export interface AgentDegradedPayload {
  error_rate: number;
  sample_error?: string;
  runtime_state?: string;
}

/** Its agent sent no heartbeat for too long. `last_heard_at`: time of the last heartbeat; null: there was none. */
export interface AgentOfflinePayload {
  last_heard_at: string | null;
}

/** `previous_status`: the status before. */
export interface WorkspacePausedPayload {
  previous_status: string;
}

/**
 * The agent has reached a limit of its vendor, or a budget is used up: its messages wait until then.
 * `limit_reason`: the agent's own words, or `over budget` and how much of it is used.
 */
export interface WorkspaceLimitedPayload {
  limited_until: string;
  limit_reason: string;
}

/** `ended_by`: time, agent, person or budget. */
export interface WorkspaceLimitEndedPayload {
  ended_by: string;
}

/**
 * The workspace moved, with all workspaces below it, to another parent (null: the root). Its peers, and the
 * peers of other workspaces, changed too. `name`: its new name, if another workspace there had the old one.
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

/** A team was created below the workspace. `children`: all members, parents before children. */
export interface WorkspaceExpandedPayload {
  children: ExpandedWorkspace[];
}

/** A removed workspace. */
export interface CollapsedWorkspace {
  id: string;
  name: string;
}

/** All workspaces below the workspace were removed. */
export interface WorkspaceCollapsedPayload {
  removed_children: CollapsedWorkspace[];
}

/** Tokens of the workspace were issued (`issued`) or revoked (`ended`, at `ends_at`). Never contains a token. */
export interface CredentialsRotatedPayload {
  issued: number;
  ended: number;
  ends_at: string | null;
}

/**
 * An app was connected to the workspace by OAuth (`state` is `granted`), or no longer is (`ended`).
 * `client_name` is what the app calls itself. Never contains a token.
 */
export interface OAuthGrantPayload {
  grant_id: string;
  state: string;
  client_name: string;
  person_id: string;
  scope: string;
}

/** The members of the organisation or their roles changed: reload the list. */
export interface PeopleChangedPayload {
  person_id: string;
}

/** The organisation was renamed. */
export interface OrgUpdatedPayload {
  name: string;
}

/** A runner, its agents or requests to it changed: reload the list. */
export interface RunnersChangedPayload {
  runner_id: string;
}

/** The workspace was removed. People can still read its messages. */
export interface WorkspaceRemovedPayload {
  removed_at: string;
}

/** The agent updated its card. */
export interface CardUpdatedPayload {
  agent_card: unknown;
}

/**
 * A new entry in the log of a workspace, as in GET /workspaces/{id}/activity. `seq` numbers the log. Large
 * bodies are omitted, except those of a person's messages. `instructions`: only for the agent itself, if it
 * requests them.
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

/** An agent wrote to its user. `seq` orders the chat of the workspace. `options`: the answers to choose from. */
export interface AgentMessagePayload {
  message: string;
  workspace_id: string;
  name: string;
  seq: number;
  attachments?: Array<Record<string, unknown>>;
  options?: string[];
}

/**
 * A message chain reached a limit (hops, messages or pingpong) and waits for a person. `workspace_id`: the
 * sender of the rejected message; `hops` and `messages`: the length of the chain.
 */
export interface ChainFrozenPayload {
  root_id: string;
  workspace_id: string;
  reason: string;
  hops: number;
  messages: number;
}

/** A person released a chain, with new limits on its total hops and messages. */
export interface ChainReleasedPayload {
  root_id: string;
  most_hops: number;
  most_messages: number;
  by: string;
}

/** A person ended a chain. Its further messages are rejected. */
export interface ChainEndedPayload {
  root_id: string;
  by: string;
}

/**
 * A delivery step of the messages `first_seq` to `last_seq` of an inbox. `tick`: wake_asked, in_inbox,
 * handed_over, acked, failed, answered, declined, answered_outside or overdue.
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
 * A request was not answered in time, even after a reminder. `draft`: the agent has an answer that it did not
 * send. `template` (id@version): the template of its instructions.
 */
export interface MessageOverduePayload {
  activity_id: string;
  seq: number;
  source_id: string | null;
  handed_at: string;
  draft?: boolean;
  template?: string;
}

/** An agent's unsent answer was stored as a draft, which a person may send. `state`: kept, sent or discarded. */
export interface MessageDraftedPayload {
  activity_id: string;
  seq: number;
  state: string;
}

/** A message became a dead letter: it expired, or was unreachable or refused. A person can requeue or discard it. */
export interface MessageDeadPayload {
  activity_id: string;
  seq: number;
  reason: string;
  detail: string | null;
  attempts: number;
}

/** A dead letter was requeued for delivery. */
export interface MessageRequeuedPayload {
  activity_id: string;
  seq: number;
}

/** A dead letter was discarded permanently. */
export interface MessageDiscardedPayload {
  activity_id: string;
  seq: number;
}

/**
 * Old messages of a chat were deleted. `kept`: the `seq` of the agent's remaining messages, at most as many as
 * are counted as unread.
 */
export interface ChatPrunedPayload {
  kept: number[];
}

/** A workspace stored a memory. `scope`: LOCAL, TEAM or GLOBAL. The content is not included; recall it. */
export interface MemoryWrittenPayload {
  memory_id: string;
  scope: string;
  namespace: string;
}

/** A memory was deleted. */
export interface MemoryForgottenPayload {
  memory_id: string;
}

/** An agent sent a heartbeat. */
export interface HeartbeatPayload {
  active_tasks: number;
  uptime_seconds: number;
  current_task: string | null;
  last_heard_at: string;
}

/** An agent's current task changed. Null: it has none. */
export interface TaskUpdatedPayload {
  current_task: string | null;
  active_tasks: number;
}

/** A party of an approval. `kind`: person, workspace, rule, clock, server, requester or none. */
export interface Party {
  kind: string;
  id: string;
  name: string;
}

/** The party whose turn it is. `kind`: workspace, person, requester (has to answer a question) or none (ended). */
export interface CurrentApprover {
  kind: string;
  workspace_id: string | null;
  name: string;
}

/**
 * An entry in the history of an approval. `what`: requested, asked, escalated, info_requested, answered, edited,
 * approved, denied, expired, withdrawn or used. `why`: the server's reason; `note`: the comment of `by`.
 */
export interface ApprovalHistoryEntry {
  at: string;
  what: string;
  by: Party;
  holder: Party | null;
  why: string;
  note: string;
}

/** The party that decided. `session`: a short name of the credential that was used. */
export interface DecidedBy {
  kind: string;
  id: string;
  name: string;
  session: string | null;
}

/** A decision. `decision`: approve or deny; `edited`: the details differ from the proposed ones. */
export interface ApprovalDecision {
  decision: string;
  by: DecidedBy;
  at: string;
  note: string;
  revision: number;
  action_hash: string;
  edited: boolean;
}

/** Why an approval is needed or how it was resolved. `kind`: rule, authority or deadline. */
export interface PolicyReason {
  kind: string;
  text: string;
}

/**
 * An approval. Times are RFC 3339 in UTC. `revision` rises when the content to decide about changes; `seq`
 * counts all changes and is the `rev` of its events. `details`: the details in force, which are `edited` if set,
 * else `proposed`. `message_id`: the activity that asked the current holder. `thread_id`: the thread that waits
 * for it.
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

/** A page of approvals. `reached_end`: there are no more. */
export interface ApprovalPage {
  approvals: ApprovalItem[];
  reached_end: boolean;
}

/** Confirmation that the approval is used. Only one caller ever gets it for an approval. */
export interface UseApprovalResponse {
  approval_id: string;
  used_at: string;
}

/**
 * Actions that need an approval: those whose name matches the pattern (`*` matches any text). The server's own
 * tools are named `tool:<name>`. `cost_above`: only if the cost is higher or unknown; `first_time`: only until
 * one like it was approved and used.
 */
export interface ApprovalRule {
  action: string;
  cost_above?: number;
  first_time?: boolean;
  note?: string;
}

/**
 * Actions that a workspace may approve by itself for workspaces below it. Covers names that match the pattern,
 * up to a cost and within a period (`from`, `until`: RFC 3339). Matching actions outside of these bounds must be
 * decided above.
 */
export interface AuthorityGrant {
  action: string;
  cost_up_to?: number;
  from?: string;
  until?: string;
}

/** The approval rules of a workspace. */
export interface ApprovalRuleSet {
  rules: ApprovalRule[];
}

/** The approval authority of a workspace. */
export interface ApprovalAuthority {
  grants: AuthorityGrant[];
}

/** The approval rules or grants of a workspace were set. `rules` and `grants`: their numbers. */
export interface PoliciesUpdatedPayload {
  rules: number;
  grants: number;
}

/** A budget. `target_id`: the workspace; the first message of the chain; the delegation. `limit`: per period. */
export interface CreateBudgetBody {
  scope: "chain" | "delegation" | "subtree" | "workspace";
  target_id: string;
  unit: "money" | "tokens";
  limit: number;
  period: "day" | "month" | "total" | "week";
}

/** The limit of a budget in each period. */
export interface ChangeBudgetBody {
  limit: number;
}

/**
 * A budget in its current period. `workspace_id`: where it is shown. `spent`: reported. `leased`: reserved by
 * turns that have not reported; of it, `unreported` by turns that are over or lost. `raised`: added to the limit
 * for this period. `state`: `noticed`: 80 % are spent; `exhausted`: a turn waits, and an approval is requested;
 * `stopped`: people denied it. Times are RFC 3339.
 */
export interface BudgetView {
  budget_id: string;
  scope: string;
  target_id: string;
  workspace_id: string;
  unit: string;
  period: string;
  limit: number;
  spent: number;
  leased: number;
  unreported: number;
  raised: number;
  state: "exhausted" | "noticed" | "ok" | "stopped";
  period_ends_at: string | null;
  created_at: string;
  updated_at: string;
}

/** The budgets of an organisation, or those that limit a workspace, oldest first. */
export interface BudgetList {
  budgets: BudgetView[];
}

/** What a turn of a workspace leases from each budget of money and of tokens before it begins. */
export interface TurnLeaseBody {
  money: number;
  tokens: number;
}

/** The budgets that limit the turns of a workspace, and what a turn leases from each. */
export interface WorkspaceBudgets {
  budgets: BudgetView[];
  turn_lease: TurnLeaseBody;
}

/** A budget was deleted. */
export interface BudgetDeletedPayload {
  budget_id: string;
}

/** How much of a budget is used. `limit` and amounts are in its `unit`. */
export interface BudgetUsePayload {
  budget_id: string;
  scope: string;
  unit: string;
  period: string;
  limit: number;
  spent: number;
  leased: number;
}

/**
 * A schedule: one of `cron` and `once`, and what it does. `source_id`: the workspace that it acts for; null: the
 * person who saves it, who can send messages only. `misses`: a run that no server was up for. `overlap`: a run
 * that is due while the one before is not done. `accept`, `rounds`, `may` and `deadline_seconds` belong to a
 * delegation.
 */
export interface ScheduleBody {
  name: string;
  target_id: string;
  source_id: string | null;
  cron: string | null;
  time_zone: string;
  once: string | null;
  action: "delegate" | "message";
  text: string;
  accept: Array<Record<string, unknown>> | null;
  rounds: number | null;
  may: DelegationScope | null;
  deadline_seconds: number | null;
  misses: "once" | "skip";
  overlap: "queue" | "skip";
  paused: boolean;
}

/** Whether a schedule is paused. */
export interface PauseScheduleBody {
  paused: boolean;
}

/** When a schedule would run. */
export interface SchedulePreviewBody {
  cron: string | null;
  time_zone: string;
  once: string | null;
  count: number;
}

/** Planned times, soonest first. */
export interface ScheduleTimes {
  next_runs: string[];
}

/**
 * A run. `outcome`: sent, delegated, queued, skipped, missed or failed; `reason`: why it was not started.
 * `work_id`: the message or delegation. `missed`: planned times before it for which no server was up.
 */
export interface ScheduleRunView {
  planned_at: string;
  ran_at: string;
  outcome: string;
  reason: string;
  work_id: string | null;
  missed: number;
}

/**
 * A schedule, its next runs and its last one. `state`: `ended`: its only run is over. `pause_reason`: why the
 * server paused it; empty if a person did.
 */
export interface ScheduleView {
  schedule_id: string;
  name: string;
  source_id: string | null;
  target_id: string;
  cron: string | null;
  time_zone: string;
  once: string | null;
  action: "delegate" | "message";
  text: string;
  accept: Array<Record<string, unknown>> | null;
  rounds: number | null;
  may: DelegationScope | null;
  deadline_seconds: number | null;
  misses: "once" | "skip";
  overlap: "queue" | "skip";
  state: "active" | "ended" | "paused";
  pause_reason: string;
  next_runs: string[];
  last_run: ScheduleRunView | null;
  author: string;
  created_at: string;
  updated_at: string;
}

/** The schedules of an organisation, by name. */
export interface ScheduleList {
  schedules: ScheduleView[];
}

/** Runs of a schedule, newest first. `before`: the value for the next page, or null. */
export interface ScheduleRunPage {
  runs: ScheduleRunView[];
  before: string | null;
}

/** A schedule was created, changed, paused or resumed. `reason`: why the server paused it. */
export interface ScheduleChangedPayload {
  schedule_id: string;
  name: string;
  state: "active" | "ended" | "paused";
  reason: string;
}

/** A schedule was deleted. */
export interface ScheduleDeletedPayload {
  schedule_id: string;
  name: string;
}

/** A planned time of a schedule came. `run`: what was done. */
export interface ScheduleRanPayload {
  schedule_id: string;
  name: string;
  run: ScheduleRunView;
}

/**
 * A new file is attached to the answer. `name`: its name, with * and ? as wildcards; `media_type`: what it
 * contains; `most_bytes` 0: no bound.
 */
export interface FileCheck {
  type: "file";
  name?: string;
  media_type?: string;
  least_bytes?: number;
  most_bytes?: number;
}

/**
 * JSON of the answer fits a JSON schema. `file`: name of the attached file that has the JSON, with wildcards.
 * Without it: the data part, else the text.
 */
export interface SchemaCheck {
  type: "schema";
  schema: Record<string, unknown>;
  file?: string;
}

/**
 * The text of the answer contains a text, matches a regular expression, or both. `pattern`: without look-around
 * and back-references; it may match anywhere.
 */
export interface TextCheck {
  type: "text";
  contains?: string;
  pattern?: string;
}

/** The answer has a text for a question: a line `id: text`, or `answers` of its data part. */
export interface QuestionCheck {
  type: "question";
  id: string;
  question: string;
}

/**
 * Another workspace or a person reads the answer, and passes or rejects it. `reviewer_id`: the workspace;
 * without it, a person. `instructions`: what the reviewer must look at.
 */
export interface ReviewCheck {
  type: "review";
  reviewer_id?: string;
  instructions?: string;
}

/**
 * A command that a runner runs in the folder of the target ends with 0. `name`: of a command that the owner of
 * the machine allows in runner.toml.
 */
export interface CommandCheck {
  type: "command";
  name: string;
}

/**
 * What one check found in one answer. `check`: number in the list, from 1; `answer`: number of the answer, from
 * 1. `outcome`: passed or failed, and `detail` why. `file`, `sha256` and `size`: of what was checked. `ran_by`:
 * `server`, else the id of the workspace, `person:` or `runner:` and the id of what decided, and `by` its name.
 * Of a command: `exit_code`, `seconds`, the end of its `output`, and hash and size of the whole output.
 */
export interface CheckEvidence {
  check: number;
  type: string;
  answer: number;
  outcome: string;
  detail?: string;
  file?: string;
  sha256?: string;
  size?: number;
  ran_by?: string;
  by?: string;
  exit_code?: number;
  seconds?: number;
  output?: string;
  at?: string;
}

/** A review that is not decided yet. `reviewer_id`: the workspace that decides it; empty: a person. */
export interface PendingReview {
  check: number;
  approval_id: string;
  reviewer_id: string;
}

/** A command that has not ended yet. */
export interface PendingCheckCommand {
  check: number;
  name: string;
}

/**
 * The checks of a delegation. `answers`: how many were checked; `rounds`: how many that fail are returned to the
 * target. `evidence`: of all answers, in order. `reviews` and `commands`: those that the current answer waits
 * for.
 */
export interface AcceptanceReport {
  checks: Array<FileCheck | SchemaCheck | TextCheck | QuestionCheck | CommandCheck | ReviewCheck>;
  sentences: string[];
  rounds: number;
  answers: number;
  evidence: CheckEvidence[];
  reviews: PendingReview[];
  commands: PendingCheckCommand[];
}

/**
 * What a delegation may do at most. A missing member restricts nothing. `tools`: names of tools, of the server
 * and of the agent itself; `*` at the end of a name is any text. `peers`: ids of the workspaces that it may
 * write or delegate to, beside its delegator. `depth`: the levels of delegations below it; 0: it may not
 * delegate. `approvals`: whether it may request approvals.
 */
export interface DelegationScope {
  tools?: string[];
  peers?: string[];
  depth?: number;
  approvals?: boolean;
}

/**
 * What a workspace may do for the delegations that it works on. `delegations`: those whose scopes apply; `may`:
 * the intersection of their scopes, missing if nothing restricts it. `allowed`: whether the tool of the request
 * may be used; `reason`: why not.
 */
export interface ScopeResponse {
  delegations?: string[];
  may?: DelegationScope;
  allowed?: boolean;
  reason?: string;
}

/**
 * A workspace delegated a task to another one. `seq`: of the row in the source's log; `task_preview`: at most
 * 100 bytes. `parent_id`: the delegation that this one is part of; `root_id`: the top of its tree; `retry_of`:
 * the delegation that this one retries; `may`: what it may do at most, if that is restricted.
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
  may?: DelegationScope;
}

/**
 * The status of a delegation changed. With `current_step`, `tools_used`, `eta_hint` or `percent` it only reports
 * progress. Such an event has no `seq` and may be lost; the next one supersedes it.
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
 * A delegation was answered. `response_preview`: at most 200 bytes; `result_id`: the row with the full result in
 * the inbox of the source; `via`: how the answer arrived; `verified`: it passed checks of the source.
 */
export interface DelegationCompletePayload {
  delegation_id: string;
  target_id: string;
  response_preview: string;
  via?: string;
  result_id?: string;
  verified?: boolean;
}

/**
 * A delegation failed or was cancelled. `reason`: one of a closed list; `error`: the reason as text; `advice`:
 * what to do about it.
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
 * A delegation was rejected by a limit before it began. `limit`: cycle, depth, children, root, open, org_open,
 * or may (outside the scope of its parent; `use` and `most` are 0 then); `use` of `most`: the current usage;
 * `remedy`: what to do instead.
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

/** Progress of a task as reported by its agent at the time `at`. */
export interface DelegationProgress {
  at?: string;
  current_step?: string;
  tools_used?: string[];
  eta_hint?: string;
  percent?: number;
}

/**
 * The receipt of a delegation. `status`: `delegated` for a new one, as in the original API, else the current
 * status; `state`: always the current status. `settled`: it has ended, and `result` is the answer. `delivered`:
 * the result is `here`, was delivered `before` and is repeated here, or is a message in the `inbox`. `warning`:
 * why it is unlikely to begin soon. `verified`: it is completed, and the answer passed the checks of the
 * delegator. `may`: of a new one, what it may do at most, if that is restricted.
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
  verified?: boolean;
  may?: DelegationScope;
}

/** The receipt of a delegation that was made over another channel and is only recorded. `status` is `recorded`. */
export interface RecordDelegationResponse {
  delegation_id: string;
  status: string;
  idempotent_hit?: boolean;
}

/** The status of a delegation after one side reported its end. A delegation that had ended before is unchanged. */
export interface UpdateDelegationResponse {
  delegation_id: string;
  status: string;
}

/**
 * The result of a progress report. `status` is always `noted`, as older agents expect; `noted`: whether the
 * progress is shown (false for a delegation that has ended); `delegation_status`: its current status.
 */
export interface ReportProgressResponse {
  status: string;
  noted: boolean;
  delegation_status: string;
}

/**
 * A delegation in a list. `summary`: of the task; `error` and `error_detail` are equal, since older clients read
 * the latter. `last_heartbeat`: the last activity of its work; `stuck`: that is too long ago. `queue_position`:
 * number of rows ahead of it in the target's inbox while it waits there. `target_limited_until`: a vendor's
 * limit keeps the target from working until then. `seq`: of the row in the source's log. `checks`: how many the
 * answer must pass; `verified`: it is completed and passed them (a completed one without checks is answered, not
 * verified).
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
  target_limited_until: string | null;
  seq: number;
  checks: number;
  verified: boolean;
}

/** An entry in the timeline of a delegation. `late`: it arrived after the end and had no effect. */
export interface DelegationTimelineEntry {
  at: string;
  fact: string;
  status: string;
  phase: string;
  attempt: number;
  late: boolean;
  detail: string | null;
}

/** Seconds of waiting and of working. */
export interface TreeDurations {
  waiting: number;
  working: number;
}

/** Totals of a delegation and all delegations below it. */
export interface TreeTotals {
  nodes: number;
  open: number;
  failed: number;
  waiting: number;
  working: number;
}

/**
 * A delegation in a tree. Read access to the root includes the whole tree. `checks`: how many the answer must
 * pass.
 */
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
  checks: number;
}

/**
 * A delegation in full. `task` and `result` are complete; `timeline` holds the newest entries and `earlier`
 * counts the ones before; `tree` is rooted at this delegation; `a2a_state` is the state in A2A terms;
 * `acceptance`: the checks of the answer and what they found. `may`: what it may do at most; null: nothing
 * restricts it.
 */
export interface DelegationDetail {
  delegation: DelegationItem;
  task: string;
  result: string | null;
  timeline: DelegationTimelineEntry[];
  earlier: number;
  tree: DelegationTreeNode;
  a2a_state: string;
  acceptance: AcceptanceReport | null;
  may: DelegationScope | null;
}

/** Delegations of an organisation, newest first, with the number of all `open` and all `stuck` ones. */
export interface DelegationPage {
  delegations: DelegationItem[];
  open: number;
  stuck: number;
}

/** Counts of delegations by status and by reason, and the median duration in seconds. */
export interface DelegationStats {
  by_status: Record<string, number>;
  by_reason: Record<string, number>;
  open: number;
  stuck: number;
  median_seconds: number | null;
}

/** A chat message in a timeline. */
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
  in_reply_to?: string;
}

/** A delegation in the timeline of its workspace. */
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
  target_limited_until: string | null;
  seq: number;
  checks: number;
  verified: boolean;
}

/** The chat and the delegations of a workspace merged, oldest first. `reached_end`: there are no older items. */
export interface TimelinePage {
  items: Array<TimelineMessage | TimelineDelegation>;
  reached_end: boolean;
}

/**
 * How to answer one message. `text` is for models; the other members hold the same for programs.
 * `available_tools` are bare names; `reply_via` and `text` use the runtime's tool names. `tokens`: estimated
 * length of `text`.
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
 * A row of GET /workspaces/{id}/activity. Times are RFC 3339. UNSET members are omitted. `root_id`, `hop` and
 * `cause_id`: position in a chain of messages that caused each other. `reminder`: delivered before and still
 * unanswered. `instructions`: how to answer, for the agent itself if it requests them.
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
 * The obligation to answer a person's message. `state`: open, answered, declined, answered_outside or overdue.
 * `reason`: why it was declined, or why the agent's work on an open message failed. `draft`: output of the agent
 * that it did not send. `template` (id@version), `form` and `tokens`: of the instructions delivered with the
 * message. `answer_id`: the message that answered it, in a chat.
 */
export interface ChatObligation {
  state: string;
  due_at?: string;
  draft?: string;
  reason?: string;
  template?: string;
  form?: string;
  tokens?: number;
  answer_id?: string;
}

/**
 * A message of the chat between a workspace and its users. `role`: `user` or `agent`; `client_id`: the messageId
 * that the person's client chose. `delivery`: progress of a person's message (stored, in_inbox, handed_over,
 * acked, dead); `trouble`: why it is dead; `obligation`: whether it was answered. `options`: the choices of an
 * agent's question; `option_of`: the question that a person's message answers, with the number of the chosen
 * `option`; `in_reply_to`: the message that a person's reply quotes.
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
  in_reply_to?: string;
}

/** A sender of waiting messages: a workspace, or a person on the canvas (empty id). */
export interface MailSender {
  workspace_id: string;
  name: string;
  count: number;
}

/** Summary of the messages that wait in an inbox, without their text. `more`: there are more than were counted. */
export interface WaitingMail {
  workspace_id: string;
  name: string;
  waiting: number;
  more: boolean;
  oldest_at: string | null;
  senders: MailSender[];
}

/** A page of chat, oldest first. `reached_end`: there are no more messages in the requested direction. */
export interface ChatPage {
  messages: ChatMessage[];
  reached_end: boolean;
}

/**
 * An event as one line: `actor`, `verb`, `target`, then `text`. `actor` and `target` are names; an id is missing
 * for people, the server and messages. `text` is what an agent or person wrote, on one line and shortened: data,
 * never an instruction.
 */
export interface EventLine {
  actor: string;
  verb: string;
  actor_id?: string;
  target?: string;
  target_id?: string;
  text?: string;
}

/**
 * An event of the journal. `event` to `entity` are as in a frame of the live channel. `kind`: the group of the
 * event; `state`: what it says about the work, if anything; `direction`: whether a message, a task or its result
 * came into the workspace or went out of it, null for other events. `workspace_name` is null for an event about
 * no workspace, or about one that is not known any more.
 */
export interface LoggedEvent {
  event: string;
  seq: number;
  timestamp: string;
  workspace_id: string;
  workspace_name: string | null;
  kind: "agents" | "approvals" | "delegations" | "delivery" | "instructions" | "memory" | "messages" | "organisation" | "people" | "prompts" | "threads";
  state: "done" | "failed" | "waiting" | "working" | null;
  direction: "in" | "out" | null;
  line: EventLine;
  entity: EventEntity;
  payload: unknown;
}

/**
 * A page of activity, newest first; with `after`, oldest first. `next_cursor`: the `cursor` of the next page;
 * null at the end. A page may be short, or empty, while there are more: one request reads a limited number of
 * events. `searched_to`: the time of the last event that was read. `newest_seq`: read what follows with this
 * `after`. `kept_since`: the time of the oldest event that retention has kept; null: nothing was deleted.
 * `is_text_complete`: false if texts are still being indexed, or if more texts have the words than are looked
 * for.
 */
export interface ActivityPage {
  events: LoggedEvent[];
  next_cursor: string | null;
  newest_seq: number;
  searched_to: string | null;
  kept_since: string | null;
  is_text_complete: boolean;
}

/** Number of events from a time on, until that of the next bucket. */
export interface ActivityBucket {
  at: string;
  count: number;
}

/**
 * Events by time, oldest first. `counted_since`: the time from which on events were counted, null if all that
 * match were. `until`: the end of the last bucket.
 */
export interface ActivityHistogram {
  buckets: ActivityBucket[];
  until: string | null;
  total: number;
  counted_since: string | null;
  kept_since: string | null;
  is_text_complete: boolean;
}

/** What an export contains: the number of events, and the fields of a page. */
export interface ExportTotals {
  events: number;
  kept_since: string | null;
  is_text_complete: boolean;
}

/** The last line of an export. A file without it is not complete. */
export interface ExportEnd {
  export: ExportTotals;
}

/**
 * A chain that reached a limit. Times are RFC 3339. `state`: frozen, released or ended; `most_hops` and
 * `most_messages`: the limits that apply now.
 */
export interface ChainRow {
  root_id: string;
  workspace_id: string;
  workspace_name: string | null;
  state: string;
  reason: string;
  trips: number;
  hops: number;
  messages: number;
  most_hops: number;
  most_messages: number;
  frozen_at: string;
  released_at: string | null;
  ended_at: string | null;
  decided_by: string | null;
}

/** A page of chains, newest first. `reached_end`: there are no older ones. */
export interface ChainPage {
  chains: ChainRow[];
  reached_end: boolean;
}

/** A message of a chain. `no`: its position, 0 for the first. */
export interface ChainMessageRow {
  no: number;
  activity_id: string;
  workspace_id: string;
  workspace_name: string | null;
  source_id: string | null;
  source_name: string | null;
  kind: string | null;
  method: string | null;
  summary: string | null;
  hop: number;
  cause_id: string | null;
  at: string;
}

/** A chain with a page of its messages, oldest first. `chain` is null if it never reached a limit. */
export interface ChainDetail {
  root_id: string;
  chain: ChainRow | null;
  messages: ChainMessageRow[];
  reached_end: boolean;
}

/**
 * A message from one workspace to another. `seq`: its number in the log of `target_id`. `message_kind`: what it
 * is (peer_agent, broadcast, system and others); `approval_id`: the approval that it belongs to. `delivery`,
 * `trouble`, `obligation`: as in a chat.
 */
export interface PeerMessage {
  kind: "message";
  id: string;
  source_id: string;
  target_id: string;
  message_kind: string;
  content: string;
  timestamp: string;
  seq: number;
  attachments?: Array<Record<string, unknown>>;
  delivery?: string;
  trouble?: string;
  obligation?: ChatObligation;
  approval_id?: string;
}

/**
 * The messages of two workspaces to each other, oldest first. A delegation and its result are one item.
 * `reached_end`: there are no more items in the requested direction.
 */
export interface ConversationPage {
  items: Array<PeerMessage | TimelineDelegation>;
  reached_end: boolean;
}

/** The last message of a conversation; `summary` is its beginning. */
export interface LastPeerMessage {
  id: string;
  source_id: string;
  message_kind: string;
  summary: string;
  timestamp: string;
}

/**
 * A workspace that exchanged messages with another one. `messages` counts both directions; `more`: there are
 * more than were counted.
 */
export interface ConversationPeer {
  workspace_id: string;
  name: string | null;
  messages: number;
  more: boolean;
  last: LastPeerMessage;
}

/** The peers of a workspace, last message first. `reached_end`: there are no older ones. */
export interface ConversationPeers {
  peers: ConversationPeer[];
  reached_end: boolean;
}

/** The entity that an event is about. `rev` counts its changes; 0 for immutable entities. */
export interface EventEntity {
  kind: string;
  id: string;
  rev: number;
}

/**
 * An event. `seq` numbers the organisation's journal; `prev` is the seq of the previous event on this channel.
 * Transient events (such as `WORKSPACE_HEARTBEAT`) have neither, so losing one leaves no gap. `client_id`: the
 * messageId of the person's message that caused the event.
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

/** The authenticated user. `kind`: person, workspace or admin; `role`: viewer, operator or owner. */
export interface SessionUser {
  id: string;
  name: string;
  kind: string;
  role: string;
}

/**
 * The first frame of a channel. `epoch` changes when stored seqs are no longer valid: drop all state and load a
 * snapshot. `oldest`: the first retained event; a client can resume after `oldest` - 1 or later.
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

/** Sent by the client: resume after `after`, which it read in `epoch`. Without `after`: only new events. */
export interface SubscribeFrame {
  type: "subscribe";
  after?: number | null;
  epoch?: string | null;
}

/** `count` events follow, after `after` and up to `upto`, then live ones. The first has `prev` == `after`. */
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

/** Load a snapshot and subscribe after its `as_of`. `reason`: epoch_changed, too_many, ahead or pruned. */
export interface SnapshotRequiredFrame {
  type: "snapshot_required";
  reason: string;
}

/** Keep-alive of the channel. `head_sent`: seq of the last event sent on it. */
export interface PingFrame {
  type: "ping";
  head_sent: number;
}

/** A workspace with the data of its agent's last heartbeat. */
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
  limited_until: string | null;
  limit_reason: string | null;
  a2a_card_url: string | null;
  a2a_published: boolean;
  current_task: string | null;
  last_heard_at: string | null;
}

/** The last message of a chat. `content` is truncated. */
export interface LastChatMessage {
  id: string;
  role: string;
  content: string;
  timestamp: string;
  seq: number;
}

/** State of a workspace's chat for the requesting person. `unread` stops counting at 100. */
export interface SnapshotChat {
  workspace_id: string;
  unread: number;
  read_seq: number;
  last: LastChatMessage;
}

/**
 * Messages to a workspace with a late answer, by `seq`. `overdue`: the answer is overdue; `outside`: the agent
 * has an answer that it did not send. A message can be in both.
 */
export interface SnapshotUnanswered {
  workspace_id: string;
  overdue: number[];
  outside: number[];
}

/**
 * An open delegation. `task_preview`: at most 100 bytes; `seq`: of the row in the source's log; `life_at`: the
 * last activity of its work.
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

/** A delegation that was rejected by a limit before it began. `seq` and `at`: of the event. */
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

/** Limits that the canvas applies before it sends a request. */
export interface SnapshotLimits {
  text_bytes: number;
  name_length: number;
  reply_seconds: number;
  stuck_seconds: number;
  grace_seconds: number;
}

/**
 * All that the canvas shows of an organisation, as of one position in its journal. Events with `seq` <= `as_of`,
 * or whose entity's `rev` is not above the known one, are already included. A list ends early at
 * `snapshot_bytes`. `next_workspace`: there are more workspaces; read them with `?after=` and this value.
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
  next_workspace: string | null;
  unanswered: SnapshotUnanswered[];
  delegations: SnapshotDelegation[];
  refusals: SnapshotRejection[];
  approvals: ApprovalItem[];
}

/** Further workspaces of a snapshot and their chats, as they are now. `next_workspace`: there are more. */
export interface SnapshotPage {
  workspaces: SnapshotWorkspace[];
  chats: SnapshotChat[];
  next_workspace: string | null;
}

/** The current session. */
export interface SessionView {
  user: SessionUser;
  org: SnapshotOrg;
  version: string;
}

/**
 * The command that prints a login link. `is_exact`: it is complete for this server; otherwise the server's
 * operator adds where it is. `needs_admin_token`: the state folder has no admin token, so the command needs it
 * in its environment.
 */
export interface LoginHelpResponse {
  command: string;
  is_exact: boolean;
  needs_admin_token: boolean;
}

/**
 * A few scripted agents to try the page with. `is_available`: this server can run them. `workspace_id`: the
 * workspace at the top of the organisation's team, if it has one.
 */
export interface SampleTeamView {
  is_available: boolean;
  workspace_id: string | null;
}

/** An organisation. Times are RFC 3339. */
export interface OrgView {
  id: string;
  name: string;
  allow_skip_level: boolean;
  created_at: string;
}

/** The status of the turn. `text`: a short line, such as until when a limit lasts. */
export interface StatusReport {
  type: "status";
  status: "ended" | "failed" | "limited" | "retrying" | "stopped" | "waiting_for_approval" | "working";
  text: string;
}

/**
 * Text that continues the text of the turn. `at`: characters of the turn's text before it, so that a repeated
 * report adds nothing.
 */
export interface TextReport {
  type: "text";
  text: string;
  at?: number;
}

/** A tool call of the turn. Reports of one `call_id` replace each other. `title`: a short line for people. */
export interface ToolReport {
  type: "tool";
  call_id: string;
  tool: string;
  status: "completed" | "failed" | "started";
  title: string;
}

/**
 * What happened in a turn, in order. `activity_id`: the message that the turn answers, or another id of the
 * turn. `thread_id`: the thread in which it runs, if there is one.
 */
export interface ReportTurnBody {
  activity_id: string;
  events: Array<StatusReport | TextReport | ToolReport>;
  thread_id: string;
}

/** A person wants the turn to stop. */
export interface StopControl {
  type: "stop";
  activity_id: string;
}

/** What people want of running turns. A request that the turn does not follow is sent again after a while. */
export interface TurnControls {
  controls: StopControl[];
}

/** The turn to stop, by its `activity_id`. */
export interface StopTurnBody {
  activity_id: string;
}

/** The request is with the agent. `status`: `stop_requested`. */
export interface StopTurnResponse {
  status: "stop_requested";
}

/** A tool call of a live turn. */
export interface LiveToolCall {
  call_id: string;
  tool: string;
  title: string;
  status: "completed" | "failed" | "started";
}

/**
 * What an agent has done in a turn since the last event about it. `text` begins at character `text_at` of the
 * turn's text. `whole`: the event replaces all earlier ones; its text is the end of a long one. `tools`: calls
 * that began or changed. `stop_requested_by`: name of the person that wants the turn to stop. `status`: also
 * `lost`, if the agent has reported nothing for too long.
 */
export interface LiveTurnPayload {
  activity_id: string;
  thread_id: string;
  status: "ended" | "failed" | "limited" | "retrying" | "stopped" | "waiting_for_approval" | "working" | "lost";
  status_text: string;
  started_at: string;
  text_at: number;
  text: string;
  tools: LiveToolCall[];
  whole: boolean;
  stop_requested_by: string | null;
}

/** An agent that is installed on the machine. `modes`: permission modes that the runner's configuration allows. */
export interface InstalledAgent {
  kind: string;
  title: string;
  version: string;
  modes: string[];
}

/**
 * An agent that a person has started in a terminal of the machine. `is_connected`: it runs `molecule mcp`.
 * `runtime`: of a workspace for it.
 */
export interface OpenSession {
  kind: string;
  title: string;
  runtime: string;
  folder: string;
  pid: number;
  is_connected: boolean;
}

/** The names of the commands with which a runner can check the answers of a workspace. */
export interface CheckOffer {
  workspace_id: string;
  names: string[];
}

/** What a command found that checked an answer. `sha256`, `size`: of its whole output; `output`: the end of it. */
export interface CheckOutcome {
  exit_code: number;
  seconds: number;
  output: string;
  sha256: string;
  size: number;
}

/** An agent that the runner runs. `text`: a short line, such as why it is started again. */
export interface RunReport {
  workspace_id: string;
  state: "attached" | "retrying" | "running" | "starting" | "stopped";
  text: string;
  restarts: number;
}

/**
 * What a runner is and runs. `folders`: agents may be started in these and below. `checks`: commands with which
 * it can check answers, by workspace.
 */
export interface RunnerReport {
  machine: string;
  version: string;
  installed: InstalledAgent[];
  folders: string[];
  agents: RunReport[];
  sessions: OpenSession[];
  checks: CheckOffer[];
}

/** Receipt of a report. */
export interface ReportRunnerResponse {
  status: string;
  poll_seconds: number;
}

/** How many seconds to wait for a request. */
export interface ClaimRunnerRequestsBody {
  wait: number;
}

/**
 * A request to carry out and confirm. `kind`, `folder`, `mode`, `workspace_name` and `token` (of the workspace)
 * only to start or attach an agent; `check`: the name of a command to run.
 */
export interface ClaimedRunnerRequest {
  id: string;
  action: "attach" | "check" | "logs" | "restart" | "start" | "stop";
  workspace_id: string;
  kind?: string;
  folder?: string;
  mode?: string;
  workspace_name?: string;
  token?: string;
  check?: string;
}

/** Requests to carry out, oldest first. */
export interface ClaimedRunnerRequests {
  requests: ClaimedRunnerRequest[];
}

/**
 * Outcome of a request. `text`: a short line, the reason if it failed. `output`: of the agent, for logs.
 * `check`: what a command found.
 */
export interface ConfirmRunnerRequestBody {
  status: "done" | "failed";
  text: string;
  output: string;
  check: CheckOutcome | null;
}

/** Receipt of an outcome. */
export interface ConfirmRunnerRequestResponse {
  status: "claimed" | "done" | "expired" | "failed" | "queued";
}

/** Name of a new runner, such as the name of its machine. */
export interface EnrolRunnerBody {
  name: string;
}

/**
 * A request to a runner. `kind`, `folder` and `mode` only to start an agent; without `mode`, its default.
 * `attach` (with `kind` and `folder`) connects the sessions that a person starts there to the workspace.
 */
export interface RequestRunnerBody {
  action: "attach" | "logs" | "restart" | "start" | "stop";
  workspace_id: string;
  kind: string;
  folder: string;
  mode: string;
}

/** An agent of a runner. `state`: `unknown` while the runner is gone. */
export interface RunnerAgentView {
  workspace_id: string;
  workspace_name: string;
  kind: string;
  folder: string;
  mode: string;
  state: "attached" | "requested" | "retrying" | "running" | "starting" | "stopped" | "unknown";
  text: string;
  restarts: number;
}

/** A runner. `is_gone`: it has not polled for a while. `token`: only in the response that creates it. */
export interface RunnerView {
  id: string;
  org_id: string;
  name: string;
  is_gone: boolean;
  created_at: string;
  seen_at: string | null;
  machine: string;
  version: string;
  installed: InstalledAgent[];
  folders: string[];
  agents: RunnerAgentView[];
  sessions: OpenSession[];
  checks: CheckOffer[];
  token?: string;
}

/** Receipt of a removal. */
export interface RemovedRunnerResponse {
  status: string;
}

/** A request and its outcome. `output`: of the agent, for logs. */
export interface RunnerRequestView {
  id: string;
  runner_id: string;
  workspace_id: string;
  action: "attach" | "check" | "logs" | "restart" | "start" | "stop";
  status: "claimed" | "done" | "expired" | "failed" | "queued";
  text: string;
  output: string;
  created_at: string;
}

/** A workspace that takes part in what was found. `name` is null if the workspace is not known any more. */
export interface FoundWorkspace {
  id: string;
  name: string | null;
}

/** A part of the text. `matches`: where the words are in it, as [from, to) in Unicode code points. */
export interface SearchSnippet {
  text: string;
  matches: Array<number[]>;
}

/**
 * Something that was found. `id`: of the message, delegation, thread or memory; `ordinal`: of the item within
 * its thread, else null. `workspace_id`: the workspace whose log, thread or memory has it, or the source of the
 * delegation. `workspaces`: all that take part. `in_chat`: whether a message is in the chat of its workspace
 * with people. `at` is RFC 3339.
 */
export interface SearchItem {
  kind: string;
  id: string;
  ordinal: number | null;
  workspace_id: string;
  workspaces: FoundWorkspace[];
  in_chat: boolean;
  at: string;
  snippet: SearchSnippet;
}

/**
 * A page of results, newest first. `next_cursor`: the `cursor` of the next page; null at the end. `complete`:
 * whether texts from before the search index are all indexed; new texts are indexed within about a second.
 */
export interface SearchResponse {
  results: SearchItem[];
  next_cursor: string | null;
  complete: boolean;
}

/** What a host accepts in a JSON file beyond the standard. */
export interface JsonGrammar {
  comments: boolean;
  trailing_commas: boolean;
  byte_order_mark: boolean;
}

/** A step: its title, the text to paste, and the language of that text. */
export interface ConnectStep {
  title: string;
  text: string;
  language: string;
  hint: string;
}

/** A host to choose. */
export interface HostRow {
  name: string;
  title: string;
  runtime: string;
}

/** How to connect one host to one workspace: by one command, or by manual steps. Contains no token. */
export interface ConnectPage {
  host: string;
  title: string;
  workspace_id: string;
  quick: ConnectStep | null;
  by_hand: ConnectStep[];
}

/**
 * The parts that a template defines itself; the rest comes from the template that it extends. `tools` and
 * `lines` are appended, all others replace. `lines` and `blocks` are in the template language
 * (docs/reference/templates.md).
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
 * A version of a template. Times are RFC 3339. `runtime`: the runtime it is meant for; empty: any. `extends`:
 * the template whose parts it inherits; empty: that of the workspace's runtime; null: none. `built_in`: shipped
 * with Molecule.
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
 * A template available to an organisation, in the version in force. `canary`: another version, which gets
 * `percent` of the messages. `edited`: a built-in template that this organisation has changed. `used_by`: number
 * of workspaces that chose it; `default_for`: number that have it because of their runtime.
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

/** A template with `base`: the merged parts of the templates it extends, for a workspace of its runtime. */
export interface TemplateDetail {
  row: TemplateRow;
  base: TemplateParts;
}

/** The saved version. `warnings`: probable mistakes of its author. */
export interface SaveTemplateResponse {
  template: TemplateVersion;
  warnings: string[];
}

/**
 * The template in use for a workspace. `chosen`: its own choice; null: `template` is that of its runtime.
 * `inline_template`: the text, if it was given as text.
 */
export interface WorkspaceTemplate {
  workspace_id: string;
  chosen: string | null;
  template: TemplateVersion;
  inline_template: string | null;
  warnings: string[];
}

/** A preview of the instructions for an agent. `text` is byte for byte what is delivered; `tokens` an estimate. */
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

/** A preview of the instructions for one of the agent's last messages. `text` is null if there would be none. */
export interface RenderedMessage {
  activity_id: string;
  kind: string;
  summary: string | null;
  created_at: string;
  text: string | null;
  tokens: number;
}

/** Previews of the instructions for an agent's last messages, newest first. */
export interface RenderedMessageList {
  template: string;
  form: string;
  messages: RenderedMessage[];
  warnings: string[];
}

/**
 * Exactly one of the two members. `template_id`: a template; `inline_template`: a text that is added to the
 * template of the workspace's runtime, or the parts of a template.
 */
export interface TemplateChoiceBody {
  template_id: string | null;
  inline_template: string | Record<string, unknown> | null;
}

/**
 * An instruction template has a new version, another version is in force, or it was deleted (`version` 0).
 * `canary`: the version that gets `percent` of the messages.
 */
export interface TemplateSavedPayload {
  template_id: string;
  version: number;
  by: string;
  canary?: number;
  percent?: number;
}

/** A template could not be rendered. The message was delivered without instructions. */
export interface TemplateFailedPayload {
  template_id: string;
  version: number;
  workspace_id: string;
  reason: string;
}

/**
 * A canary was answered less often than the version in force and was rolled back. Rates are from 0 to 1, of the
 * given number of outcomes.
 */
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
 * Metrics of one template version. `deliveries`: the newest retained messages that required an answer. Each is
 * counted once by its outcome: overdue takes precedence over the others, and answered_outside over answered.
 * `rate`: answered and declined as a share of all known outcomes. `tokens`: estimated total of the instructions.
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

/** One of the two versions in a trial: its number of good and missed outcomes, and the share of good ones. */
export interface TrialArm {
  version: number;
  good: number;
  missed: number;
  rate: number | null;
}

/**
 * Comparison of a canary with the version in force, since it began. `chance`: probability that an equally good
 * version would look this bad; `needs`: the canary is rolled back at this chance or below; null: not now,
 * whatever the outcomes.
 */
export interface CanaryTrial {
  since: string;
  percent: number;
  base: TrialArm;
  canary: TrialArm;
  chance: number;
  needs: number | null;
}

/** Metrics of all versions of a template that were ever used, newest first, and the running trial. */
export interface TemplateMetrics {
  template_id: string;
  version: number;
  versions: TemplateVersionMetrics[];
  trial: CanaryTrial | null;
}

/** The version of a template in force, and the `canary` version that gets `percent` of the messages. */
export interface TemplateRollout {
  template_id: string;
  version: number;
  canary: number | null;
  percent: number;
  since: string;
}

/** Why a prompt was built. `kind`: start, file, event, reconnect, gap, command. `detail`: the file or event. */
export interface BuildTrigger {
  kind: string;
  detail: string;
}

/**
 * A section of a prompt. `source`: its origin, as `file:…`, `workspace:…`, `skill:…`, `molecule`. `tokens` is an
 * estimate. `shortened`: what was omitted to meet the budget; null: nothing.
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
 * A complete prompt, its sections in order. `hash` identifies the content; `budget`: maximum tokens;
 * `session_hash`: identifies the session that received it.
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

/** A prompt as the server stores it. `built_at` (RFC 3339): time of the report; `revision` counts the builds. */
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

/** A line of a diff: in both versions (space), only in the newer (+), only in the older (-). */
export interface DiffLine {
  kind: " " | "+" | "-";
  text: string;
}

/** The changes of one section. */
export interface DiffSection {
  part: number;
  title: string;
  change: "added" | "changed" | "removed";
  lines: DiffLine[];
}

/** The newest prompt of a workspace's agent, the previous one (null for the first), and their diff. */
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

/** A shared file as the server stores it. Times are RFC 3339. */
export interface SharedFileView {
  path: string;
  content: string;
  bytes: number;
  updated_at: string;
}

/** All files that a workspace shares with its direct children. `revision` is 0 if it never shared any. */
export interface SharedContext {
  workspace_id: string;
  revision: number;
  files: SharedFileView[];
}

/**
 * The files that a workspace shares with its direct children changed. `files`: their number. GET
 * /workspaces/{id}/shared-context returns the content.
 */
export interface SharedContextUpdatedPayload {
  revision: number;
  files: number;
}

/**
 * The agent of a workspace rebuilt its system prompt. `tokens` is an estimate. GET /workspaces/{id}/prompt
 * returns the content.
 */
export interface PromptBuiltPayload {
  revision: number;
  hash: string;
  tokens: number;
  trigger: BuildTrigger;
}

/** Origin of base instructions. `source`: as text; `from_thread`: the thread they were taken from. */
export interface Provenance {
  type: "inherited" | "override" | "prompt" | "review" | "role" | "stored";
  source: string;
  from_thread?: string;
}

/** Reference to base instructions. `thread_id`: the thread that stores the text; for a fork, its source. */
export interface BaseInstructionsRef {
  thread_id: string;
  version: number;
  sha256: string;
  item_id: string;
  provenance: Provenance;
  bytes: number;
  tokens: number;
}

/** The part of another thread's log that a fork sees: after `since`, up to `position`. */
export interface LogPosition {
  thread_id: string;
  position: number;
  since?: number;
}

/** The author of an entry, as proven by the credential. `kind`: person, workspace, thread or server. */
export interface Author {
  kind: string;
  id: string;
  name: string;
}

/** Text for a turn. `peer`: the agent whose message an engine passes on; then it is not input of the user. */
export interface TextInput {
  type: "text";
  text: string;
  peer?: string;
}

/** The thread was created. `base`: only for forks; `root_workspace_id`: if its tree begins in another workspace. */
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

/**
 * A version of the base instructions is in force. `text` is stored once, apart from the log, and filled in on
 * read.
 */
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

/** A new version of an instruction layer. */
export interface InstructionLayerEntry {
  type: "layer";
  layer: "context" | "developer";
  version: number;
  text: string;
  origin: string;
}

/** The settings of the thread from now on. */
export interface SettingsEntry {
  type: "settings";
  model: string | null;
  effort: string | null;
  tools: string[] | null;
  permissions: Record<string, unknown> | null;
}

/** A turn was accepted and will run even if processes die. `requester_thread_id`: receives its outcome as mail. */
export interface TurnAcceptedEntry {
  type: "turn_accepted";
  turn_id: string;
  trigger: "compact" | "mail" | "message" | "review" | "user" | "wake";
  input: TextInput[];
  author: Author;
  key: string | null;
  requester_thread_id: string | null;
}

/** An engine runs the turn. Repeated with a higher generation when another or a restarted engine continues it. */
export interface TurnStartedEntry {
  type: "turn_started";
  turn_id: string;
  generation: number;
}

/** A message of the user. `client_id`: the client's key of the input. */
export interface UserMessageEntry {
  type: "user_message";
  text: string;
  author: Author;
  client_id?: string;
}

/** A message of another agent. It is data, never input of the user. `author` and `recipient`: paths. */
export interface PeerMessageEntry {
  type: "peer_message";
  text: string;
  author: string;
  author_thread_id: string | null;
  recipient: string;
  mail_id: string;
  mail_type: "FINAL_ANSWER" | "MESSAGE" | "NEW_TASK";
}

/** State of an agent when a call ended. `outcome`: set by waits. */
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
 * A call of a collaboration tool begins (`inProgress`) or ends. There are two entries with one `call_id`, also
 * for a call that is rejected, fails or times out. Names and cases are those of the app-server's item. `unread`:
 * for a wait whose end was not polled at its deadline: the agents' ends that it includes, by number. They count
 * as undelivered until the wait is read.
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

/** A turn ended. */
export interface TurnEndedEntry {
  type: "turn_ended";
  turn_id: string;
  status: "completed" | "failed" | "interrupted";
  error: string | null;
  final: string | null;
}

/** The thread was closed to further input. `descendants`: the action taken on the threads below. */
export interface ThreadClosedEntry {
  type: "closed";
  descendants: "close" | "detach" | "interrupt";
  by: Author;
}

/** The thread was resumed. */
export interface ThreadResumedEntry {
  type: "resumed";
  by: Author;
}

/** A message of the model. */
export interface AgentMessageEntry {
  type: "agent_message";
  text: string;
}

/** Reasoning of the model. `data`: in the form that its provider expects back. */
export interface ReasoningEntry {
  type: "reasoning";
  text?: string;
  data?: unknown;
}

/** A tool call of the model. */
export interface ToolCallEntry {
  type: "tool_call";
  call_id: string;
  tool: string;
  arguments: unknown;
}

/** The result of a tool call. */
export interface ToolOutputEntry {
  type: "tool_output";
  call_id: string;
  text: string;
  is_error: boolean;
}

/** A note that is added once to the model's context: `peers changed: …`. */
export interface ContextNoteEntry {
  type: "context_note";
  text: string;
  origin: string;
}

/**
 * A summary by the model. It replaces all entries up to an ordinal in the model's context, except the input of
 * its own turn.
 */
export interface CompactionEntry {
  type: "compaction";
  summary: string;
  upto: number;
  kind: "automatic" | "manual";
}

/** Token usage of a model request. Equal `record_key`s count once. `cached`: of the input, from a cache. */
export interface UsageEntry {
  type: "usage";
  record_key: string;
  input: number;
  output: number;
  cached: number;
  model: string | null;
}

/** What the thread is waiting for. Empty flags: nothing. */
export interface StatusEntry {
  type: "status";
  flags: Array<"waiting_on_approval" | "waiting_on_user_input">;
}

/** An entry of a log as clients read it. `at` is RFC 3339. */
export interface EntryItem {
  ordinal: number;
  item_id: string;
  turn_id: string | null;
  at: string;
  type: string;
  entry: unknown;
}

/** Status of a thread. `message`: its last answer if `completed`, the reason if `errored`. */
export interface ThreadStatus {
  type: "completed" | "errored" | "interrupted" | "not_found" | "pending_init" | "running" | "shutdown";
  message: string | null;
}

/** The status of a thread changed. */
export interface ThreadStatusChangedPayload {
  thread_id: string;
  root_id: string;
  status: ThreadStatus;
  active_flags: Array<"waiting_on_agents" | "waiting_on_approval" | "waiting_on_child_approval" | "waiting_on_user_input">;
  revision: number;
}

/** A new entry of a thread's log. `entry` is null if it is large: GET /threads/{id}/items returns it. */
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

/** A turn ended: completed, failed or interrupted. */
export interface TurnCompletedPayload {
  thread_id: string;
  root_id: string;
  turn_id: string;
  status: "completed" | "failed" | "interrupted";
  error: string | null;
  final: string | null;
}

/** A thread was closed to further input. */
export interface ThreadClosedPayload {
  thread_id: string;
  root_id: string;
  descendants: "close" | "detach" | "interrupt";
}

/** The state of a mail between threads changed. `state`: accepted, delivered (in a request), answered or failed. */
export interface ThreadMailPayload {
  mail_id: string;
  mail_type: "FINAL_ANSWER" | "MESSAGE" | "NEW_TASK";
  author_thread_id: string | null;
  receiver_thread_id: string;
  root_id: string;
  state: "accepted" | "answered" | "delivered" | "failed";
}

/** The base instructions in force, without their text. `tokens` is an estimate. */
export interface BaseInstructionsItem {
  version: number;
  sha256: string;
  provenance: Provenance;
  item_id: string;
  bytes: number;
  tokens: number;
}

/**
 * A thread. Times are RFC 3339. `path`: root, root/task_a, root/task_a/sub. `turn_id`: the running turn;
 * `queued`: the waiting ones. `owner`: the engine that holds the claim. `tree_tokens_used` is null in events.
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

/** An instruction layer in force. */
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

/** A page of threads, newest first. `reached_end`: there are no more. */
export interface ThreadPage {
  threads: ThreadItem[];
  reached_end: boolean;
}

/** A page of log entries, oldest first. `reached_end`: there were no more. */
export interface EntryPage {
  items: EntryItem[];
  reached_end: boolean;
}

/**
 * An item of the model's context. `item_id` is stable over requests. `origin`: where it comes from; `tokens` is
 * an estimate. `call_id`: of a tool call (`tool`, `arguments`) or of its output.
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

/** The model's context in order, with its estimated tokens. `stop`: why the turn must not run. */
export interface ModelContext {
  items: ModelContextItem[];
  tokens: number;
  last_ordinal: number;
  stop: string | null;
}

/** A mail between threads. Its text is in the receiver's log once it is delivered. */
export interface MailItem {
  mail_id: string;
  mail_type: "FINAL_ANSWER" | "MESSAGE" | "NEW_TASK";
  author_thread_id: string | null;
  receiver_thread_id: string;
  state: "accepted" | "answered" | "delivered" | "failed";
  sent_at: string;
}

/** The last call entries in all logs of a tree, and the last mails to its threads, oldest first. */
export interface CollabPage {
  calls: EntryItem[];
  mail: MailItem[];
}

/**
 * A new thread of a workspace. `base_instructions`: replaces the prompt that the agent reported; `input`: starts
 * the first turn; `key`: idempotency key.
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
 * Input for a thread. `mode`: steer adds to the running turn (`expected_turn_id`: only to that one), queue adds
 * a turn, auto chooses.
 */
export interface StartTurnBody {
  input: string | TextInput[];
  mode: "auto" | "queue" | "steer";
  expected_turn_id: string | null;
  key: string | null;
}

/**
 * The turn that takes the input. `joined`: it was already running. `status`: in_progress, or how the turn of a
 * repeated input ended: completed, failed or interrupted.
 */
export interface TurnResponse {
  turn_id: string;
  joined: boolean;
  status: string;
}

/** Settings to change from now on. Each is stored as a new version or rejected, never accepted and ignored. */
export interface ThreadOverrides {
  base_instructions: string | null;
  developer: string | null;
  context: string | null;
  model: string | null;
  effort: string | null;
  tools: string[] | null;
  permissions: Record<string, unknown> | null;
}

/** A fork of a thread. `position`: the last ordinal that the fork sees; null: the whole log. */
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

/** Interruption of the running turn. `descendants`: the action for the threads below. */
export interface InterruptThreadBody {
  descendants: "detach" | "interrupt";
}

/** Closing of a thread. `descendants`: the action for the threads below. */
export interface CloseThreadBody {
  descendants: "close" | "detach" | "interrupt";
}

/** Claim of a thread by an engine. `owner`: the name of the engine. */
export interface ClaimThreadBody {
  owner: string;
}

/**
 * A turn that has not ended. `status`: accepted, or running: started under an earlier claim. `key`: the
 * idempotency key of its input, if it has one.
 */
export interface OpenTurn {
  turn_id: string;
  trigger: "compact" | "mail" | "message" | "review" | "user" | "wake";
  status: "accepted" | "running";
  key: string | null;
}

/** A claim of a thread, valid for this generation until `until`. Each call of the engine renews it. */
export interface ThreadClaim {
  thread_id: string;
  generation: number;
  until: string;
  open_turn: OpenTurn | null;
}

/** Release of a claim. */
export interface ReleaseThreadBody {
  generation: number;
}

/** Start of a turn. */
export interface BeginTurnBody {
  generation: number;
}

/**
 * Entries to append to the log. Without entries, the call renews the claim and reads `news`. `seen`: last
 * ordinal that the model was shown (omitted: everything up to now, including `news`); a wait ends at once if the
 * user wrote something after it. `key`: idempotency key.
 */
export interface AppendEntriesBody {
  generation: number;
  turn_id: string;
  entries: Array<AgentMessageEntry | ReasoningEntry | ToolCallEntry | ToolOutputEntry | ContextNoteEntry | CompactionEntry | UsageEntry | StatusEntry>;
  key: string | null;
  seen: number | null;
}

/**
 * The result of appending entries. `news`: entries by others that the engine has not received. `stop`:
 * interrupted, closed or budget: no more entries of this turn are accepted, except, for budget, usage and
 * outputs of tools that were already called.
 */
export interface AppendEntriesResponse {
  last_ordinal: number;
  news: EntryItem[];
  stop: string | null;
}

/** The end of a turn. `seen`: last ordinal that the model was shown; later input gets its own turn. */
export interface EndTurnBody {
  generation: number;
  status: "completed" | "failed" | "interrupted";
  error: string | null;
  final: string | null;
  seen: number | null;
}

/** A thread with work: an accepted turn, or a running one whose engine stopped renewing its claim. */
export interface WorkItem {
  thread_id: string;
  path: string;
  turn_id: string;
  status: "accepted" | "running";
}

/** Threads that engines of a workspace may claim, oldest first. */
export interface WorkList {
  threads: WorkItem[];
}

/**
 * A call of a collaboration tool. `call_id`: idempotency key; a repetition gets the same result. `generation`:
 * rejects the call if the engine's claim is lost. Which other members apply depends on the tool.
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
 * State of a call. While a wait has the status inProgress, call again with the same `call_id`. `after`: pass it
 * to a later wait, so that no end is reported twice. `undriven`: paths of agents with work whose workspace
 * (`quiet`) has had no engine lately; they make no progress until one runs.
 */
export interface AgentCallResponse {
  call: CollabCallEntry;
  after: Record<string, number> | null;
  undriven: string[];
  quiet: string[];
}

/** The agents of a tree under a path prefix. `undriven`, `quiet`: as in AgentCallResponse. */
export interface AgentList {
  agents: AgentState[];
  undriven: string[];
  quiet: string[];
}

/** All threads of a tree, oldest first, with its usage of the tree limits. */
export interface ThreadTreeView {
  threads: ThreadItem[];
  live: number;
  lifetime: number;
  tokens: number;
}

/**
 * A message that a request caused, or the request itself (`no` 0). `state`: of its obligation (open, answered,
 * declined and so on); null if no answer is due. Times are RFC 3339.
 */
export interface TraceMessage {
  no: number;
  activity_id: string;
  workspace_id: string;
  workspace_name: string | null;
  source_id: string | null;
  source_name: string | null;
  user_id: string | null;
  kind: string | null;
  method: string | null;
  summary: string | null;
  hop: number;
  cause_id: string | null;
  at: string;
  state: string | null;
  closed_at: string | null;
}

/** An approval that a workspace requested while it worked on the request. */
export interface TraceApproval {
  approval_id: string;
  workspace_id: string;
  workspace_name: string | null;
  action: string;
  status: string;
  task_id: string | null;
  created_at: string;
  settled_at: string | null;
}

/**
 * A turn that a message began: of a thread of `molecule agent run`, or one that a bridge reported when it ended.
 * Or one that such a turn caused through sub-agents: then `parent_turn_id` is the turn that it follows from, and
 * `activity_id` is null. `agent`: path of the sub-agent below the root of its threads, null for the root.
 * `thread_id`: null if a bridge reported it. `at`: when it ended, or began if it still runs; then `seconds` is
 * null. `usage`: what it used, by name (`input_tokens`, `output_tokens`, `cost_usd`). `tools`: number of calls,
 * by tool. `cost_micros`: as recorded, in millionths of the organisation's currency; null if it is unknown.
 */
export interface TraceTurn {
  activity_id: string | null;
  thread_id: string | null;
  turn_id: string | null;
  parent_turn_id: string | null;
  agent: string | null;
  workspace_id: string;
  workspace_name: string | null;
  at: string;
  seconds: number | null;
  usage: Record<string, number>;
  tools: Record<string, number>;
  cost_micros: number | null;
}

/**
 * Everything that one request caused: messages and approvals by time, delegations as trees. `usage`: sums over
 * the turns. `cost_micros`: sum of the known ones, null if no cost is known. `is_complete`: false if a list was
 * cut at its limit.
 */
export interface TraceDetail {
  root_id: string;
  messages: TraceMessage[];
  delegations: DelegationTreeNode[];
  approvals: TraceApproval[];
  turns: TraceTurn[];
  usage: Record<string, number>;
  cost_micros: number | null;
  currency: string;
  is_complete: boolean;
}

/**
 * What a turn used. `key`: identifies the turn among those of the workspace; a repeated report changes nothing.
 * `activity_id`: the message that the turn worked on, which assigns it to a request and a delegation.
 * `input_tokens`: without those that were read from the provider's cache (`cached_tokens`). `cost_micros`:
 * millionths of `currency`; without it the cost is computed from the organisation's prices, if they have one of
 * `model`. `at`: end of the turn (RFC 3339), now if missing.
 */
export interface ReportUsageBody {
  key: string;
  input_tokens: number;
  cached_tokens: number;
  output_tokens: number;
  model: string | null;
  cost_micros: number | null;
  currency: string;
  activity_id: string | null;
  thread_id: string | null;
  at: string | null;
}

/**
 * The usage of a turn. `root_id`: first message of the request that it belongs to. `cost_micros`: millionths of
 * the organisation's currency, null if it is unknown. `source`: `reported` by the program, or `computed` from
 * the organisation's prices. `at`: end of the turn, RFC 3339.
 */
export interface UsageRecordView {
  key: string;
  workspace_id: string;
  thread_id: string | null;
  activity_id: string | null;
  delegation_id: string | null;
  root_id: string | null;
  model: string | null;
  input_tokens: number;
  cached_tokens: number;
  output_tokens: number;
  cost_micros: number | null;
  source: string;
  at: string;
}

/**
 * Sums over turns. `key`: id of the workspace (agent, team), model (empty: unknown), day, or first message of
 * the request. `name`: of the workspace, or the beginning of the message. `cost_micros`: millionths of the
 * currency, without the `turns_without_cost` whose cost is unknown.
 */
export interface UsageRow {
  key: string;
  name: string | null;
  turns: number;
  turns_without_cost: number;
  input_tokens: number;
  cached_tokens: number;
  output_tokens: number;
  cost_micros: number;
}

/**
 * Usage in a range of days (UTC, both included), the most expensive rows first; days in their order. A team is a
 * workspace with all below it, so teams overlap; `total` counts each turn once. `is_complete`: false if rows
 * were cut at their limit.
 */
export interface UsageReport {
  since: string;
  until: string;
  by: string;
  currency: string;
  rows: UsageRow[];
  total: UsageRow;
  is_complete: boolean;
}

/**
 * Price of a million tokens of each kind, in millionths of the currency. `model`: its name, or the start of
 * several names followed by `*`; the longest that fits is used.
 */
export interface ModelPriceItem {
  model: string;
  input_micros: number;
  output_micros: number;
  cached_micros: number;
}

/**
 * The prices from which costs are computed that programs do not report. `currency`: of all costs of the
 * organisation; it cannot be changed once there is usage.
 */
export interface PriceListBody {
  prices: ModelPriceItem[];
  currency: string;
}

/** The price list of an organisation. `changed_at`, `changed_by`: null if it was never edited. */
export interface PriceListView {
  currency: string;
  prices: ModelPriceItem[];
  version: number;
  changed_at: string | null;
  changed_by: string | null;
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
  WORKSPACE_LIMITED: WorkspaceLimitedPayload;
  WORKSPACE_LIMIT_ENDED: WorkspaceLimitEndedPayload;
  WORKSPACE_MOVED: WorkspaceMovedPayload;
  WORKSPACE_EXPANDED: WorkspaceExpandedPayload;
  WORKSPACE_COLLAPSED: WorkspaceCollapsedPayload;
  EXTERNAL_CREDENTIALS_ROTATED: CredentialsRotatedPayload;
  OAUTH_GRANT_CHANGED: OAuthGrantPayload;
  ORG_UPDATED: OrgUpdatedPayload;
  PEOPLE_CHANGED: PeopleChangedPayload;
  RUNNERS_CHANGED: RunnersChangedPayload;
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
  BUDGET_CHANGED: BudgetView;
  BUDGET_DELETED: BudgetDeletedPayload;
  BUDGET_NOTICED: BudgetUsePayload;
  BUDGET_EXHAUSTED: BudgetUsePayload;
  SCHEDULE_CHANGED: ScheduleChangedPayload;
  SCHEDULE_DELETED: ScheduleDeletedPayload;
  SCHEDULE_RAN: ScheduleRanPayload;
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
  LIVE_TURN: LiveTurnPayload;
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
  "WORKSPACE_LIMITED",
  "WORKSPACE_LIMIT_ENDED",
  "WORKSPACE_MOVED",
  "WORKSPACE_EXPANDED",
  "WORKSPACE_COLLAPSED",
  "EXTERNAL_CREDENTIALS_ROTATED",
  "OAUTH_GRANT_CHANGED",
  "ORG_UPDATED",
  "PEOPLE_CHANGED",
  "RUNNERS_CHANGED",
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
  "BUDGET_CHANGED",
  "BUDGET_DELETED",
  "BUDGET_NOTICED",
  "BUDGET_EXHAUSTED",
  "SCHEDULE_CHANGED",
  "SCHEDULE_DELETED",
  "SCHEDULE_RAN",
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
  "LIVE_TURN",
] as const satisfies readonly EventName[];
