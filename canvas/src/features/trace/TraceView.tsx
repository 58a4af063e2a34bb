/** Everything that one request caused: its delegations as trees and on a timeline, and all events by time. */

import { useMemo, type ReactNode } from "react";
import { useApp, useData } from "../../core/app";
import { approvalPlace, hrefOf, ORG } from "../../core/router";
import { plainLine } from "../../core/text/plain";
import { plural } from "../../core/text/strings";
import { absolute, seconds } from "../../core/text/time";
import type { TraceApproval, TraceDetail, TraceMessage, TraceTurn } from "../../core/wire";
import { Button } from "../../ui/Button";
import { CopyButton } from "../../ui/CopyButton";
import { Link } from "../../ui/Link";
import { Notice } from "../../ui/Notice";
import page from "../../ui/Page.module.css";
import { CheckDetails } from "../delegations/Checks";
import { DelegationTrees } from "../delegations/DelegationTrees";
import { nodesOf, treeOf, withLive, type DelegationNode } from "../delegations/tree";
import { causedTurns, costText, countCalls, eventsOf, extraRows, requestState, secondsTaken, toolsText, usageText, type RequestState, type TraceEvent } from "./events";
import { useTrace } from "./useTrace";
import css from "./TraceView.module.css";

export function TraceView({ id }: { id: string }) {
  const { router } = useApp();
  const { trace, problem, missing, retry } = useTrace(id);
  if (missing && trace === null) {
    return (
      <Notice icon="search" title="Request not found" actions={<Button onClick={() => router.go(ORG)}>Go to the organisation</Button>}>
        It is too old to be stored, or the link belongs to another organisation.
      </Notice>
    );
  }
  if (problem !== null) {
    return (
      <Notice icon="warning" title="Could not load trace" actions={<Button onClick={retry}>Try again</Button>}>
        {problem}
      </Notice>
    );
  }
  if (trace === null) return <Notice icon="clock" title="Loading trace…" />;
  return <Trace trace={trace} />;
}

function Trace({ trace }: { trace: TraceDetail }) {
  const { router } = useApp();
  const delegations = useData((state) => state.delegations);
  const nodes = useMemo(() => trace.delegations.flatMap(nodesOf), [trace]);
  const byId = useMemo(() => new Map(withLive(nodes, delegations).map((node) => [node.id, node])), [nodes, delegations]);
  const tree = useMemo(() => treeOf(withLive(nodes, delegations)), [nodes, delegations]);
  const extra = useMemo(() => extraRows(trace), [trace]);
  const events = useMemo(() => eventsOf(trace), [trace]);
  const caused = useMemo(() => causedTurns(trace), [trace]);
  return (
    <div className={page.page}>
      <div className={page.inside}>
        <Header trace={trace} />
        <DelegationTrees title="Delegations" tree={tree} extra={extra} onOpen={(node) => router.go({ view: "delegation", id: node, node: null })} />
        <section className={css.section} aria-label="Events">
          <h3>Events</h3>
          <ol className={css.events}>
            {events.map((event) => (
              <li key={keyOf(event)} data-event={event.kind}>
                <time dateTime={event.at} title={absolute(event.at)} className={css.quiet}>
                  {offset(trace, event.at)}
                </time>
                <div>
                  <EventText event={event} currency={trace.currency} node={event.kind === "message" ? byId.get(event.message.activity_id) : undefined} />
                  {event.kind === "turn" && <CausedTurns trace={trace} of={event.turn} caused={caused} />}
                </div>
              </li>
            ))}
          </ol>
        </section>
      </div>
    </div>
  );
}

const STATES: Readonly<Record<RequestState, string>> = { open: "No answer yet", answered: "Answered", declined: "Declined", none: "No answer expected" };

function Header({ trace }: { trace: TraceDetail }) {
  const [first] = trace.messages;
  const taken = secondsTaken(trace);
  const counted: [number, string][] = [
    [trace.messages.length, "message"],
    [trace.delegations.reduce((sum, each) => sum + each.subtree.nodes, 0), "delegation"],
    [trace.approvals.length, "approval"],
    [trace.turns.length, "turn"],
    [trace.turns.reduce((sum, { tools }) => sum + countCalls(tools), 0), "tool call"],
  ];
  const counts = [...counted.filter(([count]) => count > 0).map(([count, noun]) => plural(count, noun)), usageText(trace.usage), costText(trace.cost_micros, trace.currency)];
  if (first === undefined) return null;
  return (
    <article className={css.head} aria-label="Request">
      <h2 className={css.title}>
        <Party id={first.source_id} name={first.source_name} /> asked <Party id={first.workspace_id} name={first.workspace_name} />
      </h2>
      <p className={css.words} dir="auto">
        {plainLine(first.summary ?? "")}
      </p>
      <p className={css.quiet} data-state={requestState(trace)}>
        {STATES[requestState(trace)]}
        {taken !== null && ` after ${seconds(taken)}`} · {counts.filter((each) => each !== null).join(" · ")}
      </p>
      {!trace.is_complete && <p className={css.quiet}>This request is larger than this page can show: the oldest part is shown.</p>}
      <p className={css.actions}>
        <Link to={{ view: "chats", workspaceId: first.workspace_id, messageId: first.activity_id }} className={css.link}>Open in chat</Link>
        <CopyButton text={location.origin + hrefOf({ view: "trace", id: trace.root_id })} label="Copy link to trace" icon="link" words="Copy link" />
      </p>
    </article>
  );
}

