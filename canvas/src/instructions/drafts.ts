/** What a person has changed in templates and not saved. It stays while the page is open, whatever view is shown. */

import { useEffect } from "react";
import { createStore, useSelected } from "../state/store";
import { sameParts, type Parts, type Template } from "./model";

interface Draft {
  parts: Parts;
  /** The version that it was begun from. */
  from: number;
}

const all = createStore<ReadonlyMap<string, Draft>>(new Map());

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

/** The browser asks before it leaves a page with unsaved changes. */
export function useGuard(): void {
  useEffect(() => {
    const ask = (event: BeforeUnloadEvent): void => {
      if (all.get().size > 0) event.preventDefault();
    };
    window.addEventListener("beforeunload", ask);
    return () => window.removeEventListener("beforeunload", ask);
  }, []);
}

/** For tests: nobody has changed anything. */
export function forgetDrafts(): void {
  all.set(new Map());
}
