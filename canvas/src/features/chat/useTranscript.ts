/** Scroll position of a chat. At the end it follows new lines; anywhere else the visible line keeps its position to the
 * pixel, whether lines are added below, above, or grow. */

import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState, type KeyboardEvent, type RefObject } from "react";
import { errorText } from "../../core/api/api";
import type { Chat, Line } from "../../core/state/model";
import { centredOn, rangeOf, startingAt, showNewer, FOLLOWING, pinned, showOlder, type LineWindow } from "./virtualWindow";

/** Closer to the end than this counts as at the end. */
const END_PX = 24;
const EDGE_PX = 240;
/** At most this many pages are read to find a linked message. */
const MAX_PAGES = 20;

/** What is shown of a chat. */
type ShownChat<L extends Line> = Pick<Chat, "loaded" | "reachedEnd"> & { lines: readonly L[] };

interface Asked<L extends Line> {
  chat: ShownChat<L>;
  unsent: number;
  messageId: string | null;
  /** Begin at the first message of the agent after this seq; null: at the end. */
  unreadAfter?: number | null;
  readOlder: () => Promise<void>;
}

export interface Transcript<L extends Line> {
  scroller: RefObject<HTMLDivElement | null>;
  list: RefObject<HTMLOListElement | null>;
  lines: readonly L[];
  atEnd: boolean;
  following: boolean;
  newer: number;
  hasOlder: boolean;
  loadingOlder: boolean;
  olderProblem: string | null;
  older: () => void;
  toEnd: () => void;
  onScroll: () => void;
  onKeyDown: (event: KeyboardEvent) => void;
}

export function useTranscript<L extends Line>({ chat, unsent, messageId, unreadAfter = null, readOlder: readOlderPage }: Asked<L>): Transcript<L> {
  const scroller = useRef<HTMLDivElement>(null);
  const list = useRef<HTMLOListElement>(null);
  const [span, setSpan] = useState<LineWindow>(FOLLOWING);
  const [following, setFollowing] = useState(messageId === null && unreadAfter === null);
  const [leftAt, setLeftAt] = useState(Number.MAX_SAFE_INTEGER);
  const { older: readOlder, loading, problem } = useOlder(readOlderPage);
  const all = chat.lines;
  const { from, to } = rangeOf(span, all);
  const lines = useMemo(() => all.slice(from, to), [all, from, to]);
  const stay = useCallback((): void => {
    setFollowing(false);
    setSpan((now) => pinned(now, all));
    setLeftAt((now) => Math.min(now, all.at(-1)?.seq ?? 0));
  }, [all]);
  const arrived = useArrived(all, following, chat.loaded);
  const keep = usePlace({ scroller, list, following, arrived, onHeld: stay });

  // What arrives next to the end of the window is shown: an answer takes the place of the text that was being written.
  useLayoutEffect(() => {
    const box = scroller.current;
    if (following || box === null || to >= all.length || box.clientHeight === 0) return;
    if (box.scrollHeight - box.scrollTop - box.clientHeight < EDGE_PX) setSpan((now) => showNewer(now, all));
  }, [following, all, to]);
  useLayoutEffect(keep, [keep, lines, unsent, following]);
  useGrowth(list, keep, lines.length + unsent > 0);
  useTouch(scroller, keep);

  const toEnd = useCallback((): void => {
    setSpan(FOLLOWING);
    setFollowing(true);
    setLeftAt(Number.MAX_SAFE_INTEGER);
  }, []);

  const older = useCallback((): void => {
    if (from > 0) setSpan((now) => showOlder(now, all));
    else if (!chat.reachedEnd) readOlder();
  }, [from, all, chat.reachedEnd, readOlder]);

  const onScroll = useCallback((): void => {
    const box = scroller.current;
    if (box === null) return;
    const below = box.scrollHeight - box.scrollTop - box.clientHeight;
    keep.note();
    // Compare with the last render: of two scrolls before the next render the second one counts.
    if (below <= END_PX && to >= all.length) return toEnd();
    stay();
    if (box.scrollTop < EDGE_PX) older();
    else if (below < EDGE_PX && to < all.length) setSpan((now) => showNewer(now, all));
  }, [keep, to, all, stay, toEnd, older]);

  // A page that was read is inserted above the first shown line: then there is more to show there.
  const grown = useRef(all.length);
  useEffect(() => {
    const more = all.length > grown.current;
    grown.current = all.length;
    if (more && !following && (scroller.current?.scrollTop ?? EDGE_PX) < EDGE_PX && from > 0) setSpan((now) => showOlder(now, all));
  }, [all, following, from]);

  useLinked({ chat, messageId, list, readOlder: readOlderPage, onFound: (at) => setSpan(centredOn(at, all)), onMissing: toEnd });
  const unread = useUnread({ chat, after: messageId === null ? unreadAfter : null, readOlder: readOlderPage, onFound: (at) => setSpan(startingAt(at, all)), onMissing: toEnd });
  const { end: endSearch } = unread;
  const jumpToEnd = useCallback((): void => {
    endSearch();
    toEnd();
  }, [endSearch, toEnd]);
  useLayoutEffect(() => {
    const [box, mark] = [scroller.current, list.current?.querySelector<HTMLElement>("[data-new]")];
    if (!unread.isFound() || box === null || !mark) return;
    unread.end();
    // If all of it fits into the view, the end is followed.
    if (to >= all.length && box.scrollHeight - mark.offsetTop <= box.clientHeight) return toEnd();
    box.scrollTop = mark.offsetTop - ABOVE_PX;
    keep.note();
    stay();
  });

  return {
    scroller,
    list,
    lines,
    atEnd: to >= all.length,
    following,
    newer: following ? 0 : all.filter((line) => line.seq > leftAt).length,
    hasOlder: from > 0 || (chat.loaded && !chat.reachedEnd),
    loadingOlder: loading,
    olderProblem: problem,
    older,
    toEnd: jumpToEnd,
    onScroll,
    onKeyDown: moveFocus,
  };
}

