// @vitest-environment node
import fc from "fast-check";
import { expect, test } from "vitest";
import { EMPTY_CHAT, type Chat, type Workspace } from "../../core/state/model";
import { workspaceRow } from "../../core/testing/modelServer";
import { chatSections, rowsInView } from "./chatSections";

const workspaces = new Map(["a", "b", "c", "d", "e"].map((id) => [id, { ...workspaceRow(id), reported_at: null } as Workspace]));
const chat = (at: string, unread = 0): Chat => ({ ...EMPTY_CHAT, unread, last: { id: at, author: "agent", text: "x", at, seq: 1 } });
const chats = new Map([["a", chat("2026-03-01")], ["c", chat("2026-03-03", 2)], ["d", chat("2026-03-02")], ["e", chat("2026-03-04", 1)]]);
const shown = (query = "", kept: string | null = null): unknown => chatSections(workspaces, chats, { query, kept }).map(({ name, entries }) => [name, entries.map(({ workspace }) => workspace.id).join(" ")]);

test("unread chats come first, then recent ones, then agents without messages", () => {
  expect(shown()).toEqual([["unread", "e c"], ["recent", "d a"], ["others", "b"]]);
});

test("a chat that was opened unread keeps its place while it is open", () => {
  expect(shown("", "d")).toEqual([["unread", "e c d"], ["recent", "a"], ["others", "b"]]);
});

test("a search keeps the sections and drops the empty ones", () => {
  expect(shown("AGENT D")).toEqual([["recent", "d"]]);
  expect(shown("zebra")).toEqual([]);
});

test("the rows in view are few, and all rows of a view are among them", () => {
  const sizes = { head: 2, row: 4, spare: 1 };
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: 500 }), { minLength: 1, maxLength: 3 }), fc.nat(6_000), (lengths, top) => {
      const sections = lengths.map((length) => ({ entries: Array.from({ length }, () => ({}) as never) }));
      const found = rowsInView(sections, { top, height: 80 }, sizes);
      expect(found.reduce((sum, { from, to }) => sum + to - from, 0)).toBeLessThanOrEqual(80 / 4 + 3 * 2 + 6);
      let begin = 0;
      sections.forEach(({ entries }, at) => {
        entries.forEach((_entry, row) => {
          const place = begin + 2 + row * 4;
          const { from, to } = found[at] ?? { from: 0, to: 0 };
          if (place + 4 > top && place < top + 80) expect(row >= from && row < to).toBe(true);
        });
        begin += 2 + entries.length * 4;
      });
    }),
    { numRuns: 50 },
  );
});
