/** Read chats page by page. Concurrent reads of the same page share one request. */

import { incompleteLine } from "../state/obligationUpdates";
import { ofHistory } from "../state/delegations";
import { withPage } from "../state/lines";
import type { Chat, Line, State } from "../state/model";
import type { Store } from "../store/store";
import { withRead } from "../state/delegationLists";
import type { Api } from "../api/api";

const PAGE = 50;

/** The page ends before this sequence number; undefined: the newest page; null: nothing to read. */
type End = number | undefined | null;

interface PageRequest {
  workspaceId: string;
  endIn: (chat: Chat | undefined) => End;
  /** Whether a page with this end still joins the known lines. Checked when the page arrives. */
  fits: (end: End, chat: Chat | undefined) => boolean;
}

interface ChatPagesOptions {
  api: Pick<Api, "timeline">;
  data: Store<State | null>;
  onRead: (lines: readonly Line[]) => void;
}

export class ChatPages {
  private readonly options: ChatPagesOptions;
  private readonly running = new Map<string, Promise<void>>();
  private snapshots = 0;

  constructor(parts: ChatPagesOptions) {
    this.options = parts;
  }

  /** A snapshot arrived: pages requested before it lack what happened until then. */
  invalidate(): void {
    this.snapshots += 1;
  }

  readNewest(workspaceId: string): Promise<void> {
    return this.once(`newest ${workspaceId}`, { workspaceId, endIn: () => undefined, fits: () => true });
  }

  readOlder(workspaceId: string): Promise<void> {
    const oldest = (chat: Chat | undefined): End => chat?.lines[0]?.seq;
    // The newest page may have replaced all lines; an older page would then leave a gap.
    return this.once(`older ${workspaceId}`, { workspaceId, endIn: oldest, fits: (end, chat) => end === oldest(chat) });
  }

  /** Read the newest incomplete message of a chat, with the page around it. */
  readIncomplete(workspaceId: string): Promise<void> {
    const part = (chat: Chat | undefined): ReturnType<typeof incompleteLine> => (chat?.loaded ? incompleteLine(chat) : null);
    const line = part(this.chat(workspaceId))?.line;
    const endIn = (chat: Chat | undefined): End => {
      const found = part(chat);
      return found === null ? null : found.before;
    };
    return this.once(`part ${workspaceId} ${line?.id} ${line?.lastEventSeq}`, { workspaceId, endIn, fits: () => true });
  }

  private once(key: string, wanted: PageRequest): Promise<void> {
    const running = this.running.get(key);
    if (running) return running;
    const started = this.read(wanted).finally(() => this.running.delete(key));
    this.running.set(key, started);
    return started;
  }

  /** A page that no longer fits when it arrives is requested again. */
  private async read(wanted: PageRequest): Promise<void> {
    let taken = false;
    while (!taken) {
      const end = wanted.endIn(this.chat(wanted.workspaceId));
      if (end === null) return;
      taken = await this.readPage(wanted, end);
    }
  }

  private async readPage({ workspaceId, fits }: PageRequest, end: number | undefined): Promise<boolean> {
    const { snapshots } = this;
    const since = this.options.data.get()?.last ?? 0;
    const { items, reached_end } = await this.options.api.timeline(workspaceId, PAGE, end);
    if (snapshots !== this.snapshots || !fits(end, this.chat(workspaceId))) return false;
    const page = { items, reachedEnd: reached_end, isNewest: end === undefined, since };
    const delegations = items.filter((item) => item.kind === "delegation").map(ofHistory);
    this.options.data.update((state) => {
      if (state === null || !state.workspaces.has(workspaceId)) return state;
      const chat = withPage(state.chats.get(workspaceId), page);
      return { ...withRead(state, delegations), chats: new Map(state.chats).set(workspaceId, chat) };
    });
    this.options.onRead(this.chat(workspaceId)?.lines ?? []);
    return true;
  }

  private chat(workspaceId: string): Chat | undefined {
    return this.options.data.get()?.chats.get(workspaceId);
  }
}
