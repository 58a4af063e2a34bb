"""Random operations on inboxes, each compared with a model of a few lines (`inboxes`)."""

import asyncio
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from msgspec.structs import replace

from molecule_core.common.clock import SECOND
from molecule_core.common.errors import (
    AttemptRequired,
    InboxFull,
    InvalidField,
    MessageIdReused,
    MoleculeError,
    NotADeadLetter,
    NotFound,
    StaleAttempt,
)
from molecule_core.common.ids import IdGenerator
from molecule_core.common.limits import Limits
from molecule_core.messages.delegation_messages import DelegationMessages
from molecule_core.messages.delivery.dead_letters import DeadLetterWriter
from molecule_core.messages.delivery.reply_waiters import ReplyWaiters
from molecule_core.messages.inbox import acks as settling_module
from molecule_core.messages.inbox.claims import InboxClaims
from molecule_core.messages.model import (
    ActivityFilters,
    AgentLogEntry,
    MessageDraft,
    MessageReceipt,
    Sender,
    UserNotice,
)
from molecule_core.messages.obligations.ledger import ObligationLedger
from molecule_core.messages.reader import MessageReader
from molecule_core.messages.writer import MessageWriter
from molecule_core.org.model import Org
from molecule_core.org.reader import OrgReader
from molecule_core.org.registry import OrgRegistry
from molecule_core.store.wakeups import Notifier
from molecule_core.wire.schemas.activity import ActivityType
from testing.budgets import no_budgets
from testing.clocks import FakeClock, SeededRandomness
from testing.engines import Engine, open_store, place_for
from testing.machines.inbox_model import Message, Model
from testing.org_trees import seat
from testing.waits import IN_PROCESS_SECONDS

LIMIT = 4
_STEPS_A_STORY = 30


class World:
    """A store with a message writer, for all stories of a test; each story has an organisation of its own."""

    def __init__(self, runner: asyncio.Runner, engine: Engine, folder: Path, postgres: str, limits: Limits) -> None:
        self.runner = runner
        self.stories = 0
        self.clock = FakeClock()
        self.ids = IdGenerator(self.clock, SeededRandomness(4))
        self.registry = OrgRegistry()
        self.wakeups = Notifier(self.clock)
        place = self.run(place_for(engine, folder, postgres))
        self.store = cast(Any, open_store(engine, place, clock=self.clock, limits=limits))
        self.store._notify = self.wakeups.notify
        self.org = org = OrgReader(self.registry)
        self.writer = MessageWriter(self.store, org, clock=self.clock, ids=self.ids, limits=limits)
        self.reader = MessageReader(self.store, org, self.wakeups, limits=limits, public_url="")
        owing = ObligationLedger(self.clock, limits)
        results = DelegationMessages(owing, clock=self.clock, ids=self.ids)
        askers = ReplyWaiters(self.store, org, self.wakeups, results, clock=self.clock, ids=self.ids, limits=limits)
        self.letters = DeadLetterWriter(self.store, org, askers, clock=self.clock)
        free = no_budgets(limits)
        self.handing = InboxClaims(
            self.store, org, self.wakeups, self.reader, owing, free, clock=self.clock, limits=limits
        )
        self.run(self.store.open())

    def run(self, work: Awaitable[Any]) -> Any:
        """Does something on the loop, bounded."""

        async def bounded() -> Any:
            async with asyncio.timeout(IN_PROCESS_SECONDS):
                return await work

        return self.runner.run(bounded())

    def seats(self, count: int) -> list[str]:
        """New workspaces that may all talk to each other."""
        self.stories += 1
        org_id = self.ids.new()
        self.registry.put_org(Org(org_id, org_id, False, 0))
        ids = [self.ids.new() for _ in range(count)]
        self.registry.put_workspaces(seat(id_, org_id) for id_ in ids)
        return ids

    def refusal_or(self, work: Awaitable[Any]) -> Any:
        """The answer, or the class of the refusal."""
        try:
            return self.run(work)
        except MoleculeError as error:
            return type(error)

    async def send(self, workspace_id: str, draft: MessageDraft) -> MessageReceipt:
        """`MessageWriter.send`, called on the loop."""
        return await self.writer.send(workspace_id, draft)

    def rows(self, name: str, **params: Any) -> list[tuple[Any, ...]]:
        """The rows of a named query."""
        return [tuple(row) for row in self.run(self.store.rows(name, params))]


