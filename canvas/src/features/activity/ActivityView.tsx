/** Everything that happens in the organisation: its journal with filters, newest first, followed as it grows. */

import { useEffect, useMemo, useRef, useState, type RefObject } from "react";
import { useApp, useSession, useSettings } from "../../core/app";
import type { ActivityFilters } from "../../core/router";
import { exact } from "../../core/text/time";
import { Button } from "../../ui/Button";
import { useSingleKeys } from "../../ui/keyboard";
import { Notice } from "../../ui/Notice";
import { useNow } from "../../ui/useNow";
import { NARROW, useMedia } from "../../ui/useMedia";
import { useRowWindow } from "../../ui/useRowWindow";
import { EventDetail } from "./EventDetail";
import { EventRow } from "./EventRow";
import { FilterBar } from "./FilterBar";
import { withoutOpen } from "./filters";
import { SavedFilterBar } from "./SavedFilterBar";
import { Histogram } from "./Histogram";
import { logRows, type LogRow } from "./rows";
import { exportAddress, useActivity, useHistogram, type Activity } from "./useActivity";
import css from "./Activity.module.css";

/** Height of a row in rem, as in the style sheet. */
const ROW = 2.25;
const NARROW_ROW = 4.5;
/** The list stays where it is once it is scrolled this far. */
const TOP_PIXELS = 24;
/** Older events are read this far from the end. */
const END_PIXELS = 600;

export function ActivityView({ filters }: { filters: ActivityFilters }) {
  const narrow = useMedia(NARROW);
  const open = Number(filters["open"] ?? "") || null;
  const own = useMemo(() => withoutOpen(filters), [JSON.stringify(withoutOpen(filters))]);
  const [isPaused, setPaused] = useState(false);
  const [isScrolled, setScrolled] = useState(false);
  const activity = useActivity(own, isPaused || isScrolled);
  const histogram = useHistogram(own, activity.log?.newest ?? null);
  const listed = activity.log?.events.find(({ seq }) => seq === open);
  const isListShown = !(narrow && open !== null);
  return (
    <div className={`${css.activity} ${open === null ? "" : css.withDetail}`}>
      {isListShown && (
        <section className={css.main} aria-label="Activity">
          <Head filters={own} isPaused={isPaused} onPause={setPaused} />
          <FilterBar filters={own} />
          <SavedFilterBar filters={own} />
          {histogram !== null && <Histogram histogram={histogram} />}
          <List key={JSON.stringify(own)} activity={activity} filters={own} open={open} narrow={narrow} onScrolled={setScrolled} isPaused={isPaused} />
        </section>
      )}
      {open !== null && <EventDetail key={open} seq={open} listed={listed} filters={own} back={narrow} />}
    </div>
  );
}

function Head({ filters, isPaused, onPause }: { filters: ActivityFilters; isPaused: boolean; onPause: (paused: boolean) => void }) {
  const { identity } = useSession();
  const [href, setHref] = useState(() => exportAddress(identity.org.id, filters, Date.now()));
  // A span such as the last hour ends when the link is followed.
  const refresh = (): void => setHref(exportAddress(identity.org.id, filters, Date.now()));
  useEffect(refresh, [identity.org.id, filters]);
  return (
    <div className={css.head}>
      <h2 className={css.title}>Activity</h2>
      {filters["until"] === undefined && (
        <Button icon={isPaused ? "play" : undefined} aria-pressed={isPaused} onClick={() => onPause(!isPaused)}>
          {isPaused ? "Paused" : "Pause"}
        </Button>
      )}
      <a className={css.button} href={href} download="activity.ndjson" onPointerDown={refresh} onFocus={refresh}>
        Export
        <span className="visually-hidden"> these events as NDJSON</span>
      </a>
    </div>
  );
}

interface ListProps {
  activity: Activity;
  filters: ActivityFilters;
  open: number | null;
  narrow: boolean;
  isPaused: boolean;
  onScrolled: (scrolled: boolean) => void;
}

