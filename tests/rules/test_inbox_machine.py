"""An inbox against a model of a few lines: whatever is sent, claimed, acked and waited for, in whatever order."""

import asyncio
from collections.abc import Awaitable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

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
from molecule_core.messages import rules
from molecule_core.messages.delegation_messages import DelegationMessages
from molecule_core.messages.delivery.dead_letters import DeadLetterWriter
from molecule_core.messages.delivery.reply_waiters import ReplyWaiters
from molecule_core.messages.inbox import acks as settling_module
from molecule_core.messages.inbox.claims import InboxClaims
from molecule_core.messages.model import (
    TYPE_RECEIVE,
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
from molecule_core.store.queries import Query
from molecule_core.store.wakeups import Notifier
from tests.clocks import FakeClock, SeededRandomness
from tests.engines import ENGINES, Engine, open_store, place_for
from tests.requirements import requirement
from tests.rules.effort import STEPS
from tests.rules.forests import seat
from tests.rules.inboxes import Message, Model
from tests.waits import IN_PROCESS_SECONDS

LIMIT = 4
_STEPS_A_STORY = 30


class World:
    """A store with a message writer, for all stories of a test; each story has an organisation of its own."""

    def __init__(self, runner: asyncio.Runner, engine: Engine, folder: Path, postgres: str, limits: Limits) -> None:
        self.runner = runner
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
        self.handing = InboxClaims(self.store, org, self.wakeups, self.reader, owing, clock=self.clock, limits=limits)
        self.run(self.store.open())

    def run(self, work: Awaitable[Any]) -> Any:
        """Does something on the loop, bounded."""

        async def bounded() -> Any:
            async with asyncio.timeout(IN_PROCESS_SECONDS):
                return await work

        return self.runner.run(bounded())

    def seats(self, count: int) -> list[str]:
        """New workspaces that may all talk to each other."""
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
        draft = draft_of(sender, text, id_, person=self.boxes[0].id, life=life)  # one person a story
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
        intent, owed = self.world.rows("asked", **place)[0][7], self.world.rows("obligation", **place)
        is_open = not owed or owed[0][5] == "open"
        return message.source is not None and intent == "request" and is_open

    def _is_told(self, which: int, source: str) -> None:
        """The server writes to a seat, however full its inbox is."""
        box = self.boxes[which]
        (row,) = self.world.run(
            self.world.reader.list_after(box.id, box.head, ActivityFilters(activity_type=TYPE_RECEIVE), 2)
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
        found = self.world.refusal_or(self.world.handing.ack_message(box.id, message.id, attempt))
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
        found = self.world.refusal_or(self.world.handing.ack_up_to(box.id, seq, attempt))
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
        found = self.world.run(self.world.handing.ack_cursor(box.id, seq, ActivityFilters(source=source)))
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
            assert self.world.refusal_or(self.world.handing.ack_message(box.id, id_, 1)) is NotFound

    @invariant()
    def the_store_says_what_the_model_says(self) -> None:
        """Numbers without gaps, the floor, and the count of what is handled."""
        for which, box in enumerate(self.boxes):
            read = self.world.run(
                self.world.reader.list_after(box.id, 0, ActivityFilters(activity_type=TYPE_RECEIVE), 10_000)
            )
            assert [(row.seq, row.id) for row in read] == [(each.seq, each.id) for each in box.inbox]
            read = self.world.run(
                self.world.reader.list_after(box.id, box.floor, ActivityFilters(activity_type=TYPE_RECEIVE), 2)
            )
            assert [row.seq for row in read] == [each.seq for each in box.inbox if each.seq > box.floor][:2]
            assert self.world.rows("last_seq", key=box.id) == [(box.head or None,)]
            assert self.world.rows("last_inbound", key=box.id) == ([(len(box.inbox),)] if box.inbox else [])
            below = sum(each.seq <= box.floor for each in box.inbox)
            above = sum(each.handled for each in box.inbox) - below
            state = self.world.rows("inbox_state", workspace_id=box.id) or [(0, 0, 0, 0, 0)]
            gone = sum(each.letter in ("dead", "discarded") for each in box.inbox)
            assert state == [(box.floor, below, above, len(box.waiting()), gone)]
            held = self.world.rows("handouts_upto", workspace_id=box.id, seq=box.floor)
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
    """Plays stories of so many steps in all; the machine asserts."""
    before = world.clock.now()
    _play(world, steps, **more)
    assert world.clock.now() > before


@pytest.fixture(scope="module", params=ENGINES)
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, postgres: str) -> Iterator[World]:
    """A world with a small inbox limit on each engine; every story brings its own seats."""
    with world_on(request.param, tmp_path_factory.mktemp("world"), postgres) as world:
        yield world


@requirement("M13", "M16", "M18", "M19", "P2")
def test_an_inbox_does_what_its_model_does(world: World) -> None:
    check_stories(world, STEPS)


def _without_the_check_of_attempts(world: World, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rules, "check_attempt", lambda _handout, _attempt: None)


def _with_room_for_one_more(world: World, patch: pytest.MonkeyPatch) -> None:
    right = rules.max_inbound_no
    patch.setattr(rules, "max_inbound_no", lambda inbox, limit: right(inbox, limit) + 1)


def _with_a_floor_that_stays(world: World, patch: pytest.MonkeyPatch) -> None:
    def stays(_workspace_id: str, inbox: Any, _handled: Any) -> Generator[Any, Any, Any]:
        yield from ()
        return inbox

    patch.setattr(settling_module, "_advance_floor", stays)


def _without_leases(world: World, patch: pytest.MonkeyPatch) -> None:
    text = world.store._queries["claimable"].text
    freely = text.replace("AND h.lease_until <= :now", "AND :now > 0")
    assert freely != text
    patch.setitem(world.store._queries, "claimable", Query("claimable", freely, "sqlite"))


def _with_letters_that_the_floor_forgets(world: World, patch: pytest.MonkeyPatch) -> None:
    text = world.store._queries["forget_handouts"].text
    forgetful = text.replace(" AND requeued = 0", "")
    assert forgetful != text
    patch.setitem(world.store._queries, "forget_handouts", Query("forget_handouts", forgetful, "sqlite"))


def _without_a_look_at_what_a_repeated_message_says(world: World, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rules, "replayed_receipt", lambda twin, **_: MessageReceipt(*twin[:3]))


@pytest.mark.parametrize(
    "fault",
    [
        _without_the_check_of_attempts,
        _with_room_for_one_more,
        _with_a_floor_that_stays,
        _without_leases,
        _with_letters_that_the_floor_forgets,
        _without_a_look_at_what_a_repeated_message_says,
    ],
)
def test_the_model_finds_out_an_inbox_that_lacks_one_guard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Any
) -> None:
    """The controls of the test above: the product with one line replaced, in the same stories."""
    with world_on("sqlite", tmp_path, "") as world:
        fault(world, monkeypatch)
        with pytest.raises(AssertionError):
            check_stories(world, 3000, phases=[Phase.generate], derandomize=True, report_multiple_bugs=False)


