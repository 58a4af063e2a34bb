/** Filters of the activity: a search, choices, and chips of what else narrows the list. */

import { useEffect, useId, useMemo, useState, type ReactNode } from "react";
import { useApp, useData } from "../../core/app";
import type { ActivityFilters } from "../../core/router";
import { Button } from "../../ui/Button";
import { Icon } from "../../ui/Icon";
import { DIRECTIONS, fromLocalField, KINDS, localField, MAIN_KINDS, SPANS, STATES, withFilter } from "./filters";
import css from "./Activity.module.css";

/** 300 ms: a request for each pause in typing, not for each letter. */
const PAUSE_MS = 300;
/** A longer list of agents is searched by typing. */
const MAX_CHOICES = 300;
const MAX_SUGGESTIONS = 50;
const CUSTOM = "custom";

export function FilterBar({ filters }: { filters: ActivityFilters }) {
  const { router } = useApp();
  const [isCustom, setCustom] = useState(false);
  const change = (name: string, value: string): void => router.go({ view: "activity", filters: withFilter(filters, name, value) });
  const { since = "", until = "" } = filters;
  const span = SPANS.find(([name]) => name === since && until === "")?.[0];
  const showsTimes = isCustom || (span === undefined && (since !== "" || until !== ""));
  const chooseTime = (value: string): void => {
    setCustom(value === CUSTOM);
    if (value !== CUSTOM) router.go({ view: "activity", filters: withFilter(withFilter(filters, "until", ""), "since", value) });
  };
  return (
    <div className={css.filters} role="group" aria-label="Filters">
      <SearchField value={filters["q"] ?? ""} onChange={(value) => router.go({ view: "activity", filters: withFilter(filters, "q", value) }, { replace: true })} />
      <AgentField value={filters["agent"] ?? ""} onChange={(value) => change("agent", value)} />
      {filters["agent"] !== undefined && (
        <label className={css.check}>
          <input type="checkbox" checked={filters["team"] !== undefined} onChange={(event) => change("team", event.target.checked ? "all" : "")} />
          With its team
        </label>
      )}
      <Choice label="Kind" value={filters["kind"] ?? ""} onChange={(value) => change("kind", value)}>
        <option value="">All kinds</option>
        <option value={MAIN_KINDS}>Without delivery steps</option>
        {KINDS.map(([kind, label]) => (
          <option key={kind} value={kind}>
            {label}
          </option>
        ))}
        <Other value={filters["kind"]} known={[MAIN_KINDS, ...KINDS.map(([kind]) => kind)]} />
      </Choice>
      <Choice label="State" value={filters["state"] ?? ""} onChange={(value) => change("state", value)}>
        <option value="">Any state</option>
        {STATES.map(([state, label]) => (
          <option key={state} value={state}>
            {label}
          </option>
        ))}
        <Other value={filters["state"]} known={STATES.map(([state]) => state)} />
      </Choice>
      <Choice label="Direction" value={filters["direction"] ?? ""} onChange={(value) => change("direction", value)}>
        <option value="">Sent and received</option>
        {DIRECTIONS.map(([direction, label]) => (
          <option key={direction} value={direction}>
            {label}
          </option>
        ))}
        <Other value={filters["direction"]} known={DIRECTIONS.map(([direction]) => direction)} />
      </Choice>
      <Choice label="Time" value={showsTimes ? CUSTOM : (span ?? "")} onChange={chooseTime}>
        <option value="">Any time</option>
        {SPANS.map(([name, label]) => (
          <option key={name} value={name}>
            {label}
          </option>
        ))}
        <option value={CUSTOM}>From and to…</option>
      </Choice>
      {showsTimes && (
        <>
          <TimeField label="From" value={span === undefined ? since : ""} onChange={(value) => change("since", value)} />
          <TimeField label="To" value={until} onChange={(value) => change("until", value)} />
        </>
      )}
      <Chips filters={filters} onRemove={(name) => change(name, "")} />
    </div>
  );
}

/** A value of the address that is no choice: it is shown as it is. */
function Other({ value, known }: { value: string | undefined; known: readonly string[] }) {
  if (value === undefined || known.includes(value)) return null;
  return <option value={value}>{value.split(",").join(", ")}</option>;
}

