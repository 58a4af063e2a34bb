import { afterEach, expect, test, vi } from "vitest";
import { registerShellWorker, removeShellWorker } from "./shellWorker";

afterEach(() => {
  Reflect.deleteProperty(navigator, "serviceWorker");
  document.head.replaceChildren();
});

/** The caches of a browser, by name, each with the addresses of what it keeps. */
function keep(kept: Record<string, readonly string[]>): Record<string, readonly string[]> {
  vi.stubGlobal("caches", {
    keys: () => Promise.resolve(Object.keys(kept)),
    open: (name: string) => Promise.resolve({ match: (url: string) => Promise.resolve(kept[name]?.includes(url) ? {} : undefined) }),
    delete: (name: string) => Promise.resolve(delete kept[name]),
  });
  return kept;
}

class Worker extends EventTarget {
  state = "installing";

  becomes(state: string): void {
    this.state = state;
    this.dispatchEvent(new Event("statechange"));
  }
}

function offer(register: () => Promise<unknown>): { registration: EventTarget & { installing: Worker; active: null; unregister: () => Promise<boolean> } } {
  const registration = Object.assign(new EventTarget(), { installing: new Worker(), active: null, unregister: vi.fn(() => Promise.resolve(true)) });
  Object.defineProperty(navigator, "serviceWorker", { configurable: true, value: { register: () => register().then(() => registration), getRegistration: () => Promise.resolve(registration) } });
  return { registration };
}

async function updated(newest: readonly string[]): Promise<boolean> {
  const { registration } = offer(() => Promise.resolve());
  document.head.append(Object.assign(document.createElement("script"), { type: "module", src: "http://localhost/app/assets/index-old.js" }));
  keep({ "molecule-shell-1": ["http://localhost/app/assets/index-old.js"], "molecule-shell-2": newest, other: [] });
  let told = false;
  await registerShellWorker(() => (told = true));
  registration.dispatchEvent(new Event("updatefound"));
  registration.installing.becomes("installed");
  registration.installing.becomes("activated");
  await vi.waitFor(() => Promise.resolve());
  for (let turn = 0; turn < 8; turn += 1) await Promise.resolve();
  return told;
}

test("a page whose script is not among the newest files is reported as outdated, and another one is not", async () => {
  expect(await updated(["http://localhost/app/assets/index-new.js"])).toBe(true);
  expect(await updated(["http://localhost/app/assets/index-old.js"])).toBe(false);
});

test("without service workers, or where one is refused, nothing happens", async () => {
  await expect(registerShellWorker(() => undefined)).resolves.toBeUndefined();
  await expect(removeShellWorker()).resolves.toBeUndefined();
  offer(() => Promise.reject(new Error("private window")));
  await expect(registerShellWorker(() => undefined)).resolves.toBeUndefined();
});

test("the worker and its caches are removed, and no others", async () => {
  const { registration } = offer(() => Promise.resolve());
  const kept = keep({ "molecule-shell-1": [], "molecule-shell-2": [], other: [] });
  await removeShellWorker();
  expect(Object.keys(kept)).toEqual(["other"]);
  expect(registration.unregister).toHaveBeenCalledOnce();
});
