/** Numbers of events by time. The caption says the same in words. */

import { absolute, clock, dayHeading, dayKey } from "../../core/text/time";
import { plural } from "../../core/text/strings";
import type { ActivityHistogram } from "../../core/wire";
import { useNow } from "../../ui/useNow";
import css from "./Activity.module.css";

const HEIGHT = 40;

export function Histogram({ histogram }: { histogram: ActivityHistogram }) {
  const now = useNow();
  const { buckets, total } = histogram;
  const most = Math.max(1, ...buckets.map(({ count }) => count));
  return (
    <figure className={css.histogram}>
      <svg viewBox={`0 0 ${Math.max(1, buckets.length)} ${HEIGHT}`} preserveAspectRatio="none" className={css.bars} aria-hidden="true">
        {buckets.map(({ at, count }, index) => {
          const height = count === 0 ? 0 : Math.max(2, (count / most) * HEIGHT);
          return (
            <g key={at}>
              <title>{`${absolute(at)}: ${plural(count, "event")}`}</title>
              <rect x={index} y={0} width={1} height={HEIGHT} className={css.behind} />
              <rect x={index + 0.1} y={HEIGHT - height} width={0.8} height={height} className={css.bar} />
            </g>
          );
        })}
      </svg>
      <figcaption className={css.caption}>
        <span>{captionText(histogram, now)}</span>
        {total > 0 && <span>{mostText(most)}</span>}
      </figcaption>
    </figure>
  );
}

export function mostText(most: number): string {
  return `Most in one bar: ${most.toLocaleString("en-GB")}`;
}

/** "1,204 events from Today, 14:02 to now". */
export function captionText({ buckets, total, counted_since, until }: ActivityHistogram, now: number, zone?: string): string {
  const first = buckets[0]?.at;
  if (first === undefined || total === 0) return "No events in this time";
  const isNow = until === null || Date.parse(until) >= now;
  const range = `${timeText(counted_since ?? first, now, zone)} to ${isNow ? "now" : timeText(until, now, zone)}`;
  const counted = `${total.toLocaleString("en-GB")} ${total === 1 ? "event" : "events"} from ${range}`;
  return counted_since === null ? counted : `${counted}; older ones are not counted`;
}

function timeText(at: string, now: number, zone?: string): string {
  const time = Date.parse(at);
  const day = dayKey(time, zone) === dayKey(now, zone) ? "" : `${dayHeading(at, now, zone)}, `;
  return `${day}${clock(time, zone)}`;
}
