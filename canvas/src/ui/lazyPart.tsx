/** Parts of the page outside of its first script: loaded after the first render, or earlier when needed, so that they are
 * available while the server is not. */

import { lazy, useState, type ComponentType } from "react";

const parts: (() => Promise<unknown>)[] = [];
/** Pauses between attempts to load a part that is needed, in milliseconds: about two minutes, as long as a server restarts. */
const RETRY_PAUSES_MS = [500, 1_000, 2_000, 5_000, 10_000, 20_000, 30_000, 60_000];

/** Load again after a failure, since the connection may be away. Throws the error of the last attempt. */
export function retrying<T>(load: () => Promise<T>): () => Promise<T> {
  return async () => {
    for (const pause of RETRY_PAUSES_MS) {
      try {
        return await load();
      } catch {
        await connectionOr(pause);
      }
    }
    return load();
  };
}

/** Wait for the browser's connection, or this long if it says that it has one. */
function connectionOr(pause: number): Promise<void> {
  return new Promise((done) => {
    if (navigator.onLine) setTimeout(done, pause);
    else addEventListener("online", () => done(), { once: true });
  });
}

/** A component that is loaded when it is needed, or by `preload`. */
type LazyPart<Props> = ComponentType<Props> & { preload: () => Promise<unknown> };

/** Renders at once if it is already loaded; otherwise the Suspense fallback is shown. */
export function lazyPart<Props extends object>(load: () => Promise<ComponentType<Props>>): LazyPart<Props> {
  let loaded: ComponentType<Props> | null = null;
  const take = async (): Promise<ComponentType<Props>> => (loaded ??= await load());
  const Waiting = lazy(async () => ({ default: await retrying(take)() })) as unknown as ComponentType<Props>;
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
