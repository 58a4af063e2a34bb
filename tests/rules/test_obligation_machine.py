"""Obligations against a model of a few lines: whatever is asked, handed over, said, declined and waited for."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from molecule_core.common.clock import SECOND
from molecule_core.common.limits import Limits
from molecule_core.messages.model import TYPE_RECEIVE, ActivityFilters, UserNotice
from molecule_core.messages.obligations.ledger import ObligationLedger
from molecule_core.messages.obligations.model import InboundMessage, Obligation
from molecule_core.messages.overdue_watchdog import OverdueWatchdog
from molecule_core.messages.replies import ReplyWriter
from molecule_core.store.queries import Query
from tests.engines import ENGINES
from tests.requirements import requirement
from tests.rules.effort import STEPS
from tests.rules.test_inbox_machine import World, draft_of, world_on

_STEPS_A_STORY = 30
_REPLY_SECONDS = 120


class Owed:
    """The model of one message: who asked, and how it stands."""

    def __init__(self, id_: str, seq: int, source: str | None) -> None:
        self.id = id_
        self.seq = seq
        self.source = source
        self.state = "unseen"
        self.due_at: int | None = None
        self.waited = False  # the first due time has passed
        self.given_back = False
        self.draft: str | None = None
        self.overdue = False

    @property
    def standing(self) -> str:
        """In one word, as the product says it."""
        if self.state != "open":
            return self.state
        return "overdue" if self.overdue else "answered_outside" if self.draft is not None else "open"


class Hands:
    """The product's hands on one world."""

    def __init__(self, world: World) -> None:
        limits = world.handing._limits
        self.owing: ObligationLedger = world.handing._ledger
        self.silence = OverdueWatchdog(world.store, world.org, self.owing, clock=world.clock, limits=limits)
        self.replies = ReplyWriter(
            world.store, world.org, world.writer, world.handing, self.owing, clock=world.clock, ids=world.ids
        )