/** Turns of sub-agents below the turn that asked for them. */
function CausedTurns({ trace, of, caused }: { trace: TraceDetail; of: TraceTurn; caused: ReturnType<typeof causedTurns> }) {
  const turns = caused.get(of.turn_id ?? "");
  if (turns === undefined) return null;
  return (
    <ol className={css.caused}>
      {turns.map((turn) => (
        <li key={turn.turn_id} data-event="turn">
          <time dateTime={turn.at} title={absolute(turn.at)} className={css.quiet}>
            {offset(trace, turn.at)}
          </time>
          <div>
            <TurnEvent turn={turn} currency={trace.currency} />
            <CausedTurns trace={trace} of={turn} caused={caused} />
          </div>
        </li>
      ))}
    </ol>
  );
}

/** `node`: the delegation that a message began. */
function EventText({ event, currency, node }: { event: TraceEvent; currency: string; node: DelegationNode | undefined }) {
  switch (event.kind) {
    case "message":
      return <MessageEvent message={event.message} node={node} />;
    case "approval":
      return <ApprovalEvent approval={event.approval} />;
    case "turn":
      return <TurnEvent turn={event.turn} currency={currency} />;
  }
}

function Line({ children, words }: { children: ReactNode; words?: string | null }) {
  return (
    <div className={css.event}>
      <p>{children}</p>
      {words && (
        <p className={css.words} dir="auto">
          {plainLine(words)}
        </p>
      )}
    </div>
  );
}

function MessageEvent({ message, node }: { message: TraceMessage; node: DelegationNode | undefined }) {
  const { kind, method, source_id, source_name, workspace_id, workspace_name, summary } = message;
  const sender = <Party id={source_id} name={source_name} />;
  const receiver = <Party id={workspace_id} name={workspace_name} />;
  const state = message.state === "declined" ? ", declined" : message.state === "open" ? ", no answer yet" : "";
  if (kind === "delegation") {
    const end = node?.status === "completed" ? (node.checks > 0 ? ", verified" : ", answered, not verified") : state;
    return (
      <>
        <Line words={summary}>
          {sender} <Link to={{ view: "delegation", id: message.activity_id, node: null }} className={css.link}>delegated</Link> to {receiver}
          {end}
        </Line>
        {node !== undefined && node.checks > 0 && <CheckDetails id={node.id} />}
      </>
    );
  }
  if (source_id === workspace_id && method === "notify") return <Line words={summary}>{sender} wrote to the person</Line>;
  return (
    <Line words={summary}>
      {sender} wrote to {receiver}
      {state}
    </Line>
  );
}

const APPROVAL_TEXTS: Readonly<Record<string, string>> = {
  pending: "waiting for a decision",
  info_requested: "waiting for an answer",
  approved: "approved",
  denied: "denied",
  expired: "expired",
  withdrawn: "withdrawn",
};

function ApprovalEvent({ approval }: { approval: TraceApproval }) {
  const { approval_id, workspace_id, workspace_name, action, status } = approval;
  return (
    <Line>
      <Party id={workspace_id} name={workspace_name} /> requested approval for{" "}
      <Link to={approvalPlace({ id: approval_id, workspaceId: workspace_id }, "all")} className={css.link}>
        <bdi>{action}</bdi>
      </Link>
      : {APPROVAL_TEXTS[status] ?? status}
    </Line>
  );
}

function TurnEvent({ turn, currency }: { turn: TraceTurn; currency: string }) {
  const facts = [toolsText(turn.tools), usageText(turn.usage), costText(turn.cost_micros, currency)].filter((each) => each !== null);
  return (
    <Line words={facts.join(", ")}>
      <Party id={turn.workspace_id} name={turn.workspace_name} />{turn.agent !== null && <>: sub-agent <bdi>{turn.agent}</bdi></>} {turn.seconds === null ? "began a " : "finished a "}
      {turn.thread_id === null ? (
        "turn"
      ) : (
        <Link to={{ view: "thread", id: turn.thread_id, tab: "said" }} className={css.link}>
          turn
        </Link>
      )}
      {turn.seconds !== null && ` of ${seconds(turn.seconds)}`}
    </Line>
  );
}

/** An agent, or a person if there is no workspace. */
function Party({ id, name }: { id: string | null; name: string | null }) {
  const current = useData((state) => state.workspaces.get(id ?? "")?.name);
  if (id === null) return <>A person</>;
  if (current === undefined) return <bdi>{name ?? "A removed agent"}</bdi>;
  return (
    <Link to={{ view: "org", focus: id, panel: "chat", filter: "" }} className={css.link}>
      <bdi>{current}</bdi>
    </Link>
  );
}

/** Time since the request, as "+0:05". */
function offset(trace: TraceDetail, at: string): string {
  const begun = Date.parse(trace.messages[0]?.at ?? at);
  return `+${seconds(Math.max(0, (Date.parse(at) - begun) / 1_000))}`;
}

function keyOf(event: TraceEvent): string {
  switch (event.kind) {
    case "message":
      return event.message.activity_id;
    case "approval":
      return event.approval.approval_id;
    case "turn":
      return event.turn.turn_id ?? `${event.turn.workspace_id} ${event.turn.activity_id} ${event.at}`;
  }
}
