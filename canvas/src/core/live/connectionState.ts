/** State machine of the live connection, without socket and clock: `step` takes an event and returns the next state and the
 * effects to perform. */

import { PROTOCOL, type EventFrame, type HelloFrame } from "../wire";
import { members, number, text } from "../state/json";

export const SESSION_ENDED = 4001;

const FIRST_WAIT_MS = 250;
const LONGEST_WAIT_MS = 5_000;
/** More resumes than this within the window mean that resuming does not help. */
const MAX_RESUMES = 3;
const RESUME_WINDOW_MS = 10_000;
/** A connection without a frame for this many heartbeats is dead, whatever the socket reports. */
const SILENT_HEARTBEATS = 2.5;

interface Baseline {
  after: number;
  epoch: string;
}

type Phase =
  | "closed" // no socket; one may be waited for
  | "opening" // socket asked for, no hello yet
  | "greeted" // hello came; without a baseline a snapshot is awaited
  | "resuming" // subscribe sent, its answer awaited
  | "live"
  | "ended"; // the session is over, or the page is outdated

export interface Link {
  phase: Phase;
  baseline: Baseline | null;
  heartbeatMs: number;
  openedAt: number;
  lastFrameAt: number;
  tries: number;
  resumes: readonly number[];
  /** Time of the last resume request. */
  askedAt: number;
  /** A snapshot was requested and has not arrived: events are dropped, since the snapshot contains them. */
  snapshotAsked: boolean;
  snapshotTries: number;
  unknownFrames: number;
}

export type LinkEvent =
  | { kind: "start" }
  | { kind: "frame"; frame: unknown }
  | { kind: "closed"; code: number }
  | { kind: "clock" }
  | { kind: "retry" }
  | { kind: "offline" }
  | { kind: "snapshot"; baseline: Baseline }
  | { kind: "snapshot_failed" };

export type LinkEffect =
  | { do: "open" }
  | { do: "close" }
  | { do: "send"; frame: Record<string, unknown> }
  | { do: "apply"; frame: EventFrame }
  | { do: "expect"; count: number }
  | { do: "load_snapshot"; delayMs: number }
  | { do: "wait"; ms: number }
  | { do: "check_session" }
  | { do: "log_out" }
  | { do: "ask_reload" };

interface Moment {
  now: number;
  /** Random number from 0 to 1 for the jitter. */
  chance: number;
}

type Step = [Link, LinkEffect[]];

export const INITIAL: Link = {
  phase: "closed",
  baseline: null,
  heartbeatMs: 15_000,
  openedAt: 0,
  lastFrameAt: 0,
  tries: 0,
  resumes: [],
  askedAt: 0,
  snapshotAsked: false,
  snapshotTries: 0,
  unknownFrames: 0,
};

export function step(link: Link, what: LinkEvent, moment: Moment): Step {
  if (link.phase === "ended") return [link, []];
  switch (what.kind) {
    case "start":
      return start(link, moment);
    case "retry":
      return link.phase === "closed" ? step(link, { kind: "start" }, moment) : [link, []];
    case "closed":
      return closed(link, what.code, moment);
    case "offline":
      return link.phase === "closed" ? [link, []] : lost(link, moment, [{ do: "close" }]);
    case "clock":
      return clock(link, moment);
    case "snapshot":
      return snapshot(link, what.baseline, moment);
    case "snapshot_failed":
      return snapshotFailed(link, moment);
    case "frame":
      return frame({ ...link, lastFrameAt: moment.now }, what.frame, moment);
  }
}

function start(link: Link, moment: Moment): Step {
  const next: Link = { ...link, phase: "opening", openedAt: moment.now };
  if (link.baseline !== null) return [next, [{ do: "open" }]];
  const [asked, deeds] = askSnapshot(next);
  return [asked, [{ do: "open" }, ...deeds]];
}

function closed(link: Link, code: number, moment: Moment): Step {
  if (code === SESSION_ENDED) return [{ ...link, phase: "ended" }, [{ do: "log_out" }]];
  if (link.phase === "closed") return [link, []];
  // A failed handshake gives no reason; reading the session shows whether the login expired.
  return lost(link, moment, link.phase === "opening" ? [{ do: "check_session" }] : []);
}

function lost(link: Link, moment: Moment, first: LinkEffect[]): Step {
  const tries = link.tries + 1;
  return [{ ...link, phase: "closed", tries }, [...first, { do: "wait", ms: backOff(tries, moment) }]];
}

