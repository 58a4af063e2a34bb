/** A relative time; the exact one on hover, and beside it while its message has the focus. */

import { absolute, brief, relative } from "../core/text/time";
import { useNow } from "./useNow";

export function Time({ at, short = false, className }: { at: string; short?: boolean; className?: string }) {
  const now = useNow();
  return (
    <time dateTime={at} title={absolute(at)} className={className}>
      {short ? brief(at, now) : relative(at, now)}
    </time>
  );
}
