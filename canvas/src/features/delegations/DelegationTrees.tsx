/** Trees of delegations and their timeline, which show the same rows. */

import { useMemo, useState } from "react";
import { useSeconds } from "../../ui/useSeconds";
import { plural } from "../../core/text/strings";
import { seconds } from "../../core/text/time";
import type { DelegationTimelineEntry } from "../../core/wire";
import { DelegationTimeline, type ExtraRow } from "./DelegationTimeline";
import { DelegationTree } from "./DelegationTree";
import { rowsOf, sums, type Branch, type Sums } from "./tree";
import css from "./DelegationView.module.css";

interface Props {
  title: string;
  tree: readonly Branch[];
  /** Timeline of the first delegation, if that is known. */
  facts?: readonly DelegationTimelineEntry[];
  /** What the timeline shows besides the delegations. */
  extra?: readonly ExtraRow[];
  onOpen: (id: string) => void;
}

export function DelegationTrees({ title, tree, facts = [], extra = [], onOpen }: Props) {
  const [folded, setFolded] = useState<ReadonlySet<string>>(new Set());
  const rows = useMemo(() => rowsOf(tree, folded), [tree, folded]);
  const runs = tree.some((branch) => sums(branch, 0).open > 0) || extra.some((row) => row.until === null);
  const now = useSeconds(runs);
  const fold = (id: string, away: boolean): void => {
    setFolded((before) => {
      const next = new Set(before);
      if (away) next.add(id);
      else next.delete(id);
      return next;
    });
  };
  return (
    <>
      {tree.length > 0 && (
        <section className={css.section} aria-label="Tree">
          <h3>{title}</h3>
          <p className={css.quiet}>{sumText(totalOf(tree, now))}</p>
          <DelegationTree rows={rows} now={now} onOpen={onOpen} onFold={fold} />
        </section>
      )}
      {rows.length + extra.length > 0 && <DelegationTimeline rows={rows} facts={facts} extra={extra} now={now} />}
    </>
  );
}

function totalOf(tree: readonly Branch[], now: number): Sums {
  const total: Sums = { nodes: 0, open: 0, failed: 0, waiting: 0, working: 0 };
  for (const branch of tree) {
    const own = sums(branch, now);
    for (const name of Object.keys(total) as (keyof Sums)[]) total[name] += own[name];
  }
  return total;
}

function sumText({ nodes, open, failed, waiting, working }: Sums): string {
  return [plural(nodes, "delegation"), `${open} open`, `${failed} failed`, `waited ${seconds(waiting)}`, `worked ${seconds(working)}`].join(" · ");
}
