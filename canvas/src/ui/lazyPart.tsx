/** Parts of the page outside of its first script: loaded after the first render, or earlier when needed, so that they are
 * available while the server is not. */

import { lazy, useState, type ComponentType } from "react";

const parts: (() => Promise<unknown>)[] = [];

/** A component that is loaded when it is needed, or by `preload`. */
type LazyPart<Props> = ComponentType<Props> & { preload: () => Promise<unknown> };

/** Renders at once if it is already loaded; otherwise the Suspense fallback is shown. */
export function lazyPart<Props extends object>(load: () => Promise<ComponentType<Props>>): LazyPart<Props> {
  let loaded: ComponentType<Props> | null = null;
  const take = async (): Promise<ComponentType<Props>> => (loaded ??= await load());
  const Waiting = lazy(async () => ({ default: await take() })) as unknown as ComponentType<Props>;
  parts.push(take);
  function Later(props: Props) {
    const [Part] = useState<ComponentType<Props>>(() => loaded ?? Waiting);
    return <Part {...props} />;
  }
  return Object.assign(Later, { preload: take });
}

/** Load all parts that are not loaded yet, and the parts of those. One that fails is loaded when it is needed. */
export async function preloadParts(): Promise<void> {
  for (let begun = 0; begun < parts.length; ) {
    const next = parts.slice(begun);
    begun = parts.length;
    await Promise.allSettled(next.map((take) => take()));
  }
}
