/** While a chat is open, visible and at its end, arriving messages count as read. */

import { useEffect, useLayoutEffect, useRef, useState } from "react";
import { useSession } from "../../core/app";
import { announce } from "../../ui/Announcer";
import { isOpen, type Delegation } from "../../core/state/delegations";
import { isMessageLine, type Chat, type Line } from "../../core/state/model";

/** Returns the seq of the "new" mark: what was unread when the chat was opened. */
export function useReadMarks(workspaceId: string, chat: Chat, following: boolean): number | null {
  const session = useSession();
  const [newAfter, setNewAfter] = useState(() => (chat.unread > 0 ? chat.readSeq : null));
  const [seen, setSeen] = useState(() => document.visibilityState === "visible");
  useEffect(() => {
    const look = (): void => setSeen(document.visibilityState === "visible");
    document.addEventListener("visibilitychange", look);
    return () => document.removeEventListener("visibilitychange", look);
  }, []);
  const { unread, readSeq } = chat;
  useEffect(() => {
    if (!seen && unread > 0) setNewAfter((mark) => mark ?? readSeq);
  }, [seen, unread, readSeq]);
  const attentive = seen && following && chat.loaded;
  useLayoutEffect(() => (attentive ? session.attend(workspaceId) : undefined), [session, workspaceId, attentive]);
  // Before the paint, so that no badge appears for a visible message.
  useLayoutEffect(() => {
    if (attentive) session.markRead(workspaceId);
  }, [session, workspaceId, attentive, chat]);
  return newAfter;
}

/** Announce new delegations of the open chat and how they ended. */
export function useAnnouncedDelegations(name: string, lines: readonly Line[], delegations: ReadonlyMap<string, Delegation>, loaded: boolean): void {
  const announced = useRef<{ all: ReadonlyMap<string, string>; last: number } | null>(null);
  useEffect(() => {
    if (!loaded) return;
    const shownDelegations = lines.map(({ delegationId }) => delegations.get(delegationId ?? "")).filter((each) => each !== undefined);
    const before = announced.current;
    const all = new Map(shownDelegations.map((each) => [each.id, isOpen(each) ? "open" : each.status]));
    announced.current = { all, last: Math.max(before?.last ?? 0, ...shownDelegations.map(({ seq }) => seq)) };
    if (before === null) return;
    // Delegations of an older page are not new.
    const isNews = ({ id, seq }: Delegation): boolean => (before.all.has(id) ? before.all.get(id) !== all.get(id) : seq > before.last);
    const news = shownDelegations.findLast(isNews);
    if (news !== undefined) announce(isOpen(news) ? `${name} delegated a task to another agent` : `A task delegated by ${name} ${ENDS[news.status] ?? "has ended"}`);
  }, [name, lines, delegations, loaded]);
}

const ENDS: Readonly<Record<string, string>> = { completed: "was answered", cancelled: "was cancelled", failed: "failed" };

/** Announce messages that arrive in the open chat to screen readers. */
export function useAnnouncedMessages(name: string, lines: readonly Line[], loaded: boolean): void {
  const announced = useRef<number | null>(null);
  const last = lines.findLast(isMessageLine);
  useEffect(() => {
    if (!loaded) return;
    const before = announced.current;
    announced.current = Math.max(before ?? 0, last?.seq ?? 0);
    if (before !== null && last && last.author === "agent" && last.seq > before) announce(`New message from ${name}`);
  }, [name, last, loaded]);
}
