"""Random operations on delegations, each compared with a model of a few lines."""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from molecule_core.common.clock import HOUR, SECOND
from molecule_core.common.errors import ChainFrozen, MessageIdReused
from molecule_core.delegations.model import BeginResult, Delegation, ProgressReport
from molecule_core.delegations.rules import STATUS_RANK
from molecule_core.messages.delivery_state import DeliveryFailure, PushAttempt, PushResult
from molecule_core.wire.schemas.delegations import DelegationStatus
from testing.machines.delegation_store import LEASE_SECONDS, Stage, asked, by
from testing.machines.inboxes import draft_of

STEPS_A_STORY = 30
_UNSURE_SECONDS, _KEY_HOURS = 900, 24
WORDS = [{"kind": "text", "text": "done"}]
VERDICTS = {
    "words": PushResult(answer='{"result":{"kind":"message","parts":[{"kind":"text","text":"done"}]}}'),
    "taken": PushResult(answer="{}"),
    "error": PushResult(answer='{"error":"cannot"}'),
    "refused": PushResult(error="no", refused=True, code="refused"),
    "breaks": PushResult(error="nobody there", code=DeliveryFailure.UNREACHABLE, sent=False),
    "unsure": PushResult(error="nothing came", code=DeliveryFailure.UNSURE),
    "busy": PushResult(error="busy", busy=True),
}


class Work:
    """The model of one delegation: what it has come to, and what would end it."""

    def __init__(self, row: Delegation, parent: "Work | None", clock: "Callable[[], int]") -> None:
        self.row, self.parent, self.clock = row, parent, clock
        self.ended_at = 0
        # Of what begins in the very moment in which the one above ends nobody knows before it is looked at. What begins
        # later is begun in full knowledge, and goes on.
        is_below_the_dead = parent is not None and parent.end is not None
        self.looked_at = row.created_at + 60 * SECOND if is_below_the_dead else 0
        self.end: tuple[str, str | None] | None = None
        self.draft = self.had = self.is_gone = False
        self.unsure_at: int | None = None
        self.flying = self.failures = self.taken = self.rank = 0

    def ends(self, status: str, reason: str | None = None) -> None:
        """Once, and never otherwise."""
        if self.end is None:
            self.end, self.ended_at = (status, reason), self.clock()

    def falls_due(self, now: int) -> None:
        """What time and the loss of others do to it."""
        above = self.parent
        lost = above is not None and above.end is not None and above.end[0] != "completed"
        lost = lost and above is not None and above.ended_at >= self.row.created_at
        too_long = self.unsure_at is not None and self.unsure_at + _UNSURE_SECONDS * SECOND <= now
        if self.is_gone:
            self.ends("failed", "target_removed")
        elif lost and self.looked_at <= now:
            self.ends("cancelled", "cancelled")
        elif self.row.deadline_at <= now:
            self.ends("failed", "expired")
        elif too_long:
            self.ends("failed", "unknown_outcome")

    def hears(self, verdict: str, now: int) -> None:
        """What came of its push."""
        self.failures += verdict == "breaks"
        if verdict == "unsure":
            self.unsure_at = now
        elif verdict == "words":
            self.ends("completed")
        elif verdict in ("error", "refused"):
            self.ends("failed", {"error": "agent_error"}.get(verdict, verdict))
        elif self.failures == 2:
            self.ends("failed", DeliveryFailure.UNREACHABLE)


