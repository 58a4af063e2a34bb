/** What a click on a line of the map opens. Apart from the map, which is loaded later. */

import type { Place } from "../core/router";
import type { Link } from "./edges";

/** The delegation, all of them, or the conversation of two agents. */
export function placeOfLink({ state, count, sourceId, targetId, newest }: Link, from: Extract<Place, { view: "org" }>): Place {
  if (state === "message") {
    if (count === 1) return { view: "peers", workspaceId: sourceId, peerId: targetId, messageId: null };
    return { ...from, focus: sourceId, panel: "messages" };
  }
  if (count === 1 && newest !== null) return { view: "delegation", id: newest.id, node: null };
  return { ...from, focus: sourceId, panel: "work" };
}
