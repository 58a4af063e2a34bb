/** An unread count, or a count of what `word` says. A count of problems differs in shape too. */

import { countText } from "../core/text/strings";
import css from "./Badge.module.css";

export function Badge({ unread, word = "unread", wrong = false }: { unread: number; word?: string; wrong?: boolean }) {
  if (unread === 0) return null;
  return (
    <span className={`${css.badge} ${wrong ? css.wrong : ""}`} title={wrong ? `${countText(unread)} ${word}` : undefined}>
      {wrong && "! "}
      {countText(unread)}
      <span className="visually-hidden"> {word}</span>
    </span>
  );
}
