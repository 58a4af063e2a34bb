/** Events of the organisation with some filters: read in pages, newest first, and followed as they happen. */

import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { useSession, useThrottledData } from "../../core/app";
import { errorText, type Api } from "../../core/api/api";
import type { ActivityFilters } from "../../core/router";
import { useStored } from "../../core/store/store";
import type { ActivityHistogram, ActivityPage, LoggedEvent } from "../../core/wire";
import { requestParameters, withoutOpen } from "./filters";

const PAGE_SIZE = 100;
/** Events within this time cause one read. */
const GATHER_MS = 400;
/** A request reads a limited number of events; this many in a row are made before the person is asked. */
const MAX_EMPTY_READS = 20;
/** More new events than these are read as a new list. */
const MAX_NEW_READS = 5;
export const MAX_EVENTS = 5_000;
const COUNT_AGAIN_MS = 30_000;

interface Log {
  events: readonly LoggedEvent[];
  /** New ones that are not listed yet, newest first. */
  waiting: readonly LoggedEvent[];
  cursor: string | null;
  newest: number;
  searchedTo: string | null;
  keptSince: string | null;
  isTextComplete: boolean;
}

export interface Activity {
  log: Log | null;
  problem: string | null;
  isReading: boolean;
  readOlder: () => void;
  /** List the events that wait. */
  showNew: () => void;
  retry: () => void;
}

export function readActivity(api: Api, orgId: string, query: URLSearchParams): Promise<ActivityPage> {
  return api.request<ActivityPage>("GET", `/orgs/${encodeURIComponent(orgId)}/activity?${query.toString()}`);
}

/** The link that downloads all events that match. */
export function exportAddress(orgId: string, filters: ActivityFilters, now: number): string {
  return `/orgs/${encodeURIComponent(orgId)}/activity/export?session_org=${encodeURIComponent(orgId)}&${requestParameters(filters, now).toString()}`;
}

/** `isHeld`: new events wait instead of moving the list. */
export function useActivity(filters: ActivityFilters, isHeld: boolean): Activity {
  const { api, identity, connection } = useSession();
  const orgId = identity.org.id;
  const isLost = useStored(connection.view).mode === "lost";
  const last = useThrottledData((state) => state.last);
  const key = JSON.stringify(withoutOpen(filters));
  const [log, setLog] = useState<Log | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const [isReading, setReading] = useState(false);
  const [turn, setTurn] = useState(0);
  const latest = useRef<{ log: Log | null; isHeld: boolean }>({ log, isHeld });
  latest.current = { log, isHeld };
  const query = useMemo(() => requestParameters(JSON.parse(key) as ActivityFilters, Date.now()), [key, turn]);
  /** Counts lists: the response of a request for an earlier one is dropped. */
  const list = useRef(0);

  const readOlder = useCallback(async (from: Log | null): Promise<void> => {
    const own = list.current;
    setReading(true);
    try {
      let current = from;
      for (let reads = 0; reads < MAX_EMPTY_READS; reads += 1) {
        const page = await readActivity(api, orgId, withParameters(query, { limit: String(PAGE_SIZE), cursor: current?.cursor ?? null }));
        if (own !== list.current) return;
        current = withPage(reads === 0 ? from : current, page);
        if (page.events.length > 0 || page.next_cursor === null) break;
      }
      const read = current;
      setLog((before) => read && (from === null || before === null ? read : { ...read, events: [...before.events, ...read.events.slice(from.events.length)], waiting: before.waiting, newest: before.newest }));
      setProblem(null);
    } catch (error) {
      if (own === list.current) setProblem(errorText(error));
    } finally {
      if (own === list.current) setReading(false);
    }
  }, [api, orgId, query]);

  useEffect(() => {
    list.current += 1;
    setLog(null);
    setProblem(null);
    void readOlder(null);
    return () => void (list.current += 1);
  }, [readOlder]);

  const isRead = log !== null;
  const follows = isRead && !query.has("until") && !isLost;
  useEffect(() => {
    if (!follows) return;
    const own = list.current;
    let current = true;
    const read = async (): Promise<void> => {
      let after = latest.current.log?.newest ?? 0;
      for (let reads = 0; current && reads < MAX_NEW_READS; reads += 1) {
        const page = await readActivity(api, orgId, withParameters(query, { after: String(after) }));
        if (own !== list.current || !current) return;
        after = page.newest_seq;
        setLog((before) => before && withNew(before, page, latest.current.isHeld));
        if (page.next_cursor === null) return;
      }
      if (current && own === list.current && !latest.current.isHeld) setTurn((each) => each + 1);
    };
    // What could not be read now is read after the next event.
    const timer = setTimeout(() => void read().catch(() => undefined), GATHER_MS);
    return () => {
      current = false;
      clearTimeout(timer);
    };
  }, [api, orgId, query, last, follows]);

  return {
    log,
    problem,
    isReading,
    readOlder: useCallback(() => void readOlder(latest.current.log), [readOlder]),
    showNew: useCallback(() => setLog((before) => before && withFresh(before, [])), []),
    retry: useCallback(() => setTurn((each) => each + 1), []),
  };
}

