"""Reads of memories and keys."""

from typing import Any

from molecule_core.ground.clock import Clock
from molecule_core.ground.errors import CursorGone, NotFound
from molecule_core.ground.limits import Limits
from molecule_core.memory.model import Entry, Memory, Wish
from molecule_core.memory.rules import search_for, shelves_of
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Store

_NEWEST = (1 << 63) - 1


class MemoryReader:
    """What a workspace may recall, as its place in the tree is now."""

    def __init__(self, store: Store, org: OrgReader, *, limits: Limits) -> None:
        self._store = store
        self._org = org
        self._limits = limits

    async def recall(self, workspace_id: str, wish: Wish) -> list[Memory]:
        """Memories that a workspace may read, newest first; of those with a text, the ones that hold all its words.

        Raises CursorGone."""
        before = _NEWEST if wish.before is None else await self._number_of(workspace_id, wish.before)
        asked: dict[str, Any] = {
            "shelves": " ".join(shelves_of(self._org, workspace_id, wish.scope)),
            "namespace": wish.namespace,
            "count": wish.most,
        }
        name = "newest_memories"
        if wish.text is not None:
            search = search_for(wish.text, self._limits.memory_query_words)
            if search is None:
                return []
            name, asked = "search_memories", {**asked, **search._asdict()}
        found: list[Memory] = []
        while len(found) < wish.most:
            page = [Memory(*row) for row in await self._store.rows(name, {**asked, "before": before})]
            found += [each for each in page if self._is_there(each)]
            if len(page) < wish.most:
                break
            before = page[-1].no
        return found[: wish.most]

    async def find(self, workspace_id: str, memory_id: str) -> Memory:
        """A memory that a workspace may read. Raises NotFound."""
        for row in await self._store.rows("memory_by_id", {"id": memory_id}):
            memory = Memory(*row)
            if self.may_read(workspace_id, memory):
                return memory
        raise NotFound(what="memory")

    def may_read(self, workspace_id: str, memory: Memory) -> bool:
        """Whether a workspace may read a memory."""
        return self._is_there(memory) and memory.shelf in shelves_of(self._org, workspace_id, None)

    async def _number_of(self, workspace_id: str, memory_id: str) -> int:
        try:
            return (await self.find(workspace_id, memory_id)).no
        except NotFound:
            raise CursorGone(name="before") from None

    def _is_there(self, memory: Memory) -> bool:
        """What a workspace remembered goes with it, also before retention has come by."""
        author = self._org.workspace(memory.workspace_id)
        return author is not None and not author.removed


class KeyReader:
    """The values that a workspace keeps under keys."""

    def __init__(self, store: Store, *, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def entry(self, workspace_id: str, key: str) -> Entry:
        """What stands under a key. Raises NotFound."""
        for row in await self._store.rows("key_entry", {"workspace_id": workspace_id, "key": key, **self._now()}):
            return Entry(*row)
        raise NotFound(what="key")

    async def entries(self, workspace_id: str, after: str, count: int) -> list[Entry]:
        """What stands under the keys behind one, in the order of their code points."""
        wish = {"workspace_id": workspace_id, "after": after, "count": count, **self._now()}
        return [Entry(*row) for row in await self._store.rows("key_entries", wish)]

    def _now(self) -> dict[str, int]:
        return {"now": self._clock.now()}
