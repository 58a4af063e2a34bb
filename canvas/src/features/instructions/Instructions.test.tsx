import { act, fireEvent, render, screen, waitFor, within } from "@testing-library/react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { ApiError } from "../../core/api/api";
import { announce, Announcer } from "../../ui/Announcer";
import { TestPage, flushPromises } from "../../core/testing/testPage";
import type { TemplateRow, TemplateVersion } from "../../core/wire";
import InstructionsView from "./InstructionsView";
import WorkspaceInstructions from "./WorkspaceInstructions";
import { TEST_TEXT } from "./TestPush";

function version(part: Partial<TemplateVersion>): TemplateVersion {
  return { id: "support", version: 3, runtime: "codex", extends: "codex-default", parts: {}, note: null, created_at: "2026-03-02T10:00:00Z", created_by: "person:ada", built_in: false, ...part };
}

const PARTS = { reply_tool: "reply_to_workspace", docs_url: "/agent-docs/replies", blocks: { reply: "Reply with {{ reply_tool }}.", compact: "short" } };
const BASE: TemplateRow = {
  template: version({ id: "codex-default", version: 2, extends: null, parts: { ...PARTS, blocks: { ...PARTS.blocks, compact: "curt" } } }),
  canary: null, percent: 0, since: "2026-03-01T10:00:00Z", edited: true, used_by: 0, default_for: 2,
};
const OWN: TemplateRow = {
  template: version({ parts: { tools: [], lines: ["Be kind."], blocks: { compact: "shorter\nstill" } } }),
  canary: 4, percent: 10, since: "2026-03-02T10:00:00Z", edited: false, used_by: 1, default_for: 0,
};
const VERSIONS = [version({ version: 4, parts: { blocks: { compact: "shortest" } }, note: "try less" }), OWN.template];
const OF_BASE = [BASE.template, version({ id: "codex-default", version: 1, extends: null, parts: PARTS, created_by: "molecule", built_in: true })];
const FIGURES = {
  template_id: "support", version: 3,
  versions: [
    { version: 4, deliveries: 10, answered: 4, declined: 0, answered_outside: 1, overdue: 5, open: 0, rate: 0.4, tokens: 400 },
    { version: 3, deliveries: 90, answered: 80, declined: 4, answered_outside: 2, overdue: 4, open: 0, rate: 0.9333, tokens: 9000 },
  ],
  trial: { since: "2026-03-03T10:00:00Z", percent: 10, base: { version: 3, good: 84, missed: 6, rate: 0.9333 }, canary: { version: 4, good: 1, missed: 1, rate: 0.5 }, chance: 0.3, needs: 0.05 },
};

interface Call {
  method: string;
  path: string;
  body: Record<string, unknown>;
}

/** Responses of the server; requests are recorded. */
class Answers {
  readonly calls: Call[] = [];
  templates = [BASE, OWN];
  preview: (body: Record<string, unknown>) => unknown = () => ({ text: "Rendered  words\n<b>as</b> they are", tokens: 42, reply_via: "mcp__molecule__reply", docs_url: null, available_tools: [] });
  save: () => unknown = () => ({ template: OWN.template, warnings: [] });

  answer(method: string, path: string, body: unknown): unknown {
    const call = { method, path: path.replace("/orgs/org/instruction-templates", ""), body: (body ?? {}) as Record<string, unknown> };
    this.calls.push(call);
    if (call.path === "/preview") return this.preview(call.body);
    if (method === "PUT") return this.save();
    if (method === "POST" || method === "DELETE") return {};
    const known: Record<string, unknown> = {
      "": this.templates, "/support": { row: OWN, base: PARTS }, "/codex-default": { row: BASE, base: {} }, "/support/versions": VERSIONS,
      "/codex-default/versions": OF_BASE, "/support/figures": FIGURES, "/codex-default/figures": { versions: [], trial: null },
    };
    return known[call.path];
  }

  of(method: string, path: string): Call[] {
    return this.calls.filter((call) => call.method === method && call.path === path);
  }
}

let answers: Answers;
const testPages: TestPage[] = [];

beforeEach(() => {
  answers = new Answers();
});
afterEach(() => {
  vi.useRealTimers();
  for (const { app } of testPages.splice(0)) app.unsaved.retain(() => false); // the listener that asks before leaving belongs to the window
});

