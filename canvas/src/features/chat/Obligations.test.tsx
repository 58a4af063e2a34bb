import { act, cleanup, fireEvent, screen, within } from "@testing-library/react";
import { afterEach, expect, test, vi } from "vitest";
import { NoResponseError } from "../../core/api/api";
import type { Verb } from "../../core/testing/modelServer";
import { Conversation } from "./Conversation";
import { TestPage, PATIENT, flushPromises } from "../../core/testing/testPage";
import { deliveryText, instructionsText } from "./deliveryText";

afterEach(() => vi.useRealTimers());

const ASKED: readonly Verb[] = [
  { verb: "create", id: "a", parent: null },
  { verb: "ask", id: "a", text: "Is it done?" },
  { verb: "hand_over", id: "a", count: 1 },
];

async function page(verbs: readonly Verb[] = ASKED, options?: ConstructorParameters<typeof TestPage>[0]): Promise<TestPage> {
  const made = new TestPage(options);
  for (const each of verbs) made.server.do(each);
  made.load().show(<Conversation workspaceId="a" />);
  await flushPromises();
  return made;
}

/** Deliver events, and read what they contain only in part. */
async function happen(made: TestPage, ...verbs: readonly Verb[]): Promise<void> {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  for (const each of verbs) made.server.do(each);
  made.deliver();
  await act(() => vi.advanceTimersByTimeAsync(1_000));
  vi.useRealTimers();
  await flushPromises();
}

const message = (): HTMLElement => screen.getByText("Is it done?").closest("li") as HTMLElement;
const draft = (): HTMLElement | null => screen.queryByRole("group", { name: "Unsent answer of Agent a" });

test("a message is answered, declined or overdue as it happens, and after a reload", async () => {
  for (const [verbs, words] of [
    [[{ verb: "answer", id: "a", text: "Yes" }], "Answered"],
    [[{ verb: "decline", id: "a", at: 0 }], "Declined: not mine"],
    [[{ verb: "be_late", id: "a", at: 0 }], "Answer overdue"],
    [[{ verb: "fail", id: "a", at: 0 }], "Failed"],
    [[{ verb: "fail", id: "a", at: 0 }], "could not answer: exit code 3. Send the message again"],
    [[{ verb: "fail", id: "a", at: 0 }, { verb: "answer", id: "a", text: "Yes" }], "Answered"],
  ] as const satisfies readonly (readonly [readonly Verb[], string])[]) {
    const made = await page();
    expect(message().textContent).toContain("Delivered");
    await happen(made, ...verbs);
    expect(message().textContent).toContain(words);
    cleanup();
    await page([...ASKED, ...verbs]);
    expect(message().textContent).toContain(words);
    cleanup();
  }
});

test("what an agent said elsewhere appears under the message, and one press sends it", async () => {
  const made = await page();
  const send = vi.spyOn(made.api, "sendDraft").mockResolvedValue({});
  await happen(made, { verb: "draft", id: "a", at: 0, text: "**All** of it" });
  expect(message().textContent).toContain("Answered outside Molecule");
  expect(draft()?.textContent).toContain("Agent a’s unsent answer. Accepting it sends it to");
  await vi.waitFor(() => expect(draft()?.querySelector("[data-text] strong")?.textContent).toBe("All"), PATIENT);
  fireEvent.click(within(draft() as HTMLElement).getByRole("button", { name: "Accept as answer" }));
  await flushPromises();
  const activityId = made.server.history("a")[0]?.id;
  expect(send).toHaveBeenCalledExactlyOnceWith({ workspaceId: "a", activityId }, null);
  await happen(made, { verb: "send_draft", id: "a", at: 0 });
  expect(message().textContent).toContain("Answered");
  expect(draft()).toBeNull();
});

test("a draft that was discarded is gone, and the message is still open", async () => {
  const made = await page([...ASKED, { verb: "draft", id: "a", at: 0, text: "no" }]);
  expect(draft()).not.toBeNull();
  await happen(made, { verb: "drop_draft", id: "a", at: 0 });
  expect(draft()).toBeNull();
  expect(message().textContent).toContain("Delivered");
});

test("what a message was told with is shown on demand", async () => {
  await page();
  const button = within(message()).getByRole("button", { name: "Instructions sent with this message" });
  expect(button.getAttribute("aria-expanded")).toBe("false");
  fireEvent.click(button);
  expect(message().textContent).toContain("Instructions: generic-mcp-default@1, full form, 180 tokens");
  expect(within(message()).getByRole("link").getAttribute("href")).toBe("/app/instructions/generic-mcp-default");
});

