"""A store with the hands of memory on it and a tree in memory: without HTTP, for stories and properties."""

import asyncio
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from molecule_core.common.errors import MoleculeError
from molecule_core.common.ids import IdGenerator
from molecule_core.common.limits import Limits
from molecule_core.memory.model import Memory, MemoryDraft, MemoryScope, RecallQuery
from molecule_core.memory.reader import KeyReader, MemoryReader
from molecule_core.memory.writer import KeyWriter, MemoryWriter
from molecule_core.org.model import Org
from molecule_core.org.reader import OrgReader
from molecule_core.org.registry import OrgRegistry
from testing.clocks import FakeClock, SeededRandomness
from testing.engines import Engine, open_store, place_for
from testing.org_trees import seat
from testing.waits import IN_PROCESS_SECONDS


class World:
    """Everything about memory on one engine, driven from tests that are not async."""

    def __init__(self, runner: asyncio.Runner, engine: Engine, folder: Path, postgres: str, limits: Limits) -> None:
        self.runner = runner
        self.clock = FakeClock()
        self.ids = IdGenerator(self.clock, SeededRandomness(36))
        self.registry = OrgRegistry()
        self.place = self.run(place_for(engine, folder, postgres))
        self.engine = engine
        self.store = cast(Any, open_store(engine, self.place, clock=self.clock, limits=limits))
        org = OrgReader(self.registry)
        self.reader = MemoryReader(self.store, org, limits=limits)
        self.writer = MemoryWriter(self.store, org, self.reader, clock=self.clock, ids=self.ids, limits=limits)
        self.keys = KeyWriter(self.store, org, clock=self.clock, limits=limits)
        self.entries = KeyReader(self.store, clock=self.clock)
        self.run(self.store.open())

    def run(self, work: Awaitable[Any]) -> Any:
        """Does something on the loop, bounded."""

        async def bounded() -> Any:
            async with asyncio.timeout(IN_PROCESS_SECONDS):
                return await work

        return self.runner.run(bounded())

    def refusal_or(self, work: Awaitable[Any]) -> Any:
        """The answer, or the class of the refusal."""
        try:
            return self.run(work)
        except MoleculeError as error:
            return type(error)

    # -- who is there --------------------------------------------------------------------------------------------------

    def org(self, *, skip: bool = False) -> str:
        """A new organisation."""
        org_id = self.ids.new()
        self.registry.put_org(Org(org_id, org_id, skip, 0))
        return org_id

    def seat(self, org_id: str, parent_id: str | None = None) -> str:
        """A new workspace."""
        id_ = self.ids.new()
        self.registry.put_workspace(seat(id_, org_id, parent_id))
        return id_

    # -- memories ------------------------------------------------------------------------------------------------------

    def commit(
        self, workspace_id: str, content: str, scope: MemoryScope = MemoryScope.LOCAL, namespace: str = ""
    ) -> Memory:
        """Something is remembered."""
        draft = MemoryDraft(content, scope, namespace, f"workspace:{workspace_id}")
        kept: Memory = self.run(self.writer.save_memory(workspace_id, draft)).memory
        return kept

    def recall(self, workspace_id: str, text: str | None = None, most: int = 50, **more: Any) -> list[str]:
        """What a workspace recalls."""
        wish = RecallQuery(text, more.get("scope"), more.get("namespace"), more.get("before"), most)
        return [each.content for each in self.run(self.reader.recall(workspace_id, wish))]


@contextmanager
def world_on(engine: Engine, folder: Path, postgres: str, limits: Limits | None = None) -> Iterator[World]:
    """A world until the block ends."""
    with asyncio.Runner() as runner:
        world = World(runner, engine, folder, postgres, limits or Limits())
        try:
            yield world
        finally:
            world.run(world.store.close())
