import { act, render, screen } from "@testing-library/react";
import { Suspense } from "react";
import { expect, test, vi } from "vitest";
import { lazyPart, preloadParts, retrying } from "./lazyPart";

const Text = ({ words }: { words: string }) => <p>{words}</p>;

function show(Part: React.ComponentType<{ words: string }>) {
  return render(
    <Suspense fallback={<p>wait</p>}>
      <Part words="here" />
    </Suspense>,
  );
}

test("a part that is needed before it is loaded is waited for", async () => {
  let give = (): void => undefined;
  const Part = lazyPart(() => new Promise<typeof Text>((done) => (give = () => done(Text))));
  await act(async () => void show(Part));
  expect(screen.getByText("wait")).toBeTruthy();
  await act(async () => give());
  expect(screen.getByText("here")).toBeTruthy();
});

test("what was loaded beforehand stands at once, and is loaded once", async () => {
  let loads = 0;
  const Part = lazyPart(async () => {
    loads += 1;
    return Text;
  });
  await preloadParts();
  show(Part);
  expect(screen.getByText("here")).toBeTruthy();
  await preloadParts();
  expect(loads).toBe(1);
});

test("what failed beforehand is loaded when it is needed, and keeps nothing else from being loaded", async () => {
  let loads = 0;
  const Part = lazyPart(async () => {
    loads += 1;
    if (loads === 1) throw new Error("no connection");
    return Text;
  });
  await preloadParts();
  await act(async () => void show(Part));
  expect(screen.getByText("here")).toBeTruthy();
  expect(loads).toBe(2);
});

test("the parts of a part are loaded beforehand too", async () => {
  let loads = 0;
  lazyPart(async () => {
    lazyPart(async () => {
      loads += 1;
      return Text;
    });
    return Text;
  });
  await preloadParts();
  expect(loads).toBe(1);
});

test("a part that is needed while the server is away is waited for, and the page stays", async () => {
  vi.useFakeTimers();
  let isAway = true;
  const Part = lazyPart(async () => {
    if (isAway) throw new TypeError("Failed to fetch dynamically imported module");
    return Text;
  });
  await act(async () => void show(Part));
  expect(screen.getByText("wait")).toBeTruthy();
  isAway = false;
  await act(async () => vi.advanceTimersByTimeAsync(500));
  expect(screen.getByText("here")).toBeTruthy();
  vi.useRealTimers();
});

test("nothing is tried while the browser is offline, and again as soon as it is back", async () => {
  const online = vi.spyOn(navigator, "onLine", "get").mockReturnValue(false);
  let tries = 0;
  const loading = retrying(async () => {
    tries += 1;
    if (!navigator.onLine) throw new TypeError("Failed to fetch dynamically imported module");
    return "loaded";
  })();
  await vi.waitFor(() => expect(tries).toBe(1));
  online.mockReturnValue(true);
  dispatchEvent(new Event("online"));
  expect(await loading).toBe("loaded");
  expect(tries).toBe(2);
  online.mockRestore();
});

test("a part that is gone for good is an error after the last attempt", async () => {
  vi.useFakeTimers();
  let tries = 0;
  const loading = retrying(() => {
    tries += 1;
    return Promise.reject(new Error("404"));
  })();
  const seen = expect(loading).rejects.toThrow("404");
  await vi.runAllTimersAsync();
  await seen;
  expect(tries).toBe(9);
  vi.useRealTimers();
});
