import { screen } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { TestPage, flushPromises } from "../../core/testing/testPage";
import type { UsageReport, UsageRow } from "../../core/wire";
import { money } from "./money";
import { UsageView } from "./UsageView";

const ROW: UsageRow = { key: "a", name: "<b>Ops</b>", turns: 3, turns_without_cost: 1, input_tokens: 1200, cached_tokens: 5, output_tokens: 30, cost_micros: 1_250_000 };

function reportOf(by: UsageReport["by"], rows: UsageRow[], total: UsageRow): UsageReport {
  return { since: "2026-03-01", until: "2026-03-03", by, currency: "USD", rows, total, is_complete: true };
}

function show(rows: UsageRow[], total: UsageRow): void {
  const made = new TestPage();
  made.load();
  vi.spyOn(made.api, "request").mockImplementation((_method, path: string) => {
    if (path.endsWith("/prices")) return Promise.resolve({ currency: "USD", prices: [], version: 0, changed_at: null, changed_by: null }) as Promise<never>;
    const isDays = path.includes("by=day");
    return Promise.resolve(isDays ? reportOf("day", rows.map((row) => ({ ...row, key: "2026-03-02", name: null })), total) : reportOf("agent", rows, total)) as Promise<never>;
  });
  made.show(<UsageView by="agent" />);
}

test("a table and bars by day show what agents cost, and how many turns have no price", async () => {
  show([ROW], { ...ROW, key: "", name: null });
  await flushPromises();
  await vi.waitFor(() => expect(screen.getByRole("region", { name: "Sums by agent" })).toBeTruthy());
  const [row] = screen.getByRole("region", { name: "Sums by agent" }).querySelectorAll("tbody tr");
  expect([...row!.children].map((each) => each.textContent)).toEqual(["<b>Ops</b>", "3", "1,200", "5", "30", "US$1.25"]);
  expect(document.querySelectorAll("figure rect")).toHaveLength(6);
  const bars = [...document.querySelectorAll("figure rect:nth-of-type(2)")].map((each) => Number(each.getAttribute("height")));
  expect(bars).toEqual([0, 40, 0]);
  expect(screen.getByRole("figure").textContent).toContain("US$1.25 in 3 turns from 2026-03-01 to 2026-03-03 (UTC)The cost of 1 turn is unknown.");
});

test("the days of the chart are a table too", async () => {
  show([ROW], { ...ROW, key: "", name: null });
  await vi.waitFor(() => expect(screen.getByText("Days as a table")).toBeTruthy());
  const days = document.querySelector("details")!.querySelectorAll("tbody tr");
  expect([...days].map((each) => `${each.firstChild?.textContent} ${each.lastChild?.textContent}`)).toEqual(["2026-03-02 US$1.25"]);
});

test("without usage the view says who reports it", async () => {
  show([], { ...ROW, key: "", name: null, turns: 0, turns_without_cost: 0, cost_micros: 0 });
  await vi.waitFor(() => expect(screen.getByText("No usage in this time")).toBeTruthy());
});

test("small amounts keep four decimals", () => {
  expect([money(0, "USD"), money(2_250, "USD"), money(12_345_678, "EUR")]).toEqual(["US$0.00", "US$0.0023", "€12.35"]);
});
