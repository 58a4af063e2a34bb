"""Writes memories and keys, beside retention (retention.py)."""

from collections.abc import Callable

import msgspec

from molecule_core.common.clock import SECOND, Clock
from molecule_core.common.errors import MemoryNotOwned, MemoryQuotaExceeded, NotFound, ScopeForbidden
from molecule_core.common.ids import IdGenerator
from molecule_core.common.limits import Limits
from molecule_core.memory import rules
from molecule_core.memory.model import KEY_EXPIRY_TIMER, NO_VERSION, KeyValue, Memory, MemoryDraft, SavedMemory
from molecule_core.memory.reader import MemoryReader
from molecule_core.memory.usage import check_usage, count_bytes, usage_query
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import (
    Command,
    CommandSteps,
    JournalEvent,
    ReadQuery,
    RequestBatch,
    Statement,
    Store,
    T,
    WriteSet,
)
from molecule_core.store.journal import org_key
from molecule_core.store.timers import TIMERS_KEY, cancel_timer, set_timer
from molecule_core.wire.schemas.events import MemoryForgottenPayload, MemoryWrittenPayload


class MemoryWriter:
    """Writes and deletes memories. Commands on a workspace's memory run one at a time, so that its limits hold."""

    def __init__(
        self, store: Store, org: OrgReader, reader: MemoryReader, *, clock: Clock, ids: IdGenerator, limits: Limits
    ) -> None:
        self._store = store
        self._org = org
        self._reader = reader
        self._clock = clock
        self._ids = ids
        self._limits = limits

    async def save_memory(self, workspace_id: str, draft: MemoryDraft) -> SavedMemory:
        """Save a memory without the secrets in it. An identical one is not saved again.

        Raises InvalidField, ScopeForbidden, MemoryQuotaExceeded, OrgMemoryFull, NotFound, WorkspaceRemoved."""
        clean, redacted = rules.clean_draft(
            draft, max_bytes=self._limits.memory_bytes, namespace_length=self._limits.memory_namespace_length
        )
        org_id, content_hash = (
            self._org.active_workspace(workspace_id).org_id,
            rules.content_hash(clean),
        )  # control: memory-content-hash
        partition = rules.partition_of(clean.scope, workspace_id, org_id)
        words = rules.search_terms(clean.content, partition)

        def decide() -> CommandSteps[SavedMemory]:
            self._org.active_workspace(workspace_id)
            if not rules.may_write_scope(self._org, workspace_id, clean.scope):
                raise ScopeForbidden
            own = {"workspace_id": workspace_id}
            duplicates, counted, used = yield RequestBatch(
                (
                    ReadQuery("identical_memory", {**own, "content_hash": content_hash}),
                    ReadQuery("count_memories", own),
                    usage_query(org_id),
                )
            )
            if duplicates:
                return WriteSet(SavedMemory(Memory(*duplicates[0]), redacted))
            if counted[0][0] >= self._limits.memories:
                raise MemoryQuotaExceeded(limit=self._limits.memories, what="memories")
            size = len(clean.content.encode())
            check_usage(used, size, self._limits.org_memory_bytes)
            memory = Memory(
                no=self._ids.new_number(),
                id=self._ids.new(),
                org_id=org_id,
                workspace_id=workspace_id,
                scope=clean.scope.value,
                namespace=clean.namespace,
                shelf=partition,
                content=clean.content,
                written_by=clean.written_by,
                created_at=self._clock.now(),
            )
            row = {**msgspec.structs.asdict(memory), "words": words, "content_hash": content_hash}
            payload = MemoryWrittenPayload(memory.id, memory.scope, memory.namespace)
            event = _memory_event("MEMORY_WRITTEN", memory, payload)
            writes: list[Statement] = [("insert_memory", row), count_bytes(org_id, size)]
            return WriteSet(SavedMemory(memory, redacted), writes, [event], (org_key(org_id),))

        return await self._store.run(_memory_command(workspace_id, org_id, decide))

    async def delete_memory(self, workspace_id: str, memory_id: str) -> None:
        """Delete a memory of a workspace. Raises NotFound, MemoryNotOwned, WorkspaceRemoved."""
        org_id = self._org.active_workspace(workspace_id).org_id

        def decide() -> CommandSteps[None]:
            self._org.active_workspace(workspace_id)
            for row in (yield ReadQuery("memory_by_id", {"id": memory_id})):
                memory = Memory(*row)
                if not self._reader.may_read(workspace_id, memory):
                    break
                if memory.workspace_id != workspace_id:
                    raise MemoryNotOwned(workspace_id=memory.workspace_id)
                event = _memory_event("MEMORY_FORGOTTEN", memory, MemoryForgottenPayload(memory.id))
                counted = count_bytes(org_id, -len(memory.content.encode()))
                return WriteSet(None, [("forget_memory", {"no": memory.no}), counted], [event], (org_key(org_id),))
            raise NotFound(what="memory")

        await self._store.run(_memory_command(workspace_id, org_id, decide))


