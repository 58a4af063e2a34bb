// @vitest-environment node
import { expect, test } from "vitest";
import { initialsByAgent } from "./initials";
import type { OrgNode } from "./model";

function shown(names: readonly string[], order = names.map((_, at) => at)): string[] {
  const nodes = names.map((name, at) => ({ id: `a${at}`, parentId: null, name, createdAt: `2026-03-01T12:00:${String(at).padStart(6, "0")}` }));
  const map = new Map<string, OrgNode>(order.map((at) => [nodes[at]!.id, nodes[at]!]));
  const found = initialsByAgent(map);
  return nodes.map(({ id }) => found.get(id) ?? "");
}

test("agents with equal initials have distinct ones, and the older one keeps those of its name", () => {
  expect(shown(["Leads", "Legal", "Lead"])).toEqual(["LE", "LG", "LA"]);
  expect(shown(["Sales 1", "Sales one", "S 1"])).toEqual(["S1", "SO", "S12"]);
  expect(shown(["QA", "QA", "QA", "q.a."])).toEqual(["QA", "QA2", "QA3", "QA4"]);
  expect(shown(["!!!", "???"])).toEqual(["?", "?2"]);
  expect(shown(["研究", "研修", "研"])).toEqual(["研究", "研修", "研"]);
});

test("they do not depend on the order in which agents are known", () => {
  const names = ["Leads", "Legal", "Lead", "Ledger", "Le"];
  expect(shown(names, [4, 2, 0, 3, 1])).toEqual(shown(names));
});

test("a new agent changes no other's", () => {
  const names = ["Backend", "Bar", "Ban", "Bat", "Ba"];
  names.forEach((_, count) => expect(shown(names.slice(0, count))).toEqual(shown(names).slice(0, count)));
});

test("ten thousand agents with the same name cost no more than their number", () => {
  const before = performance.now();
  const found = shown(Array.from({ length: 10_000 }, () => "Sales agent"));
  expect(performance.now() - before).toBeLessThan(2_000);
  expect(new Set(found.slice(0, 100)).size).toBe(100);
});
