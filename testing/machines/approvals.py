"""Random operations on approvals, each compared with the model of one (`ladder`)."""

from collections.abc import Callable
from functools import partial
from random import Random
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

from molecule_core.approvals.errors import TooManyApprovals
from molecule_core.approvals.model import Approval as Row
from molecule_core.approvals.model import ApprovalRequest, DecisionInput, DecisionKind, DecisionRequest
from molecule_core.common.clock import SECOND
from molecule_core.common.errors import MessageIdReused, WorkspaceRemoved
from molecule_core.common.limits import Limits
from molecule_core.messages.model import ActivityPageRow
from molecule_core.wire.schemas.approvals import AuthorityGrant as Granted
from molecule_core.wire.schemas.approvals import Party
from testing.clocks import START
from testing.machines.approval_model import USE_SECONDS, WHOLE_SECONDS, Act, Approval, Grant, Seat, hash_of
from testing.machines.approval_store import Ladder, shown

STEPS_A_STORY = 30
_MOST, _OPEN = 6, 3
LIMITS = Limits(approvals_open=_OPEN)
"""So few may be open at a time that stories come by that."""
_REQUEST, _DECISION, _SYSTEM = "approval_request", "approval_decision", "system"
_NOBODY = {"to": "nobody"}
Who = tuple[str, str]


class Leave:
    """One approval: as it was asked for, as it should stand, and who should have read how it ended."""

    def __init__(self, row: Row, model: Approval, *, by_rule: bool) -> None:
        self.row, self.model, self.by_rule = row, model, by_rule
        self.questions = list[int]()
        self.told = set[str]()

    def changes(self, change: Callable[[], object]) -> None:
        """Something happens. If that ends it, who was asked before and is not now is told; not who had it still, since
        its message is taken back, nor who has ended it."""
        held, was_open = self.model.holder, self.model.is_open
        change()
        if was_open and not self.model.is_open:
            _, kind, by, _ = self.model.hops[-1]
            had_it = {held.id} if held is not None and kind != "rule" else set[str]()
            self.told = set(self.model.had) - had_it - {by}

    def lies_with(self, seat: Seat) -> bool:
        """Whether a manager owes a decision. Who has asked for more waits itself."""
        asks = self.model.asker == ("workspace", seat.id)
        return self.model.is_open and self.model.holder is seat and not asks


