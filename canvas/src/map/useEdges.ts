/** The current edges, computed again on changes, and each second until the last one has expired. */

import { useRef } from "react";
import { useThrottledData } from "../core/app";
import { useSeconds } from "../ui/useSeconds";
import { anyRecent, edgesOf, type Edges, type EdgesOf } from "./edges";
import { usePassedMessages } from "./usePassedMessages";

export function useEdges(asked: Omit<EdgesOf, "delegations" | "messages" | "now">): Edges {
  const delegations = useThrottledData((state) => state.delegations);
  const messages = usePassedMessages();
  const runs = anyRecent(delegations, messages, Date.now());
  const tick = useSeconds(runs);
  const now = runs ? Math.max(tick, Date.now()) : Date.now();
  const last = useRef<Edges>({ shown: [], more: 0 });
  const next = edgesOf({ ...asked, delegations, messages, now });
  if (!isSame(last.current, next)) last.current = next;
  return last.current;
}

/** Equal edges are not rendered again. */
function isSame(one: Edges, other: Edges): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}
