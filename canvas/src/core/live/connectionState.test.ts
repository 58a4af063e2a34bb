// @vitest-environment node
import fc from "fast-check";
import { expect, test } from "vitest";
import { PROTOCOL, type EventFrame } from "../wire";
import { apply } from "../state/apply";
import type { State } from "../state/model";
import { applySnapshot } from "../state/snapshot";
import { ModelServer, type Verb } from "../testing/modelServer";
import { backOff, INITIAL, SESSION_ENDED, step, type LinkEffect, type LinkEvent, type Link } from "./connectionState";

const HELLO = { type: "hello", protocol: PROTOCOL, epoch: "e1", org_id: "org", head: 5, user: {}, heartbeat_s: 15, server_time: "" };

/** Run events through the state machine, one second apart by default, and record the effects. */
class Play {
  link: Link = INITIAL;
  readonly effects: LinkEffect[] = [];
  now = 1_000_000;

  on(...all: LinkEvent[]): this {
    for (const what of all) {
      this.now += 100;
      const [next, effects] = step(this.link, what, { now: this.now, chance: 0.5 });
      this.link = next;
      this.effects.push(...effects);
    }
    return this;
  }

  frames(...all: unknown[]): this {
    return this.on(...all.map((frame): LinkEvent => ({ kind: "frame", frame })));
  }

  taken(): LinkEffect[] {
    return this.effects.splice(0);
  }

  done(kind: LinkEffect["do"]): LinkEffect[] {
    return this.effects.filter((action) => action.do === kind);
  }
}

function live(): Play {
  const play = new Play().on({ kind: "start" }, { kind: "snapshot", baseline: { after: 5, epoch: "e1" } });
  play.frames(HELLO, { type: "current", after: 5 });
  expect(play.link.phase).toBe("live");
  play.taken();
  return play;
}

function event(seq: number, prev: number, part: Partial<EventFrame> = {}): EventFrame {
  return { event: "ACTIVITY_LOGGED", workspace_id: "a", timestamp: "t", payload: {}, entity: { kind: "activity", id: "x", rev: 0 }, seq, prev, ...part };
}

test("it opens, loads a snapshot, and goes on behind it once it was greeted", () => {
  const play = new Play().on({ kind: "start" });
  expect(play.taken()).toEqual([{ do: "open" }, { do: "load_snapshot", delayMs: 0 }]);
  play.frames(HELLO);
  expect(play.taken()).toEqual([]);
  play.on({ kind: "snapshot", baseline: { after: 5, epoch: "e1" } });
  expect(play.taken()).toEqual([{ do: "send", frame: { type: "subscribe", after: 5, epoch: "e1" } }]);
});

test("events in order are applied, repeats are dropped without a question", () => {
  const play = live().frames(event(7, 5), event(7, 5), event(3, 2), event(9, 7));
  expect(play.done("apply")).toHaveLength(2);
  expect(play.done("send")).toHaveLength(0);
});

test("a frame whose prev is not the last one causes exactly one resume, and is not applied", () => {
  const play = live().frames(event(9_999, 1), event(10_000, 9_999));
  expect(play.effects).toEqual([{ do: "send", frame: { type: "subscribe", after: 5, epoch: "e1" } }]);
  expect(play.link.phase).toBe("resuming");
  play.frames({ type: "resumed", after: 5, upto: 7, count: 1 }, event(7, 5));
  expect(play.done("apply")).toHaveLength(1);
  expect(play.link.phase).toBe("live");
});

test("a ping that knows of more than came is a gap too", () => {
  const play = live().frames({ type: "ping", head_sent: 5 });
  expect(play.effects).toEqual([]);
  play.frames({ type: "ping", head_sent: 8 });
  expect(play.done("send")).toHaveLength(1);
});

test("an answer that does not come is asked for again", () => {
  const play = live().frames(event(9, 8));
  play.taken();
  play.frames({ type: "ping", head_sent: 8 });
  expect(play.effects).toEqual([]);
  play.now += 11_000;
  play.frames({ type: "ping", head_sent: 8 });
  expect(play.done("send")).toHaveLength(1);
});