export function backOff(tries: number, moment: Moment): number {
  const longest = Math.min(FIRST_WAIT_MS * 2 ** (tries - 1), LONGEST_WAIT_MS);
  return Math.round(longest * (0.5 + moment.chance / 2));
}

function clock(link: Link, moment: Moment): Step {
  const since = Math.max(link.lastFrameAt, link.openedAt);
  const silent = moment.now - since > SILENT_HEARTBEATS * link.heartbeatMs;
  return link.phase !== "closed" && silent ? lost(link, moment, [{ do: "close" }]) : [link, []];
}

function snapshot(link: Link, baseline: Baseline, moment: Moment): Step {
  const next = { ...link, baseline, snapshotAsked: false, snapshotTries: 0 };
  const connected = link.phase === "greeted" || link.phase === "resuming" || link.phase === "live";
  return connected ? subscribe(next, baseline, moment) : [next, []];
}

function snapshotFailed(link: Link, moment: Moment): Step {
  const snapshotTries = link.snapshotTries + 1;
  return [{ ...link, snapshotTries }, [{ do: "load_snapshot", delayMs: backOff(snapshotTries, moment) }]];
}

function subscribe(link: Link, { after, epoch }: Baseline, moment: Moment): Step {
  const next: Link = { ...link, phase: "resuming", askedAt: moment.now };
  return [next, [{ do: "send", frame: { type: "subscribe", after, epoch } }]];
}

function frame(link: Link, value: unknown, moment: Moment): Step {
  if (text(value, "event") !== null) return event(link, value as EventFrame, moment);
  switch (text(value, "type")) {
    case "hello":
      return hello(link, value as HelloFrame, moment);
    case "resumed":
      return answered(link, number(value, "count") ?? 0);
    case "current":
      return answered(link, 0);
    case "snapshot_required":
      return askSnapshot(link);
    case "ping":
      return ping(link, number(value, "head_sent"), moment);
    default:
      return [{ ...link, unknownFrames: link.unknownFrames + 1 }, []];
  }
}

function hello(link: Link, value: HelloFrame, moment: Moment): Step {
  if ((number(value, "protocol") ?? PROTOCOL) > PROTOCOL) {
    return [{ ...link, phase: "ended" }, [{ do: "close" }, { do: "ask_reload" }]];
  }
  const seconds = number(value, "heartbeat_s");
  const next: Link = { ...link, phase: "greeted", heartbeatMs: seconds ? seconds * 1_000 : link.heartbeatMs, resumes: [] };
  if (link.snapshotAsked) return [next, []];
  return link.baseline ? subscribe(next, link.baseline, moment) : askSnapshot(next);
}

function answered(link: Link, missed: number): Step {
  const next: Link = { ...link, phase: link.snapshotAsked ? link.phase : "live", tries: 0 };
  return [next, missed > 0 && !link.snapshotAsked ? [{ do: "expect", count: missed }] : []];
}

function askSnapshot(link: Link): Step {
  if (link.snapshotAsked) return [link, []];
  return [{ ...link, snapshotAsked: true }, [{ do: "load_snapshot", delayMs: 0 }]];
}

function ping(link: Link, headSent: number | null, moment: Moment): Step {
  const gap = link.phase === "live" && headSent !== null && headSent !== link.baseline?.after;
  const unanswered = link.phase === "resuming" && moment.now - link.askedAt > RESUME_WINDOW_MS;
  return gap || unanswered ? resume(link, moment) : [link, []];
}

function event(link: Link, value: EventFrame, moment: Moment): Step {
  const { seq, prev } = value;
  if (members(value.entity) === null || text(value, "timestamp") === null) {
    return [{ ...link, unknownFrames: link.unknownFrames + 1 }, []];
  }
  if (seq === undefined) return [link, link.baseline ? [{ do: "apply", frame: value }] : []];
  const { baseline } = link;
  if (baseline === null || link.phase !== "live" || link.snapshotAsked || seq <= baseline.after) return [link, []];
  if (prev !== baseline.after) return resume(link, moment);
  return [{ ...link, baseline: { ...baseline, after: seq } }, [{ do: "apply", frame: value }]];
}

function resume(link: Link, moment: Moment): Step {
  const recent = link.resumes.filter((time) => moment.now - time < RESUME_WINDOW_MS);
  if (recent.length >= MAX_RESUMES || link.baseline === null) return askSnapshot({ ...link, resumes: [] });
  return subscribe({ ...link, resumes: [...recent, moment.now] }, link.baseline, moment);
}

