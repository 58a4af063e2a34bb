// @vitest-environment node
import fc from "fast-check";
import { expect, test } from "vitest";
import { LISTS } from "./state/approvals";
import { hrefOf, INBOX, nameOrgInPaths, ORG, orgOfPath, parsePlace, type Place } from "./router";

function read(href: string): Place {
  const url = new URL(href, "http://127.0.0.1");
  return parsePlace(url.pathname, url.search);
}

const id = fc.string({ minLength: 1, maxLength: 20, unit: "grapheme" }).filter((each) => !/^\.{1,2}$/.test(each));
const place: fc.Arbitrary<Place> = fc.oneof(
  fc.record({ view: fc.constant("org" as const), focus: id, panel: fc.constantFrom("chat" as const, "threads" as const, "prompt" as const, "about" as const, null), filter: fc.string() }),
  fc.record({ view: fc.constant("chats" as const), workspaceId: id, messageId: fc.option(id) }),
  fc.record({ view: fc.constant("inbox" as const), kind: fc.constant("approval" as const), list: fc.constantFrom(...LISTS), open: fc.option(fc.record({ id, workspaceId: id })), item: fc.option(id) }),
  fc.record({ view: fc.constant("inbox" as const), kind: fc.constantFrom(null, "question" as const, "agent" as const), list: fc.constant("waiting" as const), open: fc.option(fc.record({ id, workspaceId: id })), item: fc.option(id) }),
  fc.record({ view: fc.constant("usage" as const), by: fc.constantFrom("agent", "team", "model", "day", "request") }),
  fc.record({ view: fc.constant("activity" as const), filters: fc.dictionary(fc.constantFrom("q", "agent", "kind", "since", "open"), id, { noNullPrototype: true }) }),
  fc.record({ view: fc.constant("prompt" as const), workspaceId: id }),
  fc.record({ view: fc.constant("thread" as const), id, tab: fc.constantFrom("said" as const, "tree" as const, "sight" as const, "base" as const) }),
  fc.constantFrom<Place>(ORG, { view: "connect" }, { view: "schedules" }, { view: "settings" }, { view: "chats", workspaceId: null, messageId: null }),
);

test("every place has an address, and the address leads back to it", () => {
  fc.assert(
    fc.property(place, (each) => {
      expect(read(hrefOf(each))).toEqual(each);
    }),
  );
});

test("addresses of no place are told so, and damaged ones do not break the page", () => {
  expect(read("/app/")).toEqual(ORG);
  expect(read("/app/wonders/7")).toEqual({ view: "unknown", path: "/app/wonders/7" });
  expect(parsePlace("/app/chat/%E0%A4%A", "?m=%")).toMatchObject({ view: "chats", workspaceId: "%E0%A4%A" });
  expect(read("/app/org?panel=chat")).toEqual(ORG);
});

test("links to approvals from before there were other kinds lead to approvals", () => {
  expect(read("/app/inbox?state=decided")).toEqual({ ...INBOX, kind: "approval", list: "decided" });
  expect(read("/app/inbox?kind=of-tomorrow")).toEqual(INBOX);
});

test("a delegation and what is looked at below it are in the address", () => {
  const place = { view: "delegation", id: "d/1", node: "d 2" } as const;
  expect(hrefOf(place)).toBe("/app/delegations/d%2F1?node=d+2");
  expect(parsePlace("/app/delegations/d%2F1", "?node=d+2")).toEqual(place);
  expect(parsePlace("/app/delegations", "")).toEqual({ view: "unknown", path: "/app/delegations" });
});

test("with several logins each address names its organisation", () => {
  nameOrgInPaths("big/one");
  try {
    fc.assert(
      fc.property(place, (each) => {
        expect(hrefOf(each).startsWith("/app/o/big%2Fone/")).toBe(true);
        expect(read(hrefOf(each))).toEqual(each);
        expect(orgOfPath(new URL(hrefOf(each), "http://127.0.0.1").pathname)).toBe("big/one");
      }),
    );
  } finally {
    nameOrgInPaths(null);
  }
  expect(hrefOf(ORG)).toBe("/app/org");
});

test("an address without an organisation names none", () => {
  for (const path of ["/app/", "/app/org", "/app/o", "/app/chat/o", "/app/o/"]) expect(orgOfPath(path)).toBeNull();
  expect(read("/app/o/a")).toEqual(ORG);
});
