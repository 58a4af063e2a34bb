/** The status of an agent as glyph and label; the colour only repeats the shape. */

import { useSession } from "../core/app";
import { STATUS_TEXTS, type AgentStatus } from "../core/state/agentStatus";
import type { Workspace } from "../core/state/model";
import { useAgentStatus, useStatusText } from "../core/state/useAgentStatus";
import { absolute, untilBrief } from "../core/text/time";
import { useNow } from "./useNow";
import css from "./AgentStatusMark.module.css";

const SHAPES: Readonly<Record<AgentStatus, React.ReactNode>> = {
  online: <circle cx="6" cy="6" r="4.5" fill="currentColor" />,
  waiting: <path d="M6 .8L11.2 6 6 11.2.8 6z" fill="currentColor" />,
  peer: <path d="M1 6h6.4M5 3.4L7.6 6 5 8.6M10.6 1.6v8.8" fill="none" stroke="currentColor" strokeWidth="1.6" strokeLinecap="round" strokeLinejoin="round" />,
  queued: <path d="M3 1.5h6M3 10.5h6M3.5 1.8c0 4.6 5 3.8 5 8.4M8.5 1.8c0 4.6-5 3.8-5 8.4" fill="none" stroke="currentColor" strokeWidth="1.4" strokeLinecap="round" />,
  working: <circle cx="6" cy="6" r="4" fill="none" stroke="currentColor" strokeWidth="2.2" strokeDasharray="18 7.2" />,
  limited: (
    <>
      <circle cx="6" cy="6" r="4.6" fill="none" stroke="currentColor" strokeWidth="1.6" />
      <path d="M6 3.4V6.2l1.9 1.2" fill="none" stroke="currentColor" strokeWidth="1.4" strokeLinecap="round" />
    </>
  ),
  degraded: (
    <>
      <circle cx="6" cy="6" r="4.2" fill="none" stroke="currentColor" strokeWidth="1.6" />
      <path d="M6 1.8a4.2 4.2 0 0 1 0 8.4z" fill="currentColor" />
    </>
  ),
  failed: <path d="M2 2l8 8M10 2l-8 8" stroke="currentColor" strokeWidth="2.4" strokeLinecap="round" />,
  paused: <path d="M3.7 2v8M8.3 2v8" stroke="currentColor" strokeWidth="2.4" strokeLinecap="round" />,
  hibernated: (
    <>
      <circle cx="6" cy="6" r="4.2" fill="none" stroke="currentColor" strokeWidth="1.6" />
      <path d="M4 6h4" stroke="currentColor" strokeWidth="1.6" />
    </>
  ),
  provisioning: (
    <circle cx="6" cy="6" r="4.2" fill="none" stroke="currentColor" strokeWidth="1.8" strokeDasharray="1.6 1.7" />
  ),
  awaiting: (
    <>
      <circle cx="6" cy="6" r="4.2" fill="none" stroke="currentColor" strokeWidth="1.6" />
      <circle cx="6" cy="6" r="1.4" fill="currentColor" />
    </>
  ),
  offline: <circle cx="6" cy="6" r="4.2" fill="none" stroke="currentColor" strokeWidth="1.6" />,
};

export function AgentStatusGlyph({ status }: { status: AgentStatus }) {
  return (
    <svg className={`${css.glyph} ${css[status]}`} viewBox="0 0 12 12" aria-hidden="true" focusable="false">
      {SHAPES[status]}
    </svg>
  );
}

export function AgentStatusMark({ workspace }: { workspace: Workspace }) {
  const status = useAgentStatus(workspace);
  return (
    <span className={`${css.standing} ${css[status]}`}>
      <AgentStatusGlyph status={status} />
      <AgentStatusText workspace={workspace} status={status} />
    </span>
  );
}

/** The status in words, with whom the agent waits for and until when it is limited. */
export function AgentStatusText({ workspace, status }: { workspace: Workspace; status: AgentStatus }) {
  const { canSend } = useSession();
  const text = useStatusText(workspace, status);
  if (status === "limited" && workspace.limited_until !== null) return <LimitText at={workspace.limited_until} />;
  return (
    <span className={css.text} dir="auto">
      {status === "waiting" && !canSend ? "Waiting for a person" : text}
    </span>
  );
}

function LimitText({ at }: { at: string }) {
  return (
    <time className={css.text} dateTime={at} title={absolute(at)}>
      {STATUS_TEXTS.limited} until {untilBrief(at, useNow())}
    </time>
  );
}
