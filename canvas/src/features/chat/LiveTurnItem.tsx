/** A running turn of the agent, at the end of its chat. */

import { useMemo } from "react";
import { Avatar } from "../../ui/Avatar";
import { isEnded, unsaidText, type LiveTurn } from "../../core/state/liveTurns";
import type { Line } from "../../core/state/model";
import css from "../../ui/TimelineItem.module.css";
import { LiveTurnCard } from "../liveTurns/LiveTurnCard";

interface Props {
  turn: LiveTurn;
  agentName: string;
  lines: readonly Line[];
}

export function LiveTurnItem({ turn, agentName, lines }: Props) {
  const isOfChat = lines.some(({ id }) => id === turn.activityId);
  const said = useMemo(() => lines.filter(({ author, at }) => author === "agent" && at >= turn.startedAt).map((line) => line.text), [lines, turn.startedAt]);
  const text = isOfChat ? unsaidText(turn, said) : "";
  // The answer has taken the place of the text, or none came.
  if (isEnded(turn) && (text === "" || said.length > 0)) return null;
  return (
    <li className={css.message} data-turn={turn.activityId}>
      <span className={css.face}>
        <Avatar id={turn.workspaceId} name={agentName} />
      </span>
      <LiveTurnCard turn={turn} agentName={agentName} text={text} {...(isOfChat ? {} : { note: "Another message" })} />
    </li>
  );
}
