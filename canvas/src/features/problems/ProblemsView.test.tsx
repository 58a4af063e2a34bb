import { fireEvent, screen, within } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { ApiError } from "../../core/api/api";
import { chainOf, deadLetterOf, NO_PROBLEMS, unansweredOf, unclaimedOf, type Problems, type UnansweredMessage, type UnclaimedMessages } from "../../core/state/problems";
import { ProblemsView } from "./ProblemsView";
import { AttentionBar } from "../attention/AttentionBar";
import { TestPage, flushPromises } from "../../core/testing/testPage";
import type { ChainMessageRow } from "../../core/wire";

const LETTER = deadLetterOf({
  activity_id: "m1", workspace_id: "a", workspace_name: "Agent a", source_id: null, summary: "Ship <b>it</b>",
  reason: "unreachable", detail: "connection refused", attempts: 12, died_at: "2026-03-01T10:00:00Z",
});
const CHAIN = chainOf({ root_id: "r", workspace_id: "a", reason: "hops", hops: 24, messages: 25, frozen_at: "2026-03-01T10:00:00Z" });
const STUCK = { ...NO_PROBLEMS, deadLetters: [LETTER], chains: [CHAIN] } as Problems;
const OWED = unansweredOf({
  activity_id: "m7", workspace_id: "a", workspace_name: "Agent a", seq: 7, source_id: null, summary: "Is it <b>done</b>?",
  handed_at: "2026-03-01T09:00:00Z", overdue_at: "2026-03-01T10:00:00Z", reminded_at: "2026-03-01T09:30:00Z", draft: "Yes, <i>all</i> of it", template: "codex-default@2",
}) as UnansweredMessage;

function chainMessage(no: number, source: string, target: string): ChainMessageRow {
  const names = { workspace_name: `Agent ${target}`, source_name: `Agent ${source}` };
  return { no, activity_id: `m${no}`, workspace_id: target, source_id: source, ...names, kind: "peer_agent", method: null, summary: `<b>turn</b> ${no}`, hop: no, cause_id: null, at: "2026-03-01T10:00:00Z" };
}

/** A page with these problems, also when the view is opened. `answers`: results of later reads. */
function page(role = "owner", answers: Problems[] = [NO_PROBLEMS]): TestPage {
  const made = new TestPage({ role });
  made.server.do({ verb: "create", id: "a", parent: null });
  made.load();
  made.session.problemLists.problems.set(STUCK);
  const read = vi.spyOn(made.api, "problems");
  read.mockImplementationOnce(() => Promise.resolve(made.session.problemLists.problems.get()));
  for (const each of answers) read.mockResolvedValueOnce(each);
  const said = [chainMessage(24, "b", "a"), chainMessage(25, "a", "b")];
  vi.spyOn(made.api, "chainMessages").mockResolvedValue({ root_id: "r", chain: null, messages: said, reached_end: true });
  return made;
}

test("a message that was given up tells why, and goes out again at a press", async () => {
  const made = page("operator", [{ ...STUCK, deadLetters: [] }]);
  const requeue = vi.spyOn(made.api, "requeue").mockResolvedValue({});
  made.show(<ProblemsView />);
  const row = within(screen.getByRole("region", { name: "Undelivered messages" })).getByRole("listitem");
  expect(row.textContent).toContain("Ship <b>it</b>");
  expect(row.textContent).toContain("The agent could not be reached, after 12 attempts: connection refused");
  fireEvent.click(within(row).getByRole("button", { name: "Send again" }));
  await flushPromises();
  expect(requeue).toHaveBeenCalledExactlyOnceWith(LETTER);
  expect(screen.queryByRole("region", { name: "Undelivered messages" })).toBeNull();
});

test("discarding asks first", async () => {
  const made = page();
  const discard = vi.spyOn(made.api, "discard").mockResolvedValue({});
  made.show(<ProblemsView />);
  fireEvent.click(screen.getByRole("button", { name: "Discard…" }));
  fireEvent.click(screen.getByRole("button", { name: "Cancel" }));
  expect(discard).not.toHaveBeenCalled();
  fireEvent.click(screen.getByRole("button", { name: "Discard…" }));
  fireEvent.click(screen.getByRole("button", { name: "Discard" }));
  await flushPromises();
  expect(discard).toHaveBeenCalledExactlyOnceWith(LETTER);
  expect(screen.getByText("No problems")).toBeTruthy();
});

test("nothing is called well before the lists were read, nor where they could not be", async () => {
  const made = new TestPage().load();
  const read = vi.spyOn(made.api, "problems").mockRejectedValueOnce(new ApiError(503, null, "The server is busy."));
  made.show(
    <>
      <ProblemsView />
      <AttentionBar items={[]} attention={{ go: vi.fn(), next: vi.fn() }} />
    </>,
  );
  const strip = screen.getByRole("region", { name: "Needs attention" });
  expect(screen.getByRole("heading", { name: "Loading problems…" })).toBeTruthy();
  expect(strip.textContent).toContain("Checking for problems…");
  await flushPromises();
  expect(screen.getByRole("heading", { name: "Could not load problems" })).toBeTruthy();
  expect(screen.getByText("The server is busy.")).toBeTruthy();
  expect(strip.textContent).toContain("Could not check for problems");
  read.mockResolvedValueOnce(NO_PROBLEMS);
  fireEvent.click(within(strip).getByRole("button", { name: "Try again" }));
  await flushPromises();
  expect(screen.getByRole("heading", { name: "No problems" })).toBeTruthy();
  expect(strip.textContent).toContain("You’re all caught up");
});

