import { act, fireEvent, screen, within } from "@testing-library/react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { NoAnswer, Refusal } from "../live/api";
import { HELD_MS } from "../live/approving";
import type { ListName } from "../state/approvals";
import { approvalOf, type Approval } from "../state/approvals";
import { approvalRow, type Item } from "../state/approvals.testing";
import { UndoBar } from "../views/UndoBar";
import { Bench, settled } from "../views/testing";
import { InboxView } from "./InboxView";

const NOW = Date.parse("2026-03-01T12:00:30Z");
const WAITS: Item = { for_person: true, expires_at: "2026-03-01T13:00:00Z", level_deadline: "2026-03-01T12:02:00Z" };

function one(id: string, part: Item = {}): Approval {
  return approvalOf(approvalRow(id, { ...WAITS, ...part })) as Approval;
}

beforeEach(() => {
  Element.prototype.scrollIntoView = () => undefined; // jsdom lays nothing out, and has nothing to scroll
  vi.useFakeTimers({ now: NOW });
});
afterEach(() => {
  vi.useRealTimers();
});

interface Shown {
  approvals?: readonly Approval[];
  open?: string | null;
  list?: ListName;
  role?: string;
}

function bench({ approvals = [one("p1")], role = "operator" }: Shown = {}): Bench {
  const made = new Bench({ role });
  for (const id of ["a", "b"]) made.server.do({ verb: "create", id, parent: null });
  made.load();
  vi.spyOn(made.api, "pendingApprovals").mockResolvedValue([]);
  made.desk.approving.take(approvals);
  return made;
}

async function shown(made: Bench, { open = null, list = "waiting" }: Shown = {}): Promise<void> {
  made.show(
    <>
      <InboxView place={{ view: "inbox", list, open: open === null ? null : { id: open, workspaceId: "a" } }} />
      <UndoBar />
    </>,
  );
  await settled();
}

function tell(made: Bench, ...approvals: Approval[]): void {
  act(() => made.desk.approving.take(approvals));
}

const press = (name: string | RegExp): void => void fireEvent.click(screen.getByRole("button", { name }));
async function pass(ms: number): Promise<void> {
  await act(() => vi.advanceTimersByTimeAsync(ms));
}

test("a request shows who asks for what and why, its way, its time, and what happens either way", async () => {
  const path = [
    { at: "2026-03-01T12:00:00Z", what: "asked", by: { kind: "server", id: "", name: "" }, holder: { kind: "workspace", id: "b", name: "Lead" }, why: "", note: "" },
    { at: "2026-03-01T12:00:10Z", what: "escalated", by: { kind: "workspace", id: "b", name: "" }, holder: { kind: "workspace", id: "b", name: "Lead" }, why: "it said so", note: "not <b>mine</b>" },
  ];
  const made = bench({ approvals: [one("p1", { path, risk: ["production"], cost: 12.5, policy: [{ kind: "rule", text: "deploy* needs leave" }] })] });
  await shown(made, { open: "p1" });
  const request = screen.getByRole("article", { name: "Request" });
  for (const words of ["Agent a", "deploy", "It is tested", "production", "Costs 12.5", "deploy* needs leave", "Lead was asked", "Lead passed it on", "“not <b>mine</b>”", "it said so"]) {
    expect(request.textContent).toContain(words);
  }
  expect(request.textContent).toContain("expires in 59:30");
  expect(request.textContent).toContain("goes on in 1:30");
  await pass(1_000);
  expect(request.textContent).toContain("expires in 59:29");
  expect(within(request).getByRole("region", { name: "Details" }).textContent).toBe('{\n  "to": "production"\n}');
});

test("the time that is left is the server's", async () => {
  const made = bench();
  made.desk.approving.setTime("2026-03-01T12:30:30Z", NOW);
  await shown(made, { open: "p1" });
  expect(screen.getByRole("article").textContent).toContain("expires in 29:30");
});

