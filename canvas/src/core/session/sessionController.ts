/** One logged-in session: state, live connection and commands. Views use it; it uses the pure state and the server. */

import { Api, NoResponseError, ApiError, errorText, type CreatedWorkspace, type IssuedToken } from "../api/api";
import { UndoableDecisions } from "./undoableDecisions";
import { Connection } from "../live/connection";
import { newId } from "./ids";
import { MissedDelegations } from "./missedDelegations";
import { ChatPages } from "./chatPages";
import { ReadMarks } from "./readMarks";
import { ProblemLists } from "./problemLists";
import { Tabs, type TabMessage } from "../live/tabs";
import { applyAll } from "../state/apply";
import { throttledStore } from "../store/throttledStore";
import { ofHistory, type Delegation, type DelegationStatus } from "../state/delegations";
import { beforeLastAnswer, readUpTo, unreadAfter } from "../state/lines";
import { plural } from "../text/strings";
import { NO_LIVE_TURNS, withLiveTurns, type LiveTurns } from "../state/liveTurns";
import { Drafts } from "./drafts";
import { EndedTurns } from "./endedTurns";
import { foldsStore, type Folds } from "./folds";
import { EMPTY_CHAT, type Chat, type Choice, type Line, type State } from "../state/model";
import { ChosenFiles } from "./chosenFiles";
import { Outbox, type MessageTiming, type SendResult, type UnsentMessage } from "./outbox";
import type { InboxItem } from "../state/inboxItems";
import { isPeerEvent } from "../state/peerMessages";
import { changesProblems } from "../state/problems";
import { withParent } from "../state/moveRules";
import { peerReadsStore, type PeerReads } from "./peerReads";
import { replyTargetsStore, type ReplyTargets } from "./replyTargets";
import { savedFiltersStore, type SavedFilters } from "./savedFilters";
import { seenProblemsStore, type SeenProblems } from "./seenProblems";
import { applySnapshot } from "../state/snapshot";
import { createStore, type Store } from "../store/store";
import { Uploads } from "./uploads";
import type { Move, Undo } from "./undo";
import { confirmBeforeUnload } from "../store/unsaved";
import type { KeyValueStorage } from "../store/browserStorage";
import { withRead, withReply } from "../state/delegationLists";
import { cleanFileName, type UploadLimits } from "../text/files";
import type { DelegationDetail, DelegationItem, EventFrame, SessionView, Snapshot, TraceDetail } from "../wire";

const PAGE = 50;
const LARGE = 2_000;
const LARGE_MS = 250;

interface SessionOptions {
  identity: SessionView;
  /** Closed with the session, so that its pending requests are not sent under another one. */
  api: Api;
  storage: KeyValueStorage;
  /** The session is over. */
  onLogOut: () => void;
  /** Another person has logged in in this browser: requests of this page would go out in their name. */
  onOther: () => void;
  /** A login in another organisation began or ended in this browser. */
  onLogins: () => void;
}

