/** The service worker that keeps the files of the page (`worker/worker.ts`). Only secure pages have one: over plain HTTP from
 * another machine everything works but a start without connection. */

import { workerUrl } from "./workerUrl";

const SCOPE = "/app/";
const CACHES = "molecule-shell-";

/** Register the worker. `onUpdate`: the server has another version of the page than this one. */
export async function registerShellWorker(onUpdate: () => void): Promise<void> {
  if (!("serviceWorker" in navigator)) return;
  try {
    const registration = await navigator.serviceWorker.register(workerUrl());
    registration.active?.postMessage("fill");
    registration.addEventListener("updatefound", () => {
      const worker = registration.installing;
      worker?.addEventListener("statechange", () => {
        if (worker.state === "activated") void isOutdated().then((outdated) => outdated && onUpdate());
      });
    });
  } catch {
    // A browser may refuse a worker, in private windows for example. The page works without.
  }
}

/** Look for another version: after a connection was lost, the server may have been updated. */
export async function updateShellWorker(): Promise<void> {
  if (!("serviceWorker" in navigator)) return;
  const registration = await navigator.serviceWorker.getRegistration(SCOPE);
  await registration?.update().catch(() => undefined);
}

/** Remove the worker and all that it keeps. */
export async function removeShellWorker(): Promise<void> {
  if (!("serviceWorker" in navigator)) return;
  const registration = await navigator.serviceWorker.getRegistration(SCOPE);
  const kept = (await caches.keys()).filter((name) => name.startsWith(CACHES));
  await Promise.all([registration?.unregister(), ...kept.map((name) => caches.delete(name))]);
}

/** Whether the newest kept version lacks the script of this page. */
async function isOutdated(): Promise<boolean> {
  const own = document.querySelector<HTMLScriptElement>("script[type=module][src]")?.src;
  const newest = (await caches.keys()).filter((name) => name.startsWith(CACHES)).at(-1);
  if (own === undefined || newest === undefined) return false;
  return (await (await caches.open(newest)).match(own, { ignoreVary: true })) === undefined;
}
