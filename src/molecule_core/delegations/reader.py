"""Reads delegations and renders them for clients."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from molecule_core.common import crash_points
from molecule_core.common.clock import SECOND, Clock, to_optional_rfc3339, to_rfc3339
from molecule_core.common.errors import NotFound
from molecule_core.common.limits import Limits
from molecule_core.delegations import rules
from molecule_core.delegations.acceptance_rules import commands_of, describe_check, reviews_of
from molecule_core.delegations.model import (
    Acceptance,
    Delegation,
    DelegationPhase,
    FailureReason,
    SubmittedAnswer,
    TimelineRow,
    delegation_wake_key,
    newest_first,
    page_size_of,
    take_until_bytes,
)
from molecule_core.delegations.scopes import ScopeReader
from molecule_core.messages.reader import MessageReader
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import ReadQuery, Store
from molecule_core.store.queries import Params
from molecule_core.store.wakeups import Notifier, Poll
from molecule_core.wire.schemas.acceptance import (
    AcceptanceReport,
    CheckEvidence,
    PendingCheckCommand,
    PendingReview,
)
from molecule_core.wire.schemas.delegations import (
    DelegationItem,
    DelegationProgress,
    DelegationRefusedPayload,
    DelegationStats,
    DelegationStatus,
    DelegationStatusPayload,
    DelegationTimelineEntry,
)
from molecule_core.wire.schemas.live import SnapshotDelegation, SnapshotRejection

OPEN_STATE = "open"
"""A state filter beside the statuses: all that have not ended."""
STATES = (*(each.value for each in DelegationStatus), OPEN_STATE)
SENT_EVENT, END_EVENTS = rules.SENT, (rules.COMPLETE, rules.FAILED)
"""The events of the begin and of the ends of a delegation."""
_MAX_SEQ = (1 << 62) - 1
_PREVIEW_SIZES = {"task_most": rules.TASK_PREVIEW, "text_most": rules.LIST_PREVIEW}
"""Characters that queries select of texts that are then cut to as many bytes; no character has less than one byte."""
_DAY = 86_400 * SECOND


class LatestProgress(NamedTuple):
    """The latest progress of a delegation, and the event that sends it to those who may see its source."""

    delegation_id: str
    source_id: str
    at: int
    rev: int
    event: str
    payload: DelegationStatusPayload


class DelegationReader:
    """Reader of committed delegations.

    Rows of lists have only the beginning of a task. Lists with whole results and errors end once they have `page_bytes`
    of those; rows of other lists have only their beginnings too."""

    def __init__(
        self,
        store: Store,
        org: OrgReader,
        messages: MessageReader,
        wakeups: Notifier,
        scopes: ScopeReader,
        *,
        clock: Clock,
        limits: Limits,
    ) -> None:
        self.scopes = scopes
        """Reads what delegations may do."""
        self._store = store
        self._org = org
        self._messages = messages
        self._wakeups = wakeups
        self._clock = clock
        self._limits = limits

    # -- rows ----------------------------------------------------------------------------------------------------------

    async def get_delegation(self, org_id: str, delegation_id: str) -> Delegation:
        """Return a delegation of an organisation. Raises NotFound."""
        rows = await self._store.rows("delegation", {"org_id": org_id, "id": delegation_id})
        if not rows:
            raise NotFound(what="delegation")
        return Delegation.from_row(rows[0])

    async def list_between(
        self, source_id: str, target_id: str, before: tuple[int, str], count: int
    ) -> list[tuple[str, str | None, int, int]]:
        """Return the newest delegations from one workspace to another: id, context, times of begin and last change.

        `before`: only those that began before this time (microseconds) and id."""
        at, id_ = before
        query = {"source_id": source_id, "target_id": target_id, "before": at, "before_id": id_, "count": count}
        return [(row[0], row[1], row[2], row[3]) for row in await self._store.rows("delegations_between", query)]

    def a2a_state(self, row: Delegation, *, needs_approval: bool = False) -> str:
        """Return the A2A state of a delegation. `needs_approval`: its work waits for an approval."""
        return rules.a2a_state(row, needs_approval=needs_approval)

    def advice(self, reason: FailureReason) -> str:
        """Return what to do about a failure."""
        return rules.ADVICE[reason]

    async def previews_by_id(self, org_id: str, ids: Sequence[str]) -> dict[str, DelegationItem]:
        """Return those of some delegations that exist, without results and with cut errors, by id."""
        queries: list[Params] = [{"org_id": org_id, "id": each} for each in ids]
        found = await self._store.rows_of_each("delegation", queries) if queries else []
        items = await self.to_previews([Delegation.from_row(rows[0]) for rows in found if rows])
        return {item.delegation_id: item for item in items}

    async def get_in_any_org(self, delegation_id: str) -> Delegation:
        """Return a delegation of any organisation. Raises NotFound."""
        queries: list[Params] = [{"org_id": each.id, "id": delegation_id} for each in self._org.orgs()]
        for rows in await self._store.rows_of_each("delegation", queries):
            if rows:
                return Delegation.from_row(rows[0])
        raise NotFound(what="delegation")

    async def has_open_between(self, target_id: str, source_id: str) -> bool:
        """Return whether a workspace has an open delegation from another one."""
        return bool(await self._store.rows("delegation_between", {"source_id": source_id, "target_id": target_id}))

    async def sent_by(self, source_id: str, state: str | None, before_seq: int | None, count: int) -> list[Delegation]:
        """Return what a workspace has delegated, newest first, before a number of its log; results whole."""
        seq = _MAX_SEQ if before_seq is None else before_seq
        query = {
            "source_id": source_id,
            "before_seq": seq,
            "count": count,
            **self._page_limits(),
            **_state_filter(state),
        }
        return await self._fetch("delegations_sent", query)

    async def has_more_sent(self, rows: Sequence[Delegation]) -> bool:
        """Return whether a workspace has delegated more than these newest rows.

        For a page with fewer rows than requested, which may have ended because of its bytes."""
        if sum(map(page_size_of, rows)) < self.page_bytes:
            return False
        return bool(await self.sent_by(rows[-1].source_id, None, rows[-1].seq, 1))

    async def received_by(
        self, org_id: str, target_id: str, state: str | None, before: str | None, count: int
    ) -> list[Delegation]:
        """Return what was delegated to a workspace, newest first, before one of the organisation; results whole."""
        owner_query = {"org_id": org_id, "target_id": target_id, "before": before, "count": count}
        query = {**owner_query, **self._page_limits(), **_state_filter(state)}
        return await self._fetch("delegations_received", query)

    async def involving(
        self, org_id: str, workspace_id: str, state: str | None, before: str | None, count: int
    ) -> list[Delegation]:
        """Return what a workspace sent and received, in one order.

        What either list lacks because of its bytes is older than the end of the merged page."""
        owner_query = {"org_id": org_id, "source_id": workspace_id, "before": before, "count": count}
        query = {**owner_query, **self._page_limits(), **_state_filter(state)}
        found = await self._fetch("delegations_sent_by_time", query)
        found += await self.received_by(org_id, workspace_id, state, before, count)
        return take_until_bytes(newest_first(found)[:count], page_size_of, self.page_bytes)

    async def list_page(
        self, org_id: str | None, state: str | None, workspace_id: str | None, before: Delegation | None, count: int
    ) -> list[Delegation]:
        """Return delegations of one organisation or of all, newest first, before one of them; texts are cut.

        `workspace_id`: only those with this workspace as source or target."""
        position = {"before_at": before and before.created_at, "before": before and before.id}
        query = {"workspace_id": workspace_id, "count": count, **position, **_PREVIEW_SIZES, **_state_filter(state)}
        queries: list[Params] = [{"org_id": each, **query} for each in self._org_ids(org_id)]
        found = await self._store.rows_of_each("delegations_of_org", queries)
        merged = newest_first([rules.abbreviate(Delegation.from_row(row)) for rows in found for row in rows])
        return take_until_bytes(merged[:count], page_size_of, self.page_bytes)

    def _org_ids(self, org_id: str | None) -> list[str]:
        return [each.id for each in self._org.orgs()] if org_id is None else [org_id]

    async def load_tree(self, org_id: str, root_id: str) -> list[Delegation]:
        """Return all delegations of one tree, each after its parent; texts are cut."""
        max_count = self._limits.delegations_per_root
        query = {"org_id": org_id, "root_id": root_id, "count": max_count, **_PREVIEW_SIZES}
        return list(map(rules.abbreviate, await self._fetch("delegations_of_root", query)))

    async def list_of_chain(self, org_id: str, chain_id: str, max_count: int) -> list[Delegation]:
        """Return the delegations that one request caused, oldest first; texts are cut."""
        query = {"org_id": org_id, "chain_id": chain_id, "count": max_count, **_PREVIEW_SIZES}
        return list(map(rules.abbreviate, await self._fetch("delegations_of_chain", query)))

    async def list_open(self, org_id: str, max_count: int) -> list[Delegation]:
        """Return the open delegations of an organisation, newest first; texts are cut."""
        return list(
            map(
                rules.abbreviate,
                await self._fetch("delegations_open", {"org_id": org_id, "count": max_count, **_PREVIEW_SIZES}),
            )
        )

    @property
    def page_bytes(self) -> int:
        """Return how many bytes a page may have before its last item."""
        return self._limits.page_bytes

    def _page_limits(self) -> dict[str, object]:
        return {"page_bytes": self.page_bytes, "task_most": rules.TASK_PREVIEW}

    async def _fetch(self, name: str, query: Params) -> list[Delegation]:
        return [Delegation.from_row(row) for row in await self._store.rows(name, query)]

    async def timeline(self, org_id: str, delegation_id: str) -> list[TimelineRow]:
        """Return the timeline of a delegation in order; only the end of a long one."""
        query = {"org_id": org_id, "delegation_id": delegation_id, "count": self._limits.delegation_lines}
        rows = await self._store.rows("delegation_facts_of", query)
        return [TimelineRow(*row) for row in rows]

    async def acceptance_report(self, row: Delegation) -> AcceptanceReport | None:
        """Return the checks of a delegation and what they found; None if it has none."""
        if not row.checks:
            return None
        query = {"org_id": row.org_id, "delegation_id": row.id}
        terms, found = await self._store.rows("acceptance", query), await self._store.rows("evidence_of", query)
        acceptance = Acceptance.from_row(terms[0])
        evidence = [msgspec.json.decode(each, type=CheckEvidence) for (each,) in found]
        answer = acceptance.answer if row.phase is DelegationPhase.CHECKING else None
        return AcceptanceReport(
            checks=list(acceptance.checks),
            sentences=list(map(describe_check, acceptance.checks)),
            rounds=acceptance.rounds,
            answers=max((each.answer for each in evidence), default=0),
            evidence=evidence if answer is None else [*evidence, *answer.found.values()],
            reviews=[] if answer is None else _pending_reviews(acceptance, answer),
            commands=[] if answer is None else _pending_commands(acceptance, answer),
        )

    async def count_open_and_stuck(self, org_id: str) -> tuple[int, int]:
        """Return how many delegations of an organisation are open, and how many of those are stuck."""
        (row,) = await self._store.rows("delegations_open_count", {"org_id": org_id})
        now = self._clock.now()
        query = {"org_id": org_id, "before": now - self._limits.delegation_stuck_seconds * SECOND}
        silent = await self._store.rows("silent_delegations", query)
        stuck = [
            rules.unseen_since(life, self._org.last_heartbeat(workspace_id), now, self._limits)
            for workspace_id, life in silent
            if self._limited_until(workspace_id) is None
        ]
        return row[0], sum(each is not None for each in stuck)

    async def count_open(self) -> int:
        """Return how many delegations of all organisations are open."""
        queries: list[Params] = [{"org_id": each} for each in self._org_ids(None)]
        return sum(rows[0][0] for rows in await self._store.rows_of_each("delegations_open_count", queries))

    async def stats(self, org_id: str | None) -> DelegationStats:
        """Return statistics of the delegations of one organisation or of all."""
        by_status, by_reason = Counter[str](), Counter[str]()
        open_count = stuck = 0
        for each in self._org_ids(org_id):
            for status, reason, count in await self._store.rows("delegation_counts", {"org_id": each}):
                by_status[status] += count
                by_reason[reason or ""] += count
            found = await self.count_open_and_stuck(each)
            open_count, stuck = open_count + found[0], stuck + found[1]
        del by_reason[""]
        median = await self._median_seconds(org_id, sum(by_status[each] for each in DelegationStatus if each.is_ended))
        return DelegationStats(dict(by_status), dict(by_reason), open_count, stuck, median)

    async def _median_seconds(self, org_id: str | None, ended: int) -> float | None:
        """Return the median seconds from begin to end of the ended delegations."""
        position = {"org_id": org_id, "skipped": max(0, ended - 1) // 2, "count": 2 - ended % 2}
        durations = [row[0] for row in await self._store.rows("delegation_durations", position)]
        return sum(durations) / len(durations) / SECOND if durations else None

    async def statuses_by_seq(self, source_id: str, seqs: Sequence[int]) -> dict[int, str]:
        """Return the current statuses of delegations by the numbers of their rows in the source's log."""
        queries: list[Params] = [{"source_id": source_id, "seq": each} for each in seqs]
        found = await self._store.rows_of_each("delegation_status_by_seq", queries) if queries else []
        return {rows[0][0]: rows[0][1] for rows in found if rows}

    async def wait_for_change(self, row: Delegation, seconds: float, *, for_end: bool = False) -> Delegation:
        """Return a delegation once it ended or, unless `for_end`, changed after this row; as it is after `seconds`."""

        async def poll() -> Poll[Delegation]:
            now = await self.get_delegation(row.org_id, row.id)
            return Poll(now if not now.open or (now.rev > row.rev and not for_end) else None)

        found = await self._wakeups.wait_until(delegation_wake_key(row.org_id, row.id), poll, seconds)
        crash_points.mark_reached("result.waited")
        return found or await self.get_delegation(row.org_id, row.id)

    async def progress_since(self, org_id: str, since: int) -> list[LatestProgress]:
        """Return the latest progress of each open delegation that reported since a time, oldest first."""
        rows = await self._store.rows("delegation_progress_since", {"org_id": org_id, "since": since})
        return [_to_latest_progress(row) for row in rows]

    async def _latest_progress(self, rows: Sequence[Delegation]) -> dict[str, DelegationProgress]:
        """Return the latest progress of those that were claimed."""
        claimed = [row for row in rows if row.taken_at is not None]
        queries: list[Params] = [{"org_id": row.org_id, "delegation_id": row.id} for row in claimed]
        found = await self._store.rows_of_each("delegation_progress_of", queries) if queries else []
        return {row.id: _parse_progress(*progress[0]) for row, progress in zip(claimed, found, strict=True) if progress}

    # -- rendering -----------------------------------------------------------------------------------------------------

    async def to_items(self, rows: Sequence[Delegation]) -> list[DelegationItem]:
        """Render delegations as list items with whole results."""
        positions, progress = await self._queue_positions(rows), await self._latest_progress(rows)
        return [self._to_item(row, positions.get(row.id), progress.get(row.id)) for row in rows]

    async def to_previews(self, rows: Sequence[Delegation]) -> list[DelegationItem]:
        """Render delegations as list items without results and with cut errors."""
        return [replace(item, result=None) for item in await self.to_items(list(map(rules.abbreviate, rows)))]

    async def start_warning(self, row: Delegation) -> str:
        """Return why work on a delegation may not begin soon; empty if nothing suggests so."""
        target = self._org.workspace(row.target_id)
        if target is None or row.phase is not DelegationPhase.WAITING or not row.open:
            return ""
        reasons = [f"the target is {target.status.value}"] if target.status in rules.UNAVAILABLE_STATUSES else []
        limited_until = self._limited_until(target.id)
        reasons += [f"the target is limited until {limited_until}"] if limited_until else []
        ahead = (await self._queue_positions([row])).get(row.id)
        reasons += [f"queued behind {ahead}"] if ahead else []
        heard_at = self._org.last_heartbeat(target.id).heard_at
        if reasons and heard_at:
            reasons.append(f"last seen {_format_age(self._clock.now() - heard_at)} ago")
        return "; ".join(reasons)

    async def snapshot_open(self, org_id: str, max_count: int) -> list[SnapshotDelegation]:
        """Return the open delegations of an organisation for a snapshot."""
        rows = await self.list_open(org_id, max_count)
        progress_rows = await self._store.rows("delegation_progress_open", {"org_id": org_id})
        progress = {delegation_id: _parse_progress(at, text) for delegation_id, at, text in progress_rows}
        return [_to_snapshot(row, progress.get(row.id)) for row in rows]

    async def snapshot_rejections(self, org_id: str, upto: int, max_count: int) -> list[SnapshotRejection]:
        """Return the rejections of the last day for a snapshot, up to a journal number."""
        query = {"org_id": org_id, "upto": upto, "since": self._clock.now() - _DAY, "count": max_count}
        rows = await self._store.rows("delegations_refused", query)
        return [_snapshot_rejection(seq, source_id, at, payload) for seq, source_id, at, payload in rows]

    async def _queue_positions(self, rows: Sequence[Delegation]) -> dict[str, int]:
        """Return how many messages are ahead of each waiting delegation in its target's inbox."""
        waiting = [
            (row.id, row.target_id, row.message_seq)
            for row in rows
            if row.open and row.phase is DelegationPhase.WAITING
        ]
        known = [(id_, target_id, seq) for id_, target_id, seq in waiting if seq is not None]
        ahead = await self._messages.count_ahead([(target_id, seq) for _, target_id, seq in known])
        return {each[0]: count for each, count in zip(known, ahead, strict=True)}

    def _to_item(
        self, row: Delegation, queue_position: int | None, progress: DelegationProgress | None
    ) -> DelegationItem:
        heartbeat, now = self._org.last_heartbeat(row.target_id), self._clock.now()
        limited_until = self._limited_until(row.target_id) if row.open else None
        return DelegationItem(
            delegation_id=row.id,
            source_id=row.source_id,
            source_name=self._workspace_name(row.source_id),
            target_id=row.target_id,
            target_name=self._workspace_name(row.target_id),
            summary=rules.truncate_utf8(row.task, rules.TASK_PREVIEW),
            status=row.status.value,
            phase=row.phase.value,
            attempt=row.attempt,
            reason=None if row.reason is None else row.reason.value,
            error=row.error,
            error_detail=row.error,
            advice=None if row.reason is None else rules.ADVICE[row.reason],
            response_preview=rules.preview_of(row.result),
            result=row.result,
            via=row.via,
            created_at=to_rfc3339(row.created_at),
            updated_at=to_rfc3339(row.updated_at),
            taken_at=to_optional_rfc3339(row.taken_at),
            last_heartbeat=to_rfc3339(row.life_at),
            settled_at=to_optional_rfc3339(row.settled_at),
            deadline=to_rfc3339(row.deadline_at),
            stuck=rules.stuck_since(row, heartbeat, now, self._limits) is not None and limited_until is None,
            parent_id=row.parent_id,
            root_id=row.root_id,
            depth=row.depth,
            retry_of=row.retry_of,
            recorded=bool(row.recorded),
            progress=progress,
            queue_position=queue_position,
            target_limited_until=limited_until,
            seq=row.seq,
            checks=row.checks,
            verified=rules.is_verified(row),
        )

    def _limited_until(self, workspace_id: str) -> str | None:
        """Return until when a vendor's limit keeps a workspace from working; None if it does not."""
        workspace = self._org.workspace(workspace_id)
        is_limited = workspace is not None and workspace.is_limited(self._clock.now())
        return to_optional_rfc3339(workspace.limited_until) if workspace is not None and is_limited else None

    def _workspace_name(self, workspace_id: str) -> str:
        workspace = self._org.workspace(workspace_id)
        return "" if workspace is None else workspace.name


