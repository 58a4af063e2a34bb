import { act, fireEvent, screen, within } from "@testing-library/react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { NoResponseError, ApiError } from "../../core/api/api";
import { UNDO_MS } from "../../core/session/undoableDecisions";
import { RETRY_MS } from "../../core/session/problemLists";
import type { ListName } from "../../core/state/approvals";
import { approvalOf, type Approval } from "../../core/state/approvals";
import { approvalRow, type Item } from "../../core/testing/approvalRows";
import { UndoBar } from "../../ui/UndoBar";
import { TestPage, flushPromises } from "../../core/testing/testPage";
import { InboxView } from "./InboxView";
import { INBOX } from "../../core/router";
import { namedAgents } from "../approvals/texts";

const NOW = Date.parse("2026-03-01T12:00:30Z");
const WAITS: Item = { for_person: true, expires_at: "2026-03-01T13:00:00Z", level_deadline: "2026-03-01T12:02:00Z" };

function one(id: string, part: Item = {}): Approval {
  return approvalOf(approvalRow(id, { ...WAITS, ...part })) as Approval;
}

beforeEach(() => {
  Element.prototype.scrollIntoView = () => undefined; // jsdom has no layout and no scrolling
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

function page({ approvals = [one("p1")], role = "operator" }: Shown = {}): TestPage {
  const made = new TestPage({ role });
  for (const id of ["a", "b"]) made.server.do({ verb: "create", id, parent: null });
  made.load();
  vi.spyOn(made.api, "pendingApprovals").mockResolvedValue([]);
  vi.spyOn(made.api, "approvalPage").mockResolvedValue({ approvals: [], reachedEnd: true });
  made.session.decisions.merge(approvals);
  return made;
}

async function shown(made: TestPage, { open = null, list = "waiting" }: Shown = {}): Promise<void> {
  made.show(
    <>
      <InboxView place={{ ...INBOX, kind: "approval", list, open: open === null ? null : { id: open, workspaceId: "a" } }} />
      <UndoBar />
    </>,
  );
  await flushPromises();
}

function tell(made: TestPage, ...approvals: Approval[]): void {
  act(() => made.session.decisions.merge(approvals));
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
  const made = page({ approvals: [one("p1", { path, risk: ["production"], cost: 12.5, policy: [{ kind: "rule", text: "deploy* needs leave" }] })] });
  await shown(made, { open: "p1" });
  const request = screen.getByRole("article", { name: "Request" });
  for (const words of ["Agent a", "deploy", "It is tested", "production", "Cost: 12.5", "deploy* needs leave", "Lead was asked", "Lead escalated", "“not <b>mine</b>”", "it said so"]) {
    expect(request.textContent).toContain(words);
  }
  expect(request.textContent).toContain("expires in 59:30");
  expect(request.textContent).toContain("escalates in 1:30");
  await pass(1_000);
  expect(request.textContent).toContain("expires in 59:29");
  expect(within(request).getByRole("region", { name: "Details" }).textContent).toBe('{\n  "to": "production"\n}');
});

test("the time that is left is the server's", async () => {
  const made = page();
  made.session.decisions.setTime("2026-03-01T12:30:30Z", NOW);
  await shown(made, { open: "p1" });
  expect(screen.getByRole("article").textContent).toContain("expires in 29:30");
});

test("an answer leaves the page after five seconds, and says what was shown", async () => {
  const made = page();
  const decide = vi.spyOn(made.api, "decide").mockResolvedValue(one("p1", { status: "approved", seq: 5 }));
  await shown(made, { open: "p1" });
  press("Approve");
  expect(screen.getByText(/^Approved: deploy. Closing this page sends it at once/)).toBeTruthy();
  await pass(UNDO_MS - 1);
  expect(decide).not.toHaveBeenCalled();
  await pass(1);
  expect(decide).toHaveBeenCalledExactlyOnceWith(expect.objectContaining({ id: "p1", revision: 1, actionHash: "0a1b" }), { verdict: "approve", note: "", details: null }, true);
  expect(screen.queryByRole("button", { name: "Undo" })).toBeNull();
  expect(screen.getByRole("article").textContent).toContain("Approved");
});

test("what is taken back within five seconds is never sent", async () => {
  const made = page();
  const decide = vi.spyOn(made.api, "decide");
  await shown(made, { open: "p1" });
  for (const way of ["Undo", "Cancel sending"]) {
    press("Approve");
    await pass(UNDO_MS - 100);
    press(way);
    await pass(UNDO_MS * 2);
    expect(decide).not.toHaveBeenCalled();
    expect(screen.getByRole("button", { name: "Approve" })).toBeTruthy();
  }
  press("Approve");
  act(() => made.session.stop()); // the session ends
  await pass(UNDO_MS * 2);
  expect(decide).not.toHaveBeenCalled();
});

const browserAsks = (): boolean => !window.dispatchEvent(new Event("beforeunload", { cancelable: true }));

test("a page that closes sends what it holds once, in requests that outlive it", async () => {
  const made = page();
  const decide = vi.spyOn(made.api, "decide").mockResolvedValue(one("p1", { status: "approved", seq: 5 }));
  await shown(made, { open: "p1" });
  press("Approve");
  expect(browserAsks()).toBe(false);
  act(() => void made.session.decisions.sendHeld());
  expect(decide).toHaveBeenCalledExactlyOnceWith(expect.objectContaining({ id: "p1" }), { verdict: "approve", note: "", details: null }, true);
  expect(screen.queryByRole("button", { name: "Undo" })).toBeNull();
  await pass(UNDO_MS * 2); // a browser may keep the page and show it again
  expect(decide).toHaveBeenCalledOnce();
});

test("logging out sends what is held before the session ends", async () => {
  const made = page();
  const done: string[] = [];
  vi.spyOn(made.api, "decide").mockImplementation(() => Promise.resolve(one("p1", { status: "approved", seq: 5 })).finally(() => done.push("decided")));
  vi.spyOn(made.api, "logOut").mockImplementation(() => Promise.resolve(done.push("logged out")));
  await shown(made, { open: "p1" });
  press("Approve");
  await act(() => made.session.logOut());
  expect(done).toEqual(["decided", "logged out"]);
});

test("the browser asks before a page closes that could not send all, or not now", async () => {
  const many = Array.from({ length: 17 }, (_, at) => one(`p${at}`));
  const made = page({ approvals: many });
  const decide = vi.spyOn(made.api, "decide").mockRejectedValue(new NoResponseError("The server did not respond."));
  const { decisions } = made.session;
  const answer = { verdict: "approve", note: "", details: null } as const;
  decisions.decide(many, answer, "", NOW);
  expect(browserAsks()).toBe(true);
  await pass(UNDO_MS);
  expect(browserAsks()).toBe(true); // not sent
  decisions.cancel(many.map(({ id }) => id));
  expect(browserAsks()).toBe(false);
  decisions.decide(many.slice(0, 1), { ...answer, details: { words: "x".repeat(60_000) } }, "", NOW);
  expect(browserAsks()).toBe(true);
  decisions.cancel(["p0"]);
  decisions.decide(many.slice(0, 1), answer, "", NOW);
  expect(browserAsks()).toBe(false);
  decisions.setReachable(false);
  expect(browserAsks()).toBe(true);
  decide.mockClear();
  decisions.decide(many, answer, "", NOW);
  void decisions.sendHeld();
  expect(decide.mock.calls.filter(([, , keepalive]) => keepalive)).toHaveLength(16);
});

test("whoever is second sees who decided first", async () => {
  const made = page();
  const first = approvalRow("p1", { status: "denied", seq: 7, decided: { decision: "deny", by: { kind: "person", id: "b", name: "Ben", session: "s" }, at: "2026-03-01T12:00:31Z", note: "no", revision: 1, action_hash: "", edited: false } });
  vi.spyOn(made.api, "decide").mockRejectedValue(new ApiError(409, "already_decided", "Somebody has decided it.", { approval: first }));
  await shown(made, { open: "p1" });
  press("Approve");
  await pass(UNDO_MS);
  expect(screen.getByRole("alert").textContent).toContain("Denied by Ben.");
  press("Review again");
  expect((screen.getByRole("button", { name: "Approve" }) as HTMLButtonElement).disabled).toBe(true);
});

test("an answer that the server did not get is kept, and goes again at a press", async () => {
  const made = page();
  const decide = vi.spyOn(made.api, "decide").mockRejectedValueOnce(new NoResponseError("The server did not respond.")).mockResolvedValue(one("p1", { status: "approved", seq: 5 }));
  await shown(made, { open: "p1" });
  press("Approve");
  await pass(UNDO_MS);
  expect(screen.getByRole("alert").textContent).toContain("The server did not respond.");
  press("Send again");
  await flushPromises();
  expect(decide).toHaveBeenCalledTimes(2);
  expect(screen.getByRole("article").textContent).toContain("Approved");
});

test("when it ends while somebody looks or writes, nothing can be answered, and why is said", async () => {
  const made = page();
  const decide = vi.spyOn(made.api, "decide");
  await shown(made, { open: "p1" });
  press("Deny…");
  tell(made, one("p1", { status: "withdrawn", seq: 9 }));
  expect(screen.getByText(/Withdrawn by Agent a/)).toBeTruthy();
  for (const each of within(screen.getByRole("group", { name: "Decision" })).getAllByRole("button")) expect((each as HTMLButtonElement).disabled).toBe(true);
  expect(decide).not.toHaveBeenCalled();
});

test("its time is over by the clock, before anybody says so", async () => {
  const made = page({ approvals: [one("p1", { expires_at: "2026-03-01T12:00:32Z" })] });
  await shown(made, { open: "p1" });
  expect((screen.getByRole("button", { name: "Approve" }) as HTMLButtonElement).disabled).toBe(false);
  await pass(2_000);
  expect((screen.getByRole("button", { name: "Approve" }) as HTMLButtonElement).disabled).toBe(true);
  expect(screen.getByText("This request has expired.")).toBeTruthy();
});

test("edited details are approved as they are written, and a mistake is told at its line", async () => {
  const made = page();
  const decide = vi.spyOn(made.api, "decide").mockResolvedValue(one("p1", { status: "approved", seq: 5, edited: { to: "staging" }, details: { to: "staging" } }));
  await shown(made, { open: "p1" });
  press("Approve with edits…");
  const field = screen.getByRole("textbox", { name: "Details to approve" });
  fireEvent.change(field, { target: { value: '{\n  "to": 3\n}' } });
  expect(screen.getByText("Line 2:").parentElement?.textContent).toContain("must be a string");
  expect((screen.getByRole("button", { name: "Approve edited details" }) as HTMLButtonElement).disabled).toBe(true);
  fireEvent.change(field, { target: { value: '{"to": "staging"}' } });
  press("Approve edited details");
  await pass(UNDO_MS);
  expect(decide.mock.calls[0]?.[1]).toEqual({ verdict: "approve", note: "", details: { to: "staging" } });
  expect(screen.getByRole("region", { name: "Edited (in effect)" }).textContent).toContain("staging");
  expect(screen.getByRole("region", { name: "Proposed" }).textContent).toContain("production");
});

test("a question, a reason and passing it on go as they are written", async () => {
  const made = page();
  const decide = vi.spyOn(made.api, "decide").mockResolvedValue(one("p1"));
  await shown(made, { open: "p1" });
  for (const [open, label, words, done, verdict] of [["Ask a question…", "Your question", "Since when?", "Ask", "more_info"], ["Deny…", "Reason", "Not today", "Deny", "deny"]] as const) {
    press(open);
    fireEvent.change(screen.getByLabelText(label), { target: { value: words } });
    press(done);
    await pass(UNDO_MS);
    expect(decide.mock.lastCall?.[1]).toEqual({ verdict, note: words, details: null });
  }
  press("Leave to a person");
  await pass(UNDO_MS);
  expect(decide.mock.lastCall?.[1].verdict).toBe("escalate");
});

test("several are answered together: exactly those that were chosen and listed", async () => {
  const made = page({ approvals: [one("p1"), one("p2", { action: "restart" }), one("long", { details: { words: "x".repeat(300) } })] });
  const decide = vi.spyOn(made.api, "decide").mockImplementation(({ id }) => Promise.resolve(one(id, { status: "approved", seq: 5 })));
  await shown(made);
  expect(screen.getAllByRole("checkbox")).toHaveLength(2);
  for (const box of screen.getAllByRole("checkbox")) fireEvent.click(box);
  press("Approve…");
  const dialog = screen.getByRole("dialog");
  tell(made, one("p3", { action: "arrived" }), one("p2", { status: "expired", seq: 3 }));
  expect(dialog.textContent).not.toContain("arrived");
  expect(dialog.textContent).toContain("No longer included: Expired without a decision");
  fireEvent.click(within(dialog).getByRole("button", { name: "Approve 1 request" }));
  await pass(UNDO_MS);
  expect(decide.mock.calls.map(([{ id }]) => id)).toEqual(["p1"]);
});

test("a list that cannot be read keeps what was there, and never says that nothing waits", async () => {
  const made = page();
  const read = vi.spyOn(made.api, "pendingApprovals").mockRejectedValue(new NoResponseError("The server did not respond."));
  await shown(made);
  expect(screen.getByRole("alert").textContent).toContain("Could not load the list.");
  expect(within(screen.getByRole("list", { name: "Requests" })).getAllByRole("listitem")).toHaveLength(1);
  tell(made, one("p1", { status: "denied", seq: 3 }));
  expect(screen.queryByText("No requests waiting for you")).toBeNull();
  expect(screen.getByRole("alert").textContent).toContain("Some requests may not be shown.");
  read.mockResolvedValue([]);
  press("Try again");
  await flushPromises();
  expect(screen.queryByRole("alert")).toBeNull();
  expect(screen.getByText("No requests waiting for you")).toBeTruthy();
});

test("who may only look is told who decides, and how it was decided", async () => {
  const made = page({ role: "viewer" });
  await shown(made, { open: "p1" });
  expect(screen.getAllByRole("link", { name: /Waiting for a person/ })).toHaveLength(2);
  expect(screen.queryByText(/Waiting for you/)).toBeNull();
  expect(screen.getByText("Only operators and owners can decide this request.")).toBeTruthy();
  expect(screen.queryByRole("button", { name: "Approve" })).toBeNull();
  expect(screen.queryByRole("checkbox")).toBeNull();
  tell(made, one("p1", { status: "expired", seq: 4 }));
  expect(screen.getByText(/Expired without a decision, which counts as denied/)).toBeTruthy();
  expect(screen.queryByText(/can decide this/)).toBeNull();
});

test("what changes while it is open is approved only by who has read it again", async () => {
  const made = page();
  await shown(made, { open: "p1" });
  press("Approve with edits…");
  tell(made, one("p1", { seq: 3, revision: 2, action_hash: "0c2d", details: { to: "everywhere" } }));
  expect(screen.getByRole("alert").textContent).toContain("changed while it was open");
  expect(screen.queryByRole("button", { name: /Approve/ })).toBeNull();
  press("Mark as reviewed");
  expect((screen.getByRole("textbox", { name: "Details to approve" }) as HTMLTextAreaElement).value).toContain("everywhere");
  const decide = vi.spyOn(made.api, "decide").mockResolvedValue(one("p1", { status: "approved", seq: 5 }));
  press("Cancel");
  press("Approve");
  await pass(UNDO_MS);
  expect(decide.mock.calls[0]?.[0]).toMatchObject({ revision: 2, actionHash: "0c2d" });
});

test("Escape leaves what is being written first, and the request after that", async () => {
  const made = page();
  const go = vi.spyOn(made.app.router, "go");
  await shown(made, { open: "p1" });
  press("Deny…");
  fireEvent.keyDown(screen.getByLabelText("Reason"), { key: "Escape" });
  expect(go).not.toHaveBeenCalled();
  expect(screen.getByRole("button", { name: "Deny…" })).toBeTruthy();
  fireEvent.keyDown(window, { key: "Escape" });
  expect(go).toHaveBeenCalledExactlyOnceWith({ ...INBOX, kind: "approval" });
});

test("the focus stays with the answer when its buttons change", async () => {
  const made = page();
  await shown(made, { open: "p1" });
  const approve = screen.getByRole("button", { name: "Approve" });
  approve.focus();
  fireEvent.click(approve);
  expect(document.activeElement).toBe(screen.getByRole("group", { name: "Your decision" }));
});

test("a number that a browser rounds is told, and its details cannot be edited or answered from the list", async () => {
  const made = page({ approvals: [one("p1", { details: { to: [{ account: 12345678901234567890 }] } })] });
  await shown(made, { open: "p1" });
  expect(screen.getByText(/too long for a browser to show exactly/)).toBeTruthy();
  expect((screen.getByRole("button", { name: "Approve with edits…" }) as HTMLButtonElement).disabled).toBe(true);
  expect(screen.queryByRole("checkbox")).toBeNull();
});

test("of several answers those that went wrong are listed with why, wherever their requests are, and go again together", async () => {
  const made = page({ approvals: [one("p1"), one("p2", { action: "restart" }), one("p3", { action: "scale" })] });
  const lost = approvalRow("p2", { ...WAITS, action: "restart", status: "denied", seq: 7, decided: { decision: "deny", by: { kind: "person", id: "b", name: "Ben", session: "s" }, at: "2026-03-01T12:00:31Z", note: "", revision: 1, action_hash: "", edited: false } });
  const decide = vi.spyOn(made.api, "decide").mockImplementation(({ id }) => {
    if (id === "p2") return Promise.reject(new ApiError(409, "already_decided", "Ben has denied it before.", { approval: lost }));
    return id === "p3" && decide.mock.calls.length < 4 ? Promise.reject(new NoResponseError("The server did not respond.")) : Promise.resolve(one(id, { status: "approved", seq: 5 }));
  });
  await shown(made);
  for (const box of screen.getAllByRole("checkbox")) fireEvent.click(box);
  press("Approve…");
  fireEvent.click(within(screen.getByRole("dialog")).getByRole("button", { name: "Approve 3 requests" }));
  expect(screen.getAllByText(/not sent yet\. Sending in/)).toHaveLength(3);
  await pass(UNDO_MS);
  expect(made.session.decisions.outcome.get()?.words).toBe("2 of 3 decisions were rejected");
  const wrong = screen.getByRole("region", { name: "Decisions that were not accepted" });
  expect(wrong.textContent).toContain("restart Your decision was rejected. Ben has denied it before.");
  expect(wrong.textContent).toContain("scale Your decision was not sent. The server did not respond.");
  press("Resend 1 decision");
  await flushPromises();
  expect(decide.mock.calls.map(([{ id }]) => id)).toEqual(["p1", "p2", "p3", "p3"]);
  press("Dismiss");
  expect(screen.queryByRole("region", { name: "Decisions that were not accepted" })).toBeNull();
});

test("what was passed on, or perhaps was not, is passed on over the same holder again, and not once it has gone on", async () => {
  const made = page();
  const moved = one("p1", { seq: 6, holder: { kind: "person", workspace_id: null, name: "" }, level_deadline: null });
  const decide = vi.spyOn(made.api, "decide").mockRejectedValue(new NoResponseError("The server did not respond."));
  await shown(made, { open: "p1" });
  press("Leave to a person");
  await pass(UNDO_MS);
  press("Send again");
  await flushPromises();
  const [first, second] = decide.mock.calls.map(([{ holder, revision }, { verdict }]) => ({ holder, revision, verdict }));
  expect(first?.holder.kind).toBe("workspace");
  expect(second).toEqual(first);
  tell(made, moved);
  press("Send again");
  await flushPromises();
  expect(decide).toHaveBeenCalledTimes(2);
  expect(within(screen.getByRole("article")).getByRole("alert").textContent).toContain("The request was escalated meanwhile, so nothing was sent.");
});

test("answers that were taken back one by one leave nothing to undo", async () => {
  const made = page({ approvals: [one("p1"), one("p2")] });
  await shown(made, { open: "p1" });
  press("Approve");
  press("Cancel sending");
  expect(screen.queryByRole("button", { name: "Undo" })).toBeNull();
});

test("what was decided is read page by page, newest first; a page that cannot be read is told", async () => {
  const made = page({ approvals: [] });
  const done = (turn: number): Approval => one(`d${turn}`, { action: `done ${turn}`, status: "denied", created_at: `2026-02-0${turn}T12:00:00Z` });
  const read = vi.spyOn(made.api, "approvalPage").mockResolvedValueOnce({ approvals: [done(9), done(8)], reachedEnd: false });
  await shown(made, { list: "decided" });
  const actions = (): (string | undefined)[] => within(screen.getByRole("list", { name: "Requests" })).getAllByRole("link").map((each) => /done \d/.exec(each.textContent ?? "")?.[0]);
  expect(actions()).toEqual(["done 9", "done 8"]);
  read.mockRejectedValueOnce(new NoResponseError("The server did not respond.")).mockResolvedValueOnce({ approvals: [done(7)], reachedEnd: true });
  press("Load older requests");
  await flushPromises();
  expect(screen.getByRole("alert").textContent).toContain("Could not load older requests: The server did not respond.");
  press("Load older requests");
  await flushPromises();
  expect(read.mock.calls.map(([, before]) => before)).toEqual([null, "d8", "d8"]);
  expect(actions()).toEqual(["done 9", "done 8", "done 7"]);
  expect(screen.queryByRole("button", { name: "Load older requests" })).toBeNull();
});

test("thousands that wait are shown a hundred at a time", async () => {
  const made = page({ approvals: Array.from({ length: 250 }, (_, at) => one(`p${at}`, { action: `turn ${at}`, created_at: new Date(NOW - 1_000_000 + at * 1_000).toISOString() })) });
  await shown(made);
  const rows = (): HTMLElement[] => within(screen.getByRole("list", { name: "Requests" })).getAllByRole("listitem");
  expect([rows().length, rows()[0]?.textContent?.includes("turn 0")]).toEqual([100, true]);
  press("Next");
  press("Next");
  expect([rows().length, rows()[0]?.textContent?.includes("turn 200")]).toEqual([50, true]);
  expect(screen.getByText("201 to 250 of 250")).toBeTruthy();
});

test("hostile texts are shown as texts, and what is not seen by its number", async () => {
  const many = Object.fromEntries(Array.from({ length: 1_000 }, (_, at) => [`key${at}`, at]));
  const made = page({ approvals: [one("p1", { action: "pay \u202egnp.exe <img src=x onerror=alert(1)>", requester_name: "<b>Lead</b>", reason: "a".repeat(2_000), details: { ...many, "\u0000": "\u2066x" } })] });
  await shown(made, { open: "p1" });
  expect(document.querySelector("img, b")).toBeNull();
  expect(screen.getByRole("heading", { name: "pay \\u202egnp.exe <img src=x onerror=alert(1)>" })).toBeTruthy();
  const details = screen.getByRole("region", { name: "Details" }).textContent ?? "";
  for (const words of ['"key999": 999', '"\\u0000": "\\u2066x"']) expect(details).toContain(words);
  expect(screen.getByText("Open the request to see all details.")).toBeTruthy();
});

test("a request that this page has not heard of is read, or said not to be there", async () => {
  const made = page({ approvals: [] });
  const read = vi.spyOn(made.api, "approval").mockResolvedValueOnce(one("p9", { action: "drop the table", status: "denied" }));
  await shown(made, { open: "p9", list: "decided" });
  expect(read).toHaveBeenCalledExactlyOnceWith("a", "p9");
  expect(screen.getByRole("heading", { name: "drop the table" })).toBeTruthy();
});

test("last messages that could not be read are told of beside those that came since, and read later by themselves", async () => {
  const made = new TestPage();
  made.server.do({ verb: "create", id: "a", parent: null });
  for (const text of ["one", "two"]) made.server.do({ verb: "answer", id: "a", text });
  made.load().session.decisions.merge([one("p1")]);
  const timeline = vi.spyOn(made.api, "timeline").mockRejectedValueOnce(new ApiError(503, null, "The store is busy."));
  await shown(made, { open: "p1" });
  made.server.do({ verb: "answer", id: "a", text: "three" });
  made.deliver();
  const part = screen.getByRole("region", { name: "Last messages" });
  const said = (): (string | null)[] => within(part).getAllByRole("listitem").map((each) => each.lastElementChild?.textContent ?? null);
  expect([within(part).getByRole("alert").textContent, said()]).toEqual(["Could not load the latest messages: The store is busy. Try again", ["three"]]);
  await pass(RETRY_MS);
  expect([timeline.mock.calls.length, within(part).queryByRole("alert"), said()]).toEqual([2, null, ["one", "two", "three"]]);
});

test("an agent that the details name by its id is shown with its name", () => {
  const names = new Map([["w1", "Desk <b>"], ["w2", "Lead"]]);
  const details = { path: { id: "w2" }, body: { target_id: "w1", task: "w1 is open", other: [{ id: "w1" }, 7, null] } };
  expect(namedAgents(details, (id) => names.get(id))).toEqual([{ id: "w2", name: "Lead" }, { id: "w1", name: "Desk <b>" }]);
  expect(namedAgents({}, (id) => names.get(id))).toEqual([]);
});

test("a review shows the task, the answer and its files; a rejection needs a reason", async () => {
  const details = { delegation_id: "d1", delegator: "Lead", task: "Count the mail", answer: "It is 42.", answer_cut: 7, files: [{ uri: "/workspaces/a/files/f", name: "report.json", size: 1200 }] };
  const made = page({ approvals: [one("p1", { source: "review", action: "review_answer", details, level_deadline: null })] });
  const decide = vi.spyOn(made.api, "decide").mockResolvedValue(one("p1", { status: "denied" }));
  await shown(made, { open: "p1" });
  expect(screen.getByRole("region", { name: "Task" }).textContent).toContain("Count the mail");
  expect(screen.getByRole("region", { name: "Answer" }).textContent).toContain("It is 42.");
  expect(screen.getByText("The last 7 bytes of the answer are not shown.")).toBeTruthy();
  expect(screen.getByRole("link", { name: "report.json" }).getAttribute("href")).toBe("/workspaces/a/files/f");
  expect(screen.queryByRole("button", { name: "Approve with edits…" })).toBe(null);
  press("Deny…");
  expect(screen.getByRole("button", { name: "Deny" })).toHaveProperty("disabled", true);
  fireEvent.change(screen.getByRole("textbox", { name: "Reason" }), { target: { value: "Count again." } });
  press("Deny");
  await pass(UNDO_MS + 1000);
  expect(decide).toHaveBeenCalledOnce();
});

test("a review is not decided in the list", async () => {
  const made = page({ approvals: [one("p1", { source: "review", action: "review_answer", details: {}, reason: "" })] });
  await shown(made);
  expect(screen.getByText("review_answer")).toBeTruthy();
  expect(screen.queryByRole("button", { name: /Deny/ })).toBe(null);
});
