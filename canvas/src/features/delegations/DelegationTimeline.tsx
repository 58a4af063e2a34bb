/** The timeline of a delegation tree: one axis for all rows, waiting hatched and working filled. Zoomed by buttons, keys and
 * wheel. */

import { useEffect, useRef, useState } from "react";
import { IconButton } from "../../ui/Button";
import { shownTask } from "../../core/state/delegations";
import { barsOf, type Bar, type TreeRow } from "./tree";
import { inHours, seconds } from "../../core/text/time";
import type { DelegationTimelineEntry } from "../../core/wire";
import { useNameOf } from "./NodeDetail";
import css from "./DelegationTimeline.module.css";

const STEP = 1.5;
const MAX_ZOOM = 200;
/** Divisions of the axis at zoom 1. */
const PARTS = 4;

/** A row that is no delegation. `until` null: it has not ended. Times are milliseconds. */
export interface ExtraRow {
  id: string;
  label: string;
  detail: string;
  kind: Bar["kind"];
  from: number;
  until: number | null;
}

interface Props {
  rows: readonly TreeRow[];
  /** Timeline of the first row. For the others only the times that every delegation has are known. */
  facts: readonly DelegationTimelineEntry[];
  extra?: readonly ExtraRow[];
  now: number;
}

export function DelegationTimeline({ rows, facts, extra = [], now }: Props) {
  const [zoom, setZoom] = useState(1);
  const box = useRef<HTMLDivElement>(null);
  const by = (factor: number): void => setZoom((before) => Math.min(MAX_ZOOM, Math.max(1, before * factor)));
  useWheel(box, by);
  const drawn = rows.map((row, at) => ({ row, bars: barsOf(row.branch.node, at === 0 ? facts : [], now) }));
  const others = extra.map((row) => ({ row, bars: [{ kind: row.kind, from: row.from, to: row.until ?? now }] }));
  const from = Math.min(...drawn.map(({ row }) => Date.parse(row.branch.node.createdAt)), ...extra.map((row) => row.from));
  const to = Math.max(from + 1_000, ...[...drawn, ...others].flatMap(({ bars }) => bars.map((bar) => bar.to)));
  const onKey = (event: React.KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "+" || event.key === "=") by(STEP);
    else if (event.key === "-") by(1 / STEP);
    else if (event.key === "0") setZoom(1);
    else return;
    event.preventDefault();
  };
  return (
    <section className={css.timeline} aria-label="Timeline">
      <div className={css.head}>
        <h3>Timeline</h3>
        <p className={css.legend}>
          <span className={`${css.sample} ${css.waiting}`} aria-hidden="true" /> waiting
          <span className={`${css.sample} ${css.working}`} aria-hidden="true" /> working
        </p>
        <div role="group" aria-label="Timeline zoom" className={css.zoom}>
          <IconButton icon="minus" label="Zoom out" onClick={() => by(1 / STEP)} />
          <output className={css.factor}>{Math.round(zoom * 100)} %</output>
          <IconButton icon="plus" label="Zoom in" onClick={() => by(STEP)} />
          <IconButton icon="fit" label="Fit timeline" onClick={() => setZoom(1)} />
        </div>
      </div>
      <div ref={box} className={css.box} role="group" aria-label="Timeline bars: plus and minus zoom, 0 shows everything, arrow keys scroll" tabIndex={0} onKeyDown={onKey}>
        <div className={css.inner} style={{ width: `${zoom * 100}%` }} data-zoom={zoom}>
          <ul className={css.rows}>
            {drawn.map(({ row, bars }) => (
              <DelegationTrack key={row.branch.node.id} row={row} bars={bars} from={from} to={to} />
            ))}
            {others.map(({ row, bars }) => (
              <Track key={row.id} id={row.id} label={row.label} detail={row.detail} bars={bars} from={from} to={to} />
            ))}
          </ul>
          <div className={css.axis} aria-hidden="true">
            {ticksOf((to - from) / 1_000, zoom).map((tick, at) => (
              <span key={at}>{tick}</span>
            ))}
          </div>
        </div>
      </div>
    </section>
  );
}

interface Span {
  bars: readonly Bar[];
  from: number;
  to: number;
}

function DelegationTrack({ row, ...span }: { row: TreeRow } & Span) {
  const { node } = row.branch;
  const name = useNameOf(node.targetId, node.targetName);
  return <Track id={node.id} label={name} detail={node.task === "" ? "" : shownTask(node.task)} {...span} />;
}

function Track({ id, label, detail, bars, from, to }: { id: string; label: string; detail: string } & Span) {
  const share = (time: number): string => `${((time - from) / (to - from)) * 100}%`;
  return (
    <li className={css.row} data-track={id}>
      <p className={css.label}>
        <bdi>{label}</bdi>
        <span className="visually-hidden">: {durationText(bars)}</span>
        {detail !== "" && (
          <bdi className={css.task} aria-hidden="true">
            {detail}
          </bdi>
        )}
      </p>
      <div className={css.track} aria-hidden="true">
        {bars.map((bar) => (
          <span
            key={`${bar.kind} ${bar.from}`}
            className={`${css.bar} ${css[bar.kind]}`}
            data-bar={bar.kind}
            title={`${bar.kind === "waiting" ? "Waited" : "Worked"} ${seconds((bar.to - bar.from) / 1_000)}`}
            style={{ left: share(bar.from), width: `${((bar.to - bar.from) / (to - from)) * 100}%` }}
          />
        ))}
      </div>
    </li>
  );
}

/** Labels along the axis: with tenths where they are close together, and in hours rather than days. */
function ticksOf(span: number, zoom: number): string[] {
  const parts = PARTS * Math.ceil(zoom);
  const words = span / parts < 1 ? (time: number) => `${time.toFixed(span / parts < 0.1 ? 2 : 1)} s` : inHours;
  return Array.from({ length: parts + 1 }, (_, at) => words((span * at) / parts));
}

function durationText(bars: readonly Bar[]): string {
  const words = bars.map((bar) => `${bar.kind === "waiting" ? "waited" : "worked"} ${seconds((bar.to - bar.from) / 1_000)}`);
  return words.length === 0 ? "not started" : words.join(", then ");
}

/** The wheel zooms while the timeline has the focus, or with Ctrl; otherwise it scrolls the page. */
function useWheel(box: React.RefObject<HTMLElement | null>, by: (factor: number) => void): void {
  const latest = useRef(by);
  latest.current = by;
  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const onWheel = (event: WheelEvent): void => {
      if (event.deltaY === 0 || !(event.ctrlKey || document.activeElement === element)) return;
      event.preventDefault();
      latest.current(event.deltaY < 0 ? STEP : 1 / STEP);
    };
    element.addEventListener("wheel", onWheel, { passive: false });
    return () => element.removeEventListener("wheel", onWheel);
  }, [box]);
}
