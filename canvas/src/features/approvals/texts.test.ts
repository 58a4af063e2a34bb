import { expect, test } from "vitest";
import { approvalOf, type Approval } from "../../core/state/approvals";
import { approvalRow } from "../../core/testing/approvalRows";
import { outcomeTexts } from "./texts";

test("a request to raise a budget says what happens to the budget, others what happens to the act", () => {
  const [budget, act] = [{ source: "budget" }, {}].map((part) => outcomeTexts(approvalOf(approvalRow("a", part)) as Approval).map(({ then }) => then));
  expect(budget).toEqual([
    "The budget is raised and what waits for it goes on. Edit raise_by for another amount, and set permanent to raise it for good.",
    "What waits goes on in the next period, or once the budget is changed.",
    "The request expires, and the next turn that waits asks again.",
  ]);
  expect(act?.[0]).toContain("may do exactly this, once");
});
