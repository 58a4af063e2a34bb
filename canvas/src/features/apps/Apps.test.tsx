import { act, fireEvent, screen } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { ApiError } from "../../core/api/api";
import { TestPage, flushPromises } from "../../core/testing/testPage";
import { ConnectedApps } from "./ConnectedApps";
import { OAuthClients } from "./OAuthClients";

const APP = { id: "g1", client_name: "<b>Claude</b>", scope: "molecule:read molecule:act", created_at: "2026-11-28T10:00:00Z", expires_at: "2026-12-28T10:00:00Z" };
const CLIENT = { client_id: "c1", name: "Own app", redirect_uris: ["https://app.example/callback"] };

test("an operator disconnects an app, and what the server refuses stands beside it", async () => {
  const made = new TestPage({ role: "operator" }).load();
  const apps = vi.spyOn(made.api, "connectedApps").mockResolvedValue([APP, { ...APP, id: "g2", client_name: "Reader", scope: "molecule:read" }]);
  const disconnect = vi.spyOn(made.api, "disconnectApp").mockRejectedValueOnce(new ApiError(404, null, "connected app not found")).mockResolvedValueOnce({});
  made.show(<ConnectedApps workspaceId="w" />);
  await flushPromises();
  expect(screen.getByText("<b>Claude</b>")).toBeTruthy();
  expect(screen.getByText(/reads and acts/)).toBeTruthy();
  expect(screen.getByText(/reads only/)).toBeTruthy();
  const [first] = screen.getAllByRole("button", { name: "Disconnect" });
  fireEvent.click(first as HTMLElement);
  await flushPromises();
  expect(screen.getByRole("alert").textContent).toBe("connected app not found");
  apps.mockResolvedValue([]);
  fireEvent.click(first as HTMLElement);
  await flushPromises();
  expect(disconnect).toHaveBeenLastCalledWith("w", "g1");
  expect(screen.queryByRole("button", { name: "Disconnect" })).toBeNull();
});

test("the list follows the journal", async () => {
  const made = new TestPage({ role: "operator" }).load();
  const apps = vi.spyOn(made.api, "connectedApps").mockResolvedValue([]);
  made.show(<ConnectedApps workspaceId="w" />);
  await flushPromises();
  apps.mockResolvedValue([APP]);
  act(() => made.session.appChanges.set(1));
  await flushPromises();
  expect(screen.getByRole("button", { name: "Disconnect" })).toBeTruthy();
});

test("an owner registers and removes a client, after one more question", async () => {
  const made = new TestPage({ role: "owner" }).load();
  const clients = vi.spyOn(made.api, "oauthClients").mockResolvedValue([]);
  const register = vi.spyOn(made.api, "registerClient").mockResolvedValue({});
  const remove = vi.spyOn(made.api, "removeClient").mockResolvedValue({});
  made.show(<OAuthClients />);
  await flushPromises();
  fireEvent.change(screen.getByLabelText("Register a client"), { target: { value: " Own app " } });
  fireEvent.change(screen.getByLabelText("Redirect address"), { target: { value: "https://app.example/callback" } });
  clients.mockResolvedValue([CLIENT]);
  fireEvent.click(screen.getByRole("button", { name: "Register" }));
  await flushPromises();
  expect(register).toHaveBeenCalledExactlyOnceWith("org", "Own app", ["https://app.example/callback"]);
  fireEvent.click(screen.getByRole("button", { name: "Remove…" }));
  expect(remove).not.toHaveBeenCalled();
  fireEvent.click(screen.getByRole("button", { name: "Remove and disconnect Own app" }));
  await flushPromises();
  expect(remove).toHaveBeenCalledExactlyOnceWith("org", "c1");
});

test("other people see no clients", async () => {
  const made = new TestPage({ role: "operator" }).load();
  const clients = vi.spyOn(made.api, "oauthClients").mockResolvedValue([CLIENT]);
  made.show(<OAuthClients />);
  await flushPromises();
  expect(clients).not.toHaveBeenCalled();
  expect(screen.queryByText("OAuth clients")).toBeNull();
});