test("after three resumes in ten seconds it loads a snapshot instead", () => {
  const play = live();
  for (let turn = 0; turn < 4; turn += 1) play.frames(event(9, 8), { type: "resumed", after: 5, upto: 5, count: 0 });
  expect(play.done("send")).toHaveLength(3);
  expect(play.done("load_snapshot")).toHaveLength(1);
  play.taken();
  play.frames(event(11, 5)).on({ kind: "snapshot", baseline: { after: 20, epoch: "e1" } });
  expect(play.effects).toEqual([{ do: "send", frame: { type: "subscribe", after: 20, epoch: "e1" } }]);
});

test("a new epoch drops what was known: a snapshot first, then on behind it", () => {
  const play = live().on({ kind: "closed", code: 1006 }, { kind: "retry" });
  play.frames({ ...HELLO, epoch: "e2" }, { type: "snapshot_required", reason: "epoch_changed" });
  expect(play.done("load_snapshot")).toHaveLength(1);
  play.on({ kind: "snapshot", baseline: { after: 2, epoch: "e2" } }).frames({ type: "current", after: 2 });
  expect(play.link.baseline).toEqual({ after: 2, epoch: "e2" });
  expect(play.link.phase).toBe("live");
});

test("a snapshot that cannot be loaded is asked for again, later each time", () => {
  const play = live().frames({ type: "snapshot_required", reason: "too_many" });
  play.taken();
  play.on({ kind: "snapshot_failed" }, { kind: "snapshot_failed" }, { kind: "snapshot_failed" });
  const delays = play.effects.map((action) => (action.do === "load_snapshot" ? action.delayMs : -1));
  expect(delays).toEqual([...delays].sort((one, other) => one - other));
  expect(delays[2]).toBeGreaterThan(delays[0] ?? 0);
});

test("transient events are applied and are no part of the gap test", () => {
  const { seq, prev, ...transient } = event(0, 0, { event: "TASK_UPDATED" });
  const play = live().frames(transient, event(7, 5));
  expect([seq, prev]).toEqual([0, 0]);
  expect(play.done("apply")).toHaveLength(2);
  expect(play.done("send")).toHaveLength(0);
});

test("a channel that is silent for two and a half heartbeats is left", () => {
  const play = live();
  play.now += 37_000;
  play.on({ kind: "clock" });
  expect(play.effects).toEqual([]);
  play.now += 1_000;
  play.on({ kind: "clock" });
  expect(play.effects.map((action) => action.do)).toEqual(["close", "wait"]);
});

test("losing the network counts at once", () => {
  const play = live().on({ kind: "offline" });
  expect(play.effects.map((action) => action.do)).toEqual(["close", "wait"]);
  play.taken();
  play.on({ kind: "closed", code: 1006 });
  expect(play.effects).toEqual([]);
});

test("waits grow to five seconds at most and are spread by chance", () => {
  const waits = [1, 2, 3, 4, 5, 6, 20].map((tries) => backOff(tries, { now: 0, chance: 1 }));
  expect(waits).toEqual([250, 500, 1_000, 2_000, 4_000, 5_000, 5_000]);
  expect(backOff(3, { now: 0, chance: 0 })).toBe(500);
});

test("a slow reader's close is a cut like another: it comes back and resumes", () => {
  const play = live().on({ kind: "closed", code: 4008 });
  expect(play.effects.map((action) => action.do)).toEqual(["wait"]);
  play.taken();
  play.on({ kind: "retry" }).frames(HELLO);
  expect(play.effects).toEqual([{ do: "open" }, { do: "send", frame: { type: "subscribe", after: 5, epoch: "e1" } }]);
});

test("a socket that never greets may mean that the session is over", () => {
  const play = live().on({ kind: "closed", code: 1006 }, { kind: "retry" });
  play.taken();
  play.on({ kind: "closed", code: 1006 });
  expect(play.effects.map((action) => action.do)).toEqual(["check_session", "wait"]);
});

