/** The organisation as the map draws it. */

import type { PendingApproval } from "../core/state/approvals";
import type { Workspace } from "../core/state/model";
import type { Team } from "../core/state/teams";
import type { Tree } from "../core/state/tree";

export interface MapOrg {
  workspaces: ReadonlyMap<string, Workspace>;
  /** Pending approvals by the workspace that waits for them. */
  pendingApprovals: ReadonlyMap<string, PendingApproval>;
  tree: Tree;
  teams: ReadonlyMap<string, Team>;
  folded: ReadonlySet<string>;
  matches: ReadonlySet<string> | null;
  fold: (id: string, folded: boolean) => void;
}
