"""Threads against their logs: whatever is said, begun, ended, stopped, forked and spawned, a row is the fold of its
log, base instructions stay as they were written, and a model sees nothing that is not stored."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from molecule_core.common.clock import SECOND
from molecule_core.common.errors import MoleculeError
from molecule_core.common.limits import Limits
from molecule_core.server.services import build_threads
from molecule_core.server.usage import build_usage
from molecule_core.threads.base_instructions import make_base_instructions
from molecule_core.threads.fold import fold_entries
from molecule_core.threads.model import UNFOLDED_COLUMNS, LogEntryRow, Thread, ThreadSettings
from molecule_core.wire.schemas import thread_log as log
from molecule_core.wire.schemas.thread_log import Author, TextInput, decode_entry
from molecule_core.wire.schemas.threads import AgentCallBody, AppendEntriesBody, EndTurnBody
from testing.budgets import no_budgets
from testing.engines import ENGINES
from testing.engines import Engine as Kind
from testing.machines.inboxes import World, world_on
from testing.step_counts import STEPS
from tests.requirements import requirement

_STEPS_A_STORY = 30
_ALL = 1 << 61
_MOST_THREADS = 6
_FOLDED = [name for name in Thread.__struct_fields__ if name not in UNFOLDED_COLUMNS]
OWNERS = ("one", "two")
SETUPS = (
    ThreadSettings(),
    ThreadSettings(base="Be somebody else."),
    ThreadSettings(developer="Speak softly.", model="big"),
    ThreadSettings(tools=["look"]),
)
ANN = Author("person", "ann", "Ann")


class ThreadMachine(RuleBasedStateMachine):
    """A person, two engines that may die, and agents that spawn agents, in one organisation."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        limits = Limits(thread_queue=3, thread_live=4, thread_depth=2)
        usage = build_usage(world.store, clock=world.clock, limits=limits).writer
        self.hands = build_threads(
            world.store,
            world.org,
            world.wakeups,
            no_budgets(limits),
            usage,
            clock=world.clock,
            ids=world.ids,
            limits=limits,
        )
        self.seat = world.org.active_workspace(world.seats(1)[0])
        self.threads: list[str] = []
        self.held: dict[tuple[str, str], int] = {}
        self.bases: dict[tuple[str, int], str] = {}
        self.calls = 0

    which = st.integers(0, _MOST_THREADS)
    owner = st.sampled_from(OWNERS)

    # -- steps ---------------------------------------------------------------------------------------------------------

    def row(self, thread_id: str) -> Thread:
        """A thread as it is kept."""
        found: Thread = self.world.run(self.hands.reader.get_thread(thread_id))
        return found

    def one(self, which: int) -> Thread:
        """One of the threads."""
        return self.row(self.threads[which % len(self.threads)])

    def tries(self, work: Any, thread: Thread) -> Any:
        """The answer; what is refused has changed nothing."""
        found = self.world.refusal_or(work)
        if isinstance(found, type) and issubclass(found, MoleculeError):
            assert self.row(thread.thread_id) == thread
            return None
        return found

    def knows(self, thread: Thread | None) -> None:
        """A thread is there from now on."""
        if thread is not None and thread.thread_id not in self.threads:
            self.threads.append(thread.thread_id)

    def call(self, **given: Any) -> AgentCallBody:
        """A call that nobody has made before."""
        self.calls += 1
        return AgentCallBody(call_id=f"call {self.calls}", **given)

    # -- people --------------------------------------------------------------------------------------------------------

    @initialize()
    def begins(self) -> None:
        """There is a thread."""
        self.start("Be kind.", "Go")

    @precondition(lambda self: len(self.threads) < _MOST_THREADS)
    @rule(base=st.sampled_from(["Be kind.", "Be quick."]), said=st.sampled_from(["", "Go"]))
    def start(self, base: str, said: str) -> None:
        """A thread starts, with input or without."""
        texts = [TextInput(said)] if said else []
        born = make_base_instructions(base, "override", "given on start")
        self.knows(self.world.run(self.hands.writer.start(self.seat, born, ThreadSettings(), by=ANN, texts=texts)))

    @rule(which=which, mode=st.sampled_from(["auto", "queue", "steer"]), key=st.sampled_from([None, "same"]))
    def say(self, which: int, mode: str, key: str | None) -> None:
        """The person says something."""
        thread = self.one(which)
        work = self.hands.writer.submit_input(thread, [TextInput("and this")], by=ANN, mode=mode, key=key)
        self.tries(work, thread)

    @rule(
        which=which,
        verb=st.sampled_from(["interrupt", "close"]),
        below=st.sampled_from(["detach", "interrupt", "close"]),
    )
    def stop(self, which: int, verb: str, below: Any) -> None:
        """The person stops or closes it, and perhaps all below it."""
        thread = self.one(which)
        self.tries(getattr(self.hands.writer, verb)(thread, ANN, below), thread)

    @rule(which=which)
    def compact(self, which: int) -> None:
        """The person wants it summed up."""
        thread = self.one(which)
        self.tries(self.hands.writer.compact(thread, ANN), thread)

    @rule(which=which, setup=st.sampled_from(SETUPS))
    def resume(self, which: int, setup: ThreadSettings) -> None:
        """It is taken up again, perhaps otherwise."""
        thread = self.one(which)
        self.tries(self.hands.writer.resume(thread, ANN, setup), thread)

    @precondition(lambda self: len(self.threads) < _MOST_THREADS)
    @rule(which=which, setup=st.sampled_from(SETUPS), part=st.sampled_from([None, 0.5, 0.8, 1.0]))
    def fork(self, which: int, setup: ThreadSettings, part: float | None) -> None:
        """Another thread goes on from it: from its end, or from earlier."""
        thread = self.one(which)
        position = None if part is None else max(1, int(thread.last_ordinal * part))
        work = self.hands.writer.fork(thread, self.seat, setup, by=ANN, position=position, nickname="", key=None)
        self.knows(self.tries(work, thread))

    # -- engines -------------------------------------------------------------------------------------------------------

    @rule(which=which, owner=owner)
    def claim(self, which: int, owner: str) -> None:
        """An engine, or another life of it, takes a thread."""
        thread = self.one(which)
        taken = self.tries(self.hands.engine_writer.claim(thread, owner), thread)
        if taken is not None:
            self.held[thread.thread_id, owner] = taken.generation

    @rule(which=which, owner=owner)
    def begin(self, which: int, owner: str) -> None:
        """It begins the next turn, or the one that runs once more."""
        thread = self.one(which)
        turn = thread.turn_id or next(iter(thread.queued_turn_ids), "none")
        self.tries(self.hands.engine_writer.begin_turn(thread, turn, self.generation(thread, owner)), thread)

    @rule(
        which=which,
        owner=owner,
        entry=st.sampled_from(
            [
                log.AgentMessageEntry("well"),
                log.ReasoningEntry("hm"),
                log.ToolCallEntry("c1", "look", {"at": 1}),
                log.ToolCallEntry("c2", "look", {"at": 2}),
                log.ToolOutputEntry("c1", "seen"),
                log.ContextNoteEntry("peers changed: Ops", "peers"),
                log.CompactionEntry("so far so good", 3, "automatic"),
                log.UsageEntry("r1", 3, 1),
                log.UsageEntry("r2", 5, 2),
                log.StatusEntry(["waiting_on_approval"]),
                log.StatusEntry([]),
            ]
        ),
        key=st.sampled_from([None, "again"]),
    )
    def add(self, which: int, owner: str, entry: Any, key: str | None) -> None:
        """It adds a line."""
        thread = self.one(which)
        said = AppendEntriesBody(
            generation=self.generation(thread, owner), turn_id=thread.turn_id or "none", entries=[entry], key=key
        )
        self.tries(self.hands.engine_writer.append_entries(thread, said), thread)

    @rule(which=which, owner=owner, status=st.sampled_from(["completed", "failed", "interrupted"]), seen=st.booleans())
    def end(self, which: int, owner: str, status: Any, seen: bool) -> None:
        """It ends the turn."""
        thread = self.one(which)
        said = EndTurnBody(
            generation=self.generation(thread, owner),
            status=status,
            error="no" if status == "failed" else None,
            final="done" if status == "completed" else None,
            seen=thread.last_ordinal if seen else 1,
        )
        self.tries(self.hands.engine_writer.end_turn(thread, thread.turn_id or "none", said), thread)

    def generation(self, thread: Thread, owner: str) -> int:
        """What an engine shows; none of the thread's, if it holds none."""
        return self.held.get((thread.thread_id, owner), 99)

    @rule(seconds=st.sampled_from([1, 61]))
    def time(self, seconds: int) -> None:
        """Time passes, perhaps the lease of an engine."""
        self.world.clock.at += seconds * SECOND

    # -- agents --------------------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.threads) < _MOST_THREADS)
    @rule(
        which=which,
        turns=st.sampled_from(["none", "all", 1]),
        wake=st.sampled_from(["wake", "queue", "digest"]),
        base=st.sampled_from([None, "Dig."]),
    )
    def spawn(self, which: int, turns: Any, wake: Any, base: str | None) -> None:
        """An agent below it."""
        given = self.call(
            task_name=f"t{self.calls}", message="Dig.", fork_turns=turns, wake=wake, base_instructions=base
        )
        made = self.world.refusal_or(self.hands.agent_writer.spawn(self.one(which), given))
        if isinstance(made, log.CollabCallEntry) and made.new_thread_id is not None:
            self.knows(self.row(made.new_thread_id))

    @rule(
        which=which,
        other=which,
        verb=st.sampled_from(["send_message", "send_followup", "interrupt", "close", "resume"]),
    )
    def deal(self, which: int, other: int, verb: str) -> None:
        """It writes to another one, or stops it. A refused call is in its log too."""
        target = self.threads[other % len(self.threads)]
        given = self.call(target=target, message="More." if verb in ("send_message", "send_followup") else None)
        self.world.refusal_or(getattr(self.hands.agent_writer, verb)(self.one(which), given))

    # -- what always holds ---------------------------------------------------------------------------------------------

    @invariant()
    def a_row_is_the_fold_of_its_log(self) -> None:
        """Whatever an engine may rely on is made of the lines, which are numbered without a gap."""
        for name in self.threads:
            row, lines = self.row(name), self.lines(name, _ALL)
            assert [each.ordinal for each in lines] == list(range(1, len(lines) + 1))
            again = fold_entries((decode_entry(each.body), each.at) for each in lines)
            assert {each: getattr(again, each) for each in _FOLDED} == {each: getattr(row, each) for each in _FOLDED}

    @invariant()
    def every_call_has_a_begin_and_an_end(self) -> None:
        """Refused ones too; and nothing is told twice."""
        for name in self.threads:
            calls: dict[str, list[str]] = {}
            for line in self.lines(name, _ALL):
                entry = decode_entry(line.body)
                if isinstance(entry, log.CollabCallEntry):
                    calls.setdefault(entry.call_id, []).append(entry.status)
            assert all(
                each[0] == "inProgress" and len(each) == 2 and each[1] != "inProgress" for each in calls.values()
            )

    @invariant()
    def base_instructions_stay(self) -> None:
        """A version once written is never another one, and the sight begins with the one in force."""
        for name in self.threads:
            row = self.row(name)
            for version in range(1, row.base_version + 1 if row.base_thread == name else 1):
                found = self.world.rows("thread_base", thread_id=name, version=version)[0][0]
                assert self.bases.setdefault((name, version), found) == found
            first = self.world.run(self.hands.reader.build_model_context(row)).items[0]
            assert (first.item_id, first.text) == (row.base_item, self.bases[row.base_thread, row.base_version])

    @invariant()
    def a_model_sees_what_is_stored_and_the_same_each_time(self) -> None:
        """Every item of a sight is a base, a layer, or a line of the thread or of one that it goes on from."""
        for name in self.threads:
            row = self.row(name)
            seen = self.world.run(self.hands.reader.build_model_context(row))
            assert seen == self.world.run(self.hands.reader.build_model_context(row))
            assert len({each.item_id for each in seen.items}) == len(seen.items)
            stored = {f"{line.thread_id}.{line.ordinal}": line for line in self.reach(row)}
            for each in seen.items[1:]:
                assert each.item_id in stored, each
                said = msgspec.json.decode(stored[each.item_id].body)
                assert any(text and text in (each.text or "") for text in texts_of(said)) or each.tool, each
            if row.turn_id is None:
                calls = [each.call_id for each in seen.items if each.type == "tool_call"]
                answers = [each.call_id for each in seen.items if each.type == "tool_output"]
                assert not Counter(calls) - Counter(answers), "a provider takes no call without its output"

    @invariant()
    def turns_are_where_the_rows_say(self) -> None:
        """What is accepted or running in the table of turns is what the threads have before them."""
        for name in self.threads:
            row = self.row(name)
            before = [row.turn_id, *row.queued_turn_ids] if row.turn_id else row.queued_turn_ids
            for turn in before:
                assert self.world.rows("thread_turn", turn_id=turn)[0][2] not in ("completed", "failed", "interrupted")
            assert row.open == bool(before) and not (row.closed and before)

    def lines(self, thread_id: str, upto: int) -> list[LogEntryRow]:
        """The lines of a log."""
        rows = self.world.rows("thread_entries_after", thread_id=thread_id, after=0, upto=upto, count=_ALL)
        return [LogEntryRow(*each) for each in rows]

    def reach(self, row: Thread) -> list[LogEntryRow]:
        """The lines that a thread may see: its own, and up to the cut those of whom it goes on from."""
        found = self.lines(row.thread_id, _ALL)
        while row.fork_id is not None:
            found += [each for each in self.lines(row.fork_id, row.fork_at) if each.ordinal > row.fork_since]
            if row.fork_since:
                break
            row = self.row(row.fork_id)
        return found


def texts_of(said: Any) -> Iterable[str]:
    """All texts of a line."""
    if isinstance(said, str):
        yield said
    elif isinstance(said, dict | list):
        for each in said.values() if isinstance(said, dict) else said:
            yield from texts_of(each)


@requirement("TH1", "TH2", "TH4", "P2")
@pytest.mark.parametrize("engine", ENGINES)
def test_threads_are_what_their_logs_say(engine: Kind, tmp_path: Path, postgres: str) -> None:
    with world_on(engine, tmp_path, postgres) as world:
        choices = settings(
            max_examples=max(1, STEPS // _STEPS_A_STORY), stateful_step_count=_STEPS_A_STORY, deadline=None
        )
        played = list[ThreadMachine]()

        def machine() -> ThreadMachine:
            played.append(ThreadMachine(world))
            return played[-1]

        run_state_machine_as_test(cast(Any, machine), settings=choices)
        assert max(len(each.threads) for each in played) > 1
