"""Reads the journal as people read it: filtered, newest first, with a line for each event.

The journal has no index by workspace, name or item, since each would be a write for every event. So a request reads the
journal backwards, without payloads, and stops after a number of events that the limits name; its answer says where.
Called by `api/event_log.py`.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import msgspec
from msgspec import Raw, Struct

from molecule_core.common.clock import SECOND, Clock, to_optional_rfc3339, to_rfc3339, yield_to_others
from molecule_core.common.limits import Limits
from molecule_core.org.reader import OrgReader
from molecule_core.search.model import FoundRefs
from molecule_core.search.reader import SearchReader
from molecule_core.store.database import Store
from molecule_core.store.journal import EventHead, Journal, org_key
from molecule_core.store.wakeups import Notifier, Poll
from molecule_core.views.event_buckets import count_by_time
from molecule_core.views.event_filter import EventMatcher, EventQuery, refs_of
from molecule_core.views.event_lines import describe_event, direction_of, kind_of
from molecule_core.views.feed import Audience, Feed
from molecule_core.wire.schemas.event_log import ActivityHistogram, ActivityPage, LoggedEvent
from molecule_core.wire.schemas.live import EventEntity

# 1,000 heads keep the event loop for about 1.4 ms.
_PIECE_EVENTS = 1000
# Few, since an event may contain a large message.
_PAYLOADS_AT_ONCE = 32
# A state and a direction are in the payload: reading it costs about as much as reading this many events without.
_PAYLOAD_COST = 5
# 60 s: numbers are given in the order of commits, and times are taken before, by clocks that may differ by
# `clock_skew_seconds`.
_TIME_MARGIN = 60 * SECOND
_PROBES = 16
AFTER_NEWEST = 1 << 62
_ALL_REFS = FoundRefs(frozenset(), 0, is_complete=True)


class _Scan(Struct):
    """Progress of reading the journal backwards. `cursor`: all events from there on were read."""

    cursor: int
    budget: int
    at: int | None = None
    """The time of the last event that was read."""
    is_over: bool = False
    """Nothing older can match."""


class EventLogReader:
    """Reader of the activity of organisations."""

    def __init__(
        self,
        store: Store,
        feed: Feed,
        search: SearchReader,
        org: OrgReader,
        wakeups: Notifier,
        *,
        clock: Clock,
        limits: Limits,
    ) -> None:
        self._journal = Journal(store)
        self._feed = feed
        self._search = search
        self._org = org
        self._wakeups = wakeups
        self._clock = clock
        self._limits = limits

    # -- pages ---------------------------------------------------------------------------------------------------------

    async def read_page(self, audience: Audience, query: EventQuery, *, before: int | None, limit: int) -> ActivityPage:
        """Return the newest events before a number, newest first. Without a number: the newest of all."""
        org_id = audience.org_id
        head = await self._journal.last_seq(org_id)
        scan = await self._start(org_id, query, min(head + 1, AFTER_NEWEST if before is None else before))
        found = await self._find_refs(org_id, query, scan)
        events: list[LoggedEvent] = []
        async with aclosing(self._scan(audience, query, scan, found, limit)) as pieces:
            async for some in pieces:
                if not self._fill(events, await self._load(org_id, query, some), limit):
                    # Read again from here: of this piece, and of what was read with it, something may be left.
                    scan.cursor, scan.is_over = events[-1].seq, False
                    break
        return ActivityPage(
            events=events,
            next_cursor=None if scan.is_over or scan.cursor <= 1 else str(scan.cursor),
            newest_seq=head,
            searched_to=to_optional_rfc3339(scan.at),
            kept_since=await self._kept_since(org_id),
            is_text_complete=found.is_complete,
        )

    def _fill(self, events: list[LoggedEvent], more: Sequence[LoggedEvent], limit: int) -> bool:
        """Add events to a page. Return whether more of them fit."""
        size = sum(len(memoryview(each.payload)) for each in events)
        for event in more:
            size += len(memoryview(event.payload))
            if events and size > self._limits.page_bytes:
                return False
            events.append(event)
            if len(events) == limit:
                return False
        return True

    async def read_after(
        self, audience: Audience, query: EventQuery, *, after: int, limit: int, wait_seconds: int
    ) -> ActivityPage:
        """Return events after a number, oldest first. Waits for one, for at most `wait_seconds`."""
        cursor = after

        async def poll() -> Poll[ActivityPage]:
            nonlocal cursor
            page = await self._read_forwards(audience, query, cursor, limit)
            cursor = page.newest_seq
            return Poll(page if page.events or page.next_cursor is not None else None)

        found = await self._wakeups.wait_until(org_key(audience.org_id), poll, wait_seconds)
        return found or await self._read_forwards(audience, query, cursor, limit)

    async def _read_forwards(self, audience: Audience, query: EventQuery, after: int, limit: int) -> ActivityPage:
        org_id, matcher = audience.org_id, EventMatcher(audience, query)
        heads = await self._journal.heads_after(org_id, after, _PIECE_EVENTS)
        matching = [each for each in heads if matcher.matches(each)]
        cursor = heads[-1].seq if heads else after
        is_over = len(heads) < _PIECE_EVENTS
        events: list[LoggedEvent] = []
        for first in range(0, len(matching), _PAYLOADS_AT_ONCE):
            some = matching[first : first + _PAYLOADS_AT_ONCE]
            if query.text is not None:
                refs = dict.fromkeys(ref for each in some for ref in refs_of(each))
                wanted = await self._search.filter_refs(org_id, query.text, list(refs))
                some = [each for each in some if not wanted.isdisjoint(refs_of(each))]
            if not self._fill(events, await self._load(org_id, query, some), limit):
                is_over = is_over and events[-1].seq == cursor
                cursor = events[-1].seq
                break
            await yield_to_others()
        return ActivityPage(
            events=events,
            next_cursor=None if is_over else str(cursor),
            newest_seq=cursor,
            searched_to=None,
            kept_since=await self._kept_since(org_id),
            is_text_complete=True,
        )

    # -- histogram -----------------------------------------------------------------------------------------------------

    async def count_by_time(self, audience: Audience, query: EventQuery, *, buckets: int) -> ActivityHistogram:
        """Count events by time, the newest ones first, up to the limit of one request."""
        org_id = audience.org_id
        scan = await self._start(org_id, query, await self._journal.last_seq(org_id) + 1)
        found = await self._find_refs(org_id, query, scan)
        times: list[int] = []
        async for some in self._scan(audience, query, scan, found, AFTER_NEWEST):
            if not query.needs_payloads:
                times += [each.at for each in some]
            else:
                wanted = {each.seq for each in await self._load(org_id, query, some)}
                times += [each.at for each in some if each.seq in wanted]
        since = query.since if scan.is_over else scan.at
        now = self._clock.now()
        until = now if query.until is None else min(query.until, now)
        counted = count_by_time(times, since and min(since, now), until, buckets)
        return ActivityHistogram(
            buckets=counted.buckets,
            until=to_optional_rfc3339(counted.until),
            total=len(times),
            counted_since=None if scan.is_over else to_optional_rfc3339(scan.at),
            kept_since=await self._kept_since(org_id),
            is_text_complete=found.is_complete,
        )

    # -- reading backwards ---------------------------------------------------------------------------------------------

    async def _start(self, org_id: str, query: EventQuery, before: int) -> _Scan:
        cursor = before if query.until is None else min(before, await self._first_from(org_id, query.until))
        return _Scan(cursor, self._limits.activity_scan_events)

    async def _first_from(self, org_id: str, at: int) -> int:
        """Return the number of the first event that is surely not before a time."""
        low, high = await self._journal.first_seq(org_id), await self._journal.last_seq(org_id) + 1
        while low < high:
            step = max(1, (high - low) // (_PROBES + 1))
            probes = list(range(low, high, step))
            times = await self._journal.times(org_id, probes)
            later = [
                seq for seq, time in zip(probes, times, strict=True) if time is not None and time >= at + _TIME_MARGIN
            ]
            first_later = later[0] if later else high
            earlier = [seq for seq in probes if seq < first_later]
            low, high = (earlier[-1] + 1 if earlier else first_later), first_later
        return high

    async def _find_refs(self, org_id: str, query: EventQuery, scan: _Scan) -> FoundRefs:
        """Return the rows that have the words of the query, as far as events before the cursor can be about them."""
        if query.text is None:
            return _ALL_REFS
        (newest,) = await self._journal.heads_before(org_id, scan.cursor, 1) or (None,)
        until = 0 if newest is None else newest.at + _TIME_MARGIN
        text = query.text._replace(until=until)
        return await self._search.find_refs(org_id, text, self._limits.activity_text_matches)

    async def _scan(
        self, audience: Audience, query: EventQuery, scan: _Scan, found: FoundRefs, limit: int
    ) -> AsyncGenerator[list[EventHead]]:
        """Yield matching events in small pieces, newest first, until the budget is spent or nothing older can match."""
        matcher = EventMatcher(audience, query)
        first_time = (0 if query.since is None else query.since) - _TIME_MARGIN
        oldest_text = found.oldest_at - _TIME_MARGIN
        piece = min(limit, _PIECE_EVENTS) if query.accepts_all and audience.workspace_id is None else _PIECE_EVENTS
        if query.text is not None and not found.refs and found.is_complete:
            scan.is_over = True
        while scan.budget > 0 and not scan.is_over:
            count = min(piece, scan.budget)
            heads = await self._journal.heads_before(audience.org_id, scan.cursor, count)
            scan.budget -= len(heads)
            scan.is_over = len(heads) < count
            some: list[EventHead] = []
            for head in heads:
                if head.at < first_time or head.at < oldest_text:
                    # Of more texts than are looked for at once, the next request looks for older ones.
                    scan.is_over = scan.is_over or head.at < first_time or found.is_complete
                    scan.budget = 0
                    break
                scan.cursor, scan.at = head.seq, head.at
                if matcher.matches(head) and (query.text is None or not found.refs.isdisjoint(refs_of(head))):
                    some.append(head)
                    if len(some) == _PAYLOADS_AT_ONCE:
                        scan.budget -= _PAYLOAD_COST * len(some) if query.needs_payloads else 0
                        yield some
                        some = []
            if some:
                yield some
            await yield_to_others()
        if not scan.is_over:
            scan.is_over = scan.cursor <= await self._journal.first_seq(audience.org_id)

    async def _load(self, org_id: str, query: EventQuery, heads: Sequence[EventHead]) -> list[LoggedEvent]:
        """Load events, those of the wanted state and direction, in the order given."""
        entries = await self._journal.load(org_id, [each.seq for each in heads])
        encoded = await self._feed.encode_entries(entries)
        found = []
        for entry, event in zip(entries, encoded, strict=True):
            payload = msgspec.json.decode(event.payload)
            line, state = describe_event(entry.name, entry.workspace_id, payload, self._name_of)
            direction = direction_of(entry.name, payload)
            if query.state in (None, state) and query.has_direction(entry.workspace_id, direction, line.actor_id):
                logged = LoggedEvent(
                    event=entry.name,
                    seq=entry.seq,
                    timestamp=to_rfc3339(entry.at),
                    workspace_id=entry.workspace_id,
                    workspace_name=self._name_of(entry.workspace_id),
                    kind=kind_of(entry.name),
                    state=state,
                    direction=direction,
                    line=line,
                    entity=EventEntity(entry.entity_kind, entry.entity_id, entry.rev),
                    payload=Raw(event.payload),
                )
                found.append(logged)
        return found

    def _name_of(self, workspace_id: str) -> str | None:
        workspace = self._org.workspace(workspace_id)
        return None if workspace is None else workspace.name

    async def _kept_since(self, org_id: str) -> str | None:
        """Return the time of the oldest event, if older ones were deleted."""
        first = await self._journal.first_seq(org_id)
        if first <= 1:
            return None
        (at,) = await self._journal.times(org_id, [first])
        return to_optional_rfc3339(at)
