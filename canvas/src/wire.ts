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
}

/** An agent sits in its seat and is heard. `recovered_from`: the status it had before. */
export interface Online {
  delivery_mode: string;
  recovered_from?: string;
  agent_card?: unknown;
  url?: string;
}

/** An agent answers, but says that much of its work fails. */
export interface Degraded {
  error_rate: number;
  sample_error?: string;
  runtime_state?: string;
}

/** No heartbeat for too long; None: never one. */
export interface Silent {
  last_heard_at: string | null;
}

/** A person paused the workspace, or let it sleep. `previous_status`: how it stood before. */
export interface PutAside {
  previous_status: string;
}

/**
 * The workspace stands below another one now, with all that are below it; None: at the top. Its peers, and those
 * of others, have changed with it. `name`: the new one, where its own was taken there.
 */
export interface Moved {
  parent_id: string | null;
  old_parent_id: string | null;
  name?: string;
}

/** A workspace of a team. */
export interface Member {
  id: string;
  name: string;
  role: string | null;
}

/** A team was made below the workspace: all its members, those above before those below. */
export interface Expanded {
  children: Member[];
}

/** A workspace that was removed. */
export interface Gone {
  id: string;
  name: string;
}

/** All below the workspace was removed. */
export interface Collapsed {
  removed_children: Gone[];
}

/** Tokens of the workspace were issued (`issued`), or end (`ended`, at `ends_at`). Never a token itself. */
export interface CredentialsRotated {
  issued: number;
  ended: number;
  ends_at: string | null;
}

/** Who belongs to the organisation, or who may do what, has changed: read the list of people again. */
export interface PeopleChanged {
  person_id: string;
}

/** The seat is gone; what it said stays readable for persons. */
export interface Removed {
  removed_at: string;
}

/** What the agent says of itself now. */
export interface CardUpdated {
  agent_card: unknown;
}

/**
 * A new row of a workspace's log, as GET /workspaces/{id}/activity shows it. `seq` numbers the log. Bodies that
 * are large are left out, but for a person's message.
 */
export interface ActivityView {
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
}

/** An agent wrote to its user. `seq` orders the chat of its workspace. */
export interface AgentMessage {
  message: string;
  workspace_id: string;
  name: string;
  seq: number;
  attachments?: Array<Record<string, unknown>>;
}

/**
 * A chain of messages ran into a limit (hops, messages or pingpong) and waits for a person. `workspace_id`:
 * whose message was refused; `hops` and `messages`: how far the chain went.
 */
export interface FrozenChain {
  root_id: string;
  workspace_id: string;
  reason: string;
  hops: number;
  messages: number;
}

/** A person lets a chain go on, up to so many hops and messages in all. */
export interface ReleasedChain {
  root_id: string;
  most_hops: number;
  most_messages: number;
  by: string;
}

/** A person ended a chain: no message of it is taken any more. */
export interface EndedChain {
  root_id: string;
  by: string;
}

/** What became of the messages of one inbox from `first_seq` to `last_seq`: wake_asked, handed_over or acked. */
export interface MessageTick {
  tick: string;
  first_seq: number;
  last_seq: number;
  at: string;
  attempt?: number;
  reason?: string;
}

/** A message was given up: expired, unreachable or refused. A person can requeue or discard it. */
export interface MessageDead {
  activity_id: string;
  seq: number;
  reason: string;
  detail: string | null;
  attempts: number;
}

/** A dead letter is handed out again. */
export interface MessageRequeued {
  activity_id: string;
  seq: number;
}

/** A dead letter is done with for good. */
export interface MessageDiscarded {
  activity_id: string;
  seq: number;
}

/**
 * Old lines of a chat are gone. `kept`: of the agent's lines the numbers (`seq`) of those that are still there,
 * at most as many as are counted as unread.
 */
export interface ChatPruned {
  kept: number[];
}

/** A workspace wrote something down: `scope` (LOCAL, TEAM or GLOBAL) says for whom. What it is, tells a recall. */
export interface MemoryWritten {
  memory_id: string;
  scope: string;
  namespace: string;
}

/** A memory is not there any more. */
export interface MemoryForgotten {
  memory_id: string;
}

/** An agent is there. */
export interface Heartbeat {
  active_tasks: number;
  uptime_seconds: number;
  current_task: string | null;
  last_heard_at: string;
}

/** What an agent works on has changed. None: on nothing. */
export interface TaskUpdated {
  current_task: string | null;
  active_tasks: number;
}