test("an answer leaves the page after five seconds, and says what was shown", async () => {
  const made = bench();
  const decide = vi.spyOn(made.api, "decide").mockResolvedValue(one("p1", { status: "approved", seq: 5 }));
  await shown(made, { open: "p1" });
  press("Approve");
  expect(screen.getByText(/Nothing is sent if this page is closed/)).toBeTruthy();
  await pass(HELD_MS - 1);
  expect(decide).not.toHaveBeenCalled();
  await pass(1);
  expect(decide).toHaveBeenCalledExactlyOnceWith(expect.objectContaining({ id: "p1", revision: 1, actionHash: "0a1b" }), { verdict: "approve", note: "", details: null });
  expect(screen.queryByRole("button", { name: "Undo" })).toBeNull();
  expect(screen.getByRole("article").textContent).toContain("Approved");
});

test("what is taken back within five seconds is never sent", async () => {
  const made = bench();
  const decide = vi.spyOn(made.api, "decide");
  await shown(made, { open: "p1" });
  for (const way of ["Undo", "Take it back"]) {
    press("Approve");
    await pass(HELD_MS - 100);
    press(way);
    await pass(HELD_MS * 2);
    expect(decide).not.toHaveBeenCalled();
    expect(screen.getByRole("button", { name: "Approve" })).toBeTruthy();
  }
  press("Approve");
  act(() => made.desk.stop()); // the session ends
  await pass(HELD_MS * 2);
  expect(decide).not.toHaveBeenCalled();
});

test("whoever is second sees who decided first", async () => {
  const made = bench();
  const first = approvalRow("p1", { status: "denied", seq: 7, decided: { decision: "deny", by: { kind: "person", id: "b", name: "Ben", session: "s" }, at: "2026-03-01T12:00:31Z", note: "no", revision: 1, action_hash: "", edited: false } });
  vi.spyOn(made.api, "decide").mockRejectedValue(new Refusal(409, "already_decided", "Somebody has decided it.", { approval: first }));
  await shown(made, { open: "p1" });
  press("Approve");
  await pass(HELD_MS);
  expect(screen.getByRole("alert").textContent).toContain("Ben has denied it.");
  press("Look at it again");
  expect((screen.getByRole("button", { name: "Approve" }) as HTMLButtonElement).disabled).toBe(true);
});

test("an answer that the server did not get is kept, and goes again at a press", async () => {
  const made = bench();
  const decide = vi.spyOn(made.api, "decide").mockRejectedValueOnce(new NoAnswer("The server did not answer.")).mockResolvedValue(one("p1", { status: "approved", seq: 5 }));
  await shown(made, { open: "p1" });
  press("Approve");
  await pass(HELD_MS);
  expect(screen.getByRole("alert").textContent).toContain("The server did not answer.");
  press("Send it again");
  await settled();
  expect(decide).toHaveBeenCalledTimes(2);
  expect(screen.getByRole("article").textContent).toContain("Approved");
});

test("when it ends while somebody looks or writes, nothing can be answered, and why is said", async () => {
  const made = bench();
  const decide = vi.spyOn(made.api, "decide");
  await shown(made, { open: "p1" });
  press("Deny…");
  tell(made, one("p1", { status: "withdrawn", seq: 9 }));
  expect(screen.getByText(/does not ask for it any more/)).toBeTruthy();
  for (const each of within(screen.getByRole("group", { name: "Answer" })).getAllByRole("button")) expect((each as HTMLButtonElement).disabled).toBe(true);
  expect(decide).not.toHaveBeenCalled();
});

test("its time is over by the clock, before anybody says so", async () => {
  const made = bench({ approvals: [one("p1", { expires_at: "2026-03-01T12:00:32Z" })] });
  await shown(made, { open: "p1" });
  expect((screen.getByRole("button", { name: "Approve" }) as HTMLButtonElement).disabled).toBe(false);
  await pass(2_000);
  expect((screen.getByRole("button", { name: "Approve" }) as HTMLButtonElement).disabled).toBe(true);
  expect(screen.getByText("Its time is over.")).toBeTruthy();
});