test("lists that could not be read again stay, and say of when they are", async () => {
  const made = page("owner", []);
  await made.session.problemLists.read();
  vi.spyOn(made.api, "problems").mockRejectedValueOnce(new ApiError(503, null, "The server is busy."));
  await made.session.problemLists.read();
  made.show(<ProblemsView />);
  expect(screen.getByRole("alert").textContent).toMatch(/Could not load all problems. The server is busy. Showing problems as of \d\d:\d\d/);
  expect(screen.getByRole("region", { name: "Undelivered messages" })).toBeTruthy();
  fireEvent.click(screen.getByRole("button", { name: "Try again" }));
  await flushPromises();
  expect(screen.queryByRole("alert")).toBeNull();
});

test("a stopped chain goes on or ends as the person says, and what is refused is told beside it", async () => {
  const made = page();
  const release = vi.spyOn(made.api, "release").mockRejectedValue(new ApiError(404, null, "There is no such chain."));
  const end = vi.spyOn(made.api, "end").mockResolvedValue({});
  made.show(<ProblemsView />);
  const row = within(screen.getByRole("region", { name: "Stopped message chains" })).getAllByRole("listitem")[0] as HTMLElement;
  expect(row.textContent).toContain("Forwarded 24 times.");
  fireEvent.click(within(row).getByRole("button", { name: "Resume" }));
  await flushPromises();
  expect(release).toHaveBeenCalledExactlyOnceWith("org", CHAIN);
  expect(within(row).getByRole("alert").textContent).toBe("There is no such chain.");
  fireEvent.click(within(row).getByRole("button", { name: "End chain" }));
  await flushPromises();
  expect(end).toHaveBeenCalledExactlyOnceWith("org", CHAIN);
});

test("a stopped chain names its agents and shows what they wrote last, as it stands there", async () => {
  const made = page();
  made.show(<ProblemsView />);
  await flushPromises();
  const row = within(screen.getByRole("region", { name: "Stopped message chains" })).getAllByRole("listitem")[0] as HTMLElement;
  expect(row.textContent).toContain("Agent aandAgent b");
  expect(row.textContent).toContain("<b>turn</b> 25");
  expect(row.textContent).toContain("23 earlier.");
  expect(within(row).getByRole("link", { name: "View conversation" }).getAttribute("href")).toBe("/app/chat/b?peer=a&m=m25");
});

test("a chain whose messages cannot be read says so and keeps its actions", async () => {
  const made = page();
  vi.spyOn(made.api, "chainMessages").mockRejectedValue(new ApiError(503, null, "The server is busy."));
  made.show(<ProblemsView />);
  await flushPromises();
  expect(screen.getByRole("alert").textContent).toContain("The server is busy.");
  expect(screen.getByRole("button", { name: "Resume" })).toBeTruthy();
});

test("who may only look is told who may decide", () => {
  page("viewer").show(<ProblemsView />);
  expect(screen.queryByRole("button")).toBeNull();
  expect(screen.getAllByText(/Only operators/)).toHaveLength(2);
});

test("events that come while the lists are read lead to one more reading, not to many", async () => {
  const made = new TestPage();
  let answer: (found: Problems) => void = () => undefined;
  const read = vi.spyOn(made.api, "problems").mockImplementation(() => new Promise((done) => (answer = done)));
  const first = made.session.problemLists.read();
  for (let turn = 0; turn < 5; turn += 1) void made.session.problemLists.read();
  expect(read).toHaveBeenCalledTimes(1);
  answer(NO_PROBLEMS);
  await flushPromises();
  expect(read).toHaveBeenCalledTimes(2);
  answer(STUCK);
  await first;
  expect(made.session.problemLists.problems.get()).toBe(STUCK);
  expect(read).toHaveBeenCalledTimes(2);
});

function owing(more: Partial<UnansweredMessage> = {}, role = "operator"): TestPage {
  const made = page(role);
  made.session.problemLists.problems.set({ ...NO_PROBLEMS, unanswered: [{ ...OWED, ...more }] });
  return made;
}

const section = (): HTMLElement => screen.getByRole("region", { name: "Unanswered messages" });

test("a message without an answer shows what its agent said elsewhere, and one press sends it", async () => {
  const made = owing();
  const send = vi.spyOn(made.api, "sendDraft").mockResolvedValue({});
  made.show(<ProblemsView />);
  const row = within(section()).getByRole("listitem");
  expect(row.textContent).toContain("Is it <b>done</b>?");
  expect(row.textContent).toContain("Yes, <i>all</i> of it");
  expect(row.textContent).toContain("The answer is overdue and a reminder was sent. It was delivered with version 2 of the instructions codex-default");
  fireEvent.click(within(row).getByRole("button", { name: "Accept as answer" }));
  await flushPromises();
  expect(send).toHaveBeenCalledExactlyOnceWith({ workspaceId: "a", activityId: "m7" }, null);
  expect(screen.getByText("No problems")).toBeTruthy();
});

