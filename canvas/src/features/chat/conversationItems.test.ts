// @vitest-environment node
import { expect, test } from "vitest";
import { approvalOf, type Approval } from "../../core/state/approvals";
import { approvalRow } from "../../core/testing/approvalRows";
import type { Delegation } from "../../core/state/delegations";
import { conversationItems, type Item } from "./conversationItems";
import { NEW_MESSAGE, type Line } from "../../core/state/model";
import type { UnsentMessage } from "../../core/session/outbox";

const ZONE = "Europe/Berlin";
const NOW = Date.parse("2026-03-29T12:00:00Z");

function line(seq: number, at: string, part: Partial<Line> = {}): Line {
  return { ...NEW_MESSAGE, id: `a${seq}`, clientId: null, author: "agent", text: `text ${seq}`, at, seq, userName: null, attachments: [], delivery: part.author === "user" ? "stored" : null, problem: null, ...part };
}

function entry(clientId: string, part: Partial<UnsentMessage> = {}): UnsentMessage {
  return { clientId, workspaceId: "w", text: "mine", files: [], choice: null, when: "queue", replyTo: null, at: "2026-03-29T11:59:00Z", state: "sending", reason: null, again: false, ...part };
}

function items(lines: Line[], unsent: UnsentMessage[] = [], newAfter: number | null = null): Item[] {
  return conversationItems({ lines, unsent, delegations: new Map(), newAfter, now: NOW, zone: ZONE });
}

const kinds = (all: Item[]): string[] => all.map((item) => (item.kind === "message" ? item.text : item.kind === "day" ? `-- ${item.heading}` : "-- new"));

test("days are set apart by the calendar of the reader, across a day of 23 hours", () => {
  const all = items([line(1, "2026-03-28T22:59:00Z"), line(2, "2026-03-28T23:01:00Z"), line(3, "2026-03-29T11:00:00Z")]);
  expect(kinds(all)).toEqual(["-- Yesterday", "text 1", "-- Today", "text 2", "text 3"]);
});

test("messages of one author shortly after each other stand together", () => {
  const all = items([line(1, "2026-03-29T10:00:00Z"), line(2, "2026-03-29T10:04:00Z"), line(3, "2026-03-29T10:10:00Z"), line(4, "2026-03-29T10:11:00Z", { author: "user" })]);
  expect(all.map((item) => item.kind === "message" && item.joined)).toEqual([false, false, true, false, false]);
});

test("the mark of what is new stands above the first answer behind what was read", () => {
  const at = "2026-03-29T10:00:00Z";
  const lines = [line(1, at), line(2, at, { author: "user" }), line(3, at), line(4, at)];
  expect(kinds(items(lines, [], 1))).toEqual(["-- Today", "text 1", "text 2", "-- new", "text 3", "text 4"]);
  expect(kinds(items(lines, [], 4))).not.toContain("-- new");
});

test("a message is the same item before and after the server has it", () => {
  const [before] = items([], [entry("c1")]).filter((item) => item.kind === "message");
  const stored = line(7, "2026-03-29T11:59:01Z", { author: "user", clientId: "c1", text: "mine" });
  const after = items([stored], [entry("c1", { state: "stored" })]).filter((item) => item.kind === "message");
  expect(after).toHaveLength(1);
  expect(after[0]?.key).toBe(before?.key);
  expect([before, after[0]].map((item) => item?.tick)).toEqual(["sending", "stored"]);
});

test("what was not sent stays at the end, with the reason", () => {
  const all = items([line(1, "2026-03-29T11:59:30Z")], [entry("c1", { state: "not_sent", reason: "The server did not respond." })]);
  expect(all.at(-1)).toMatchObject({ key: "c1", tick: "not_sent", reason: "The server did not respond.", id: null });
});

test("times that are none do not break the list", () => {
  expect(kinds(items([line(1, "soon")]))).toContain("text 1");
});

