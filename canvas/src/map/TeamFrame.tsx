/** The frame of a team: lead, size and status counts. Collapsing here is for the pointer; keys do it in the outline. */

import { memo } from "react";
import { useData } from "../core/app";
import { Icon } from "../ui/Icon";
import { AgentStatusGlyph } from "../ui/AgentStatusMark";
import { STATUS_TEXTS, type Counts } from "../core/state/agentStatus";
import css from "./OrgMap.module.css";

interface Props {
  id: string;
  x: number;
  y: number;
  w: number;
  h: number;
  depth: number;
  size: number;
  counts: Counts;
}

export const TeamFrame = memo(function TeamFrame({ id, x, y, w, h, depth, size, counts }: Props) {
  const name = useData((state) => state.workspaces.get(id)?.name);
  return (
    <div className={`${css.frame} ${depth % 2 === 1 ? css.deep : ""}`} style={{ transform: `translate(${x}px, ${y}px)`, width: w, height: h }}>
      <div className={css.title}>
        <span className={css.fold} data-fold={id} title="Collapse team" aria-hidden="true">
          <Icon name="right" size={12} />
        </span>
        <span className={css.team}>{name}</span>
        <span className={css.size}>{size} agents</span>
        <span className={css.counts}>
          {[...counts].map(([status, count]) => (
            <span key={status} className={css.count} title={`${count} ${STATUS_TEXTS[status]}`}>
              <AgentStatusGlyph status={status} />
              {count}
              <span className="visually-hidden"> {STATUS_TEXTS[status]}</span>
            </span>
          ))}
        </span>
      </div>
    </div>
  );
});
