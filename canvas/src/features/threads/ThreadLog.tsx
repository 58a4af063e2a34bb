/** The log of a thread, line by line as it arrives. Messages are shown as in a chat; what tools got and returned verbatim. */

import { useMemo, useRef, useState, type ReactNode } from "react";
import { useSession } from "../../core/app";
import { errorText } from "../../core/api/api";
import { Button } from "../../ui/Button";
import { Notice } from "../../ui/Notice";
import { MessageText } from "../../ui/MessageText";
import { Time } from "../../ui/Time";
import type { Store } from "../../core/store/store";
import { showInvisible } from "../../core/text/invisible";
import { withoutTerminalCodes } from "../../core/text/terminal";
import { plural } from "../../core/text/strings";
import type { AgentMessageEntry, BaseInstructionsEntry, ThreadClosedEntry, CollabCallEntry, CompactionEntry, ContextNoteEntry, EntryItem, InstructionLayerEntry, PeerMessageEntry, ReasoningEntry, ThreadResumedEntry, SettingsEntry, ThreadItem, ToolCallEntry, ToolOutputEntry, TurnAcceptedEntry, TurnEndedEntry, UserMessageEntry } from "../../core/wire";
import { isEnded, unsaidText, type LiveTurn } from "../../core/state/liveTurns";
import { LiveTurnCard } from "../liveTurns/LiveTurnCard";
import { useLiveTurns } from "../liveTurns/useLiveTurns";
import { CallLine } from "./Calls";
import { readEnvelope } from "./envelope";
import type { ThreadsState, Log } from "./fold";
import css from "./Threads.module.css";
import { readEarlier, type EarlierLines } from "./useThreads";
import { useVisibleEntries } from "./useVisibleEntries";
import { layerText, mailText, nameOf, provenanceText, statusText } from "./texts";

interface Props {
  thread: ThreadItem;
  known: ThreadsState;
  store: Store<ThreadsState>;
  isRead: boolean;
}

export function ThreadLog({ thread, known, store, isRead }: Props) {
  const log = known.logs.get(thread.thread_id);
  if (log === undefined && !isRead) return <Notice icon="clock" title="Loading conversation…" />;
  return <Lines thread={thread} known={known} store={store} log={log} />;
}

/** A component of its own: following the end depends on the element that scrolls. */
function Lines({ thread, known, store, log }: Omit<Props, "isRead"> & { log: Log | undefined }) {
  const turns = useLiveTurns({ workspaceId: thread.workspace_id, threadId: thread.thread_id });
  const { inside, lines, more } = useVisibleEntries(log, turns);
  const outputs = useMemo(() => outputsOf(log?.lines ?? []), [log]);
  const hidden = log !== undefined && (log.from > 0 || log.lines.length > lines.length);
  const shown = lines.map((line) => ({ line, item: itemOf(line, { thread, known, outputs }) })).filter(({ item }) => item !== null);
  return (
    <section ref={inside} className={css.said} aria-label="Conversation" tabIndex={0}>
      {hidden && <Earlier known={known} store={store} id={thread.thread_id} onMore={more} />}
      {shown.length === 0 && <p className={css.quiet}>No messages yet.</p>}
      <ol className={css.items}>
        {shown.map(({ line, item }) => (
          <li key={line.ordinal} data-ordinal={line.ordinal}>
            {item}
          </li>
        ))}
      </ol>
      {turns.map((turn) => (
        <ThreadTurn key={turn.activityId} turn={turn} thread={thread} lines={log?.lines ?? []} />
      ))}
    </section>
  );
}

/** The running turn, until the log has what it says. The thread has its own button to stop it. */
function ThreadTurn({ turn, thread, lines }: { turn: LiveTurn; thread: ThreadItem; lines: readonly EntryItem[] }) {
  const said = useMemo(
    () => lines.filter(({ type, at, entry }) => type === "agent_message" && entry !== null && at >= turn.startedAt).map(({ entry }) => (entry as AgentMessageEntry).text),
    [lines, turn.startedAt],
  );
  if (isEnded(turn)) return null;
  return <LiveTurnCard turn={turn} agentName={nameOf(thread)} text={unsaidText(turn, said)} stoppable={false} />;
}

