/** Navigation from one item of the inbox to the next. */

import { useRef } from "react";
import { useApp, useSession } from "../../core/app";
import { announce } from "../../ui/Announcer";
import { INBOX, type Place } from "../../core/router";
import type { InboxItem } from "../../core/state/inboxItems";
import { allClearText } from "../../core/state/problems";

export interface Attention {
  go: (item: InboxItem) => void;
  next: () => void;
}

export function useAttention(items: readonly InboxItem[]): Attention {
  const { router } = useApp();
  const { problemLists } = useSession();
  const last = useRef<string | null>(null);
  const go = (item: InboxItem): void => {
    last.current = item.key;
    router.go(itemPlace(item));
    announce(`${item.name}: ${item.text}`);
  };
  return {
    go,
    next: () => {
      const at = items.findIndex(({ key }) => key === last.current);
      const item = items[(at + 1) % items.length];
      if (item === undefined) announce(allClearText(problemLists.status.get(), 0));
      else go(item);
    },
  };
}

/** An approval is opened, an agent is shown in the organisation, all else in the inbox. */
export function itemPlace(item: InboxItem): Place {
  if (item.kind === "approval") return { ...INBOX, open: { id: item.approval.id, workspaceId: item.workspaceId } };
  if (item.kind === "agent") return { view: "org", focus: item.workspaceId, panel: "about", filter: "" };
  return { ...INBOX, item: item.key };
}
