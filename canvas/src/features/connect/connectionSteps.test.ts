import { expect, test } from "vitest";
import { connectionSteps, hasTestMessage } from "./connectionSteps";
import { EMPTY_CHAT, NEW_MESSAGE, type Chat, type Line, type Workspace } from "../../core/state/model";
import { workspaceRow } from "../../core/testing/modelServer";

const EARLY = "2026-03-01T10:00:00.000Z";
const LATE = "2026-03-01T10:00:30.000Z";

function seat(part: Partial<Workspace> = {}): Workspace {
  return { ...workspaceRow("n"), reported_at: null, ...part };
}

function chat(...lines: Partial<Line>[]): Chat {
  const whole = lines.map((line, place) => ({ ...NEW_MESSAGE, id: `${place}`, clientId: null, author: "user" as const, text: "", at: EARLY, seq: place + 1, userName: null, attachments: [], delivery: null, problem: null, ...line }));
  return { ...EMPTY_CHAT, lines: whole };
}

function done(workspace: Workspace | undefined, of: Chat | undefined = undefined, registeredAt: string | null = null): string[] {
  return connectionSteps({ workspace, chat: of, registeredAt }).filter((step) => step.done).map((step) => step.name);
}

test("nothing is done before the seat is known, and its token comes with it", () => {
  expect(done(undefined)).toEqual([]);
  expect(done(seat())).toEqual(["token"]);
});

test("an agent that asks without registering is in contact and no more", () => {
  expect(done(seat(), chat({ delivery: "handed_over" }))).toEqual(["token", "contact", "read"]);
  expect(done(seat({ last_heard_at: EARLY }))).toEqual(["token", "contact"]);
});

test("a card says that it registered, and how many tools it has, as a number or a list", () => {
  const title = (agent_card: unknown): string | undefined =>
    connectionSteps({ workspace: seat({ agent_card }), chat: undefined, registeredAt: null }).find((step) => step.name === "registered")?.title;
  expect(done(seat({ agent_card: { name: "N" } }))).toEqual(["token", "contact", "registered"]);
  expect(title({ name: "N" })).toBe("Agent registered");
  expect(title({ tools: 11 })).toBe("Agent registered, 11 tools");
  expect(title({ tools: [{}, {}] })).toBe("Agent registered, 2 tools");
  for (const odd of [{ tools: "many" }, { tools: -1 }, { tools: null }, "card", 5, []]) expect(title(odd)).toBe("Agent registered");
});

test("a heartbeat is a sign of life after the first one", () => {
  expect(done(seat({ agent_card: {}, last_heard_at: EARLY }), undefined, EARLY)).not.toContain("heartbeat");
  expect(done(seat({ agent_card: {}, last_heard_at: LATE }), undefined, EARLY)).toContain("heartbeat");
});

test("what is stored is not read, what was given up is not read, and an answer must come after the question", () => {
  const there = seat({ agent_card: {}, last_heard_at: LATE });
  expect(done(there, chat({ delivery: "stored" }), EARLY)).not.toContain("read");
  expect(done(there, chat({ delivery: "dead" }), EARLY)).not.toContain("read");
  expect(done(there, chat({ delivery: "acked" }), EARLY)).toContain("read");
  expect(done(there, chat({ author: "agent" }, { delivery: "stored" }), EARLY)).not.toContain("answered");
  expect(done(there, chat({ delivery: "stored" }, { author: "agent" }), EARLY)).toEqual(["token", "contact", "registered", "heartbeat", "read", "answered"]);
  expect([hasTestMessage(undefined), hasTestMessage(chat({ author: "agent" })), hasTestMessage(chat({}))]).toEqual([false, false, true]);
});