test("leave that was asked for stands between the lines by its time, and who spoke before is named again after it", () => {
  const lines = [line(1, "2026-03-29T10:00:00Z"), line(2, "2026-03-29T10:01:00Z")];
  const approvals = ["2026-03-29T10:00:30Z", "2026-03-29T10:02:00Z"].map((at, place) => ({ approval: approvalOf(approvalRow(`p${place}`)) as Approval, at }));
  const all = conversationItems({ lines, unsent: [entry("c")], delegations: new Map(), approvals, newAfter: null, now: NOW, zone: ZONE });
  expect(all.slice(1).map((item) => (item.kind === "approval" ? item.approval.id : item.kind === "message" && item.text))).toEqual(["text 1", "p0", "text 2", "p1", "mine"]);
  expect(all[3]).toMatchObject({ text: "text 2", joined: false });
});

const delegation = (id: string, createdAt: string, retryOf: string | null = null): Delegation => ({ id, createdAt, targetId: `to ${id}`, retryOf }) as Delegation;

function parts(lines: Line[], open: readonly string[] = [], approvals: { approval: Approval; at: string }[] = []): string[] {
  const work = new Map(lines.filter(({ author }) => author === "work").map(({ id, at }) => [id, delegation(id, at)]));
  const all = conversationItems({ lines, unsent: [], delegations: work, approvals, isGroupOpen: (key) => open.includes(key), newAfter: null, now: NOW, zone: "UTC" });
  return all.map((item) => {
    if (item.kind === "group") return `${item.key}: ${item.delegations.map(({ id }) => id).join(" ")}`;
    if (item.kind === "delegation") return `${item.inGroup ? "- " : ""}${item.key}`;
    return item.kind === "message" ? item.text : item.kind === "approval" ? item.approval.id : item.kind;
  });
}

const work = (seq: number, at: string): Line => line(seq, at, { author: "work", id: `d${seq}`, delegationId: `d${seq}` });

test("delegations without a message in between are one group, and one alone is none", () => {
  const at = (minute: number): string => `2026-03-29T10:0${minute}:00Z`;
  const lines = [work(1, at(0)), line(2, at(1)), work(3, at(2)), work(4, at(3)), work(5, at(4)), line(6, at(5)), work(7, at(6))];
  expect(parts(lines)).toEqual(["day", "d1", "text 2", "group d3: d3 d4 d5", "text 6", "d7"]);
  expect(parts(lines, ["group d3"])).toEqual(["day", "d1", "text 2", "group d3: d3 d4 d5", "- d3", "- d4", "- d5", "text 6", "d7"]);
});

test("a group ends with its day, and approvals among its delegations follow it", () => {
  const lines = [work(1, "2026-03-28T23:57:00Z"), work(2, "2026-03-28T23:59:00Z"), work(3, "2026-03-29T00:01:00Z"), work(4, "2026-03-29T00:03:00Z")];
  const approval = approvalOf(approvalRow("p0")) as Approval;
  const found = parts(lines, [], [{ approval, at: "2026-03-29T00:02:00Z" }]);
  expect(found).toEqual(["day", "group d1: d1 d2", "day", "group d3: d3 d4", "p0"]);
});

test("a group is the same whether its delegations came one by one or at once", () => {
  const lines = [1, 2, 3, 4].map((seq) => work(seq, `2026-03-29T10:0${seq}:00Z`));
  const grown = [1, 2, 3, 4].map((count) => parts(lines.slice(0, count)).at(-1));
  expect(grown).toEqual(["d1", "group d1: d1 d2", "group d1: d1 d2 d3", "group d1: d1 d2 d3 d4"]);
});

test("another attempt makes no group", () => {
  const lines = [1, 2, 3].map((seq) => work(seq, `2026-03-29T10:0${seq}:00Z`));
  const kindsOf = (count: number): string[] => {
    const known = new Map([["d1", delegation("d1", "2026-03-29T10:01:00Z")], ["d2", delegation("d2", "2026-03-29T10:02:00Z", "d1")], ["d3", delegation("d3", "2026-03-29T10:03:00Z")]]);
    return conversationItems({ lines: lines.slice(0, count), unsent: [], delegations: known, newAfter: null, now: NOW, zone: "UTC" }).map(({ kind }) => kind);
  };
  expect(kindsOf(2)).toEqual(["day", "delegation", "delegation"]);
  expect(kindsOf(3)).toEqual(["day", "group"]);
});
