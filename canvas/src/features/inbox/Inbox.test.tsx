import { act, fireEvent, screen, within } from "@testing-library/react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { NoResponseError } from "../../core/api/api";
import { INBOX, type InboxPlace } from "../../core/router";
import { UNDO_MS } from "../../core/session/undoableDecisions";
import { approvalOf, type Approval } from "../../core/state/approvals";
import { NO_PROBLEMS, questionOf, unansweredOf, type OpenQuestion, type Problems, type UnansweredMessage } from "../../core/state/problems";
import { approvalRow, type Item } from "../../core/testing/approvalRows";
import { flushPromises, PATIENT, TestPage } from "../../core/testing/testPage";
import { ApprovalItem } from "../approvals/ApprovalItem";
import { InboxView } from "./InboxView";

const NOW = Date.parse("2026-03-01T12:00:30Z");

beforeEach(() => {
  Element.prototype.scrollIntoView = () => undefined; // jsdom has no layout and no scrolling
  vi.useFakeTimers({ now: NOW });
});
afterEach(() => {
  vi.useRealTimers();
});

const QUESTION = questionOf({
  activity_id: "q1", workspace_id: "a", workspace_name: "Agent a", seq: 4, text: "Which day?", is_cut: false, options: ["Monday", "Tuesday"], asked_at: "2026-03-01T12:00:10Z",
}) as OpenQuestion;
const OWED = unansweredOf({
  activity_id: "m7", workspace_id: "a", workspace_name: "Agent a", seq: 7, source_id: "b", summary: "Is it done?", handed_at: "2026-03-01T11:00:00Z", draft: "Yes",
}) as UnansweredMessage;

function approval(id: string, part: Item = {}): Approval {
  return approvalOf(approvalRow(id, { for_person: true, expires_at: "2026-03-01T13:00:00Z", ...part })) as Approval;
}

interface Shown {
  problems?: Partial<Problems>;
  approvals?: readonly Approval[];
  place?: Partial<InboxPlace>;
  role?: string;
}

async function shown({ problems = {}, approvals = [], place = {}, role = "operator" }: Shown): Promise<TestPage> {
  const made = new TestPage({ role });
  for (const id of ["a", "b"]) made.server.do({ verb: "create", id, parent: null });
  made.load();
  vi.spyOn(made.api, "pendingApprovals").mockResolvedValue([]);
  vi.spyOn(made.api, "problems").mockResolvedValue({ ...NO_PROBLEMS, ...problems });
  made.session.decisions.merge(approvals);
  made.show(<InboxView place={{ ...INBOX, ...place }} />);
  await flushPromises();
  return made;
}

const rows = (): HTMLElement[] => within(screen.getByRole("list", { name: "Inbox" })).getAllByRole("listitem").filter((each) => each.dataset["item"] !== undefined);
const chips = (): string[] => within(screen.getByRole("navigation", { name: "Filter inbox" })).getAllByRole("link").map(({ textContent }) => textContent);

test("all that waits is one list, oldest first, and each kind is a filter of the address", async () => {
  await shown({ problems: { questions: [QUESTION], unanswered: [OWED] }, approvals: [approval("p1")] });
  expect(rows().map(({ dataset }) => dataset["item"])).toEqual(["answer m7", "approval p1", "question q1"]);
  expect(chips()).toEqual(["Everything 3", "Approvals 1", "Questions 1", "Unsent answers 1"]);
  const filter = screen.getByRole("link", { name: /^Questions/ });
  expect(filter.getAttribute("href")).toBe("/app/inbox?kind=question");
});

test("a filter without items says that there are none, and stays", async () => {
  await shown({ place: { kind: "draft" } });
  expect(screen.getByRole("heading", { name: "No unsent answers" })).toBeTruthy();
  expect(chips()).toEqual(["Everything", "Approvals", "Unsent answers"]);
});

test("a question is answered in place, and the buttons are locked from then on", async () => {
  const made = await shown({ problems: { questions: [QUESTION] } });
  const send = vi.spyOn(made.api, "send").mockResolvedValue({});
  const row = rows()[0] as HTMLElement;
  expect(within(row).getByText("Which day?")).toBeTruthy();
  fireEvent.click(within(row).getByRole("button", { name: "Tuesday" }));
  await flushPromises();
  expect(send).toHaveBeenCalledExactlyOnceWith("a", expect.any(String), "Tuesday", expect.objectContaining({ choice: { of: "q1", option: 1 } }));
  expect(within(row).getAllByRole<HTMLButtonElement>("button").map(({ disabled }) => disabled)).toEqual([true, true]);
  expect(within(row).getByRole("button", { pressed: true }).textContent).toContain("Tuesday");
});

