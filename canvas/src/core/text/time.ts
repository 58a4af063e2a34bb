/** Format times. All functions take a time zone, so that tests can set it; the default is that of the settings, or the
 * browser's. */

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

let shownZone: string | undefined;

/** Show times in this zone from now on; undefined: the browser's. */
export function showTimesIn(zone: string | undefined): void {
  shownZone = zone;
}

export function isTimeZone(zone: string): boolean {
  try {
    return new Intl.DateTimeFormat("en-GB", { timeZone: zone }) !== null;
  } catch {
    return false;
  }
}

/** "just now", "5 min ago", "3 h ago"; from another day on, the day. */
export function relative(at: string, now: number, zone?: string): string {
  const then = Date.parse(at);
  if (Number.isNaN(then)) return "";
  const age = now - then;
  if (age < MINUTE) return "just now";
  if (age < HOUR) return `${Math.floor(age / MINUTE)} min ago`;
  const days = daysBetween(then, now, zone);
  if (days === 0 || age < 6 * HOUR) return `${Math.floor(age / HOUR)} h ago`;
  if (days === 1) return `Yesterday, ${clock(then, zone)}`;
  return date(then, now, zone);
}

/** "for 2 min", "for 3 h", "for 4 days". */
export function duration(from: string, now: number): string {
  const age = Math.max(0, now - Date.parse(from));
  if (Number.isNaN(age) || age < MINUTE) return "less than a minute";
  if (age < HOUR) return `${Math.floor(age / MINUTE)} min`;
  if (age < DAY) return `${Math.floor(age / HOUR)} h`;
  const days = Math.floor(age / DAY);
  return days === 1 ? "1 day" : `${days} days`;
}

/** "no activity for 5 min". */
export function inactivity(from: string, now: number): string {
  const age = now - Date.parse(from);
  return Number.isNaN(age) || age < MINUTE ? "last activity less than a minute ago" : `no activity for ${duration(from, now)}`;
}

/** A later time: "14:05", and from another day on with the day. */
export function until(at: string, now: number, zone?: string): string {
  const time = Date.parse(at);
  if (Number.isNaN(time)) return "";
  return daysBetween(now, time, zone) === 0 ? clock(time, zone) : `${date(time, now, zone)}, ${clock(time, zone)}`;
}

/** The same for a small place: the time within a day, later the day. */
export function untilBrief(at: string, now: number, zone?: string): string {
  const time = Date.parse(at);
  if (Number.isNaN(time)) return "";
  return time - now < DAY ? clock(time, zone) : date(time, now, zone);
}

/** "0:42", "12:05", "1:02:03", "3 days". */
export function stopwatch(from: string, to: number): string {
  const age = to - Date.parse(from);
  return Number.isNaN(age) ? "" : seconds(age / 1_000);
}

/** Like `stopwatch`, for a number of seconds. */
export function seconds(count: number): string {
  const hours = Math.floor(count / 3_600);
  return hours >= 48 ? `${Math.floor(hours / 24)} days` : inHours(count);
}

/** Like `stopwatch`, in hours without days: the difference of two durations stays visible. */
export function inHours(count: number): string {
  const whole = Math.max(0, Math.floor(count));
  const [hours, minutes, rest] = [Math.floor(whole / 3_600), Math.floor(whole / 60) % 60, whole % 60];
  const two = (part: number): string => String(part).padStart(2, "0");
  return hours > 0 ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
}

/** Time and full date with the zone. */
export function absolute(at: string, zone?: string): string {
  const time = Date.parse(at);
  return Number.isNaN(time) ? "" : format({ dateStyle: "full", timeStyle: "long" }, zone).format(time);
}

/** Like `absolute`, short enough to be shown beside a message. */
export function exact(at: string, zone?: string): string {
  const time = Date.parse(at);
  return Number.isNaN(time) ? "" : format({ dateStyle: "medium", timeStyle: "medium" }, zone).format(time);
}

export function clock(time: number, zone?: string): string {
  return format({ hour: "2-digit", minute: "2-digit", hourCycle: "h23" }, zone).format(time);
}

/** With seconds, for logs. */
export function clockWithSeconds(at: string, zone?: string): string {
  const time = Date.parse(at);
  return Number.isNaN(time) ? "" : format({ hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" }, zone).format(time);
}

/** The value of a field of date and time: "2026-03-29T14:05". */
export function fieldOf(time: number, zone?: string): string {
  return `${dayKey(time, zone)}T${clock(time, zone)}`;
}

/** The time of such a value; NaN if it is none. A time that a change of clocks leaves out is the one after it. */
export function timeOfField(value: string, zone?: string): number {
  const utc = Date.parse(`${value}Z`);
  if (Number.isNaN(utc)) return Number.NaN;
  const offset = (time: number): number => Date.parse(`${fieldOf(time, zone)}Z`) - Math.floor(time / MINUTE) * MINUTE;
  const first = utc - offset(utc);
  return utc - offset(first);
}

/** For lists: the time of today, otherwise the day. */
export function brief(at: string, now: number, zone?: string): string {
  const then = Date.parse(at);
  if (Number.isNaN(then)) return "";
  const days = daysBetween(then, now, zone);
  if (days <= 0) return clock(then, zone);
  return days === 1 ? "Yesterday" : date(then, now, zone);
}

/** The heading of a day: "Today", "Yesterday", "Monday, 3 March". */
export function dayHeading(at: string, now: number, zone?: string): string {
  const then = Date.parse(at);
  if (Number.isNaN(then)) return "";
  const days = daysBetween(then, now, zone);
  if (days === 0) return "Today";
  if (days === 1) return "Yesterday";
  const sameYear = dayKey(then, zone).slice(0, 4) === dayKey(now, zone).slice(0, 4);
  const year = sameYear ? {} : ({ year: "numeric" } as const);
  return format({ weekday: "long", day: "numeric", month: "long", ...year }, zone).format(then);
}

/** The calendar day in the zone, as 2026-03-29. */
export function dayKey(time: number, zone?: string): string {
  if (Number.isNaN(time)) return "";
  const parts = format({ year: "numeric", month: "2-digit", day: "2-digit" }, zone).formatToParts(time);
  const part = (type: Intl.DateTimeFormatPartTypes): string => parts.find((each) => each.type === type)?.value ?? "";
  return `${part("year")}-${part("month")}-${part("day")}`;
}

function date(then: number, now: number, zone?: string): string {
  const sameYear = dayKey(then, zone).slice(0, 4) === dayKey(now, zone).slice(0, 4);
  return format({ day: "numeric", month: "short", ...(sameYear ? {} : ({ year: "numeric" } as const)) }, zone).format(then);
}

/** Calendar days are not always 24 hours long. */
function daysBetween(then: number, now: number, zone?: string): number {
  return Math.round((Date.parse(dayKey(now, zone)) - Date.parse(dayKey(then, zone))) / DAY);
}

const formats = new Map<string, Intl.DateTimeFormat>();

/** Cached: creating a format is slower than using it. */
function format(options: Intl.DateTimeFormatOptions, zone = shownZone): Intl.DateTimeFormat {
  const key = JSON.stringify([options, zone]);
  const known = formats.get(key);
  if (known) return known;
  const made = new Intl.DateTimeFormat("en-GB", { ...options, ...(zone === undefined ? {} : { timeZone: zone }) });
  formats.set(key, made);
  return made;
}
