// @vitest-environment node
import fc from "fast-check";
import { expect, test } from "vitest";
import { applyAll } from "./apply";
import { withPage } from "./lines";
import type { Chat, State } from "./model";
import { applySnapshot } from "./snapshot";
import { ModelServer } from "../testing/modelServer";

/** Page size, smaller than that of the session. */
const PAGE = 10;

/** One agent's chat, on the server and on a page with interruptions. */
class Talk {
  readonly server = new ModelServer();
  state: State;

  constructor() {
    this.server.do({ verb: "create", id: "a", parent: null });
    this.state = applySnapshot(null, this.server.snapshot());
  }

  get chat(): Chat | undefined {
    return this.state.chats.get("a");
  }

  /** The agent sends this many messages. */
  say(count: number): this {
    for (let each = 0; each < count; each += 1) this.server.do({ verb: "answer", id: "a", text: `line ${this.server.history("a").length}` });
    return this;
  }

  /** Deliver the pending events. */
  hear(): this {
    this.state = applyAll(this.state, this.server.journal);
    return this;
  }

  /** The interruption was too long to resume. */
  readAnew(): this {
    this.state = applySnapshot(this.state, this.server.snapshot());
    return this;
  }

  open(): this {
    return this.take(undefined, true);
  }

  older(): this {
    const first = this.chat?.lines[0];
    return first === undefined ? this : this.take(first.seq, false);
  }

  private take(before: number | undefined, isNewest: boolean): this {
    const all = this.server.timeline("a").filter((item) => before === undefined || item.seq < before);
    const page = { items: all.slice(-PAGE), reachedEnd: all.length <= PAGE, isNewest, since: this.state.last };
    this.state = { ...this.state, chats: new Map(this.state.chats).set("a", withPage(this.chat, page)) };
    return this;
  }

  /** The page must show the end of the known chat without a gap. */
  expectNoHole(): void {
    const { chat } = this;
    if (!chat?.loaded) return;
    const heard = this.server.timeline("a").filter((item) => item.seq <= (chat.last?.seq ?? 0)).map((item) => item.seq);
    expect(chat.lines.map((line) => line.seq)).toEqual(heard.slice(heard.length - chat.lines.length));
    if (chat.reachedEnd) expect(chat.lines).toHaveLength(heard.length);
  }
}

test("what was said behind a hole does not hide it: the newest page takes the place of what lies before", () => {
  const talk = new Talk().say(5).hear().open();
  talk.say(200).readAnew().say(1).hear().open();
  expect(talk.chat?.lines).toHaveLength(PAGE);
  expect(talk.chat).toMatchObject({ loaded: true, reachedEnd: false });
  talk.expectNoHole();
});

test("where the newest page meets what was there, all of it stays", () => {
  const talk = new Talk().say(5).hear().open();
  talk.say(3).readAnew().say(1).hear().open();
  expect(talk.chat).toMatchObject({ loaded: true, reachedEnd: true });
  expect(talk.chat?.lines).toHaveLength(9);
});

test("a chat of which the beginning was let go does not say that it begins there", () => {
  const talk = new Talk().say(5).hear().open().say(60).hear().readAnew().say(1).hear().open();
  talk.expectNoHole();
  expect(talk.chat?.reachedEnd).toBe(false);
});

test("an empty chat that went on unseen does not say that it begins with what came later", () => {
  const talk = new Talk().open().say(1).readAnew().say(PAGE + 1).hear().open();
  talk.expectNoHole();
  expect(talk.older().chat).toMatchObject({ reachedEnd: true });
  expect(talk.chat?.lines).toHaveLength(PAGE + 2);
});

test("what events told of lines behind a hole stays told, whatever an older page says of them", () => {
  const talk = new Talk().say(5).hear().open().say(50).readAnew();
  talk.server.do({ verb: "ask", id: "a", text: "are you there?" });
  talk.hear();
  const early = { items: talk.server.timeline("a").slice(-PAGE), reachedEnd: false, isNewest: true, since: talk.state.last };
  talk.server.do({ verb: "hand_over", id: "a", count: 1 });
  talk.hear();
  expect(withPage(talk.chat, early).lines.at(-1)).toMatchObject({ text: "are you there?", delivery: "handed_over" });
});

const steps = fc.array(
  fc.oneof(
    fc.record({ act: fc.constant("say" as const), count: fc.integer({ min: 1, max: 30 }) }),
    fc.record({ act: fc.constantFrom("hear" as const, "readAnew" as const, "open" as const, "older" as const) }),
  ),
  { maxLength: 30 },
);

test("whatever is cut off, read anew, said and opened: an opened chat has no hole, and begins where it says so", () => {
  fc.assert(
    fc.property(steps, (all) => {
      const talk = new Talk();
      for (const step of all) {
        if (step.act === "say") talk.say(step.count);
        else if (step.act === "readAnew") talk.readAnew();
        else talk.hear()[step.act]();
        talk.expectNoHole();
      }
    }),
    { numRuns: 400 },
  );
});

test("a message that a snapshot counted already is not counted again by its event", () => {
  const talk = new Talk().say(2);
  const snapshot = talk.server.snapshot();
  talk.state = applySnapshot(null, { ...snapshot, as_of: snapshot.as_of - 1 });
  talk.hear();
  expect(talk.chat).toMatchObject({ unread: 2 });
  expect(talk.say(1).hear().chat).toMatchObject({ unread: 3 });
});
