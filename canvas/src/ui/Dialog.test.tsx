import { fireEvent, render, screen } from "@testing-library/react";
import { beforeEach, expect, test, vi } from "vitest";
import { stubWindow } from "../core/testing/testPage";
import { Dialog } from "./Dialog";

beforeEach(stubWindow);

function shown() {
  const onClose = vi.fn();
  render(
    <Dialog label="Add a seat" onClose={onClose}>
      <input aria-label="Name" />
    </Dialog>,
  );
  return { onClose, dialog: screen.getByRole("dialog"), field: screen.getByLabelText("Name") };
}

test("a press outside of a dialog closes it", () => {
  const { onClose, dialog } = shown();
  fireEvent.pointerDown(dialog);
  fireEvent.click(dialog);
  expect(onClose).toHaveBeenCalledOnce();
});

test("text that is selected up to outside of a dialog leaves it open", () => {
  const { onClose, dialog, field } = shown();
  fireEvent.pointerDown(field);
  fireEvent.click(dialog); // a browser targets the common ancestor of pointer down and pointer up
  expect(onClose).not.toHaveBeenCalled();
  fireEvent.pointerDown(dialog);
  fireEvent.click(field);
  expect(onClose).not.toHaveBeenCalled();
});
