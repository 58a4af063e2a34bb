// @vitest-environment node
import { expect, test } from "vitest";
import { memoryStorage } from "../testing/modelServer";
import { peerReadsStore, unreadOfPeer, type PeerReads } from "./peerReads";

const OWNER = { org: "o", user: "u" };
const peer = (messages: number, second: number) => ({ workspace_id: "b", messages, last: { timestamp: `2026-03-01T10:00:0${second}Z` } as never });
const unread = (reads: PeerReads, one: ReturnType<typeof peer>): number => unreadOfPeer(reads.get().get("a"), one);

test("what is there when a browser sees a list for the first time is not unread, what comes later is", () => {
  const storage = memoryStorage();
  const reads = peerReadsStore(storage, OWNER);
  reads.noteListed("a", [peer(7, 1)]);
  expect([unread(reads, peer(7, 1)), unread(reads, peer(9, 3))]).toEqual([0, 2]);
  expect(unread(peerReadsStore(storage, OWNER), peer(9, 3)), "also after a reload").toBe(2);
});

test("a conversation that is shown is read, and counts on from the next list", () => {
  const reads = peerReadsStore(memoryStorage(), OWNER);
  reads.noteListed("a", [peer(7, 1)]);
  reads.markRead("a", "b", "2026-03-01T10:00:03Z");
  expect(unread(reads, peer(9, 3))).toBe(0);
  expect(unread(reads, peer(10, 4)), "how many is not known before the list was read").toBe(1);
  reads.noteListed("a", [peer(9, 3)]);
  expect(unread(reads, peer(12, 5))).toBe(3);
});

test("strange entries of the storage are left out", () => {
  const storage = memoryStorage();
  storage.set("molecule.peers.o.u.a", '[{"id":1},{"id":"b"},5]');
  storage.set("molecule.peers.o.u.c", "{");
  expect([...peerReadsStore(storage, OWNER).get().values()].map(({ size }) => size)).toEqual([0, 0]);
});