def origin_query(workspace_id: str, activity_id: str) -> ReadQuery:
    """Return the query of what a message of a workspace belongs to: the first message of its chain, and a delegation.

    The delegation that it began, or that which its answer continues; None if there is neither."""
    return ReadQuery("origin_of_message", {"workspace_id": workspace_id, "id": activity_id})


def timeline_item(entry: TimelineRow) -> DelegationTimelineEntry:
    """Render a timeline entry."""
    at, late = to_rfc3339(entry.at), bool(entry.late)
    return DelegationTimelineEntry(at, entry.fact, entry.status, entry.phase, entry.attempt, late, entry.detail)


def _state_filter(state: str | None) -> dict[str, object]:
    """Return the query parameters of a state filter."""
    return {"status": None if state == OPEN_STATE else state, "least_open": int(state == OPEN_STATE)}


def _format_age(microseconds: int) -> str:
    seconds = max(0, microseconds) // SECOND
    for name, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size} {name}"
    return f"{seconds} s"


def _snapshot_rejection(seq: int, source_id: str, at: int, payload: str) -> SnapshotRejection:
    members = msgspec.structs.asdict(msgspec.json.decode(payload, type=DelegationRefusedPayload))
    del members["parent_id"]
    return SnapshotRejection(seq=seq, at=to_rfc3339(at), source_id=source_id, **members)


