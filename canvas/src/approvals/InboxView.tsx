/** The inbox: what agents ask leave for on one side, the one that is open on the other. */

import { useEffect, useMemo, useRef, useState } from "react";
import { useApp, useData, useDesk } from "../app";
import { Badge } from "../parts/Badge";
import { Button } from "../parts/Button";
import { Icon } from "../parts/Icon";
import { Link } from "../parts/Link";
import { Notice } from "../parts/Notice";
import { Time } from "../parts/Time";
import { NARROW, useMedia } from "../parts/useMedia";
import type { Place } from "../router";
import { approvalLists, type Approval, type ListName } from "../state/approvals";
import { useStored } from "../state/store";
import { clock } from "../text/time";
import { plural } from "../text/words";
import { plainly } from "../text/unseen";
import { useListKeys } from "../views/useListKeys";
import { ApprovalMark } from "./ApprovalMark";
import { Batch } from "./Batch";
import { Countdown } from "./Countdown";
import { Detail } from "./Detail";
import css from "./Inbox.module.css";
import { useSeen } from "./useSeen";
import { closedWords, detailLines, fitsRow, holderWords, riskWords, stateOf } from "./words";

type InboxPlace = Extract<Place, { view: "inbox" }>;

/** More of them at once nobody reads; the others come up as these are decided. */
const SHOWN = 200;

export function InboxView({ place }: { place: InboxPlace }) {
  const narrow = useMedia(NARROW);
  const { open } = place;
  return (
    <div className={css.inbox}>
      {!(narrow && open !== null) && <List name={place.list} current={open?.id ?? null} />}
      {open !== null ? (
        <Detail key={open.id} id={open.id} workspaceId={open.workspaceId} list={place.list} back={narrow} />
      ) : (
        !narrow && (
          <Notice icon="inbox" title="No request is open">
            Choose one on the left to read all of it, and to decide.
          </Notice>
        )
      )}
    </div>
  );
}

const LISTS: readonly { name: ListName; label: string; empty: string }[] = [
  { name: "waiting", label: "Waiting for you", empty: "What agents need a person’s leave for appears here." },
  { name: "open", label: "Open", empty: "What agents ask leave for appears here, whoever is to decide." },
  { name: "decided", label: "Decided", empty: "What was decided within the last hour, or while this page was open, appears here. Older ones are in the chats." },
];

function List({ name, current }: { name: ListName; current: string | null }) {
  const { approving, maySend } = useDesk();
  const lists = useData((state) => approvalLists(state.approvals));
  const all = lists[name];
  const list = useRef<HTMLDivElement>(null);
  const [ticked, setTicked] = useState<ReadonlySet<string>>(new Set());
  const seen = useSeen(list, all);
  useListKeys(list);
  useEffect(() => void approving.readWaiting(Date.now), [approving]);
  const held = useStored(approving.held);
  const mayTick = (each: Approval): boolean => maySend && !held.has(each.id) && closedWords(each, Number.NEGATIVE_INFINITY) === null && fitsRow(each);
  const chosen = useMemo(() => all.filter(({ id }) => ticked.has(id) && !held.has(id)), [all, ticked, held]);
  const tick = (ids: readonly string[], on: boolean): void => setTicked((before) => new Set(on ? [...before, ...ids] : [...before].filter((id) => !ids.includes(id))));
  const tickable = all.filter((each) => mayTick(each) && seen.has(each.id)).map(({ id }) => id);
  return (
    <section className={css.side} aria-label="Requests">
      <h2 className={css.heading}>Inbox</h2>
      <nav className={css.lists} aria-label="Which requests">
        {LISTS.map((each) => (
          <Link key={each.name} className={css.which} to={{ view: "inbox", list: each.name, open: null }} aria-current={each.name === name ? "true" : undefined}>
            {each.label} {each.name !== "decided" && <Badge unread={lists[each.name].length} word="requests" />}
          </Link>
        ))}
      </nav>
      <Unread empty={all.length === 0} />
      <div className={css.scroller} ref={list}>
        {all.length === 0 ? (
          <Empty name={name} />
        ) : (
          <ul className={css.rows} aria-label="Requests">
            {all.slice(0, SHOWN).map((each) => (
              <Row
                key={each.id}
                approval={each}
                list={name}
                current={each.id === current}
                ticked={mayTick(each) ? ticked.has(each.id) : null}
                onTick={(on) => tick([each.id], on)}
              />
            ))}
            {all.length > SHOWN && <li className={css.more}>and {plural(all.length - SHOWN, "more", "more")}</li>}
          </ul>
        )}
      </div>
      {tickable.length > 1 && chosen.length === 0 && (
        <p className={css.batch}>
          <Button kind="quiet" onClick={() => tick(tickable, true)}>
            Choose all {tickable.length} that you have seen here
          </Button>
        </p>
      )}
      {chosen.length > 0 && <Batch chosen={chosen} onClear={() => setTicked(new Set())} />}
    </section>
  );
}

