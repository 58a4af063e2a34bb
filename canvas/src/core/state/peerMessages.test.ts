import { expect, test } from "vitest";
import type { ConversationPage, EventFrame, PeerMessage } from "../wire";
import { EMPTY_PEER_CHAT, isMessageBetween, isMessageOf, isPeerEvent, pageOfTick, withPeerPage, withPeerTick, type PeerChat } from "./peerMessages";

function message(number: number, more: Partial<PeerMessage> = {}): PeerMessage {
  const [source_id, target_id] = number % 2 ? ["b", "a"] : ["a", "b"];
  const timestamp = `2026-11-28T10:00:00.${String(number).padStart(6, "0")}Z`;
  return { kind: "message", id: `m${number}`, source_id, target_id, message_kind: "peer_agent", content: `line ${number}`, timestamp, seq: number, delivery: "stored", ...more };
}

function page(from: number, to: number, reached_end: boolean): ConversationPage {
  return { items: Array.from({ length: to - from }, (_, at) => message(from + at)), reached_end };
}

function frame(event: string, workspace_id: string, payload: unknown): EventFrame {
  return { event, seq: 1, prev: 0, timestamp: "2026-11-28T10:00:00Z", workspace_id, payload, entity: { kind: "activity", id: "x", rev: 0 } } as unknown as EventFrame;
}

const ids = (chat: PeerChat): string[] => chat.lines.map(({ id }) => id);
const numbers = (from: number, to: number): string[] => Array.from({ length: to - from }, (_, at) => `m${from + at}`);

test("pages in any order are one conversation in the order of time, each message once", () => {
  const newest = withPeerPage(EMPTY_PEER_CHAT, page(4, 8, false), true);
  const whole = withPeerPage(newest, page(0, 5, true), false);
  expect([newest.reachedEnd, whole.reachedEnd]).toEqual([false, true]);
  expect(ids(whole)).toEqual(numbers(0, 8));
  expect(ids(withPeerPage(whole, page(6, 10, false), true))).toEqual(numbers(0, 10));
  expect(withPeerPage(whole, page(6, 10, false), true).reachedEnd).toBe(true);
});

test("a newest page that leaves a gap replaces what was known", () => {
  const known = withPeerPage(EMPTY_PEER_CHAT, page(0, 4, true), true);
  const next = withPeerPage(known, page(6, 9, false), true);
  expect([ids(next), next.reachedEnd]).toEqual([numbers(6, 9), false]);
});

test("messages of the same millisecond keep their order", () => {
  const [one, other] = [message(1, { timestamp: "2026-11-28T10:00:00.000900Z" }), message(2, { timestamp: "2026-11-28T10:00:00.000100Z" })];
  expect(ids(withPeerPage(EMPTY_PEER_CHAT, { items: [one, other], reached_end: true }, true))).toEqual(["m2", "m1"]);
});

test("a tick moves the messages of its recipient forward and never back", () => {
  const chat = withPeerPage(EMPTY_PEER_CHAT, page(0, 4, true), true);
  const acked = withPeerTick(chat, frame("MESSAGE_TICK", "b", { first_seq: 0, last_seq: 2, tick: "acked" }));
  expect(acked.lines.map(({ delivery }) => delivery)).toEqual(["acked", "stored", "acked", "stored"]);
  const late = withPeerTick(acked, frame("MESSAGE_TICK", "b", { first_seq: 0, last_seq: 2, tick: "handed_over" }));
  expect(late.lines.map(({ delivery }) => delivery)).toEqual(["acked", "stored", "acked", "stored"]);
  const dead = withPeerTick(chat, frame("MESSAGE_DEAD", "a", { seq: 3, reason: "expired" }));
  expect(dead.lines.map(({ delivery, problem }) => [delivery, problem]).at(-1)).toEqual(["dead", "expired"]);
  expect(withPeerTick(dead, frame("MESSAGE_REQUEUED", "a", { seq: 3 })).lines.at(-1)?.delivery).toBe("stored");
  expect(withPeerTick(chat, frame("MESSAGE_TICK", "c", { first_seq: 0, last_seq: 9, tick: "acked" }))).toBe(chat);
});

test("the page that has a message is the newest one, or ends before the message after it", () => {
  const chat = withPeerPage(EMPTY_PEER_CHAT, page(0, 10, true), true);
  const tick = (seq: number): EventFrame => frame("MESSAGE_TICK", seq % 2 ? "a" : "b", { first_seq: seq, last_seq: seq, tick: "answered" });
  expect([pageOfTick(chat, tick(9), 4), pageOfTick(chat, tick(2), 4), pageOfTick(chat, tick(40), 4)]).toEqual([undefined, "m3", null]);
});

test("events are told apart by who sent to whom", () => {
  const sent = frame("ACTIVITY_LOGGED", "b", { activity_type: "a2a_receive", source_id: "a", target_id: "b" });
  expect([isPeerEvent(sent), isMessageBetween(sent, "a", "b"), isMessageBetween(sent, "b", "a"), isMessageBetween(sent, "a", "c")]).toEqual([true, true, true, false]);
  expect([isMessageOf(sent, "a"), isMessageOf(sent, "b"), isMessageOf(sent, "c")]).toEqual([true, true, false]);
  for (const other of [
    frame("ACTIVITY_LOGGED", "b", { activity_type: "agent_log", source_id: "b" }),
    frame("ACTIVITY_LOGGED", "a", { activity_type: "a2a_send", source_id: "a", target_id: "b" }),
    frame("USER_MESSAGE", "b", { activity_type: "a2a_receive", source_id: null }),
  ]) {
    expect([isPeerEvent(other), isMessageOf(other, "b")]).toEqual([false, false]);
  }
  const broadcast = frame("BROADCAST_MESSAGE", "a", {});
  expect([isMessageOf(broadcast, "c"), isMessageBetween(broadcast, "a", "b"), isMessageBetween(broadcast, "b", "c")]).toEqual([true, true, false]);
});
