/** What needs a person, and navigation from one to the next. */

import { useMemo, useRef } from "react";
import { useApp, useThrottledData, useSession } from "../../core/app";
import { announce } from "../../ui/Announcer";
import type { Place } from "../../core/router";
import type { Approvals } from "../../core/state/approvals";
import { concerns, type Concern } from "./concerns";
import { allClearText } from "../../core/state/problems";
import { useStored } from "../../core/store/store";
import { useDelegationProblems } from "../delegations/useDelegationProblems";

/** Viewers decide nothing. */
const NO_APPROVALS: Approvals = new Map();

const STUCK: ReadonlySet<Concern["kind"]> = new Set(["unanswered", "untaken", "undelivered", "work", "stopped"]);

export interface Attention {
  all: readonly Concern[];
  go: (concern: Concern) => void;
  next: () => void;
  nextUnread: () => void;
}

export function useAttention(): Attention {
  const { router } = useApp();
  const workspaces = useThrottledData((state) => state.workspaces);
  const chats = useThrottledData((state) => state.chats);
  const approvals = useThrottledData((state) => state.approvals);
  const { problemLists: lists, canSend } = useSession();
  const stuck = useStored(lists.problems);
  const work = useDelegationProblems();
  const all = useMemo(() => concerns({ workspaces, chats, approvals: canSend ? approvals : NO_APPROVALS }, stuck, work), [workspaces, chats, approvals, canSend, stuck, work]);
  const lastShown = useRef<string | null>(null);
  const go = (concern: Concern): void => {
    lastShown.current = keyOf(concern);
    router.go(placeOf(concern));
    announce(`${concern.name}: ${concern.kind}`);
  };
  const walk = (from: readonly Concern[]): void => {
    const at = from.findIndex((each) => keyOf(each) === lastShown.current);
    const next = from[(at + 1) % from.length];
    if (next) go(next);
    else announce(allClearText(lists.status.get()));
  };
  return { all, go, next: () => walk(all), nextUnread: () => walk(all.filter((each) => each.kind === "unread")) };
}

function placeOf({ kind, workspaceId, approvalId }: Concern): Place {
  if (approvalId !== undefined) return { view: "inbox", list: "waiting", open: { id: approvalId, workspaceId } };
  if (STUCK.has(kind)) return { view: "problems" };
  return { view: "org", focus: workspaceId, panel: kind === "unread" ? "chat" : "about", filter: "" };
}

export function keyOf({ kind, workspaceId, approvalId }: Concern): string {
  return `${kind} ${approvalId ?? workspaceId}`;
}
