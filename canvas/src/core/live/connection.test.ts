import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { PROTOCOL } from "../wire";
import type { Snapshot } from "../wire";
import { ModelServer } from "../testing/modelServer";
import { Connection, type ConnectionOptions } from "./connection";

class FakeSocket {
  static readonly all: FakeSocket[] = [];
  onmessage: ((message: { data: string }) => void) | null = null;
  onclose: ((end: { code: number }) => void) | null = null;
  readonly sent: unknown[] = [];
  closed = false;

  constructor() {
    FakeSocket.all.push(this);
  }

  send(text: string): void {
    this.sent.push(JSON.parse(text));
  }

  close(): void {
    this.closed = true;
  }

  say(...frames: unknown[]): void {
    for (const frame of frames) this.onmessage?.({ data: typeof frame === "string" ? frame : JSON.stringify(frame) });
  }
}

const server = new ModelServer();
const HELLO = { type: "hello", protocol: PROTOCOL, epoch: "e1", org_id: "org", head: 0, user: {}, heartbeat_s: 15, server_time: "" };
let connection: Connection;
let parts: { [Name in keyof ConnectionOptions]: ConnectionOptions[Name] };

const socket = (): FakeSocket => FakeSocket.all.at(-1) as FakeSocket;
const event = (seq: number): unknown => ({ event: "ACTIVITY_LOGGED", workspace_id: "a", timestamp: "t", payload: {}, entity: { kind: "activity", id: `${seq}`, rev: 0 }, seq, prev: seq - 1 });

beforeEach(async () => {
  vi.useFakeTimers();
  vi.stubGlobal("WebSocket", FakeSocket);
  FakeSocket.all.length = 0;
  parts = {
    url: "ws://here/ws",
    loadSnapshot: vi.fn<() => Promise<Snapshot>>().mockResolvedValue(server.snapshot()),
    checkSession: vi.fn(),
    isReachable: vi.fn<() => Promise<boolean>>().mockResolvedValue(false),
    onSnapshot: vi.fn(),
    onEvents: vi.fn(),
    onLive: vi.fn(),
    onSnapshotProblem: vi.fn(),
    onLogOut: vi.fn(),
  };
  connection = new Connection(parts);
  connection.start();
  await vi.advanceTimersByTimeAsync(1);
  socket().say(HELLO, { type: "current", after: 0 });
});

afterEach(() => {
  connection.stop();
  vi.useRealTimers();
});

test("it is live after one snapshot and one subscription, over one socket", () => {
  expect(parts.onSnapshot).toHaveBeenCalledOnce();
  expect(socket().sent).toEqual([{ type: "subscribe", after: 0, epoch: "e1" }]);
  expect(connection.view.get().mode).toBe("live");
  expect(FakeSocket.all).toHaveLength(1);
});

test("events of one moment are applied together", async () => {
  socket().say(event(1), event(2), event(3));
  expect(parts.onEvents).not.toHaveBeenCalled();
  await vi.advanceTimersByTimeAsync(40);
  expect(parts.onEvents).toHaveBeenCalledOnce();
  expect(vi.mocked(parts.onEvents).mock.calls[0]?.[0]).toHaveLength(3);
});

test("missed events are applied together once all have come", async () => {
  socket().say({ type: "resumed", after: 0, upto: 3, count: 3 }, event(1), event(2));
  await vi.advanceTimersByTimeAsync(500);
  expect(parts.onEvents).not.toHaveBeenCalled();
  socket().say(event(3));
  await vi.advanceTimersByTimeAsync(40);
  socket().say(event(4));
  await vi.advanceTimersByTimeAsync(40);
  expect(vi.mocked(parts.onEvents).mock.calls.map(([frames]) => frames.length)).toEqual([3, 1]);
});

test("missed events that take long to come are applied as they come", async () => {
  socket().say({ type: "resumed", after: 0, upto: 3, count: 3 }, event(1), event(2));
  await vi.advanceTimersByTimeAsync(1_100);
  socket().say(event(3));
  await vi.advanceTimersByTimeAsync(40);
  expect(vi.mocked(parts.onEvents).mock.calls.map(([frames]) => frames.length)).toEqual([2, 1]);
});

test("events that a lost connection did not bring are not waited for", async () => {
  socket().say({ type: "resumed", after: 0, upto: 3, count: 3 }, event(1));
  socket().onclose?.({ code: 1006 });
  await vi.advanceTimersByTimeAsync(400);
  socket().say(HELLO, { type: "resumed", after: 1, upto: 2, count: 1 }, event(2));
  await vi.advanceTimersByTimeAsync(40);
  expect(vi.mocked(parts.onEvents).mock.calls.flatMap(([frames]) => frames)).toHaveLength(2);
});

