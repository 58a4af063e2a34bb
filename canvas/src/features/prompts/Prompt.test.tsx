import { act, fireEvent, screen, within } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { NoResponseError, ApiError } from "../../core/api/api";
import { TestPage, flushPromises } from "../../core/testing/testPage";
import { piecesOf } from "./model";
import { PromptPanel } from "./PromptPanel";

type Item = Record<string, unknown>;

function section(part: number, title: string, text: string, more: Item = {}): Item {
  return { part, kind: "file", title, source: `file:${title}`, text, bytes: text.length, tokens: text.length / 4, hash: `hash-of-${title}`, shortened: null, ...more };
}

const SECTIONS = [section(1, "system-prompt.md", "Be brief. ".repeat(12)), section(5, "Peers", "Lead <b>leads</b>. ".repeat(4), { shortened: "2 skill lines" })];

function prompt(more: Item = {}, diff: Item[] = []): Item {
  const build = { sections: SECTIONS, trigger: { kind: "start", detail: "" }, hash: "h".repeat(64), tokens: 48, budget: 100, warnings: [], session_hash: null, built_at: "2026-03-01T12:00:00Z", revision: 1, ...more };
  return { build, previous: diff.length === 0 ? null : build, diff };
}

async function shown(...answers: (Item | Error)[]): Promise<{ made: TestPage; ask: ReturnType<typeof vi.spyOn> }> {
  const made = new TestPage();
  made.server.do({ verb: "create", id: "a", parent: null });
  made.load();
  const ask = vi.spyOn(made.api, "request");
  for (const each of answers) void (each instanceof Error ? ask.mockRejectedValueOnce(each) : ask.mockResolvedValueOnce(each));
  made.show(<PromptPanel workspaceId="a" />);
  await flushPromises();
  return { made, ask };
}

test("the sections sum to the whole, each with its share, source, size and hash", async () => {
  await shown(prompt());
  const facts = screen.getByRole("region", { name: "Prompt build" });
  expect(facts.textContent).toContain("Rebuilt because the agent started");
  expect(facts.textContent).toContain("2 sections · about 49 tokens of 100 · 196 bytes");
  const sections = screen.getByRole("region", { name: "Sections" });
  expect(within(sections).getAllByRole("heading").map((each) => each.textContent)).toEqual([
    expect.stringMatching(/^system-prompt.md1. Prompt files30 tokens61 %$/),
    expect.stringMatching(/^Peers5. Reachable workspaces19 tokens39 %$/),
  ]);
  fireEvent.click(within(sections).getByRole("button", { name: /Peers/ }));
  expect(screen.getByRole("region", { name: "Text of Peers" }).textContent).toContain("Lead <b>leads</b>.");
  for (const words of ["From file:Peers · 76 bytes", "hash-of-Pe", "Shortened to keep the budget: 2 skill lines"]) expect(sections.textContent).toContain(words);
});

test("what the running session has besides, and what is to be minded, is said", async () => {
  await shown(prompt({ session_hash: "s".repeat(64), warnings: ["team.md is missing"] }));
  expect(screen.getByText(/The running session uses another prompt/).textContent).toContain("ssssssssss");
  expect(screen.getByRole("list", { name: "Warnings" }).textContent).toBe("team.md is missing");
});

test("a new build is read when it is told, with why and what changed; one that cannot be read leaves the old one", async () => {
  const diff = [{ part: 5, title: "Peers", change: "changed", lines: [{ kind: "-", text: "Lead" }, { kind: "+", text: "Ben <i>" }] }];
  const { made } = await shown(prompt(), prompt({ trigger: { kind: "event", detail: "WORKSPACE_ONLINE a" }, revision: 2 }, diff), new NoResponseError("The server did not respond."));
  expect(screen.getByRole("region", { name: "Changes" }).textContent).toContain("First reported prompt.");
  act(() => made.session.promptBuilds.set(new Map([["b", 1]])));
  expect(screen.queryByText(/revision 2/)).toBeNull();
  act(() => made.session.promptBuilds.set(new Map([["a", 1]])));
  await flushPromises();
  expect(screen.getByRole("region", { name: "Prompt build" }).textContent).toContain("Rebuilt because Agent a came online");
  expect(screen.getByRole("region", { name: "Lines of Peers" }).textContent).toBe("−removed: Lead+added: Ben <i>");
  act(() => made.session.promptBuilds.set(new Map([["a", 2]])));
  await flushPromises();
  expect(screen.getByRole("alert").textContent).toContain("The server did not respond.");
  expect(screen.getByText(/revision 2/)).toBeTruthy();
});

test("words are looked for in all sections", async () => {
  await shown(prompt());
  const field = screen.getByRole("searchbox", { name: "Search the prompt" });
  fireEvent.change(field, { target: { value: "LEAD" } });
  expect(screen.getByText("8 results in 1 section")).toBeTruthy();
  expect(screen.getByRole("region", { name: "Text of Peers" }).querySelectorAll("mark")).toHaveLength(8);
  fireEvent.change(field, { target: { value: "zebra" } });
  expect(screen.getByText("No results for “zebra”.")).toBeTruthy();
  expect(piecesOf("aXbxc", "x")).toEqual(["a", "X", "b", "x", "c"]);
});

test("an agent that has told none: how to", async () => {
  await shown(new ApiError(404, "no_prompt_yet", "Not yet."));
  expect(screen.getByText("No prompt reported yet")).toBeTruthy();
  expect(screen.getByText("molecule prompt watch")).toBeTruthy();
});

test("any other refusal is told as one", async () => {
  await shown(new ApiError(404, "not_found", "There is no such workspace."));
  expect(screen.getByText("Could not load prompt")).toBeTruthy();
  expect(screen.getByText("There is no such workspace.")).toBeTruthy();
});
