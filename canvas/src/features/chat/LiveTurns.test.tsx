import { act, fireEvent, screen } from "@testing-library/react";
import { afterEach, expect, test, vi } from "vitest";
import type { EventFrame, LiveTurnPayload } from "../../core/wire";
import { TestPage, flushPromises } from "../../core/testing/testPage";
import { sentenceEnd } from "../liveTurns/LiveTurnCard";
import { Conversation } from "./Conversation";

afterEach(() => vi.useRealTimers());

async function chat(role = "owner"): Promise<TestPage> {
  const made = new TestPage({ role });
  made.server.do({ verb: "create", id: "a", parent: null });
  made.server.do({ verb: "ask", id: "a", text: "How is it going?" });
  made.load().show(<Conversation workspaceId="a" />);
  await flushPromises();
  return made;
}

function report(made: TestPage, change: Partial<LiveTurnPayload>): void {
  const activity_id = made.session.data.get()?.chats.get("a")?.lines[0]?.id ?? "";
  const payload: LiveTurnPayload = { activity_id, thread_id: "", status: "working", status_text: "", started_at: "2026-03-01T12:00:00Z", text_at: 0, text: "", tools: [], whole: true, stop_requested_by: null, ...change };
  const frame: EventFrame = { event: "LIVE_TURN", workspace_id: "a", timestamp: payload.started_at, payload, entity: { kind: "workspace", id: "a", rev: 0 } };
  act(() => made.session["receiveEvents"]([frame]));
}

const card = (): HTMLElement | null => document.querySelector("[data-live]");

test("hostile text and tool names are shown as they are", async () => {
  const made = await chat();
  report(made, { text: "<b>bold</b> \u202Ereversed", tools: [{ call_id: "1", tool: "<i>Bash</i>", title: "\u001b[31mred", status: "failed" }] });
  expect(card()?.querySelector("b, i")).toBeNull();
  expect(card()?.textContent).toContain("<b>bold</b>");
  expect(card()?.textContent).not.toContain("\u202E");
});

test("a stop is requested once, and shown until the turn ends", async () => {
  const made = await chat();
  const stop = vi.spyOn(made.api, "stopTurn").mockResolvedValue({});
  report(made, { text: "I think" });
  fireEvent.click(screen.getByRole("button", { name: "Stop Agent a" }));
  await flushPromises();
  expect(stop).toHaveBeenCalledExactlyOnceWith("a", expect.any(String));
  report(made, { text: "I think", stop_requested_by: "Ada" });
  expect(card()?.textContent).toContain("Stopping, as Ada asked");
  fireEvent.click(screen.getByRole("button", { name: "Stop Agent a" }));
  expect(stop).toHaveBeenCalledTimes(1);
});

test("a refused stop is explained beside the button", async () => {
  const made = await chat();
  vi.spyOn(made.api, "stopTurn").mockRejectedValue(new Error("The turn has ended."));
  report(made, {});
  fireEvent.click(screen.getByRole("button", { name: "Stop Agent a" }));
  await flushPromises();
  expect(screen.getByRole("alert").textContent).not.toBe("");
});

test("viewers see the turn without a button to stop it", async () => {
  const made = await chat("viewer");
  report(made, { text: "I think" });
  expect(card()?.textContent).toContain("I think");
  expect(screen.queryByRole("button", { name: "Stop Agent a" })).toBeNull();
});

test("an ended turn without an answer goes after a moment, and a reconnect forgets all", async () => {
  const made = await chat();
  vi.useFakeTimers();
  report(made, { text: "I think" });
  report(made, { status: "failed", text_at: 7, whole: false });
  expect(card()?.textContent).toContain("Failed");
  act(() => vi.advanceTimersByTime(5_000));
  expect(card()).toBeNull();
  report(made, { text: "Again", started_at: "2026-03-01T12:05:00Z" });
  expect(card()?.textContent).toContain("Again");
  vi.spyOn(made.session.problemLists, "read").mockResolvedValue(undefined);
  act(() => made.session["catchUp"]());
  expect(card()).toBeNull();
});

test("new text is read to screen readers in whole sentences, now and then", async () => {
  const made = await chat();
  vi.useFakeTimers();
  report(made, { text: "First. Sec" });
  const spoken = (): string => document.querySelector("[data-live] [aria-live=polite]")?.textContent ?? "";
  expect(spoken()).toBe("");
  act(() => vi.advanceTimersByTime(4_000));
  expect(spoken()).toBe("First.");
  report(made, { text: "ond.\n", text_at: 10, whole: false });
  act(() => vi.advanceTimersByTime(4_000));
  expect(spoken()).toBe("Second.");
});

test.each([
  ["First. Sec", 6],
  ["no end yet", 0],
  ["version 1.5 is", 0],
  ['He said "no." Then', 13],
])("the last whole sentence of %j ends at %i", (words, end) => expect(sentenceEnd(words)).toBe(end));
