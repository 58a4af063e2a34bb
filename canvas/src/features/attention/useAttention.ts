/** What needs a person, and the way from one to the next. */

import { useMemo, useRef } from "react";
import { useApp, useCalmData, useDesk } from "../../core/app";
import { announce } from "../../ui/Announcer";
import type { Place } from "../../core/router";
import type { Approvals } from "../../core/state/approvals";
import { concerns, type Concern } from "./concerns";
import { calmWords } from "../../core/state/problems";
import { useStored } from "../../core/store/store";
import { useWorkProblems } from "../delegations/useDelegationProblems";

/** Who may only look decides nothing. */
const NOBODY: Approvals = new Map();

const STUCK: ReadonlySet<Concern["kind"]> = new Set(["unanswered", "untaken", "undelivered", "work", "stopped"]);

export interface Attention {
  all: readonly Concern[];
  go: (concern: Concern) => void;
  next: () => void;
  nextUnread: () => void;
}

export function useAttention(): Attention {
  const { router } = useApp();
  const workspaces = useCalmData((state) => state.workspaces);
  const chats = useCalmData((state) => state.chats);
  const approvals = useCalmData((state) => state.approvals);
  const { stuck: lists, maySend } = useDesk();
  const stuck = useStored(lists.all);
  const work = useWorkProblems();
  const all = useMemo(() => concerns({ workspaces, chats, approvals: maySend ? approvals : NOBODY }, stuck, work), [workspaces, chats, approvals, maySend, stuck, work]);
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
    else announce(calmWords(lists.list.get()));
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
