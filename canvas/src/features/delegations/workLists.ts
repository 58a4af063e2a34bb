/** The lists of the view *Work*. Pure. */

import { isOpen, type Delegation } from "../../core/state/delegations";
import type { WorkList } from "../../core/router";

export type { WorkList } from "../../core/router";

interface ListTexts {
  name: WorkList;
  label: string;
  none: string;
  empty: string;
  /** Filter of the API; undefined: all. */
  state: string | undefined;
  has: (one: Delegation) => boolean;
}

export const WORK_LISTS: readonly ListTexts[] = [
  { name: "open", label: "Open", state: "open", has: isOpen, none: "No open tasks", empty: "Tasks that agents delegate to each other appear here until they end." },
  { name: "failed", label: "Failed", state: "failed", has: ({ status }) => status === "failed", none: "No failed tasks", empty: "Tasks that ended without an answer appear here, with the reason." },
  { name: "completed", label: "Done", state: "completed", has: ({ status }) => status === "completed", none: "No completed tasks", empty: "Tasks that were answered appear here." },
  { name: "all", label: "All", state: undefined, has: () => true, none: "No tasks yet", empty: "Tasks that agents delegate to each other appear here." },
];

export function workList(name: WorkList): ListTexts {
  return WORK_LISTS.find((each) => each.name === name) ?? WORK_LISTS[0]!;
}
