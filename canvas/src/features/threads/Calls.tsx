/** Calls between agents: each with its beginning and end, and the time left of a wait. */

import { useSession } from "../../core/app";
import { Link } from "../../ui/Link";
import { useSeconds } from "../../ui/useSeconds";
import { useStored } from "../../core/store/store";
import { exact, seconds } from "../../core/text/time";
import { plainLine } from "../../core/text/plain";
import { showInvisible } from "../../core/text/invisible";
import type { AgentState } from "../../core/wire";
import { isWaiting, type CallState, type ThreadsState } from "./fold";
import { StatusGlyph } from "./ThreadStatus";
import css from "./Threads.module.css";
import { agentText, callLook, endText, nameOf, toolText } from "./texts";

/** This much of a call's text is shown; its thread has all of it. */
const PREVIEW = 200;

export function ThreadName({ id, known }: { id: string; known: ThreadsState }) {
  const thread = known.threads.get(id);
  return (
    <Link className={css.way} to={{ view: "thread", id, tab: "said" }}>
      <bdi>{thread === undefined ? "another thread" : showInvisible(nameOf(thread))}</bdi>
    </Link>
  );
}

export function Names({ ids, known }: { ids: readonly string[]; known: ThreadsState }) {
  return ids.map((id, at) => (
    <span key={id}>
      {at > 0 && ", "}
      <ThreadName id={id} known={known} />
    </span>
  ));
}

export function CallLine({ call: found, known }: { call: CallState; known: ThreadsState }) {
  const { call, beganAt, endedAt } = found;
  const ids = [...new Set([...call.receiver_thread_ids, ...(call.new_thread_id === null ? [] : [call.new_thread_id])])];
  return (
    <div className={css.call} data-call={call.tool} data-status={call.status}>
      <p className={css.line}>
        <span>
          <ThreadName id={call.sender_thread_id} known={known} /> {toolText(call.tool)} <Names ids={ids} known={known} />
        </span>
        <StatusGlyph look={callLook(call)}>{endText(call)}</StatusGlyph>
        {isWaiting(call) && call.deadline !== null && <TimeLeft micros={call.deadline} />}
      </p>
      {call.reason !== null && call.reason !== "" && (
        <p className={call.status === "failed" ? css.problem : css.quiet}>
          <bdi>{showInvisible(call.reason)}</bdi>
        </p>
      )}
      {call.prompt !== null && call.prompt !== "" && <bdi className={css.quiet}>“{showInvisible(plainLine(call.prompt).slice(0, PREVIEW))}”</bdi>}
      {call.agents.length > 0 && call.status !== "inProgress" && <Agents agents={call.agents} />}
      <p className={css.quiet}>
        {beganAt !== null && `started ${exact(beganAt)}`}
        {endedAt !== null && `, ended ${exact(endedAt)}`}
        {call.clamped !== null && ` · ${call.clamped}`}
      </p>
    </div>
  );
}

function Agents({ agents }: { agents: readonly AgentState[] }) {
  return (
    <ul className={css.agents}>
      {agents.map((each) => (
        <li key={each.thread_id}>
          <bdi>{showInvisible(nameOf(each))}</bdi>: {agentText(each)}
          {each.message !== undefined && (
            <>
              {" "}
              <bdi className={css.quiet}>“{showInvisible(plainLine(each.message))}”</bdi>
            </>
          )}
        </li>
      ))}
    </ul>
  );
}

/** Times of a wait are server times, so the server's clock counts. */
export function TimeLeft({ micros }: { micros: number }) {
  const now = useSeconds(true) + useStored(useSession().decisions.clockSkew);
  const left = micros / 1_000_000 - now / 1_000;
  return (
    <span className={css.quiet} role="timer" aria-live="off" data-countdown>
      {left > 0 ? `${seconds(left)} left` : "timed out"}
    </span>
  );
}
