/** All delegations of the organisation by state: what runs, waits, has failed or is done. Newest first. */

import { useCallback, useEffect, useMemo, useState } from "react";
import { useData, useSession } from "../../core/app";
import { errorText } from "../../core/api/api";
import type { Place } from "../../core/router";
import { isOpen, shownTask, type Delegation } from "../../core/state/delegations";
import { useStored } from "../../core/store/store";
import { Button } from "../../ui/Button";
import { Elapsed } from "../../ui/Elapsed";
import { Link } from "../../ui/Link";
import { Notice } from "../../ui/Notice";
import { StateText, PeerLink } from "./DelegationItem";
import { failedText } from "./texts";
import { WORK_LISTS, workList, type WorkList } from "./workLists";
import css from "./DelegationsTab.module.css";

export function WorkView({ list }: { list: WorkList }) {
  return (
    <section className={css.work} aria-label="Work">
      <h2 className={css.heading}>Work</h2>
      <nav className={css.lists} aria-label="Filter work">
        {WORK_LISTS.map(({ name, label }) => (
          <Link key={name} className={css.which} to={{ view: "work", list: name }} aria-current={name === list ? "true" : undefined}>
            {label}
          </Link>
        ))}
        <Link className={css.which} to={{ view: "schedules" }}>
          Schedules
        </Link>
      </nav>
      <WorkRows key={list} list={list} />
    </section>
  );
}

function WorkRows({ list }: { list: WorkList }) {
  const { rows, problem, hasRead, hasMore, readMore } = useWork(list);
  const { none, empty } = workList(list);
  return (
    <>
      {problem !== null && (
        <p role="alert">
          {problem}{" "}
          <Button kind="quiet" onClick={readMore}>
            Try again
          </Button>
        </p>
      )}
      {rows.length === 0 && !hasRead && problem === null && <Notice icon="clock" title="Loading work…" />}
      {rows.length === 0 && hasRead && (
        <Notice icon="check" title={none}>
          {empty}
        </Notice>
      )}
      <ul className={css.list} aria-label="Tasks">
        {rows.map((each) => (
          <WorkRow key={each.id} delegation={each} />
        ))}
      </ul>
      {hasMore && rows.length > 0 && (
        <p className={css.more}>
          <Button onClick={readMore}>Load older tasks</Button>
        </p>
      )}
    </>
  );
}

function WorkRow({ delegation }: { delegation: Delegation }) {
  const { id, sourceId, targetId, task, createdAt, settledAt } = delegation;
  return (
    <li className={css.row} data-delegation={id}>
      <p className={css.head}>
        <span>
          <PeerLink id={sourceId} /> delegated to <PeerLink id={targetId} />
        </span>
        <Elapsed from={createdAt} to={settledAt} className={css.time} />
      </p>
      <Link to={{ view: "delegation", id, node: null }} className={css.task}>
        <bdi>{task === "" ? "Task without text" : shownTask(task)}</bdi>
      </Link>
      <p className={css.state}>
        <StateText delegation={delegation} />
        <TraceLink id={id} />
      </p>
      {delegation.status === "failed" && (
        <p className={css.failed} dir="auto">
          {failedText(delegation)}
        </p>
      )}
    </li>
  );
}

function TraceLink({ id }: { id: string }) {
  const place: Place = { view: "trace", id };
  return (
    <Link to={place} className={`${css.time} ${css.which}`}>
      Whole request
    </Link>
  );
}

interface Work {
  rows: readonly Delegation[];
  problem: string | null;
  hasRead: boolean;
  hasMore: boolean;
  readMore: () => void;
}

/** Pages of the list, with the current state of each, and new delegations as they begin. */
function useWork(list: WorkList): Work {
  const session = useSession();
  const isLost = useStored(session.connection.view).mode === "lost";
  const live = useData((state) => state.delegations);
  const [read, setRead] = useState<ReadonlyMap<string, Delegation>>(new Map());
  const [last, setLast] = useState<string | null>(null);
  const [hasMore, setHasMore] = useState(true);
  const [hasRead, setHasRead] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  const readAfter = useCallback(
    (before: string | null): void => {
      session.readWork(workList(list).state, before).then(
        ({ delegations, isEnd }) => {
          setProblem(null);
          setHasRead(true);
          setHasMore(!isEnd);
          setLast(delegations.at(-1)?.id ?? before);
          setRead((known) => new Map([...(before === null ? [] : known), ...delegations.map((each) => [each.id, each] as const)]));
        },
        (error: unknown) => setProblem(errorText(error)),
      );
    },
    [session, list],
  );
  useEffect(() => {
    if (!isLost) readAfter(null);
  }, [readAfter, isLost]);
  const rows = useMemo(() => {
    const { has } = workList(list);
    const oldest = hasMore && last !== null ? (read.get(last)?.createdAt ?? "") : "";
    const found = new Map(read);
    // Older ones that the page knows would leave gaps between the pages.
    for (const each of live.values()) if (found.has(each.id) || each.createdAt >= oldest) found.set(each.id, each);
    return [...found.values()].filter(has).sort(newestFirst);
  }, [list, read, live, last, hasMore]);
  return { rows, problem, hasRead, hasMore, readMore: () => readAfter(last) };
}

function newestFirst(one: Delegation, other: Delegation): number {
  if (isOpen(one) !== isOpen(other)) return isOpen(one) ? -1 : 1;
  if (one.createdAt !== other.createdAt) return one.createdAt < other.createdAt ? 1 : -1;
  return one.id < other.id ? 1 : -1;
}
