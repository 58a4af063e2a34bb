/** What needs a person, and the way from one to the next. */

import { useMemo, useRef } from "react";
import { useApp, useCalmData, useDesk } from "../app";
import { announce } from "../parts/Announcer";
import { concerns, type Concern } from "../state/attention";
import { useStored } from "../state/store";
import { useWorkProblems } from "./useWorkProblems";

const STUCK: ReadonlySet<Concern["kind"]> = new Set(["unanswered", "undelivered", "work", "stopped"]);

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
  const stuck = useStored(useDesk().stuck);
  const work = useWorkProblems();
  const all = useMemo(() => concerns({ workspaces, chats }, stuck, work), [workspaces, chats, stuck, work]);
  const lastShown = useRef<string | null>(null);
  const go = (concern: Concern): void => {
    lastShown.current = keyOf(concern);
    const panel = concern.kind === "unread" ? "chat" : "about";
    const isStuck = STUCK.has(concern.kind);
    router.go(isStuck ? { view: "problems" } : { view: "org", focus: concern.workspaceId, panel, filter: "" });
    announce(`${concern.name}: ${concern.kind}`);
  };
  const walk = (from: readonly Concern[]): void => {
    const at = from.findIndex((each) => keyOf(each) === lastShown.current);
    const next = from[(at + 1) % from.length];
    if (next) go(next);
    else announce("Nothing needs you");
  };
  return { all, go, next: () => walk(all), nextUnread: () => walk(all.filter((each) => each.kind === "unread")) };
}

export function keyOf(concern: Concern): string {
  return `${concern.kind} ${concern.workspaceId}`;
}
