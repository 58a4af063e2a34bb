/** The state of an approval as glyph and label; the colour only repeats the shape. */

import { useSession } from "../../core/app";
import { STATE_TEXTS, type ApprovalState } from "./texts";
import css from "./ApprovalMark.module.css";

const RING = <circle cx="6" cy="6" r="4.2" fill="none" stroke="currentColor" strokeWidth="1.6" />;

const SHAPES: Readonly<Record<ApprovalState, React.ReactNode>> = {
  waiting: <path d="M6 .8L11.2 6 6 11.2.8 6z" fill="currentColor" />,
  held: <path d="M3 1.5h6M3 10.5h6M3.5 1.8c0 4.6 5 3.8 5 8.4M8.5 1.8c0 4.6-5 3.8-5 8.4" fill="none" stroke="currentColor" strokeWidth="1.4" strokeLinecap="round" />,
  asked: <path d="M6 1.3l4.7 4.7L6 10.7 1.3 6zM6 3.8v2.6M6 8v.1" fill="none" stroke="currentColor" strokeWidth="1.3" strokeLinecap="round" />,
  approved: <path d="M2 6.5l2.7 2.7L10 3" fill="none" stroke="currentColor" strokeWidth="2" strokeLinecap="round" strokeLinejoin="round" />,
  denied: <path d="M2 2l8 8M10 2l-8 8" stroke="currentColor" strokeWidth="2.4" strokeLinecap="round" />,
  expired: (
    <>
      {RING}
      <path d="M6 3.5V6l1.8 1.2" fill="none" stroke="currentColor" strokeWidth="1.4" strokeLinecap="round" />
    </>
  ),
  withdrawn: (
    <>
      {RING}
      <path d="M3.2 8.8l5.6-5.6" stroke="currentColor" strokeWidth="1.6" />
    </>
  ),
};

export function ApprovalMark({ state }: { state: ApprovalState }) {
  const { canSend } = useSession();
  const words = state === "waiting" && !canSend ? "Waiting for a person" : STATE_TEXTS[state];
  return (
    <span className={`${css.mark} ${css[state]}`}>
      <svg className={css.glyph} viewBox="0 0 12 12" aria-hidden="true" focusable="false">
        {SHAPES[state]}
      </svg>
      {words}
    </span>
  );
}
