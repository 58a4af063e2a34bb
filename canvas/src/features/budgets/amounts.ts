/** Amounts of budgets as people read and write them. Money is in millionths of the organisation's currency. */

import type { BudgetView } from "../../core/wire";

const MICROS = 1_000_000;

/** "12.50", or "2,000 tokens". */
export function amountText(unit: string, amount: number): string {
  if (unit === "tokens") return `${amount.toLocaleString("en-GB")} tokens`;
  return (amount / MICROS).toLocaleString("en-GB", { minimumFractionDigits: 2, maximumFractionDigits: 6 });
}

/** The amount that a person typed, or null if it is none. */
export function parseAmount(unit: string, typed: string): number | null {
  const parsed = Number(typed.replaceAll(",", "").trim());
  const amount = unit === "tokens" ? parsed : Math.round(parsed * MICROS);
  return Number.isSafeInteger(amount) && amount > 0 && typed.trim() !== "" ? amount : null;
}

/** "3.00 spent and 0.50 leased of 20.00 per day". */
export function usageText(budget: BudgetView): string {
  const limit = amountText(budget.unit, budget.limit + budget.raised);
  const leased = budget.leased > 0 ? ` and ${amountText(budget.unit, budget.leased)} leased` : "";
  const per = budget.period === "total" ? "" : ` per ${budget.period}`;
  return `${amountText(budget.unit, budget.spent)} spent${leased} of ${limit}${per}`;
}

const STATES = {
  ok: "",
  noticed: "80 % spent",
  exhausted: "Over budget: waits for your decision in the inbox",
  stopped: "Over budget: stopped",
} as const;

export function stateText(budget: BudgetView): string {
  return STATES[budget.state];
}
