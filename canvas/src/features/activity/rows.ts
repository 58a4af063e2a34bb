/** The rows of the list: a heading for each day, and events. Pure. */

import { dayHeading, dayKey } from "../../core/text/time";
import type { LoggedEvent } from "../../core/wire";

export type LogRow = { kind: "day"; key: string; heading: string } | { kind: "event"; key: string; event: LoggedEvent };

/** An approval has an event for each workspace that takes part: the newest of them is listed. */
export function logRows(events: readonly LoggedEvent[], now: number, zone?: string): LogRow[] {
  const rows: LogRow[] = [];
  const listed = new Set<string>();
  let day = "";
  for (const event of events) {
    if (event.entity.kind === "approval") {
      const change = `${event.event} ${event.entity.id} ${event.entity.rev}`;
      if (listed.has(change)) continue;
      listed.add(change);
    }
    const own = dayKey(Date.parse(event.timestamp), zone);
    if (own !== day) rows.push({ kind: "day", key: `day ${own}`, heading: dayHeading(event.timestamp, now, zone) });
    day = own;
    rows.push({ kind: "event", key: String(event.seq), event });
  }
  return rows;
}