test("an ended session ends it for good", () => {
  const play = live().on({ kind: "closed", code: SESSION_ENDED });
  expect(play.effects).toEqual([{ do: "log_out" }]);
  play.taken();
  expect(play.on({ kind: "retry" }, { kind: "clock" }).effects).toEqual([]);
});

test("a newer protocol asks for a reload", () => {
  const play = new Play().on({ kind: "start" }).frames({ ...HELLO, protocol: PROTOCOL + 1 });
  expect(play.done("ask_reload")).toHaveLength(1);
});

test("frames of any shape are counted and never thrown", () => {
  fc.assert(
    fc.property(fc.array(fc.anything()), (all) => {
      const play = live();
      expect(() => play.frames(...all, { type: "later" }, { event: "X" })).not.toThrow();
      expect(play.link.unknownFrames).toBeGreaterThanOrEqual(2);
    }),
  );
});

/** A channel that loses, repeats and interrupts, in front of a server that follows the contract. */
test("whatever the channel loses, repeats or cuts, the page ends with what the server has", () => {
  const id = fc.constantFrom("a", "b", "cx");
  const verb: fc.Arbitrary<Verb> = fc.oneof(
    fc.record({ verb: fc.constant("create" as const), id, parent: fc.constant(null) }),
    fc.record({ verb: fc.constantFrom("online" as const, "silence" as const, "log" as const), id }),
    fc.record({ verb: fc.constant("answer" as const), id, text: fc.string({ maxLength: 5 }) }),
  );
  const fault = fc.constantFrom("none", "none", "none", "lose", "repeat", "cut");
  fc.assert(
    fc.property(fc.array(fc.tuple(verb, fault), { maxLength: 40 }), (all) => {
      const server = new ModelServer();
      let state: State = applySnapshot(null, server.snapshot());
      let link: Link = { ...INITIAL, phase: "live", baseline: { after: 0, epoch: "e1" } };
      let now = 0;
      const happen = (what: LinkEvent): void => {
        now += 5_000;
        const [next, effects] = step(link, what, { now, chance: 0 });
        link = next;
        for (const action of effects) perform(action);
      };
      const perform = (effect: LinkEffect): void => {
        if (effect.do === "apply") state = apply(state, effect.frame);
        else if (effect.do === "open") happen({ kind: "frame", frame: HELLO });
        else if (effect.do === "send") resume(Number(effect.frame["after"]));
        else if (effect.do === "load_snapshot") load();
      };
      const resume = (after: number): void => {
        const missed = server.journal.filter((frame) => (frame.seq ?? 0) > after);
        happen({ kind: "frame", frame: { type: "resumed", after, upto: missed.at(-1)?.seq ?? after, count: missed.length } });
        missed.forEach((frame, at) => happen({ kind: "frame", frame: { ...frame, prev: missed[at - 1]?.seq ?? after } }));
      };
      const load = (): void => {
        const snapshot = server.snapshot();
        state = applySnapshot(state, snapshot);
        happen({ kind: "snapshot", baseline: { after: snapshot.as_of, epoch: snapshot.epoch } });
      };
      for (const [verb, fault] of all) {
        const before = server.journal.length;
        server.do(verb);
        for (const frame of server.journal.slice(before)) {
          if (fault === "cut") happen({ kind: "closed", code: 1006 });
          if (fault === "none" || fault === "repeat") happen({ kind: "frame", frame });
          if (fault === "repeat") happen({ kind: "frame", frame });
        }
        if (fault === "cut") happen({ kind: "retry" });
      }
      happen({ kind: "frame", frame: { type: "ping", head_sent: server.journal.at(-1)?.seq ?? 0 } });
      const fresh = applySnapshot(null, server.snapshot());
      expect(state.last).toBe(fresh.last);
      expect([...state.workspaces.keys()].sort()).toEqual([...fresh.workspaces.keys()].sort());
      for (const [key, chat] of fresh.chats) expect(state.chats.get(key)).toMatchObject({ unread: chat.unread, last: chat.last });
    }),
  );
});
