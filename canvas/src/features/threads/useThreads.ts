/** Reads what is known of threads, and keeps it as news come. What was missed is read again. */

import { useEffect, useState } from "react";
import { useDesk } from "../../core/app";
import { useAsked } from "../../core/api/useRequest";
import type { Api } from "../../core/api/api";
import { createStore, useStored, type Store } from "../../core/store/store";
import type { CollabPage, EntryItem, EntryPage, ThreadPage, ThreadTreeView } from "../../core/wire";
import { heard, isWhole, lastOf, NOTHING, withCollab, withLines, withThreads, type Known, type Scope } from "./fold";
import { useOneAtATime } from "./useOneAtATime";

export interface Followed {
  known: Known;
  isRead: boolean;
  problem: string | null;
  reread: () => void;
  book: Store<Known>;
}

/** `read` reads all again and writes it into the book. */
export function useKnown(scope: Scope, read: (book: Store<Known>) => Promise<void>): Followed {
  const { threadNews } = useDesk();
  const [book] = useState(() => createStore<Known>(NOTHING));
  const [turn, setTurn] = useState(0);
  const about = JSON.stringify(scope);
  useEffect(
    () =>
      threadNews.subscribe(() => {
        const frames = threadNews.get();
        if (frames.length === 0) setTurn((before) => before + 1);
        else book.update((known) => heard(known, frames, JSON.parse(about) as Scope));
      }),
    [threadNews, book, about],
  );
  const known = useStored(book);
  const readOnce = useOneAtATime(async () => {
    await read(book);
    return true;
  });
  const { value, problem, reread } = useAsked(readOnce, `${turn} ${known.gaps}`);
  return { known, isRead: value !== null, problem, reread: () => void reread(), book };
}

const PAGE = 200;
/** More lines are not read at once. Pages are not counted: one ends early where long lines fill it. */
const MOST_LINES = 20 * PAGE;

export function pathOf(threadId: string, what = ""): string {
  return `/threads/${encodeURIComponent(threadId)}${what}`;
}

/** Reads a tree, what its agents do with each other, and the end of one thread's log or what is new of it. */
export async function readTree(api: Api, threadId: string, book: Store<Known>): Promise<void> {
  const [tree, collab] = await Promise.all([api.ask<ThreadTreeView>("GET", pathOf(threadId, "/tree")), api.ask<CollabPage>("GET", pathOf(threadId, "/collab"))]);
  book.update((known) => withCollab(withThreads(known, tree.threads), collab));
  const log = book.get().logs.get(threadId);
  const last = book.get().threads.get(threadId)?.last_ordinal ?? 0;
  await readLines(api, threadId, book, log === undefined ? Math.max(0, last - PAGE) : lastOf(log));
}

async function readLines(api: Api, threadId: string, book: Store<Known>, from: number): Promise<void> {
  let after = from;
  while (after - from < MOST_LINES) {
    const page = await api.ask<EntryPage>("GET", pathOf(threadId, `/items?after=${after}&limit=${PAGE}`));
    book.update((known) => withLines(known, threadId, { after, lines: page.items }));
    const log = book.get().logs.get(threadId);
    if (page.reached_end && (log === undefined || isWhole(log))) return;
    after = page.items.at(-1)?.ordinal ?? from + MOST_LINES;
    if (page.reached_end) return;
  }
}

/** Lines before those that are there which were read and do not touch them yet, for the next try when one page failed. */
export interface Kept {
  /** The ordinal up to which they are missing. */
  before: number;
  lines: EntryItem[];
}

/** Reads the lines before what is there, in as many pages as their length takes; shown once they touch it. */
export async function readEarlier(api: Api, threadId: string, book: Store<Known>, kept: Kept): Promise<void> {
  const before = book.get().logs.get(threadId)?.from ?? 0;
  const from = Math.max(0, before - PAGE);
  if (kept.before !== before) Object.assign(kept, { before, lines: [] });
  const { lines } = kept;
  for (let after = lines.at(-1)?.ordinal ?? from; after < before; after = lines.at(-1)?.ordinal ?? before) {
    const page = await api.ask<EntryPage>("GET", pathOf(threadId, `/items?after=${after}&limit=${before - after}`));
    if (page.items.length === 0) break;
    lines.push(...page.items);
  }
  if (before > 0) book.update((known) => withLines(known, threadId, { after: from, lines }));
}

const THREADS = 50;

/** Reads a page of a workspace's threads; whether there is none behind it. */
export async function readThreads(api: Api, workspaceId: string, book: Store<Known>, wish: { state: string | null; before: string | null }): Promise<boolean> {
  const query = new URLSearchParams({ limit: String(THREADS) });
  if (wish.state !== null) query.set("state", wish.state);
  if (wish.before !== null) query.set("before", wish.before);
  const page = await api.ask<ThreadPage>("GET", `/workspaces/${encodeURIComponent(workspaceId)}/threads?${query.toString()}`);
  book.update((known) => withThreads(known, page.threads));
  return page.reached_end;
}