function List({ activity, filters, open, narrow, isPaused, onScrolled }: ListProps) {
  const { log, problem, isReading, readOlder, showNew, retry } = activity;
  const scroller = useRef<HTMLDivElement>(null);
  const now = useNow();
  const rows = useMemo(() => logRows(log?.events ?? [], now), [log?.events, now]);
  const active = rows.findIndex((row) => row.kind === "event" && row.event.seq === open);
  const { shown, virtual, rowHeight } = useRowWindow(scroller, rows.length, active, narrow ? NARROW_ROW : ROW);
  useRowKeys(scroller);
  const mayReadMore = log !== null && log.cursor !== null && !isReading && problem === null;
  useEffect(() => () => onScrolled(false), [onScrolled]);
  const follow = (): void => {
    const element = scroller.current;
    if (element === null) return;
    onScrolled(element.scrollTop > TOP_PIXELS);
    if (mayReadMore && rows.length > 0 && element.scrollTop > 0 && element.scrollTop + element.clientHeight > element.scrollHeight - END_PIXELS) readOlder();
  };
  const showAll = (): void => {
    showNew();
    if (scroller.current !== null) scroller.current.scrollTop = 0;
  };
  const waiting = log?.waiting.length ?? 0;
  return (
    <>
      <p role="status" className={css.news}>
        {waiting > 0 && (
          <Button kind="primary" icon="up" onClick={showAll}>
            {waiting.toLocaleString("en-GB")} new
          </Button>
        )}
        {isPaused && waiting === 0 && <span className={css.hint}>Paused. New events will wait here.</span>}
      </p>
      {log !== null && !log.isTextComplete && <p className={css.note}>Not all texts were searched. Choose a shorter time to search older ones.</p>}
      <div className={css.scroller} ref={scroller} onScroll={follow}>
        {rows.length > 0 && (
          <ol className={css.rows} aria-label="Events" style={virtual ? { height: rows.length * rowHeight } : undefined}>
            {shown.map((at) => {
              const row = rows[at];
              return row && <Row key={row.key} row={row} filters={filters} open={open} top={virtual ? at * rowHeight : null} />;
            })}
          </ol>
        )}
        <End activity={activity} rows={rows.length} filters={filters} onRetry={log === null ? retry : readOlder} />
      </div>
    </>
  );
}

function Row({ row, filters, open, top }: { row: LogRow; filters: ActivityFilters; open: number | null; top: number | null }) {
  const place = { className: `${row.kind === "day" ? css.day : css.row} ${top === null ? "" : css.virtual}`, style: top === null ? undefined : { transform: `translateY(${top}px)` } };
  if (row.kind === "day") {
    return (
      <li {...place}>
        <h3>{row.heading}</h3>
      </li>
    );
  }
  return (
    <li {...place}>
      <EventRow event={row.event} filters={filters} isOpen={row.event.seq === open} />
    </li>
  );
}

/** What follows the last row: older events, the end, or why there is nothing. */
function End({ activity, rows, filters, onRetry }: { activity: Activity; rows: number; filters: ActivityFilters; onRetry: () => void }) {
  const { router } = useApp();
  const { log, problem, isReading, readOlder } = activity;
  if (problem !== null) {
    return (
      <div role="alert">
        <Notice icon="warning" title="Could not load activity" actions={<Button onClick={onRetry}>Try again</Button>}>
          {problem}
        </Notice>
      </div>
    );
  }
  if (log === null) return <Notice icon="clock" title="Loading activity…" />;
  if (log.cursor !== null) {
    return (
      <p className={css.end}>
        {rows === 0 && log.searchedTo !== null && <span>No event matches back to {exact(log.searchedTo)}.</span>}
        <Button disabled={isReading} onClick={readOlder}>
          {isReading ? "Loading…" : rows === 0 ? "Look further back" : "Load older events"}
        </Button>
      </p>
    );
  }
  const isFiltered = Object.keys(filters).length > 0;
  const kept = log.keptSince === null ? "" : ` Events before ${exact(log.keptSince)} were deleted by retention.`;
  if (rows > 0) return <p className={css.end}>{kept === "" ? "This is the first event." : kept.trim()}</p>;
  return (
    <Notice
      icon={isFiltered ? "search" : "activity"}
      title={isFiltered ? "No event matches" : "No activity yet"}
      actions={isFiltered ? <Button onClick={() => router.go({ view: "activity", filters: {} })}>Clear filters</Button> : undefined}
    >
      {isFiltered ? `Change or clear the filters.${kept}` : "Messages, delegations, approvals and changes of the organisation appear here."}
    </Notice>
  );
}

/** J and K move through the rows; Enter opens one, as for every link. */
function useRowKeys(scroller: RefObject<HTMLElement | null>): void {
  const { singleKeys } = useSettings();
  const step = (by: number): void => {
    const links = [...(scroller.current?.querySelectorAll<HTMLElement>("a[data-event]") ?? [])];
    const row = document.activeElement?.closest("li");
    const focused = links.findIndex((link) => link.closest("li") === row);
    const from = focused === -1 ? links.findIndex((link) => link.hasAttribute("aria-current")) : focused;
    links[Math.max(0, Math.min(links.length - 1, from + by))]?.focus();
  };
  useSingleKeys({ j: () => step(1), k: () => step(-1) }, singleKeys);
}