function withParameters(query: URLSearchParams, more: Record<string, string | null>): URLSearchParams {
  const all = new URLSearchParams(query);
  for (const [name, value] of Object.entries(more)) if (value !== null) all.set(name, value);
  return all;
}

function withPage(before: Log | null, page: ActivityPage): Log {
  return {
    events: [...(before?.events ?? []), ...page.events],
    waiting: before?.waiting ?? [],
    cursor: page.next_cursor,
    newest: before?.newest ?? page.newest_seq,
    searchedTo: page.searched_to ?? before?.searchedTo ?? null,
    keptSince: page.kept_since,
    isTextComplete: (before?.isTextComplete ?? true) && page.is_text_complete,
  };
}

/** New events come oldest first, and may have been read already. */
function withNew(before: Log, page: ActivityPage, isHeld: boolean): Log {
  const fresh = page.events.filter(({ seq }) => seq > before.newest).reverse();
  const after = { ...before, newest: Math.max(before.newest, page.newest_seq) };
  return isHeld ? { ...after, waiting: [...fresh, ...before.waiting].slice(0, MAX_EVENTS) } : withFresh(after, fresh);
}

/** New events, and those that wait, are listed. The oldest of a list that grows too long are dropped, to be read again. */
function withFresh(log: Log, fresh: readonly LoggedEvent[]): Log {
  const all = [...fresh, ...log.waiting, ...log.events];
  const events = all.slice(0, MAX_EVENTS);
  return { ...log, events, waiting: [], cursor: all.length > MAX_EVENTS ? String(events.at(-1)?.seq ?? 0) : log.cursor };
}

/** Numbers of events by time; null until they are read, and if they cannot be. */
export function useHistogram(filters: ActivityFilters, newest: number | null): ActivityHistogram | null {
  const { api, identity } = useSession();
  const key = JSON.stringify(withoutOpen(filters));
  const [found, setFound] = useState<{ key: string; histogram: ActivityHistogram } | null>(null);
  const countedAt = useRef({ key: "", at: 0 });
  useEffect(() => {
    if (newest === null) return;
    let current = true;
    const wait = countedAt.current.key === key ? countedAt.current.at + COUNT_AGAIN_MS - performance.now() : 0;
    const timer = setTimeout(() => {
      countedAt.current = { key, at: performance.now() };
      const query = requestParameters(JSON.parse(key) as ActivityFilters, Date.now());
      api.request<ActivityHistogram>("GET", `/orgs/${encodeURIComponent(identity.org.id)}/activity/histogram?${query.toString()}`).then(
        (histogram) => current && setFound({ key, histogram }),
        () => undefined, // the list says what is wrong
      );
    }, Math.max(0, wait));
    return () => {
      current = false;
      clearTimeout(timer);
    };
  }, [api, identity.org.id, key, newest]);
  return found?.key === key ? found.histogram : null;
}