export class SessionController {
  readonly identity: SessionView;
  readonly api: Api;
  readonly data: Store<State | null> = createStore<State | null>(null);
  /** `data`, throttled in a large organisation: for views that read all agents. */
  readonly throttledData: Store<State | null> = throttledStore(this.data, (state) => ((state?.workspaces.size ?? 0) > LARGE ? LARGE_MS : 0));
  /** Why the organisation could not be read; null once it was. */
  readonly problem: Store<string | null> = createStore<string | null>(null);
  /** Problems; read again when an event says that they changed, and after the time that the server names. */
  readonly problemLists: ProblemLists;
  /** Everything that waits for this person, as far as the part of the page that computes it is loaded. */
  readonly inbox: Store<readonly InboxItem[]> = createStore<readonly InboxItem[]>([]);
  /** Counts changes of the organisation's members. */
  readonly peopleChanges: Store<number> = createStore(0);
  /** Counts changes of the apps that are connected to workspaces. */
  readonly appChanges: Store<number> = createStore(0);
  /** Counts changes of budgets. */
  readonly budgetChanges: Store<number> = createStore(0);
  /** Counts changes and runs of schedules. */
  readonly scheduleChanges: Store<number> = createStore(0);
  /** Counts changes of runners and their agents. */
  readonly runnerChanges: Store<number> = createStore(0);
  /** Counts changes of instruction templates. */
  readonly templateChanges: Store<number> = createStore(0);
  /** The last events about threads; empty: some may have been missed. Views of threads read and keep what they show. */
  readonly threadEvents: Store<readonly EventFrame[]> = createStore<readonly EventFrame[]>([]);
  /** The last events about messages between agents; empty: some may have been missed. Views keep what they show. */
  readonly peerEvents: Store<readonly EventFrame[]> = createStore<readonly EventFrame[]>([]);
  /** What agents do in turns at the moment. */
  readonly liveTurns: Store<LiveTurns> = createStore<LiveTurns>(NO_LIVE_TURNS);
  private readonly endedTurns = new EndedTurns(this.liveTurns);
  /** The workspace that was created last, with its token until that is hidden: the server does not return it twice. */
  readonly createdWorkspace: Store<CreatedWorkspace | null> = createStore<CreatedWorkspace | null>(null);
  /** The token that was issued last, until the person confirms to have it. */
  readonly issuedToken: Store<IssuedToken | null> = createStore<IssuedToken | null>(null);
  readonly undo: Store<Undo | null> = createStore<Undo | null>(null);
  /** The last move of an agent on this page. The map restores its places when it is undone. */
  readonly lastMove: Store<Move | null> = createStore<Move | null>(null);
  /** Counts prompt builds by workspace id; under "" the times at which builds may have been missed. */
  readonly promptBuilds: Store<ReadonlyMap<string, number>> = createStore<ReadonlyMap<string, number>>(new Map());
  readonly decisions: UndoableDecisions;
  readonly connection: Connection;
  readonly outbox: Outbox;
  readonly uploads: Uploads;
  readonly chosenFiles = new ChosenFiles();
  /** Null until the server has returned them. */
  readonly uploadLimits: Store<UploadLimits | null> = createStore<UploadLimits | null>(null);
  readonly drafts: Drafts;
  readonly replyTargets: ReplyTargets;
  readonly peerReads: PeerReads;
  readonly folds: Folds;
  /** Problems that this person has dismissed. */
  readonly savedFilters: SavedFilters;
  readonly seenProblems: SeenProblems;
  private readonly tabs: Tabs;
  private readonly owner: string;
  private readonly pages: ChatPages;
  private readonly readMarks: ReadMarks;
  private readonly missedDelegations: MissedDelegations;
  /** Chats that are open, visible and scrolled to their end. */
  private readonly attendedChats = new Set<string>();
  private readonly reread = (): void => {
    this.outbox.reread();
    this.seenProblems.reread();
    this.savedFilters.reread();
  };
  private readonly flushReadMarks = (): void => this.readMarks.flush();
  private readonly readDueProblems = (): void => this.problemLists.readIfDue();

  constructor({ identity, api, storage, onLogOut, onOther, onLogins }: SessionOptions) {
    this.identity = identity;
    this.api = api;
    const owner = { org: identity.org.id, user: identity.user.id };
    this.owner = `${owner.org}/${owner.user}`;
    this.uploads = new Uploads((workspaceId, file, watch) => api.upload(workspaceId, file, watch));
    this.outbox = new Outbox(storage, owner, (entry) => this.deliver(entry));
    this.drafts = new Drafts(storage, owner, () => Date.now());
    this.peerReads = peerReadsStore(storage, owner);
    this.replyTargets = replyTargetsStore(storage, owner);
    this.folds = foldsStore(storage, owner);
    this.seenProblems = seenProblemsStore(storage, owner);
    this.savedFilters = savedFiltersStore(storage, owner);
    confirmBeforeUnload(this.createdWorkspace, (made) => (made?.token ?? "") !== "");
    confirmBeforeUnload(this.issuedToken, (issued) => issued !== null);
    this.readMarks = new ReadMarks((workspaceId, seq) => this.api.markRead(workspaceId, seq));
    this.pages = new ChatPages({ api, data: this.data, onRead: (lines) => this.confirmSent(lines) });
    this.missedDelegations = new MissedDelegations(api, identity.org.id, this.data);
    this.problemLists = new ProblemLists({
      load: () => api.problems(identity.org.id),
      now: Date.now,
      chance: Math.random,
      isVisible: () => document.visibilityState === "visible",
    });
    this.decisions = new UndoableDecisions({ api, orgId: identity.org.id, data: this.data, undo: this.undo });
    this.tabs = new Tabs((message) => this.receiveTabMessage(message, { onLogOut, onOther, onLogins }));
    this.connection = new Connection({
      url: `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws?session_org=${encodeURIComponent(identity.org.id)}`,
      loadSnapshot: () => api.snapshot(identity.org.id),
      checkSession: () => void this.checkSession(onLogOut),
      isReachable: () => api.isReachable(),
      onSnapshot: (snapshot) => this.receiveSnapshot(snapshot),
      onEvents: (frames) => this.receiveEvents(frames),
      onLive: () => this.catchUp(),
      onSnapshotProblem: (error) => this.problem.set(errorText(error)),
      onLogOut,
    });
    this.problemLists.problems.subscribe(() => this.keepAsking());
    this.connection.view.subscribe(() => this.decisions.setReachable(this.connection.view.get().mode !== "lost"));
  }

