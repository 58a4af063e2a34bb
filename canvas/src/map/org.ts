/** The organisation as the map draws it. */

import type { Workspace } from "../core/state/model";
import type { Team } from "../core/state/teams";
import type { Tree } from "../core/state/tree";
import type { WaitsByAgent } from "../core/state/waits";

export interface MapOrg {
  workspaces: ReadonlyMap<string, Workspace>;
  waits: WaitsByAgent;
  tree: Tree;
  teams: ReadonlyMap<string, Team>;
  folded: ReadonlySet<string>;
  matches: ReadonlySet<string> | null;
  fold: (id: string, folded: boolean) => void;
}
