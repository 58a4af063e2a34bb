/** The service worker: keeps the files of the page, so that the page opens without a connection to its server.
 *
 * Only files of the build, which are the same for everyone, are kept. Responses of the API are never kept, and requests for
 * the kept files carry no cookie. */

/** The files of this build; put in by `serviceWorker.ts`. */
declare const __SHELL__: { version: string; files: readonly string[] };

/** The global object. The types know only that it is one of a worker. */
const worker = self as unknown as ServiceWorkerGlobalScope;
const { version, files } = __SHELL__;
const PREFIX = "molecule-shell-";
const NAME = PREFIX + version;
const SCOPE = new URL("./", worker.location.href).href;
const PAGE = SCOPE;
/** A server that takes longer to send the page counts as away, if the page is kept. */
const PATIENCE_MS = 4_000;
/** What a proxy answers for a server that is away. */
const AWAY = [502, 504];

worker.addEventListener("install", (event) => {
  routeAround(event);
  event.waitUntil(fill().then(() => worker.skipWaiting()));
});

worker.addEventListener("activate", (event) => event.waitUntil(dropOld().then(() => worker.clients.claim())));

// A logout removes what is kept; the page asks for it anew after the next login, for a worker is installed only once.
worker.addEventListener("message", (event) => {
  if (event.data === "fill") event.waitUntil(fill());
});

worker.addEventListener("fetch", (event) => {
  const { request } = event;
  if (request.method !== "GET" || !request.url.startsWith(SCOPE)) return;
  if (request.mode === "navigate") event.respondWith(answerPage(request));
  else if (request.url.startsWith(`${SCOPE}assets/`)) event.respondWith(answerFile(request));
});

/** Where the browser can, requests of the API do not wait for this worker to start. */
function routeAround(event: ExtendableEvent): void {
  const routes = event as ExtendableEvent & { addRoutes?: (rules: unknown) => Promise<void> };
  try {
    void routes.addRoutes?.({ condition: { not: { urlPattern: `${SCOPE}*` } }, source: "network" }).catch(() => undefined);
  } catch {
    // An older form of this interface: requests pass through `fetch` above.
  }
}

/** Read the files that are not kept yet. */
async function fill(): Promise<void> {
  const cache = await caches.open(NAME);
  const kept = new Set((await cache.keys()).map((request) => request.url));
  const missing = files.map((name) => SCOPE + name).filter((url) => !kept.has(url));
  await cache.addAll(missing.map((url) => new Request(url, { credentials: "omit" })));
  if (!kept.has(PAGE)) await cache.add(new Request(PAGE, { credentials: "omit", cache: "no-cache" }));
}

/** Keep this version and the one before it: open pages of that one may still ask for its parts. */
async function dropOld(): Promise<void> {
  const others = (await caches.keys()).filter((name) => name.startsWith(PREFIX) && name !== NAME);
  await Promise.all(others.slice(0, -1).map((name) => caches.delete(name)));
}

/** The page of the server, so that it is never older than the server; without a server the kept one. */
async function answerPage(request: Request): Promise<Response> {
  const asked = fetch(request);
  const late = new Promise<null>((done) => setTimeout(done, PATIENCE_MS, null));
  const answer = await Promise.race([asked.catch(() => null), late]);
  if (answer !== null && !AWAY.includes(answer.status)) return answer;
  const kept = await (await caches.open(NAME)).match(PAGE, { ignoreVary: true });
  return kept ?? asked;
}

/** The name of a file contains a hash of its content, so a kept one is never stale. */
async function answerFile(request: Request): Promise<Response> {
  return (await caches.match(request, { ignoreVary: true })) ?? fetch(request);
}
