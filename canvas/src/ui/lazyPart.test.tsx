import { act, render, screen } from "@testing-library/react";
import { Suspense } from "react";
import { expect, test } from "vitest";
import { lazyPart, preloadParts } from "./lazyPart";

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