/**
 * One row of GET /workspaces/{id}/activity. Times are RFC 3339. Members that are UNSET are left out. `root_id`,
 * `hop` and `cause_id` tell the chain of a message that another one caused.
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
  peer_name?: string;
  peer_role?: string;
  agent_card_url?: string;
  attachments?: Array<Record<string, unknown>>;
}

/**
 * One line of the chat between a workspace and its users. `role` is `user` or `agent`; `client_id` is the
 * messageId that the person's client chose. `delivery` tells how far a person's message has come (stored,
 * handed_over, acked, dead), `trouble` why it is dead.
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
export interface Entity {
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
  entity: Entity;
  seq?: number;
  prev?: number;
  client_id?: string;
}

/** Who looks. `kind`: person, workspace or admin; `role`: viewer, operator or owner. */
export interface User {
  id: string;
  name: string;
  kind: string;
  role: string;
}

/**
 * The first frame. `epoch` changes when numbers cannot be trusted any more: drop all, load a snapshot. `oldest`
 * is the first event that is kept: one can go on behind `oldest` - 1 or later.
 */
export interface Hello {
  type: "hello";
  protocol: number;
  epoch: string;
  org_id: string;
  head: number;
  oldest: number;
  user: User;
  heartbeat_s: number;
  server_time: string;
}

/** From the client: go on behind `after`, which was learned in `epoch`. Without `after`: from here on. */
export interface Subscribe {
  type: "subscribe";
  after?: number | null;
  epoch?: string | null;
}

/** `count` events follow, behind `after` and up to `upto`; then live ones. The first has `prev` == `after`. */
export interface Resumed {
  type: "resumed";
  after: number;
  upto: number;
  count: number;
}

/** Nothing was missed: `after` is the head. */
export interface Current {
  type: "current";
  after: number;
}

/** Load a snapshot and subscribe behind its `as_of`. `reason`: epoch_changed, too_many, ahead or pruned. */
export interface SnapshotRequired {
  type: "snapshot_required";
  reason: string;
}

/** The channel lives; `head_sent` is the seq of the last event sent on it. */
export interface Ping {
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
  current_task: string | null;
  last_heard_at: string | null;
}

/** The last message of a chat. `content` is cut. */
export interface ChatHead {
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
  last: ChatHead;
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
  user: User;
  limits: SnapshotLimits;
  workspaces: SnapshotWorkspace[];
  chats: SnapshotChat[];
}

/** Who is logged in. */
export interface Session {
  user: User;
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

/** What the server sends beside events; `type` tells which. */
export type ServerFrame = Hello | Resumed | Current | SnapshotRequired | Ping;

/** What the page sends. */
export type ClientFrame = Subscribe;

/** The payload of each event. */
export interface EventPayloads {
  WORKSPACE_PROVISIONING: WorkspaceView;
  WORKSPACE_UPDATED: WorkspaceView;
  WORKSPACE_ONLINE: Online;
  WORKSPACE_DEGRADED: Degraded;
  WORKSPACE_OFFLINE: Silent;
  WORKSPACE_AWAITING_AGENT: Silent;
  WORKSPACE_REMOVED: Removed;
  WORKSPACE_PAUSED: PutAside;
  WORKSPACE_HIBERNATED: PutAside;
  WORKSPACE_MOVED: Moved;
  WORKSPACE_EXPANDED: Expanded;
  WORKSPACE_COLLAPSED: Collapsed;
  EXTERNAL_CREDENTIALS_ROTATED: CredentialsRotated;
  PEOPLE_CHANGED: PeopleChanged;
  AGENT_CARD_UPDATED: CardUpdated;
  ACTIVITY_LOGGED: ActivityView;
  USER_MESSAGE: ActivityView;
  AGENT_MESSAGE: AgentMessage;
  BROADCAST_MESSAGE: ActivityView;
  CHAIN_FROZEN: FrozenChain;
  CHAIN_RELEASED: ReleasedChain;
  CHAIN_ENDED: EndedChain;
  MESSAGE_TICK: MessageTick;
  MESSAGE_DEAD: MessageDead;
  MESSAGE_REQUEUED: MessageRequeued;
  MESSAGE_DISCARDED: MessageDiscarded;
  CHAT_PRUNED: ChatPruned;
  MEMORY_WRITTEN: MemoryWritten;
  MEMORY_FORGOTTEN: MemoryForgotten;
  WORKSPACE_HEARTBEAT: Heartbeat;
  TASK_UPDATED: TaskUpdated;
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
  "MESSAGE_DEAD",
  "MESSAGE_REQUEUED",
  "MESSAGE_DISCARDED",
  "CHAT_PRUNED",
  "MEMORY_WRITTEN",
  "MEMORY_FORGOTTEN",
] as const satisfies readonly EventName[];

/** Events without them: the next one makes up for a lost one. */
export const TRANSIENT = [
  "WORKSPACE_HEARTBEAT",
  "TASK_UPDATED",
] as const satisfies readonly EventName[];