test("each thing that events tell in part is read once, also where the reading fails to bring it", async () => {
  const made = await page();
  const timeline = vi.mocked(made.api.timeline);
  timeline.mockClear().mockResolvedValue({ items: [], reached_end: false });
  await happen(made, { verb: "draft", id: "a", at: 0, text: "no" });
  await happen(made, { verb: "answer", id: "a", text: "Yes" });
  expect(timeline.mock.calls.length).toBeLessThanOrEqual(2);
});

const QUESTION = { kind: "message" as const, id: "q1", role: "agent", content: "Which one?", timestamp: "2026-03-01T12:00:00Z", seq: 10, options: ["The <b>first</b>", "The second"] };

async function asking(role = "operator"): Promise<TestPage> {
  const made = new TestPage({ role });
  made.server.do({ verb: "create", id: "a", parent: null });
  vi.mocked(made.api.timeline).mockResolvedValue({ items: [QUESTION], reached_end: true });
  made.load().show(<Conversation workspaceId="a" />);
  await flushPromises();
  return made;
}

const option = (name: RegExp | string): HTMLElement => within(screen.getByRole("group", { name: "Options" })).getByRole("button", { name });

test("an option is chosen by a press, sent with its number, and then all rest", async () => {
  const made = await asking();
  const send = vi.spyOn(made.api, "send").mockResolvedValue({});
  fireEvent.click(option("The <b>first</b>"));
  await flushPromises();
  expect(send).toHaveBeenCalledExactlyOnceWith("a", expect.any(String), "The <b>first</b>", { files: [], choice: { of: "q1", option: 0 }, when: "queue", replyTo: null });
  expect(option(/first/).getAttribute("aria-pressed")).toBe("true");
  expect(option(/first/).textContent).toContain("selected");
  expect([option(/first/), option(/second/)].every((each) => (each as HTMLButtonElement).disabled)).toBe(true);
});

test("a choice that could not be sent is sent again with its number", async () => {
  const made = await asking();
  const send = vi.spyOn(made.api, "send").mockRejectedValueOnce(new NoResponseError("The server did not respond.")).mockResolvedValue({});
  fireEvent.click(option("The second"));
  await flushPromises();
  fireEvent.click(screen.getByRole("button", { name: "Retry" }));
  await flushPromises();
  expect(send.mock.calls.map((call) => call[3]?.choice)).toEqual([{ of: "q1", option: 1 }, { of: "q1", option: 1 }]);
});

test("what was chosen is seen after a reload", async () => {
  const made = new TestPage();
  made.server.do({ verb: "create", id: "a", parent: null });
  const chosen = { kind: "message" as const, id: "m2", role: "user", content: "The second", timestamp: "2026-03-01T12:01:00Z", seq: 11, option_of: "q1", option: 1 };
  vi.mocked(made.api.timeline).mockResolvedValue({ items: [QUESTION, chosen], reached_end: true });
  made.load().show(<Conversation workspaceId="a" />);
  await flushPromises();
  expect([option(/first/), option(/second/)].map((each) => each.getAttribute("aria-pressed"))).toEqual(["false", "true"]);
});

test("who may only look chooses nothing", async () => {
  await asking("viewer");
  expect(option("The second")).toHaveProperty("disabled", true);
});

test("the words below a message say when an answer is due, and that none came", () => {
  const now = Date.parse("2026-03-01T12:00:00Z");
  const open = { state: "open", dueAt: "2026-03-01T12:02:00Z", draft: null, reason: null, template: null, form: null, tokens: null } as const;
  expect(deliveryText("in_inbox", open, null, now).words).toBe("In the agent’s inbox, answer due in 2 min");
  expect(deliveryText("handed_over", open, null, now).words).toBe("Delivered, answer due in 2 min");
  expect(deliveryText("acked", open, null, now + 120_000).words).toBe("Acknowledged, no answer yet");
  expect(deliveryText("acked", { ...open, dueAt: null }, null, now).words).toBe("Acknowledged");
  expect(deliveryText("stored", null, "the agent is paused", now).words).toBe("Queued: the agent is paused");
  expect(deliveryText("dead", open, null, now)).toMatchObject({ words: "Not delivered", bad: true });
  expect(deliveryText("acked", { ...open, state: "declined" }, null, now).words).toBe("Declined");
  expect(instructionsText(open)).toBeNull();
  expect(instructionsText({ ...open, template: "workspace:w@3" })).toBe("workspace:w@3");
});