function page(role = "owner"): TestPage {
  const made = new TestPage({ role });
  made.server.do({ verb: "create", id: "a", parent: null });
  made.load();
  testPages.push(made);
  vi.spyOn(made.api, "request").mockImplementation((async (method: string, path: string, body: unknown) => {
    const answer = answers.answer(method, path, body);
    if (answer instanceof Error) throw answer;
    return answer;
  }) as typeof made.api.request);
  return made;
}

async function open(templateId: string | null = "support"): Promise<TestPage> {
  const made = page();
  made.show(<InstructionsView templateId={templateId} />);
  await flushPromises();
  await waitFor(() => templateId === null || screen.getByRole("region", { name: "Rendered instructions" }));
  return made;
}

const field = (name: string): HTMLElement => screen.getByRole("textbox", { name });
const rendered = (): string => screen.getByRole("region", { name: "Rendered instructions" }).textContent ?? "";

async function type(name: string, words: string): Promise<void> {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  fireEvent.change(field(name), { target: { value: words } });
  await act(() => vi.advanceTimersByTimeAsync(1_000));
  vi.useRealTimers();
  await flushPromises();
}

test("the list tells runtime, version, trial and figures of every template", async () => {
  await open(null);
  const entries = within(screen.getByRole("region", { name: "Templates" })).getAllByRole("link");
  expect(entries.map((each) => each.getAttribute("href"))).toEqual(["/app/instructions/codex-default", "/app/instructions/support"]);
  expect(entries[0]?.textContent).toContain("codex, version 2");
  expect(entries[0]?.textContent).toContain("No messages yet");
  expect(entries[1]?.textContent).toContain("codex, version 3, canary version 4 at 10 %, extends codex-default");
  expect(entries[1]?.textContent).toContain("100 messages, 88.0 % answered");
});

test("own texts and those of the base are told apart, and one is taken over to change it, and given back", async () => {
  await open();
  const reply = screen.getByRole("region", { name: "Text reply" });
  expect(reply.textContent).toContain("from codex-default");
  expect(within(reply).queryByRole("textbox")).toBeNull();
  fireEvent.click(screen.getByRole("button", { name: "Change reply" }));
  expect(field("Text reply")).toHaveProperty("value", "Reply with {{ reply_tool }}.");
  expect(reply.textContent).toContain("overridden");
  expect(screen.getByText("Unsaved changes")).toBeTruthy();
  fireEvent.click(screen.getByRole("button", { name: "Reset to base: reply" }));
  expect(screen.queryByText("Unsaved changes")).toBeNull();
  expect(screen.getByRole("region", { name: "Text compact" }).textContent).toContain("overridden");
});

test("the preview is the server's text letter for letter, asked for when the keys rest", async () => {
  await open();
  expect(rendered()).toBe("Rendered  words\n<b>as</b> they are");
  expect(screen.getByText("42 tokens")).toBeTruthy();
  const before = answers.of("POST", "/preview").length;
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  for (const words of ["a", "ab", "abc"]) fireEvent.change(field("Text compact"), { target: { value: words } });
  expect(answers.of("POST", "/preview")).toHaveLength(before);
  await act(() => vi.advanceTimersByTimeAsync(1_000));
  vi.useRealTimers();
  const asked = answers.of("POST", "/preview").slice(before);
  expect(asked).toHaveLength(1);
  expect(asked[0]?.body).toEqual({
    workspace_id: "a", kind: "canvas_user", form: "full", template_id: "support",
    parts: { tools: [], lines: ["Be kind."], blocks: { compact: "abc" } },
  });
});

test("an answer to an earlier question does not take the place of a later one", async () => {
  await open();
  const waiting: ((value: unknown) => void)[] = [];
  answers.preview = () => new Promise((done) => waiting.push(done));
  await type("Text compact", "one");
  await type("Text compact", "two");
  waiting[1]?.({ text: "of two", tokens: 1 });
  await flushPromises();
  waiting[0]?.({ text: "of one", tokens: 1 });
  await flushPromises();
  expect(rendered()).toBe("of two");
});

