/** One agent on the map: name, status and task. */

import { memo } from "react";
import { useData } from "../core/app";
import { Avatar } from "../ui/Avatar";
import { Badge } from "../ui/Badge";
import { AgentStatusGlyph, AgentStatusMark } from "../ui/AgentStatusMark";
import { countUnanswered } from "../core/state/obligationUpdates";
import { STATUS_TEXTS, taskOf, type AgentStatus } from "../core/state/agentStatus";
import css from "./OrgMap.module.css";

interface Props {
  id: string;
  x: number;
  y: number;
  selected: boolean;
  dimmed: boolean;
  /** For a collapsed team: the number of descendants, and the worst status. */
  below: number;
  worst: AgentStatus;
}

export const Card = memo(function Card({ id, x, y, selected, dimmed, below, worst }: Props) {
  const workspace = useData((state) => state.workspaces.get(id));
  const unread = useData((state) => state.chats.get(id)?.unread ?? 0);
  const unanswered = useData((state) => countUnanswered(state.unanswered.get(id)));
  if (!workspace) return null;
  const task = taskOf(workspace);
  const names = [css.card, selected ? css.selected : "", dimmed ? css.dimmed : "", below > 0 ? css.stack : ""];
  return (
    <button
      type="button"
      tabIndex={-1}
      data-id={id}
      aria-current={selected ? "true" : undefined}
      className={names.join(" ")}
      style={{ transform: `translate(${x}px, ${y}px)` }}
    >
      <span className={css.top}>
        <Avatar id={id} name={workspace.name} />
        <span className={css.who}>
          <span className={css.name}>{workspace.name}</span>
          <AgentStatusMark workspace={workspace} />
        </span>
        <span className={css.badges}>
          <Badge unread={unanswered} word="unanswered" wrong />
          <Badge unread={unread} />
        </span>
      </span>
      <span className={task === null ? css.role : css.task}>{task ?? workspace.role}</span>
      {below > 0 && (
        <span className={css.below} data-unfold={id} title={`Expand team: ${below + 1} agents, ${STATUS_TEXTS[worst].toLowerCase()}`}>
          <AgentStatusGlyph status={worst} />+{below}
        </span>
      )}
    </button>
  );
});
