import { expect, test, vi } from "vitest";
import { createStore } from "./store";

test("a watcher that throws keeps the change from no other one, nor from who makes it, and is reported", () => {
  const reported = vi.fn();
  vi.stubGlobal("reportError", reported);
  const store = createStore(0);
  const seen: number[] = [];
  const fault = new TypeError("Illegal constructor");
  store.subscribe(() => {
    throw fault;
  });
  store.subscribe(() => seen.push(store.get()));
  store.set(1);
  store.update((value) => value + 1);
  expect(seen).toEqual([1, 2]);
  expect(reported.mock.calls).toEqual([[fault], [fault]]);
});