  start(): void {
    window.addEventListener("storage", this.reread);
    window.addEventListener("pagehide", this.flushReadMarks);
    window.addEventListener("pagehide", this.decisions.sendHeld);
    document.addEventListener("visibilitychange", this.readDueProblems);
    this.connection.start();
    this.tabs.post({ kind: "logged_in", owner: this.owner });
  }

  stop(): void {
    window.removeEventListener("storage", this.reread);
    window.removeEventListener("pagehide", this.flushReadMarks);
    window.removeEventListener("pagehide", this.decisions.sendHeld);
    document.removeEventListener("visibilitychange", this.readDueProblems);
    this.connection.stop();
    this.readMarks.stop();
    this.problemLists.stop();
    this.decisions.stop();
    this.endedTurns.stop();
    this.tabs.close();
    this.api.close();
    this.createdWorkspace.set(null);
    this.issuedToken.set(null);
  }

  get canSend(): boolean {
    return this.identity.user.role !== "viewer";
  }

  /** Send text, and the files chosen for this chat. On return the message is stored; the promise resolves with the result of
   * sending. */
  sendMessage(workspaceId: string, words: string, { when = "queue", replyTo = null }: { when?: MessageTiming; replyTo?: string | null } = {}): Promise<SendResult> {
    const clientId = newId();
    const held = this.chosenFiles.take(workspaceId);
    this.uploads.add(clientId, held);
    const files = held.map(({ name, size, type }) => ({ name: cleanFileName(name), size, uri: null, type }));
    return this.outbox.add({ workspaceId, words, files, when, replyTo }, new Date().toISOString(), clientId);
  }

  /** Send the same text as a new message. */
  sendAgain(workspaceId: string, words: string, replyTo: string | null): Promise<SendResult> {
    return this.outbox.add({ workspaceId, words, replyTo }, new Date().toISOString(), newId());
  }

  /** Choose an option of an agent's question: sends a message with its text. */
  sendChoice(workspaceId: string, words: string, choice: Choice): Promise<SendResult> {
    return this.outbox.add({ workspaceId, words, choice }, new Date().toISOString(), newId());
  }

  discard(clientId: string): void {
    this.outbox.discard(clientId);
    this.uploads.drop(clientId);
  }

  /** Read the limits once. Files chosen before the response are checked when it arrives. */
  async readUploadLimits(): Promise<void> {
    if (this.uploadLimits.get() !== null) return;
    await this.api.uploadLimits().then(
      (limits) => this.uploadLimits.set(limits),
      () => undefined, // read again with the next chat
    );
  }

  /** Read the newest page of a chat. Concurrent calls share one request. */
  readNewest(workspaceId: string): Promise<void> {
    return this.pages.readNewest(workspaceId);
  }

  readOlder(workspaceId: string): Promise<void> {
    return this.pages.readOlder(workspaceId);
  }

