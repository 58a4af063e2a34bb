// @vitest-environment node
import { expect, test } from "vitest";
import { search, type SearchResult } from "./paletteSearch";
import { mergeDelegation } from "../../core/state/delegations";
import { EMPTY_CHAT, type Chat, type Workspace } from "../../core/state/model";
import { workspaceRow } from "../../core/testing/modelServer";

const agents = (...names: string[]): Map<string, Workspace> =>
  new Map(names.map((name) => [name, { ...workspaceRow(name, { name, role: name === "Ops" ? "Runs the servers" : null }), reported_at: null }]));
const chat = (unread: number, at: string): Chat => ({ ...EMPTY_CHAT, unread, last: { id: at, author: "agent", text: "", at, seq: 1 } });
const COMMANDS = [{ name: "Settings", hint: "Go to" }];
const nameOf = (item: SearchResult): string => (item.kind === "command" ? item.command.name : item.kind === "work" ? item.delegation.task : item.workspace.name);
const names = (all: SearchResult[]): string[] => all.map((item) => `${item.kind} ${nameOf(item)}`);

test("without words, unread chats come first, then those talked to last", () => {
  const chats = new Map([["Ada", chat(0, "2026-03-02")], ["Ben", chat(2, "2026-03-01")], ["Cid", chat(0, "2026-03-03")]]);
  expect(names(search("", agents("Ada", "Ben", "Cid", "Dee"), chats, COMMANDS))).toEqual(["chat Ben", "agent Ben", "agent Cid", "agent Ada", "agent Dee", "command Settings"]);
});

test("who is called exactly so is first, then who begins so", () => {
  expect(names(search("agent 7", agents("Agent 17 of agent 7", "Agent 71", "Agent 7"), new Map(), []))).toEqual(["agent Agent 7", "agent Agent 71", "agent Agent 17 of agent 7"]);
});

test("roles and commands are found too, and nothing may be found", () => {
  expect(names(search("servers", agents("Ops"), new Map(), COMMANDS))).toEqual(["agent Ops"]);
  expect(names(search("sett", agents("Ops"), new Map(), COMMANDS))).toEqual(["command Settings"]);
  expect(search("zzz", agents("Ops"), new Map(), COMMANDS)).toEqual([]);
});

test("open work is found by its words and by who does it, and is out of the way otherwise", () => {
  const delegations = ["Read the log", "Mend the door"].map((task, at) => mergeDelegation(undefined, { id: `d${at}`, task, targetId: at === 0 ? "Ada" : "Ben" }, 1));
  const found = (words: string): string[] => names(search(words, agents("Ada", "Ben"), new Map(), [], delegations)).filter((each) => each.startsWith("work"));
  expect(found("door")).toEqual(["work Mend the door"]);
  expect(found("ada")).toEqual(["work Read the log"]);
  expect(found("")).toEqual([]);
});