interface Keep {
  (): void;
  note(): void;
  /** The person is about to scroll. */
  touch(): void;
}

/** The top visible line, its offset in the list, and the scroll position. */
interface Place {
  element: HTMLElement | null;
  offset: number;
  scrolled: number;
}

/** What arrived while the end is followed and may stop the view. */
interface Arrived {
  ids: readonly string[];
  /** None of it stops the view any more. */
  forget: () => void;
}

/** At most this many of the last messages are looked at. */
const LAST = 5;

function useArrived(lines: readonly Line[], following: boolean, loaded: boolean): RefObject<Arrived> {
  const seen = useRef<number | null>(null);
  const last = lines.at(-1)?.seq ?? 0;
  if (loaded && (seen.current === null || !following)) seen.current = last;
  const after = seen.current;
  const fresh = after === null ? [] : lines.slice(-LAST).filter((line) => line.author === "agent" && line.seq > after);
  const arrived = useRef<Arrived>({ ids: [], forget: () => undefined });
  arrived.current = {
    ids: fresh.map(({ id }) => id),
    forget: () => {
      seen.current = last;
      arrived.current = { ...arrived.current, ids: [] };
    },
  };
  return arrived;
}

interface PlaceOptions {
  scroller: RefObject<HTMLDivElement | null>;
  list: RefObject<HTMLElement | null>;
  following: boolean;
  arrived: RefObject<Arrived>;
  /** The end is no longer followed. */
  onHeld: () => void;
}

/** Scroll by the distance that the top line moved, or bring the end into view. Of an answer that is taller than the view, or
 * is being written and has become so, the beginning is brought into view instead, once. A browser reports scrolling with its next
 * frame. If the page renders again before that, a scroll by the person (wheel, or tab to an earlier element) must not be
 * reverted: the current scroll position is theirs. A browser also scrolls by itself when a list becomes shorter than its
 * scroll position; that must be undone. Where the keyboard focus keeps the list away from its end, the end is no longer
 * followed, and the page announces what is new. */
