import { fireEvent, render, screen } from "@testing-library/react";
import { useState } from "react";
import { expect, test } from "vitest";
import { Tabs } from "./Tabs";

function Two() {
  const [tab, setTab] = useState<"one" | "two">("one");
  return (
    <Tabs label="Both" tabs={[{ name: "one", label: "One" }, { name: "two", label: "Two" }]} current={tab} onChange={setTab}>
      {tab === "one" ? <p>first</p> : <p>second</p>}
    </Tabs>
  );
}

test("another tab begins at its top, and the focus stays on its button", () => {
  render(<Two />);
  screen.getByRole("tabpanel").scrollTop = 500;
  const second = screen.getByRole("tab", { name: "Two" });
  second.focus();
  fireEvent.click(second);
  expect(screen.getByText("second")).toBeTruthy();
  expect(screen.getByRole("tabpanel").scrollTop).toBe(0);
  expect(document.activeElement).toBe(second);
});
