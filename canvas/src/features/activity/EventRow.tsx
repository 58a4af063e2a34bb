/** One event in the list: who did what, when, and a link to what it is about. */

import { memo } from "react";
import { useApp } from "../../core/app";
import type { ActivityFilters } from "../../core/router";
import { plainLine } from "../../core/text/plain";
import { absolute, clockWithSeconds } from "../../core/text/time";
import type { LoggedEvent } from "../../core/wire";
import { Icon, type IconName } from "../../ui/Icon";
import { Link } from "../../ui/Link";
import { KINDS } from "./filters";
import { itemLink } from "./places";
import css from "./Activity.module.css";

interface Props {
  event: LoggedEvent;
  filters: ActivityFilters;
  isOpen: boolean;
}

export const EventRow = memo(function EventRow({ event, filters, isOpen }: Props) {
  const { router } = useApp();
  const place = itemLink(event);
  return (
    <>
      <Link
        className={css.entry}
        to={{ view: "activity", filters: { ...filters, open: String(event.seq) } }}
        aria-current={isOpen ? "true" : undefined}
        data-event={event.seq}
        onKeyDown={(pressed) => {
          if (pressed.key === "Escape" && isOpen) router.go({ view: "activity", filters });
        }}
      >
        <time className={css.clock} dateTime={event.timestamp} title={absolute(event.timestamp)}>
          {clockWithSeconds(event.timestamp)}
        </time>
        <KindIcon kind={event.kind} />
        <EventText event={event} />
        <StateMark state={event.state} />
      </Link>
      {place !== null && (
        <Link className={css.jump} to={place.to} aria-label={place.label} title={place.label}>
          <Icon name="right" />
        </Link>
      )}
    </>
  );
});

export function EventText({ event }: { event: LoggedEvent }) {
  const { actor, verb, target = "", text = "" } = event.line;
  return (
    <span className={css.line} dir="auto">
      <bdi className={css.name}>{actor}</bdi> {verb}
      {target !== "" && (
        <>
          {" "}
          <bdi className={css.name}>{target}</bdi>
        </>
      )}
      {text !== "" && (
        <>
          {": "}
          <bdi className={css.words}>{plainLine(text)}</bdi>
        </>
      )}
    </span>
  );
}

const ICONS: Readonly<Record<string, IconName>> = {
  messages: "chats",
  delivery: "send",
  delegations: "checks",
  approvals: "inbox",
  agents: "play",
  organisation: "org",
  people: "settings",
  threads: "wider",
  memory: "save",
  prompts: "file",
  instructions: "book",
};

export function kindLabel(kind: string): string {
  return KINDS.find(([each]) => each === kind)?.[1] ?? kind;
}

function KindIcon({ kind }: { kind: string }) {
  return (
    <span className={css.kind} title={kindLabel(kind)}>
      <Icon name={ICONS[kind] ?? "activity"} size={14} />
      <span className="visually-hidden">{kindLabel(kind)}: </span>
    </span>
  );
}

const STATES: Readonly<Record<string, readonly [glyph: string, word: string]>> = {
  waiting: ["◆", "Waiting"],
  working: ["◌", "Working"],
  done: ["✓", "Done"],
  failed: ["✕", "Failed"],
};

/** The state by glyph, word and colour. */
export function StateMark({ state }: { state: string | null }) {
  const found = state === null ? undefined : STATES[state];
  if (found === undefined) return null;
  return (
    <span className={css.state} data-state={state}>
      <span aria-hidden="true">{found[0]}</span> {found[1]}
    </span>
  );
}
