/** The delivery state of a person's message, and whether it was answered. */

import { Icon } from "../../ui/Icon";
import { useNow } from "../../ui/useNow";
import type { Obligation } from "../../core/state/obligations";
import type { Tick } from "./conversationItems";
import css from "../../ui/TimelineItem.module.css";
import { deliveryText } from "./deliveryText";

export function DeliveryMark({ tick, obligation, waits }: { tick: Tick; obligation: Obligation | null; waits: string | null }) {
  const { icon, words, bad } = deliveryText(tick, obligation, waits, useNow());
  return (
    <span className={`${css.tick} ${bad ? css.bad : ""}`}>
      <Icon name={icon} size={12} />
      <bdi>{words}</bdi>
    </span>
  );
}
