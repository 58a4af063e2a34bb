/** Read threads, apply events to them, and read again what was missed. */

import { useEffect, useState } from "react";
import { useSession } from "../../core/app";
import { useRequest } from "../../core/api/useRequest";
import type { Api } from "../../core/api/api";
import { createStore, useStored, type Store } from "../../core/store/store";
import type { CollabPage, EntryItem, EntryPage, ThreadPage, ThreadTreeView } from "../../core/wire";
import { withEvents, isComplete, lastOf, EMPTY_THREADS, withCollab, withLines, withThreads, type ThreadsState, type Scope } from "./fold";
import { useOneAtATime } from "./useOneAtATime";

export interface ThreadsRead {
  known: ThreadsState;
  isRead: boolean;
  problem: string | null;
  reread: () => void;
  store: Store<ThreadsState>;
}

/** `read` reads everything again and writes it to the store. */
export function useThreads(scope: Scope, read: (store: Store<ThreadsState>) => Promise<void>): ThreadsRead {
  const { threadEvents } = useSession();
  const [store] = useState(() => createStore<ThreadsState>(EMPTY_THREADS));
  const [turn, setTurn] = useState(0);
  const about = JSON.stringify(scope);
  useEffect(
    () =>
      threadEvents.subscribe(() => {
        const frames = threadEvents.get();
        if (frames.length === 0) setTurn((before) => before + 1);
        else store.update((known) => withEvents(known, frames, JSON.parse(about) as Scope));
      }),
    [threadEvents, store, about],
  );
  const known = useStored(store);
  const readOnce = useOneAtATime(async () => {
    await read(store);
    return true;
  });
  const { value, problem, reread } = useRequest(readOnce, `${turn} ${known.gaps}`);
  return { known, isRead: value !== null, problem, reread: () => void reread(), store };
}

const PAGE = 200;
/** At most this many lines are read at once. Pages are not counted: long lines fill one early. */
const MAX_LINES = 20 * PAGE;

export function pathOf(threadId: string, what = ""): string {
  return `/threads/${encodeURIComponent(threadId)}${what}`;
}

/** Read a tree, the calls between its agents, and the end of one thread's log or what is new of it. */
export async function readTree(api: Api, threadId: string, store: Store<ThreadsState>): Promise<void> {
  const [tree, collab] = await Promise.all([api.request<ThreadTreeView>("GET", pathOf(threadId, "/tree")), api.request<CollabPage>("GET", pathOf(threadId, "/collab"))]);
  store.update((known) => withCollab(withThreads(known, tree.threads), collab));
  const log = store.get().logs.get(threadId);
  const last = store.get().threads.get(threadId)?.last_ordinal ?? 0;
  await readLines(api, threadId, store, log === undefined ? Math.max(0, last - PAGE) : lastOf(log));
}

async function readLines(api: Api, threadId: string, store: Store<ThreadsState>, from: number): Promise<void> {
  let after = from;
  while (after - from < MAX_LINES) {
    const page = await api.request<EntryPage>("GET", pathOf(threadId, `/items?after=${after}&limit=${PAGE}`));
    store.update((known) => withLines(known, threadId, { after, lines: page.items }));
    const log = store.get().logs.get(threadId);
    if (page.reached_end && (log === undefined || isComplete(log))) return;
    after = page.items.at(-1)?.ordinal ?? from + MAX_LINES;
    if (page.reached_end) return;
  }
}

/** Earlier lines that were read and do not join the known ones yet, kept for the next attempt when a page failed. */
export interface EarlierLines {
  /** Ordinal up to which lines are missing. */
  before: number;
  lines: EntryItem[];
}

/** Read earlier lines, in as many pages as their length takes; shown once they join the known ones. */
export async function readEarlier(api: Api, threadId: string, store: Store<ThreadsState>, kept: EarlierLines): Promise<void> {
  const before = store.get().logs.get(threadId)?.from ?? 0;
  const from = Math.max(0, before - PAGE);
  if (kept.before !== before) Object.assign(kept, { before, lines: [] });
  const { lines } = kept;
  for (let after = lines.at(-1)?.ordinal ?? from; after < before; after = lines.at(-1)?.ordinal ?? before) {
    const page = await api.request<EntryPage>("GET", pathOf(threadId, `/items?after=${after}&limit=${before - after}`));
    if (page.items.length === 0) break;
    lines.push(...page.items);
  }
  if (before > 0) store.update((known) => withLines(known, threadId, { after: from, lines }));
}

const THREADS = 50;

/** Read a page of a workspace's threads. Returns whether it was the last one. */
export async function readThreads(api: Api, workspaceId: string, store: Store<ThreadsState>, input: { state: string | null; before: string | null }): Promise<boolean> {
  const query = new URLSearchParams({ limit: String(THREADS) });
  if (input.state !== null) query.set("state", input.state);
  if (input.before !== null) query.set("before", input.before);
  const page = await api.request<ThreadPage>("GET", `/workspaces/${encodeURIComponent(workspaceId)}/threads?${query.toString()}`);
  store.update((known) => withThreads(known, page.threads));
  return page.reached_end;
}
