/** The state of a delegation as glyph and label; the colour only repeats the shape. */

import type { DelegationState } from "../../core/state/delegations";
import css from "./DelegationMark.module.css";

export const STATE_TEXTS: Readonly<Record<DelegationState, string>> = {
  sent: "Sent",
  dispatched: "Sending",
  queued: "Queued",
  working: "Working",
  stuck: "Stuck",
  unknown: "Outcome unknown",
  completed: "Answered",
  failed: "Failed",
  cancelled: "Cancelled",
  expired: "Expired",
};

const HOURGLASS = <path d="M3 1.5h6M3 10.5h6M3.5 1.8c0 4.6 5 3.8 5 8.4M8.5 1.8c0 4.6-5 3.8-5 8.4" fill="none" stroke="currentColor" strokeWidth="1.4" strokeLinecap="round" />;
const RING = <circle cx="6" cy="6" r="4.2" fill="none" stroke="currentColor" strokeWidth="1.6" />;

const SHAPES: Readonly<Record<DelegationState, React.ReactNode>> = {
  sent: <path d="M2 6h7M6 3l3 3-3 3" fill="none" stroke="currentColor" strokeWidth="1.6" strokeLinecap="round" strokeLinejoin="round" />,
  dispatched: <path d="M1.5 3l3 3-3 3M6.5 3l3 3-3 3" fill="none" stroke="currentColor" strokeWidth="1.6" strokeLinecap="round" strokeLinejoin="round" />,
  queued: HOURGLASS,
  working: <circle cx="6" cy="6" r="4" fill="none" stroke="currentColor" strokeWidth="2.2" strokeDasharray="18 7.2" />,
  stuck: (
    <>
      {RING}
      <path d="M6 3.5v3M6 8.4v.1" stroke="currentColor" strokeWidth="1.6" strokeLinecap="round" />
    </>
  ),
  unknown: <path d="M6 1.3l4.7 4.7L6 10.7 1.3 6zM6 3.8v2.6M6 8v.1" fill="none" stroke="currentColor" strokeWidth="1.3" strokeLinecap="round" />,
  completed: <path d="M2 6.5l2.7 2.7L10 3" fill="none" stroke="currentColor" strokeWidth="2" strokeLinecap="round" strokeLinejoin="round" />,
  failed: <path d="M2 2l8 8M10 2l-8 8" stroke="currentColor" strokeWidth="2.4" strokeLinecap="round" />,
  cancelled: (
    <>
      {RING}
      <path d="M3.2 8.8l5.6-5.6" stroke="currentColor" strokeWidth="1.6" />
    </>
  ),
  expired: (
    <>
      {RING}
      <path d="M6 3.5V6l1.8 1.2" fill="none" stroke="currentColor" strokeWidth="1.4" strokeLinecap="round" />
    </>
  ),
};

export function DelegationGlyph({ state }: { state: DelegationState }) {
  return (
    <svg className={`${css.glyph} ${css[state]}`} viewBox="0 0 12 12" aria-hidden="true" focusable="false">
      {SHAPES[state]}
    </svg>
  );
}

export function DelegationMark({ state }: { state: DelegationState }) {
  return (
    <span className={`${css.mark} ${css[state]}`}>
      <DelegationGlyph state={state} />
      {STATE_TEXTS[state]}
    </span>
  );
}
