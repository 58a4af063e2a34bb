/** Navigation from one unread chat to the next. */

import { useRef } from "react";
import { useApp, useSession } from "../../core/app";
import { allClearText } from "../../core/state/problems";
import { announce } from "../../ui/Announcer";
import { unreadChats } from "./unread";

export function useNextUnread(): () => void {
  const { router } = useApp();
  const session = useSession();
  const last = useRef<string | null>(null);
  return () => {
    const state = session.data.get();
    const chats = unreadChats(state?.chats ?? new Map());
    const id = chats[(chats.indexOf(last.current ?? "") + 1) % chats.length];
    if (id === undefined) return announce(allClearText(session.problemLists.status.get(), 0));
    last.current = id;
    router.go({ view: "org", focus: id, panel: "chat", filter: "" });
    announce(`${state?.workspaces.get(id)?.name ?? ""}: unread`);
  };
}