class KeyWriter:
    """Writes values under keys.

    A version is used once in a workspace, so that a compare-and-set also detects a key that expired or was deleted and
    exists again."""

    def __init__(self, store: Store, org: OrgReader, *, clock: Clock, limits: Limits) -> None:
        self._store = store
        self._org = org
        self._clock = clock
        self._limits = limits

    async def set_value(
        self, workspace_id: str, key: str, value: str, *, ttl_seconds: int | None, if_match_version: int | None
    ) -> KeyValue:
        """Set a value (JSON) under a key, for `ttl_seconds` or for ever.

        `if_match_version`: the version that the key must have (0: it must not exist). Raises InvalidField,
        VersionMismatch, MemoryQuotaExceeded, OrgMemoryFull, NotFound, WorkspaceRemoved."""
        rules.check_key(key, self._limits.memory_key_length)
        org_id = self._org.active_workspace(workspace_id).org_id

        def decide() -> CommandSteps[KeyValue]:
            self._org.active_workspace(workspace_id)
            own, now = {"workspace_id": workspace_id}, self._clock.now()
            found, last, counted, expiring, before, used = yield RequestBatch(
                (
                    ReadQuery("key_entry", {**own, "key": key, "now": now}),
                    ReadQuery("last_key_version", own),
                    ReadQuery("count_keys", {**own, "now": now}),
                    ReadQuery("expiring_keys", {**own, "count": 1}),
                    ReadQuery("key_bytes", {**own, "key": key}),
                    usage_query(org_id),
                )
            )
            # control: version-check
            rules.check_version(KeyValue(*found[0]).version if found else NO_VERSION, if_match_version)
            if not found and counted[0][0] >= self._limits.memory_keys:
                raise MemoryQuotaExceeded(limit=self._limits.memory_keys, what="keys")
            size = len(value.encode()) - (before[0][0] if before else 0)
            check_usage(used, size, self._limits.org_memory_bytes)
            version = (last[0][0] if last else NO_VERSION) + 1
            entry = KeyValue(key, value, version, None if ttl_seconds is None else now + ttl_seconds * SECOND, now)
            writes: list[Statement] = [
                ("save_key", {**own, **msgspec.structs.asdict(entry)}),
                ("save_key_version", {**own, "last": version}),  # control: last-version-kept
                count_bytes(org_id, size),
            ]
            if entry.expires_at is None:
                return WriteSet(entry, writes)
            # One timer for all keys of a workspace, due when the first of them expires.
            due = min([entry.expires_at, *(row[1] for row in expiring)])
            return WriteSet(entry, [*writes, set_timer(KEY_EXPIRY_TIMER, workspace_id, due)], notify=(TIMERS_KEY,))

        return await self._store.run(_memory_command(workspace_id, org_id, decide))

    async def delete_value(self, workspace_id: str, key: str, *, if_match_version: int | None) -> None:
        """Delete a key. Raises NotFound, VersionMismatch, WorkspaceRemoved."""
        org_id = self._org.active_workspace(workspace_id).org_id

        def decide() -> CommandSteps[None]:
            self._org.active_workspace(workspace_id)
            own = {"workspace_id": workspace_id, "key": key}
            found = yield ReadQuery("key_entry", {**own, "now": self._clock.now()})
            if not found:
                raise NotFound(what="key")
            rules.check_version(KeyValue(*found[0]).version, if_match_version)
            freed = count_bytes(org_id, -len(KeyValue(*found[0]).value.encode()))
            return WriteSet(None, [("forget_key", own), freed])

        await self._store.run(_memory_command(workspace_id, org_id, decide))

    async def delete_expired(self, workspace_id: str) -> None:
        """Delete a batch of expired keys and set the timer for the next."""
        workspace = self._org.workspace(workspace_id)
        count = self._limits.retention_batch

        def decide() -> CommandSteps[None]:
            own, now = {"workspace_id": workspace_id}, self._clock.now()
            rows = yield ReadQuery("expiring_keys", {**own, "count": count + 1})
            expired = [row for row in rows[:count] if row[1] <= now]
            writes: list[Statement] = [("forget_key", {**own, "key": row[0]}) for row in expired]
            if workspace is not None:
                writes.append(count_bytes(workspace.org_id, -sum(row[2] for row in expired)))
            remaining = rows[len(expired) :]
            writes.append(
                set_timer(KEY_EXPIRY_TIMER, workspace_id, remaining[0][1])
                if remaining
                else cancel_timer(KEY_EXPIRY_TIMER, workspace_id)
            )
            return WriteSet(None, writes, notify=(TIMERS_KEY,))

        await self._store.run(_memory_command(workspace_id, "" if workspace is None else workspace.org_id, decide))


def _memory_command(workspace_id: str, org_id: str, decide: Callable[[], CommandSteps[T]]) -> Command[T]:
    return Command(org_id, (("memory", workspace_id),), decide)


def _memory_event(name: str, memory: Memory, payload: msgspec.Struct) -> JournalEvent:
    return JournalEvent(name, memory.workspace_id, "memory", memory.id, payload=msgspec.json.encode(payload))
