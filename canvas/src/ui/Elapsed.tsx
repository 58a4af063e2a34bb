/** A duration; a running one is updated every second. */

import { stopwatch } from "../core/text/time";
import { useSeconds } from "./useSeconds";

export function Elapsed({ from, to, className }: { from: string; to: string | null; className?: string | undefined }) {
  const now = useSeconds(to === null);
  const isInstant = to !== null && Date.parse(to) - Date.parse(from) < 1_000;
  const words = isInstant ? "under 1 s" : stopwatch(from, to === null ? now : Date.parse(to));
  return (
    <span className={className} data-elapsed role={to === null ? "timer" : undefined} aria-live="off">
      {words}
    </span>
  );
}
