import { screen } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { TestPage, flushPromises } from "../../core/testing/testPage";
import { A2AAgentSection } from "./A2AAgentSection";

const CARD = "https://agents.example/.well-known/agent-card.json";

async function show(updates: string, pushOffered: boolean): Promise<string> {
  const made = new TestPage({ role: "operator" });
  made.server.do({ verb: "create", id: "translator", parent: null });
  made.load();
  vi.spyOn(made.api, "a2aAgent").mockResolvedValue({
    interfaceUrl: "https://agents.example/rpc",
    protocol: "A2A 1.0 JSONRPC",
    updates,
    pushOffered,
    signature: "not_checked",
    credential: "bearer",
    error: null,
  });
  const workspace = made.session.data.get()?.workspaces.get("translator");
  if (workspace === undefined) throw new Error("the page has no workspace");
  const shown = made.show(<A2AAgentSection workspace={workspace} cardUrl={CARD} />);
  await flushPromises();
  return shown.container.textContent;
}

test("the way in which changes of tasks arrive is shown", async () => {
  expect(await show("push", true)).toContain("Push notifications");
  expect(screen.queryByText(/public_url/)).toBeNull();
});

test("a signature that nothing was named to check is shown as not checked", async () => {
  expect(await show("poll", false)).toContain("Signature not checked");
});

test("an agent whose notifications cannot reach the server says what they need", async () => {
  expect(await show("poll", true)).toContain("public_url");
});