test("what is wrong is shown at its line, and the last right text stays beside it", async () => {
  await open();
  const said = { error: "There is no variable 'nobody'.", reason: "there is no variable 'nobody'", line: 2, part: "compact" };
  answers.preview = () => new ApiError(422, "bad_template", "There is no variable 'nobody'.", said);
  await type("Text compact", "fine\n{{ nobody }}");
  const text = field("Text compact");
  expect(text.getAttribute("aria-invalid")).toBe("true");
  expect(document.getElementById(text.getAttribute("aria-describedby") ?? "")?.textContent).toBe("Line 2: there is no variable 'nobody'");
  expect(rendered()).toBe("Rendered  words\n<b>as</b> they are");
  expect(screen.getByText(/The preview shows the last valid text/)).toBeTruthy();
  answers.preview = () => ({ text: "right again", tokens: 3 });
  await type("Text compact", "fine");
  expect(field("Text compact").getAttribute("aria-invalid")).toBeNull();
  expect(rendered()).toBe("right again");
});

test("what is only unusual is shown at its line too, and does not count as wrong", async () => {
  await open();
  answers.preview = () => ({ text: "{kind}", tokens: 1, warnings: ["compact, line 2: {kind} is plain text", "lines[0], line 1: {x}", "something else"] });
  await type("Text compact", "fine\n{kind}");
  expect(field("Text compact").getAttribute("aria-invalid")).toBeNull();
  expect(screen.getByRole("region", { name: "Text compact" }).textContent).toContain("Line 2: {kind} is plain text");
  expect(screen.getByRole("region", { name: "Added lines" }).textContent).toContain("Line 1: {x}");
  expect(screen.getByRole("group", { name: "Save" }).textContent).toContain("something else");
});

test("a new version is saved with its note, and what the server refuses keeps the changes", async () => {
  await open();
  await type("Text compact", "brief");
  fireEvent.change(field("Note"), { target: { value: "less words" } });
  answers.save = () => new ApiError(422, "bad_template", "It names no tool.", { reason: "it names no tool", line: 1, part: "compact" });
  fireEvent.click(screen.getByRole("button", { name: "Save new version" }));
  await flushPromises();
  expect(screen.getByRole("group", { name: "Save" }).textContent).toContain("Fix these parts: compact.");
  expect(field("Text compact")).toHaveProperty("value", "brief");
  answers.save = () => ({ template: OWN.template, warnings: [] });
  fireEvent.click(screen.getByRole("button", { name: "Save new version" }));
  await flushPromises();
  expect(answers.of("PUT", "/support").map(({ body }) => body)[1]).toEqual({ parts: { tools: [], lines: ["Be kind."], blocks: { compact: "brief" } }, in_force: true, note: "less words" });
  expect(screen.queryByText("Unsaved changes")).toBeNull();
});

const leaving = (): boolean => !window.dispatchEvent(new Event("beforeunload", { cancelable: true }));

test("unsaved changes stay while another view is shown, and the browser asks before it leaves", async () => {
  const made = page();
  const first = made.show(<InstructionsView templateId="support" />);
  await flushPromises();
  expect(leaving()).toBe(false);
  await type("Text compact", "half done");
  expect(leaving()).toBe(true);
  first.unmount();
  expect(leaving()).toBe(true);
  made.show(<InstructionsView templateId="support" />);
  await flushPromises();
  expect(field("Text compact")).toHaveProperty("value", "half done");
  fireEvent.click(screen.getByRole("button", { name: "Discard changes" }));
  expect(field("Text compact")).toHaveProperty("value", "shorter\nstill");
  expect(leaving()).toBe(false);
});

test.each(["by oneself", "by somebody else"])("what was changed in a template that is removed %s is nothing to ask about any more", async (by) => {
  const made = await open();
  await type("Text compact", "half done");
  expect(leaving()).toBe(true);
  answers.templates = [BASE];
  if (by === "by oneself") {
    fireEvent.click(screen.getByRole("button", { name: "Remove…" }));
    fireEvent.click(screen.getByRole("button", { name: "Remove" }));
  } else act(() => made.session.templateChanges.update((count) => count + 1));
  await flushPromises();
  expect([screen.queryByText("Template not found") !== null, leaving()]).toEqual([true, false]);
});

test("what was changed in a template of which Molecule's own is in force again is nothing to ask about any more", async () => {
  await open("codex-default");
  await type("Text compact", "half done");
  expect(leaving()).toBe(true);
  fireEvent.click(screen.getByRole("button", { name: "Remove…" }));
  fireEvent.click(screen.getByRole("button", { name: "Remove" }));
  await flushPromises();
  expect([screen.queryByText("Unsaved changes"), leaving()]).toEqual([null, false]);
});

