import { expect, test } from "vitest";
import { parsePlace, hrefOf } from "../../core/router";
import type { Approval } from "../../core/state/approvals";
import { EMPTY_PEER_CHAT, withPeerPage } from "../../core/state/peerMessages";
import type { ConversationPeer, PeerMessage } from "../../core/wire";
import { peerItems } from "./peerItems";
import { withPage } from "./usePeers";

function message(id: string, timestamp: string, more: Partial<PeerMessage> = {}): PeerMessage {
  return { kind: "message", id, source_id: "a", target_id: "b", message_kind: "peer_agent", content: id, timestamp, seq: 1, ...more };
}

function peer(id: string, minute: number, messages = 1): ConversationPeer {
  const timestamp = `2026-11-28T10:${String(minute).padStart(2, "0")}:00Z`;
  return { workspace_id: id, name: id, messages, more: false, last: { id: `m${minute}`, source_id: id, message_kind: "peer_agent", summary: "", timestamp } };
}

test("the address of a conversation leads back to it", () => {
  const place = { view: "peers", workspaceId: "a b", peerId: "c", messageId: "m" } as const;
  const url = new URL(hrefOf(place), "http://localhost");
  expect(url.pathname + url.search).toBe("/app/chat/a%20b?peer=c&m=m");
  expect(parsePlace(url.pathname, url.search)).toEqual(place);
  expect(parsePlace("/app/chat/a", "?peer=")).toEqual({ view: "chats", workspaceId: "a", messageId: null });
});

test("days, joined messages and requests for approval are the items of a conversation", () => {
  const items = [
    message("one", "2026-11-27T10:00:00Z"),
    message("two", "2026-11-27T10:01:00Z"),
    message("other", "2026-11-27T10:01:30Z", { source_id: "b", target_id: "a" }),
    message("three", "2026-11-28T10:00:00Z"),
    message("r.1", "2026-11-28T10:01:00Z", { message_kind: "approval_request", approval_id: "r" }),
    message("s.1", "2026-11-28T10:02:00Z", { message_kind: "approval_request", approval_id: "s" }),
  ];
  const { lines } = withPeerPage(EMPTY_PEER_CHAT, { items, reached_end: true }, true);
  const approvals = new Map([["r", { id: "r" } as Approval]]);
  const shown = peerItems({ lines, delegations: new Map(), approvals, now: Date.parse("2026-11-28T12:00:00Z"), zone: "UTC" });
  expect(shown.map((item) => (item.kind === "message" ? `${item.key}${item.joined ? " joined" : ""}` : item.kind))).toEqual(["day", "one", "two joined", "other", "day", "three", "approval", "s.1"]);
});

test("peers of all pages are listed once, last message first", () => {
  const none = { peers: [], loaded: false, more: false };
  const first = withPage(none, [peer("a", 9), peer("b", 8)], { more: true, isFirst: true });
  const both = withPage(first, [peer("c", 7)], { more: false, isFirst: false });
  const again = withPage(both, [peer("c", 10, 2), peer("a", 9)], { more: true, isFirst: true });
  expect([first.more, both.more, again.more]).toEqual([true, false, false]);
  expect(again.peers.map(({ workspace_id, messages }) => `${workspace_id} ${messages}`)).toEqual(["c 2", "a 1", "b 1"]);
});
