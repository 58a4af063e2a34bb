import { act, fireEvent, screen, within } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { TestPage, flushPromises } from "../../core/testing/testPage";
import { ChatList } from "./ChatList";

function page(agents: number, written: readonly string[] = []): TestPage {
  const made = new TestPage();
  for (let at = 0; at < agents; at += 1) made.server.do({ verb: "create", id: `w${at}`, parent: null });
  for (const id of written) made.server.do({ verb: "answer", id, text: `from ${id}` });
  vi.spyOn(made.api, "markUnread").mockResolvedValue({});
  return made.load();
}

const names = (section: string): string[] =>
  within(screen.getByRole("region", { name: section })).getAllByRole("link").map((link) => link.dataset["chat"] ?? "");

test("chats are in sections, and a search finds one which Enter opens", () => {
  const made = page(4, ["w1", "w2"]);
  made.session.markRead("w1");
  made.show(<ChatList current={null} />);
  expect([names("Unread"), names("Recent"), names("Other agents")]).toEqual([["w2"], ["w1"], ["w0", "w3"]]);
  const field = screen.getByRole("searchbox", { name: "Search chats" });
  fireEvent.change(field, { target: { value: "W3" } });
  expect(screen.getAllByRole("link").map((link) => link.dataset["chat"])).toEqual(["w3"]);
  fireEvent.submit(field);
  expect(made.app.router.place.get()).toMatchObject({ view: "chats", workspaceId: "w3" });
  fireEvent.change(field, { target: { value: "zebra" } });
  expect(screen.getByText("No agent matches “zebra”.")).toBeTruthy();
});

test("all chats are marked as read at a press, and as before when that is undone", async () => {
  const made = page(3, ["w0", "w1", "w1"]);
  made.show(<ChatList current={null} />);
  fireEvent.click(screen.getByRole("button", { name: "Mark all read" }));
  expect(screen.queryByRole("region", { name: "Unread" })).toBeNull();
  expect(vi.mocked(made.api.markRead).mock.calls).toEqual([["w0", 2], ["w1", 4]]);
  const undo = made.session.undo.get();
  expect(undo?.text).toBe("2 chats marked as read.");
  await act(async () => undo?.run());
  expect(names("Unread")).toEqual(["w1", "w0"]);
  expect(vi.mocked(made.api.markUnread).mock.calls).toEqual([["w0", 0], ["w1", 0]]);
  expect(made.session.data.get()?.chats.get("w1")?.unread).toBe(2);
});

test("U marks the focused chat as unread and keeps the focus on it", async () => {
  const made = page(2, ["w0", "w1"]);
  for (const id of ["w0", "w1"]) made.session.markRead(id);
  made.show(<ChatList current={null} />);
  const row = within(screen.getByRole("region", { name: "Recent" })).getAllByRole("link").find((link) => link.dataset["chat"] === "w0");
  row?.focus();
  fireEvent.keyDown(row ?? document.body, { key: "u" });
  await flushPromises();
  expect(names("Unread")).toEqual(["w0"]);
  expect(document.activeElement instanceof HTMLElement && document.activeElement.dataset["chat"]).toBe("w0");
  expect(made.api.markUnread).toHaveBeenCalledExactlyOnceWith("w0", 1);
});

test("of two thousand chats few rows are in the document", () => {
  page(2_000, ["w7"]).show(<ChatList current={null} />);
  expect(screen.getAllByRole("link").length).toBeLessThan(60);
  expect(within(screen.getByRole("region", { name: "Other agents" })).getAllByRole("listitem")[0]?.getAttribute("aria-setsize")).toBe("1999");
});