test("a draft can be changed before it is sent, and left as it was", async () => {
  const made = owing();
  const send = vi.spyOn(made.api, "sendDraft").mockRejectedValueOnce(new ApiError(409, null, "It was answered meanwhile."));
  made.show(<ProblemsView />);
  fireEvent.click(screen.getByRole("button", { name: "Edit" }));
  const words = screen.getByRole("textbox", { name: "Answer to send" });
  expect(words).toHaveProperty("value", "Yes, <i>all</i> of it");
  fireEvent.change(words, { target: { value: "  " } });
  expect(screen.getByRole("button", { name: "Accept edited answer" })).toHaveProperty("disabled", true);
  fireEvent.click(screen.getByRole("button", { name: "Cancel" }));
  fireEvent.click(screen.getByRole("button", { name: "Edit" }));
  fireEvent.change(screen.getByRole("textbox", { name: "Answer to send" }), { target: { value: "Yes." } });
  fireEvent.click(screen.getByRole("button", { name: "Accept edited answer" }));
  await flushPromises();
  expect(send).toHaveBeenCalledExactlyOnceWith({ workspaceId: "a", activityId: "m7" }, "Yes.");
  expect(within(section()).getByRole("alert").textContent).toBe("It was answered meanwhile.");
});

test("a draft that nobody should get is discarded", async () => {
  const made = owing({ overdueAt: null });
  const discard = vi.spyOn(made.api, "discardDraft").mockResolvedValue({});
  made.show(<ProblemsView />);
  expect(section().textContent).toContain("Answered outside Molecule");
  fireEvent.click(screen.getByRole("button", { name: "Dismiss" }));
  await flushPromises();
  expect(discard).toHaveBeenCalledExactlyOnceWith({ workspaceId: "a", activityId: "m7" });
  expect(screen.getByText("No problems")).toBeTruthy();
});

test("who may only look reads the draft and is told who may send it", () => {
  owing({}, "viewer").show(<ProblemsView />);
  expect(screen.queryByRole("button")).toBeNull();
  expect(section().textContent).toContain("Only operators and owners can accept it.");
});

const WAITING = unclaimedOf({
  workspace_id: "a", workspace_name: "Agent <b>a</b>", status: "offline", waiting: 2, more: false, since: "2026-03-01T09:00:00Z",
}) as UnclaimedMessages;

function leaving(more: Partial<UnclaimedMessages> = {}): TestPage {
  const made = page();
  made.session.problemLists.problems.set({ ...NO_PROBLEMS, unclaimed: [{ ...WAITING, ...more }] });
  return made;
}

const mail = (): HTMLElement => screen.getByRole("region", { name: "Unread mail" });

test.each([
  ["paused", "The agent is paused and receives no messages. Resume it."],
  ["provisioning", "No agent has connected yet. Connect one."],
  ["online", "The agent is online but does not pick up messages."],
])("mail that nobody takes of an agent that is %s says what to do, and leads to its chat", (status, words) => {
  const made = leaving();
  made.session.data.update((state) => {
    const known = state?.workspaces.get("a");
    return state && known ? { ...state, workspaces: new Map(state.workspaces).set("a", { ...known, status, active_tasks: 0, current_task: null }) } : state;
  });
  made.show(<ProblemsView />);
  const row = within(mail()).getByRole("listitem");
  expect(row.textContent).toContain("2 messages wait");
  expect(row.textContent).toContain(words);
  expect(within(row).getByRole("link", { name: "Open chat" }).getAttribute("href")).toBe("/app/chat/a");
});

test("an agent that this page does not know is told by the name that the server says, as it stands there", () => {
  leaving({ workspaceId: "gone", waiting: 100, more: true }).show(<ProblemsView />);
  const row = within(mail()).getByRole("listitem");
  expect(row.textContent).toContain("Agent <b>a</b>");
  expect(row.textContent).toContain("More than 100 messages wait");
  expect(within(row).queryByRole("link")).toBeNull();
});

test("mail grows old without a word of the server: whoever opens the view has the lists read", async () => {
  const made = new TestPage().load();
  const read = vi.spyOn(made.api, "problems").mockResolvedValueOnce({ ...NO_PROBLEMS, unclaimed: [WAITING], moreUnclaimed: true });
  made.show(<ProblemsView />);
  await flushPromises();
  expect(read).toHaveBeenCalledOnce();
  expect(mail().textContent).toContain("More agents appear once these are resolved.");
});

test("a message of an agent that got no answer leads to no chat of a person", () => {
  owing({ sourceId: "b", draft: null }).show(<ProblemsView />);
  expect(within(section()).queryByRole("link", { name: "View in chat" })).toBeNull();
  expect(section().textContent).toContain("from a removed agent");
});
