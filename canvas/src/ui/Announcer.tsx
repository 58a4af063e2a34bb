/** The polite live region for announcements to screen readers. */

import { createStore, useStored } from "../core/store/store";

const announcement = createStore({ text: "", turn: 0 });

export function announce(text: string): void {
  announcement.update(({ turn }) => ({ text, turn: turn + 1 }));
}

export function Announcer() {
  const { text, turn } = useStored(announcement);
  // A repeated announcement is read only if the text differs.
  return (
    <div className="visually-hidden" role="status" aria-live="polite">
      {turn % 2 === 0 ? text : `${text}\u00a0`}
    </div>
  );
}
