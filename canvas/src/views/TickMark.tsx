/** How far a person's message has come, and whether it was answered. */

import { Icon } from "../parts/Icon";
import { useNow } from "../parts/now";
import type { Obligation } from "../state/owed";
import type { Tick } from "../state/conversation";
import css from "./MessageItem.module.css";
import { tickWords } from "./tickWords";

export function TickMark({ tick, obligation, waits }: { tick: Tick; obligation: Obligation | null; waits: string | null }) {
  const { icon, words, bad } = tickWords(tick, obligation, waits, useNow());
  return (
    <span className={`${css.tick} ${bad ? css.bad : ""}`}>
      <Icon name={icon} size={12} />
      <bdi>{words}</bdi>
    </span>
  );
}
