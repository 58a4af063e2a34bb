import { fireEvent, screen, within } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { rowsOf, treeOf, type DelegationNode } from "./tree";
import { TestPage } from "../../core/testing/testPage";
import { DelegationTimeline } from "./DelegationTimeline";

const BEGIN = Date.parse("2026-03-01T12:00:00Z");

/** The timeline of a waiting delegation that was created `seconds` ago. */
function shown(seconds: number): HTMLElement {
  const node: DelegationNode = {
    id: "d1",
    parentId: null,
    sourceId: "a",
    targetId: "b",
    targetName: "B",
    task: "Build it",
    status: "queued",
    phase: "waiting",
    attempt: 1,
    reason: null,
    error: null,
    advice: null,
    reply: null,
    createdAt: new Date(BEGIN).toISOString(),
    takenAt: null,
    settledAt: null,
    lifeAt: null,
    checks: 0,
    own: null,
  };
  new TestPage().load().show(<DelegationTimeline rows={rowsOf(treeOf([node]), new Set())} facts={[]} now={BEGIN + seconds * 1_000} />);
  return screen.getByRole("region", { name: "Timeline" });
}

const axis = (line: HTMLElement): (string | null)[] => [...line.querySelectorAll("[data-zoom] > [aria-hidden] > span")].map((each) => each.textContent);

test("the axis of work that takes days is told in hours, so that no two places have the same words", () => {
  const line = shown(72 * 3_600);
  expect(axis(line)).toEqual(["0:00", "18:00:00", "36:00:00", "54:00:00", "72:00:00"]);
  fireEvent.click(within(line).getByRole("button", { name: "Zoom in" }));
  const zoomed = axis(line);
  expect(zoomed.slice(-3)).toEqual(["54:00:00", "63:00:00", "72:00:00"]);
  expect(new Set(zoomed).size).toBe(zoomed.length);
});

test("places on the axis whose words are the same are each there, once", () => {
  const complained = vi.spyOn(console, "error").mockImplementation(() => undefined);
  const line = shown(1);
  const box = within(line).getByRole("group", { name: /^Timeline bars/ });
  for (let turn = 0; turn < 14; turn += 1) fireEvent.keyDown(box, { key: "+" });
  expect(axis(line)).toHaveLength(801);
  expect(new Set(axis(line)).size).toBeLessThan(801);
  expect(complained).not.toHaveBeenCalled();
  fireEvent.keyDown(box, { key: "0" });
  expect(axis(line)).toHaveLength(5);
  complained.mockRestore();
});