/** Says that the list could not be read: what is shown then is what was known before. */
function Unread({ empty }: { empty: boolean }) {
  const { approving } = useDesk();
  const { readAt, problem } = useStored(approving.list);
  if (problem === null) return null;
  return (
    <div role="alert" className={css.unread}>
      <p>
        <strong>The list could not be read.</strong> {problem}{" "}
        {empty ? "There may be requests that are not shown." : readAt === null ? "It is as this page has heard of it." : `It is as of ${clock(readAt)}, and what came since.`}
      </p>
      <Button icon="again" onClick={() => void approving.readWaiting(Date.now)}>
        Try again
      </Button>
    </div>
  );
}

/** Never said of a list that could not be read. */
function Empty({ name }: { name: ListName }) {
  const { approving } = useDesk();
  const { readAt, problem } = useStored(approving.list);
  const one = LISTS.find((each) => each.name === name);
  if (problem !== null) return null;
  if (readAt === null && name !== "decided") return <Notice icon="clock" title="Reading the requests…" />;
  return (
    <Notice icon="check" title={name === "decided" ? "Nothing was decided lately" : name === "open" ? "Nothing is open" : "Nothing waits for you"}>
      {one?.empty}
    </Notice>
  );
}

interface RowProps {
  approval: Approval;
  list: ListName;
  current: boolean;
  /** Null: it cannot be answered from the list. */
  ticked: boolean | null;
  onTick: (on: boolean) => void;
}

function Row({ approval, list, current, ticked, onTick }: RowProps) {
  const { router } = useApp();
  const { id, workspaceId, requesterName, action, reason, details, createdAt, expiresAt } = approval;
  const lines = detailLines(details);
  const fits = fitsRow(approval);
  const closed = closedWords(approval, Number.NEGATIVE_INFINITY);
  return (
    <li className={css.row} data-approval={id}>
      {ticked === null && list !== "decided" && <span className={css.tick} />}
      {ticked !== null && (
        <label className={css.tick}>
          <input type="checkbox" checked={ticked} onChange={(event) => onTick(event.target.checked)} />
          <span className="visually-hidden">
            Choose “{plainly(action)}” of {requesterName}
          </span>
        </label>
      )}
      <Link className={css.entry} to={{ view: "inbox", list, open: { id, workspaceId } }} aria-current={current ? "page" : undefined} onKeyDown={(event) => {
        if (event.key === "Escape") router.go({ view: "inbox", list, open: null });
      }}>
        <span className={css.line}>
          <bdi className={css.name}>{requesterName}</bdi>
          <Time at={createdAt} short className={css.time} />
        </span>
        <bdi className={css.action}>{plainly(action)}</bdi>
        {fits && reason !== "" && <bdi className={css.fact}>{plainly(reason)}</bdi>}
        {riskWords(approval) !== "" && (
          <span className={css.careful}>
            <Icon name="warning" size={12} />
            <bdi>{riskWords(approval)}</bdi>
          </span>
        )}
        {fits ? (
          lines.map((line, at) => (
            <bdi key={at} className={css.fact}>
              {line}
            </bdi>
          ))
        ) : (
          <span className={css.fact}>There is more to read than fits here.</span>
        )}
        <span className={css.standing}>
          <ApprovalMark state={stateOf(approval)} />
          {closed === null && (
            <>
              <bdi className={css.fact}>{stateOf(approval) === "waiting" ? "" : holderWords(approval)}</bdi>
              <Countdown to={expiresAt} label="expires in" over="its time is over" className={css.time} />
            </>
          )}
        </span>
      </Link>
    </li>
  );
}
