/** How many messages were not read. */

import { countText } from "../state/attention";
import css from "./Badge.module.css";

export function Badge({ unread }: { unread: number }) {
  if (unread === 0) return null;
  return (
    <span className={css.badge}>
      {countText(unread)}
      <span className="visually-hidden"> unread</span>
    </span>
  );
}
