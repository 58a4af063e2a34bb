import { act, fireEvent, screen, within } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { ApiError } from "../../core/api/api";
import { TestPage, flushPromises } from "../../core/testing/testPage";
import type { ScheduleRunView, ScheduleView } from "../../core/wire";
import { SchedulesView } from "./SchedulesView";
import { plannedText, runText, stateText } from "./texts";

const RUN: ScheduleRunView = { planned_at: "2026-11-30T08:00:00+01:00", ran_at: "2026-11-30T07:00:01Z", outcome: "skipped", reason: "the run before is not done", work_id: null, missed: 0 };
const DAILY: ScheduleView = {
  schedule_id: "s1",
  name: "<b>Daily</b>",
  source_id: null,
  target_id: "gone",
  cron: "0 8 * * *",
  time_zone: "Europe/Berlin",
  once: null,
  action: "message",
  text: "Report\nwhat is open",
  accept: null,
  rounds: null,
  may: null,
  deadline_seconds: null,
  misses: "skip",
  overlap: "skip",
  state: "active",
  pause_reason: "",
  next_runs: ["2026-12-01T08:00:00+01:00"],
  last_run: RUN,
  author: "Ada",
  created_at: "2026-11-29T00:00:00Z",
  updated_at: "2026-11-29T00:00:00Z",
};

function show(role = "operator", schedules: ScheduleView[] = [DAILY]) {
  const made = new TestPage({ role });
  made.load();
  const calls: [string, string, unknown][] = [];
  vi.spyOn(made.api, "request").mockImplementation((method, path, body) => {
    calls.push([method, path, body]);
    if (path.endsWith("/schedule-preview")) return Promise.reject(new ApiError(422, "invalid_field", "the expression is not valid"));
    if (path.includes("/runs")) return Promise.resolve({ runs: [RUN], before: null }) as Promise<never>;
    return Promise.resolve({ schedules }) as Promise<never>;
  });
  made.show(<SchedulesView />);
  return { made, calls, changes: () => calls.filter(([method, path]) => method !== "GET" && !path.endsWith("preview")) };
}

test("a schedule is shown as text, with its next run in its own time zone; a viewer can only read", async () => {
  show("viewer");
  await flushPromises();
  const row = within(screen.getByRole("list", { name: "Schedules" })).getAllByRole("listitem")[0]!;
  expect(row.textContent).toContain("<b>Daily</b>");
  expect(row.textContent).toContain("Ada sends a message to a removed agent at 0 8 * * * (Europe/Berlin)");
  expect(row.textContent).toContain("Active · Next: Tue 2026-12-01 08:00 (+01:00)");
  expect(row.textContent).toContain("Last run: Mon 2026-11-30 08:00 (+01:00) · Skipped: the run before is not done");
  expect(screen.queryByRole("button")).toBeNull();
});

test("an operator pauses a schedule, and deletes it only at the second click", async () => {
  const { changes } = show();
  await flushPromises();
  fireEvent.click(screen.getByRole("button", { name: "Pause <b>Daily</b>" }));
  await flushPromises();
  fireEvent.click(screen.getByRole("button", { name: "Delete… <b>Daily</b>" }));
  fireEvent.click(screen.getByRole("button", { name: "Keep <b>Daily</b>" }));
  fireEvent.click(screen.getByRole("button", { name: "Delete… <b>Daily</b>" }));
  expect(changes()).toEqual([["PUT", "/orgs/org/schedules/s1/paused", { paused: true }]]);
  fireEvent.click(screen.getByRole("button", { name: "Delete schedule <b>Daily</b>" }));
  await flushPromises();
  expect(changes()[1]?.slice(0, 2)).toEqual(["DELETE", "/orgs/org/schedules/s1"]);
});

test("a change keeps what the form does not show", async () => {
  const kept = { ...DAILY, action: "delegate" as const, source_id: "lead", deadline_seconds: 60, rounds: 1, accept: [{ type: "text", contains: "x" }], state: "paused" as const };
  const { changes } = show("operator", [kept]);
  await flushPromises();
  fireEvent.click(screen.getByRole("button", { name: "Change… <b>Daily</b>" }));
  fireEvent.change(screen.getByLabelText("Text"), { target: { value: "Report" } });
  fireEvent.click(screen.getByRole("button", { name: "Save schedule" }));
  await flushPromises();
  expect(changes()).toEqual([["PUT", "/orgs/org/schedules/s1", expect.objectContaining({ text: "Report", deadline_seconds: 60, rounds: 1, accept: kept.accept, paused: true, cron: "0 8 * * *" })]]);
});

test("the list follows what others do, and what cannot be read says why", async () => {
  const { made, calls } = show();
  await flushPromises();
  const before = calls.length;
  act(() => made.session.scheduleChanges.set(1));
  await flushPromises();
  expect(calls.length).toBe(before + 1);
  vi.mocked(made.api.request).mockImplementation(() => Promise.reject(new ApiError(403, "forbidden", "not allowed")));
  act(() => made.session.scheduleChanges.set(2));
  await flushPromises();
  expect(screen.getByText("not allowed")).toBeTruthy();
});

test("times and outcomes are words", () => {
  expect(plannedText("2026-03-29T03:00:00+00:00")).toBe("Sun 2026-03-29 03:00 (UTC)");
  expect(plannedText("soon")).toBe("soon");
  expect(stateText({ state: "paused", pause_reason: "the target was removed" })).toBe("Paused: the target was removed");
  expect(runText({ outcome: "missed", reason: "", missed: 2 })).toBe("Missed: 2 missed before it");
  expect(runText({ outcome: "new kind", reason: "", missed: 0 })).toBe("new kind");
});