class ObligationMachine(RuleBasedStateMachine):
    """Two peers and a person ask a third workspace, which answers in all ways that there are, or does not."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.hands = Hands(world)
        self.own, *self.peers = world.seats(3)
        self.asked: list[Owed] = []

    def _open(self, source: str | None) -> list[Owed]:
        return [each for each in self.asked if each.source == source and each.state == "open"]

    def _close(self, owed: Owed, state: str) -> None:
        owed.state, owed.due_at = state, None

    def _handed(self, owed: Owed) -> None:
        """It is handed over: its time begins, unless it has begun before and was not taken back since."""
        if owed.state == "unseen" or (owed.state == "open" and owed.given_back):
            owed.state, owed.due_at = "open", self.world.clock.now() + _REPLY_SECONDS * SECOND
        owed.given_back = False

    @rule(who=st.integers(0, 2))
    def ask(self, who: int) -> None:
        """Something that wants an answer; of the person (2) or of a peer."""
        source = None if who == 2 else self.peers[who]
        receipt = self.world.run(self.world.send(self.own, draft_of(source, "a question of weight", None)))
        seq = self.world.rows("place_of_activity", id=receipt.activity_id, workspace_id=self.own)[0][0]
        self.asked.append(Owed(receipt.activity_id, seq, source))

    @rule(count=st.integers(1, 3))
    def take(self, count: int) -> None:
        """The next messages are claimed, and acknowledged at once."""
        for row in self.world.run(self.world.handing.claim(self.own, lease_seconds=5, count=count)):
            self._handed(next(each for each in self.asked if each.id == row.id))
            self.world.run(self.world.handing.ack_message(self.own, row.id, row.attempt))

    @rule(count=st.integers(1, 3), late=st.booleans())
    def take_and_give_back(self, count: int, late: bool) -> None:
        """The next messages are claimed and given back; one of them may be acknowledged all the same."""
        handing = self.world.handing
        rows = self.world.run(handing.claim(self.own, lease_seconds=5, count=count))
        for row in rows:
            owed = next(each for each in self.asked if each.id == row.id)
            self._handed(owed)
            if owed.state == "open" and not owed.waited:
                owed.due_at, owed.given_back = None, True
        self.world.run(self.world.writer.release_claims(self.own, {row.id: row.attempt for row in rows}))
        if late and rows:
            self._handed(next(each for each in self.asked if each.id == rows[0].id))
            self.world.run(handing.ack_message(self.own, rows[0].id, rows[0].attempt))

    @rule(choice=st.integers(0, 5))
    def read(self, choice: int) -> None:
        """A reader by cursor: what lies before it is handled, what lies behind it is shown."""
        seq = self.asked[choice % len(self.asked)].seq if self.asked else 0
        rows = self.world.run(self.world.handing.read_after_cursor(self.own, seq, ActivityFilters(TYPE_RECEIVE), 100))
        shown = {row.id for row in rows}
        for owed in self.asked:
            if owed.seq <= seq or owed.id in shown:
                self._handed(owed)

    @rule(who=st.integers(0, 2), choice=st.none() | st.integers(0, 5), progress=st.booleans())
    def say(self, who: int, choice: int | None, progress: bool) -> None:
        """A message to the user or to a peer, which names one of the messages or none."""
        source = None if who == 2 else self.peers[who]
        named = None if choice is None or not self.asked else self.asked[choice % len(self.asked)]
        metadata: dict[str, Any] = {} if named is None else {"in_reply_to": named.id}
        if progress:
            metadata["progress"] = True
        if source is None:
            line = UserNotice([{"kind": "text", "text": "an answer of weight"}], None, metadata)
            self.world.run(self.world.writer.notify_user(self.own, line))
        else:
            draft = draft_of(self.own, "an answer of weight", None)
            draft.message["metadata"].update(metadata)
            self.world.run(self.world.send(source, draft))
        if named is not None and named.source == source:
            meant = named if named.state in ("open", "unseen") else None
        else:
            meant = next(reversed(self._open(source)), None)
        if meant is not None and progress and (meant.due_at is not None or meant.state == "unseen"):
            meant.state = "open"  # to say so of a message is to have had it
            meant.due_at = self.world.clock.now() + _REPLY_SECONDS * SECOND
        elif meant is not None and not progress:
            self._close(meant, "answered")

    @rule(choice=st.integers(0, 5), verb=st.sampled_from(["reply", "decline"]))
    def by_handle(self, choice: int, verb: str) -> None:
        """An answer by handle, once; what is settled already changes nothing."""
        if not self.asked:
            return
        owed = self.asked[choice % len(self.asked)]
        row = self.world.rows("asked", workspace_id=self.own, seq=owed.seq)[0]
        handle = InboundMessage(*row).handle
        parts = [{"kind": "text", "text": "by handle, with weight"}]
        if verb == "reply":
            self.world.refusal_or(self.hands.replies.reply(self.own, handle, parts, key=None))
        else:
            self.world.refusal_or(self.hands.replies.decline(self.own, handle, "not my trade"))
        if owed.state in ("open", "unseen"):
            self._close(owed, "answered" if verb == "reply" else "declined")

    @rule(choice=st.integers(0, 5), verb=st.sampled_from(["keep", "send", "discard"]))
    def outside(self, choice: int, verb: str) -> None:
        """What was said and not sent is kept, sent or discarded."""
        seen = [each for each in self.asked if each.state != "unseen"]
        if not seen:
            return
        owed = seen[choice % len(seen)]
        if verb == "keep":
            self.world.run(self.hands.replies.keep_draft(self.own, owed.id, "said outside"))
            if owed.state == "open":
                owed.draft = "said outside"
        elif verb == "discard":
            self.world.run(self.hands.replies.discard_draft(self.own, owed.id))
            if owed.state == "open":
                owed.draft = None
        else:
            self.world.refusal_or(self.hands.replies.send_draft(self.own, owed.id, None))
            if owed.state == "open" and owed.draft is not None:
                self._close(owed, "answered")

    @rule(seconds=st.sampled_from([10, 60, 121]))
    def wait(self, seconds: int) -> None:
        """Time passes; then the watch looks. Nobody is told how to answer here, so there are no reminders."""
        self.world.run(self.world.clock.advance(seconds))
        self.world.run(self.hands.silence.check_due(self.own))
        now = self.world.clock.now()
        for owed in self.asked:
            if owed.due_at is not None and owed.due_at <= now:
                owed.due_at = None if owed.waited else now + _REPLY_SECONDS * SECOND
                owed.overdue, owed.waited = owed.waited, True

    @invariant()
    def the_store_says_what_the_model_says(self) -> None:
        """How each stands, when it is due, and when the watch will look."""
        found = {}
        for owed in self.asked:
            rows = self.world.rows("obligation", workspace_id=self.own, seq=owed.seq)
            found[owed.seq] = Obligation(*rows[0]) if rows else None
        for owed in self.asked:
            obligation = found[owed.seq]
            if owed.state == "unseen":
                assert obligation is None
                continue
            assert obligation is not None
            assert (obligation.display_state, obligation.due_at) == (owed.standing, owed.due_at)
            assert obligation.source_id == owed.source
        timers = [due for kind, key, due in self.world.rows("next_timers", count=1000) if key == self.own]
        dues = [owed.due_at for owed in self.asked if owed.due_at is not None]
        assert not dues or (timers and timers[0] <= min(dues))


@pytest.fixture(scope="module", params=ENGINES)
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, postgres: str) -> Iterator[World]:
    """A world on each engine; every story brings its own seats."""
    with world_on(request.param, tmp_path_factory.mktemp("owed"), postgres, Limits()) as world:
        yield world


def _play(world: World, steps: int) -> None:
    choices = settings(max_examples=max(1, steps // _STEPS_A_STORY), stateful_step_count=_STEPS_A_STORY, deadline=None)
    machine: Any = lambda: ObligationMachine(world)  # noqa: E731 (Hypothesis wants a function of no arguments)
    run_state_machine_as_test(machine, settings=choices)


@requirement("M26", "M27", "M28", "P4")
def test_obligations_do_what_their_model_does(world: World) -> None:
    before = world.clock.now()
    _play(world, STEPS)
    assert world.clock.now() > before


def _story(world: World) -> list[str]:
    """One story by hand, which comes by everything that the controls below change; how its messages stand then."""
    machine = ObligationMachine(world)
    acts: list[Any] = [
        lambda: [machine.ask(2) for _ in range(4)],
        lambda: machine.take(3),
        lambda: machine.say(2, None, False),
        lambda: machine.outside(0, "keep"),
        lambda: machine.outside(0, "discard"),
        lambda: machine.wait(121),
        lambda: machine.wait(121),
        lambda: machine.by_handle(0, "reply"),
        lambda: machine.take_and_give_back(1, False),
        lambda: machine.read(2),
        lambda: machine.take_and_give_back(1, True),
    ]
    for act in acts:
        act()
        machine.the_store_says_what_the_model_says()
    return [each.standing for each in machine.asked]


def test_the_story_of_the_controls_goes_well_with_the_product_as_it_is(world: World) -> None:
    assert _story(world) == ["answered", "overdue", "answered", "open"]


@pytest.mark.parametrize(
    ("query", "by"),
    [
        ("close_obligation", ("AND state = 'open'", "AND state = 'closed'")),
        ("owed_to_user", ("ORDER BY p.seq DESC", "ORDER BY p.seq")),
        ("overdue_obligation", ("due_at = NULL", "due_at = due_at")),
        ("drop_draft", ("outside_at = NULL", "outside_at = outside_at")),
        ("obligations_between", ("h.attempt > 0", "h.attempt < 0")),
        ("open_passed", ("excluded.due_at IS NOT NULL", "excluded.due_at IS NULL")),
    ],
)
def test_the_model_finds_out_a_hand_that_forgets_one_thing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str, by: tuple[str, str]
) -> None:
    """The controls: the product with one statement changed."""
    with world_on("sqlite", tmp_path, "", Limits()) as world:
        text = world.store._queries[query].text
        assert by[0] in text
        monkeypatch.setitem(world.store._queries, query, Query(query, text.replace(*by), "sqlite"))
        with pytest.raises(AssertionError):
            _story(world)


@requirement("M28")
def test_a_timer_that_the_watch_takes_away_is_not_believed_to_stand(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the watch looks after what is due, another message is handed over, and all that is owed is answered."""
    machine = ObligationMachine(world)
    machine.ask(2)
    machine.take(1)
    world.run(world.clock.advance(_REPLY_SECONDS + 1))
    silence, looks_after = machine.hands.silence, machine.hands.silence._process_due

    async def meanwhile(workspace_id: str, due: list[Obligation]) -> bool:
        await world.send(machine.own, draft_of(None, "a question of weight", None))
        await world.handing.claim(machine.own, lease_seconds=5, count=1)
        for _ in range(2):
            await world.writer.notify_user(
                machine.own, UserNotice([{"kind": "text", "text": "an answer of weight"}], None, {})
            )
        return await looks_after(workspace_id, due)

    monkeypatch.setattr(silence, "_process_due", meanwhile)
    world.run(silence.check_due(machine.own))
    assert machine.own not in {key for _, key, _ in world.rows("next_timers", count=1000)}
    world.run(world.send(machine.own, draft_of(None, "a question of weight", None)))
    world.run(world.handing.claim(machine.own, lease_seconds=5, count=1))
    assert machine.own in {key for _, key, _ in world.rows("next_timers", count=1000)}
