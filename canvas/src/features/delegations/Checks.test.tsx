import { act, screen } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { TestPage } from "../../core/testing/testPage";
import type { AcceptanceReport, DelegationDetail } from "../../core/wire";
import { CheckDetails } from "./Checks";

const LONG = "x".repeat(5_000);
const FOUND: AcceptanceReport = {
  checks: [{ type: "file", name: "<b>text</b>.json" }],
  sentences: ["Attach <i>a</i> new file."],
  rounds: 2,
  answers: 2,
  evidence: [
    { check: 1, type: "file", answer: 1, outcome: "failed", detail: LONG, at: "2026-03-01T12:00:00Z" },
    { check: 1, type: "file", answer: 2, outcome: "passed", file: "<b>text</b>.json", size: 1, sha256: "ab12", at: "2026-03-01T12:01:00Z" },
  ],
  reviews: [],
  commands: [],
};

function page(): { made: TestPage; read: ReturnType<typeof vi.spyOn> } {
  const made = new TestPage();
  for (const id of ["a", "b"]) made.server.do({ verb: "create", id, parent: null });
  made.server.do({ verb: "delegate", id: "a", target: "b", text: "Build it" });
  made.load();
  const [delegation] = made.server.timeline("a").filter((item) => item.kind === "delegation");
  const full = { delegation, task: "Build it", result: null, timeline: [], earlier: 0, a2a_state: "WORKING", acceptance: FOUND, may: null };
  return { made, read: vi.spyOn(made.api, "delegation").mockResolvedValue(full as unknown as DelegationDetail) };
}

test("checks among others are read once they are opened: outcome, reason, file, size and time, as text", async () => {
  const { made, read } = page();
  made.show(<CheckDetails id="d1" />);
  await act(() => new Promise((done) => setTimeout(done, 0)));
  expect(read).not.toHaveBeenCalled();
  const details = screen.getByText("Checks of the answer").closest("details") as HTMLDetailsElement;
  act(() => {
    details.open = true;
    details.dispatchEvent(new Event("toggle"));
  });
  await vi.waitFor(() => expect(details.querySelectorAll("[data-outcome]")).toHaveLength(2));
  expect(details.querySelector("b, i")).toBeNull();
  expect(details.textContent).toContain("Attach <i>a</i> new file.");
  const [failed, passed] = details.querySelectorAll("[data-outcome]");
  expect(failed?.textContent).toContain(`Answer 1: failed${LONG}`);
  expect(failed?.querySelector("bdi")?.tabIndex, "a long text scrolls by keys").toBe(0);
  expect(passed?.textContent).toContain("Answer 2: passed<b>text</b>.json1 byte1 Mar 2026");
  expect(passed?.querySelector("[title]")?.getAttribute("title")).toBe("SHA-256: ab12");
});
