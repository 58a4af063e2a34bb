/** Time left until a deadline by the server's clock, updated every second. */

import { useSession } from "../../core/app";
import { useStored } from "../../core/store/store";
import { seconds } from "../../core/text/time";
import { useSeconds } from "../../ui/useSeconds";
import css from "./Countdown.module.css";

/** The server's time, updated every second while `runs`. */
export function useServerSeconds(runs: boolean): number {
  return useSeconds(runs) + useStored(useSession().decisions.clockSkew);
}

/** In the last minute it is shown in red. */
const URGENT_SECONDS = 60;

export function Countdown({ to, label, over, className }: { to: string; label: string; over: string; className?: string | undefined }) {
  const now = useServerSeconds(true);
  const left = (Date.parse(to) - now) / 1_000;
  if (Number.isNaN(left)) return null;
  return (
    <span className={`${className ?? ""} ${left < URGENT_SECONDS ? css.urgent : ""}`} role="timer" aria-live="off" data-countdown data-urgent={left < URGENT_SECONDS || undefined}>
      {left <= 0 ? over : `${label} ${seconds(left)}`}
    </span>
  );
}
