import { fireEvent, render, screen } from "@testing-library/react";
import { useState } from "react";
import { expect, test, vi } from "vitest";
import { useLayer, useSingleKeys } from "./keyboard";

function Page({ onKey, enabled = true }: { onKey: () => void; enabled?: boolean }) {
  useSingleKeys({ a: onKey }, enabled);
  return (
    <>
      <input aria-label="words" />
      <textarea aria-label="more words" />
      <div role="tree" aria-label="agents">
        <div role="treeitem" tabIndex={0}>
          Ada
        </div>
      </div>
    </>
  );
}

test("a single key acts while nobody types, and only then", () => {
  const onKey = vi.fn();
  render(<Page onKey={onKey} />);
  fireEvent.keyDown(document.body, { key: "a" });
  expect(onKey).toHaveBeenCalledOnce();
  for (const name of ["words", "more words"]) fireEvent.keyDown(screen.getByLabelText(name), { key: "a" });
  fireEvent.keyDown(screen.getByRole("treeitem"), { key: "a" });
  for (const held of ["ctrlKey", "metaKey", "altKey"]) fireEvent.keyDown(document.body, { key: "a", [held]: true });
  expect(onKey).toHaveBeenCalledOnce();
});

test("it does nothing when it was turned off", () => {
  const onKey = vi.fn();
  render(<Page onKey={onKey} enabled={false} />);
  fireEvent.keyDown(document.body, { key: "a" });
  expect(onKey).not.toHaveBeenCalled();
});

function Layer({ name, children }: { name: string; children?: React.ReactNode }) {
  const [open, setOpen] = useState(true);
  return open ? (
    <Open name={name} onClose={() => setOpen(false)}>
      {children}
    </Open>
  ) : null;
}

function Open({ name, onClose, children }: { name: string; onClose: () => void; children?: React.ReactNode }) {
  useLayer(onClose);
  return (
    <div aria-label={name} role="group">
      {children}
    </div>
  );
}

test("Escape closes the layer that was opened last, and no other", () => {
  const below = render(<Layer name="below" />);
  const above = render(<Layer name="above" />);
  fireEvent.keyDown(document.body, { key: "Escape" });
  expect(screen.queryByRole("group", { name: "above" })).toBeNull();
  expect(screen.getByRole("group", { name: "below" })).toBeTruthy();
  fireEvent.keyDown(document.body, { key: "Escape" });
  expect(screen.queryByRole("group", { name: "below" })).toBeNull();
  below.unmount();
  above.unmount();
});
