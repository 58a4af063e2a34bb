"""A store with random texts of every kind on it, and a search: without HTTP, for properties."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec

from molecule_core.common.clock import SECOND
from molecule_core.common.ids import IdGenerator
from molecule_core.common.limits import Limits
from molecule_core.delegations.model import Delegation
from molecule_core.messages.activities import insert_activity
from molecule_core.messages.model import Activity
from molecule_core.messages.rules import encode_message
from molecule_core.org.model import Org
from molecule_core.org.reader import OrgReader
from molecule_core.org.registry import OrgRegistry
from molecule_core.search.indexer import SearchIndexer
from molecule_core.search.model import SearchKind, SearchPage, SearchRequest
from molecule_core.search.reader import SearchReader
from molecule_core.search.rules import AFTER_NEWEST, parse_query
from molecule_core.search.writer import SearchIndexWriter
from molecule_core.store.database import Command, JournalEvent, Statement, WriteSet, write_only
from molecule_core.wire.schemas.activity import ActivityMethod, ActivityType, MessageKind
from testing.clocks import FakeClock, SeededRandomness
from testing.engines import Engine, open_store, place_for
from testing.org_trees import seat
from testing.waits import IN_PROCESS_SECONDS

MAX_INT = (1 << 62) - 1
_THREAD_COLUMNS: dict[str, Any] = {
    **dict.fromkeys(
        ("parent_id", "requester_id", "fork_id", "role", "call_id", "model", "effort", "message", "end_status")
    ),
    **dict.fromkeys(("end_message", "turn_id", "owner")),
    **dict.fromkeys(
        ("fork_at", "fork_since", "base_version", "base_bytes", "base_tokens", "developer", "context", "ends"), 0
    ),
    **dict.fromkeys(("open", "turns", "closed", "heard", "tokens", "turn_tokens", "last_ordinal", "generation"), 0),
    **dict.fromkeys(("owner_until", "seen", "revision"), 0),
    **dict.fromkeys(("tools", "permissions", "queue", "flags", "waits"), "[]"),
    **dict.fromkeys(("task_name", "nickname", "wake", "base_sha", "base_item", "base_from", "status"), ""),
    "kind": "root",
}


class Written(NamedTuple):
    """A text that was written, as a test remembers it. `at`: microseconds."""

    org_id: str
    kind: SearchKind
    id: str
    ordinal: int
    workspace_ids: tuple[str, ...]
    at: int
    text: str


class World:
    """Texts, index and search on one engine, driven from tests that are not async."""

    def __init__(self, runner: asyncio.Runner, engine: Engine, folder: Path, postgres: str, limits: Limits) -> None:
        self.runner = runner
        self.clock = FakeClock()
        self.ids = IdGenerator(self.clock, SeededRandomness(90))
        self.registry = OrgRegistry()
        self.limits = limits
        self.engine = engine
        self.place = self.run(place_for(engine, folder, postgres))
        self.store = cast(Any, open_store(engine, self.place, clock=self.clock, limits=limits))
        self.org_reader = OrgReader(self.registry)
        self.indexer = self.new_indexer()
        self.reader = SearchReader(self.store, self.org_reader, limits=limits)
        self._threads: dict[str, str] = {}
        self._seqs: dict[str, int] = {}
        self.run(self.store.open())

    def new_indexer(self) -> SearchIndexer:
        """An indexer that knows nothing yet, as that of another process."""
        writer = SearchIndexWriter(self.store, limits=self.limits)
        return SearchIndexer(self.store, self.org_reader, writer, clock=self.clock, limits=self.limits)

    def run(self, work: Awaitable[Any]) -> Any:
        """Does something on the loop, bounded."""

        async def bounded() -> Any:
            async with asyncio.timeout(IN_PROCESS_SECONDS * 6):
                return await work

        return self.runner.run(bounded())

    def org(self) -> str:
        """A new organisation."""
        org_id = self.ids.new()
        self.registry.put_org(Org(org_id, org_id, False, 0))
        return org_id

    def seat(self, org_id: str) -> str:
        """A new workspace."""
        id_ = self.ids.new_random()
        self.registry.put_workspace(seat(id_, org_id))
        return id_

    def index(self) -> None:
        """Indexes all that is there."""
        self.run(self.indexer.index_all())

    # -- texts ---------------------------------------------------------------------------------------------------------

    def write(self, org_id: str, kind: SearchKind, text: str, first: str, second: str) -> Written:
        """A text of a kind, of one workspace or of two, a second after the one before."""
        self.clock.at += SECOND
        make: Callable[[str, str, str, str], tuple[Written, list[Statement], list[JournalEvent]]] = {
            SearchKind.MESSAGE: self._message,
            SearchKind.DELEGATION: self._delegation,
            SearchKind.THREAD: self._entry,
            SearchKind.MEMORY: self._memory,
        }[kind]
        written, writes, events = make(org_id, text, first, second)
        self.change(org_id, writes, events)
        return written

    def change(self, org_id: str, writes: list[Statement], events: list[JournalEvent]) -> None:
        """Writes rows and their events, as a writer does."""
        command = Command(org_id, (), lambda: write_only(WriteSet(None, writes, events)))

        async def write() -> None:
            await self.store.run(command)

        self.run(write())

    def _next_seq(self, workspace_id: str) -> int:
        self._seqs[workspace_id] = found = self._seqs.get(workspace_id, 0) + 1
        return found

    def _message(self, org_id: str, text: str, first: str, second: str) -> Any:
        id_ = self.ids.new()
        body = encode_message({"messageId": id_, "parts": [{"kind": "text", "text": text}], "metadata": {}})
        activity = Activity(
            id=id_,
            org_id=org_id,
            workspace_id=first,
            seq=self._next_seq(first),
            activity_type=ActivityType.RECEIVE,
            method=ActivityMethod.SEND,
            kind=MessageKind.PEER,
            source_id=second,
            target_id=first,
            sender=f"workspace:{second}",
            created_at=self.clock.at,
            request_body=body.decode(),
        )
        written = Written(org_id, SearchKind.MESSAGE, id_, 0, (first, second), self.clock.at, text)
        changes = insert_activity(activity)
        return written, list(changes.writes), list(changes.events)

    def _delegation(self, org_id: str, text: str, first: str, second: str) -> Any:
        id_ = self.ids.new()
        row = Delegation(
            org_id=org_id,
            id=id_,
            source_id=first,
            target_id=second,
            task=text,
            task_hash=id_,
            seq=self._next_seq(first),
            activity_id=id_,
            root_id=id_,
            depth=0,
            hop=0,
            begun_by="",
            created_at=self.clock.at,
            updated_at=self.clock.at,
            life_at=self.clock.at,
            deadline_at=self.clock.at,
        )
        written = Written(org_id, SearchKind.DELEGATION, id_, 0, (first, second), self.clock.at, text)
        return written, [("insert_delegation", row)], [_event("DELEGATION_STATUS", first, "delegation", id_)]

    def _entry(self, org_id: str, text: str, first: str, _second: str) -> Any:
        thread_id, writes = self._threads.get(first), list[Statement]()
        if thread_id is None:
            thread_id = self._threads[first] = self.ids.new()
            ids = dict.fromkeys(("thread_id", "root_id", "base_thread", "path"), thread_id)
            owners = dict.fromkeys(("workspace_id", "root_workspace_id"), first)
            times = dict.fromkeys(("created_at", "updated_at"), self.clock.at)
            writes.append(("insert_thread", {**_THREAD_COLUMNS, **ids, **owners, **times, "org_id": org_id}))
        ordinal = self._next_seq(thread_id)
        body = msgspec.json.encode({"type": "agent_message", "text": text}).decode()
        entry = {"thread_id": thread_id, "ordinal": ordinal, "turn_id": None, "type": "agent_message", "body": body}
        writes.append(("insert_thread_entry", {**entry, "at": self.clock.at, "key": None}))
        written = Written(org_id, SearchKind.THREAD, thread_id, ordinal, (first,), self.clock.at, text)
        return written, writes, [_event("THREAD_ITEM", first, "thread", thread_id, ordinal)]

    def _memory(self, org_id: str, text: str, first: str, _second: str) -> Any:
        id_ = self.ids.new()
        row = {
            "no": self.ids.new_number(),
            "id": id_,
            "org_id": org_id,
            "workspace_id": first,
            "scope": "LOCAL",
            "namespace": "general",
            "shelf": "_l",
            "content": text,
            "words": "",
            "content_hash": id_,
            "written_by": "",
            "created_at": self.clock.at,
        }
        written = Written(org_id, SearchKind.MEMORY, id_, 0, (first,), self.clock.at, text)
        return written, [("insert_memory", row)], [_event("MEMORY_WRITTEN", first, "memory", id_)]

    # -- searches ------------------------------------------------------------------------------------------------------

    def search(self, org_id: str, words: str, **wish: Any) -> SearchPage | None:
        """A page of a search; None if it has no words."""
        terms = parse_query(words, self.limits.search_query_words)
        if terms is None:
            return None
        request = SearchRequest(
            terms,
            wish.get("kinds", tuple(SearchKind)),
            wish.get("workspace_id"),
            wish.get("since", 0),
            wish.get("until", MAX_INT),
            wish.get("before", AFTER_NEWEST),
            wish.get("limit", 1000),
        )
        found: SearchPage = self.run(self.reader.search(org_id, request))
        return found


def _event(name: str, workspace_id: str, kind: str, id_: str, rev: int = 0) -> JournalEvent:
    return JournalEvent(name, workspace_id, kind, id_, rev, b"{}")


@contextmanager
def world_on(engine: Engine, folder: Path, postgres: str, limits: Limits | None = None) -> Iterator[World]:
    """A world until the block ends."""
    with asyncio.Runner() as runner:
        world = World(runner, engine, folder, postgres, limits or Limits())
        try:
            yield world
        finally:
            world.run(world.store.close())
