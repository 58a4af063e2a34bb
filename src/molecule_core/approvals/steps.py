"""Steps without decisions: what is written, told and sent when an approval moves, and when it ends.

Above: hearing and the writer of this slice. Below: rules, items, letters; the rows that messages keep for approvals.
"""

from collections.abc import Generator
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from molecule_core.approvals import rules
from molecule_core.approvals.items import item_of
from molecule_core.approvals.letters import decision_letter, ending_letter, question_letter, request_letter
from molecule_core.approvals.model import APPROVAL, Above, Approval, Fact, Kind, Status, Turn, task_key, wake_key
from molecule_core.approvals.policies import PolicyBook
from molecule_core.ground.clock import SECOND, Clock, rfc3339
from molecule_core.ground.limits import Limits
from molecule_core.ground.metrics import ApprovalMeter
from molecule_core.messages.asking import Asking, Letter
from molecule_core.messages.obligations import Facts
from molecule_core.org.model import Status as Seat
from molecule_core.org.model import Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Event, Followed, Read, Step, WriteSet
from molecule_core.store.journal import org_key
from molecule_core.store.queries import Params
from molecule_core.store.timers import TIMERS, no_timer, timer
from molecule_core.wire.approvals import Hop, Judge, Party, Policy, Ruling

Statement = tuple[str, Params]
SERVER = Party(Kind.SERVER.value, "server", "Molecule")
CLOCK = Party(Kind.CLOCK.value, "clock", "the clock")
A_PERSON = Party(Kind.PERSON.value, "", "")


def row_of(org_id: str, approval_id: str) -> Generator[Step, Any, Approval | None]:
    """An approval as it stands."""
    rows = yield Read("approval", {"org_id": org_id, "id": approval_id})
    return Approval.of(rows[0]) if rows else None


class Course:
    """One change of an approval on its way: its row as it will be, and what is written and told beside it. `is_orphan`:
    who asked is removed; so it is looked at at once still, whatever somebody has said of it meanwhile."""

    def __init__(self, row: Approval, now: int, *, is_new: bool = False, is_orphan: bool = False) -> None:
        self.row = row
        self.now = now
        self.ended = False
        self._is_new = is_new
        self._is_orphan = is_orphan
        self._writes = list[Statement]()
        self._events = list[Event]()
        self._rings: tuple[str, ...] = ()

    def put(self, **changes: Any) -> None:
        """The row becomes this."""
        self.row = replace(self.row, **changes)

    def hop(self, what: str, by: Party, holder: Party | None = None, *, why: str = "", note: str = "") -> None:
        """Something happened."""
        line = Hop(rfc3339(self.now), what, by, holder, why, note)
        self.put(path=_json([*self.row.hops, line]))

    def policy(self, kind: str, text: str) -> None:
        """Why it goes as it does."""
        self.put(policy=_json([*self.row.policies, Policy(kind, text)]))

    def add(self, facts: Facts) -> None:
        """What messages change with it."""
        self._writes += facts.writes
        self._events += facts.events
        self._rings += facts.rings

    def write(self, *statements: Statement) -> None:
        """And this."""
        self._writes += statements

    def tell(self, event: str, *also: str | None) -> None:
        """All who see it are told how it stands now: persons and the requester, and the workspaces `also`."""
        self.put(rev=self.row.rev + 1, updated_at=self.now)
        payload = msgspec.json.encode(item_of(self.row))
        for each in dict.fromkeys((self.row.workspace_id, *also)):
            if each is not None:
                # control: approval-event
                self._events.append(Event(event, each, APPROVAL, self.row.id, self.row.rev, payload, self.now))

    def followed(self, counted: ApprovalMeter) -> Followed:
        """All of it, as a follower adds it to a command."""
        due = rules.due_of(self.row)
        due = self.now if due is not None and self._is_orphan else due
        look: Statement = no_timer(APPROVAL, self.row.key) if due is None else timer(APPROVAL, self.row.key, due)
        save: Statement = ("insert_approval" if self._is_new else "save_approval", self.row)
        rings = (wake_key(self.row.org_id, self.row.id), org_key(self.row.org_id), TIMERS, *self._rings)
        rings += () if self.row.task_id is None else (task_key(self.row.org_id, self.row.task_id),)
        then = partial(counted.ended, self.row.status.value) if self.ended else None
        return Followed([save, look, *self._writes], self._events, rings, then=then)

    def written(self, counted: ApprovalMeter) -> WriteSet[Approval]:
        """All of it, as a command."""
        all_of_it = self.followed(counted)
        return WriteSet(self.row, [*all_of_it.writes], [*all_of_it.events], all_of_it.rings, all_of_it.then)


