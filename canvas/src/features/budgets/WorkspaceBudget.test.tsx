import { fireEvent, screen } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { TestPage, flushPromises } from "../../core/testing/testPage";
import type { WorkspaceBudgets } from "../../core/wire";
import { WorkspaceBudget } from "./WorkspaceBudget";

const FOUND: WorkspaceBudgets = { budgets: [], turn_lease: { money: 500_000, tokens: 100_000 } };

function show(role: string) {
  const made = new TestPage({ role }).load();
  const request = vi.spyOn(made.api, "request").mockImplementation(() => Promise.resolve(FOUND) as Promise<never>);
  made.show(<WorkspaceBudget workspaceId="ops" />);
  return request;
}

test("an operator changes what a turn reserves", async () => {
  const request = show("operator");
  await flushPromises();
  expect(screen.getByText(/Before a turn it reserves 0.50 or 100,000 tokens/)).toBeTruthy();
  fireEvent.click(screen.getByRole("button", { name: "Change reservation…" }));
  fireEvent.change(screen.getByLabelText("Money"), { target: { value: "0.25" } });
  fireEvent.click(screen.getByRole("button", { name: "Save reservation" }));
  await flushPromises();
  expect(request).toHaveBeenCalledWith("PUT", "/workspaces/ops/turn-lease", { money: 250_000, tokens: 100_000 });
  expect(screen.getByRole("button", { name: "Change reservation…" })).toBeTruthy();
});

test("a viewer only reads it", async () => {
  show("viewer");
  await flushPromises();
  expect(screen.getByText("No budget limits this agent alone or with its team.")).toBeTruthy();
  expect(screen.queryByRole("button")).toBeNull();
});