class DelegationMachine(RuleBasedStateMachine):
    """One gives work to two: one that polls, and gives parts of it away, and one that is pushed to."""

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self.stage = stage
        self.lead, self.polls, self.pushed = stage.world.seats(3)
        stage.pushed_to(self.pushed)
        self.work: list[Work] = []
        self.keys: dict[str, Work] = {}
        self.pushes: list[tuple[Work, PushAttempt]] = []
        self.parts = 0
        self.is_removed = False

    which = st.integers(0, 5)

    @property
    def now(self) -> int:
        """The time."""
        return self.stage.world.clock.now()

    def does(self, work: Any) -> Any:
        """The answer, or the class of the refusal."""
        return self.stage.world.refusal_or(work)

    def one(self, which: int) -> Work:
        """One of the last that were begun."""
        return self.work[-1 - which % len(self.work)]

    def begun(self, found: Any, known: Work | None, parent: Work | None = None) -> Work | None:
        """A receipt is of what is there already, or of a new one."""
        if not isinstance(found, BeginResult):
            assert found is ChainFrozen or self.is_removed, found
            return None
        assert found.is_duplicate == (known is not None)
        if known is not None:
            assert found.row.id == known.row.id
            return known
        self.work.append(Work(found.row, parent, lambda: self.now))
        assert found.row.parent_id == (None if parent is None else parent.row.id)
        return self.work[-1]

    def twin(self, source: str, target: str, task: str) -> Work | None:
        """What is open in the same words."""
        about = (source, target, task)
        rows = [each for each in self.work if each.end is None]
        return next((each for each in rows if (each.row.source_id, each.row.target_id, each.row.task) == about), None)

    @rule(
        pushed=st.booleans(),
        task=st.sampled_from("ab"),
        key=st.sampled_from([None, None, "k", "l"]),
        long=st.booleans(),
    )
    def begin(self, pushed: bool, task: str, key: str | None, long: bool) -> None:
        """Work is given, perhaps under a key, perhaps with little time."""
        target = self.pushed if pushed else self.polls
        held = self.keys.get(key or "")
        if held is not None and held.row.created_at <= self.now - _KEY_HOURS * HOUR:
            held = None
        wish = asked(self.lead, target, task, key=key, deadline_seconds=None if long else 300, wait_seconds=20)
        found = self.does(self.begins(wish))
        if held is not None and (held.row.target_id, held.row.task) != (target, task):
            assert found is MessageIdReused or (self.is_removed and pushed)
            return
        known = held or self.twin(self.lead, target, task)
        new = self.begun(found, known)
        if key is not None and new is not None and known is None:
            self.keys[key] = new

    async def begins(self, wish: Any) -> Any:
        return await self.stage.delegations.begin(wish)

    @precondition(lambda self: self.work)
    @rule(which=which)
    def begin_below(self, which: int) -> None:
        """Who polls gives a part of its work away."""
        parent = self.one(which)
        if parent.had:  # what it has not had it cannot be at work on
            self.parts += 1
            wish = asked(self.polls, self.pushed, f"part {self.parts}", cause_id=parent.row.id)
            self.begun(self.does(self.begins(wish)), None, parent)

    @precondition(lambda self: self.work)
    @rule(which=which)
    def retry(self, which: int) -> None:
        """What has ended is begun once more."""
        work = self.one(which)
        if work.end is not None:
            row = self.does(self.stage.row(work.row))

            async def again() -> Any:
                return await self.stage.delegations.retry(row, by(row.source_id))

            parent = work.parent if work.parent is not None and work.parent.end is None else None
            self.begun(self.does(again()), self.twin(row.source_id, row.target_id, row.task), parent)

    @rule(count=st.integers(1, 3))
    def claim(self, count: int) -> None:
        """Who polls takes what nobody has in hand; nothing that has ended is among it."""
        rows = self.does(self.stage.handing.claim(self.polls, lease_seconds=LEASE_SECONDS, count=count))
        claimed = {row.id for row in rows} if isinstance(rows, list) else set()
        for work in (each for each in self.work if each.row.id in claimed):
            assert work.end is None
            work.had = True

    @precondition(lambda self: self.work)
    @rule(which=which, attempt=st.integers(1, 2))
    def give_back(self, which: int, attempt: int) -> None:
        """Who polls does not want it now."""
        self.does(self.stage.writer.release_claims(self.polls, {self.one(which).row.id: attempt}))

    @rule(most=st.integers(1, 3))
    def send(self, most: int) -> None:
        """The server sends what may go out, and nothing that has ended."""
        taken = self.does(self.stage.sends(replace_target(self.any_row, self.pushed), most)) if self.work else []
        for push in taken:
            for work in (each for each in self.work if each.row.id == push.activity_id):
                assert work.end is None
                work.flying = push.attempt
                self.pushes.append((work, push))

    @property
    def any_row(self) -> Delegation:
        """Some row of the organisation."""
        return self.work[0].row

    @precondition(lambda self: self.pushes)
    @rule(which=which, verdict=st.sampled_from(sorted(VERDICTS)))
    def settle(self, which: int, verdict: str) -> None:
        """A push has ended, perhaps one that nobody waits for any more."""
        work, push = self.pushes.pop(which % len(self.pushes))
        self.does(self.stage.pushing.record_result(work.row.org_id, push, VERDICTS[verdict], failure_counts=True))
        if work.flying == push.attempt and not work.is_gone:
            work.flying = 0
            work.hears(verdict, self.now)

    @precondition(lambda self: self.work)
    @rule(
        which=which, how=st.sampled_from(["reply", "message", "update", "decline", "no", "progress", "keep", "draft"])
    )
    def say(self, which: int, how: str) -> None:
        """Its target says something of it, early or late."""
        stage, work = self.stage, self.one(which)
        target, row = work.row.target_id, work.row
        handle = self.does(stage.handle(row))
        acts: dict[str, Any] = {
            "reply": lambda: stage.replies.reply(target, handle, WORDS, key=None),
            "message": lambda: said(stage, row.source_id, in_reply_to(target, row.id)),
            "update": lambda: stage.delegations.update(row, by(target), "completed", "done", None),
            "decline": lambda: stage.replies.decline(target, handle, "cannot"),
            "no": lambda: stage.delegations.update(row, by(target), "failed", None, "cannot"),
            "progress": lambda: stage.delegations.report_progress(row, by(target), ProgressReport("half")),
            "keep": lambda: stage.replies.keep_draft(target, row.id, "done", send=False),
            "draft": lambda: stage.replies.send_draft(target, row.id, None),
        }
        found = self.does(acts[how]())
        if work.is_gone and how not in ("update", "no", "progress"):
            assert isinstance(found, type)
        elif how == "progress":
            work.unsure_at = None
        elif how == "keep":
            work.draft = work.draft or work.end is None
        elif how in ("decline", "no"):
            work.ends("failed", "rejected")
        elif how != "draft" or work.draft:
            work.ends("completed")

    @precondition(lambda self: self.work)
    @rule(which=which)
    def cancel(self, which: int) -> None:
        """It is not wanted any more."""
        work = self.one(which)
        self.does(self.stage.delegations.cancel(work.row, by(work.row.source_id), "not wanted"))
        work.ends("cancelled", "cancelled")

    @precondition(lambda self: self.work)
    @rule(which=which, how=st.sampled_from(["hold", "take", "let_go"]))
    def wait_for_it(self, which: int, how: str) -> None:
        """Its caller waits, leaves, or takes the result: once at most."""
        work = self.one(which)
        row = self.does(self.stage.row(work.row))
        if how == "hold":
            assert bool(self.does(self.stage.delegations.hold_result(row, 30))) == (work.end is None)
        elif how == "let_go":
            self.does(self.stage.delegations.release_hold(row, row.wait_until))
        else:
            taken = self.does(self.stage.delegations.claim_result(row, row.wait_until))
            assert (taken.delivered == "") == (work.end is None)
            work.taken += taken.delivered == "here"
            assert work.taken <= 1

    @rule(seconds=st.sampled_from([1, 31, 61, 299, 901, 7200]))
    def wait(self, seconds: int) -> None:
        """Time passes, and what is due happens."""
        self.stage.world.clock.at += seconds * SECOND
        self.fire()

    @rule()
    def fire(self) -> None:
        """What is due happens, and what comes of that."""
        self.does(self.stage.fire())
        for _ in self.work:
            for each in self.work:
                each.falls_due(self.now)

    @precondition(lambda self: len(self.work) > 3)
    @rule(sure=st.integers(0, 3))
    def remove(self, sure: int) -> None:
        """Who is pushed to is removed, once in a while."""
        if sure == 3 and not self.is_removed:
            self.is_removed = True
            self.does(self.stage.removes(self.pushed))
            for each in self.work:
                each.is_gone = each.row.target_id == self.pushed

    @invariant()
    def the_store_says_what_the_model_says(self) -> None:
        """Each has come to what the model says, once, and nothing is left of it."""
        for work in self.work:
            self.look(work)
        self.keys = {key: each for key, each in self.keys.items() if each.end is None or each.end[0] != "failed"}

    def look(self, work: Work) -> None:
        """One delegation."""
        stage = self.stage
        row = self.does(stage.row(work.row))
        ended = int(work.end is not None)
        stands = (str(row.status), row.reason) if row.status.is_ended else None
        assert stands == work.end
        assert STATUS_RANK[row.status] >= work.rank
        work.rank = STATUS_RANK[row.status]
        assert row.open == 1 - ended and row.result == ("done" if row.status is DelegationStatus.COMPLETED else None)
        assert len(self.does(stage.ends(row))) == ended
        assert len(self.does(stage.results(row))) == ended
        assert len(self.does(stage.due(row))) == 1 - ended
        # What a removed workspace owes is on nobody's list, whatever it is.
        assert not ended or work.is_gone or self.does(stage.owed(row)) != "open"


def replace_target(row: Delegation, target_id: str) -> Delegation:
    """A row that names another target."""
    return replace(row, target_id=target_id)


def in_reply_to(sender: str, named: str) -> Any:
    """A plain message that names what it answers."""
    draft = draft_of(sender, "done", None)
    return replace(draft, message={**draft.message, "metadata": {"in_reply_to": named}})


async def said(stage: Stage, workspace_id: str, draft: Any) -> Any:
    """A plain message is sent, by the hands of the stage."""
    return await stage.writer.send(workspace_id, draft)
