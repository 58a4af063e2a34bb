import { fireEvent, screen } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { ApiError } from "../../core/api/api";
import { TestPage, flushPromises } from "../../core/testing/testPage";
import { A2AAgentForm } from "./A2AAgentForm";

const CARD = "https://agents.example/.well-known/agent-card.json";

function write(label: string, value: string): void {
  fireEvent.change(screen.getByLabelText(label), { target: { value } });
}

test("an A2A agent is added by its card, with a credential of its kind", async () => {
  const made = new TestPage({ role: "operator" }).load();
  const create = vi.spyOn(made.api, "createWorkspace").mockResolvedValue({ id: "w", name: "Translator", token: "t" });
  made.show(<A2AAgentForm />);
  write("Agent card", ` ${CARD} `);
  write("Name", "Translator");
  write("Credential", "oauth2");
  write("Client ID", "us");
  write("Client secret", "hidden");
  write("Key set of its signer", " https://agents.example/jwks.json ");
  fireEvent.click(screen.getByRole("button", { name: "Add agent" }));
  await flushPromises();
  expect(create).toHaveBeenCalledWith({
    name: "Translator",
    a2a_card_url: CARD,
    a2a_credential: { kind: "oauth2", secret: "hidden", client_id: "us" },
    a2a_card_keys: { jwks_url: "https://agents.example/jwks.json" },
  });
  expect(screen.getByLabelText("Client secret").getAttribute("type")).toBe("password");
});

test("what is wrong with a card is shown, and the form can be sent again", async () => {
  const made = new TestPage({ role: "operator" }).load();
  vi.spyOn(made.api, "createWorkspace").mockRejectedValue(new ApiError(422, null, "The agent card has no name."));
  made.show(<A2AAgentForm />);
  write("Agent card", CARD);
  write("Name", "Translator");
  fireEvent.click(screen.getByRole("button", { name: "Add agent" }));
  await flushPromises();
  expect(screen.getByRole("alert").textContent).toBe("The agent card has no name.");
  expect(screen.getByRole("button", { name: "Add agent" })).toHaveProperty("disabled", false);
});
