// @vitest-environment node
import { expect, test } from "vitest";
import { LEFT_BEHIND, Outbox, type SendMessage, type SendResult } from "./outbox";
import { memoryStorage } from "../testing/modelServer";

const OWNER = { org: "org", user: "ada" };
const NOW = "2026-03-01T10:00:00.000Z";

/** A server that responds when the test says so. */
class Line {
  readonly sent: { clientId: string; answer: (result: SendResult) => void }[] = [];

  readonly send: SendMessage = ({ clientId }) => new Promise((answer) => this.sent.push({ clientId, answer }));

  async answer(at: number, result: SendResult): Promise<void> {
    this.sent[at]?.answer(result);
    await Promise.resolve();
    await Promise.resolve();
  }
}

const states = (outbox: Outbox): string[] => outbox.entries.get().map((each) => `${each.text} ${each.state}`);
const OFFLINE: SendResult = { ok: false, reason: "The server did not respond.", again: true };
const REFUSED: SendResult = { ok: false, reason: "The inbox is full.", again: false };

test("a message is there before the server answers, and stored when it did", async () => {
  const line = new Line();
  const outbox = new Outbox(memoryStorage(), OWNER, line.send);
  void outbox.add({ workspaceId: "w", words: "hello" }, NOW, "c1");
  expect(states(outbox)).toEqual(["hello sending"]);
  await line.answer(0, { ok: true });
  expect(states(outbox)).toEqual(["hello stored"]);
});

test("a message that could not be sent outlives the page with its text", async () => {
  const [storage, line] = [memoryStorage(), new Line()];
  const outbox = new Outbox(storage, OWNER, line.send);
  void outbox.add({ workspaceId: "w", words: "keep me" }, NOW, "c1");
  await line.answer(0, OFFLINE);
  const later = new Outbox(storage, OWNER, line.send);
  expect(later.entries.get()).toMatchObject([{ text: "keep me", workspaceId: "w", state: "not_sent", reason: LEFT_BEHIND }]);
});

test("a message on its way when the page closes is kept too", () => {
  const storage = memoryStorage();
  void new Outbox(storage, OWNER, new Line().send).add({ workspaceId: "w", words: "in flight" }, NOW, "c1");
  expect(states(new Outbox(storage, OWNER, new Line().send))).toEqual(["in flight not_sent"]);
});

test("trying again sends the same client id, so that it has one effect", async () => {
  const line = new Line();
  const outbox = new Outbox(memoryStorage(), OWNER, line.send);
  void outbox.add({ workspaceId: "w", words: "hello" }, NOW, "c1");
  await line.answer(0, OFFLINE);
  void outbox.retry("c1");
  void outbox.retry("c1");
  expect(line.sent.map((each) => each.clientId)).toEqual(["c1", "c1"]);
});

test("when the connection is back, what only it held up goes out; what was refused waits for the person", async () => {
  const line = new Line();
  const outbox = new Outbox(memoryStorage(), OWNER, line.send);
  void outbox.add({ workspaceId: "w", words: "offline" }, "2026-03-01T10:00:00Z", "c1");
  void outbox.add({ workspaceId: "w", words: "refused" }, "2026-03-01T10:00:01Z", "c2");
  await line.answer(0, OFFLINE);
  await line.answer(1, REFUSED);
  void outbox.retryDisconnected();
  expect(states(outbox)).toEqual(["offline sending", "refused not_sent"]);
});

test("what was discarded is gone for good, also if an answer comes late", async () => {
  const [storage, line] = [memoryStorage(), new Line()];
  const outbox = new Outbox(storage, OWNER, line.send);
  void outbox.add({ workspaceId: "w", words: "oops" }, NOW, "c1");
  outbox.discard("c1");
  await line.answer(0, OFFLINE);
  expect(states(outbox)).toEqual([]);
  expect(storage.keys("molecule")).toEqual([]);
});

test("what the server shows itself is not kept", () => {
  const [storage, line] = [memoryStorage(), new Line()];
  const outbox = new Outbox(storage, OWNER, line.send);
  void outbox.add({ workspaceId: "w", words: "hello" }, NOW, "c1");
  outbox.settle(new Set(["c1", "other"]));
  expect(states(outbox)).toEqual([]);
  expect(storage.keys("molecule")).toEqual([]);
});