test("edited details are approved as they are written, and a mistake is told at its line", async () => {
  const made = bench();
  const decide = vi.spyOn(made.api, "decide").mockResolvedValue(one("p1", { status: "approved", seq: 5, edited: { to: "staging" }, details: { to: "staging" } }));
  await shown(made, { open: "p1" });
  press("Approve with edits…");
  const field = screen.getByRole("textbox", { name: "Details to approve" });
  fireEvent.change(field, { target: { value: '{\n  "to": 3\n}' } });
  expect(screen.getByText("Line 2:").parentElement?.textContent).toContain("was a text");
  expect((screen.getByRole("button", { name: "Approve with these" }) as HTMLButtonElement).disabled).toBe(true);
  fireEvent.change(field, { target: { value: '{"to": "staging"}' } });
  press("Approve with these");
  await pass(HELD_MS);
  expect(decide.mock.calls[0]?.[1]).toEqual({ verdict: "approve", note: "", details: { to: "staging" } });
  expect(screen.getByRole("region", { name: "Edited, and in force" }).textContent).toContain("staging");
  expect(screen.getByRole("region", { name: "Proposed" }).textContent).toContain("production");
});

test("a question, a reason and passing it on go as they are written", async () => {
  const made = bench();
  const decide = vi.spyOn(made.api, "decide").mockResolvedValue(one("p1"));
  await shown(made, { open: "p1" });
  for (const [open, label, words, done, verdict] of [["Ask back…", "Your question", "Since when?", "Ask", "more_info"], ["Deny…", "Reason", "Not today", "Deny", "deny"]] as const) {
    press(open);
    fireEvent.change(screen.getByLabelText(label), { target: { value: words } });
    press(done);
    await pass(HELD_MS);
    expect(decide.mock.lastCall?.[1]).toEqual({ verdict, note: words, details: null });
  }
  press("Leave it to a person");
  await pass(HELD_MS);
  expect(decide.mock.lastCall?.[1].verdict).toBe("escalate");
});

test("several are answered together: exactly those that were chosen and listed", async () => {
  const made = bench({ approvals: [one("p1"), one("p2", { action: "restart" }), one("long", { details: { words: "x".repeat(300) } })] });
  const decide = vi.spyOn(made.api, "decide").mockImplementation(({ id }) => Promise.resolve(one(id, { status: "approved", seq: 5 })));
  await shown(made);
  expect(screen.getAllByRole("checkbox")).toHaveLength(2);
  for (const box of screen.getAllByRole("checkbox")) fireEvent.click(box);
  press("Approve…");
  const dialog = screen.getByRole("dialog");
  tell(made, one("p3", { action: "arrived" }), one("p2", { status: "expired", seq: 3 }));
  expect(dialog.textContent).not.toContain("arrived");
  expect(dialog.textContent).toContain("Not among them any more: Its time was over");
  fireEvent.click(within(dialog).getByRole("button", { name: "Approve 1 request" }));
  await pass(HELD_MS);
  expect(decide.mock.calls.map(([{ id }]) => id)).toEqual(["p1"]);
});

test("a list that cannot be read keeps what was there, and never says that nothing waits", async () => {
  const made = bench();
  const read = vi.spyOn(made.api, "pendingApprovals").mockRejectedValue(new NoAnswer("The server did not answer."));
  await shown(made);
  expect(screen.getByRole("alert").textContent).toContain("The list could not be read.");
  expect(within(screen.getByRole("list", { name: "Requests" })).getAllByRole("listitem")).toHaveLength(1);
  tell(made, one("p1", { status: "denied", seq: 3 }));
  expect(screen.queryByText("Nothing waits for you")).toBeNull();
  expect(screen.getByRole("alert").textContent).toContain("There may be requests that are not shown.");
  read.mockResolvedValue([]);
  press("Try again");
  await settled();
  expect(screen.queryByRole("alert")).toBeNull();
  expect(screen.getByText("Nothing waits for you")).toBeTruthy();
});

test("who may only look is told who decides", async () => {
  const made = bench({ role: "viewer" });
  await shown(made, { open: "p1" });
  expect(screen.getByText("An operator of the organisation can decide this.")).toBeTruthy();
  expect(screen.queryByRole("button", { name: "Approve" })).toBeNull();
  expect(screen.queryByRole("checkbox")).toBeNull();
});

test("a request that this page has not heard of is read, or said not to be there", async () => {
  const made = bench({ approvals: [] });
  const read = vi.spyOn(made.api, "approval").mockResolvedValueOnce(one("p9", { action: "drop the table", status: "denied" }));
  await shown(made, { open: "p9", list: "decided" });
  expect(read).toHaveBeenCalledExactlyOnceWith("a", "p9");
  expect(screen.getByRole("heading", { name: "drop the table" })).toBeTruthy();
});
