import { act, fireEvent, screen, within } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { ApiError } from "../../core/api/api";
import { About } from "./About";
import { AgentActions } from "./AgentActions";
import { TestPage, flushPromises } from "../../core/testing/testPage";
import { AgentStatusMark } from "../../ui/AgentStatusMark";
import { UndoBar } from "../../ui/UndoBar";
import { IssuedTokenDialog } from "./NewToken";
import { useData } from "../../core/app";

const TOKEN = "mol_ws_the-new-one";

function Shown({ id }: { id: string }) {
  const workspace = useData((state) => state.workspaces.get(id));
  return (
    <>
      {workspace && <AgentActions workspace={workspace} />}
      <UndoBar />
      <IssuedTokenDialog />
    </>
  );
}

function page(role = "operator"): TestPage {
  const made = new TestPage({ role });
  for (const [id, parent] of [["lead", null], ["team", "lead"], ["x", "team"], ["other", "lead"]] as const) {
    made.server.do({ verb: "create", id, parent });
  }
  return made.load();
}

const press = (name: string): boolean => fireEvent.click(screen.getByRole("button", { name }));
const parentOf = (made: TestPage, id: string): unknown => made.session.data.get()?.workspaces.get(id)?.parent_id;

test("an agent is moved by menu: seen at once, told to the server, and taken back at a press", async () => {
  const made = page();
  const change = vi.spyOn(made.api, "changeWorkspace").mockResolvedValue({});
  made.show(<Shown id="team" />);
  press("Move…");
  const places = within(screen.getByRole("radiogroup", { name: "New parent" }));
  expect(places.getByRole("radio", { name: /Agent x/ })).toHaveProperty("disabled", true);
  expect(places.getByText("Agent team cannot report to Agent x, which is below it.")).toBeTruthy();
  fireEvent.click(places.getByRole("radio", { name: "Agent other" }));
  expect(screen.getByText(/Its team of 1 agent moves with it/)).toBeTruthy();
  press("Move");
  expect(parentOf(made, "team")).toBe("other");
  await flushPromises();
  expect(change).toHaveBeenLastCalledWith("team", { parent_id: "other" });
  expect(screen.queryByRole("dialog")).toBeNull();
  press("Undo");
  await flushPromises();
  expect(change).toHaveBeenLastCalledWith("team", { parent_id: "lead" });
  expect(parentOf(made, "team")).toBe("lead");
  expect(screen.queryByText("Agent team was moved.")).toBeNull();
});

test("a move that the server refuses is put back, and its words stand in the dialog", async () => {
  const made = page();
  vi.spyOn(made.api, "changeWorkspace").mockRejectedValue(new ApiError(409, null, "The tree would be too deep."));
  made.show(<Shown id="team" />);
  press("Move…");
  fireEvent.change(screen.getByRole("searchbox", { name: "Reports to" }), { target: { value: "oth" } });
  expect(screen.getAllByRole("radio")).toHaveLength(2);
  fireEvent.click(screen.getByRole("radio", { name: "Agent other" }));
  press("Move");
  await flushPromises();
  expect(screen.getByRole("alert").textContent).toBe("The tree would be too deep.");
  expect(parentOf(made, "team")).toBe("lead");
  expect(screen.queryByRole("button", { name: "Undo" })).toBeNull();
});

test("removing a team says who goes, and wants the name typed", async () => {
  const made = page();
  const remove = vi.spyOn(made.api, "removeWorkspace").mockResolvedValue({});
  made.show(<Shown id="lead" />);
  press("Remove…");
  const going = within(screen.getByRole("list", { name: "Workspaces to remove" })).getAllByRole("listitem");
  expect(going.map((each) => each.textContent)).toEqual(["Agent lead", "Agent team", "Agent other", "Agent x"]);
  const button = screen.getByRole("button", { name: "Remove 4 workspaces" });
  expect(button).toHaveProperty("disabled", true);
  fireEvent.change(screen.getByLabelText("Type Agent lead to confirm"), { target: { value: "agent lead" } });
  expect(button).toHaveProperty("disabled", true);
  fireEvent.change(screen.getByLabelText("Type Agent lead to confirm"), { target: { value: "Agent lead" } });
  fireEvent.click(button);
  await flushPromises();
  expect(remove).toHaveBeenCalledExactlyOnceWith("lead", "Agent lead");
});

