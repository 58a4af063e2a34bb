/** How many wait for this person: messages that were not read, or what `word` says. */

import { countText } from "../state/attention";
import css from "./Badge.module.css";

export function Badge({ unread, word = "unread" }: { unread: number; word?: string }) {
  if (unread === 0) return null;
  return (
    <span className={css.badge}>
      {countText(unread)}
      <span className="visually-hidden"> {word}</span>
    </span>
  );
}