test("an answer that was not sent is said where it was given", async () => {
  const made = await shown({ problems: { questions: [QUESTION] } });
  vi.spyOn(made.api, "send").mockRejectedValue(new NoResponseError("The server did not respond."));
  fireEvent.click(screen.getByRole("button", { name: "Monday" }));
  await flushPromises();
  expect(screen.getByRole("alert").textContent).toBe("Your answer was not sent. The server did not respond. Send it again in the chat.");
});

test("a request that fits its row is decided there, with the time to undo it", async () => {
  const made = await shown({ approvals: [approval("p1")] });
  const decide = vi.spyOn(made.api, "decide").mockResolvedValue(approval("p1", { status: "denied", seq: 5 }));
  fireEvent.click(screen.getByRole("button", { name: "Deny “deploy” from Agent a" }));
  expect(rows()[0]?.textContent).toContain("Denied, not sent yet");
  fireEvent.click(screen.getByRole("button", { name: "Cancel sending" }));
  await act(() => vi.advanceTimersByTimeAsync(UNDO_MS * 2));
  expect(decide).not.toHaveBeenCalled();
  fireEvent.click(screen.getByRole("button", { name: "Deny “deploy” from Agent a" }));
  await act(() => vi.advanceTimersByTimeAsync(UNDO_MS));
  expect(decide).toHaveBeenCalledExactlyOnceWith(expect.objectContaining({ id: "p1", revision: 1 }), { verdict: "deny", note: "", details: null }, true);
  expect(screen.getByRole("heading", { name: "You’re all caught up" })).toBeTruthy();
});

test("a request with more than fits is read first, and shows how it begins", async () => {
  await shown({ approvals: [approval("p1", { details: { a: 1, b: 2, c: 3, d: 4 }, reason: "It is tested" })] });
  const row = rows()[0] as HTMLElement;
  expect(within(row).queryByRole("button")).toBeNull();
  for (const words of ["It is tested", "a: 1", "c: 3", "Open the request to see all details."]) expect(row.textContent).toContain(words);
  expect(row.textContent).not.toContain("d: 4");
});

test("a request that changes under the eyes of a person is read again before it is decided", async () => {
  const made = await shown({ approvals: [approval("p1")] });
  act(() => made.session.decisions.merge([approval("p1", { revision: 2, seq: 2, details: { to: "staging" } })]));
  expect(screen.queryByRole("button", { name: /^Approve/ })).toBeNull();
  fireEvent.click(screen.getByRole("button", { name: "Mark as reviewed" }));
  expect(screen.getByRole("button", { name: /^Approve/ })).toBeTruthy();
});

test("the last minute of a request is marked", async () => {
  await shown({ approvals: [approval("p1", { expires_at: "2026-03-01T12:01:40Z" })] });
  const timer = screen.getByRole("timer");
  expect(timer.dataset["urgent"]).toBeUndefined();
  await act(() => vi.advanceTimersByTimeAsync(15_000));
  expect(timer.dataset["urgent"]).toBe("true");
});

test("in its chat a request is decided too", async () => {
  const made = await shown({});
  const decide = vi.spyOn(made.api, "decide").mockResolvedValue(approval("p1", { status: "approved", seq: 5 }));
  made.show(<ApprovalItem approval={approval("p1")} at="2026-03-01T12:00:00Z" tabStop={false} />);
  await vi.waitFor(() => expect(screen.getByRole("button", { name: "Approve “deploy” from Agent a" })).toBeTruthy(), PATIENT);
  fireEvent.click(screen.getByRole("button", { name: "Approve “deploy” from Agent a" }));
  await act(() => vi.advanceTimersByTimeAsync(UNDO_MS));
  expect(decide).toHaveBeenCalledExactlyOnceWith(expect.objectContaining({ id: "p1" }), { verdict: "approve", note: "", details: null }, true);
});

test("the item of the address has the focus; J and K go on, and the next one takes the place of one that is done", async () => {
  const other = { ...QUESTION, activityId: "q2", askedAt: "2026-03-01T12:00:20Z" };
  const made = await shown({ problems: { questions: [QUESTION, other] }, place: { item: "question q2" } });
  const [first, second] = rows() as [HTMLElement, HTMLElement];
  expect(document.activeElement).toBe(second);
  fireEvent.keyDown(window, { key: "k" });
  expect(document.activeElement).toBe(first);
  fireEvent.keyDown(window, { key: "j" });
  expect(document.activeElement).toBe(second);
  act(() => made.session.problemLists.problems.set({ ...NO_PROBLEMS, questions: [QUESTION] }));
  expect(document.activeElement).toBe(first);
});

test("who only reads sees what is wrong, and decides nothing", async () => {
  await shown({ problems: { questions: [QUESTION], unanswered: [OWED] }, approvals: [approval("p1")], role: "viewer" });
  expect(rows().map(({ dataset }) => dataset["item"])).toEqual(["answer m7"]);
  expect(screen.getByText("Only operators and owners can accept it.")).toBeTruthy();
});