test("one that stands alone is removed without typing, and a team without its lead by the other button", async () => {
  const made = page();
  const [remove, collapse] = [vi.spyOn(made.api, "removeWorkspace").mockResolvedValue({}), vi.spyOn(made.api, "collapse").mockResolvedValue({})];
  const first = made.show(<Shown id="other" />);
  press("Remove…");
  press("Remove 1 workspace");
  await flushPromises();
  expect(remove).toHaveBeenCalledExactlyOnceWith("other", "Agent other");
  first.unmount();
  made.show(<Shown id="team" />);
  press("Remove team…");
  fireEvent.change(screen.getByLabelText("Type Agent team to confirm"), { target: { value: "Agent team" } });
  press("Remove 1 workspace");
  await flushPromises();
  expect(collapse).toHaveBeenCalledExactlyOnceWith("team");
});

const ISSUED = { workspaceId: "other", name: "Agent other", token: TOKEN, grace: 900, endsAt: "2026-03-01T12:15:00Z" };

test("a new token asks what becomes of the current ones, and issues none before", async () => {
  const made = page();
  made.server.do({ verb: "online", id: "other" });
  made.deliver();
  const rotate = vi.spyOn(made.api, "rotate").mockResolvedValue(ISSUED);
  made.show(<Shown id="other" />);
  press("New token…");
  await flushPromises();
  const dialog = within(screen.getByRole("dialog", { name: "Issue a new token for Agent other?" }));
  expect(dialog.getByText("The running agent loses access")).toBeTruthy();
  press("Cancel");
  expect([screen.queryByRole("dialog"), rotate.mock.calls.length]).toEqual([null, 0]);
  press("New token…");
  await flushPromises();
  fireEvent.change(screen.getByLabelText("Current tokens stop working"), { target: { value: "0" } });
  press("Issue new token");
  await flushPromises();
  expect(rotate).toHaveBeenCalledExactlyOnceWith(expect.objectContaining({ id: "other" }), 0);
  press("Done");
});

test("the browser asks before a new token goes with its page, and a closed dialog asks too", async () => {
  const made = page();
  const wouldAsk = (): boolean => !window.dispatchEvent(new Event("beforeunload", { cancelable: true }));
  made.show(<Shown id="other" />);
  act(() => made.session.issuedToken.set(ISSUED));
  expect(wouldAsk()).toBe(true);
  press("Close");
  expect(screen.getByRole("dialog", { name: "Have you copied the token?" }).isConnected).toBe(true);
  press("Back to token");
  expect(document.body.innerHTML).toContain(TOKEN);
  press("Close");
  press("Continue");
  expect([document.body.innerHTML.includes(TOKEN), wouldAsk()]).toEqual([false, false]);
});

test("a paused agent is resumed, and a new token is shown once", async () => {
  const made = page("owner");
  const aside = vi.spyOn(made.api, "putAside").mockResolvedValue({});
  vi.spyOn(made.api, "rotate").mockResolvedValue(ISSUED);
  const abilities = vi.spyOn(made.api, "setAbilities").mockResolvedValue({});
  made.show(<Shown id="other" />);
  press("Pause");
  await flushPromises();
  made.server.do({ verb: "pause", id: "other" });
  made.deliver();
  press("Resume");
  await flushPromises();
  expect(aside.mock.calls).toEqual([["other", "pause"], ["other", "resume"]]);
  press("New token…");
  await flushPromises();
  press("Issue new token");
  await flushPromises();
  expect(document.body.innerHTML).toContain(TOKEN);
  press("Done");
  expect(document.body.innerHTML).not.toContain(TOKEN);
  fireEvent.click(screen.getByLabelText("Send broadcasts to all agents"));
  await flushPromises();
  expect(abilities).toHaveBeenCalledExactlyOnceWith("other", { broadcast_enabled: true });
});

test("a limit is shown with its reason as plain text, and a person ends it", async () => {
  const made = page();
  const ended = vi.spyOn(made.api, "endLimit").mockResolvedValue({});
  const until = "2026-03-10T21:05:00.000000Z";
  made.server.do({ verb: "online", id: "other" });
  made.server.do({ verb: "limit", id: "other", until, reason: "<img src=x onerror=alert(1)> reached" });
  made.deliver();
  made.show(<Limited id="other" />);
  expect(screen.getByText(/^Limited until /).getAttribute("datetime")).toBe(until);
  expect(document.querySelector("img")).toBeNull();
  expect(document.body.textContent).toContain("<img src=x onerror=alert(1)> reached");
  press("End limit");
  await flushPromises();
  expect(ended).toHaveBeenCalledExactlyOnceWith("other");
  made.server.do({ verb: "end_limit", id: "other" });
  made.deliver();
  expect(screen.queryByText(/^Limited until /)).toBeNull();
  expect(screen.queryByRole("button", { name: "End limit" })).toBeNull();
});

function Limited({ id }: { id: string }) {
  const workspace = useData((state) => state.workspaces.get(id));
  if (!workspace) return null;
  return (
    <>
      <AgentStatusMark workspace={workspace} />
      <About workspace={workspace} />
    </>
  );
}
