/** Unsaved changes of templates. */

import { useEffect } from "react";
import { useApp, useSession } from "../../core/app";
import { useSelected } from "../../core/store/store";
import { ownerKey } from "../../core/store/unsaved";
import { sameParts, type Parts, type Template, type TemplateDraft } from "./model";

export function useDraft(template: Template): { parts: Parts; dirty: boolean; from: number; change: (parts: Parts) => void; drop: () => void } {
  const { unsaved } = useApp();
  const key = ownerKey(useSession().identity) + template.id;
  const draft = useSelected(unsaved.all, (drafts) => drafts.get(key) as TemplateDraft | undefined); // only this module writes keys of templates
  const drop = (): void => unsaved.remove(key);
  const put = (value: TemplateDraft): void => unsaved.set(key, value);
  const change = (parts: Parts): void => (sameParts(parts, template.parts) ? drop() : put({ parts, from: draft?.from ?? template.version }));
  return { parts: draft?.parts ?? template.parts, dirty: draft !== undefined, from: draft?.from ?? template.version, change, drop };
}

/** Drop the changes of a removed template, which can no longer be saved. */
export function useForgetDraft(): (templateId: string) => void {
  const { unsaved } = useApp();
  const own = ownerKey(useSession().identity);
  return (templateId) => unsaved.remove(own + templateId);
}

/** Drop the changes of all templates that are no longer listed; null: the list was not read yet. */
export function useForgetRemoved(there: readonly { id: string }[] | null): void {
  const { unsaved } = useApp();
  const own = ownerKey(useSession().identity);
  useEffect(() => {
    if (there === null) return;
    const keys = new Set(there.map(({ id }) => own + id));
    unsaved.retain((key) => !key.startsWith(own) || keys.has(key));
  }, [unsaved, own, there]);
}
