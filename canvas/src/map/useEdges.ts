/** The current edges, computed again on changes, and each second until the last one has expired. Routes are computed when the
 * layout or the pairs change. */

import { useMemo, useRef } from "react";
import { useThrottledData } from "../core/app";
import { useSeconds } from "../ui/useSeconds";
import { anyRecent, linksOf, routed, spotOf, type Edges, type EdgesOf, type Links } from "./edges";
import type { Layout } from "./layout";
import { Router } from "./routes";
import { usePassedMessages } from "./usePassedMessages";

export function useEdges(asked: Omit<EdgesOf, "delegations" | "messages" | "now" | "layout"> & { layout: Layout }): Edges {
  const { layout, tree } = asked;
  const delegations = useThrottledData((state) => state.delegations);
  const messages = usePassedMessages();
  const runs = anyRecent(delegations, messages, Date.now());
  const tick = useSeconds(runs);
  const now = runs ? Math.max(tick, Date.now()) : Date.now();
  const last = useRef<Links>({ shown: [], more: 0 });
  const next = linksOf({ ...asked, delegations, messages, now });
  if (!isSame(last.current, next)) last.current = next;
  const links = last.current;
  const router = useMemo(() => new Router(layout, tree.parent, (anchor) => spotOf(anchor, layout, tree)), [layout, tree]);
  return useMemo(() => routed(links, router), [links, router]);
}

/** Equal edges are not rendered again. */
function isSame(one: Links, other: Links): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}