test("a cut is told after a moment, and no more once it is live again", async () => {
  socket().onclose?.({ code: 1006 });
  expect(connection.view.get().mode).toBe("live");
  await vi.advanceTimersByTimeAsync(1_000);
  expect(connection.view.get().mode).toBe("lost");
  expect(FakeSocket.all.length).toBeGreaterThan(1);
  socket().say(HELLO, { type: "resumed", after: 0, upto: 1, count: 1 }, event(1));
  expect(connection.view.get().mode).toBe("live");
  expect(parts.onLive).toHaveBeenCalledTimes(2);
  expect(parts.loadSnapshot).toHaveBeenCalledOnce();
});

test("a short cut is not told at all", async () => {
  const modes: string[] = [];
  connection.view.subscribe(() => modes.push(connection.view.get().mode));
  socket().onclose?.({ code: 1006 });
  await vi.advanceTimersByTimeAsync(300);
  socket().say(HELLO, { type: "current", after: 0 });
  await vi.advanceTimersByTimeAsync(5_000);
  expect(modes).not.toContain("lost");
});

test("a lost network is told although the socket says nothing", async () => {
  window.dispatchEvent(new Event("offline"));
  await vi.advanceTimersByTimeAsync(1_000);
  expect(connection.view.get().mode).toBe("lost");
});

test("a snapshot that fails is tried again, and its problem is told", async () => {
  vi.mocked(parts.loadSnapshot).mockRejectedValueOnce(new Error("no")).mockResolvedValue(server.snapshot());
  socket().say({ type: "snapshot_required", reason: "too_many" });
  await vi.advanceTimersByTimeAsync(2_000);
  expect(parts.onSnapshotProblem).toHaveBeenCalledOnce();
  expect(parts.onSnapshot).toHaveBeenCalledTimes(2);
  expect(socket().sent).toHaveLength(2);
});

test("what is no JSON is passed over", () => {
  expect(() => socket().say("{", "", "null")).not.toThrow();
});

test("once stopped it stays so", async () => {
  connection.stop();
  expect(socket().closed).toBe(true);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(FakeSocket.all).toHaveLength(1);
});

test("the end of the session ends the work", async () => {
  socket().onclose?.({ code: 4001 });
  await vi.advanceTimersByTimeAsync(60_000);
  expect(parts.onLogOut).toHaveBeenCalledOnce();
  expect(FakeSocket.all).toHaveLength(1);
});

/** Cut the connection; the next sockets fail at once. */
async function cutFor(ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += 100) {
    socket().onclose?.({ code: 1006 });
    await vi.advanceTimersByTimeAsync(100);
  }
}

test("a server that answers again is connected to within a second, however long it was away", async () => {
  await cutFor(60_000);
  const before = FakeSocket.all.length;
  vi.mocked(parts.isReachable).mockResolvedValue(true);
  await vi.advanceTimersByTimeAsync(900);
  expect(FakeSocket.all.length).toBeGreaterThan(before);
  socket().say(HELLO, { type: "current", after: 0 });
  expect(connection.view.get().mode).toBe("live");
  const asked = vi.mocked(parts.isReachable).mock.calls.length;
  await vi.advanceTimersByTimeAsync(10_000);
  expect(vi.mocked(parts.isReachable).mock.calls.length).toBe(asked);
});

test("where the server answers and the socket fails, the waits between two sockets grow as before", async () => {
  vi.mocked(parts.isReachable).mockResolvedValue(true);
  await cutFor(30_000);
  expect(FakeSocket.all.length).toBeLessThan(20);
});

test("a hidden page asks for nothing, and a long outage is asked about seldom", async () => {
  await cutFor(10_000);
  expect(vi.mocked(parts.isReachable).mock.calls.length).toBeGreaterThan(9);
  await cutFor(150_000);
  vi.mocked(parts.isReachable).mockClear();
  await cutFor(20_000);
  expect(vi.mocked(parts.isReachable).mock.calls.length).toBeLessThan(9);
  vi.spyOn(document, "visibilityState", "get").mockReturnValue("hidden");
  vi.mocked(parts.isReachable).mockClear();
  await cutFor(20_000);
  expect(parts.isReachable).not.toHaveBeenCalled();
});