test("what one person has changed is not another's", async () => {
  const made = page();
  const first = made.show(<InstructionsView templateId="support" />);
  await flushPromises();
  await type("Text compact", "what Ada began");
  first.unmount();
  made.session.identity.user.id = "bob";
  made.show(<InstructionsView templateId="support" />);
  await flushPromises();
  expect(field("Text compact")).toHaveProperty("value", "shorter\nstill");
});

test("names of tools are typed with commas, and kept as they are typed", async () => {
  await open();
  for (const words of ["s", "search,", "search, n", "search, notes"]) fireEvent.change(field("More tools"), { target: { value: words } });
  expect(field("More tools")).toHaveProperty("value", "search, notes");
  await type("More tools", "search, notes,");
  expect(answers.of("POST", "/preview").at(-1)?.body["parts"]).toMatchObject({ tools: ["search", "notes"] });
});

test("the changes tell what differs from the base and what is not saved, in words too", async () => {
  await open();
  fireEvent.change(field("Text compact"), { target: { value: "shorter\nnow" } });
  fireEvent.click(screen.getByRole("tab", { name: "Changes" }));
  const [unsaved, differs] = screen.getAllByRole("region", { name: "Changes of compact" });
  expect(unsaved?.textContent).toContain("removed: still");
  expect(unsaved?.textContent).toContain("added: now");
  expect(differs?.textContent).toContain("removed: short");
  expect(screen.getByRole("region", { name: "Changes of added line 1" }).textContent).toContain("added: Be kind.");
  expect(screen.queryByRole("region", { name: "Changes of reply" })).toBeNull();
});

test("a template that came with Molecule and was changed is told by what it was", async () => {
  await open("codex-default");
  fireEvent.click(screen.getByRole("tab", { name: "Changes" }));
  await flushPromises();
  expect(screen.getByRole("heading", { name: "Differences from version 1, installed with Molecule" })).toBeTruthy();
  expect(screen.getAllByRole("region", { name: /^Changes of/ }).map((each) => each.textContent)).toEqual(["compact−removed: short+added: curt"]);
});

test("versions are compared, restored, tried on a share and put in force", async () => {
  await open();
  fireEvent.click(screen.getByRole("tab", { name: "Versions" }));
  await flushPromises();
  const [fourth, third] = screen.getByRole("list", { name: "Versions of support" }).children;
  expect(fourth?.textContent).toContain("canary at 10 %");
  expect(fourth?.textContent).toContain("try less");
  expect(third?.textContent).toContain("active");
  fireEvent.click(screen.getByRole("button", { name: "Changes in version 4" }));
  expect(screen.getByRole("region", { name: "Changes of compact" }).textContent).toContain("added: shortest");
  for (const name of ["Activate", "End canary", "Restore version 4"]) {
    fireEvent.click(screen.getByRole("button", { name }));
    await flushPromises();
  }
  expect(answers.of("POST", "/support/canary").map(({ body }) => body)).toEqual([{ version: 4, percent: 100 }, { version: 4, percent: 0 }]);
  expect(answers.of("POST", "/support/restore").map(({ body }) => body)).toEqual([{ version: 4 }]);
});

test("the figures stand in a table, and the trial in words", async () => {
  await open();
  fireEvent.click(screen.getByRole("tab", { name: "Metrics" }));
  await flushPromises();
  const rows = within(screen.getByRole("table")).getAllByRole("row").slice(1).map((row) => [...row.children].map((cell) => cell.textContent));
  expect(rows).toEqual([
    ["4", "10", "4", "0", "1", "5", "0", "40.0 %", "40 tokens"],
    ["3", "90", "80", "4", "2", "4", "0", "93.3 %", "100 tokens"],
  ]);
  const words = /Version 4 is used for 10 %.*50.0 % of 2 outcomes were answered, compared with 93.3 % of 90 outcomes for version 3..*probability of 30.0 %. The canary ends automatically at 5.0 %/;
  expect(screen.getByText(words)).toBeTruthy();
});

test("a test push is a usual message that says what it is", async () => {
  const made = await open();
  const send = vi.spyOn(made.api, "send").mockResolvedValue({});
  fireEvent.click(screen.getByRole("button", { name: "Send test message" }));
  await flushPromises();
  expect(send.mock.calls[0]?.slice(0, 3)).toEqual(["a", expect.any(String), TEST_TEXT]);
  expect(screen.getByRole("link", { name: "View in chat" }).getAttribute("href")).toBe("/app/chat/a");
});