@requirement("M18")
@pytest.mark.parametrize("last", ["one", "up to"])
def test_a_gap_that_closes_lets_the_floor_rise_over_all_that_was_handled_behind_it(world: World, last: str) -> None:
    """Over more rows than one look of the floor takes, and over rows of the log that are no mail."""
    (box,) = world.seats(1)
    ids = []
    for number in range(LIMIT):
        ids.append(world.run(world.send(box, draft_of(None, str(number), None))).activity_id)
        world.run(world.writer.log_activity(box, AgentLogEntry(activity_type="agent_log")))
    for id_ in reversed(ids[1:]):
        assert world.run(world.handing.ack_message(box, id_, None)) == 0
    assert world.rows("inbox_state", workspace_id=box) == [(0, 0, LIMIT - 1, 0, 0)]
    closing = world.handing.ack_message(box, ids[0], None) if last == "one" else world.handing.ack_up_to(box, 1, None)
    assert world.run(closing) == 2 * LIMIT - 1
    assert world.rows("inbox_state", workspace_id=box) == [(2 * LIMIT - 1, LIMIT, 0, 0, 0)]
    assert world.rows("handouts_upto", workspace_id=box, seq=1_000) == []


# -- at the same moment ------------------------------------------------------------------------------------------------


def _at_once(world: World, *work: Awaitable[Any]) -> list[Any]:
    async def gathered() -> list[Any]:
        return await asyncio.gather(*work, return_exceptions=True)

    return list(world.run(gathered()))


