import { act, fireEvent, screen } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { Budgets } from "./Budgets";
import { parseAmount, usageText } from "./amounts";
import type { BudgetView } from "../../core/wire";
import { TestPage, flushPromises } from "../../core/testing/testPage";

const BUDGET: BudgetView = {
  budget_id: "b1",
  scope: "workspace",
  target_id: "ops",
  workspace_id: "ops",
  unit: "money",
  period: "day",
  limit: 20_000_000,
  spent: 17_500_000,
  leased: 200_000,
  unreported: 0,
  raised: 0,
  state: "noticed",
  period_ends_at: null,
  created_at: "2026-11-29T00:00:00.000000Z",
  updated_at: "2026-11-29T00:00:00.000000Z",
};

function page(role = "operator"): TestPage {
  const made = new TestPage({ role }).load();
  vi.spyOn(made.api, "budgets").mockResolvedValue([BUDGET]);
  return made;
}

test("the use of a budget is read, and an operator changes its limit", async () => {
  const made = page();
  const change = vi.spyOn(made.api, "changeBudget").mockResolvedValue({});
  made.show(<Budgets />);
  await flushPromises();
  expect(screen.getByText(/17\.50 spent and 0\.20 leased of 20\.00 per day/)).toBeTruthy();
  expect(screen.getByText("80 % spent")).toBeTruthy();
  fireEvent.click(screen.getByRole("button", { name: "Change…" }));
  fireEvent.change(screen.getByLabelText(/^Limit of/), { target: { value: "25.5" } });
  fireEvent.click(screen.getByRole("button", { name: "Save" }));
  await flushPromises();
  expect(change).toHaveBeenCalledExactlyOnceWith("org", "b1", 25_500_000);
});

test("a viewer sees budgets only, and the list follows what others do", async () => {
  const made = page("viewer");
  made.show(<Budgets />);
  await flushPromises();
  expect(screen.queryByRole("button")).toBeNull();
  act(() => made.session.budgetChanges.set(1));
  await flushPromises();
  expect(made.api.budgets).toHaveBeenCalledTimes(2);
});

test("amounts are read as they are typed", () => {
  expect(parseAmount("money", "1,000.50")).toBe(1_000_500_000);
  expect(parseAmount("tokens", "2,000")).toBe(2000);
  expect([parseAmount("money", ""), parseAmount("tokens", "1.5"), parseAmount("money", "-1"), parseAmount("money", "all")]).toEqual([null, null, null, null]);
  expect(usageText({ ...BUDGET, unit: "tokens", period: "total", spent: 1000, leased: 0, limit: 2000 })).toBe("1,000 tokens spent of 2,000 tokens");
});
