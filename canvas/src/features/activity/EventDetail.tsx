/** One event in full: its line, links, other events of the same item, and its JSON. */

import { useEffect, useMemo, useState } from "react";
import { useApp, useData, useSession } from "../../core/app";
import { errorText } from "../../core/api/api";
import type { ActivityFilters } from "../../core/router";
import { exact } from "../../core/text/time";
import type { LoggedEvent } from "../../core/wire";
import { Button, IconButton } from "../../ui/Button";
import { CopyButton } from "../../ui/CopyButton";
import { useLayer } from "../../ui/keyboard";
import { Link } from "../../ui/Link";
import { Notice } from "../../ui/Notice";
import { Time } from "../../ui/Time";
import { EventText, kindLabel, StateMark } from "./EventRow";
import { itemLink, traceLink, type EventLink } from "./places";
import { readActivity } from "./useActivity";
import css from "./Activity.module.css";

const RELATED = 20;

interface Props {
  seq: number;
  /** The event if it is in the list. */
  listed: LoggedEvent | undefined;
  /** Filters of the list, without the open event. */
  filters: ActivityFilters;
  back: boolean;
}

export function EventDetail({ seq, listed, filters, back }: Props) {
  const { router } = useApp();
  const close = (): void => {
    router.go({ view: "activity", filters });
    const row = document.querySelector<HTMLElement>(`[data-event="${seq}"]`);
    row?.focus();
  };
  useLayer(close);
  const { event, problem } = useEvent(seq, listed);
  return (
    <section className={css.detail} aria-label="Event details">
      <div className={css.detailHead}>
        {back && (
          <Button icon="back" onClick={close}>
            Back
          </Button>
        )}
        <h2>Event {seq.toLocaleString("en-GB")}</h2>
        {!back && <IconButton icon="close" label="Close details" onClick={close} />}
      </div>
      {event !== null ? (
        <Details key={event.seq} event={event} filters={filters} />
      ) : problem !== null ? (
        <Notice icon="warning" title="Event not found">
          {problem}
        </Notice>
      ) : (
        <Notice icon="clock" title="Loading event…" />
      )}
    </section>
  );
}

/** The event of the list, or the one that the server has under this number. */
function useEvent(seq: number, listed: LoggedEvent | undefined): { event: LoggedEvent | null; problem: string | null } {
  const { api, identity } = useSession();
  const [read, setRead] = useState<{ seq: number; event: LoggedEvent | null; problem: string | null } | null>(null);
  const isListed = listed !== undefined;
  useEffect(() => {
    if (isListed) return;
    let current = true;
    readActivity(api, identity.org.id, new URLSearchParams({ after: String(Math.max(0, seq - 1)), limit: "1" })).then(
      ({ events }) => {
        const event = events.find((each) => each.seq === seq) ?? null;
        if (current) setRead({ seq, event, problem: event === null ? "It may have been deleted by retention." : null });
      },
      (error: unknown) => current && setRead({ seq, event: null, problem: errorText(error) }),
    );
    return () => void (current = false);
  }, [api, identity.org.id, seq, isListed]);
  if (listed !== undefined) return { event: listed, problem: null };
  return read?.seq === seq ? read : { event: null, problem: null };
}

function Details({ event, filters }: { event: LoggedEvent; filters: ActivityFilters }) {
  const json = useMemo(() => JSON.stringify(event, null, 2), [event]);
  const links = [itemLink(event), traceLink(event)].filter((each) => each !== null);
  return (
    <>
      <p className={css.sentence}>
        <EventText event={event} />
      </p>
      <dl className={css.facts}>
        <div>
          <dt>Time</dt>
          <dd>
            {exact(event.timestamp)} <Time at={event.timestamp} className={css.quiet} />
          </dd>
        </div>
        <div>
          <dt>Kind</dt>
          <dd>
            {kindLabel(event.kind)} <StateMark state={event.state} />
          </dd>
        </div>
        <div>
          <dt>Event</dt>
          <dd>
            <code className={css.code}>{event.event}</code>
          </dd>
        </div>
        <AgentFact event={event} />
      </dl>
      <ul className={css.links} aria-label="Links">
        {links.map(({ to, label }: EventLink) => (
          <li key={label}>
            <Link to={to} className={css.button}>
              {label}
            </Link>
          </li>
        ))}
      </ul>
      <Related event={event} filters={filters} />
      <section className={css.part} aria-label="JSON">
        <div className={css.partHead}>
          <h3>JSON</h3>
          <CopyButton text={json} label="Copy JSON" words="Copy" />
        </div>
        <pre className={css.json} tabIndex={0} role="region" aria-label="JSON of the event">
          {json}
        </pre>
      </section>
    </>
  );
}

function AgentFact({ event }: { event: LoggedEvent }) {
  const id = event.workspace_id;
  const name = useData((state) => state.workspaces.get(id)?.name);
  if (id === "") return null;
  return (
    <div>
      <dt>Agent</dt>
      <dd>
        {name === undefined ? (
          <bdi>{event.workspace_name ?? "A removed agent"}</bdi>
        ) : (
          <Link to={{ view: "org", focus: id, panel: "chat", filter: "" }} className={css.way}>
            <bdi>{name}</bdi>
          </Link>
        )}
        <Link to={{ view: "activity", filters: { agent: id } }} className={css.way}>
          Show only this agent
        </Link>
      </dd>
    </div>
  );
}

/** Other events about the same item. */
function Related({ event, filters }: { event: LoggedEvent; filters: ActivityFilters }) {
  const { api, identity } = useSession();
  const { kind, id } = event.entity;
  const [found, setFound] = useState<readonly LoggedEvent[] | null>(null);
  useEffect(() => {
    let current = true;
    readActivity(api, identity.org.id, new URLSearchParams({ item: id, limit: String(RELATED) })).then(
      ({ events }) => current && setFound(events),
      () => current && setFound([]),
    );
    return () => void (current = false);
  }, [api, identity.org.id, id]);
  const others = found?.filter(({ seq }) => seq !== event.seq) ?? [];
  const name = kind === "delegation" || kind === "thread" ? kind : "item";
  return (
    <section className={css.part} aria-label="Related events">
      <div className={css.partHead}>
        <h3>Related events</h3>
        <Link to={{ view: "activity", filters: { [name]: id } }} className={css.way}>
          Show all
        </Link>
      </div>
      {found === null && <p className={css.quiet}>Loading…</p>}
      {found !== null && others.length === 0 && <p className={css.quiet}>No other events of this item.</p>}
      <ul className={css.related}>
        {others.map((each) => (
          <li key={each.seq}>
            <Link to={{ view: "activity", filters: { ...filters, open: String(each.seq) } }} className={css.relatedLink}>
              <EventText event={each} /> <Time at={each.timestamp} className={css.quiet} />
            </Link>
          </li>
        ))}
      </ul>
    </section>
  );
}
