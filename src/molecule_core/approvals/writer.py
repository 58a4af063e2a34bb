"""The hand that changes approvals, whoever asks: each verb is one command.

A command about an approval shares its group with nobody: decisions are rare, and each is made on what the one before
has left. Above: the edges. Below: steps, rules; the rows of messages.
"""

from collections.abc import Callable, Generator
from functools import partial
from typing import Any

import msgspec

from molecule_core.approvals import rules
from molecule_core.approvals.items import item_of
from molecule_core.approvals.model import (
    APPROVAL,
    Approval,
    Decider,
    Decision,
    Fact,
    Kind,
    Opened,
    Policies,
    Request,
    Said,
    Status,
    Usable,
    Verdict,
)
from molecule_core.approvals.policies import PolicyBook
from molecule_core.approvals.steps import CLOCK, SERVER, Course, Steps, row_of
from molecule_core.ground.clock import Clock, rfc3339
from molecule_core.ground.errors import MessageIdReused, MoleculeError, NotFound
from molecule_core.ground.ids import Ids
from molecule_core.ground.limits import Limits
from molecule_core.ground.refusals import (
    AlreadyDecided,
    ApprovalChanged,
    ApprovalEnded,
    ApprovalMovedOn,
    ApprovalUsed,
    NobodyAbove,
    NotApproved,
    NothingAsked,
    OwnApproval,
    TooManyApprovals,
    TooManyQuestions,
)
from molecule_core.store.database import Command, Event, Read, Several, Step, Store, WriteSet
from molecule_core.store.database import Decision as Deciding
from molecule_core.store.journal import org_key
from molecule_core.store.timers import no_timer
from molecule_core.wire.approvals import Grant, Judge, Party, PoliciesChanged, Rule, plain

_NOT_ABOVE = "it is not above any more"
POLICIES = "APPROVAL_POLICIES_UPDATED"


