/** A delegation with its tree: read once, then updated by the live connection. */

import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { useData, useSession } from "../../core/app";
import { ApiError, errorText } from "../../core/api/api";
import { ofHistory, type Delegation } from "../../core/state/delegations";
import { useStored } from "../../core/store/store";
import { nodesOf, pathTo, treeOf, withLive, type Branch } from "./tree";
import type { DelegationDetail } from "../../core/wire";

/** Changes within this time cause one read of what only the server has (timeline, full answer). */
const GATHER_MS = 300;

export interface DelegationRead {
  full: DelegationDetail | null;
  problem: string | null;
  /** It does not exist, or this person may not see it. */
  missing: boolean;
  retry: () => void;
}

/** Read one delegation, and again when its state changes or after a reconnect. */
export function useDelegationDetail(id: string | null): DelegationRead {
  const session = useSession();
  const lost = useStored(session.connection.view).mode === "lost";
  const version = useData((state) => versionOf(state.delegations.get(id ?? "")));
  const [full, setFull] = useState<DelegationDetail | null>(null);
  const [failure, setFailure] = useState<{ words: string; missing: boolean } | null>(null);
  const [turn, setTurn] = useState(0);
  const known = full?.delegation.delegation_id === id ? full : null;
  const isFirst = known === null;
  const isNew = isFirst || (version !== "" && version !== versionOf(ofHistory(known.delegation)));
  const wanted = useRef(id);
  wanted.current = id;
  // The first read sets the version itself: that must not cause another read.
  const change = isFirst ? "" : version;
  useEffect(() => {
    if (id === null || lost || !isNew) return;
    const read = (): void => {
      session.readDelegation(id).then(
        (found) => {
          if (wanted.current !== id) return;
          setFailure(null);
          setFull(found);
        },
        (error: unknown) => wanted.current === id && setFailure({ words: errorText(error), missing: error instanceof ApiError && error.status === 404 }),
      );
    };
    const timer = setTimeout(read, isFirst ? 0 : GATHER_MS);
    return () => clearTimeout(timer);
  }, [session, id, lost, isFirst, isNew, change, turn]);
  return {
    full: known,
    problem: known === null ? (failure?.words ?? null) : null,
    missing: failure?.missing ?? false,
    retry: useCallback(() => setTurn((each) => each + 1), []),
  };
}

function versionOf(one: Delegation | undefined): string {
  return one === undefined ? "" : `${one.status} ${one.phase} ${one.attempt}`;
}

export interface DelegationBranch extends DelegationRead {
  tree: readonly Branch[];
  /** From the top to the selected node. */
  path: readonly Branch[];
}

export function useDelegationTree(id: string, node: string | null): DelegationBranch {
  const read = useDelegationDetail(id);
  const delegations = useData((state) => state.delegations);
  const nodes = useMemo(() => (read.full === null ? [] : nodesOf(read.full.tree)), [read.full]);
  const tree = useMemo(() => treeOf(withLive(nodes, delegations), id), [nodes, delegations, id]);
  const path = useMemo(() => pathTo(tree, node ?? id), [tree, node, id]);
  return { ...read, tree, path };
}

/** The current state of the delegation. */
export function useDelegation(full: DelegationDetail): Delegation {
  const id = full.delegation.delegation_id;
  const live = useData((state) => state.delegations.get(id));
  return useMemo(() => live ?? ofHistory(full.delegation), [live, full]);
}
