/** A status as glyph and label; the colour only repeats the shape. */

import type { ReactNode } from "react";
import { showInvisible } from "../../core/text/invisible";
import { plainLine } from "../../core/text/plain";
import type { ThreadItem } from "../../core/wire";
import css from "./Threads.module.css";
import { flagText, lookOf, statusText, type StatusLook } from "./texts";

const SHAPES: Readonly<Record<StatusLook, ReactNode>> = {
  waiting: <path d="M6 .8L11.2 6 6 11.2.8 6z" fill="currentColor" />,
  peer: <path d="M1 6h6.4M5 3.4L7.6 6 5 8.6M10.6 1.6v8.8" fill="none" stroke="currentColor" strokeWidth="1.6" strokeLinecap="round" strokeLinejoin="round" />,
  queued: <path d="M3 1.5h6M3 10.5h6M3.5 1.8c0 4.6 5 3.8 5 8.4M8.5 1.8c0 4.6-5 3.8-5 8.4" fill="none" stroke="currentColor" strokeWidth="1.4" strokeLinecap="round" />,
  working: <path d="M2.5 1.5l8 4.5-8 4.5z" fill="currentColor" />,
  good: <path d="M2 6.5l2.7 2.7L10 3" fill="none" stroke="currentColor" strokeWidth="2" strokeLinecap="round" strokeLinejoin="round" />,
  bad: <path d="M2 2l8 8M10 2l-8 8" stroke="currentColor" strokeWidth="2.4" strokeLinecap="round" />,
  off: <circle cx="6" cy="6" r="4.2" fill="none" stroke="currentColor" strokeWidth="1.6" />,
};

export function StatusGlyph({ look, children }: { look: StatusLook; children: ReactNode }) {
  return (
    <span className={`${css.mark} ${css[look]}`}>
      <svg className={css.glyph} viewBox="0 0 12 12" aria-hidden="true" focusable="false">
        {SHAPES[look]}
      </svg>
      <span>{children}</span>
    </span>
  );
}

export function ThreadStatus({ thread }: { thread: ThreadItem }) {
  const { status, active_flags } = thread;
  return (
    <p className={css.standing}>
      <StatusGlyph look={lookOf(thread)}>
        {statusText(status.type)}
        {active_flags.length > 0 && `: ${flagText(active_flags)}`}
      </StatusGlyph>
      {status.type === "errored" && status.message !== null && <bdi className={css.quiet}>{showInvisible(plainLine(status.message))}</bdi>}
    </p>
  );
}