class ApprovalWriter:
    """Asks for approvals, decides, uses."""

    def __init__(self, store: Store, steps: Steps, book: PolicyBook, *, clock: Clock, ids: Ids, limits: Limits) -> None:
        self._store = store
        self._org = steps.org
        self._steps = steps
        self._book = book
        self._clock = clock
        self._ids = ids
        self._limits = limits

    # -- asking --------------------------------------------------------------------------------------------------------

    async def request(self, asked: Request) -> Opened:
        """A workspace asks for leave. What is there already under the same key, or by the same rule for exactly the
        same action, is the answer instead. Raises NotFound, WorkspaceRemoved, MessageIdReused, TooManyApprovals."""
        seat = self._org.living(asked.workspace_id)
        return await self._store.run(Command(seat.org_id, (), partial(self._requesting, asked), alone=True))

    def _requesting(self, asked: Request) -> Deciding[Opened]:
        seat, now = self._org.living(asked.workspace_id), self._clock.now()
        details = rules.canonical(asked.details)
        hashed = rules.action_hash(asked.action, details)
        content = rules.action_hash(hashed, rules.canonical([asked.reason, asked.cost, asked.task_id]))
        known = yield from self._known(asked, seat.org_id, hashed, content, now)
        if known is not None:
            return WriteSet(Opened(known, hit=True))
        opened = (yield Read("approvals_open_of", {"workspace_id": seat.id}))[0][0]
        if opened >= self._limits.approvals_open:
            raise TooManyApprovals(limit=self._limits.approvals_open)
        row = Approval(
            org_id=seat.org_id,
            id=self._ids.new(),
            workspace_id=seat.id,
            requester_name=seat.name,
            status=Status.PENDING,
            open=1,
            revision=1,
            rev=0,
            action=asked.action,
            reason=asked.reason,
            proposed=details,
            edited=None,
            action_hash=hashed,
            cost=asked.cost,
            task_id=asked.task_id,
            thread_id=asked.thread_id,
            source=asked.source,
            tool=asked.tool,
            risk=_json(asked.risk),
            holder_id=None,
            holder_name="",
            for_person=0,
            asker=None,
            messages=0,
            message_id=None,
            message_seq=None,
            question_seq=None,
            asked="[]",
            policy=_json(asked.policy),
            path="[]",
            decided=None,
            created_at=now,
            updated_at=now,
            expires_at=rules.expiry(asked.expires_in, now, self._limits),
            level_at=None,
            settled_at=None,
            used_at=None,
        )
        course = self._steps.course(row, is_new=True)
        course.hop("requested", Party(Kind.WORKSPACE.value, seat.id, seat.name), note=asked.reason)
        if asked.key is not None:
            key = {"workspace_id": seat.id, "key": asked.key, "approval_id": row.id, "content_hash": content}
            course.write(("keep_approval_key", key))
        yield from self._steps.climb(course, rules.REQUESTED)
        done = course.written(self._steps.counted)
        return WriteSet(Opened(done.answer), done.writes, done.events, done.rings, done.then)

    def _known(
        self, asked: Request, org_id: str, hashed: str, content: str, now: int
    ) -> Generator[Step, Any, Approval | None]:
        since = now - self._limits.approval_use_seconds * 1_000_000
        own = {"workspace_id": asked.workspace_id}
        keyed, same = yield Several(
            [
                Read("approval_by_key", {**own, "key": asked.key or ""}),
                Read("approval_open_same", {**own, "action_hash": hashed, "usable_since": since}),
            ]
        )
        if asked.key is not None and keyed:
            if keyed[0][0] != content:
                raise MessageIdReused(message_id=asked.key)
            return (yield from row_of(org_id, keyed[0][1]))
        return Approval.of(same[0]) if same and asked.source == "rule" else None

    # -- deciding ------------------------------------------------------------------------------------------------------

    async def decide(self, row: Approval, said: Said) -> Approval:
        """Somebody decides. The same by the same again changes nothing. Raises NotFound, OwnApproval, AlreadyDecided,
        ApprovalMovedOn, ApprovalChanged, NobodyAbove, TooManyQuestions."""
        return await self._run(row, partial(self._deciding, said))

    def _deciding(self, said: Said, row: Approval) -> Deciding[Approval]:
        decision, by = said.wish.decision, said.by
        verdict = rules.judge(row.stands(is_above=self._is_above(row)), Decider(Kind(by.kind), by.id), said.wish)
        edited = None if said.details is None else rules.canonical(said.details)
        if verdict is Verdict.REPEATED and (edited is None or edited == row.effective):
            return WriteSet(row)
        self._check(row, verdict)
        course = self._steps.course(row)
        if decision is Decision.ESCALATE:
            holder = Party(Kind.WORKSPACE.value, row.holder_id or "", row.holder_name)
            course.hop("escalated", by, holder, note=said.note)
            yield from self._steps.let_go(course, "it was passed on", by=by.id)
            yield from self._steps.climb(course, rules.ESCALATED)
        elif decision is Decision.MORE_INFO:
            if sum(hop.what == "info_requested" for hop in row.hops) >= self._limits.approval_questions:
                raise TooManyQuestions(limit=self._limits.approval_questions, approval=_shown(row))
            yield from self._steps.question(course, by, said.note)
        else:
            self._edit(course, by, edited)
            judge = Judge(by.kind, by.id, by.name, said.session)
            yield from self._steps.end(course, rules.FACT_OF[decision], judge, note=said.note)
        return course.written(self._steps.counted)

    def _edit(self, course: Course, by: Party, edited: str | None) -> None:
        row = course.row
        if edited is None or edited == row.effective:
            return
        hashed = rules.action_hash(row.action, edited)
        course.put(edited=edited, action_hash=hashed, revision=row.revision + 1)
        course.hop("edited", by)

    def _check(self, row: Approval, verdict: Verdict) -> None:
        """Raises what a verdict means."""
        shown = _shown(row)
        if verdict is Verdict.OWN:
            raise OwnApproval
        if verdict is Verdict.STRANGER:
            raise NotFound(what="approval")
        if verdict in (Verdict.DECIDED, Verdict.REPEATED):
            raise AlreadyDecided(decided=_decided(row), approval=shown)
        if verdict is Verdict.MOVED_ON:
            raise ApprovalMovedOn(what="somebody else is asked now", approval=shown)
        if verdict is Verdict.WAITS:
            raise ApprovalMovedOn(what="a question about it is open; it can be approved or denied", approval=shown)
        if verdict is Verdict.CHANGED:
            raise ApprovalChanged(revision=row.revision, action_hash=row.action_hash, approval=shown)
        if verdict is Verdict.NOWHERE:
            raise NobodyAbove(approval=shown)

    # -- the requester -------------------------------------------------------------------------------------------------

    async def answer(self, row: Approval, by: Party, text: str, details: dict[str, Any] | None) -> Approval:
        """The requester answers a question. Raises NotFound, NothingAsked."""

        def decide(known: Approval) -> Deciding[Approval]:
            if rules.TABLE[Fact.ANSWER, known.status] is None:
                raise NothingAsked(what=f"it is {known.status}", approval=_shown(known))
            course = self._steps.course(known)
            yield from self._steps.answered(course, by, text, None if details is None else rules.canonical(details))
            return course.written(self._steps.counted)

        return await self._run(row, decide)

    async def withdraw(self, row: Approval, by: Party, note: str = "") -> Approval:
        """It is not wanted any more. Again changes nothing. Raises NotFound, ApprovalEnded."""

        def decide(known: Approval) -> Deciding[Approval]:
            if known.status is Status.WITHDRAWN:
                return WriteSet(known)
            if known.status.ended:
                raise ApprovalEnded(status=known.status.value, approval=_shown(known))
            course = self._steps.course(known)
            yield from self._steps.end(course, Fact.WITHDRAW, Judge(by.kind, by.id, by.name), note=note)
            return course.written(self._steps.counted)

        return await self._run(row, decide)

    async def use(self, row: Approval, action_hash: str, key: str | None = None, *, is_new: bool = False) -> Approval:
        """The requester is about to act: once, also if it says it twice under one `key`, unless that does not tell any
        more what was done under it (`is_new`). Raises NotFound, ApprovalUsed, ApprovalChanged, NotApproved."""

        def decide(known: Approval) -> Deciding[Approval]:
            use = {"workspace_id": known.workspace_id, "key": key, "content_hash": action_hash}
            before = () if key is None or is_new else (yield Read("approval_use", use))
            now = self._clock.now()
            if before and rules.is_repeat(before[0][0], now, self._limits):
                return WriteSet(known)
            found = rules.usable(known, action_hash, now, self._limits)
            shown = _shown(known)
            if found is Usable.NOT_APPROVED:
                raise NotApproved(why=f"it is {known.status}", approval=shown)
            if found is Usable.LAPSED:
                raise NotApproved(why="it was approved too long ago; ask anew", approval=shown)
            if found is Usable.CHANGED:
                raise ApprovalChanged(revision=known.revision, action_hash=known.action_hash, approval=shown)
            if found is Usable.USED:  # control: approval-used-check
                raise ApprovalUsed(used_at=rfc3339(known.used_at or 0), approval=shown)
            course = self._steps.course(known)
            if key is not None:
                course.write(("keep_approval_use", {**use, "approval_id": known.id}))
            self._steps.used(course, Party(Kind.WORKSPACE.value, known.workspace_id, known.requester_name))
            return course.written(self._steps.counted)

        return await self._run(row, decide)

    async def went_through(self, workspace_id: str, key: str, action_hash: str) -> bool:
        """Whether a workspace has used an approval for exactly this under this name, and lately: its repetition does
        nothing more."""
        wish = {"workspace_id": workspace_id, "key": key, "content_hash": action_hash}
        rows = await self._store.rows("approval_use", wish)
        return bool(rows) and rules.is_repeat(rows[0][0], self._clock.now(), self._limits)

    # -- time ----------------------------------------------------------------------------------------------------------

    async def on_due(self, key: str) -> None:
        """An approval may have expired, a level's time may be over, or a seat may be gone; a timer has gone off."""
        org_id, _, approval_id = key.partition("/")

        def decide() -> Deciding[None]:
            row = yield from row_of(org_id, approval_id)
            if row is None or not row.open:
                return WriteSet(None, [no_timer(APPROVAL, key)])
            course = self._steps.course(row)
            yield from self._looked_after(course)
            done = course.written(self._steps.counted)
            return WriteSet(None, done.writes, done.events, done.rings, done.then)

        await self._store.run(Command(org_id, (), decide, alone=True))

    def _looked_after(self, course: Course) -> Generator[Step, Any, None]:
        row, now = course.row, course.now
        if self._steps.living(row.workspace_id) is None:
            judge = Judge(SERVER.kind, SERVER.id, SERVER.name)
            yield from self._steps.end(course, Fact.WITHDRAW, judge, note="its workspace was removed")
        elif now >= row.expires_at:  # control: approval-expiry
            yield from self._steps.expire(course)
        elif row.holder_id is not None and row.status is Status.PENDING:
            holder = Party(Kind.WORKSPACE.value, row.holder_id, row.holder_name)
            if not self._is_above(row):
                course.hop("escalated", SERVER, holder, why=_NOT_ABOVE)
                yield from self._steps.climb(course, rules.ESCALATED, _NOT_ABOVE)
            elif row.level_at is not None and now >= row.level_at:
                why = f"it has not decided within {self._limits.approval_level_seconds} s"
                course.hop("escalated", CLOCK, holder, why=why)
                yield from self._steps.climb(course, rules.ESCALATED, "its time is over")

    def _is_above(self, row: Approval) -> bool:
        """Whether whose turn it is stands above the requester, as the tree is now."""
        return row.holder_id in [each.id for each in self._steps.above(row)]

    # -- what is set ---------------------------------------------------------------------------------------------------

    async def set_policies(
        self, workspace_id: str, by: str, *, needs: list[Rule] | None = None, grants: list[Grant] | None = None
    ) -> Policies:
        """What a workspace needs leave for, or decides by itself, is set from now on; None: as it is. Raises NotFound,
        WorkspaceRemoved."""
        seat = self._org.living(workspace_id)

        def decide() -> Deciding[Policies]:
            yield from ()
            before = self._book.of(seat.id)
            after = Policies(
                before.rules if needs is None else tuple(needs), before.grants if grants is None else tuple(grants)
            )
            row = {
                "workspace_id": seat.id,
                "org_id": seat.org_id,
                "rules": _json(after.rules),
                "grants": _json(after.grants),
                "updated_at": self._clock.now(),
                "updated_by": by,
            }
            told = msgspec.json.encode(PoliciesChanged(len(after.rules), len(after.grants)))
            event = Event(POLICIES, seat.id, "approval_policies", seat.id, 0, told, self._clock.now())
            put = partial(self._book.put, seat.id, after)
            return WriteSet(after, [("save_policies", row)], [event], (org_key(seat.org_id),), put)

        return await self._store.run(Command(seat.org_id, (), decide, alone=True))

    # -- steps ---------------------------------------------------------------------------------------------------------

    async def _run(self, row: Approval, decide: Callable[[Approval], Deciding[Approval]]) -> Approval:
        """One command about an approval, as it stands then. If its time is over, that comes first: the timer may be
        late, and whoever acts meanwhile must find what it would have left."""

        def deciding() -> Deciding[Approval]:
            known = yield from row_of(row.org_id, row.id)  # control: decision-reads-again
            if known is None:  # retention has taken it
                raise NotFound(what="approval")
            if rules.is_over(known, self._clock.now()):
                return (yield from self._expiring(known, decide))
            return (yield from decide(known))

        return await self._store.run(Command(row.org_id, (), deciding, alone=True))

    def _expiring(self, row: Approval, decide: Callable[[Approval], Deciding[Approval]]) -> Deciding[Approval]:
        """It expires, and who wanted something of it hears what it would of one that has expired before."""
        course = self._steps.course(row)
        yield from self._steps.expire(course)
        written = course.written(self._steps.counted)
        try:
            yield from decide(course.row)  # nothing that has expired changes any more
        except MoleculeError as refusal:
            written.refusal = refusal
        return written


def _shown(row: Approval) -> Any:
    return plain(item_of(row))


def _decided(row: Approval) -> str:
    said = row.ruling
    if said is None:
        return row.status.value
    return f"{row.status.value} by {said.by.name or said.by.kind} at {said.at}"


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
