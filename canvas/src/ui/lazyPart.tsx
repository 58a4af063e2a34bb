/** Parts of the page that are not in its first script: they are loaded once the first picture stands, and at once where
 * somebody is faster. So they are there too while the server is not. */

import { lazy, useState, type ComponentType } from "react";

const parts: (() => Promise<unknown>)[] = [];

/** A part that stands at once where it is loaded already; else what waits for it shows its fallback. */
export function lazyPart<Props extends object>(load: () => Promise<ComponentType<Props>>): ComponentType<Props> {
  let loaded: ComponentType<Props> | null = null;
  const take = async (): Promise<ComponentType<Props>> => (loaded ??= await load());
  const Waiting = lazy(async () => ({ default: await take() })) as unknown as ComponentType<Props>;
  parts.push(take);
  return function Later(props: Props) {
    const [Part] = useState<ComponentType<Props>>(() => loaded ?? Waiting);
    return <Part {...props} />;
  };
}

/** Loads what has not been needed yet. What fails is loaded when it is needed. */
export async function preloadParts(): Promise<void> {
  await Promise.allSettled(parts.map((take) => take()));
}
