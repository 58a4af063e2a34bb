import { act, fireEvent, screen, within } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { ApiError, type Person } from "../../core/api/api";
import { People } from "./People";
import { TestPage, flushPromises } from "../../core/testing/testPage";

const ADA: Person = { id: "ada", name: "Ada", role: "owner" };
const GRACE: Person = { id: "grace", name: "Grace", role: "viewer" };
const URL = "http://127.0.0.1/app/#login=the-invitation";

function page(role = "owner"): TestPage {
  const made = new TestPage({ role }).load();
  vi.spyOn(made.api, "people").mockResolvedValue([ADA, GRACE]);
  vi.spyOn(made.api, "invitations").mockResolvedValue([{ id: "i1", name: "Linus", role: "operator" }]);
  return made;
}

test("an owner changes a role, and what the server refuses stands beside it", async () => {
  const made = page();
  const change = vi.spyOn(made.api, "changePerson").mockResolvedValueOnce({}).mockRejectedValueOnce(new ApiError(409, null, "There must be an owner."));
  made.show(<People />);
  await flushPromises();
  fireEvent.change(screen.getByLabelText("Role of Grace"), { target: { value: "operator" } });
  await flushPromises();
  expect(change).toHaveBeenLastCalledWith("org", "grace", "operator");
  fireEvent.change(screen.getByLabelText("Role of Ada"), { target: { value: "viewer" } });
  await flushPromises();
  expect(screen.getByRole("alert").textContent).toBe("There must be an owner.");
});

test("removing asks once more, and an invitation can be withdrawn", async () => {
  const made = page();
  const remove = vi.spyOn(made.api, "removePerson").mockResolvedValue({});
  const withdraw = vi.spyOn(made.api, "withdraw").mockResolvedValue({});
  made.show(<People />);
  await flushPromises();
  const grace = within(screen.getByRole("list", { name: "People of the organisation" })).getAllByRole("listitem")[1] as HTMLElement;
  fireEvent.click(within(grace).getByRole("button", { name: "Remove…" }));
  expect(remove).not.toHaveBeenCalled();
  fireEvent.click(within(grace).getByRole("button", { name: "Remove Grace permanently" }));
  await flushPromises();
  expect(remove).toHaveBeenCalledExactlyOnceWith("org", "grace");
  fireEvent.click(screen.getByRole("button", { name: "Withdraw invitation" }));
  await flushPromises();
  expect(withdraw).toHaveBeenCalledExactlyOnceWith("org", "i1");
});

test("the link of an invitation is shown once", async () => {
  const made = page();
  const invite = vi.spyOn(made.api, "invite").mockResolvedValue(URL);
  made.show(<People />);
  await flushPromises();
  fireEvent.change(screen.getByLabelText("Invite a person"), { target: { value: " Linus " } });
  fireEvent.change(screen.getByLabelText("Role of the invited person"), { target: { value: "viewer" } });
  fireEvent.click(screen.getByRole("button", { name: "Create invite link" }));
  await flushPromises();
  expect(invite).toHaveBeenCalledExactlyOnceWith("org", "Linus", "viewer");
  expect(document.body.innerHTML).toContain(URL);
  fireEvent.click(screen.getByRole("button", { name: "Done" }));
  expect(document.body.innerHTML).not.toContain(URL);
});

test("who is no owner sees people and roles, and the lists follow what others do", async () => {
  const made = page("viewer");
  made.show(<People />);
  await flushPromises();
  expect(screen.queryByRole("button")).toBeNull();
  expect(screen.getByText("viewer")).toBeTruthy();
  expect(made.api.invitations).not.toHaveBeenCalled();
  act(() => made.session.peopleChanges.set(1));
  await flushPromises();
  expect(made.api.people).toHaveBeenCalledTimes(2);
});
