"""Turns state transitions of approvals into writes, events and messages. Contains no decisions."""

from collections.abc import Generator
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from molecule_core.approvals import rules
from molecule_core.approvals.budget_requests import BUDGET_SOURCE, decision_of, find_position
from molecule_core.approvals.model import (
    APPROVAL,
    HOST_SOURCE,
    RELAY_SOURCE,
    Approval,
    ApprovalTrigger,
    Approver,
    NextApprover,
    PartyKind,
    approval_wake_key,
    task_wake_key,
)
from molecule_core.approvals.notices import (
    closed_notice,
    decision_notice,
    question_notice,
    relayed_decision_notice,
    request_notice,
)
from molecule_core.approvals.policies import PolicyCache
from molecule_core.approvals.review_requests import (
    REVIEW_SOURCE,
    decision_event,
    details_of,
)
from molecule_core.approvals.serializers import to_item
from molecule_core.budgets.transitions import BudgetRaises
from molecule_core.common.clock import SECOND, Clock, to_rfc3339
from molecule_core.common.limits import Limits
from molecule_core.common.metrics import ApprovalMeter
from molecule_core.common.text import encode_json
from molecule_core.messages.approval_messages import ApprovalMessage, ApprovalMessages
from molecule_core.messages.obligations.model import reply_due_at
from molecule_core.org.model import Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.org.rules import ancestors
from molecule_core.store.database import JournalEvent, ReadQuery, Statement, StepRequest, WriteSet
from molecule_core.store.journal import org_key
from molecule_core.store.timers import TIMERS_KEY, cancel_timer, set_timer
from molecule_core.wire.schemas.approvals import (
    ApprovalDecision,
    ApprovalHistoryEntry,
    ApprovalStatus,
    DecidedBy,
    Party,
    PolicyReason,
)

SERVER_PARTY = Party(PartyKind.SERVER.value, "server", "Molecule")
CLOCK_PARTY = Party(PartyKind.CLOCK.value, "clock", "the clock")
ANY_PERSON = Party(PartyKind.PERSON.value, "", "")


def load_approval(org_id: str, approval_id: str) -> Generator[StepRequest, Any, Approval | None]:
    """Read an approval, or None."""
    rows = yield ReadQuery("approval", {"org_id": org_id, "id": approval_id})
    return Approval.from_row(rows[0]) if rows else None


class ApprovalUnitOfWork:
    """A change of an approval in progress: its new row, and the writes and events that belong to it.

    `is_orphan`: the requester is removed, so the approval must be checked at once whatever else changes."""

    def __init__(self, row: Approval, now: int, *, is_new: bool = False, is_orphan: bool = False) -> None:
        self.row = row
        self.now = now
        self.is_ended = False
        self._is_new = is_new
        self._is_orphan = is_orphan
        self._changes = WriteSet(None)

    def update(self, **changes: Any) -> None:
        """Change columns of the row."""
        self.row = replace(self.row, **changes)

    def add_history(self, what: str, by: Party, holder: Party | None = None, *, why: str = "", note: str = "") -> None:
        """Append an entry to the history."""
        entry = ApprovalHistoryEntry(to_rfc3339(self.now), what, by, holder, why, note)
        self.update(path=encode_json([*self.row.history, entry]))

    def add_policy(self, kind: str, text: str) -> None:
        """Append a reason why the approval is handled as it is."""
        self.update(policy=encode_json([*self.row.policies, PolicyReason(kind, text)]))

    def add_changes(self, changes: WriteSet[object]) -> None:
        """Add changes of messages."""
        self._changes += changes

    def write(self, *statements: Statement) -> None:
        """Add statements."""
        self._changes += WriteSet(None, statements)

    def emit(self, event: str, *workspace_ids: str | None) -> None:
        """Emit the current state to persons, the requester and these workspaces, as a new `rev`."""
        self.update(rev=self.row.rev + 1, updated_at=self.now)
        payload = msgspec.json.encode(to_item(self.row))
        for each in dict.fromkeys((self.row.workspace_id, *workspace_ids)):
            if each is not None:
                journal_event = JournalEvent(event, each, APPROVAL, self.row.id, self.row.rev, payload, self.now)
                self._changes += WriteSet(None, events=[journal_event])  # control: approval-event

    def to_write_set(self, meter: ApprovalMeter) -> WriteSet[Approval]:
        """Return everything, with the new row."""
        due = rules.next_check_at(self.row)
        due = self.now if due is not None and self._is_orphan else due
        timer_write: Statement = (
            cancel_timer(APPROVAL, self.row.key) if due is None else set_timer(APPROVAL, self.row.key, due)
        )
        save_write: Statement = ("insert_approval" if self._is_new else "save_approval", self.row)
        notify = (approval_wake_key(self.row.org_id, self.row.id), org_key(self.row.org_id), TIMERS_KEY)
        task_keys = () if self.row.task_id is None else (task_wake_key(self.row.org_id, self.row.task_id),)
        after_commit = partial(meter.count_end, self.row.status.value) if self.is_ended else None
        saved = WriteSet(self.row, [save_write, timer_write], notify=notify + task_keys, after_commit=after_commit)
        return saved + self._changes