function usePlace({ scroller, list, following, arrived, onHeld }: PlaceOptions): Keep {
  const back = useRef(onHeld);
  back.current = onHeld;
  const place = useRef<Place | null>(null);
  const touched = useRef(false);
  const heldTurn = useRef<string | null>(null);
  return useMemo(() => {
    const note = (): void => {
      const box = scroller.current;
      if (box === null || list.current === null) return;
      const element = firstInView(list.current, box.scrollTop);
      place.current = { element, offset: element?.offsetTop ?? 0, scrolled: box.scrollTop };
    };
    const put = (): void => {
      const box = scroller.current;
      if (box === null) return;
      const { element, offset, scrolled } = place.current ?? { element: null, offset: 0, scrolled: 0 };
      if (following) {
        const wentUp = touched.current && box.scrollTop < scrolled && box.scrollTop + box.clientHeight < box.scrollHeight - END_PX;
        if (wentUp) return;
        touched.current = false;
        const tall = tallArrival({ box, list: list.current, arrived: arrived.current, heldTurn });
        if (tall !== null) {
          box.scrollTop = tall.offsetTop - ABOVE_PX;
          note();
          return back.current();
        }
        const most = mostWithFocus(box, list.current);
        box.scrollTop = Math.min(box.scrollHeight, most);
        if (most + box.clientHeight < box.scrollHeight - END_PX) back.current();
      } else if (element === null && place.current !== null) {
        box.scrollTop = scrolled;
        return; // what follows below is rendered next; until then a browser does not scroll so far
      } else if (element?.isConnected) {
        const moved = element.offsetTop - offset;
        if (moved !== 0) box.scrollTop += moved;
      }
      note();
    };
    const touch = (): void => {
      touched.current = true;
    };
    return Object.assign(put, { note, touch });
  }, [scroller, list, following, arrived]);
}

/** Left above the message at which the view stops. */
const ABOVE_PX = 8;

interface Arrivals {
  box: HTMLElement;
  list: HTMLElement | null;
  arrived: Arrived;
  /** The turn at whose beginning the view has stopped: its answer does not stop it again. */
  heldTurn: { current: string | null };
}

/** The message that arrived, or the turn that is being written, if it is taller than the view; each once. */
function tallArrival({ box, list, arrived, heldTurn }: Arrivals): HTMLElement | null {
  if (list === null || box.clientHeight === 0) return null;
  const isTall = (element: HTMLElement): boolean => element.offsetHeight > box.clientHeight - ABOVE_PX;
  const last = arrived.ids.length === 0 ? [] : [...list.querySelectorAll<HTMLElement>("[data-message]")].slice(-2 * LAST);
  const turn = list.querySelector<HTMLElement>("[data-turn]:last-child");
  if (turn !== null && isTall(turn) && turn.dataset["turn"] !== heldTurn.current) {
    heldTurn.current = turn.dataset["turn"] ?? null;
    return turn;
  }
  const tall = last.find((each) => arrived.ids.includes(each.dataset["message"] ?? "") && isTall(each));
  if (tall === undefined) return null;
  arrived.forget();
  const isOfTurn = heldTurn.current !== null;
  heldTurn.current = null;
  return isOfTurn ? null : tall;
}

/** How far a list may be scrolled so that the focused, visible element stays visible: a person who tabs through a list while
 * texts are still laid out has chosen a position; a click has not. */
function mostWithFocus(box: HTMLElement, list: HTMLElement | null): number {
  const focused = document.activeElement;
  if (focused === null || list?.contains(focused) !== true || !focused.matches(":focus-visible")) return box.scrollHeight;
  const [of, within] = [focused.getBoundingClientRect(), box.getBoundingClientRect()];
  return of.bottom > within.top ? box.scrollTop + Math.max(0, of.top - within.top) : box.scrollHeight;
}

function firstInView(list: HTMLElement, top: number): HTMLElement | null {
  for (const child of list.querySelectorAll<HTMLElement>("[data-message]")) {
    if (child.offsetTop + child.offsetHeight > top) return child;
  }
  return null;
}

/** Texts are laid out late (their formatting is loaded lazily), and windows change their size. */
function useGrowth(list: RefObject<HTMLElement | null>, keep: () => void, present: boolean): void {
  const latest = useRef(keep);
  latest.current = keep;
  useEffect(() => {
    if (list.current === null || typeof ResizeObserver === "undefined") return;
    const sizes = new ResizeObserver(() => latest.current());
    sizes.observe(list.current);
    if (list.current.parentElement) sizes.observe(list.current.parentElement);
    return () => sizes.disconnect();
  }, [list, present]);
}