class Steps:
    """Moves approvals."""

    def __init__(
        self,
        org: OrgReader,
        asking: Asking,
        book: PolicyBook,
        counted: ApprovalMeter,
        *,
        clock: Clock,
        limits: Limits,
    ) -> None:
        self.org = org
        self.counted = counted
        self._asking = asking
        self._book = book
        self._clock = clock
        self._limits = limits

    def course(self, row: Approval, *, is_new: bool = False) -> Course:
        """A change begins."""
        is_orphan = self.living(row.workspace_id) is None
        return Course(row, self._clock.now(), is_new=is_new, is_orphan=is_orphan)

    def living(self, workspace_id: str | None) -> Workspace | None:
        """A seat, if it is not removed."""
        seat = None if workspace_id is None else self.org.workspace(workspace_id)
        return None if seat is None or seat.removed else seat

    def above(self, row: Approval) -> list[Above]:
        """The workspaces above the requester as the tree is now, the nearest first."""
        found, seat, now = list[Above](), self.org.workspace(row.workspace_id), rfc3339(self._clock.now())
        while seat is not None and seat.parent_id is not None:
            seat = self.org.workspace(seat.parent_id)
            if seat is not None:
                why_not = rules.WHY_NOT.get(Seat.REMOVED if seat.removed else seat.status, "")
                standing = rules.standing(self._book.of(seat.id).grants, row.action, row.cost, now)
                found.append(Above(seat.id, seat.name, why_not, seat.parent_id is None, standing))
        return found

    # -- on the way ----------------------------------------------------------------------------------------------------

    def climb(self, course: Course, event: str, why: str = "") -> Generator[Step, Any, None]:
        """The next one is asked: a workspace with its message, a person by being told; or one decides by its standing
        authority. Whoever was asked before is not asked any more."""
        before = course.row.holder_id
        yield from self.let_go(course, why or "somebody else is asked now")
        turn = rules.route(self.above(course.row), course.row.had)
        for each, reason in turn.skipped:
            course.hop("escalated", SERVER, _seat(each), why=reason)  # control: escalation-hop
        for_person = int(bool(course.row.for_person) or turn.for_person)
        course.put(status=Status.PENDING, holder_id=None, holder_name="", level_at=None, for_person=for_person)
        if turn.holder is not None and not turn.decides:
            yield from self._asks(course, turn, "")
        elif turn.holder is None:
            course.hop("asked", SERVER, A_PERSON)
        course.tell(event, before, course.row.holder_id)
        if turn.holder is not None and turn.decides:
            course.policy("authority", f"{turn.holder.name} decides such actions by its standing authority")
            by = Judge(Kind.RULE.value, turn.holder.id, turn.holder.name)
            yield from self.end(course, Fact.APPROVE, by, note="", told=event != rules.REQUESTED)

    def _asks(self, course: Course, turn: Turn, answer: str) -> Generator[Step, Any, None]:
        if turn.holder is None:
            return
        holder = turn.holder
        course.put(
            holder_id=holder.id,
            holder_name=holder.name,
            level_at=course.now + self._limits.approval_level_seconds * SECOND,
            asked=_json(list(dict.fromkeys((*course.row.had, holder.id)))),
        )
        why = "a person is asked at the same time" if course.row.for_person else ""
        course.hop("asked", SERVER, _seat(holder), why=why)
        course.write(
            (
                "note_holder",
                {"workspace_id": holder.id, "approval_id": course.row.id, "created_at": course.row.created_at},
            )
        )
        seat = self.living(holder.id)
        if seat is not None:
            letter = request_letter(course.row, course.row.messages + 1, answer)
            logged = yield from self._send(course, seat, letter)
            course.put(message_id=letter.id, message_seq=logged)

    def _send(self, course: Course, seat: Workspace, letter: Letter) -> Generator[Step, Any, int]:
        logged = yield from self._asking.row(seat, letter)
        course.add(logged.facts)
        course.put(messages=course.row.messages + 1)
        return logged.seq

    def let_go(self, course: Course, why: str, *, by: str | None = None) -> Generator[Step, Any, None]:
        """The holder's message is done with, and an open question too. `by`: the workspace that says so itself."""
        row = course.row
        holder, requester = self.living(row.holder_id), self.living(row.workspace_id)
        if holder is not None and row.message_seq is not None:
            course.add((yield from self._asking.over(holder, row.message_seq, why, answered=by == holder.id)))
        if requester is not None and row.question_seq is not None:
            course.add((yield from self._asking.over(requester, row.question_seq, why, answered=by == requester.id)))
        course.put(message_seq=None, question_seq=None, asker=None)

    def question(self, course: Course, by: Party, note: str) -> Generator[Step, Any, None]:
        """Who is to decide wants to know more: the requester is asked, and no level's time runs meanwhile."""
        row = course.row
        holder = self.living(row.holder_id)
        if holder is not None and row.message_seq is not None and by.id == holder.id:
            course.add((yield from self._asking.over(holder, row.message_seq, "asked for more", answered=True)))
            course.put(message_seq=None)
        course.put(status=Status.INFO, asker=_json(by), level_at=None)  # control: question-stops-clock
        course.put(for_person=int(bool(row.for_person) or by.kind == Kind.PERSON.value))
        course.hop("info_requested", by, Party(Kind.REQUESTER.value, row.workspace_id, row.requester_name), note=note)
        requester = self.living(row.workspace_id)
        if requester is not None:
            letter = question_letter(course.row, row.messages + 1, by, note)
            course.put(question_seq=(yield from self._send(course, requester, letter)))
        course.tell(rules.INFO_REQUESTED, row.holder_id)

    def answered(self, course: Course, by: Party, text: str, details: str | None) -> Generator[Step, Any, None]:
        """The requester has said more, and perhaps wants something else now: it goes back to who asked."""
        row = course.row
        if details is not None:
            course.put(proposed=details, edited=None, action_hash=rules.action_hash(row.action, details))
        course.hop("answered", by, row.asking, note=text)
        course.put(status=Status.PENDING, revision=row.revision + 1)
        holder = next((each for each in self.above(course.row) if each.id == row.holder_id and not each.why_not), None)
        yield from self.let_go(course, "it is asked anew", by=row.workspace_id)
        if row.holder_id is not None and holder is None:
            yield from self.climb(course, rules.ANSWERED)
            return
        if holder is not None:
            yield from self._asks(course, Turn(holder, bool(row.for_person), ()), text)
        course.tell(rules.ANSWERED, row.holder_id)

    # -- ends ----------------------------------------------------------------------------------------------------------

    def end(self, course: Course, fact: Fact, by: Judge, *, note: str, told: bool = True) -> Generator[Step, Any, None]:
        """It is decided, has expired or is withdrawn. `told`: the requester gets a message, unless it has done so
        itself; else it reads the answer to its own request. Those who had it before are told too, once."""
        before, row = course.row.holder_id, course.row
        found = rules.TABLE[fact, row.status]
        if found is None:
            raise LookupError(f"{fact} means nothing to an approval that is {row.status}")
        yield from self.let_go(course, found.status.value, by=by.id if by.kind == Kind.WORKSPACE.value else None)
        party = Party(by.kind, by.id, by.name)
        decision = {Fact.APPROVE: "approve", Fact.DENY: "deny", Fact.EXPIRE: "deny"}.get(fact)
        at, is_edited = rfc3339(course.now), course.row.edited is not None
        ruling = decision and Ruling(decision, by, at, note, row.revision, row.action_hash, is_edited)
        course.hop(found.status.value, party, note=note)
        course.put(
            status=found.status,
            open=0,
            holder_id=None,
            holder_name="",
            level_at=None,
            settled_at=course.now,
            decided=_json(ruling) if ruling else None,
        )
        course.ended = True
        requester = self.living(row.workspace_id)
        if told and requester is not None and by.id != requester.id:  # control: requester-informed
            letter = decision_letter(course.row, course.row.messages + 1, party, note)
            yield from self._send(course, requester, letter)
        for each in row.had:
            seat = self.living(each)
            if seat is not None and each not in (before, by.id):
                yield from self._send(course, seat, ending_letter(course.row, course.row.messages + 1, party))
        course.tell(found.event, before)

    def expire(self, course: Course) -> Generator[Step, Any, None]:
        """Its time is over."""
        course.policy("deadline", "nobody has decided in time, which means no")
        yield from self.end(course, Fact.EXPIRE, Judge(CLOCK.kind, CLOCK.id, CLOCK.name), note="")

    def used(self, course: Course, by: Party) -> None:
        """It is used up."""
        course.put(used_at=course.now)
        course.hop("used", by)
        course.tell(rules.USED)


def _seat(each: Above) -> Party:
    return Party(Kind.WORKSPACE.value, each.id, each.name)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
