"""The only hand that changes memories and keys, beside retention (pruning.py)."""

from collections.abc import Callable

import msgspec

from molecule_core.ground.clock import SECOND, Clock
from molecule_core.ground.errors import MemoryOfAnother, NotFound, ScopeForbidden, TooManyKept
from molecule_core.ground.ids import Ids
from molecule_core.ground.limits import Limits
from molecule_core.memory import rules
from molecule_core.memory.model import EXPIRY, NO_VERSION, Draft, Entry, Kept, Memory
from molecule_core.memory.reader import MemoryReader
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Command, Decision, Event, Read, Several, Store, T, WriteSet
from molecule_core.store.journal import org_key
from molecule_core.store.queries import Params
from molecule_core.store.timers import TIMERS, no_timer, timer
from molecule_core.wire.events import MemoryForgotten, MemoryWritten


class MemoryWriter:
    """Writes memories down and forgets them. One change of a workspace's memory at a time, so that its limits hold."""

    def __init__(
        self, store: Store, org: OrgReader, reader: MemoryReader, *, clock: Clock, ids: Ids, limits: Limits
    ) -> None:
        self._store = store
        self._org = org
        self._reader = reader
        self._clock = clock
        self._ids = ids
        self._limits = limits

    async def commit(self, workspace_id: str, draft: Draft) -> Kept:
        """Remembers, without the secrets in it. What was written down before, word for word, is not written again.

        Raises InvalidField, ScopeForbidden, TooManyKept, NotFound, WorkspaceRemoved."""
        clean, redacted = rules.clean_draft(
            draft, most_bytes=self._limits.memory_bytes, namespace_length=self._limits.memory_namespace_length
        )
        org_id, hashed = self._org.living(workspace_id).org_id, rules.hash_of(clean)  # control: memory-content-hash
        shelf = rules.shelf_of(clean.scope, workspace_id, org_id)
        words = rules.indexed(clean.content, shelf)

        def decide() -> Decision[Kept]:
            self._org.living(workspace_id)
            if not rules.may_write(self._org, workspace_id, clean.scope):
                raise ScopeForbidden
            own = {"workspace_id": workspace_id}
            twins, counted = yield Several(
                (Read("memory_twin", {**own, "content_hash": hashed}), Read("count_memories", own))
            )
            if twins:
                return WriteSet(Kept(Memory(*twins[0]), redacted))
            if counted[0][0] >= self._limits.memories:
                raise TooManyKept(limit=self._limits.memories, what="memories")
            memory = Memory(
                no=self._ids.number(),
                id=self._ids.new(),
                org_id=org_id,
                workspace_id=workspace_id,
                scope=clean.scope.value,
                namespace=clean.namespace,
                shelf=shelf,
                content=clean.content,
                written_by=clean.written_by,
                created_at=self._clock.now(),
            )
            row = {**msgspec.structs.asdict(memory), "words": words, "content_hash": hashed}
            told = MemoryWritten(memory.id, memory.scope, memory.namespace)
            event = _event("MEMORY_WRITTEN", memory, told)
            return WriteSet(Kept(memory, redacted), [("insert_memory", row)], [event], (org_key(org_id),))

        return await self._store.run(_of(workspace_id, org_id, decide))

    async def forget(self, workspace_id: str, memory_id: str) -> None:
        """A workspace forgets what it wrote. Raises NotFound, MemoryOfAnother, WorkspaceRemoved."""
        org_id = self._org.living(workspace_id).org_id

        def decide() -> Decision[None]:
            self._org.living(workspace_id)
            for row in (yield Read("memory_by_id", {"id": memory_id})):
                memory = Memory(*row)
                if not self._reader.may_read(workspace_id, memory):
                    break
                if memory.workspace_id != workspace_id:
                    raise MemoryOfAnother(workspace_id=memory.workspace_id)
                event = _event("MEMORY_FORGOTTEN", memory, MemoryForgotten(memory.id))
                return WriteSet(None, [("forget_memory", {"no": memory.no})], [event], (org_key(org_id),))
            raise NotFound(what="memory")

        await self._store.run(_of(workspace_id, org_id, decide))