/** Events by which people scroll: wheel, touch, scroll bar, keys, and focus moves. */
const SCROLLS = ["wheel", "touchmove", "pointerdown", "keydown", "focusin"] as const;

function useTouch(scroller: RefObject<HTMLElement | null>, keep: Keep): void {
  useEffect(() => {
    const box = scroller.current;
    for (const each of SCROLLS) box?.addEventListener(each, keep.touch, { passive: true });
    return () => SCROLLS.forEach((each) => box?.removeEventListener(each, keep.touch));
  }, [scroller, keep]);
}

function useOlder(read: () => Promise<void>): { older: () => void; loading: boolean; problem: string | null } {
  const [loading, setLoading] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  const older = useCallback((): void => {
    setLoading(true);
    read()
      .then(
        () => setProblem(null),
        (error: unknown) => setProblem(errorText(error)),
      )
      .finally(() => setLoading(false));
  }, [read]);
  return { older, loading, problem };
}

interface Linked extends Omit<Asked<Line>, "unsent"> {
  list: RefObject<HTMLElement | null>;
  onFound: (at: number) => void;
  onMissing: () => void;
}

/** Find the message that a link names, page by page, and scroll to it. */
function useLinked({ chat, messageId, list, readOlder, onFound, onMissing }: Linked): void {
  const done = useRef<string | null>(null);
  const pages = useRef(0);
  const latest = useRef({ onFound, onMissing });
  latest.current = { onFound, onMissing };
  useEffect(() => {
    if (messageId === null || !chat.loaded || done.current === messageId) return;
    const at = chat.lines.findIndex((line) => line.id === messageId);
    if (at !== -1) {
      done.current = messageId;
      latest.current.onFound(at);
      requestAnimationFrame(() => focusMessage(list.current, messageId));
    } else if (chat.reachedEnd || pages.current >= MAX_PAGES) {
      done.current = messageId;
      latest.current.onMissing();
    } else {
      pages.current += 1;
      readOlder().catch(() => latest.current.onMissing());
    }
  }, [readOlder, chat, messageId, list]);
}

interface Unread extends Omit<Asked<Line>, "unsent" | "messageId" | "unreadAfter"> {
  after: number | null;
  onFound: (at: number) => void;
  onMissing: () => void;
}

/** At most this many older pages are read to find the first unread message. */
const MAX_UNREAD_PAGES = 3;

/** Find the first unread message of a chat that is opened, page by page. `isFound` from then until `end`. */
function useUnread({ chat, after, readOlder, onFound, onMissing }: Unread): { isFound: () => boolean; end: () => void } {
  const state = useRef<"seeking" | "found" | "ended">(after === null ? "ended" : "seeking");
  const pages = useRef(0);
  const latest = useRef({ onFound, onMissing });
  latest.current = { onFound, onMissing };
  useEffect(() => {
    if (after === null || !chat.loaded || state.current !== "seeking") return;
    const isMissing = (): void => {
      state.current = "ended";
      latest.current.onMissing();
    };
    if (!chat.reachedEnd && (chat.lines[0]?.seq ?? 0) > after && pages.current < MAX_UNREAD_PAGES) {
      pages.current += 1;
      readOlder().catch(isMissing);
      return;
    }
    const at = chat.lines.findIndex((line) => line.author === "agent" && line.seq > after);
    if (at === -1) return isMissing();
    state.current = "found";
    latest.current.onFound(at);
  }, [readOlder, chat, after]);
  const end = useCallback((): void => void (state.current = "ended"), []);
  return { isFound: () => state.current === "found", end };
}

function focusMessage(list: HTMLElement | null, messageId: string): void {
  const found = [...(list?.querySelectorAll<HTMLElement>("[data-message]") ?? [])].find((each) => each.dataset["message"] === messageId);
  found?.scrollIntoView({ block: "center" });
  found?.focus({ preventScroll: true });
}

/** Arrow keys move from message to message. */
function moveFocus(event: KeyboardEvent): void {
  const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
  const here = event.target instanceof HTMLElement && event.target.hasAttribute("data-message") ? event.target : null;
  if (step === 0 || here === null) return;
  const all = [...event.currentTarget.querySelectorAll<HTMLElement>("[data-message]")];
  const next = all[all.indexOf(here) + step];
  if (!next) return;
  event.preventDefault();
  next.focus();
}