  /** Read the newest incomplete message of a chat, with the page around it. */
  readIncomplete(workspaceId: string): Promise<void> {
    return this.pages.readIncomplete(workspaceId);
  }

  /** Read the delegations from and to an agent. */
  async readDelegationsOf(workspaceId: string): Promise<void> {
    this.mergeDelegations(await this.api.delegationsOf(workspaceId, PAGE));
  }

  /** Read a page of the organisation's delegations, newest first, in one state or all. */
  async readWork(state: string | undefined, before: string | null): Promise<{ delegations: readonly Delegation[]; isEnd: boolean }> {
    const orgId = this.identity.org.id;
    const { delegations } = await this.api.delegations(orgId, PAGE, state, before);
    const last = delegations.at(-1);
    // A page may end early because of its size in bytes.
    const hasNext = last !== undefined && (delegations.length === PAGE || (await this.api.delegations(orgId, 1, state, last.delegation_id)).delegations.length > 0);
    return { delegations: delegations.map(ofHistory), isEnd: !hasNext };
  }

  /** Read a delegation with its tree. */
  async readDelegation(id: string): Promise<DelegationDetail> {
    const full = await this.api.delegation(id);
    this.mergeDelegations([full.delegation]);
    return full;
  }

  /** Read what one request caused. `id`: of any message or delegation in it. */
  readTrace(id: string): Promise<TraceDetail> {
    return this.api.trace(this.identity.org.id, id);
  }

  /** Read the full answer of a delegation. */
  async readReply(id: string): Promise<void> {
    const { result } = await this.api.delegation(id);
    this.data.update((state) => state && withReply(state, id, result ?? ""));
  }

  /** Cancel a delegation and show its current state: it may have ended a moment before. */
  async cancelDelegation(work: { id: string; sourceId: string }): Promise<DelegationStatus> {
    const item = await this.api.cancel(work);
    this.mergeDelegations([item]);
    return ofHistory(item).status;
  }

  /** Delegate again. Returns the id of the new delegation. */
  async retryDelegation(work: { id: string; sourceId: string }): Promise<string> {
    return (await this.api.retry(work)).delegation_id;
  }

  /** Keep delegations that were read, within the bound of the state. */
  mergeDelegations(items: readonly DelegationItem[]): void {
    this.data.update((state) => state && withRead(state, items.map(ofHistory)));
  }

  /** Messages that arrive in this chat count as read, until the returned function is called. */
  attend(workspaceId: string): () => void {
    this.attendedChats.add(workspaceId);
    return () => void this.attendedChats.delete(workspaceId);
  }

  /** Mark the chat as read up to its last message, on the server and in the other tabs. */
  markRead(workspaceId: string): void {
    const chat = this.data.get()?.chats.get(workspaceId);
    if (!chat?.unread || chat.last === null) return;
    const { seq } = chat.last;
    this.changeChat(workspaceId, (each) => readUpTo(each, seq));
    this.reportRead(workspaceId, seq);
  }

  /** Mark the last message of the agent as unread. Returns whether there is one. */
  async markUnread(workspaceId: string): Promise<boolean> {
    const chat = this.data.get()?.chats.get(workspaceId);
    const seq = chat === undefined ? null : beforeLastAnswer(chat);
    if (seq === null) return false;
    await this.restoreUnread(workspaceId, seq);
    return true;
  }

  /** Mark all chats as read; can be undone. */
  markAllRead(): void {
    const unread = [...(this.data.get()?.chats ?? [])].filter(([, chat]) => chat.unread > 0);
    for (const [workspaceId] of unread) this.markRead(workspaceId);
    const run = async (): Promise<void> => {
      for (const [workspaceId, chat] of unread) await this.restoreUnread(workspaceId, chat.readSeq, chat.unread);
    };
    if (unread.length > 0) this.undo.set({ text: `${plural(unread.length, "chat")} marked as read.`, run });
  }

  private async restoreUnread(workspaceId: string, seq: number, count?: number): Promise<void> {
    this.readMarks.drop(workspaceId);
    this.changeChat(workspaceId, (chat) => unreadAfter(chat, seq, count));
    await this.api.markUnread(workspaceId, seq);
    this.tabs.post({ kind: "unread", owner: this.owner, workspaceId, seq });
  }