class KeyWriter:
    """Puts values under keys. A version is used once in a workspace, so that who compares one is never deceived: not by
    a key that expired or was forgotten and is there again."""

    def __init__(self, store: Store, org: OrgReader, *, clock: Clock, limits: Limits) -> None:
        self._store = store
        self._org = org
        self._clock = clock
        self._limits = limits

    async def put(
        self, workspace_id: str, key: str, value: str, *, ttl_seconds: int | None, if_match_version: int | None
    ) -> Entry:
        """A value (JSON) under a key, for ever or for so long; only if the key has a version (0: is not there), where
        one is named. Raises InvalidField, VersionMismatch, TooManyKept, NotFound, WorkspaceRemoved."""
        rules.check_key(key, self._limits.memory_key_length)
        org_id = self._org.living(workspace_id).org_id

        def decide() -> Decision[Entry]:
            self._org.living(workspace_id)
            own, now = {"workspace_id": workspace_id}, self._clock.now()
            found, last, counted, expiring = yield Several(
                (
                    Read("key_entry", {**own, "key": key, "now": now}),
                    Read("last_key_version", own),
                    Read("count_keys", {**own, "now": now}),
                    Read("expiring_keys", {**own, "count": 1}),
                )
            )
            # control: version-check
            rules.check_version(Entry(*found[0]).version if found else NO_VERSION, if_match_version)
            if not found and counted[0][0] >= self._limits.memory_keys:
                raise TooManyKept(limit=self._limits.memory_keys, what="keys")
            version = (last[0][0] if last else NO_VERSION) + 1
            entry = Entry(key, value, version, None if ttl_seconds is None else now + ttl_seconds * SECOND, now)
            writes: list[tuple[str, Params]] = [
                ("save_key", {**own, **msgspec.structs.asdict(entry)}),
                ("save_key_version", {**own, "last": version}),  # control: last-version-kept
            ]
            if entry.expires_at is None:
                return WriteSet(entry, writes)
            # One timer for all keys of a workspace: due when the first of them is over.
            due = min([entry.expires_at, *(row[1] for row in expiring)])
            return WriteSet(entry, [*writes, timer(EXPIRY, workspace_id, due)], rings=(TIMERS,))

        return await self._store.run(_of(workspace_id, org_id, decide))

    async def forget(self, workspace_id: str, key: str, *, if_match_version: int | None) -> None:
        """A key is not there any more. Raises NotFound, VersionMismatch, WorkspaceRemoved."""
        org_id = self._org.living(workspace_id).org_id

        def decide() -> Decision[None]:
            self._org.living(workspace_id)
            own = {"workspace_id": workspace_id, "key": key}
            found = yield Read("key_entry", {**own, "now": self._clock.now()})
            if not found:
                raise NotFound(what="key")
            rules.check_version(Entry(*found[0]).version, if_match_version)
            return WriteSet(None, [("forget_key", own)])

        await self._store.run(_of(workspace_id, org_id, decide))

    async def on_due(self, workspace_id: str) -> None:
        """Deletes keys whose time is over, some at a time, and asks to be called for the next."""
        workspace = self._org.workspace(workspace_id)
        count = self._limits.retention_batch

        def decide() -> Decision[None]:
            own, now = {"workspace_id": workspace_id}, self._clock.now()
            rows = yield Read("expiring_keys", {**own, "count": count + 1})
            over = [row for row in rows[:count] if row[1] <= now]
            writes: list[tuple[str, Params]] = [("forget_key", {**own, "key": row[0]}) for row in over]
            ahead = rows[len(over) :]
            writes.append(timer(EXPIRY, workspace_id, ahead[0][1]) if ahead else no_timer(EXPIRY, workspace_id))
            return WriteSet(None, writes, rings=(TIMERS,))

        await self._store.run(_of(workspace_id, "" if workspace is None else workspace.org_id, decide))


def _of(workspace_id: str, org_id: str, decide: Callable[[], Decision[T]]) -> Command[T]:
    return Command(org_id, (("memory", workspace_id),), decide)


def _event(name: str, memory: Memory, told: msgspec.Struct) -> Event:
    return Event(name, memory.workspace_id, "memory", memory.id, payload=msgspec.json.encode(told))
