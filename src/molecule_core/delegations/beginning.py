"""How a delegation begins: checks, guards, then one transaction of row, message and events, or nothing of it.

Above: the writer of this slice. Below: steps, rules; the writer of messages.
"""

from collections.abc import Generator
from typing import Any

import msgspec

from molecule_core.delegations import rules
from molecule_core.delegations.model import (
    BEGUN,
    DELEGATION,
    Ancestor,
    Begin,
    Delegation,
    Phase,
    Receipt,
    Refused,
    Status,
)
from molecule_core.delegations.steps import Statement, moved, noted, rows_of, sent
from molecule_core.ground.clock import SECOND, Clock
from molecule_core.ground.errors import MayNotTalk, MessageIdReused, NotFound
from molecule_core.ground.ids import Ids
from molecule_core.ground.limits import Limits
from molecule_core.ground.refusals import DelegationCycle, DelegationLimit, SelfDelegation
from molecule_core.messages.entering import row_in
from molecule_core.messages.model import KIND_DELEGATION, REQUEST, Draft, Sender
from molecule_core.messages.obligations import Answers
from molecule_core.messages.results import Results
from molecule_core.messages.settling import inbox_of
from molecule_core.messages.writer import MessageWriter
from molecule_core.org.model import PUSH, Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.org.rules import may_talk, related
from molecule_core.store.database import Decision, Event, Peek, Read, Row, Several, Step, Take, WriteSet
from molecule_core.store.journal import org_key
from molecule_core.store.timers import TIMERS, timer
from molecule_core.wire.delegations import DelegationRefused


