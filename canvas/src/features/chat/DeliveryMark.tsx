/** The delivery state of a person's message, and whether it was answered. */

import { useState } from "react";
import { Icon } from "../../ui/Icon";
import { useNow } from "../../ui/useNow";
import type { Obligation } from "../../core/state/obligations";
import type { Tick } from "./conversationItems";
import css from "../../ui/TimelineItem.module.css";
import { deliveryText } from "./deliveryText";
import { DeliveryTimes } from "./DeliveryTimes";

interface Props {
  /** The agent that the message is for. */
  workspaceId: string;
  /** Null while the server does not have the message. */
  messageId: string | null;
  tick: Tick;
  obligation: Obligation | null;
  waits: string | null;
}

/** A press on it shows when the message reached each step. */
export function DeliveryMark({ workspaceId, messageId, tick, obligation, waits }: Props) {
  const { icon, words, bad } = deliveryText(tick, obligation, waits, useNow());
  const [open, setOpen] = useState(false);
  const look = `${css.tick} ${bad ? css.bad : ""}`;
  const shown = (
    <>
      <Icon name={icon} size={12} />
      <bdi>{words}</bdi>
    </>
  );
  if (messageId === null) return <span className={look}>{shown}</span>;
  return (
    <>
      <button type="button" className={look} aria-expanded={open} title="Show delivery times" onClick={() => setOpen(!open)}>
        {shown}
      </button>
      {open && <DeliveryTimes key={tick} workspaceId={workspaceId} messageId={messageId} />}
    </>
  );
}