  async logOut(): Promise<void> {
    this.readMarks.flush();
    await this.decisions.sendHeld();
    await this.api.logOut();
    Tabs.postOnce({ kind: "logged_out", owner: this.owner });
  }

  /** Request that a running turn stops. Its agent gets the request at once. */
  async stopTurn(workspaceId: string, activityId: string): Promise<void> {
    await this.api.stopTurn(workspaceId, activityId);
  }

  /** Issue a new token for a workspace; `issuedToken` has it, also if the view that asked is closed by then. */
  async issueToken(workspace: { id: string; name: string }, grace: number): Promise<void> {
    this.issuedToken.set(await this.api.rotate(workspace, grace));
  }

  /** Move an agent with all its reports. Shown at once, and reverted if the server rejects it. */
  async moveWorkspace(id: string, parentId: string | null): Promise<void> {
    const node = this.data.get()?.orgNodes.get(id);
    if (node === undefined) return;
    await this.setParent({ id, isBack: false }, node.parentId, parentId);
    this.undo.set({ text: `${node.name} was moved.`, run: () => this.setParent({ id, isBack: true }, parentId, node.parentId) });
  }

  private async setParent(move: Move, from: string | null, to: string | null): Promise<void> {
    const { id, isBack } = move;
    this.lastMove.set(move);
    this.data.update((state) => state && withParent(state, id, to));
    try {
      await this.api.changeWorkspace(id, { parent_id: to });
    } catch (error) {
      this.lastMove.set({ id, isBack: !isBack });
      this.data.update((state) => (state?.orgNodes.get(id)?.parentId === to ? withParent(state, id, from) : state));
      throw error;
    }
  }

  /** Keep which agents wait for the answer to a question: the state of an agent shows it. */
  private keepAsking(): void {
    const asking = new Set(this.problemLists.problems.get().questions.map(({ workspaceId }) => workspaceId));
    const isSame = (known: ReadonlySet<string>): boolean => known.size === asking.size && [...asking].every((id) => known.has(id));
    this.data.update((state) => (state === null || isSame(state.asking) ? state : { ...state, asking }));
  }

  private reportRead(workspaceId: string, seq: number): void {
    this.tabs.post({ kind: "read", owner: this.owner, workspaceId, seq });
    this.readMarks.mark(workspaceId, seq);
  }

  /** Do what the lost connection kept back. */
  private catchUp(): void {
    this.templateChanges.update((count) => count + 1);
    this.countBuilds([""]);
    this.threadEvents.set([]);
    this.peerEvents.set([]);
    this.liveTurns.set(NO_LIVE_TURNS); // the server sends those that still run
    void this.outbox.retryDisconnected((entry) => this.uploads.missing(entry).length === 0);
    void this.problemLists.read();
    void this.decisions.readWaiting(Date.now);
    void this.missedDelegations.read();
    this.readMarks.retry();
  }

  private receiveTabMessage(message: TabMessage, { onLogOut, onOther, onLogins }: Pick<SessionOptions, "onLogOut" | "onOther" | "onLogins">): void {
    if ((message.kind === "logged_in" || message.kind === "logged_out") && !message.owner.startsWith(`${this.identity.org.id}/`)) return onLogins();
    if (message.kind === "logged_out") return message.owner === this.owner ? onLogOut() : undefined;
    if (message.kind === "logged_in") return message.owner === this.owner ? undefined : onOther();
    if (message.owner !== this.owner) return;
    const { kind, seq } = message;
    this.changeChat(message.workspaceId, (chat) => (kind === "unread" ? unreadAfter(chat, seq) : readUpTo(chat, seq)));
  }

  private changeChat(workspaceId: string, change: (chat: Chat) => Chat): void {
    this.data.update((state) => {
      if (!state?.workspaces.has(workspaceId)) return state;
      // Another tab may have read a first message that has not arrived here yet.
      const chat = state.chats.get(workspaceId) ?? EMPTY_CHAT;
      const next = change(chat);
      return next === chat ? state : { ...state, chats: new Map(state.chats).set(workspaceId, next) };
    });
  }