@contextmanager
def world_on(engine: Engine, folder: Path, postgres: str, limits: Limits | None = None) -> Iterator[World]:
    """A world until the block ends. The floor of an inbox moves in steps of two rows, so that it needs several."""
    with asyncio.Runner() as runner, pytest.MonkeyPatch.context() as patch:
        patch.setattr(settling_module, "_FLOOR_BATCH", 2)
        world = World(runner, engine, folder, postgres, limits or Limits(inbox_unhandled=LIMIT))
        try:
            yield world
        finally:
            world.run(world.store.close())


def draft_of(
    sender: str | None, text: str, message_id: str | None, *, person: str = "p", life: int | None = None
) -> MessageDraft:
    """A message of a workspace, or of a person."""
    who = Sender(f"person:{person}", None, person, "Ada")
    if sender is not None:
        who = Sender(f"workspace:{sender}", sender, None, None)
    message = {"role": "user", "parts": [{"kind": "text", "text": text}], "metadata": {}}
    params = {"metadata": {}} if life is None else {"metadata": {}, "expires_in_seconds": life}
    return MessageDraft(who, params, message, 1, text, "request", message_id, None)


# -- the machine -----------------------------------------------------------------------------------------------------


class InboxMachine(RuleBasedStateMachine):
    """Two inboxes of one organisation; their seats also write to each other."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.boxes = [Model(id_) for id_ in world.seats(2)]
        self.sent: dict[tuple[str | None, str], tuple[int, str, MessageReceipt]] = {}
        self.floors = [0, 0]

    which = st.integers(0, 1)
    words = st.sampled_from(["hi", "ho"])

    @rule(
        which=which,
        own=st.booleans(),
        text=words,
        id_=st.sampled_from([None, None, "m1", "m2", "m3"]),
        life=st.sampled_from([None, None, 3]),
    )
    def send(self, which: int, own: bool, text: str, id_: str | None, life: int | None = None) -> None:
        """A person or the other seat writes; an id may have been used before, and it may matter for a while only."""
        box, sender = self.boxes[which], self.boxes[1 - which].id if own else None
        # One person a story. It wants no answer, so that nothing of a seat acknowledges it but the rules below.
        draft = replace(draft_of(sender, text, id_, person=self.boxes[0].id, life=life), intent="inform")
        draft.message["metadata"]["intent"] = "inform"
        found = self.world.refusal_or(self.world.send(box.id, draft))
        before = self.sent.get((sender, id_)) if id_ is not None else None
        if before is not None:
            assert found == (before[2] if before[:2] == (which, text) else MessageIdReused)
        elif len(box.open(box.head)) >= LIMIT:
            assert found is InboxFull
        else:
            assert isinstance(found, MessageReceipt)
            box.head += 1
            box.inbox.append(Message(box.head, found.activity_id, sender))
            box.inbox[-1].dies_at = None if life is None else self.world.clock.now() + life * SECOND
            if id_ is not None:
                self.sent[sender, id_] = (which, text, found)

    @rule(which=which, id_=st.sampled_from([None, "n1"]), text=words)
    def notify(self, which: int, id_: str | None, text: str) -> None:
        """The agent writes to its user: a row of its log, no mail of its own."""
        box = self.boxes[which]
        found = self.world.refusal_or(
            self.world.writer.notify_user(box.id, UserNotice([{"kind": "text", "text": text}], id_))
        )
        before = self.sent.get((box.id, id_)) if id_ is not None else None
        if before is not None:
            assert found == (before[2] if before[1] == text else MessageIdReused)
            return
        box.head += 1
        box.own = found.activity_id
        if id_ is not None:
            self.sent[box.id, id_] = (which, text, found)

    @rule(which=which)
    def log(self, which: int) -> None:
        """The agent reports on itself."""
        box = self.boxes[which]
        box.own = self.world.run(self.world.writer.log_activity(box.id, AgentLogEntry(activity_type="agent_log")))
        box.head += 1

    @rule(which=which, lease=st.sampled_from([5, 60]), count=st.integers(1, 3))
    def claim(self, which: int, lease: int, count: int) -> None:
        """The agent takes its mail."""
        box, world = self.boxes[which], self.world
        rows = world.run(world.handing.claim(box.id, lease_seconds=lease, count=count))
        expected = box.claim(world.clock.now(), lease * SECOND, count)
        assert [(row.id, row.attempt) for row in rows] == expected

    @rule(which=which, text=words, choice=st.integers(0, 6), older=st.sampled_from([0, 1, None]))
    def let_a_lease_end(self, which: int, text: str, choice: int, older: int | None) -> None:
        """The agent takes all its mail, is silent for too long, takes it again, and remembers one of them."""
        self.send(which, False, text, None)
        for _ in range(2):
            self.claim(which, 5, LIMIT)
            self.wait(6)
        self.ack_one(which, choice, older)

    @rule(which=which, choice=st.integers(0, 8))
    def expire(self, which: int, choice: int) -> None:
        """The timer of a message rings, perhaps too early or too late."""
        box, now = self.boxes[which], self.world.clock.now()
        mortal = [each for each in box.inbox if each.dies_at is not None]
        if not mortal:
            return
        message = mortal[choice % len(mortal)]
        is_asked = self._is_asked(box, message)
        self.world.run(self.world.letters.expire_message(message.id))
        if not message.handled and max(message.dies_at or 0, message.lease_until) <= now:
            message.letter = "dead"
            box.handle([message])
            if is_asked:
                self._is_told(1 - which, box.id)

    def _is_asked(self, box: Model, message: Message) -> bool:
        """Whether the other seat wants an answer to it that nobody has given."""
        place = {"workspace_id": box.id, "seq": message.seq}
        intent, owed = self.world.rows("inbox_message", **place)[0][7], self.world.rows("obligation", **place)
        is_open = not owed or owed[0][5] == "open"
        return message.source is not None and intent == "request" and is_open

    def _is_told(self, which: int, source: str) -> None:
        """The server writes to a seat, however full its inbox is."""
        box = self.boxes[which]
        (row,) = self.world.run(
            self.world.reader.list_after(box.id, box.head, ActivityFilters(activity_type=ActivityType.RECEIVE), 2)
        )
        box.head += 1
        assert (row.seq, row.kind, row.source_id) == (box.head, "system", source)
        box.inbox.append(Message(row.seq, row.id, source))

    @rule(which=which, choice=st.integers(0, 8), discard=st.booleans())
    def bring_back_or_discard(self, which: int, choice: int, discard: bool) -> None:
        """A person asks for a message again, or is done with it; it may be no dead letter."""
        box, letters = self.boxes[which], self.world.letters
        if not box.inbox:
            return
        candidates = [each for each in box.inbox if each.letter] or box.inbox
        message = candidates[choice % len(candidates)]
        ask, wanted = (letters.discard, "discarded") if discard else (letters.requeue, "requeued")
        found = self.world.refusal_or(ask(box.id, message.id))
        if message.letter in ("dead", wanted):
            assert found is None
            if message.letter == "dead":
                message.letter, message.lease_until = wanted, 0
        else:
            assert found is (NotADeadLetter if message.letter else NotFound)

    @rule(which=which, text=words)
    def a_letter_waits_again_and_is_taken(self, which: int, text: str) -> None:
        """One dies, others come and are handled, and the dead one is asked for."""
        self.send(which, False, text, None, 3)
        self.send(which, False, text, None)
        self.wait(6)
        for choice in range(3):
            self.expire(which, choice)
        self.bring_back_or_discard(which, 0, False)
        self.claim(which, 5, 3)

    @rule(seconds=st.sampled_from([1, 4, 6, 61]))
    def wait(self, seconds: int) -> None:
        """Leases end."""
        self.world.run(self.world.clock.advance(seconds))

    @rule(which=which, choice=st.integers(0, 6), older=st.sampled_from([0, 0, 1, 2, None]))
    def ack_one(self, which: int, choice: int, older: int | None) -> None:
        """One message is handled, for the current attempt, an older one, or without naming any."""
        box = self.boxes[which]
        candidates = [
            *box.waiting(),
            *box.open(box.head),
            *(each for each in reversed(box.inbox) if each.handled and each.letter != "requeued"),
        ]
        if not candidates:
            return
        message = candidates[choice % len(candidates)]
        attempt = None if older is None else message.attempt - older
        found = self.world.refusal_or(self.world.handing.acks.ack_message(box.id, message.id, attempt))
        if message.handled and message.letter != "requeued":
            assert found == box.floor
        elif message.attempt and attempt is None:
            assert found is AttemptRequired
        elif message.attempt and attempt is not None and attempt < message.attempt:
            assert found is StaleAttempt
        elif attempt is not None and attempt > max(message.attempt, 1):
            assert found is InvalidField
        elif message.letter == "requeued":
            message.letter = "handled"
            assert found == box.floor
        else:
            assert found == box.handle([message])

    @rule(which=which, seq=st.integers(0, 14), attempt=st.sampled_from([None, 1, 2]))
    def ack_upto(self, which: int, seq: int, attempt: int | None) -> None:
        """All up to a number is handled; the number may be behind the floor, or beyond all that ever came."""
        box = self.boxes[which]
        found = self.world.refusal_or(self.world.handing.acks.ack_up_to(box.id, seq, attempt))
        seq = min(seq, box.head)
        if seq <= box.floor:
            assert found == box.floor
            box.settle_waiting(seq, attempt)
        elif attempt is not None and any(each.attempt > attempt for each in box.open(seq)):
            assert found is StaleAttempt
        else:
            box.settle_waiting(seq, attempt)
            assert found == box.handle([], upto=seq)

    @rule(which=which, choice=st.integers(0, 20), source=st.sampled_from([None, "canvas", "agent"]))
    def ack_cursor(self, which: int, choice: int, source: str | None) -> None:
        """An old client's cursor: all that matches its filter, up to a row of its log."""
        box = self.boxes[which]
        if not box.head:
            return
        seq = 1 + choice % box.head
        found = self.world.run(self.world.handing.acks.ack_cursor(box.id, seq, ActivityFilters(source=source)))
        if source is None:
            if seq > box.floor:
                box.settle_waiting(seq, None)
            assert found == (box.floor if seq <= box.floor else box.handle([], upto=seq))
        else:
            matching = [each for each in box.open(seq) if (each.source is None) == (source == "canvas")]
            assert found == box.handle(matching)

    @rule(which=which)
    def ack_what_is_not_ones_own(self, which: int) -> None:
        """Mail of the other inbox, a row of one's own log that is no mail, and what never was."""
        box, other = self.boxes[which], self.boxes[1 - which]
        for id_ in [box.own, "nonsense", *(each.id for each in other.inbox[-1:])]:
            assert self.world.refusal_or(self.world.handing.acks.ack_message(box.id, id_, 1)) is NotFound

    @invariant()
    def the_store_says_what_the_model_says(self) -> None:
        """Numbers without gaps, the floor, and the count of what is handled."""
        for which, box in enumerate(self.boxes):
            read = self.world.run(
                self.world.reader.list_after(box.id, 0, ActivityFilters(activity_type=ActivityType.RECEIVE), 10_000)
            )
            assert [(row.seq, row.id) for row in read] == [(each.seq, each.id) for each in box.inbox]
            read = self.world.run(
                self.world.reader.list_after(box.id, box.floor, ActivityFilters(activity_type=ActivityType.RECEIVE), 2)
            )
            assert [row.seq for row in read] == [each.seq for each in box.inbox if each.seq > box.floor][:2]
            assert self.world.rows("last_seq", key=box.id) == [(box.head or None,)]
            assert self.world.rows("last_inbound", key=box.id) == ([(len(box.inbox),)] if box.inbox else [])
            below = sum(each.seq <= box.floor for each in box.inbox)
            above = sum(each.handled for each in box.inbox) - below
            state = self.world.rows("inbox_state", workspace_id=box.id) or [(0, 0, 0, 0, 0)]
            gone = sum(each.letter in ("dead", "discarded") for each in box.inbox)
            assert state == [(box.floor, below, above, len(box.waiting()), gone)]
            held = self.world.rows("claims_upto", workspace_id=box.id, seq=box.floor)
            assert [row[0] for row in held] == [each.seq for each in box.waiting() if each.seq <= box.floor]
            assert box.floor >= self.floors[which]
            self.floors[which] = box.floor


def _play(world: World, steps: int, **more: Any) -> None:
    choices = settings(
        max_examples=max(1, steps // _STEPS_A_STORY), stateful_step_count=_STEPS_A_STORY, deadline=None, **more
    )
    machine: Any = lambda: InboxMachine(world)  # noqa: E731 (Hypothesis wants a function or a class of no arguments)
    run_state_machine_as_test(machine, settings=choices)


def check_stories(world: World, steps: int, **more: Any) -> None:
    """Play stories of so many steps in all; the machine asserts."""
    before = world.stories
    _play(world, steps, **more)
    assert world.stories >= before + max(1, steps // _STEPS_A_STORY)