def _parse_progress(at: int, encoded: str) -> DelegationProgress:
    """Parse stored progress."""
    return replace(msgspec.json.decode(encoded, type=DelegationProgress), at=to_rfc3339(at))


def _to_latest_progress(row: Sequence[Any]) -> LatestProgress:
    delegation_id, source_id, target_id, status, phase, rev, attempt, taken_at, at, text = row
    progress = _parse_progress(at, text)
    payload = DelegationStatusPayload(
        delegation_id=delegation_id,
        target_id=target_id,
        status=status,
        phase=phase,
        attempt=attempt,
        taken_at=to_optional_rfc3339(taken_at),
        current_step=progress.current_step,
        tools_used=progress.tools_used,
        eta_hint=progress.eta_hint,
        percent=progress.percent,
    )
    return LatestProgress(delegation_id, source_id, at, rev, rules.STATUS, payload)


def _to_snapshot(row: Delegation, progress: DelegationProgress | None) -> SnapshotDelegation:
    return SnapshotDelegation(
        delegation_id=row.id,
        source_id=row.source_id,
        target_id=row.target_id,
        task_preview=row.task,
        status=row.status.value,
        phase=row.phase.value,
        attempt=row.attempt,
        rev=row.rev,
        seq=row.seq,
        parent_id=row.parent_id,
        root_id=row.root_id,
        depth=row.depth,
        created_at=to_rfc3339(row.created_at),
        taken_at=to_optional_rfc3339(row.taken_at),
        life_at=to_rfc3339(row.life_at),
        deadline_at=to_rfc3339(row.deadline_at),
        error=row.error,
        retry_of=row.retry_of,
        progress=progress,
    )


def _pending_reviews(acceptance: Acceptance, answer: SubmittedAnswer) -> list[PendingReview]:
    checks = reviews_of(acceptance.checks)
    return [
        PendingReview(check=number, approval_id=id_, reviewer_id=checks[number].reviewer_id)
        for number, id_ in answer.open_reviews.items()
    ]


def _pending_commands(acceptance: Acceptance, answer: SubmittedAnswer) -> list[PendingCheckCommand]:
    checks = commands_of(acceptance.checks)
    return [PendingCheckCommand(check=number, name=checks[number].name) for number in answer.open_commands]