class ApprovalTransitions:
    """Transitions of approvals."""

    def __init__(
        self,
        org: OrgReader,
        approval_messages: ApprovalMessages,
        policy_cache: PolicyCache,
        budget_raises: BudgetRaises,
        meter: ApprovalMeter,
        *,
        clock: Clock,
        limits: Limits,
    ) -> None:
        self.org = org
        self.meter = meter
        self._approval_messages = approval_messages
        self._policy_cache = policy_cache
        self._budget_raises = budget_raises
        self._clock = clock
        self._limits = limits

    def unit_of_work(self, row: Approval, *, is_new: bool = False) -> ApprovalUnitOfWork:
        """Begin a change of an approval."""
        is_orphan = self.active_workspace(row.workspace_id) is None
        return ApprovalUnitOfWork(row, self._clock.now(), is_new=is_new, is_orphan=is_orphan)

    def active_workspace(self, workspace_id: str | None) -> Workspace | None:
        """Return a workspace, or None if it is unknown or removed."""
        workspace = None if workspace_id is None else self.org.workspace(workspace_id)
        return None if workspace is None or workspace.removed else workspace

    def approvers(self, row: Approval) -> list[Approver]:
        """Return the workspaces that are above the requester now, nearest first; none if only people may decide."""
        if row.source == BUDGET_SOURCE:
            return []
        if row.source == REVIEW_SOURCE:
            return self._reviewers(row)
        found, workspace, now = list[Approver](), self.org.workspace(row.workspace_id), to_rfc3339(self._clock.now())
        while workspace is not None and workspace.parent_id is not None:
            workspace = self.org.workspace(workspace.parent_id)
            if workspace is not None:
                unreachable_reason = rules.unreachable_reason(workspace, self._clock.now())
                authority = rules.check_authority(
                    self._policy_cache.policies_of(workspace.id).grants, row.action, row.cost, now
                )
                found.append(
                    Approver(workspace.id, workspace.name, unreachable_reason, workspace.parent_id is None, authority)
                )
        return found

    def _reviewers(self, row: Approval) -> list[Approver]:
        """Return the workspace that reviews an answer, unless it cannot any more; none if a person does.

        No standing authority passes an answer, and an agent that is offline is waited for."""
        workspace = self.active_workspace(details_of(row).reviewer_id)
        if workspace is None or any(each.id == row.workspace_id for each in ancestors(self.org, workspace)):
            return []
        return [Approver(workspace.id, workspace.name, "", is_root=False)]

    # -- escalation and questions --------------------------------------------------------------------------------------

    def escalate(self, uow: ApprovalUnitOfWork, event: str, why: str = "") -> Generator[StepRequest, Any, None]:
        """Ask the next approver by a message, or a person by the event, or approve by an approver's authority grants.

        The previous approver's message is closed."""
        before = uow.row.holder_id
        yield from self.cancel_messages(uow, why or "another approver is asked now")
        next_approver = rules.next_approver(self.approvers(uow.row), uow.row.asked_ids)
        for each, reason in next_approver.skipped:
            uow.add_history("escalated", SERVER_PARTY, _approver_party(each), why=reason)  # control: escalation-hop
        for_person = int(bool(uow.row.for_person) or next_approver.for_person)
        uow.update(status=ApprovalStatus.PENDING, holder_id=None, holder_name="", level_at=None, for_person=for_person)
        if next_approver.approver is not None and not next_approver.auto_approves:
            yield from self._ask_approver(uow, next_approver, "")
        elif next_approver.approver is None:
            uow.add_history("asked", SERVER_PARTY, ANY_PERSON)
        uow.emit(event, before, uow.row.holder_id)
        if next_approver.approver is not None and next_approver.auto_approves:
            uow.add_policy("authority", f"{next_approver.approver.name} decides such actions by its standing authority")
            by = DecidedBy(PartyKind.RULE.value, next_approver.approver.id, next_approver.approver.name)
            yield from self.close(uow, ApprovalTrigger.APPROVE, by, note="", notify_requester=event != rules.REQUESTED)

    def _ask_approver(
        self, uow: ApprovalUnitOfWork, next_approver: NextApprover, answer: str
    ) -> Generator[StepRequest, Any, None]:
        if next_approver.approver is None:
            return
        holder = next_approver.approver
        uow.update(
            holder_id=holder.id,
            holder_name=holder.name,
            level_at=self._level_end(uow, holder),
            asked=encode_json(list(dict.fromkeys((*uow.row.asked_ids, holder.id)))),
        )
        why = "a person is asked at the same time" if uow.row.for_person else ""
        uow.add_history("asked", SERVER_PARTY, _approver_party(holder), why=why)
        uow.write(
            (
                "record_approver",
                {"workspace_id": holder.id, "approval_id": uow.row.id, "created_at": uow.row.created_at},
            )
        )
        workspace = self.active_workspace(holder.id)
        if workspace is not None:
            notice = request_notice(uow.row, uow.row.messages + 1, answer)
            seq = yield from self._send_notice(uow, workspace, notice)
            uow.update(message_id=notice.id, message_seq=seq)

    def _level_end(self, uow: ApprovalUnitOfWork, holder: Approver) -> int | None:
        """Return when an approver's time is over; a reviewer has the time for a reply."""
        workspace = self.active_workspace(holder.id)
        if uow.row.source == REVIEW_SOURCE and workspace is not None:
            return reply_due_at(workspace, self._limits, uow.now)
        return uow.now + self._limits.approval_level_seconds * SECOND

    def _send_notice(
        self, uow: ApprovalUnitOfWork, workspace: Workspace, notice: ApprovalMessage
    ) -> Generator[StepRequest, Any, int]:
        inserted = yield from self._approval_messages.insert_message(workspace, notice)
        uow.add_changes(inserted)
        uow.update(messages=uow.row.messages + 1)
        return inserted.result.seq

    def cancel_messages(
        self, uow: ApprovalUnitOfWork, why: str, *, by: str | None = None
    ) -> Generator[StepRequest, Any, None]:
        """Close the approver's message and an open question. `by`: the workspace that caused this itself."""
        row = uow.row
        holder, requester = self.active_workspace(row.holder_id), self.active_workspace(row.workspace_id)
        if holder is not None and row.message_seq is not None:
            uow.add_changes(
                (
                    yield from self._approval_messages.close_message(
                        holder, row.message_seq, why, answered=by == holder.id
                    )
                )
            )
        if requester is not None and row.question_seq is not None:
            uow.add_changes(
                (
                    yield from self._approval_messages.close_message(
                        requester, row.question_seq, why, answered=by == requester.id
                    )
                )
            )
        uow.update(message_seq=None, question_seq=None, asker=None)

    def ask_question(self, uow: ApprovalUnitOfWork, by: Party, note: str) -> Generator[StepRequest, Any, None]:
        """Send the approver's question to the requester; the level's deadline is suspended meanwhile."""
        row = uow.row
        holder = self.active_workspace(row.holder_id)
        if holder is not None and row.message_seq is not None and by.id == holder.id:
            uow.add_changes(
                (
                    yield from self._approval_messages.close_message(
                        holder, row.message_seq, "more information was requested", answered=True
                    )
                )
            )
            uow.update(message_seq=None)
        uow.update(status=ApprovalStatus.INFO, asker=encode_json(by), level_at=None)  # control: question-stops-clock
        uow.update(for_person=int(bool(row.for_person) or by.kind == PartyKind.PERSON.value))
        uow.add_history(
            "info_requested", by, Party(PartyKind.REQUESTER.value, row.workspace_id, row.requester_name), note=note
        )
        requester = self.active_workspace(row.workspace_id)
        if requester is not None:
            notice = question_notice(uow.row, row.messages + 1, by, note)
            uow.update(question_seq=(yield from self._send_notice(uow, requester, notice)))
        uow.emit(rules.INFO_REQUESTED, row.holder_id)

    def remind_reviewer(self, uow: ApprovalUnitOfWork) -> Generator[StepRequest, Any, None]:
        """Ask a silent reviewer again, once: as other agents, it has the time for a reply twice."""
        row = uow.row
        reviewer = next(iter(self.approvers(row)), None)
        yield from self.cancel_messages(uow, "it is requested again")
        if reviewer is not None:
            yield from self._ask_approver(uow, NextApprover(reviewer, bool(row.for_person), ()), "")
        uow.update(level_at=None)
        uow.emit(rules.REQUESTED, row.holder_id)

    def record_answer(
        self, uow: ApprovalUnitOfWork, by: Party, text: str, details: str | None
    ) -> Generator[StepRequest, Any, None]:
        """Record the requester's answer, perhaps with new details, and ask the same approver again."""
        row = uow.row
        if details is not None and row.source not in (BUDGET_SOURCE, REVIEW_SOURCE):
            uow.update(proposed=details, edited=None, action_hash=rules.action_hash(row.action, details))
        uow.add_history("answered", by, row.asker_party, note=text)
        uow.update(status=ApprovalStatus.PENDING, revision=row.revision + 1)
        holder = next(
            (each for each in self.approvers(uow.row) if each.id == row.holder_id and not each.unreachable_reason), None
        )
        yield from self.cancel_messages(uow, "it is requested again", by=row.workspace_id)
        if row.holder_id is not None and holder is None:
            yield from self.escalate(uow, rules.ANSWERED)
            return
        if holder is not None:
            yield from self._ask_approver(uow, NextApprover(holder, bool(row.for_person), ()), text)
        uow.emit(rules.ANSWERED, row.holder_id)

    # -- ends ----------------------------------------------------------------------------------------------------------

    def close(
        self,
        uow: ApprovalUnitOfWork,
        trigger: ApprovalTrigger,
        by: DecidedBy,
        *,
        note: str,
        notify_requester: bool = True,
        is_dropped: bool = False,
    ) -> Generator[StepRequest, Any, None]:
        """Close an approval that is decided, expired or withdrawn. `is_dropped`: a review that is not needed any more.

        `notify_requester`: send the decision to the requester, unless it caused it; not needed when the response to its
        own request contains it. Workspaces that were asked earlier are notified once."""
        before, row = uow.row.holder_id, uow.row
        rule = rules.TRANSITIONS[trigger, row.status]
        if rule is None:
            raise LookupError(f"{trigger} means nothing to an approval that is {row.status}")
        yield from self.cancel_messages(
            uow, rule.status.value, by=by.id if by.kind == PartyKind.WORKSPACE.value else None
        )
        party = Party(by.kind, by.id, by.name)
        decision = {
            ApprovalTrigger.APPROVE: "approve",
            ApprovalTrigger.DENY: "deny",
            ApprovalTrigger.EXPIRE: "deny",
        }.get(trigger)
        at, is_edited = to_rfc3339(uow.now), uow.row.edited is not None
        decision_entry = decision and ApprovalDecision(decision, by, at, note, row.revision, row.action_hash, is_edited)
        uow.add_history(rule.status.value, party, note=note)
        uow.update(
            status=rule.status,
            open=0,
            holder_id=None,
            holder_name="",
            level_at=None,
            settled_at=uow.now,
            decided=encode_json(decision_entry) if decision_entry else None,
        )
        uow.is_ended = True
        if row.source == BUDGET_SOURCE:
            position, raise_decision = find_position(row), decision_of(uow.row, trigger)
            uow.add_changes(
                (
                    yield from self._budget_raises.decide_raise(
                        position.budget_id, position.period_start, raise_decision, uow.now
                    )
                )
            )
        requester = self.active_workspace(row.workspace_id)
        if row.source == REVIEW_SOURCE and not is_dropped:
            decided = decision_event(row, trigger, by, note, uow.now)
            uow.add_changes(WriteSet(None, domain_events=[] if decided is None else [decided]))
        notify_requester = notify_requester and row.source not in (HOST_SOURCE, BUDGET_SOURCE, REVIEW_SOURCE)
        if notify_requester and requester is not None and by.id != requester.id:  # control: requester-informed
            render = relayed_decision_notice if row.source == RELAY_SOURCE else decision_notice
            notice = render(uow.row, uow.row.messages + 1, party, note)
            if notice is not None:
                yield from self._send_notice(uow, requester, notice)
        for each in row.asked_ids:
            workspace = self.active_workspace(each)
            if workspace is not None and each not in (before, by.id):
                yield from self._send_notice(uow, workspace, closed_notice(uow.row, uow.row.messages + 1, party))
        uow.emit(rule.event, before)

    def expire(self, uow: ApprovalUnitOfWork) -> Generator[StepRequest, Any, None]:
        """Close an approval whose time is over."""
        uow.add_policy("deadline", "no decision was made in time, so the request is denied")
        yield from self.close(
            uow, ApprovalTrigger.EXPIRE, DecidedBy(CLOCK_PARTY.kind, CLOCK_PARTY.id, CLOCK_PARTY.name), note=""
        )

    def mark_used(self, uow: ApprovalUnitOfWork, by: Party) -> None:
        """Mark an approval as used."""
        uow.update(used_at=uow.now)
        uow.add_history("used", by)
        uow.emit(rules.USED)


def _approver_party(each: Approver) -> Party:
    return Party(PartyKind.WORKSPACE.value, each.id, each.name)
