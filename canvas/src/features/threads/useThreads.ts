/** Reads what is known of threads, and keeps it as news come. What was missed is read again. */

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

/** `read` reads all again and writes it into the book. */
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
/** More lines are not read at once. Pages are not counted: one ends early where long lines fill it. */
const MAX_LINES = 20 * PAGE;

export function pathOf(threadId: string, what = ""): string {
  return `/threads/${encodeURIComponent(threadId)}${what}`;
}

/** Reads a tree, what its agents do with each other, and the end of one thread's log or what is new of it. */
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

/** Lines before those that are there which were read and do not touch them yet, for the next try when one page failed. */
export interface EarlierLines {
  /** The ordinal up to which they are missing. */
  before: number;
  lines: EntryItem[];
}

/** Reads the lines before what is there, in as many pages as their length takes; shown once they touch it. */
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

/** Reads a page of a workspace's threads; whether there is none behind it. */
export async function readThreads(api: Api, workspaceId: string, store: Store<ThreadsState>, input: { state: string | null; before: string | null }): Promise<boolean> {
  const query = new URLSearchParams({ limit: String(THREADS) });
  if (input.state !== null) query.set("state", input.state);
  if (input.before !== null) query.set("before", input.before);
  const page = await api.request<ThreadPage>("GET", `/workspaces/${encodeURIComponent(workspaceId)}/threads?${query.toString()}`);
  store.update((known) => withThreads(known, page.threads));
  return page.reached_end;
}
