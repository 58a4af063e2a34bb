"""Reads of memories and keys."""

from typing import Any

from molecule_core.common.clock import Clock
from molecule_core.common.errors import CursorNotFound, NotFound
from molecule_core.common.limits import Limits
from molecule_core.memory.model import KeyValue, Memory, RecallQuery
from molecule_core.memory.rules import parse_search, readable_partitions
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Store

_AFTER_NEWEST = (1 << 63) - 1


class MemoryReader:
    """Reads of memories. What a workspace can read follows its current position in the tree."""

    def __init__(self, store: Store, org: OrgReader, *, limits: Limits) -> None:
        self._store = store
        self._org = org
        self._limits = limits

    async def recall(self, workspace_id: str, query: RecallQuery) -> list[Memory]:
        """Return the memories that a workspace can read, newest first, filtered by the query.

        A text matches memories with all its words. Raises CursorNotFound."""
        before = _AFTER_NEWEST if query.before is None else await self._sequence_number(workspace_id, query.before)
        params: dict[str, Any] = {
            "shelves": " ".join(readable_partitions(self._org, workspace_id, query.scope)),
            "namespace": query.namespace,
            "count": query.limit,
        }
        name = "newest_memories"
        if query.text is not None:
            search = parse_search(query.text, self._limits.memory_query_words)
            if search is None:
                return []
            name, params = "search_memories", {**params, **search._asdict()}
        found: list[Memory] = []
        while len(found) < query.limit:
            page = [Memory(*row) for row in await self._store.rows(name, {**params, "before": before})]
            found += [each for each in page if self._is_author_active(each)]
            if len(page) < query.limit:
                break
            before = page[-1].no
        return found[: query.limit]

    async def find(self, workspace_id: str, memory_id: str) -> Memory:
        """Return a memory that a workspace can read. Raises NotFound."""
        for row in await self._store.rows("memory_by_id", {"id": memory_id}):
            memory = Memory(*row)
            if self.may_read(workspace_id, memory):
                return memory
        raise NotFound(what="memory")

    def may_read(self, workspace_id: str, memory: Memory) -> bool:
        """Return whether a workspace can read a memory."""
        return self._is_author_active(memory) and memory.shelf in readable_partitions(self._org, workspace_id, None)

    async def _sequence_number(self, workspace_id: str, memory_id: str) -> int:
        try:
            return (await self.find(workspace_id, memory_id)).no
        except NotFound:
            raise CursorNotFound(name="before") from None

    def _is_author_active(self, memory: Memory) -> bool:
        """Return whether the author still exists.

        Memories of a removed one are hidden before retention deletes them."""
        author = self._org.workspace(memory.workspace_id)
        return author is not None and not author.removed


class KeyReader:
    """Reads of the values that a workspace keeps under keys."""

    def __init__(self, store: Store, *, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def get_value(self, workspace_id: str, key: str) -> KeyValue:
        """Return the value of a key. Raises NotFound."""
        for row in await self._store.rows("key_entry", {"workspace_id": workspace_id, "key": key, **self._now_param()}):
            return KeyValue(*row)
        raise NotFound(what="key")

    async def list_values(self, workspace_id: str, after: str, count: int) -> list[KeyValue]:
        """Return the values of up to `count` keys after one, by the code points of the keys."""
        query = {"workspace_id": workspace_id, "after": after, "count": count, **self._now_param()}
        return [KeyValue(*row) for row in await self._store.rows("key_entries", query)]

    def _now_param(self) -> dict[str, int]:
        return {"now": self._clock.now()}