test("a test push is called sent only when the server has it", async () => {
  const made = await open();
  let answer: () => void = () => undefined;
  vi.spyOn(made.api, "send").mockRejectedValueOnce(new ApiError(503, null, "The server is busy.")).mockReturnValueOnce(new Promise((done) => (answer = () => done({}))));
  announce("");
  const { container: said } = render(<Announcer />);
  const press = async (): Promise<void> => {
    fireEvent.click(screen.getByRole("button", { name: "Send test message" }));
    await flushPromises();
  };
  await press();
  expect(screen.getByRole("alert").textContent).toBe("Test message not sent: The server is busy.");
  await press();
  expect(screen.queryByRole("alert")).toBeNull();
  expect(said.textContent.trim()).toBe("");
  answer();
  await flushPromises();
  expect(said.textContent).toContain("Test message sent");
});

test("a template of one's own extends another one", async () => {
  await open(null);
  fireEvent.click(screen.getByRole("button", { name: "New template" }));
  fireEvent.change(field("Name"), { target: { value: " sales " } });
  fireEvent.change(screen.getByLabelText("Extends"), { target: { value: "codex-default" } });
  fireEvent.click(screen.getByRole("button", { name: "Create" }));
  await flushPromises();
  expect(answers.of("POST", "")[0]?.body).toEqual({ id: "sales", runtime: "codex", extends: "codex-default", parts: { tools: [], lines: [], blocks: {} } });
});

test("what cannot be read says why and can be read again", async () => {
  const made = page();
  vi.mocked(made.api.request).mockRejectedValueOnce(new ApiError(503, null, "The store is busy."));
  made.show(<InstructionsView templateId={null} />);
  await flushPromises();
  expect(screen.getByText("The store is busy.")).toBeTruthy();
  fireEvent.click(screen.getByRole("button", { name: "Try again" }));
  await flushPromises();
  expect(screen.getByRole("region", { name: "Templates" })).toBeTruthy();
});

test("an agent's seat says how it is told, how long it has and who sends its drafts", async () => {
  const made = page();
  const change = vi.spyOn(made.api, "changeWorkspace").mockResolvedValue({});
  const workspace = made.session.data.get()?.workspaces.get("a");
  if (workspace === undefined) throw new Error("no workspace");
  made.show(<WorkspaceInstructions workspace={workspace} />);
  await flushPromises();
  fireEvent.click(screen.getByLabelText("Always compact"));
  await flushPromises();
  fireEvent.click(screen.getByLabelText("Send the final text of a turn as the answer"));
  await flushPromises();
  fireEvent.change(screen.getByLabelText("Instruction format"), { target: { value: "xml" } });
  await flushPromises();
  fireEvent.change(screen.getByLabelText("Answer due after (seconds)"), { target: { value: "-3" } });
  expect(screen.getByRole("button", { name: "Save" })).toHaveProperty("disabled", true);
  fireEvent.change(screen.getByLabelText("Answer due after (seconds)"), { target: { value: "0" } });
  fireEvent.click(screen.getByRole("button", { name: "Save" }));
  await flushPromises();
  fireEvent.change(screen.getByLabelText("Instruction template"), { target: { value: "support" } });
  await flushPromises();
  expect(change.mock.calls).toEqual([
    ["a", { instruction_compact: true }],
    ["a", { send_drafts: true }],
    ["a", { instruction_shape: "xml" }],
    ["a", { reply_seconds: 0 }],
  ]);
  expect(answers.calls.at(-1)).toMatchObject({ method: "POST", path: "/cp/admin/workspace/a/instruction-template", body: { template_id: "support" } });
});

test("an operator sets what is about one seat, and chooses no template", async () => {
  const made = page("operator");
  const workspace = made.session.data.get()?.workspaces.get("a");
  if (workspace === undefined) throw new Error("no workspace");
  made.show(<WorkspaceInstructions workspace={workspace} />);
  await flushPromises();
  expect(screen.queryByLabelText("Instruction template")).toBeNull();
  expect(screen.getByLabelText("Instruction format")).toBeTruthy();
  expect(answers.calls).toEqual([]);
});