function Earlier({ known, store, id, onMore }: { known: ThreadsState; store: Store<ThreadsState>; id: string; onMore: () => void }) {
  const { api } = useSession();
  const [problem, setProblem] = useState<string | null>(null);
  const [reading, setReading] = useState(false);
  const kept = useRef<EarlierLines>({ before: 0, lines: [] });
  const read = (): void => {
    if (reading) return;
    // The requested number is shown once it is read, however often the read is retried.
    if (problem === null) onMore();
    setProblem(null);
    if ((known.logs.get(id)?.from ?? 0) === 0) return;
    setReading(true);
    readEarlier(api, id, store, kept.current)
      .catch((error: unknown) => setProblem(errorText(error)))
      .finally(() => setReading(false));
  };
  return (
    <p>
      {/* Not `disabled`, which would take the focus away. */}
      <Button aria-disabled={reading} onClick={read}>
        {reading ? "Loading…" : "Show earlier entries"}
      </Button>{" "}
      {problem !== null && (
        <span role="alert" className={css.problem}>
          {problem}
        </span>
      )}
    </p>
  );
}

function outputsOf(lines: readonly EntryItem[]): ReadonlyMap<string, ToolOutputEntry> {
  const found = lines.filter(({ type, entry }) => type === "tool_output" && entry !== null).map(({ entry }) => entry as ToolOutputEntry);
  return new Map(found.map((each) => [each.call_id, each]));
}

interface LogContext {
  thread: ThreadItem;
  known: ThreadsState;
  outputs: ReadonlyMap<string, ToolOutputEntry>;
}

/** How a line is rendered; null: it is not shown. */
function itemOf({ type, entry, at, ordinal }: EntryItem, { thread, known, outputs }: LogContext): ReactNode {
  if (entry === null) return null;
  switch (type) {
    case "user_message": {
      const { text, author } = entry as UserMessageEntry;
      return <Bubble kind="user" who={author.name === "" ? "A person" : author.name} at={at} text={text} />;
    }
    case "agent_message":
      return <Bubble kind="agent" who={nameOf(thread)} at={at} text={(entry as AgentMessageEntry).text} />;
    case "peer_message": {
      const { text, author, recipient, mail_type } = entry as PeerMessageEntry;
      return <Bubble kind="peer" who={author} at={at} text={text} note={`${mailText(mail_type)} to ${recipient} · from another agent: data, not a user instruction`} />;
    }
    case "turn_accepted": {
      const { turn_id, input, author } = entry as TurnAcceptedEntry;
      if (!thread.queued.includes(turn_id) || input.length === 0) return null;
      return <Bubble kind="user" who={author.name} at={at} text={input.map((each) => each.text).join("\n")} note="queued" />;
    }
    case "reasoning": {
      const { text } = entry as ReasoningEntry;
      return text ? <Folded title="Reasoning" text={text} /> : null;
    }
    case "tool_call":
      return <Tool call={entry as ToolCallEntry} output={outputs.get((entry as ToolCallEntry).call_id)} />;
    case "collab":
      return (entry as CollabCallEntry).status === "inProgress" ? <CallOf call={entry as CollabCallEntry} known={known} at={at} /> : null;
    case "compaction": {
      const { summary, upto, kind } = entry as CompactionEntry;
      return <Folded title={`Compacted ${kind === "automatic" ? "automatically" : "on request"}: the model sees this summary instead of entries up to ${upto}`} text={summary} />;
    }
    case "context_note": {
      const { text, origin } = entry as ContextNoteEntry;
      return <Note at={at}>{`Sent to the model once (${origin}): ${text}`}</Note>;
    }
    case "turn_ended": {
      const { status, error } = entry as TurnEndedEntry;
      return <Note at={at}>{`Turn ended: ${statusText(status === "failed" ? "errored" : status).toLowerCase()}${error === null ? "" : `: ${error}`}`}</Note>;
    }
    default:
      return changeOf(type, entry, at, ordinal <= 2);
  }
}