  private receiveSnapshot(snapshot: Snapshot): void {
    this.problem.set(null);
    this.pages.invalidate();
    this.decisions.setTime(snapshot.server_time, Date.now());
    this.data.update((state) => applySnapshot(state, snapshot));
  }

  private receiveEvents(frames: readonly EventFrame[]): void {
    const state = this.data.get();
    if (state !== null) this.data.set(this.withAttended(applyAll(state, frames)));
    this.liveTurns.update((turns) => withLiveTurns(turns, frames));
    this.endedTurns.forgetLater();
    const own = frames.map((frame) => frame.client_id).filter((id) => id !== undefined);
    if (own.length > 0) this.outbox.settle(new Set(own));
    if (frames.some((frame) => changesProblems(frame, this.problemLists.problems.get()))) void this.problemLists.read();
    if (frames.some((frame) => frame.event === "PEOPLE_CHANGED")) this.peopleChanges.update((count) => count + 1);
    if (frames.some((frame) => frame.event === "OAUTH_GRANT_CHANGED")) this.appChanges.update((count) => count + 1);
    if (frames.some((frame) => /^BUDGET_/.test(frame.event))) this.budgetChanges.update((count) => count + 1);
    if (frames.some((frame) => /^SCHEDULE_/.test(frame.event))) this.scheduleChanges.update((count) => count + 1);
    if (frames.some((frame) => frame.event === "RUNNERS_CHANGED")) this.runnerChanges.update((count) => count + 1);
    this.countBuilds(frames.filter((frame) => frame.event === "PROMPT_BUILT").map((frame) => frame.workspace_id));
    const threads = frames.filter((frame) => /^(THREAD|TURN)_/.test(frame.event));
    if (threads.length > 0) this.threadEvents.set(threads);
    const peers = frames.filter(isPeerEvent);
    if (peers.length > 0) this.peerEvents.set(peers);
    if (frames.some((frame) => /^INSTRUCTION_TEMPLATE_/.test(frame.event))) this.templateChanges.update((count) => count + 1);
  }

  private countBuilds(of: readonly string[]): void {
    if (of.length > 0) this.promptBuilds.update((all) => new Map([...all, ...of.map((id) => [id, (all.get(id) ?? 0) + 1] as const)]));
  }

  /** A message that arrives in an attended chat never counts as unread, not even for one frame. */
  private withAttended(state: State): State {
    let { chats } = state;
    for (const workspaceId of this.attendedChats) {
      const chat = chats.get(workspaceId);
      if (!chat?.unread || chat.last === null) continue;
      chats = new Map(chats).set(workspaceId, readUpTo(chat, chat.last.seq));
      this.reportRead(workspaceId, chat.last.seq);
    }
    return chats === state.chats ? state : { ...state, chats };
  }

  private confirmSent(lines: readonly Line[]): void {
    this.outbox.settle(new Set(lines.map((line) => line.clientId).filter((id) => id !== null)));
  }

  private async deliver(entry: UnsentMessage): Promise<SendResult> {
    const { clientId, workspaceId, text, choice, when, replyTo } = entry;
    const missing = this.uploads.missing(entry);
    if (missing.length > 0) return { ok: false, reason: missingFilesText(missing), again: false };
    try {
      const files = await this.uploads.send(entry, (place, file) => this.outbox.recordUpload(clientId, place, file));
      await this.api.send(workspaceId, clientId, text, { files, choice, when, replyTo });
      this.uploads.drop(clientId);
      return { ok: true };
    } catch (error) {
      const again = error instanceof NoResponseError || (error instanceof ApiError && error.status >= 502);
      return { ok: false, reason: errorText(error), again };
    }
  }

  private async checkSession(onLogOut: () => void): Promise<void> {
    try {
      await this.api.session();
    } catch (error) {
      if (error instanceof ApiError && error.status === 401) onLogOut();
    }
  }
}

/** Error text for files that were chosen on a closed page or in another tab. */
function missingFilesText(names: readonly string[]): string {
  const shown = names.map((name) => `“${name}”`).join(", ");
  return `This page no longer has ${shown}: attached files are kept only until their page is closed. Discard this message and attach the files again.`;
}
