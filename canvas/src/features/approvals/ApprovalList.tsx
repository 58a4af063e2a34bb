/** The approvals of the inbox: those that wait for this person, the open ones, and the decided ones. */

import { memo, useCallback, useEffect, useMemo, useRef, useState, type RefObject } from "react";
import { useApp, useData, useSession } from "../../core/app";
import type { PendingDecision, PastApprovals } from "../../core/session/undoableDecisions";
import { Badge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { Link } from "../../ui/Link";
import { Notice } from "../../ui/Notice";
import { Time } from "../../ui/Time";
import { approvalPlace, INBOX } from "../../core/router";
import { approvalLists, MAX_KEPT, type Approval, type ListName } from "../../core/state/approvals";
import { useStored } from "../../core/store/store";
import { clock } from "../../core/text/time";
import { plural } from "../../core/text/strings";
import { useListKeys } from "../../ui/useListKeys";
import { ApprovalFacts } from "./ApprovalFacts";
import { ApprovalMark } from "./ApprovalMark";
import { BatchDecision } from "./BatchDecision";
import { Countdown } from "./Countdown";
import css from "./Inbox.module.css";
import { QuickDecision } from "./QuickDecision";
import { useSeenRows } from "./useSeenRows";
import { actionText, closedText, fitsRow, pendingText, holderText, stateOf } from "./texts";

/** Page size; a longer list is not readable at once. */
const PAGE_SIZE = 100;

interface ListTexts {
  name: ListName;
  label: string;
  none: string;
  empty: string;
  /** It includes closed ones, which are read from the server. */
  past?: boolean;
}

const LISTS: readonly ListTexts[] = [
  { name: "waiting", label: "Waiting for you", none: "No requests waiting for you", empty: "Requests that need approval from a person appear here." },
  { name: "open", label: "Open", none: "No open requests", empty: "All open approval requests appear here, whether an agent or a person decides." },
  { name: "decided", label: "Decided", none: "No decisions yet", empty: "Decided requests appear here, whether an agent or a person decided.", past: true },
  { name: "all", label: "All", none: "No approval requests yet", empty: "All approval requests appear here, open and decided.", past: true },
];

/** Texts for viewers, who decide nothing. */
const VIEWER_TEXTS: Partial<ListTexts> = { label: "Waiting for a person", none: "No requests waiting for a person" };

function listTextsFor(canSend: boolean): readonly ListTexts[] {
  return canSend ? LISTS : LISTS.map((each) => (each.name === "waiting" ? { ...each, ...VIEWER_TEXTS } : each));
}

interface Props {
  name: ListName;
  /** The id of the open one; its decision is in its detail. */
  current: string | null;
  heading: RefObject<HTMLHeadingElement | null>;
}

export function ApprovalList({ name, current, heading }: Props) {
  const { decisions, canSend } = useSession();
  const lists = useData((state) => approvalLists(state.approvals));
  const all = lists[name];
  const shelves = listTextsFor(canSend);
  const texts = shelves.find((each) => each.name === name) ?? LISTS[0]!;
  const list = useRef<HTMLDivElement>(null);
  const [ticked, setTicked] = useState<ReadonlySet<string>>(new Set());
  const [from, setFrom] = useState(0);
  const start = Math.min(from, Math.max(0, Math.ceil(all.length / PAGE_SIZE) - 1) * PAGE_SIZE);
  const shown = useMemo(() => all.slice(start, start + PAGE_SIZE), [all, start]);
  const seen = useSeenRows(list, shown);
  useListKeys(list);
  useEffect(() => void decisions.readWaiting(Date.now), [decisions]);
  const past = usePast(texts.past ?? false);
  useEffect(() => {
    if (list.current !== null) list.current.scrollTop = 0;
  }, [name, start]);
  useEffect(() => setFrom(0), [name]);
  const held = useStored(decisions.pending);
  const mayTick = (each: Approval): boolean => canSend && !held.has(each.id) && closedText(each, Number.NEGATIVE_INFINITY) === null && fitsRow(each);
  const chosen = useMemo(() => all.filter(({ id }) => ticked.has(id) && !held.has(id)), [all, ticked, held]);
  const tick = useCallback((ids: readonly string[], on: boolean): void => setTicked((before) => new Set(on ? [...before, ...ids] : [...before].filter((id) => !ids.includes(id)))), []);
  const tickable = shown.filter((each) => seen.has(each.id) && mayTick(each)).map(({ id }) => id);
  const clear = (): void => setTicked(new Set());
  return (
    <>
      <nav className={css.lists} aria-label="Filter requests">
        {shelves.map((each) => (
          <Link key={each.name} className={css.which} to={{ ...INBOX, kind: "approval", list: each.name }} aria-current={each.name === name ? "true" : undefined}>
            {each.label} {!each.past && <Badge unread={lists[each.name].length} word="requests" />}
          </Link>
        ))}
      </nav>
      <ReadProblem empty={all.length === 0} />
      <Unsettled list={name} />
      <div className={css.scroller} ref={list}>
        {all.length === 0 ? (
          <Empty texts={texts} past={past} />
        ) : (
          <ul className={css.rows} aria-label="Requests">
            {shown.map((each) => (
              <Row key={each.id} approval={each} list={name} current={each.id === current} decides={current === null} held={held.get(each.id)} ticked={mayTick(each) ? ticked.has(each.id) : null} onTick={tick} />
            ))}
          </ul>
        )}
        {all.length > 0 && <Pager texts={texts} past={past} start={start} count={all.length} onFrom={setFrom} />}
      </div>
      {tickable.length > 1 && chosen.length === 0 && (
        <p className={css.batch}>
          <Button kind="quiet" onClick={() => tick(tickable, true)}>
            Select all {tickable.length} you have seen here
          </Button>
        </p>
      )}
      {chosen.length > 0 && (
        <BatchDecision
          chosen={chosen}
          onClear={clear}
          onAnswered={() => {
            clear();
            heading.current?.focus(); // the focused element is gone
          }}
        />
      )}
    </>
  );
}

/** Closed approvals as far back as they were read. The newest page is read when the list is opened, and after each
 * reconnect. */
function usePast(wanted: boolean): PastApprovals {
  const { decisions, connection } = useSession();
  const { mode } = useStored(connection.view);
  useEffect(() => {
    if (wanted && mode !== "lost") void decisions.readPast(false);
  }, [decisions, wanted, mode]);
  return useStored(decisions.past);
}

interface PagerProps {
  texts: ListTexts;
  past: PastApprovals;
  start: number;
  count: number;
  onFrom: (from: number) => void;
}

/** Page through a long list, and read older entries from the server. */
function Pager({ texts, past, start, count, onFrom }: PagerProps) {
  const { decisions } = useSession();
  const end = Math.min(count, start + PAGE_SIZE);
  const isLast = end === count;
  const mayRead = texts.past === true && isLast && !past.reachedEnd;
  const isFull = mayRead && count >= MAX_KEPT;
  const read = async (): Promise<void> => {
    await decisions.readPast(true);
    if (end - start === PAGE_SIZE) onFrom(end);
  };
  if (start === 0 && isLast && !mayRead) return null;
  return (
    <div className={css.pager}>
      {count > PAGE_SIZE && (
        <span>
          {start + 1} to {end} of {count.toLocaleString("en-GB")}
        </span>
      )}
      {start > 0 && <Button onClick={() => onFrom(start - PAGE_SIZE)}>Previous</Button>}
      {!isLast && <Button onClick={() => onFrom(end)}>Next</Button>}
      {mayRead && !isFull && (
        <Button disabled={past.reading} onClick={() => void read()}>
          {past.reading ? "Loading…" : "Load older requests"}
        </Button>
      )}
      {isFull && <span>This page shows at most {MAX_KEPT.toLocaleString("en-GB")} requests. Older ones are in the chats.</span>}
      {texts.past && past.problem !== null && (
        <p role="alert" className={css.problem}>
          Could not load older requests: {past.problem}
        </p>
      )}
    </div>
  );
}

/** At most this many are listed; all of them are shown in their rows. */
const LISTED = 5;

/** Decisions that the server did not receive or accept, whichever list their approvals are in. */
export function Unsettled({ list }: { list: ListName }) {
  const { decisions } = useSession();
  const held = useStored(decisions.pending);
  const wrong = [...held.values()].filter(({ phase }) => phase === "unsent" || phase === "refused");
  const unsent = wrong.filter(({ phase }) => phase === "unsent").map(({ approval }) => approval.id);
  if (wrong.length === 0) return null;
  return (
    <section className={css.unread} aria-label="Decisions that were not accepted">
      <ul className={css.wrong}>
        {wrong.slice(0, LISTED).map((each) => (
          <li key={each.approval.id}>
            <Link className={css.way} to={approvalPlace(each.approval, list)}>
              <bdi>{actionText(each.approval)}</bdi>
            </Link>{" "}
            <strong>{pendingText(each)}.</strong> {each.problem}
          </li>
        ))}
        {wrong.length > LISTED && <li>and {plural(wrong.length - LISTED, "more", "more")}</li>}
      </ul>
      <div className={css.deeds}>
        {unsent.length > 0 && (
          <Button icon="again" onClick={() => void decisions.sendAgain(unsent)}>
            Resend {plural(unsent.length, "decision")}
          </Button>
        )}
        <Button onClick={() => decisions.cancel(wrong.map(({ approval }) => approval.id))}>{unsent.length > 0 ? "Discard all" : "Dismiss"}</Button>
      </div>
    </section>
  );
}

/** Shown when the list could not be read: the list is then the last known one. */
export function ReadProblem({ empty }: { empty: boolean }) {
  const { decisions } = useSession();
  const { readAt, problem } = useStored(decisions.status);
  if (problem === null) return null;
  return (
    <div role="alert" className={css.unread}>
      <p>
        <strong>Could not load the list.</strong> {problem}{" "}
        {empty ? "Some requests may not be shown." : readAt === null ? "Only live updates are shown." : `Showing the list from ${clock(readAt)} with live updates since.`}
      </p>
      <Button icon="again" onClick={() => void decisions.readWaiting(Date.now)}>
        Try again
      </Button>
    </div>
  );
}

/** Not shown for a list that could not be read. */
function Empty({ texts, past }: { texts: ListTexts; past: PastApprovals }) {
  const { decisions } = useSession();
  const { readAt, problem } = useStored(decisions.status);
  if (problem !== null) return null;
  if (texts.past && past.problem !== null) {
    return (
      <Notice icon="warning" title="Could not load requests" actions={<Button onClick={() => void decisions.readPast(false)}>Try again</Button>}>
        {past.problem}
      </Notice>
    );
  }
  if (readAt === null || (texts.past && past.oldest === null && !past.reachedEnd)) return <Notice icon="clock" title="Loading requests…" />;
  return (
    <Notice icon="check" title={texts.none}>
      {texts.empty}
    </Notice>
  );
}

interface RowProps {
  approval: Approval;
  list: ListName;
  current: boolean;
  /** It can be decided here: no request is open. */
  decides: boolean;
  /** A decision of this page on it. */
  held: PendingDecision | undefined;
  /** Null: it cannot be decided from the list. */
  ticked: boolean | null;
  onTick: (ids: readonly string[], on: boolean) => void;
}

const Row = memo(function Row({ approval, list, current, decides, held, ticked, onTick }: RowProps) {
  const { router } = useApp();
  const { id, requesterName, createdAt, expiresAt } = approval;
  const closed = closedText(approval, Number.NEGATIVE_INFINITY);
  return (
    <li className={css.row} data-approval={id}>
      {ticked === null && list !== "decided" && <span className={css.tick} />}
      {ticked !== null && (
        <label className={css.tick}>
          <input type="checkbox" checked={ticked} onChange={(event) => onTick([id], event.target.checked)} />
          <span className="visually-hidden">
            Select “{actionText(approval)}” from {requesterName}
          </span>
        </label>
      )}
      <div className={css.about}>
        <Link className={css.entry} to={approvalPlace(approval, list)} aria-current={current ? "page" : undefined} onKeyDown={(event) => {
          if (event.key === "Escape") router.go({ ...INBOX, kind: "approval", list });
        }}>
          <span className={css.line}>
            <bdi className={css.name}>{requesterName}</bdi>
            <Time at={createdAt} short className={css.time} />
          </span>
          <bdi className={css.action}>{actionText(approval)}</bdi>
          <ApprovalFacts approval={approval} />
          <span className={css.standing}>
            <ApprovalMark state={stateOf(approval)} />
            {held !== undefined && !decides && <strong className={css.fact}>{pendingText(held)}</strong>}
            {closed !== null && <bdi className={css.fact}>{closed}</bdi>}
            {closed === null && (
              <>
                <bdi className={css.fact}>{stateOf(approval) === "waiting" ? "" : holderText(approval)}</bdi>
                <Countdown to={expiresAt} label="expires in" over="expired" className={css.time} />
              </>
            )}
          </span>
        </Link>
        {decides && <QuickDecision approval={approval} />}
      </div>
    </li>
  );
});
