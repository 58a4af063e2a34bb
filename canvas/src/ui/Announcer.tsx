/** The one polite live region: what screen readers are told beside what they read. */

import { createStore, useStored } from "../core/store/store";

const said = createStore({ text: "", turn: 0 });

export function announce(text: string): void {
  said.update(({ turn }) => ({ text, turn: turn + 1 }));
}

export function Announcer() {
  const { text, turn } = useStored(said);
  // The same words twice are told twice only if the text differs.
  return (
    <div className="visually-hidden" role="status" aria-live="polite">
      {turn % 2 === 0 ? text : `${text}\u00a0`}
    </div>
  );
}
