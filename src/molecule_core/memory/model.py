"""Memories and keys."""

from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct

KEY_EXPIRY_TIMER = "memory_expiry"
"""Kind of the timer that deletes expired keys; one timer for each workspace with such keys."""
NO_VERSION = 0
"""Version of a key that does not exist."""


class MemoryScope(StrEnum):
    """Who can read a memory beside the workspace that wrote it (rules.py)."""

    LOCAL = "LOCAL"
    TEAM = "TEAM"
    GLOBAL = "GLOBAL"


class Memory(Struct, frozen=True):
    """A memory, in the order of the columns that queries select.

    `no` orders all memories by the time of writing; `shelf` is the partition, which decides who can read it. Times in
    microseconds."""

    no: int
    id: str
    org_id: str
    workspace_id: str
    scope: str
    namespace: str
    shelf: str
    content: str
    written_by: str
    created_at: int


class MemoryDraft(NamedTuple):
    """A memory to save. `written_by`: its author, as `kind:id`."""

    content: str
    scope: MemoryScope
    namespace: str
    written_by: str


class SavedMemory(NamedTuple):
    """A saved memory, and the number of secrets redacted from it."""

    memory: Memory
    redacted_count: int


class RecallQuery(NamedTuple):
    """A search for memories. `before`: a memory id; only older ones are found."""

    text: str | None
    scope: MemoryScope | None
    namespace: str | None
    before: str | None
    limit: int


class KeyValue(Struct, frozen=True):
    """A value under a key, in the order of the columns.

    `value` is JSON; `version` changes with each write and is never reused in a workspace. Times in microseconds."""

    key: str
    value: str
    version: int
    expires_at: int | None
    updated_at: int
