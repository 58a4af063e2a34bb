/** The frame of a team: lead, size and status counts. Collapsing here, by a click on the title, is for the pointer; keys do it
 * in the outline. */

import { memo } from "react";
import { useData } from "../core/app";
import { Icon } from "../ui/Icon";
import { AgentStatusGlyph } from "../ui/AgentStatusMark";
import { STATUS_TEXTS } from "../core/state/agentStatus";
import { plural } from "../core/text/strings";
import type { Team } from "../core/state/teams";
import css from "./OrgMap.module.css";

interface Props {
  id: string;
  x: number;
  y: number;
  w: number;
  h: number;
  depth: number;
  /** Height of the title. */
  title: number;
  /** The title has room for its text. */
  titled: boolean;
  team: Team;
}

export const TeamFrame = memo(function TeamFrame({ id, x, y, w, h, depth, title, titled, team: { size, counts, worst } }: Props) {
  const name = useData((state) => state.workspaces.get(id)?.name);
  return (
    <div className={`${css.frame} ${depth % 2 === 1 ? css.deep : ""}`} style={{ transform: `translate(${x}px, ${y}px)`, width: w, height: h }}>
      <div className={css.title} data-title style={{ height: title, "--title": `${title}px` } as React.CSSProperties} hidden={!titled}>
        <span className={css.fold} data-fold={id} title={`Collapse team: ${name}, ${plural(size, "agent")}`}>
          <Icon name="right" size={12} />
          <span className={css.worst} title={STATUS_TEXTS[worst]}>
            <AgentStatusGlyph status={worst} />
          </span>
          <span className={css.team} data-name>{name}</span>
          <span className={css.size}>
            <span>{size}</span>
          </span>
        </span>
        <span className={css.unit} data-line-end aria-hidden="true">
          <span data-unit>{size === 1 ? " agent" : " agents"}</span>
        </span>
        <span className={css.counts} data-line-end title={[...counts].map(([status, count]) => `${count} ${STATUS_TEXTS[status]}`).join(", ")}>
          {[...counts].map(([status, count]) => (
            <span key={status} className={css.count} data-count>
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