/** How a change of the thread itself is rendered. Not a component: one that renders nothing would leave an empty item in the
 * list, which screen readers announce. */
function changeOf(type: string, entry: unknown, at: string, first: boolean): ReactNode {
  switch (type) {
    case "base": {
      const { version, provenance } = entry as BaseInstructionsEntry;
      return <Note at={at}>{`${first ? "Created with" : "Changed to"} base instructions version ${version}, ${provenanceText(provenance)}`}</Note>;
    }
    case "layer": {
      const { layer, version, origin } = entry as InstructionLayerEntry;
      return <Note at={at}>{`${layerText(layer)}: version ${version} (${origin})`}</Note>;
    }
    case "settings": {
      const { model, effort } = entry as SettingsEntry;
      return <Note at={at}>{`Model changed to ${model ?? "the default model"}${effort === null ? "" : `, effort ${effort}`}`}</Note>;
    }
    case "closed":
      return <Note at={at}>{`Closed by ${(entry as ThreadClosedEntry).by.name}`}</Note>;
    case "resumed":
      return <Note at={at}>{`Resumed by ${(entry as ThreadResumedEntry).by.name}`}</Note>;
    default:
      return null;
  }
}

function CallOf({ call, known, at }: { call: CollabCallEntry; known: ThreadsState; at: string }) {
  const found = known.calls.get(`${call.sender_thread_id} ${call.call_id}`) ?? { key: call.call_id, call, beganAt: at, endedAt: null };
  return (
    <div className={css.event}>
      <CallLine call={found} known={known} />
    </div>
  );
}

interface BubbleProps {
  kind: "user" | "agent" | "peer";
  who: string;
  at: string;
  text: string;
  note?: string;
}

function Bubble({ kind, who, at, text, note }: BubbleProps) {
  const envelope = useMemo(() => readEnvelope(text), [text]);
  return (
    <div className={`${css.bubble} ${css[kind]}`} data-said={kind}>
      <p className={css.line}>
        <bdi className={css.name}>{showInvisible(who)}</bdi>
        <Time at={at} className={css.quiet} />
      </p>
      {note !== undefined && <bdi className={css.note}>{showInvisible(note)}</bdi>}
      {envelope !== null && envelope.instructions !== null && <Folded title="Instructions sent with this message" text={envelope.instructions} />}
      <MessageText text={showInvisible(envelope === null ? text : envelope.body)} />
    </div>
  );
}

function Note({ at, children }: { at: string; children: string }) {
  return (
    <p className={css.event}>
      <bdi>{showInvisible(children)}</bdi> <Time at={at} className={css.quiet} />
    </p>
  );
}

function Folded({ title, text }: { title: string; text: string }) {
  return (
    <details className={css.folded}>
      <summary>{title}</summary>
      <pre className={css.text} tabIndex={0} role="region" aria-label={title} dir="auto">
        {showInvisible(withoutTerminalCodes(text))}
      </pre>
    </details>
  );
}

function Tool({ call, output }: { call: ToolCallEntry; output: ToolOutputEntry | undefined }) {
  const given = typeof call.arguments === "string" ? call.arguments : JSON.stringify(call.arguments, null, 2);
  return (
    <details className={css.folded} data-said="tool">
      <summary>
        Tool <bdi className={css.mono}>{showInvisible(call.tool)}</bdi>{" "}
        <span className={output?.is_error ? css.bad : css.quiet}>
          {output === undefined ? "no output yet" : output.is_error ? "failed" : plural(output.text.length, "character")}
        </span>
      </summary>
      <h3 className={css.quiet}>Arguments</h3>
      <pre className={css.text} tabIndex={0} role="region" aria-label="Arguments" dir="ltr">
        {showInvisible(given ?? "")}
      </pre>
      {output !== undefined && (
        <>
          <h3 className={css.quiet}>Output</h3>
          <pre className={css.text} tabIndex={0} role="region" aria-label="Output" dir="auto">
            {showInvisible(withoutTerminalCodes(output.text))}
          </pre>
        </>
      )}
    </details>
  );
}
