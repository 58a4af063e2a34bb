import { expect, test, vi } from "vitest";
import { TestPage } from "../testing/testPage";
import type { TimelinePage } from "../wire";

/** A server whose responses the test releases. `asked`: the `before` parameter of each request. */
class Held {
  readonly made = new TestPage();
  readonly asked: (number | undefined)[] = [];
  private readonly answers: (() => void)[] = [];

  constructor() {
    this.made.server.do({ verb: "create", id: "a", parent: null });
    this.say(100);
    this.made.load();
    vi.spyOn(this.made.api, "timeline").mockImplementation((id, limit, before) => {
      this.asked.push(before);
      const page = pageOf(this.made.server.timeline(id), limit, before);
      return new Promise((done) => this.answers.push(() => done(page)));
    });
  }

  say(count: number): void {
    for (let turn = 0; turn < count; turn += 1) this.made.server.do({ verb: "answer", id: "a", text: `message ${turn}` });
  }

  /** Respond to the request at this position. */
  async answer(at: number): Promise<void> {
    this.answers[at]?.();
    await passed();
  }

  async newestRead(): Promise<void> {
    void this.made.session.readNewest("a");
    await this.answer(0);
  }

  seqs(): number[] {
    return (this.made.session.data.get()?.chats.get("a")?.lines ?? []).map((line) => line.seq);
  }
}

function pageOf(items: TimelinePage["items"], limit: number, before = Infinity): TimelinePage {
  const older = items.filter(({ seq }) => seq < before);
  return { items: older.slice(-limit), reached_end: older.length <= limit };
}

async function passed(): Promise<void> {
  for (let turn = 0; turn < 8; turn += 1) await Promise.resolve();
}

/** Sequence numbers of the newest `count` lines. */
function newest(held: Held, count: number): number[] {
  return held.made.server.timeline("a").slice(-count).map(({ seq }) => seq);
}

test("the newest page is asked for after a snapshot, though an older page is on its way, and no hole is hidden", async () => {
  const held = new Held();
  await held.newestRead();
  void held.made.session.readOlder("a");
  held.say(200);
  held.made.cutOff();
  void held.made.session.readNewest("a");
  expect(held.asked).toEqual([undefined, newest(held, 250)[0], undefined]);
  await held.answer(2);
  expect(held.seqs()).toEqual(newest(held, 50));
  await held.answer(1); // the lines it joined are no longer there
  await held.answer(3);
  expect(held.seqs()).toEqual(newest(held, 100));
});

test("a newest page that was asked for before a snapshot is asked for again", async () => {
  const held = new Held();
  const read = held.made.session.readNewest("a");
  held.say(1);
  held.made.cutOff();
  await held.answer(0);
  await held.answer(1);
  await read;
  expect(held.asked).toEqual([undefined, undefined]);
  expect(held.seqs()).toEqual(newest(held, 50));
});

test("who asks for the same page meanwhile gets the same answer", async () => {
  const held = new Held();
  const reads = [held.made.session.readNewest("a"), held.made.session.readNewest("a")];
  await held.answer(0);
  await Promise.all(reads);
  expect(held.asked).toHaveLength(1);
  const older = [held.made.session.readOlder("a"), held.made.session.readOlder("a")];
  await held.answer(1);
  await Promise.all(older);
  expect(held.asked).toHaveLength(2);
  expect(held.seqs()).toEqual(newest(held, 100));
});
