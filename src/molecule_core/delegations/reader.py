"""Reads of delegations, and how they are shown."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from molecule_core.delegations import rules
from molecule_core.delegations.model import (
    Delegation,
    Noted,
    Phase,
    Status,
    first_of,
    newest_first,
    shown_bytes,
    wake_key,
)
from molecule_core.ground import points
from molecule_core.ground.clock import SECOND, Clock, rfc3339
from molecule_core.ground.errors import NotFound
from molecule_core.ground.limits import Limits
from molecule_core.messages.reader import MessageReader
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Store
from molecule_core.store.queries import Params
from molecule_core.store.wakeups import Look, Wakeups
from molecule_core.wire.delegations import (
    DelegationFact,
    DelegationItem,
    DelegationRefused,
    DelegationStats,
    DelegationStatus,
    Progress,
)
from molecule_core.wire.live import SnapshotDelegation, SnapshotRefusal

OPEN = "open"
"""A state to ask for beside the statuses: whatever has not ended."""
STATES = (*(each.value for each in Status), OPEN)
_NEWEST = (1 << 62) - 1
_CUTS = {"task_most": rules.TASK_PREVIEW, "text_most": rules.LIST_PREVIEW}
"""So many letters the store hands out of texts that are shown as so many bytes; no letter has less than one."""
_DAY = 86_400 * SECOND


class Said(NamedTuple):
    """What was said last of how far a delegation is, and the event that tells it to those who see its source."""

    delegation_id: str
    source_id: str
    at: int
    rev: int
    event: str
    told: DelegationStatus


class DelegationReader:
    """What others may know of delegations, as it is committed. Rows of lists have no more of a task than its beginning.
    A list that shows whole results, and what went wrong in full, ends where `page_bytes` of those are in it; of other
    lists the rows have no more of them than the beginning either."""

    def __init__(
        self,
        store: Store,
        org: OrgReader,
        messages: MessageReader,
        wakeups: Wakeups,
        *,
        clock: Clock,
        limits: Limits,
    ) -> None:
        self._store = store
        self._org = org
        self._messages = messages
        self._wakeups = wakeups
        self._clock = clock
        self._limits = limits

    # -- rows ----------------------------------------------------------------------------------------------------------

    async def one(self, org_id: str, delegation_id: str) -> Delegation:
        """A delegation of an organisation. Raises NotFound."""
        rows = await self._store.rows("delegation", {"org_id": org_id, "id": delegation_id})
        if not rows:
            raise NotFound(what="delegation")
        return Delegation.of(rows[0])

    async def anywhere(self, delegation_id: str) -> Delegation:
        """A delegation of whatever organisation. Raises NotFound."""
        wishes: list[Params] = [{"org_id": each.id, "id": delegation_id} for each in self._org.orgs()]
        for rows in await self._store.rows_of_each("delegation", wishes):
            if rows:
                return Delegation.of(rows[0])
        raise NotFound(what="delegation")

    async def works_for(self, target_id: str, source_id: str) -> bool:
        """Whether a workspace has work of another one that has not ended."""
        return bool(await self._store.rows("delegation_between", {"source_id": source_id, "target_id": target_id}))

    async def given(self, source_id: str, state: str | None, before_seq: int | None, count: int) -> list[Delegation]:
        """What a workspace has delegated, newest first, before a number of its log; results whole."""
        seq = _NEWEST if before_seq is None else before_seq
        wish = {"source_id": source_id, "before_seq": seq, "count": count, **self._page(), **_in(state)}
        return await self._rows("delegations_given", wish)

    async def more_given(self, rows: Sequence[Delegation]) -> bool:
        """Whether a workspace has delegated more than these newest ones, of which fewer were there than were asked
        for: their bytes may have been what ended the page."""
        if sum(map(shown_bytes, rows)) < self.page_bytes:
            return False
        return bool(await self.given(rows[-1].source_id, None, rows[-1].seq, 1))

    async def got(
        self, org_id: str, target_id: str, state: str | None, before: str | None, count: int
    ) -> list[Delegation]:
        """What was delegated to a workspace, newest first, before one of the organisation; results whole."""
        whose = {"org_id": org_id, "target_id": target_id, "before": before, "count": count}
        wish = {**whose, **self._page(), **_in(state)}
        return await self._rows("delegations_got", wish)

    async def both(
        self, org_id: str, workspace_id: str, state: str | None, before: str | None, count: int
    ) -> list[Delegation]:
        """The two of them in one order. What either list has no more because of its bytes is behind the end of both."""
        whose = {"org_id": org_id, "source_id": workspace_id, "before": before, "count": count}
        wish = {**whose, **self._page(), **_in(state)}
        found = await self._rows("delegations_given_by_time", wish)
        found += await self.got(org_id, workspace_id, state, before, count)
        return first_of(newest_first(found)[:count], shown_bytes, self.page_bytes)

    async def page(
        self, org_id: str | None, state: str | None, workspace_id: str | None, before: Delegation | None, count: int
    ) -> list[Delegation]:
        """The delegations of one organisation or of all, newest first, before one of them; of all workspaces or of one,
        on either side. Texts are cut."""
        place = {"before_at": before and before.created_at, "before": before and before.id}
        wish = {"workspace_id": workspace_id, "count": count, **place, **_CUTS, **_in(state)}
        wishes: list[Params] = [{"org_id": each, **wish} for each in self._orgs(org_id)]
        found = await self._store.rows_of_each("delegations_of_org", wishes)
        merged = newest_first([rules.short(Delegation.of(row)) for rows in found for row in rows])
        return first_of(merged[:count], shown_bytes, self.page_bytes)

    def _orgs(self, org_id: str | None) -> list[str]:
        return [each.id for each in self._org.orgs()] if org_id is None else [org_id]

    async def tree(self, org_id: str, root_id: str) -> list[Delegation]:
        """All delegations of one tree, each behind the one that it stands below. Texts are cut."""
        most = self._limits.delegations_per_root
        wish = {"org_id": org_id, "root_id": root_id, "count": most, **_CUTS}
        return list(map(rules.short, await self._rows("delegations_of_root", wish)))

    async def open_of(self, org_id: str, most: int) -> list[Delegation]:
        """Those of an organisation that have not ended, newest first. Texts are cut."""
        return list(map(rules.short, await self._rows("delegations_open", {"org_id": org_id, "count": most, **_CUTS})))

    @property
    def page_bytes(self) -> int:
        """So many bytes a page may have before its last line."""
        return self._limits.page_bytes

    def _page(self) -> dict[str, object]:
        return {"page_bytes": self.page_bytes, "task_most": rules.TASK_PREVIEW}

    async def _rows(self, name: str, wish: Params) -> list[Delegation]:
        return [Delegation.of(row) for row in await self._store.rows(name, wish)]

    async def time_line(self, org_id: str, delegation_id: str) -> list[Noted]:
        """What happened to one, in order; of a long line its end."""
        wish = {"org_id": org_id, "delegation_id": delegation_id, "count": self._limits.delegation_lines}
        rows = await self._store.rows("delegation_facts_of", wish)
        return [Noted(*row) for row in rows]

    async def counts(self, org_id: str) -> tuple[int, int]:
        """How many delegations of an organisation are open, and how many of those are stuck."""
        (row,) = await self._store.rows("delegations_open_count", {"org_id": org_id})
        now = self._clock.now()
        wish = {"org_id": org_id, "before": now - self._limits.delegation_stuck_seconds * SECOND}
        silent = await self._store.rows("delegations_silent", wish)
        stuck = [rules.unseen_since(life, self._org.pulse(seat), now, self._limits) for seat, life in silent]
        return row[0], sum(each is not None for each in stuck)

    async def open_in_all(self) -> int:
        """How many delegations of all organisations are open."""
        wishes: list[Params] = [{"org_id": each} for each in self._orgs(None)]
        return sum(rows[0][0] for rows in await self._store.rows_of_each("delegations_open_count", wishes))

    async def stats(self, org_id: str | None) -> DelegationStats:
        """The delegations of one organisation or of all, counted."""
        by_status, by_reason = Counter[str](), Counter[str]()
        opened = stuck = 0
        for each in self._orgs(org_id):
            for status, reason, count in await self._store.rows("delegation_counts", {"org_id": each}):
                by_status[status] += count
                by_reason[reason or ""] += count
            found = await self.counts(each)
            opened, stuck = opened + found[0], stuck + found[1]
        del by_reason[""]
        median = await self._median(org_id, sum(by_status[each] for each in Status if each.ended))
        return DelegationStats(dict(by_status), dict(by_reason), opened, stuck, median)

    async def _median(self, org_id: str | None, ended: int) -> float | None:
        """The seconds from begin to end that half of those that have ended did not take."""
        middle = {"org_id": org_id, "skipped": max(0, ended - 1) // 2, "count": 2 - ended % 2}
        took = [row[0] for row in await self._store.rows("delegation_middle", middle)]
        return sum(took) / len(took) / SECOND if took else None

    async def statuses(self, source_id: str, seqs: Sequence[int]) -> dict[int, str]:
        """How the delegations stand now whose rows in the log of their source have these numbers."""
        wishes: list[Params] = [{"source_id": source_id, "seq": each} for each in seqs]
        found = await self._store.rows_of_each("delegation_at", wishes) if wishes else []
        return {rows[0][0]: rows[0][1] for rows in found if rows}

    async def wait(self, row: Delegation, seconds: float, *, for_end: bool = False) -> Delegation:
        """A delegation as soon as it has ended or, if not only that is waited for, stands otherwise than in this row;
        as it stands then, if that takes too long."""

        async def look() -> Look[Delegation]:
            now = await self.one(row.org_id, row.id)
            return Look(now if not now.open or (now.rev > row.rev and not for_end) else None)

        found = await self._wakeups.until(wake_key(row.org_id, row.id), look, seconds)
        points.reached("result.waited")
        return found or await self.one(row.org_id, row.id)

    async def said_since(self, org_id: str, since: int) -> list[Said]:
        """What was said since a time of how far the open delegations of an organisation are, oldest first; of each
        only the newest."""
        rows = await self._store.rows("delegation_progress_since", {"org_id": org_id, "since": since})
        return [_said(row) for row in rows]

    async def _progress(self, rows: Sequence[Delegation]) -> dict[str, Progress]:
        """What was said last of those that somebody has had in hand."""
        taken = [row for row in rows if row.taken_at is not None]
        wishes: list[Params] = [{"org_id": row.org_id, "delegation_id": row.id} for row in taken]
        found = await self._store.rows_of_each("delegation_progress_of", wishes) if wishes else []
        return {row.id: _progress(*said[0]) for row, said in zip(taken, found, strict=True) if said}

    # -- as they are shown ---------------------------------------------------------------------------------------------

    async def items(self, rows: Sequence[Delegation]) -> list[DelegationItem]:
        """Delegations as lists show them, results whole."""
        places, said = await self._places(rows), await self._progress(rows)
        return [self._item(row, places.get(row.id), said.get(row.id)) for row in rows]

    async def previews(self, rows: Sequence[Delegation]) -> list[DelegationItem]:
        """The same without results, and with no more than the beginning of what went wrong."""
        return [replace(item, result=None) for item in await self.items(list(map(rules.short, rows)))]

    async def warning(self, row: Delegation) -> str:
        """Why the work on a delegation will hardly begin soon; empty if nothing speaks against it."""
        target = self._org.workspace(row.target_id)
        if target is None or row.phase is not Phase.WAITING or not row.open:
            return ""
        said = [f"the target is {target.status.value}"] if target.status in rules.CANNOT_TAKE else []
        ahead = (await self._places([row])).get(row.id)
        said += [f"queued behind {ahead}"] if ahead else []
        heard_at = self._org.pulse(target.id).heard_at
        if said and heard_at:
            said.append(f"last seen {_ago(self._clock.now() - heard_at)} ago")
        return "; ".join(said)

    async def open_shown(self, org_id: str, most: int) -> list[SnapshotDelegation]:
        """The open ones of an organisation as a snapshot shows them."""
        rows = await self.open_of(org_id, most)
        told = await self._store.rows("delegation_progress_open", {"org_id": org_id})
        said = {delegation_id: _progress(at, text) for delegation_id, at, text in told}
        return [_shown(row, said.get(row.id)) for row in rows]

    async def refused_shown(self, org_id: str, upto: int, most: int) -> list[SnapshotRefusal]:
        """What guards have stopped in an organisation within a day, as a snapshot shows it; only what its journal tells
        up to a number."""
        wish = {"org_id": org_id, "upto": upto, "since": self._clock.now() - _DAY, "count": most}
        rows = await self._store.rows("delegations_refused", wish)
        return [_stopped(seq, source_id, at, payload) for seq, source_id, at, payload in rows]

    async def _places(self, rows: Sequence[Delegation]) -> dict[str, int]:
        """How many messages stand before those that wait in an inbox."""
        waiting = [(row.id, row.target_id, row.message_seq) for row in rows if row.open and row.phase is Phase.WAITING]
        known = [(id_, target_id, seq) for id_, target_id, seq in waiting if seq is not None]
        ahead = await self._messages.ahead([(target_id, seq) for _, target_id, seq in known])
        return {each[0]: count for each, count in zip(known, ahead, strict=True)}

    def _item(self, row: Delegation, queue_position: int | None, said: Progress | None) -> DelegationItem:
        pulse, now = self._org.pulse(row.target_id), self._clock.now()
        return DelegationItem(
            delegation_id=row.id,
            source_id=row.source_id,
            source_name=self._name(row.source_id),
            target_id=row.target_id,
            target_name=self._name(row.target_id),
            summary=rules.cut(row.task, rules.TASK_PREVIEW),
            status=row.status.value,
            phase=row.phase.value,
            attempt=row.attempt,
            reason=None if row.reason is None else row.reason.value,
            error=row.error,
            error_detail=row.error,
            advice=None if row.reason is None else rules.ADVICE[row.reason],
            response_preview=rules.beginning(row.result),
            result=row.result,
            via=row.via,
            created_at=rfc3339(row.created_at),
            updated_at=rfc3339(row.updated_at),
            taken_at=_time(row.taken_at),
            last_heartbeat=rfc3339(row.life_at),
            settled_at=_time(row.settled_at),
            deadline=rfc3339(row.deadline_at),
            stuck=rules.stuck_since(row, pulse, now, self._limits) is not None,
            parent_id=row.parent_id,
            root_id=row.root_id,
            depth=row.depth,
            retry_of=row.retry_of,
            recorded=bool(row.recorded),
            progress=said,
            queue_position=queue_position,
            seq=row.seq,
        )

    def _name(self, workspace_id: str) -> str:
        workspace = self._org.workspace(workspace_id)
        return "" if workspace is None else workspace.name


def fact_shown(noted: Noted) -> DelegationFact:
    """A line of a time line as clients read it."""
    at, late = rfc3339(noted.at), bool(noted.late)
    return DelegationFact(at, noted.fact, noted.status, noted.phase, noted.attempt, late, noted.detail)


def _in(state: str | None) -> dict[str, object]:
    """What a state asks for of rows."""
    return {"status": None if state == OPEN else state, "least_open": int(state == OPEN)}


def _time(at: int | None) -> str | None:
    return None if at is None else rfc3339(at)


def _ago(microseconds: int) -> str:
    seconds = max(0, microseconds) // SECOND
    for name, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size} {name}"
    return f"{seconds} s"


def _stopped(seq: int, source_id: str, at: int, payload: str) -> SnapshotRefusal:
    told = msgspec.structs.asdict(msgspec.json.decode(payload, type=DelegationRefused))
    del told["parent_id"]
    return SnapshotRefusal(seq=seq, at=rfc3339(at), source_id=source_id, **told)


def _progress(at: int, said: str) -> Progress:
    """How far a delegation is, as it was kept."""
    return replace(msgspec.json.decode(said, type=Progress), at=rfc3339(at))


def _said(row: Sequence[Any]) -> Said:
    delegation_id, source_id, target_id, status, phase, rev, attempt, taken_at, at, text = row
    said = _progress(at, text)
    told = DelegationStatus(
        delegation_id=delegation_id,
        target_id=target_id,
        status=status,
        phase=phase,
        attempt=attempt,
        taken_at=_time(taken_at),
        current_step=said.current_step,
        tools_used=said.tools_used,
        eta_hint=said.eta_hint,
        percent=said.percent,
    )
    return Said(delegation_id, source_id, at, rev, rules.STATUS, told)


def _shown(row: Delegation, said: Progress | None) -> SnapshotDelegation:
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
        created_at=rfc3339(row.created_at),
        taken_at=_time(row.taken_at),
        life_at=rfc3339(row.life_at),
        deadline_at=rfc3339(row.deadline_at),
        error=row.error,
        retry_of=row.retry_of,
        progress=said,
    )