test("another tab's messages stand as they stand there, and go when they go there", async () => {
  const [storage, line] = [memoryStorage(), new Line()];
  const [one, other] = [new Outbox(storage, OWNER, line.send), new Outbox(storage, OWNER, new Line().send)];
  void one.add({ workspaceId: "w", words: "from one" }, NOW, "c1");
  other.reread();
  expect(states(other)).toEqual(["from one sending"]);
  await line.answer(0, OFFLINE);
  other.reread();
  expect(other.entries.get()).toMatchObject([{ state: "not_sent", reason: one.entries.get()[0]?.reason }]);
  one.discard("c1");
  other.reread();
  expect(states(other)).toEqual([]);
});

test("what only the connection held up goes out by itself, also if another tab kept something meanwhile", async () => {
  const [storage, line] = [memoryStorage(), new Line()];
  const [one, other] = [new Outbox(storage, OWNER, line.send), new Outbox(storage, OWNER, new Line().send)];
  void one.add({ workspaceId: "w", words: "offline" }, "2026-03-01T10:00:00Z", "c1");
  void one.add({ workspaceId: "w", words: "refused" }, "2026-03-01T10:00:01Z", "c2");
  await line.answer(0, OFFLINE);
  await line.answer(1, REFUSED);
  for (const each of [one, other]) each.reread();
  void one.retryDisconnected();
  expect(states(one)).toEqual(["offline sending", "refused not_sent"]);
  expect(other.entries.get().map((each) => each.again)).toEqual([true, false]);
});

test("a tab that has not the files of another one's message leaves it to that one", async () => {
  const [storage, line] = [memoryStorage(), new Line()];
  const [one, other] = [new Outbox(storage, OWNER, line.send), new Outbox(storage, OWNER, line.send)];
  void one.add({ workspaceId: "w", words: "see", files: [{ name: "a.txt", size: 3, uri: null, type: "text/plain" }] }, NOW, "c1");
  await line.answer(0, OFFLINE);
  other.reread();
  void other.retryDisconnected(() => false);
  one.reread();
  void one.retryDisconnected(() => true);
  expect(states(one)).toEqual(["see sending"]);
  expect(line.sent).toHaveLength(2);
});

test("a new page leaves what an earlier one held up to the person", async () => {
  const [storage, line] = [memoryStorage(), new Line()];
  void new Outbox(storage, OWNER, line.send).add({ workspaceId: "w", words: "offline" }, NOW, "c1");
  await line.answer(0, OFFLINE);
  const later = new Outbox(storage, OWNER, line.send);
  void later.retryDisconnected();
  expect(states(later)).toEqual(["offline not_sent"]);
});

test("two persons of one browser do not see each other's messages, and damage is passed over", () => {
  const storage = memoryStorage();
  void new Outbox(storage, OWNER, new Line().send).add({ workspaceId: "w", words: "mine" }, NOW, "c1");
  storage.set("molecule.unsent.org.ada.broken", "{not json");
  storage.set("molecule.unsent.org.ada.half", '{"text":"x"}');
  expect(states(new Outbox(storage, { org: "org", user: "bob" }, new Line().send))).toEqual([]);
  expect(states(new Outbox(storage, OWNER, new Line().send))).toEqual(["mine not_sent"]);
});

test("what the server has got of a message's files outlives a failed try and the page", async () => {
  const [storage, line] = [memoryStorage(), new Line()];
  const outbox = new Outbox(storage, OWNER, line.send);
  const files = ["a.txt", "b.txt"].map((name) => ({ name, size: 3, uri: null, type: "text/plain" }));
  void outbox.add({ workspaceId: "w", words: "two", files }, NOW, "c1");
  outbox.recordUpload("c1", 0, { name: "a.txt", size: 3, uri: "platform-pending:w/1", type: "text/plain" });
  await line.answer(0, OFFLINE);
  const uris = ["platform-pending:w/1", null];
  expect(outbox.entries.get()[0]?.files.map((file) => file.uri)).toEqual(uris);
  expect(new Outbox(storage, OWNER, line.send).entries.get()[0]?.files.map((file) => file.uri)).toEqual(uris);
});
