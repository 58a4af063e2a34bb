/** The conversation of two agents, read page by page and kept current by events while it is shown. */

import { useCallback, useEffect, useMemo } from "react";
import { useSession } from "../../core/app";
import { errorText } from "../../core/api/api";
import type { SessionController } from "../../core/session/sessionController";
import { RETRY_MS } from "../../core/session/problemLists";
import { EMPTY_PEER_CHAT, isMessageBetween, pageOfTick, withPeerPage, withPeerTick, type PeerChat } from "../../core/state/peerMessages";
import { createStore, useStored } from "../../core/store/store";
import type { ConversationPage, EventFrame } from "../../core/wire";

const PAGE = 50;
/** Ticks that arrive within this time are handled together. */
const GATHER_MS = 100;

interface Shown {
  chat: PeerChat;
  /** Why the newest page could not be read. */
  problem: string | null;
}

class PeerChatReader {
  readonly shown = createStore<Shown>({ chat: EMPTY_PEER_CHAT, problem: null });
  private readonly session: SessionController;
  private readonly pair: readonly [string, string];
  private reading = false;
  private due = false;
  private timer: ReturnType<typeof setTimeout> | null = null;
  private stopped = false;
  private older: Promise<void> | null = null;

  constructor(session: SessionController, pair: readonly [string, string]) {
    this.session = session;
    this.pair = pair;
  }

  start(): () => void {
    this.stopped = false;
    const stop = this.session.peerEvents.subscribe(() => this.receive(this.session.peerEvents.get()));
    this.refresh();
    return () => {
      this.stopped = true;
      stop();
      if (this.timer !== null) clearTimeout(this.timer);
      this.timer = null;
    };
  }

  /** Read the newest page; once more if that is due again by then. */
  readonly refresh = (): void => {
    this.due = true;
    if (this.reading || this.stopped) return;
    this.reading = true;
    void this.readWhileDue().finally(() => (this.reading = false));
  };

  /** Concurrent calls share one request. */
  readonly readOlder = (): Promise<void> => (this.older ??= this.readOlderPage());

  private async readOlderPage(): Promise<void> {
    const oldest = this.shown.get().chat.lines[0]?.id;
    // Cleared first: the next page may be asked for as soon as the new lines are shown.
    const page = await this.request(oldest).finally(() => (this.older = null));
    this.take(page, oldest);
  }

  private async readWhileDue(): Promise<void> {
    while (this.due && !this.stopped) {
      this.due = false;
      try {
        await this.read(undefined);
        this.shown.update((now) => ({ ...now, problem: null }));
      } catch (error) {
        this.shown.update((now) => ({ ...now, problem: errorText(error) }));
        this.later(RETRY_MS);
      }
    }
  }

  private async read(before: string | undefined): Promise<void> {
    this.take(await this.request(before), before);
  }

  private request(before: string | undefined): Promise<ConversationPage> {
    return this.session.api.conversation(...this.pair, PAGE, before);
  }

  private take(page: ConversationPage, before: string | undefined): void {
    this.session.mergeDelegations(page.items.filter((item) => item.kind === "delegation"));
    this.shown.update((now) => {
      // A newest page may have replaced all lines meanwhile; an older one would then leave a gap.
      const fits = before === undefined || now.chat.lines.some(({ id }) => id === before);
      return fits ? { ...now, chat: withPeerPage(now.chat, page, before === undefined) } : now;
    });
  }

  private receive(frames: readonly EventFrame[]): void {
    if (frames.length === 0 || frames.some((frame) => isMessageBetween(frame, ...this.pair))) return this.refresh();
    for (const frame of frames) {
      const { chat } = this.shown.get();
      const page = pageOfTick(chat, frame, PAGE);
      if (page === null) continue;
      this.shown.update((now) => ({ ...now, chat: withPeerTick(now.chat, frame) }));
      if (page === undefined) this.later(GATHER_MS);
      else void this.read(page).catch(() => undefined); // its delivery is known; the rest follows with the next page
    }
  }

  private later(wait: number): void {
    this.timer ??= setTimeout(() => {
      this.timer = null;
      this.refresh();
    }, wait);
  }
}

interface PeerChatState extends Shown {
  readOlder: () => Promise<void>;
  retry: () => void;
}

export function usePeerChat(workspaceId: string, peerId: string): PeerChatState {
  const session = useSession();
  const reader = useMemo(() => new PeerChatReader(session, [workspaceId, peerId]), [session, workspaceId, peerId]);
  useEffect(() => reader.start(), [reader]);
  useEffect(() => {
    for (const id of [workspaceId, peerId]) session.decisions.readOf(id).catch(() => undefined); // shown as text without it
  }, [session, workspaceId, peerId]);
  return { ...useStored(reader.shown), readOlder: reader.readOlder, retry: useCallback(() => reader.refresh(), [reader]) };
}
