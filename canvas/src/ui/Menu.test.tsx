import { fireEvent, render, screen } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { Menu } from "./Menu";

function open(): { chosen: string[]; onClose: () => void } {
  const chosen: string[] = [];
  const onClose = vi.fn();
  const items = ["Open", "Edit", "End"].map((label) => ({ label, run: () => void chosen.push(label) }));
  render(<Menu label="Actions" at={{ x: 5, y: 5 }} items={items} onClose={onClose} />);
  return { chosen, onClose };
}

const focused = (): string | null => document.activeElement?.textContent ?? null;
const press = (key: string): boolean => fireEvent.keyDown(document.activeElement ?? document.body, { key });

test("arrows go around, Home and End to the ends, letters to the next item that begins with them", () => {
  open();
  expect(focused()).toBe("Open");
  for (const [key, item] of [["ArrowUp", "End"], ["ArrowDown", "Open"], ["End", "End"], ["Home", "Open"], ["e", "Edit"], ["E", "End"], ["e", "Edit"], ["x", "Edit"]] as const) {
    press(key);
    expect([key, focused()]).toEqual([key, item]);
  }
});

test("an item closes the menu and runs; Escape, Tab and a press outside only close it", () => {
  const { chosen, onClose } = open();
  press("Escape");
  press("Tab");
  fireEvent.pointerDown(document.body);
  expect([chosen, vi.mocked(onClose).mock.calls.length]).toEqual([[], 3]);
  fireEvent.pointerDown(screen.getByRole("menuitem", { name: "Edit" }));
  expect(onClose).toHaveBeenCalledTimes(3);
  fireEvent.click(screen.getByRole("menuitem", { name: "Edit" }));
  expect([chosen, vi.mocked(onClose).mock.calls.length]).toEqual([["Edit"], 4]);
});
