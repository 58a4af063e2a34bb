import { act, fireEvent, screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { TestPage } from "../../core/testing/testPage";
import { largestWidth, limitedWidth, PanelSplitter } from "./PanelSplitter";

test.each([
  [null, 90, 26],
  [26, 90, 26],
  [5, 90, 20],
  [500, 90, 52],
  [500, 300, 60],
  [40, 50, 20],
])("a width of %j in a window of %j rem is %j", (width, room, expected) => {
  expect(limitedWidth(width, room)).toBe(expected);
  expect(expected).toBeLessThanOrEqual(largestWidth(room));
});

test("keys change the width within its limits, and a double click resets it", () => {
  window.innerWidth = 1440;
  const made = new TestPage();
  made.server.do({ verb: "create", id: "a", parent: null });
  made.load();
  made.show(<PanelSplitter />);
  const splitter = screen.getByRole("separator", { name: "Width of the panel" });
  const width = (): string | null => splitter.getAttribute("aria-valuenow");
  const press = (key: string, shiftKey = false): void => act(() => void fireEvent.keyDown(splitter, { key, shiftKey }));
  expect(width()).toBe("26");
  press("ArrowLeft");
  expect(width()).toBe("27");
  press("ArrowRight", true);
  expect(width()).toBe("22");
  press("Home");
  press("ArrowRight");
  expect(width()).toBe("20");
  press("End");
  press("ArrowLeft");
  expect(width()).toBe("52");
  expect(splitter.getAttribute("aria-valuemax")).toBe("52");
  expect(splitter.parentElement?.style.getPropertyValue("--panel")).toBe("52rem");
  act(() => void fireEvent.doubleClick(splitter));
  expect(width()).toBe("26");
});
