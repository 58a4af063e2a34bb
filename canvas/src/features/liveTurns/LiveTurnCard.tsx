/** What an agent does in a running turn: status, tool calls and text as they come, and a button to stop it. The text is shown
 * verbatim; the answer replaces it as a message. */

import { useEffect, useRef, useState } from "react";
import { useSession } from "../../core/app";
import { isEnded, type LiveTurn } from "../../core/state/liveTurns";
import { showInvisible } from "../../core/text/invisible";
import { plainLine } from "../../core/text/plain";
import { withoutTerminalCodes } from "../../core/text/terminal";
import type { LiveToolCall } from "../../core/wire";
import { announce } from "../../ui/Announcer";
import { Button } from "../../ui/Button";
import { Elapsed } from "../../ui/Elapsed";
import { Icon, type IconName } from "../../ui/Icon";
import { ActionProblem, useAction } from "../../ui/useAction";
import css from "./LiveTurns.module.css";

/** Older calls are counted only. */
const SHOWN_CALLS = 4;

interface Props {
  turn: LiveTurn;
  agentName: string;
  /** Text that is not shown as a message yet. */
  text: string;
  /** Shown before the status, where the turn answers another message than those shown. */
  note?: string;
  /** Whether the card has a button to stop the turn. */
  stoppable?: boolean;
}

export function LiveTurnCard({ turn, agentName, text, note, stoppable = true }: Props) {
  const { canSend } = useSession();
  const ended = isEnded(turn);
  const words = showInvisible(withoutTerminalCodes(text));
  useAnnouncedTurn(turn, agentName);
  return (
    <div className={css.card} data-live={turn.activityId} aria-busy={!ended}>
      <div className={css.head}>
        <p className={css.status}>
          <span className={ended ? css.still : css.pulse} aria-hidden="true" />
          <bdi className={css.words}>{showInvisible(statusLine(turn, note))}</bdi>
          {!ended && <Elapsed from={turn.startedAt} to={null} className={css.quiet} />}
        </p>
        {stoppable && canSend && !ended && <StopButton turn={turn} agentName={agentName} />}
      </div>
      <Calls calls={turn.tools} />
      {words !== "" && (
        <p className={css.text} dir="auto" data-live-text>
          {turn.textAt > 0 && "… "}
          {words}
        </p>
      )}
      {!ended && <SpokenText words={words} />}
    </div>
  );
}

const STATUS_TEXTS: Readonly<Record<LiveTurn["status"], string>> = {
  working: "Working",
  waiting_for_approval: "Waiting for approval",
  retrying: "Trying again",
  limited: "Limited by the vendor",
  ended: "Done",
  failed: "Failed",
  stopped: "Stopped",
  lost: "Not reporting",
};

function statusLine(turn: LiveTurn, note: string | undefined): string {
  const stopping = turn.stopRequestedBy !== null && !isEnded(turn);
  const status = stopping ? `Stopping, as ${turn.stopRequestedBy} asked` : STATUS_TEXTS[turn.status];
  return [note, status, stopping ? "" : plainLine(turn.statusText)].filter((each) => each !== undefined && each !== "").join(" · ");
}

function StopButton({ turn, agentName }: { turn: LiveTurn; agentName: string }) {
  const session = useSession();
  const action = useAction();
  const asked = turn.stopRequestedBy !== null;
  return (
    <>
      <ActionProblem action={action} className={css.problem} />
      {/* Not `disabled`, which would take the focus away. */}
      <Button
        icon="close"
        className={css.stop}
        aria-disabled={asked || action.busy}
        aria-label={`Stop ${agentName}`}
        onClick={() => asked || action.busy || action.run(() => session.stopTurn(turn.workspaceId, turn.activityId), "Stop requested")}
      >
        Stop
      </Button>
    </>
  );
}

const CALL_ICONS: Readonly<Record<LiveToolCall["status"], IconName>> = { started: "clock", completed: "check", failed: "warning" };
const CALL_TEXTS: Readonly<Record<LiveToolCall["status"], string>> = { started: "running", completed: "completed", failed: "failed" };

function Calls({ calls }: { calls: readonly LiveToolCall[] }) {
  if (calls.length === 0) return null;
  const hidden = calls.length - SHOWN_CALLS;
  return (
    <ul className={css.calls} aria-label="Tool calls">
      {hidden > 0 && <li className={css.quiet}>{hidden === 1 ? "1 earlier call" : `${hidden} earlier calls`}</li>}
      {calls.slice(-SHOWN_CALLS).map((call) => (
        <li key={call.call_id} className={call.status === "failed" ? css.failed : undefined} data-call={call.status}>
          <Icon name={CALL_ICONS[call.status]} size={14} />
          <bdi className={css.tool}>{showInvisible(call.tool)}</bdi>
          <bdi className={css.title}>{showInvisible(call.title)}</bdi>
          <span className="visually-hidden">{CALL_TEXTS[call.status]}</span>
        </li>
      ))}
    </ul>
  );
}

/** Announce begin and end of a turn, and what it waits for. */
function useAnnouncedTurn(turn: LiveTurn, agentName: string): void {
  const { status } = turn;
  useEffect(() => announce(`${agentName}: ${STATUS_TEXTS[status]}`), [agentName, status]);
}

/** New text is read to screen readers in whole sentences, and no more often than this. */
const SPOKEN_MS = 4_000;

function SpokenText({ words }: { words: string }) {
  const [spoken, setSpoken] = useState("");
  const latest = useRef(words);
  latest.current = words;
  const upto = useRef(0);
  useEffect(() => {
    const timer = setInterval(() => {
      if (latest.current.length < upto.current) upto.current = 0; // what was before is shown as a message
      const fresh = latest.current.slice(upto.current);
      const end = sentenceEnd(fresh);
      if (end === 0) return;
      upto.current += end;
      setSpoken(fresh.slice(0, end).trim());
    }, SPOKEN_MS);
    return () => clearInterval(timer);
  }, []);
  return (
    <p className="visually-hidden" aria-live="polite">
      {spoken}
    </p>
  );
}

/** Where the last whole sentence ends; 0 if there is none. */
export function sentenceEnd(words: string): number {
  const ends = [...words.matchAll(/[.!?:…。！？]["'”’)]*(?=\s|$)|\n/gu)];
  const last = ends.at(-1);
  return last === undefined ? 0 : last.index + last[0].length;
}
