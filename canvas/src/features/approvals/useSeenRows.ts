/** Rows of a list that have been on the screen. Only those can be selected: a person must not decide on a row that they
 * never saw. */

import { useEffect, useState, type RefObject } from "react";
import type { Approval } from "../../core/state/approvals";

export function useSeenRows(list: RefObject<HTMLElement | null>, all: readonly Approval[]): ReadonlySet<string> {
  const [seen, setSeen] = useState<ReadonlySet<string>>(new Set());
  useEffect(() => {
    if (list.current === null || typeof IntersectionObserver === "undefined") return;
    const look = new IntersectionObserver(
      (entries) => {
        const ids = entries.filter((each) => each.isIntersecting).map(({ target }) => (target as HTMLElement).dataset["approval"] ?? "");
        if (ids.length > 0) setSeen((before) => (ids.every((id) => before.has(id)) ? before : new Set([...before, ...ids])));
      },
      { root: list.current, threshold: 1 },
    );
    for (const row of list.current.querySelectorAll("[data-approval]")) look.observe(row);
    return () => look.disconnect();
  }, [list, all]);
  return seen;
}