function Choice({ label, value, onChange, children }: { label: string; value: string; onChange: (value: string) => void; children: ReactNode }) {
  return (
    <select className={css.select} aria-label={label} value={value} data-set={value === "" ? undefined : ""} onChange={(event) => onChange(event.target.value)}>
      {children}
    </select>
  );
}

function SearchField({ value, onChange }: { value: string; onChange: (value: string) => void }) {
  const [words, setWords] = useState(value);
  const [sent, setSent] = useState(value);
  if (value !== sent) {
    setSent(value); // changed elsewhere, as by going back
    setWords(value);
  }
  useEffect(() => {
    if (words.trim() === value) return;
    const timer = setTimeout(() => {
      setSent(words.trim());
      onChange(words.trim());
    }, PAUSE_MS);
    return () => clearTimeout(timer);
  });
  return (
    <span className={css.find}>
      <Icon name="search" />
      <input type="search" aria-label="Search texts of events" placeholder="Search texts" value={words} onChange={(event) => setWords(event.target.value)} />
    </span>
  );
}

function AgentField({ value, onChange }: { value: string; onChange: (value: string) => void }) {
  const workspaces = useData((state) => state.workspaces);
  const agents = useMemo(() => [...workspaces.values()].map(({ id, name }) => ({ id, name })).sort((one, other) => one.name.localeCompare(other.name)), [workspaces]);
  const known = workspaces.has(value);
  if (agents.length > MAX_CHOICES) return <AgentSearch agents={agents} value={value} onChange={onChange} />;
  return (
    <Choice label="Agent" value={value} onChange={onChange}>
      <option value="">All agents</option>
      {agents.map(({ id, name }) => (
        <option key={id} value={id}>
          {name}
        </option>
      ))}
      {value !== "" && !known && <option value={value}>A removed agent</option>}
    </Choice>
  );
}

interface AgentSearchProps {
  agents: readonly { id: string; name: string }[];
  value: string;
  onChange: (value: string) => void;
}

function AgentSearch({ agents, value, onChange }: AgentSearchProps) {
  const id = useId();
  const current = agents.find((each) => each.id === value)?.name ?? "";
  const [words, setWords] = useState(current);
  useEffect(() => setWords(current), [current]);
  const found = useMemo(() => agents.filter(({ name }) => name.toLowerCase().includes(words.toLowerCase())).slice(0, MAX_SUGGESTIONS), [agents, words]);
  const choose = (text: string): void => {
    setWords(text);
    const chosen = agents.find(({ name }) => name === text);
    if (chosen) onChange(chosen.id);
    else if (text === "" && value !== "") onChange("");
  };
  return (
    <>
      <input className={css.select} type="search" aria-label="Agent" placeholder="All agents" list={id} value={words} onChange={(event) => choose(event.target.value)} />
      <datalist id={id}>
        {found.map((each) => (
          <option key={each.id} value={each.name} />
        ))}
      </datalist>
    </>
  );
}

function TimeField({ label, value, onChange }: { label: string; value: string; onChange: (value: string) => void }) {
  return (
    <label className={css.check}>
      {label}
      <input className={css.select} type="datetime-local" value={localField(value)} onChange={(event) => onChange(fromLocalField(event.target.value))} />
    </label>
  );
}

const CHIPS: readonly (readonly [name: string, label: string])[] = [
  ["delegation", "Delegation"],
  ["thread", "Thread"],
  ["item", "Item"],
  ["event", "Event"],
];

function Chips({ filters, onRemove }: { filters: ActivityFilters; onRemove: (name: string) => void }) {
  const { router } = useApp();
  const names = Object.keys(filters).filter((name) => name !== "open");
  if (names.length === 0) return null;
  return (
    <>
      {CHIPS.map(([name, label]) => {
        const value = filters[name];
        if (value === undefined) return null;
        return (
          <button key={name} type="button" className={css.chip} onClick={() => onRemove(name)}>
            <span className="visually-hidden">Remove filter: </span>
            <span>{label}</span>
            <bdi className={css.chipValue}>{value}</bdi>
            <Icon name="close" size={12} />
          </button>
        );
      })}
      <Button kind="quiet" onClick={() => router.go({ view: "activity", filters: {} })}>
        Clear filters
      </Button>
    </>
  );
}