class ApprovalMachine(RuleBasedStateMachine):
    """A root, two below it, and one below one of these, which can stand below the other; two persons."""

    def __init__(self, ladder: Ladder) -> None:
        super().__init__()
        self.ladder = ladder
        ids = ladder.grown(None, 0, 0, 1)
        self.seats = [Seat(ids[0], "", None)]
        for id_, parent in zip(ids[1:], (0, 0, 1), strict=True):
            self.seats.append(Seat(id_, "", self.seats[parent]))
        self.last = self.seats[3]
        self.is_gone = False
        self.asked: list[Leave] = []
        self.acts: list[tuple[Leave, Act]] = []
        self.keys: dict[tuple[str, str], tuple[Any, Leave]] = {}
        self.uses: dict[tuple[str, str], tuple[str, Approval]] = {}
        self.claimed: dict[str, set[int]] = {seat.id: set() for seat in self.seats}

    which = st.integers(0, _MOST)
    to = st.sampled_from(["Ann", "Bob"])

    # -- steps ---------------------------------------------------------------------------------------------------------

    @property
    def now(self) -> int:
        """The time, as the model counts it."""
        return (self.ladder.world.clock.now() - START) // SECOND

    def does(self, work: Any) -> Any:
        """The answer, or the class of the refusal."""
        return self.ladder.world.refusal_or(work)

    def some(self, *statuses: str) -> list[Leave]:
        """Those that were asked for, and stand so."""
        return [each for each in self.asked if not statuses or each.model.status in statuses]

    def one(self, which: int, *statuses: str) -> Leave:
        """One of them."""
        found = self.some(*statuses)
        return found[-1 - which % len(found)]

    def in_time(self, leave: Leave) -> None:
        """Somebody acts: if time has said no by then, that comes first."""
        leave.changes(lambda: leave.model.runs_out(self.now))

    def taken(self, found: Any, meant: str) -> bool:
        """Whether something happened; whether it is refused is said by the model."""
        assert isinstance(found, type) == (meant == "no"), (found, meant)
        return meant == "yes"

    # -- the requester -------------------------------------------------------------------------------------------------

    @initialize(whose=st.sampled_from([(3,), (3, 3), (3, 1), (3, 0)]))
    def begins(self, whose: tuple[int, ...]) -> None:
        """Some have asked already."""
        for who in whose:
            self.ask(who=who, action="mail", to="Ann", cost=None, expires=None, key=None, by_rule=False)

    @precondition(lambda self: len(self.asked) < _MOST)
    @rule(
        who=st.sampled_from([3, 3, 3, 3, 1, 0]),
        action=st.sampled_from(["mail", "refund"]),
        to=to,
        cost=st.sampled_from([None, 5.0, 50.0]),
        expires=st.sampled_from([None, None, 300]),
        key=st.sampled_from([None, None, "k", "l"]),
        by_rule=st.booleans(),
    )
    def ask(
        self, who: int, action: str, to: str, cost: float | None, expires: int | None, key: str | None, by_rule: bool
    ) -> None:
        """Somebody wants leave, perhaps under a key, perhaps since a rule has stopped it."""
        seat, details = self.seats[who], {"to": to}
        wish = ApprovalRequest(
            workspace_id=seat.id,
            action=action,
            details=details,
            cost=cost,
            expires_in=expires,
            key=key,
            source="rule" if by_rule else "api",
        )
        found = self.does(self.ladder.requests(wish))
        content, hashed = (action, to, cost), hash_of(action, details)
        named = self.keys.get((seat.id, key or ""))
        known = named[1] if named is not None else self.same(seat, hashed) if by_rule else None
        if self.is_lost(seat):
            assert found is WorkspaceRemoved
        elif named is not None and named[0] != content:
            assert found is MessageIdReused
        elif known is not None:
            assert (found.is_duplicate, found.row.id) == (True, known.row.id)
        elif sum(each.model.is_open for each in self.asked if each.model.seat is seat) >= _OPEN:
            assert found is TooManyApprovals
        else:
            assert not found.is_duplicate
            model = Approval(seat, action, details, cost, self.now, expires or WHOLE_SECONDS)
            model.letters = 0 if model.status == "approved" else model.letters  # it has read the answer
            self.asked.append(Leave(found.row, model, by_rule=by_rule))
            if key is not None:
                self.keys[seat.id, key] = (content, self.asked[-1])

    def same(self, seat: Seat, hashed: str) -> Leave | None:
        """What a rule has asked for in the same words, and is not done with."""
        for each in reversed(self.asked):
            model = each.model
            is_its = each.by_rule and model.seat is seat and model.hashed == hashed
            if is_its and (model.is_open or model.can_be_used(hashed, self.now)):
                return each
        return None

    @precondition(lambda self: self.some("info_requested"))
    @rule(which=which, how=st.sampled_from(["route", "reply"]), to=st.none() | to)
    def answer(self, which: int, how: str, to: str | None) -> None:
        """The requester says more: by the route, perhaps with other details, or by a reply to the question."""
        self.answers(self.one(which, "info_requested"), how, to)

    @precondition(lambda self: self.asked)
    @rule(which=which, how=st.sampled_from(["route", "reply", "late", "use", "use by name"]))
    def act_anyhow(self, which: int, how: str) -> None:
        """It says more without being asked, or to a question that is answered; or it does something else."""
        leave = self.one(which)
        if how.startswith("use"):
            self.uses_it(leave, hash_of(leave.model.action, _NOBODY), None if how == "use" else "u")
        else:
            self.answers(leave, how, None)

    def answers(self, leave: Leave, how: str, to: str | None) -> None:
        """The requester says more. Of its replies only the one to the question that is open does anything."""
        model, details = leave.model, None if to is None or how != "route" else {"to": to}
        if how == "route":
            self.in_time(leave)
        meant = "yes" if model.status == "info_requested" else "no"
        if how == "route":
            found = self.does(self.ladder.answers(leave.row, details))
        else:
            questions = leave.questions if how == "reply" else leave.questions[:-1]
            if not questions:
                return
            found = self.does(self.ladder.replies_to(leave.row, questions[-1]))
            is_open = how == "reply" and meant == "yes" and not self.is_lost(model.seat)
            # (A reply that comes again is the first one; one that comes too late is refused. Neither changes anything.)
            assert not is_open or not isinstance(found, type), found
            meant = "yes" if is_open else "no" if isinstance(found, type) else "again"
        if self.taken(found, meant):
            self.in_time(leave)  # a reply is taken even then, but is no answer any more
            if model.is_open:
                leave.changes(lambda: model.answers(details, self.now))

    @precondition(lambda self: self.some("approved"))
    @rule(which=which, key=st.sampled_from([None, None, "u"]))
    def use(self, which: int, key: str | None) -> None:
        """The requester acts as was approved: for the first time or again, perhaps under the same name."""
        leave = self.one(which, "approved")
        self.uses_it(leave, leave.model.hashed, key)

    def uses_it(self, leave: Leave, hashed: str, key: str | None) -> None:
        """The requester acts: once; what it says again under one name it is told again."""
        model = leave.model
        self.in_time(leave)
        before = self.uses.get((model.seat.id, key or ""))
        is_repeated = before is not None and before[0] == hashed and self.now < before[1].used_at + USE_SECONDS
        can = model.can_be_used(hashed, self.now)
        found = self.does(self.ladder.uses(leave.row, hashed, key))
        if self.taken(found, "again" if is_repeated else "yes" if can else "no"):
            model.use(self.now)
            if key is not None:
                self.uses[model.seat.id, key] = (hashed, model)

    @precondition(lambda self: self.asked)
    @rule(which=which, by=st.sampled_from(["requester", "ann"]))
    def withdraw(self, which: int, by: str) -> None:
        """It is not wanted any more."""
        leave = self.one(which)
        model = leave.model
        self.in_time(leave)
        who = ("workspace", model.seat.id) if by == "requester" else ("person", by)
        meant = "yes" if model.is_open else "again" if model.status == "withdrawn" else "no"
        if self.taken(self.does(self.ladder.withdraws(leave.row, Party(*who, by))), meant):
            leave.changes(lambda: model.withdraw(who, self.now))

    # -- who decides ---------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.some("pending", "info_requested"))
    @rule(
        which=which,
        who=st.sampled_from(["holder", "holder", "ann"]),
        decision=st.sampled_from(["approve", "approve", "deny", "escalate"]),
        to=st.none() | to,
    )
    def decide(self, which: int, who: str, decision: str, to: str | None) -> None:
        """Who may decide does, about what stands there; perhaps with other details."""
        leave = self.one(which, "pending", "info_requested")
        details = {"to": to} if to is not None and decision == "approve" else None
        by = self.by(who if leave.model.holder is not None else "ann", leave.model)
        self.says(leave, Act(by, decision, leave.model.revision, leave.model.hashed, details, None))

    @precondition(lambda self: self.some("pending"))
    @rule(which=which, who=st.sampled_from(["holder", "holder", "ann"]))
    def ask_back(self, which: int, who: str) -> None:
        """Who may decide wants to know more."""
        leave = self.one(which, "pending")
        by = self.by(who if leave.model.holder is not None else "ann", leave.model)
        self.says(leave, Act(by, "more_info", leave.model.revision, None, None, None))

    @precondition(lambda self: self.asked)
    @rule(which=which, chance=st.integers(0, 1 << 32))
    def decide_anyhow(self, which: int, chance: int) -> None:
        """Anybody decides, about what it has seen or has not; a person over somebody. (One number says it all:
        Hypothesis repeats what it draws, and many small draws would be the same few acts again.)"""
        leave, dice = self.one(which), Random(f"{chance} {len(self.acts)}")
        model = leave.model
        by = self.by(dice.choice(("holder", "holder", "former", "other", "requester", "ann", "bob")), model)
        decision = dice.choice(("approve", "approve", "deny", "escalate", "more_info"))
        revision = dice.choice((None, model.revision, model.revision, model.revision - 1 or 9))
        hashed = dice.choice((None, None, model.hashed, hash_of(model.action, _NOBODY)))
        details = {"to": dice.choice("AB")} if decision == "approve" and dice.random() < 0.3 else None
        turn = dice.choice((None, None, model.holder.id if model.holder else None, *model.had[:1]))
        is_over = decision == "escalate" and by[0] == "person"
        self.says(leave, Act(by, decision, revision, hashed, details, turn if is_over else None))

    def by(self, who: str, model: Approval) -> Who:
        """Somebody in a role."""
        return ("person", who) if who in ("ann", "bob") else self.seat_of(who, model)

    def seat_of(self, who: str, model: Approval) -> Who:
        """A workspace in a role; the requester itself where nobody is in it."""
        first = next((seat for seat in self.seats if seat.id in model.had), model.seat)
        roles = {"holder": model.holder or model.seat, "former": first, "other": self.seats[2]}
        return ("workspace", roles.get(who, model.seat).id)

    def says(self, leave: Leave, act: Act) -> None:
        """Somebody decides. The model is told of a requester as of somebody who may decide nothing."""
        assert act.who is not None
        self.in_time(leave)
        is_own = act.who == ("workspace", leave.model.seat.id)
        meant = leave.model.takes(act._replace(who=None) if is_own else act)
        wish = DecisionRequest(DecisionKind(act.decision), act.revision, act.hashed, act.holder)
        said = DecisionInput(request=wish, by=Party(*act.who, act.who[1]), note="why?", details=act.details)
        self.acts.append((leave, act))
        if self.taken(self.does(self.ladder.decides(leave.row, said)), meant):
            leave.changes(lambda: leave.model.does(act, self.now))

    @precondition(lambda self: self.acts)
    @rule(back=st.integers(1, 3))
    def decide_again(self, back: int) -> None:
        """Somebody says again what it has said."""
        self.says(*self.acts[-min(back, len(self.acts))])

    # -- the tree, the authority, the mail, and time -------------------------------------------------------------------

    @rule(chance=st.integers(0, 1 << 32))
    def reorganise(self, chance: int) -> None:
        """The lowest stands below somebody else; or the agent of a manager falls silent, or is heard; or a manager
        decides some things by itself, or nothing any more."""
        dice = Random(f"{chance} {len(self.acts)}")
        seat, how = self.seats[dice.choice((0, 1, 1, 2))], dice.choice(("move", "hear", "hear", "grant", "grant"))
        if how == "move" and self.last.parent is not seat and not self.is_gone:
            self.last.parent = seat
            self.does(self.ladder.moves(self.last.id, seat.id))
        elif how == "hear":
            seat.is_here = dice.random() < 0.7
            self.ladder.hears(seat.id, is_here=seat.is_here)
        elif how == "grant":
            action = dice.choice((None, None, "mail", "*"))
            seat.grants = [] if action is None else [Grant(action, dice.choice((None, 10.0)))]
            given = [Granted(each.action, each.cost_up_to) for each in seat.grants]
            assert self.does(self.ladder.grants(seat.id, given)).grants == tuple(given)

    @precondition(lambda self: len(self.asked) > 2 and not self.is_gone)
    @rule(sure=st.integers(0, 3))
    def remove(self, sure: int) -> None:
        """The lowest is removed, once in a while."""
        if sure == 3:
            self.is_gone = True
            self.does(self.ladder.removes(self.last.id))

    @rule(who=st.integers(0, 3))
    def claim(self, who: int) -> None:
        """Somebody takes its mail: it is asked only for what is its to say."""
        seat = self.seats[who]
        rows = self.does(self.ladder.handing.claim(seat.id, lease_seconds=600, count=100))
        for row in rows if isinstance(rows, list) else ():
            leave = next(each for each in self.asked if row.id.startswith(f"{each.row.id}."))
            assert row.kind != _REQUEST or leave.lies_with(seat), "it is asked what is not its to say"
            is_question = row.kind == _DECISION and row.intent == "request"
            assert not is_question or leave.model.status == "info_requested", "what is answered is asked"
            self.claimed[seat.id].add(row.seq)

    @rule(seconds=st.sampled_from([1, 60, 119, 120, 300, 3_600, 86_400]))
    def wait(self, seconds: int) -> None:
        """Time passes, and what is due happens."""
        self.ladder.world.clock.at += seconds * SECOND
        self.fire()

    @rule(seconds=st.sampled_from([60, 300, 3_600]))
    def fall_behind(self, seconds: int) -> None:
        """Time passes, and nobody has come to what is due."""
        self.ladder.world.clock.at += seconds * SECOND

    @rule()
    def fire(self) -> None:
        """What is due happens."""
        self.does(self.ladder.fire())
        for leave in self.asked:
            leave.changes(partial(self.look_after, leave.model))

    def look_after(self, model: Approval) -> None:
        """The tree or the time is another one; nobody decides for who is not there any more."""
        if model.is_open and self.is_lost(model.seat):
            model.withdraw(("server", "server"), self.now)
        else:
            model.looked_after(self.now)

    # -- what must be so -----------------------------------------------------------------------------------------------

    @invariant()
    def the_store_says_what_the_model_says(self) -> None:
        """Each stands as the model says, all are told each change, and nobody is asked what is not open."""
        mail = {seat.id: self.does(self.ladder.mail(seat.id)) for seat in self.seats if not self.is_lost(seat)}
        due = dict(self.does(self.ladder.timers()))
        for leave in self.asked:
            row = self.does(self.ladder.now(leave.row))
            assert stand_of(row) == meant_of(leave.model)
            if row.question_seq is not None and row.question_seq not in leave.questions:
                leave.questions.append(row.question_seq)
            told = self.does(self.ladder.events_of(row))
            assert [rev for rev, _ in told] == list(range(1, row.rev + 1))
            assert told[-1][1] == shown(row)
            looked_at = max(self.now, leave.model.level_at or leave.model.expires_at)  # a move has it looked at at once
            assert due.get(row.key, 0) <= START + looked_at * SECOND
            assert (row.key in due) == leave.model.is_open
            for seat in self.seats:
                if seat.id in mail:
                    own = [each for each in mail[seat.id] if each.id.startswith(f"{row.id}.")]
                    self.check_letters(leave, seat, own)

    def is_lost(self, seat: Seat) -> bool:
        """Whether nobody writes to a seat any more."""
        return seat is self.last and self.is_gone

    def check_letters(self, leave: Leave, seat: Seat, own: list[ActivityPageRow]) -> None:
        """Who is asked was asked by a message each time, and owes an answer to the last one alone; ends are told."""
        model = leave.model
        asked = [each.seq for each in own if each.kind == _REQUEST]
        questions = [each.seq for each in own if each.kind == _DECISION and each.intent == "request"]
        ends = [each for each in own if each.kind == _DECISION and each.intent == "inform"]
        is_its = seat is model.seat
        assert len(asked) == sum(what == "asked" and id_ == seat.id for what, _, _, id_ in model.hops)
        assert len(questions) == (model.questions if is_its else 0)
        assert len(ends) == (model.letters if is_its else 0)
        assert sum(each.kind == _SYSTEM for each in own) == (seat.id in leave.told)
        self.check_owed(seat, asked, is_open=leave.lies_with(seat))
        self.check_owed(seat, questions, is_open=model.status == "info_requested")

    def check_owed(self, seat: Seat, letters: list[int], *, is_open: bool) -> None:
        """Of letters in order only the last one may wait for an answer; it does once it was taken."""
        for seq in letters:
            found = self.ladder.world.rows("obligation", workspace_id=seat.id, seq=seq)
            is_owed = bool(found) and found[0][5] == "open"
            assert is_owed == (is_open and seq == letters[-1] and seq in self.claimed[seat.id])

    @invariant()
    def the_lists_say_so_too(self) -> None:
        """What is open, what each has asked for, what each was asked, and what each has used."""
        if not self.asked:
            return
        reader, org_id = self.ladder.hands.reader, self.asked[0].row.org_id
        is_open = [each.row.id for each in self.asked if each.model.is_open]
        assert {each.id for each in self.does(reader.list_open(org_id, None, 100))} == set(is_open)
        for seat in self.seats:
            own = {each.row.id for each in self.asked if each.model.seat is seat}
            held = {each.row.id for each in self.asked if seat.id in each.model.had}
            assert {each.id for each in self.does(reader.requested_by(seat.id, None, None, 100))} == own
            assert {each.id for each in self.does(reader.held_by(org_id, seat.id, None, None, 100))} == held
            used = [each.model for each in self.asked if each.row.id in own and each.model.used_at >= 0]
            for action in ("mail", "refund"):
                is_known = self.does(reader.was_used_before(seat.id, action))
                assert is_known == any(model.action == action for model in used)


