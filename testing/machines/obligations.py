"""Random operations on obligations, each compared with a model of a few lines."""

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from molecule_core.common.clock import SECOND
from molecule_core.common.errors import AmbiguousReply
from molecule_core.messages.model import ActivityFilters, UserNotice
from molecule_core.messages.obligations.ledger import ObligationLedger
from molecule_core.messages.obligations.model import InboundMessage, Obligation
from molecule_core.messages.overdue_watchdog import OverdueWatchdog
from molecule_core.messages.replies import ReplyWriter
from molecule_core.wire.schemas.activity import ActivityType
from testing.machines.inboxes import World, draft_of

STEPS_A_STORY = 30
REPLY_SECONDS = 120


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
            world.store, world.org, world.writer, world.handing.acks, self.owing, clock=world.clock, ids=world.ids
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
            owed.state, owed.due_at = "open", self.world.clock.now() + REPLY_SECONDS * SECOND
        owed.given_back = False

    @rule(who=st.integers(0, 2))
    def ask(self, who: int) -> None:
        """Something that wants an answer; of the person (2) or of a peer."""
        source = None if who == 2 else self.peers[who]
        receipt = self.world.run(self.world.send(self.own, draft_of(source, "a question of weight", None)))
        seq = self.world.rows("position_of_activity", id=receipt.activity_id, workspace_id=self.own)[0][0]
        self.asked.append(Owed(receipt.activity_id, seq, source))

    @rule(count=st.integers(1, 3))
    def take(self, count: int) -> None:
        """The next messages are claimed, and acknowledged at once."""
        for row in self.world.run(self.world.handing.claim(self.own, lease_seconds=5, count=count)):
            self._handed(next(each for each in self.asked if each.id == row.id))
            self.world.run(self.world.handing.acks.ack_message(self.own, row.id, row.attempt))

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
            self.world.run(handing.acks.ack_message(self.own, rows[0].id, rows[0].attempt))

    @rule(choice=st.integers(0, 5))
    def read(self, choice: int) -> None:
        """A reader by cursor: what lies before it is handled, what lies behind it is shown."""
        seq = self.asked[choice % len(self.asked)].seq if self.asked else 0
        rows = self.world.run(
            self.world.handing.read_after_cursor(self.own, seq, ActivityFilters(ActivityType.RECEIVE), 100)
        )
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
            is_named = named is not None and named.source == source
            if not is_named and len(self._open(source)) > 1:
                with pytest.raises(AmbiguousReply):
                    self.world.run(self.world.send(source, draft))
                return
            self.world.run(self.world.send(source, draft))
        if named is not None and named.source == source:
            meant = named if named.state in ("open", "unseen") else None
        else:
            meant = next(reversed(self._open(source)), None)
        if meant is not None and progress and (meant.due_at is not None or meant.state == "unseen"):
            meant.state = "open"  # to say so of a message is to have had it
            meant.due_at = self.world.clock.now() + REPLY_SECONDS * SECOND
        elif meant is not None and not progress:
            self._close(meant, "answered")

    @rule(choice=st.integers(0, 5), verb=st.sampled_from(["reply", "decline"]))
    def by_handle(self, choice: int, verb: str) -> None:
        """An answer by handle, once; what is settled already changes nothing."""
        if not self.asked:
            return
        owed = self.asked[choice % len(self.asked)]
        row = self.world.rows("inbox_message", workspace_id=self.own, seq=owed.seq)[0]
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
            self.world.run(self.hands.replies.keep_draft(self.own, owed.id, "said outside", send=False))
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
                owed.due_at = None if owed.waited else now + REPLY_SECONDS * SECOND
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
