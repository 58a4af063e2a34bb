"""Random operations on threads, each compared with the model of them (`talks`)."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from molecule_core.common.clock import SECOND
from molecule_core.common.limits import Limits
from molecule_core.server.services import build_threads
from molecule_core.server.usage import build_usage
from molecule_core.threads.base_instructions import make_base_instructions
from molecule_core.threads.model import Mail, Thread, ThreadSettings
from molecule_core.wire.schemas import thread_log as log
from molecule_core.wire.schemas.thread_log import Author, TextInput, decode_entry
from molecule_core.wire.schemas.threads import AgentCallBody, AppendEntriesBody, EndTurnBody
from testing.budgets import no_budgets
from testing.clocks import START
from testing.engines import Engine
from testing.machines.inboxes import World, world_on
from testing.machines.thread_model import DEPTH, LEASE_SECONDS, LIFETIME, LIVE, QUEUE, Talk, Talks, Turn, Wait

STEPS_A_STORY = 30
_ALL = 1 << 61
_MOST = 8
OWNERS = ("one", "two")
ANN = Author("person", "ann", "Ann")
LIMITS = Limits(thread_queue=QUEUE, thread_live=LIVE, thread_lifetime=LIFETIME, thread_depth=DEPTH, wait_seconds=0)
"""Small ones, so that stories come by them; and no request of who waits is held: it asks again."""
NOWHERE = "none"


class ThreadStage:
    """The hands of threads on a world."""

    def __init__(self, world: World) -> None:
        self.world = world
        clock, ids = world.clock, world.ids
        usage = build_usage(world.store, clock=clock, limits=LIMITS).writer
        self.hands = build_threads(
            world.store, world.org, world.wakeups, no_budgets(LIMITS), usage, clock=clock, ids=ids, limits=LIMITS
        )


class TalkMachine(RuleBasedStateMachine):
    """A person, two engines that may die, and agents that spawn agents."""

    def __init__(self, stage: ThreadStage) -> None:
        super().__init__()
        self.world, self.hands = stage.world, stage.hands
        self.seat = self.world.org.active_workspace(self.world.seats(1)[0])
        self.model = Talks()
        self.waits: list[tuple[Talk, AgentCallBody, Wait]] = []
        self.keys: dict[tuple[str, str], tuple[Turn | None, bool]] = {}
        self.added = set[tuple[str, str]]()
        self.calls = 0

    which = st.integers(0, _MOST)
    owner = st.sampled_from(OWNERS)
    late = st.sampled_from([False, False, True])

    # -- steps ---------------------------------------------------------------------------------------------------------

    @property
    def now(self) -> int:
        """The time, as the model counts it."""
        return (self.world.clock.now() - START) // SECOND

    def does(self, work: Any) -> Any:
        """The answer, or the class of the refusal."""
        return self.world.refusal_or(work)

    def taken(self, found: Any, *, meant: bool) -> bool:
        """Whether something was done; whether it is refused is said by the model."""
        assert isinstance(found, type) != meant, (found, meant)
        return meant

    def row(self, talk: Talk) -> Thread:
        """A thread as it is kept."""
        found: Thread = self.world.run(self.hands.reader.get_thread(talk.id))
        return found

    def some(self, *, running: bool) -> list[Talk]:
        """The threads in which a turn runs, or one waits to begin."""
        return [each for each in self.model.all if (each.running is not None if running else bool(each.queue))]

    def one(self, which: int, among: list[Talk] | None = None) -> Talk:
        """One of the threads, rather one of the last."""
        found = among or self.model.all
        return found[-1 - which % len(found)]

    def call(self, **given: Any) -> AgentCallBody:
        """A call that nobody has made before."""
        self.calls += 1
        return AgentCallBody(call_id=f"call {self.calls}", **given)

    # -- people --------------------------------------------------------------------------------------------------------

    @initialize(agents=st.integers(0, 2))
    def begins(self, agents: int) -> None:
        """There is a thread, and perhaps there are agents of it."""
        self.start(says=True)
        for number in range(agents):
            self.spawn(which=number, name="ab"[number], wake="digest")

    @precondition(lambda self: len(self.model.all) < _MOST)
    @rule(says=st.booleans())
    def start(self, says: bool) -> None:
        """A thread starts, with input or without."""
        texts = [TextInput("Go")] if says else []
        base = make_base_instructions("Be kind.", "override", "given on start")
        made = self.world.run(self.hands.writer.start(self.seat, base, ThreadSettings(), by=ANN, texts=texts))
        talk = Talk(made.thread_id, None, "root", "wake")
        self.model.all.append(talk)
        if says:
            talk.accepts(Turn(None, ("Go",)), of_user=True)

    @rule(
        which=which, mode=st.sampled_from(["auto", "auto", "queue", "steer"]), key=st.sampled_from([None, None, "same"])
    )
    def say(self, which: int, mode: str, key: str | None) -> None:
        """The person says something, perhaps twice under one name."""
        talk = self.one(which)
        found = self.does(
            self.hands.writer.submit_input(self.row(talk), [TextInput("and")], by=ANN, mode=mode, key=key)
        )
        known = self.keys.get((talk.id, key or ""))
        if known is not None:
            assert known[0] is not None
            assert (found.turn_id, found.joined) == (known[0].id, known[1])
            return
        joins = mode == "steer" or (mode == "auto" and talk.listens)
        has_room = talk.listens if joins else len(talk.queue) < QUEUE
        if not self.taken(found, meant=not talk.closed and has_room):
            return
        assert found.joined == joins
        if joins:
            talk.steered("and")
        else:
            talk.accepts(Turn(None, ("and",)), of_user=True)
        if key is not None:
            self.keys[talk.id, key] = (talk.running if joins else talk.queue[-1], joins)

    @rule(which=which)
    def compact(self, which: int) -> None:
        """The person wants it summed up."""
        talk = self.one(which)
        found = self.does(self.hands.writer.compact(self.row(talk), ANN))
        if self.taken(found, meant=not talk.closed and len(talk.queue) < QUEUE):
            talk.accepts(Turn(None, sums_up=True))

    @rule(
        which=which,
        verb=st.sampled_from(["interrupt", "interrupt", "close"]),
        below=st.sampled_from(["detach", "interrupt", "close"]),
    )
    def stop(self, which: int, verb: str, below: Any) -> None:
        """The person stops or closes it, and perhaps all below it. What is closed is not closed again."""
        talk = self.one(which)
        was_closed = talk.closed and verb == "close"
        self.world.run(getattr(self.hands.writer, verb)(self.row(talk), ANN, below))
        if not was_closed:
            self.stopped(talk, verb, below)

    def stopped(self, talk: Talk, verb: str, below: Any) -> None:
        """The same in the model."""
        self.model.stops(talk, verb, below)

    @precondition(lambda self: any(each.closed for each in self.model.all))
    @rule(which=which)
    def resume(self, which: int) -> None:
        """It is taken up again."""
        talk = self.one(which, [each for each in self.model.all if each.closed])
        self.world.run(self.hands.writer.resume(self.row(talk), ANN, ThreadSettings()))
        self.model.resume(talk)

    @precondition(lambda self: len(self.roots()) < 3)
    @rule(which=which)
    def fork(self, which: int) -> None:
        """Another thread goes on from it, and has nothing to do."""
        source = self.row(self.one(which))
        work = self.hands.writer.fork(source, self.seat, ThreadSettings(), by=ANN, position=None, nickname="", key=None)
        made = self.does(work)
        if not isinstance(made, type):  # (one that has no base instructions yet cannot be gone on from)
            self.model.all.append(Talk(made.thread_id, None, "root", "wake"))

    # -- engines -------------------------------------------------------------------------------------------------------

    @rule(which=which, owner=owner)
    def claim(self, which: int, owner: str) -> None:
        """An engine, or another life of it, takes a thread."""
        self.claims(self.one(which), owner)

    def claims(self, talk: Talk, owner: str) -> None:
        """An engine takes this one, if nobody else has it."""
        found = self.does(self.hands.engine_writer.claim(self.row(talk), owner))
        if self.taken(found, meant=talk.may_be_claimed(owner, self.now)):
            talk.claimed(owner, self.now)
            assert found.generation == talk.generation

    @rule(which=which, late=late)
    def release(self, which: int, late: bool) -> None:
        """An engine lets one go."""
        talk = self.one(which)
        generation = talk.generation - late
        if self.taken(
            self.does(self.hands.engine_writer.release(self.row(talk), generation)), meant=talk.holds(generation)
        ):
            talk.owner, talk.until = None, 0

    @precondition(lambda self: self.some(running=False))
    @rule(which=which, owner=st.none() | owner, late=late, place=st.sampled_from([0, 0, 0, 1]))
    def begin(self, which: int, owner: str | None, late: bool, place: int) -> None:
        """An engine takes it, or has it; it begins the next turn, or one whose turn it is not."""
        talk = self.one(which, self.some(running=False))
        if owner is not None:
            self.claims(talk, owner)
        turn = talk.queue[min(place, len(talk.queue) - 1)]
        generation = talk.generation - late
        may = talk.holds(generation) and talk.running is None and turn is talk.queue[0]
        if self.taken(self.does(self.hands.engine_writer.begin_turn(self.row(talk), turn.id, generation)), meant=may):
            talk.begins(self.now)

    @precondition(lambda self: self.some(running=True))
    @rule(which=which, late=late)
    def begin_again(self, which: int, late: bool) -> None:
        """Another life of it goes on with the turn that runs; nothing is shown twice."""
        talk = self.one(which, self.some(running=True))
        generation = talk.generation - late
        assert talk.running is not None
        found = self.does(self.hands.engine_writer.begin_turn(self.row(talk), talk.running.id, generation))
        if self.taken(found, meant=talk.holds(generation)):
            talk.looks(self.now)

    @precondition(lambda self: self.some(running=True))
    @rule(which=which, late=late, key=st.sampled_from([None, "again"]))
    def add(self, which: int, late: bool, key: str | None) -> None:
        """It adds a line, once under one name, and is told what the user has said meanwhile."""
        talk = self.one(which, self.some(running=True))
        generation = talk.generation - late
        assert talk.running is not None
        self.adds(talk, talk.running.id, generation, key)

    @rule(which=which, late=late)
    def add_elsewhere(self, which: int, late: bool) -> None:
        """It adds to a turn that does not run: it is told so, and nothing is added."""
        talk = self.one(which)
        self.adds(talk, NOWHERE, talk.generation - late, None)

    def adds(self, talk: Talk, turn_id: str, generation: int, key: str | None) -> None:
        """A line of an engine."""
        said = AppendEntriesBody(
            generation=generation, turn_id=turn_id, entries=[log.AgentMessageEntry("well")], key=key
        )
        found = self.does(self.hands.engine_writer.append_entries(self.row(talk), said))
        if not self.taken(found, meant=talk.holds(generation)):
            return
        runs = talk.running is not None and talk.running.id == turn_id
        assert found.stop == ("closed" if talk.closed else None if runs else "interrupted")
        if runs and (talk.id, key or "") not in self.added:
            talk.log.append("well")
            self.added |= set() if key is None else {(talk.id, key)}
        news = [msgspec.json.decode(each.entry)["text"] for each in found.news if each.type == "user_message"]
        assert news == talk.hears_back(self.now)

    @precondition(lambda self: self.some(running=True))
    @rule(which=which, late=late, how=st.sampled_from(["completed", "completed", "failed", "interrupted"]))
    def end(self, which: int, late: bool, how: Any) -> None:
        """It ends the turn."""
        talk = self.one(which, self.some(running=True))
        generation = talk.generation - late
        assert talk.running is not None
        error, final = "no" if how == "failed" else None, f"done {talk.ends}" if how == "completed" else None
        said = EndTurnBody(generation=generation, status=how, error=error, final=final)
        turn = talk.running
        found = self.does(self.hands.engine_writer.end_turn(self.row(talk), turn.id, said))
        if self.taken(found, meant=talk.holds(generation)):
            self.model.end(talk, turn, how, error or final or "")
            talk.until = self.now + LEASE_SECONDS
            before = self.row(talk)
            assert self.does(self.hands.engine_writer.end_turn(before, turn.id, said)) == before, (
                "again changes nothing"
            )

    @rule(seconds=st.sampled_from([1, 59, 61]))
    def pass_time(self, seconds: int) -> None:
        """Time passes, perhaps the lease of an engine."""
        self.world.clock.at += seconds * SECOND

    # -- agents --------------------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.model.all) < _MOST)
    @rule(
        which=which, name=st.sampled_from(["a", "b", "c"]), wake=st.sampled_from(["wake", "queue", "digest", "digest"])
    )
    def spawn(self, which: int, name: str, wake: Any) -> None:
        """An agent below it."""
        talk = self.one(which)
        given = self.call(task_name=name, message="Dig.", wake=wake)
        meant = self.model.may_spawn(talk, name)
        made = self.does(self.hands.agent_writer.spawn(self.row(talk), given))
        if self.taken(made, meant=meant):
            self.model.spawn(talk, made.new_thread_id, name, wake)
            assert self.does(self.hands.agent_writer.spawn(self.row(talk), given)) == made, (
                "the same call has the same end"
            )

    @rule(which=which, other=which, verb=st.sampled_from(["send_message", "send_followup", "send_followup"]))
    def write(self, which: int, other: int, verb: str) -> None:
        """It writes to another one, perhaps so that it wakes."""
        talk, target, wakes = self.one(which), self.one(other), verb == "send_followup"
        meant = self.model.may_write(talk, target, wakes=wakes)
        work = getattr(self.hands.agent_writer, verb)(self.row(talk), self.call(target=target.id, message="More."))
        if self.taken(self.does(work), meant=meant):
            self.model.write(talk, target, wakes=wakes)

    @rule(
        which=which,
        other=which,
        verb=st.sampled_from(["interrupt", "close", "resume"]),
        below=st.sampled_from(["detach", "interrupt", "close"]),
    )
    def manage(self, which: int, other: int, verb: str, below: Any) -> None:
        """It stops one of its own, or takes it up again; nobody else's."""
        talk, target = self.one(which), self.one(other)
        given = self.call(target=target.id, descendants=below)
        work = getattr(self.hands.agent_writer, verb)(self.row(talk), given)
        if not self.taken(self.does(work), meant=target.is_below(talk)):
            return
        if verb == "resume":
            self.model.resume(target)
        else:
            self.stopped(target, verb, below)

    @precondition(lambda self: len(self.model.all) > 1)
    @rule(
        which=which,
        others=st.lists(which, min_size=1, max_size=2),
        mode=st.sampled_from(["any", "all"]),
        seconds=st.sampled_from([1, 30, 100]),
    )
    def wait(self, which: int, others: list[int], mode: Any, seconds: int) -> None:
        """It waits for others."""
        talk = self.one(which)
        targets = list(dict.fromkeys(self.one(each) for each in others))
        given = self.call(targets=[each.id for each in targets], mode=mode, timeout=seconds)
        found = self.does(self.hands.waits.wait_for_agents(self.row(talk), given))
        if self.taken(found, meant=talk not in targets):
            wait = talk.waits[given.call_id] = self.model.wait(talk, targets, mode, self.now + seconds)
            self.waits.append((talk, given, wait))
            self.looks(found, talk, wait)

    @precondition(lambda self: self.waits)
    @rule(back=st.integers(1, 3))
    def wait_again(self, back: int) -> None:
        """It asks again how its wait stands."""
        talk, given, wait = self.waits[-min(back, len(self.waits))]
        self.looks(self.does(self.hands.waits.wait_for_agents(self.row(talk), given)), talk, wait)

    def looks(self, found: Any, talk: Talk, wait: Wait) -> None:
        """What a wait is answered."""
        self.model.look(talk, wait, self.now)
        assert found.call.status == wait.status, (found.call, vars(wait), self.now)
        if wait.status != "inProgress":
            ended = {each.thread_id for each in found.call.agents if each.outcome in ("ended", "interrupted")}
            assert ended == wait.ended

    # -- what must be so -----------------------------------------------------------------------------------------------

    @invariant()
    def the_store_says_what_the_model_says(self) -> None:
        """Each stands as the model says; its letters are there once, and its log has what was said and read."""
        wish = {"workspace_id": None, "count": _ALL, "text_most": 999}
        mails = {root: self.world.rows("thread_mail_of_tree", root_id=root, **wish) for root in self.roots()}
        for talk in self.model.all:
            row = self.row(talk)
            before = [talk.running, *talk.queue] if talk.running is not None else talk.queue
            ids = [row.turn_id, *row.queued_turn_ids] if row.turn_id else row.queued_turn_ids
            assert len(before) == len(ids)
            for turn, id_ in zip(before, ids, strict=True):
                turn.id = turn.id or str(id_)
            assert stand_of(row) == meant_of(talk)
            self.check_mail(talk, [Mail.from_row(each) for each in mails[talk.root.id]])
            assert self.words(talk) == talk.log

    def roots(self) -> list[str]:
        """The trees that there are."""
        return [each.id for each in self.model.all if each.root is each]

    def check_mail(self, talk: Talk, mail: list[Mail]) -> None:
        """All letters to one thread, in order, and how each stands."""
        own = sorted((each for each in mail if each.receiver_id == talk.id), key=lambda each: each.seq)
        assert [(each.author_id, each.type, each.text, bool(each.wakes), each.state) for each in own] == [
            (each.author.id, each.sort, each.text, each.wakes, each.state) for each in talk.mail
        ]

    def words(self, talk: Talk) -> list[str]:
        """What stands in its log that its model reads or has said."""
        rows = self.world.rows("thread_entries_after", thread_id=talk.id, after=0, upto=_ALL, count=_ALL)
        said = list[str]()
        for entry in [decode_entry(each[4]) for each in rows]:
            if isinstance(entry, log.UserMessageEntry):
                said.append(f"user: {entry.text}")
            elif isinstance(entry, log.PeerMessageEntry):
                said.append(f"{entry.mail_type} of {entry.author}: {entry.text}")
            elif isinstance(entry, log.AgentMessageEntry):
                said.append(entry.text)
        return said


def stand_of(row: Thread) -> tuple[Any, ...]:
    """How a thread stands, as it is kept."""
    until = (row.owner_until - START) // SECOND if row.owner is not None else 0
    return (
        *(
            row.path,
            row.status,
            row.message,
            row.turn_id,
            row.queued_turn_ids,
            bool(row.open),
            bool(row.closed),
            row.ends,
        ),
        *(row.generation, row.owner, until, row.wait_call_ids),
    )


def meant_of(talk: Talk) -> tuple[Any, ...]:
    """How it should stand, in the order of `stand_of`."""
    running = None if talk.running is None else talk.running.id
    waits = [name for name, wait in talk.waits.items() if wait.status == "inProgress"]
    return (
        *(talk.path, talk.status, talk.message, running, [each.id for each in talk.queue]),
        *(talk.open, talk.closed, talk.ends, talk.generation, talk.owner, talk.until, waits),
    )


@contextmanager
def threads_on(engine: Engine, folder: Path, postgres: str) -> Iterator[ThreadStage]:
    """The hands of threads until the block ends."""
    with world_on(engine, folder, postgres, LIMITS) as world:
        yield ThreadStage(world)