def stand_of(row: Row) -> tuple[Any, ...]:
    """How an approval stands, as it is kept."""
    said, asker = row.decision, row.asker_party
    hops = [(hop.what, hop.by.kind, hop.by.id, None if hop.holder is None else hop.holder.id) for hop in row.history]
    times = [None if at is None else (at - START) // SECOND for at in (row.expires_at, row.level_at)]
    return (
        *(row.status.value, row.revision, row.action_hash, msgspec.json.decode(row.effective_details)),
        *(bool(row.open), bool(row.for_person), row.used_at is not None, row.holder_id, row.asked_ids),
        *(asker and (asker.kind, asker.id), said and (said.decision, (said.by.kind, said.by.id)), *times, hops),
    )


def meant_of(model: Approval) -> tuple[Any, ...]:
    """How it should stand, in the order of `stand_of`. A person sees it once a person or the root was asked."""
    root = next(iter([*model.seat.above()][::-1]), model.seat)
    people = any(what == "asked" and id_ in ("", root.id) for what, _, _, id_ in model.hops)
    people = people or any(what == "info_requested" and kind == "person" for what, kind, _, _ in model.hops)
    return (
        *(model.status, model.revision, model.hashed, model.details),
        *(model.is_open, people, model.used_at >= 0, model.holder and model.holder.id, model.had),
        *(model.asker, model.decided, model.expires_at, model.level_at, model.hops),
    )
