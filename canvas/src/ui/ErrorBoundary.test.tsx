import { render, screen } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { ErrorBoundary } from "./ErrorBoundary";

function Broken(): never {
  throw new Error("planted");
}

test("what breaks shows something simpler, and what stands beside it goes on", () => {
  const said = vi.spyOn(console, "error").mockImplementation(() => undefined);
  render(
    <>
      <ErrorBoundary fallback={<p>plain words</p>}>
        <Broken />
      </ErrorBoundary>
      <ErrorBoundary fallback={<p>never seen</p>}>
        <p>the neighbour</p>
      </ErrorBoundary>
    </>,
  );
  expect(screen.getByText("plain words")).toBeDefined();
  expect(screen.getByText("the neighbour")).toBeDefined();
  expect(screen.queryByText("never seen")).toBeNull();
  said.mockRestore();
});
