"""Keeps the search index up to date: follows the journal of each organisation, and indexes rows from before the index.

A message is not slowed down by its index: the journal says what has changed, and the index follows it in small pieces,
each with the position that it brings the index to. So it can be interrupted at any moment, and any process can go on.
Called by the server; calls `writer.py`.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from molecule_core.common.clock import Clock, yield_to_others
from molecule_core.common.errors import ServerBusy, StoreUnavailable
from molecule_core.common.limits import Limits
from molecule_core.org.reader import OrgReader
from molecule_core.search.model import (
    BackfillPosition,
    IndexPosition,
    SearchKind,
    SourceDocument,
    SourceRef,
    ref_of_event,
)
from molecule_core.search.source_reader import SourceReader
from molecule_core.search.writer import NOT_INDEXED, SearchIndexWriter
from molecule_core.store.database import Row, Store
from molecule_core.store.journal import ORG_PREFIX
from molecule_core.store.queries import Params

# A piece blocks the event loop for about 5 ms: at most this many documents, or characters of their texts.
_PIECE_DOCUMENTS = 16
_PIECE_CHARACTERS = 16 << 10
_READ_ROWS = 8
# Events about nothing searchable are skipped in larger pieces.
_PIECE_EVENTS = 256
# A process that starts reads at most so many of them again.
_MAX_SKIPPED_EVENTS = 2048
# One part of work, three parts of rest: other work is hardly delayed. Behind a piece that was not full there is more
# time, to collect what follows.
_REST_FACTOR = 3
_MIN_REST_SECONDS = 0.02
_COLLECT_SECONDS = 0.1
_RETRY_SECONDS = 5.0
# What other processes have committed and not indexed before they ended.
_SWEEP_SECONDS = 60.0
_ORGS_AT_ONCE = 100
# Organisations with many empty workspaces: as many reads as a piece of rows takes.
_MAX_EMPTY_READS = 64
_START = msgspec.json.encode(BackfillPosition()).decode()
_MESSAGES, _DELEGATIONS, _MEMORIES, _THREADS, _NO_STAGE = range(5)
_STAGES = {
    _MESSAGES: ("messages_to_index", SearchKind.MESSAGE),
    _DELEGATIONS: ("delegations_to_index", SearchKind.DELEGATION),
    _MEMORIES: ("memories_to_index", SearchKind.MEMORY),
}
_log = logging.getLogger("molecule.search")


class SearchIndexer:
    """Worker that keeps the index of all organisations up to date."""

    def __init__(
        self, store: Store, org: OrgReader, writer: SearchIndexWriter, *, clock: Clock, limits: Limits
    ) -> None:
        self._store = store
        self._org = org
        self._writer = writer
        self._sources = SourceReader(store)
        self._clock = clock
        self._limits = limits
        self._positions: dict[str, IndexPosition] = {}
        self._skipped: dict[str, int] = {}
        """Up to where the journal behind a stored position has nothing searchable: no commit is made for that."""
        self._behind: dict[str, None] = {}
        self._working = asyncio.Lock()
        self._was_full = False
        self._changed = asyncio.Event()
        self._closing = asyncio.Event()

    def on_commit(self, keys: Iterable[str]) -> None:
        """Note which organisations have new events, by the wake-up keys of a commit."""
        behind = [key.removeprefix(ORG_PREFIX) for key in keys if key.startswith(ORG_PREFIX)]
        if behind:
            self._behind.update(dict.fromkeys(behind))
            self._changed.set()

    def close(self) -> None:
        """End `run` after the current piece."""
        self._closing.set()
        self._changed.set()

    async def run(self) -> None:
        """Index what is new until `close`."""
        next_sweep = started = self._clock.monotonic()
        while not self._closing.is_set():
            if started >= next_sweep:
                self._mark_all()
                next_sweep = started + _SWEEP_SECONDS
            try:
                worked, rest = await self.index_piece(), 0.0
            except (StoreUnavailable, ServerBusy):
                worked, rest = True, _RETRY_SECONDS
            except Exception:
                _log.exception("the search index could not be updated; retrying")
                worked, rest = True, _RETRY_SECONDS
            if worked:
                least = _MIN_REST_SECONDS if self._was_full else _COLLECT_SECONDS
                rest = max(rest, least, _REST_FACTOR * (self._clock.monotonic() - started))
                await self._clock.wait(self._closing.wait(), rest)
            else:
                await self._clock.wait(self._changed.wait(), next_sweep - started)
            started = self._clock.monotonic()

    def _mark_all(self) -> None:
        self._behind.update(dict.fromkeys(each.id for each in self._org.orgs()))

    async def index_all(self) -> None:
        """Index all that is there now, without rests."""
        self._mark_all()
        while await self.index_piece():
            pass

    async def index_piece(self) -> bool:
        """Index a piece of each organisation that may be behind; return whether any may have more."""
        async with self._working:
            self._changed.clear()
            self._was_full = False
            org_ids = list(self._behind)[:_ORGS_AT_ONCE]
            await self._load_positions([each for each in org_ids if each not in self._positions])
            params: list[Params] = [
                {"org_id": each, "seq": self._next_seq(each) - 1, "count": _PIECE_EVENTS} for each in org_ids
            ]
            events = await self._store.rows_of_each("events_to_index", params) if params else []
            for org_id, rows in zip(org_ids, events, strict=True):
                if not await self._index_org(org_id, rows):
                    self._behind.pop(org_id, None)
            return bool(self._behind)

    def _next_seq(self, org_id: str) -> int:
        return max(self._positions[org_id].seq, self._skipped.get(org_id, 0)) + 1

    async def _load_positions(self, org_ids: Sequence[str]) -> None:
        params: list[Params] = [{"org_id": each} for each in org_ids]
        found = await self._store.rows_of_each("search_position", params) if params else []
        for org_id, rows in zip(org_ids, found, strict=True):
            self._positions[org_id] = IndexPosition(*rows[0]) if rows else NOT_INDEXED

    async def _index_org(self, org_id: str, events: Sequence[Row]) -> bool:
        """Index the next piece of an organisation: its journal first. Return whether it may have more."""
        position = self._positions[org_id]
        if events and events[0][0] > self._next_seq(org_id):
            # The journal lost events that were not indexed: what they were about is found in the tables.
            return await self._advance(org_id, IndexPosition(events[0][0] - 1, _START))
        if events:
            reached, refs = position.seq, dict[SourceRef, int]()
            for seq, entity_kind, entity_id, rev, name in events:
                ref = ref_of_event(entity_kind, entity_id, rev, name)
                if ref is not None and ref not in refs:
                    if len(refs) == _PIECE_DOCUMENTS:
                        break
                    refs[ref] = seq
                reached = seq
            if not refs and reached - position.seq < _MAX_SKIPPED_EVENTS:
                self._skipped[org_id] = reached
                return True
            documents, loaded = await self._load_documents(org_id, list(refs))
            self._was_full |= len(refs) == _PIECE_DOCUMENTS or len(loaded) < len(refs)
            if len(loaded) < len(refs):
                reached = list(refs.values())[len(loaded)] - 1
            gone = [each for each in loaded if each not in documents]
            found = list(documents.values())
            return await self._advance(org_id, IndexPosition(reached, position.backfill), found, gone)
        if position.backfill is not None:
            return await self._backfill(org_id, position)
        return False

    async def _load_documents(
        self, org_id: str, refs: Sequence[SourceRef]
    ) -> tuple[dict[SourceRef, SourceDocument], list[SourceRef]]:
        """Load documents until their texts fill a piece; return them, and the rows that were read."""
        documents: dict[SourceRef, SourceDocument] = {}
        loaded: list[SourceRef] = []
        characters = 0
        for first in range(0, len(refs), _READ_ROWS):
            some = refs[first : first + _READ_ROWS]
            found = await self._sources.load(org_id, some)
            for ref in some:
                if characters >= _PIECE_CHARACTERS:
                    return documents, loaded
                loaded.append(ref)
                if ref in found:
                    documents[ref] = found[ref]
                    characters += min(len(found[ref].text), self._limits.search_text_characters)
            await yield_to_others()
        return documents, loaded

    async def _advance(
        self,
        org_id: str,
        reached: IndexPosition,
        documents: Sequence[SourceDocument] = (),
        gone: Sequence[SourceRef] = (),
    ) -> bool:
        """Write a piece. If another process has written it, read its position again."""
        if await self._writer.advance(org_id, self._positions[org_id], reached, documents, gone):
            self._positions[org_id] = reached
        else:
            del self._positions[org_id]
        return True

    # -- rows from before the index ------------------------------------------------------------------------------------

    async def _backfill(self, org_id: str, position: IndexPosition) -> bool:
        """Index the next rows from before the index."""
        self._was_full = True
        rows = _BackfillRows([], [], msgspec.json.decode(position.backfill or _START, type=BackfillPosition))
        for _ in range(_MAX_EMPTY_READS):
            place = rows.end
            if place.stage == _NO_STAGE or not place.workspace_id:
                following = self._next_workspace(org_id, place.workspace_id)
                if following is None:
                    _log.info("the search index of an organisation has all older rows now", extra={"org_id": org_id})
                    return await self._advance(org_id, IndexPosition(position.seq, None))
                place = BackfillPosition(following)
            rows = await (self._next_entries(place) if place.stage == _THREADS else self._next_rows(place))
            if rows.refs:
                break
        documents, loaded = await self._load_documents(org_id, rows.refs)
        reached = rows.end if len(loaded) == len(rows.refs) else rows.places[len(loaded) - 1]
        encoded = msgspec.json.encode(reached).decode()
        return await self._advance(org_id, IndexPosition(position.seq, encoded), list(documents.values()))

    def _next_workspace(self, org_id: str, after: str) -> str | None:
        return min((each.id for each in self._org.all_with_removed(org_id) if each.id > after), default=None)

    async def _next_rows(self, place: BackfillPosition) -> "_BackfillRows":
        query, kind = _STAGES[place.stage]
        params = {"workspace_id": place.workspace_id, "number": place.number, "count": _PIECE_DOCUMENTS}
        rows = await self._store.rows(query, params)
        places = [BackfillPosition(place.workspace_id, place.stage, row[0]) for row in rows]
        is_full = len(rows) == _PIECE_DOCUMENTS
        end = places[-1] if is_full else BackfillPosition(place.workspace_id, place.stage + 1)
        return _BackfillRows([SourceRef(kind, row[1]) for row in rows], places, end)

    async def _next_entries(self, place: BackfillPosition) -> "_BackfillRows":
        """Return the next entries of a thread, or only the place of the next thread."""
        if not place.text:
            return _BackfillRows([], [], await self._next_thread(place))
        params = {"thread_id": place.text, "ordinal": place.ordinal, "count": _PIECE_DOCUMENTS}
        rows = await self._store.rows("entries_to_index", params)
        places = [replace(place, ordinal=row[0]) for row in rows]
        end = places[-1] if len(rows) == _PIECE_DOCUMENTS else await self._next_thread(place)
        return _BackfillRows([SourceRef(SearchKind.THREAD, place.text, row[0]) for row in rows], places, end)

    async def _next_thread(self, place: BackfillPosition) -> BackfillPosition:
        params = {"workspace_id": place.workspace_id, "number": place.number, "text": place.text}
        for created_at, thread_id in await self._store.rows("thread_to_index", params):
            return BackfillPosition(place.workspace_id, _THREADS, created_at, thread_id)
        return BackfillPosition(place.workspace_id, _NO_STAGE)


class _BackfillRows(NamedTuple):
    """Rows to index, the place behind each of them, and the one behind all."""

    refs: list[SourceRef]
    places: list[BackfillPosition]
    end: BackfillPosition
