/** What a person has changed in templates and not saved. It stays while the page is open, whatever view is shown. */

import { createStore, useSelected } from "../state/store";
import { sameParts, type Parts, type Template } from "./model";

interface Draft {
  parts: Parts;
  /** The version that it was begun from. */
  from: number;
}

const all = createStore<ReadonlyMap<string, Draft>>(new Map());

/** The browser asks before it leaves a page with unsaved changes, whatever view is shown. Where there are none nothing
 * listens: some browsers keep no page for the way back that could ask. */
const ask = (event: BeforeUnloadEvent): void => event.preventDefault();
all.subscribe(() => (all.get().size > 0 ? window.addEventListener("beforeunload", ask) : window.removeEventListener("beforeunload", ask)));

export function useDraft(key: string, template: Template): { parts: Parts; dirty: boolean; from: number; change: (parts: Parts) => void; drop: () => void } {
  const draft = useSelected(all, (drafts) => drafts.get(key));
  const change = (parts: Parts): void => {
    const same = sameParts(parts, template.parts);
    all.update((drafts) => {
      const next = new Map(drafts);
      if (same) next.delete(key);
      else next.set(key, { parts, from: draft?.from ?? template.version });
      return next;
    });
  };
  const drop = (): void => {
    all.update((drafts) => {
      const next = new Map(drafts);
      next.delete(key);
      return next;
    });
  };
  return { parts: draft?.parts ?? template.parts, dirty: draft !== undefined, from: draft?.from ?? template.version, change, drop };
}

/** For tests: nobody has changed anything. */
export function forgetDrafts(): void {
  all.set(new Map());
}
