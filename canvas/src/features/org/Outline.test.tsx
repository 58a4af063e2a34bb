import { fireEvent, screen } from "@testing-library/react";
import { useState } from "react";
import { expect, test, vi } from "vitest";
import { Outline } from "./Outline";
import { TestPage } from "../../core/testing/testPage";
import { useOrg } from "./useOrg";

function Harness({ onOpen }: { onOpen: (id: string) => void }) {
  const [filter, setFilter] = useState("");
  const [selected, setSelected] = useState<string | null>(null);
  return <Outline org={useOrg(filter)} selected={selected} filter={filter} onFilter={setFilter} onSelect={setSelected} onOpen={onOpen} />;
}

function show(): { testPage: TestPage; onOpen: ReturnType<typeof vi.fn> } {
  const page = new TestPage();
  const names = { lead: "Mara", team: "Backend", one: "Ben", two: "Zoe" };
  const parents = { lead: null, team: "lead", one: "team", two: "lead" };
  for (const [id, parent] of Object.entries(parents)) {
    page.server.do({ verb: "create", id, parent });
    page.server.do({ verb: "rename", id, name: names[id as keyof typeof names] });
  }
  page.load();
  const onOpen = vi.fn();
  page.show(<Harness onOpen={onOpen} />);
  return { testPage: page, onOpen };
}

const row = (name: string): HTMLElement => screen.getByRole("treeitem", { name: new RegExp(name) });
const press = (key: string): boolean => fireEvent.keyDown(document.activeElement ?? document.body, { key });
const focused = (): string => document.activeElement?.textContent ?? "";

test("rows tell their level, place, siblings and whether they are open", () => {
  show();
  expect(screen.getByRole("tree", { name: "Agents" })).toBeTruthy();
  const facts = ["aria-level", "aria-posinset", "aria-setsize", "aria-expanded"].map((name) => row("Backend").getAttribute(name));
  expect(facts).toEqual(["2", "1", "2", "true"]);
  expect(row("Zoe").getAttribute("aria-expanded")).toBeNull();
});

test("one row is in the tab order; arrows, Home, End and letters move it", () => {
  show();
  expect(screen.getAllByRole("treeitem").filter((each) => each.tabIndex === 0)).toHaveLength(1);
  row("Mara").focus();
  const path = ["ArrowDown", "ArrowRight", "ArrowUp", "End", "Home", "b"].map((key) => {
    press(key);
    return focused().replace(/Never connected/, "");
  });
  expect(path).toEqual(["Backend", "Ben", "Backend", "Zoe", "Mara", "Backend"]);
  expect(row("Backend").getAttribute("aria-selected")).toBe("true");
});

test("left folds and then goes to the lead, right unfolds", () => {
  show();
  row("Mara").focus();
  press("ArrowDown");
  press("ArrowLeft");
  expect(row("Backend").getAttribute("aria-expanded")).toBe("false");
  expect(screen.queryByRole("treeitem", { name: /Ben/ })).toBeNull();
  press("ArrowLeft");
  expect(focused()).toContain("Mara");
  press("ArrowDown");
  press("ArrowRight");
  expect(row("Ben")).toBeTruthy();
});

test("Enter and a click open an agent", () => {
  const { onOpen } = show();
  row("Mara").focus();
  press("End");
  press("Enter");
  fireEvent.click(row("Ben"));
  expect(onOpen.mock.calls).toEqual([["two"], ["one"]]);
});

test("a filter shows what matches with those above, and says when nothing does", () => {
  show();
  const filter = screen.getByRole("searchbox", { name: "Filter agents" });
  fireEvent.change(filter, { target: { value: "ben" } });
  expect(screen.getAllByRole("treeitem").map((each) => each.textContent?.replace("Never connected", ""))).toEqual(["Mara", "Backend", "Ben"]);
  fireEvent.change(filter, { target: { value: "nobody" } });
  expect(screen.getByText("No agent matches “nobody”")).toBeTruthy();
  fireEvent.click(screen.getByRole("button", { name: "Show all agents" }));
  expect(screen.getAllByRole("treeitem")).toHaveLength(4);
});

test("a long list keeps few rows in the document, the active one among them", () => {
  const page = new TestPage();
  for (let turn = 0; turn < 1_000; turn += 1) page.server.do({ verb: "create", id: `n${turn}`, parent: null });
  page.load().show(<Harness onOpen={() => undefined} />);
  expect(screen.getAllByRole("treeitem").length).toBeLessThan(100);
  screen.getAllByRole("treeitem")[0]?.focus();
  press("End");
  expect(focused()).toContain("Agent n999");
  expect(document.activeElement?.getAttribute("aria-posinset")).toBe("1000");
});