@requirement("M15")
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("waiting", [0, 1, LIMIT - 1, LIMIT])
def test_a_burst_fills_an_inbox_exactly_to_its_limit(world: World, named: bool, waiting: int) -> None:
    (box,) = world.seats(1)
    for number in range(waiting):
        world.run(world.send(box, draft_of(None, f"before {number}", None)))
    ids = [f"m{number}" if named else None for number in range(12)]
    # Named by one person and unnamed ones take a different number of steps to decide: mix them.
    found = _at_once(world, *(world.send(box, draft_of(None, "hi", id_, person=box)) for id_ in [*ids, None, None]))
    assert sum(isinstance(each, MessageReceipt) for each in found) == LIMIT - waiting
    assert all(isinstance(each, MessageReceipt | InboxFull) for each in found)
    assert world.rows("last_inbound", key=box) == [(LIMIT,)]
    assert world.rows("last_seq", key=box) == [(LIMIT,)]


@requirement("M13", "P2")
def test_the_same_message_many_times_at_once_is_one_message(world: World) -> None:
    box, sender = world.seats(2)
    found = _at_once(world, *(world.send(box, draft_of(sender, "hi", "m")) for _ in range(20)))
    assert len(set(found)) == 1
    assert isinstance(found[0], MessageReceipt)
    assert world.rows("last_seq", key=box) == [(1,)]


@requirement("M13")
def test_of_two_contents_under_one_id_at_once_the_first_wins_and_the_other_is_refused(world: World) -> None:
    box, sender = world.seats(2)
    found = _at_once(world, *(world.send(box, draft_of(sender, text, "m")) for text in ("one", "other") * 5))
    assert len({each for each in found if isinstance(each, MessageReceipt)}) == 1
    assert [type(each) for each in found] == [MessageReceipt, MessageIdReused] * 5


@requirement("M18", "P1")
@pytest.mark.parametrize("first", ["send", "ack"])
def test_an_ack_beyond_all_that_came_does_not_swallow_what_is_just_coming(world: World, first: str) -> None:
    """The agent has not seen it, so it cannot have handled it."""
    (box,) = world.seats(1)
    world.run(world.send(box, draft_of(None, "seen", None)))
    world.run(world.handing.claim(box, lease_seconds=60, count=10))
    both = [world.send(box, draft_of(None, "new", None)), world.handing.ack_up_to(box, 1_000_000, None)]
    found = _at_once(world, *(both if first == "send" else reversed(both)))
    assert not [each for each in found if isinstance(each, BaseException)]
    floor = next(each for each in found if isinstance(each, int))
    rows = world.run(world.handing.claim(box, lease_seconds=60, count=10))
    # Whichever came first, the floor counts exactly the messages that it covers, and no other is lost.
    assert world.rows("inbox_state", workspace_id=box)[0][:2] == (floor, floor)
    assert [row.seq for row in rows] == list(range(floor + 1, 3))


@requirement("M18")
def test_each_message_is_handed_out_to_one_of_many_who_claim_at_once(world: World) -> None:
    (box,) = world.seats(1)
    for number in range(LIMIT):
        world.run(world.send(box, draft_of(None, str(number), None)))
    found = _at_once(world, *(world.handing.claim(box, lease_seconds=60, count=1) for _ in range(LIMIT + 2)))
    assert [[(row.seq, row.attempt) for row in rows] for rows in found] == [
        [(1, 1)],
        [(2, 1)],
        [(3, 1)],
        [(4, 1)],
        [],
        [],
    ]


@requirement("M18", "M33")
def test_a_claim_that_waits_gets_what_comes_and_what_comes_again(world: World) -> None:
    (box,) = world.seats(1)
    clock = world.clock

    async def story() -> list[Any]:
        waiting = asyncio.create_task(world.handing.claim(box, lease_seconds=10, count=5, wait=100))
        while not clock.sleepers:
            await clock.advance(0)
        await world.send(box, draft_of(None, "hi", None))
        first = await waiting
        again = asyncio.create_task(world.handing.claim(box, lease_seconds=10, count=5, wait=100))
        while not clock.sleepers:
            await clock.advance(0)
        await clock.advance(9.9)
        early = again.done()
        await clock.advance(0.1)
        return [first, early, await again]

    first, early, again = world.run(story())
    assert [(row.seq, row.attempt) for row in first] == [(1, 1)]
    assert early is False
    assert [(row.seq, row.attempt) for row in again] == [(1, 2)]
    assert world.wakeups._waiters == {}