class Beginning:
    """Begins delegations."""

    def __init__(
        self, org: OrgReader, messages: MessageWriter, results: Results, *, clock: Clock, ids: Ids, limits: Limits
    ) -> None:
        self._org = org
        self._messages = messages
        self._results = results
        self._clock = clock
        self._ids = ids
        self._limits = limits

    def draft_of(self, asked: Begin) -> Draft:
        """The message to the target. Its id is that of the delegation."""
        delegation_id = self._ids.new()
        metadata = {**asked.metadata, "delegation_id": delegation_id}
        return Draft(
            sender=asked.sender,
            params={"metadata": {}},
            message={"kind": "message", "role": "user", "parts": asked.parts, "metadata": metadata},
            rpc_id=None,
            text=asked.task,
            intent=REQUEST,
            dedupe_key=None,
            context_id=asked.context_id,
            trace_parent=asked.trace_parent,
            kind=KIND_DELEGATION,
            activity_id=delegation_id,
        )

    def begin(self, asked: Begin, draft: Draft) -> Decision[Receipt]:
        """The decision to delegate. What is there already under the same key, or open in the same words, is given
        instead, and nothing is written.

        Raises NotFound, WorkspaceRemoved, SelfDelegation, MayNotTalk, MessageIdReused, and what sending a message
        raises; DelegationLimit and DelegationCycle are told as events."""
        source, target = self._seats(asked.source_id, asked.target_id)
        now, hashed = self._clock.now(), asked.task_hash or rules.task_hash(asked.parts)
        about = {"source_id": source.id, "target_id": target.id, "task_hash": hashed}
        wish = {"org_id": source.org_id, "source_id": source.id, "key": asked.key or ""}
        keyed, twins = yield Several([Read("delegation_by_key", wish), Read("delegation_twin", about)])
        # control: delegation-key
        known = self._known(asked, keyed, hashed, now) or (Delegation.of(twins[0]) if twins else None)
        if known is not None:
            return WriteSet(Receipt(known, hit=True))
        lineage, children = yield from self._above(source, asked)
        refused = rules.guard(lineage, target.id, hashed, children, self._limits)
        if refused is not None:
            return self._refusing(source, asked, refused, lineage)
        # control: tree-size
        root_id, most = lineage[0].root_id if lineage else draft.activity_id or "", self._limits.delegations_per_root
        if lineage and (yield Peek("last_in_root", root_id)) >= most:
            return self._refusing(source, asked, rules.too_many_below(most, self._limits), lineage)
        starts = yield from self._starts(target)
        written = yield from self._messages.sending(target.id, draft, Answers(asked.cause_id))
        message = row_in(written)
        if message is None:  # a chain was frozen by it
            frozen: WriteSet[Any] = WriteSet(None, written.writes, written.events, written.rings)
            frozen.refusal = written.refusal
            return frozen
        # Behind all that may refuse: what is not begun uses up no number.
        root_no = (yield Take("last_in_root", root_id, most)) if lineage else 1
        if root_no is None:
            # Others of the same group had the last one, after this one looked. Numbers are taken by now, so the store
            # decides this command afresh and by itself; it is refused above then.
            raise DelegationLimit(**msgspec.structs.asdict(rules.too_many_below(most, self._limits)))
        caller = yield from self._results.caller_row(source, message.id, target.id, asked.task, asked.sender.key)
        row = Delegation(
            org_id=source.org_id,
            id=message.id,
            source_id=source.id,
            target_id=target.id,
            status=Status.PENDING,
            phase=Phase.WAITING,
            rev=1,
            open=1,
            reason=None,
            error=None,
            task=asked.task,
            task_hash=hashed,
            result=None,
            via=None,
            seq=caller.seq,
            activity_id=caller.id,
            message_seq=message.seq,
            result_id=None,
            result_seq=None,
            parent_id=lineage[0].id if lineage else None,
            root_id=root_id,
            root_no=root_no,
            depth=lineage[0].depth + 1 if lineage else 1,
            hop=message.hop,
            chain_id=message.root_id or message.id,
            cause_id=message.cause_id,
            context_id=message.context_id,
            recorded=0,
            begun_by=asked.sender.key,
            retry_of=asked.retry_of,
            attempt=0,
            created_at=now,
            updated_at=now,
            taken_at=None,
            life_at=now,
            settled_at=None,
            deadline_at=rules.deadline_of(asked.deadline_seconds, now, self._limits),
            unsure_at=None,
            wait_until=now + asked.wait_seconds * SECOND if asked.wait_seconds else 0,
        )
        notes, told = [noted(row, BEGUN, now)], [sent(row, now), *caller.facts.events, *written.events]
        for fact in starts:
            change = moved(row, fact, now)
            row = change.row
            notes += change.writes
            told += change.events
        writes: list[Statement] = [("insert_delegation", row), *notes]
        if asked.key is not None:
            key = {"source_id": source.id, "key": asked.key, "delegation_id": row.id, "created_at": now}
            writes.append(("keep_delegation_key", {**key, "content_hash": _content(target.id, hashed)}))
        writes += [*caller.facts.writes, *written.writes]
        writes.append(timer(DELEGATION, row.key, rules.due_of(row, now, self._limits)))  # control: delegation-timer
        rings = (*caller.facts.rings, *written.rings, TIMERS)
        return WriteSet(Receipt(row, held_until=row.wait_until), writes, told, rings, written.then)

    def record(self, source_id: str, delegation_id: str, target_id: str, task: str, by: Sender) -> Decision[Receipt]:
        """The decision to note a delegation that goes another way. Its caller has named it, and it is a tree of its
        own. Raises as `begin` does of seats, and MessageIdReused."""
        source, target = self._seats(source_id, target_id)
        now, parts = self._clock.now(), [{"kind": "text", "text": task}]
        hashed = rules.task_hash(parts)
        for known in (yield from rows_of(source.org_id, [delegation_id])):
            if (known.source_id, known.target_id, known.task_hash) != (source.id, target.id, hashed):
                raise MessageIdReused(message_id=delegation_id)
            return WriteSet(Receipt(known, hit=True))
        caller = yield from self._results.caller_row(source, delegation_id, target.id, task, by.key)
        row = Delegation(
            org_id=source.org_id,
            id=delegation_id,
            source_id=source.id,
            target_id=target.id,
            status=Status.PENDING,
            phase=Phase.WAITING,
            rev=1,
            open=1,
            reason=None,
            error=None,
            task=task,
            task_hash=hashed,
            result=None,
            via=None,
            seq=caller.seq,
            activity_id=caller.id,
            message_seq=None,
            result_id=None,
            result_seq=None,
            parent_id=None,
            root_id=delegation_id,
            root_no=None,
            depth=1,
            hop=0,
            chain_id=None,
            cause_id=None,
            context_id=None,
            recorded=1,
            begun_by=by.key,
            retry_of=None,
            attempt=0,
            created_at=now,
            updated_at=now,
            taken_at=None,
            life_at=now,
            settled_at=None,
            deadline_at=rules.deadline_of(None, now, self._limits),
            unsure_at=None,
            wait_until=0,
        )
        writes: list[Statement] = [("insert_delegation", row), noted(row, BEGUN, now), *caller.facts.writes]
        writes.append(timer(DELEGATION, row.key, row.deadline_at))
        return WriteSet(Receipt(row), writes, [sent(row, now), *caller.facts.events], (*caller.facts.rings, TIMERS))

    def _seats(self, source_id: str, target_id: str) -> tuple[Workspace, Workspace]:
        source, target = self._org.living(source_id), self._org.workspace(target_id)
        # What was removed is told to those only who could see it.
        if target is None or (target.removed and not related(self._org, source, target)):
            raise NotFound(what="workspace")
        if source.org_id != target.org_id:
            raise NotFound(what="workspace")
        target = self._org.living(target_id)
        if source.id == target.id:
            raise SelfDelegation
        if not may_talk(self._org, source, target):
            raise MayNotTalk
        return source, target

    def _known(self, asked: Begin, keyed: list[Row], hashed: str, now: int) -> Delegation | None:
        """What was begun under the key, if that was not too long ago. (One that has failed has given its key back.)"""
        if asked.key is None or not keyed:
            return None
        content_hash, created_at, *row = keyed[0]
        if not rules.is_kept(created_at, now, self._limits):
            return None
        if content_hash != _content(asked.target_id, hashed):
            raise MessageIdReused(message_id=asked.key)
        return Delegation.of(row)

    def _above(self, source: Workspace, asked: Begin) -> Generator[Step, Any, tuple[list[Ancestor], int]]:
        """The delegations that the caller is at work for, its own first, and how many it has open below that. What it
        says of it counts only if that is in its inbox. What is begun once more stands below what it stood below, if
        that has not ended."""
        if asked.retry_of is not None:
            return (yield from self._above_again(source.org_id, asked.retry_of))
        cause = yield from self._messages.chains.cause(source.id, asked.cause_id)
        if cause is None:
            return [], 0
        own = {"org_id": source.org_id}
        given, brought = yield Several(
            [
                Read("delegation", {**own, "id": cause.id}),
                Read("delegation_of_result", {"result_id": cause.id, "source_id": source.id}),
            ]
        )
        parent_id = brought[0][0] if brought else None
        if given and Delegation.of(given[0]).target_id == source.id:
            parent_id = cause.id
        if parent_id is None:
            return [], 0
        return (yield from _lineage(source.org_id, parent_id))

    def _above_again(self, org_id: str, retry_of: str) -> Generator[Step, Any, tuple[list[Ancestor], int]]:
        for row in (yield from rows_of(org_id, [retry_of])):
            if row.parent_id is not None:
                lineage, children = yield from _lineage(org_id, row.parent_id)
                if lineage and lineage[0].open:
                    return lineage, children
        return [], 0

    def _starts(self, target: Workspace) -> Generator[Step, Any, tuple[Any, ...]]:
        """What happens to it in the moment it begins."""
        ahead = 0
        if target.delivery_mode == PUSH:
            inbox = yield from inbox_of(target.id)
            ahead = (yield Peek("last_inbound", target.id)) - inbox.acked_no - inbox.acked_above
        active, capacity = self._org.pulse(target.id).active_tasks, target.max_concurrent_tasks
        return rules.starts(target.delivery_mode, target.status, active=active, capacity=capacity, ahead=ahead)

    def _refusing(self, source: Workspace, asked: Begin, refused: Refused, lineage: list[Ancestor]) -> WriteSet[Any]:
        """A guard has refused: people see it too."""
        told = DelegationRefused(
            target_id=asked.target_id,
            task_preview=rules.cut(asked.task, rules.TASK_PREVIEW),
            limit=refused.limit,
            use=refused.use,
            most=refused.most,
            remedy=refused.remedy,
            parent_id=lineage[0].id if lineage else None,
        )
        event = Event(rules.REFUSED, source.id, "refusal", source.id, 0, msgspec.json.encode(told), self._clock.now())
        kind = DelegationCycle if refused.limit == "cycle" else DelegationLimit
        error = kind(**msgspec.structs.asdict(refused))
        return WriteSet(None, [], [event], (org_key(source.org_id),), refusal=error)  # control: refusal-event


def _lineage(org_id: str, parent_id: str) -> Generator[Step, Any, tuple[list[Ancestor], int]]:
    own = {"org_id": org_id}
    rows, counted = yield Several(
        [
            Read("delegation_lineage", {**own, "id": parent_id}),
            Read("delegation_children", {**own, "parent_id": parent_id}),
        ]
    )
    return [Ancestor(*row) for row in rows], counted[0][0]


def _content(target_id: str, hashed: str) -> str:
    """What tells a repetition under a key from another request."""
    return f"{target_id} {hashed}"
