"""Memories and keys."""

from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct

EXPIRY_TIMER = "memory_expiry"
"""The kind of the timers that delete keys whose time is over; a timer for each workspace that has such keys."""
NO_VERSION = 0
"""The version of a key that is not there."""


class MemoryScope(StrEnum):
    """Who may read a memory, beside the workspace that wrote it (rules.py says exactly who)."""

    LOCAL = "LOCAL"
    TEAM = "TEAM"
    GLOBAL = "GLOBAL"


class Memory(Struct, frozen=True):
    """What a workspace remembers, in the order of the columns that queries select. `no` orders all memories by the time
    at which they were written; `shelf` says who may read it. Times in microseconds."""

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
    """What is to be remembered. `written_by`: who says so, as `kind:id`."""

    content: str
    scope: MemoryScope
    namespace: str
    written_by: str


class SavedMemory(NamedTuple):
    """A memory, and how many secrets were taken out before it was written."""

    memory: Memory
    redacted_count: int


class RecallQuery(NamedTuple):
    """Which memories somebody asks for. `before`: only those written before this one. `most`: at most so many."""

    text: str | None
    scope: MemoryScope | None
    namespace: str | None
    before: str | None
    limit: int


class KeyValue(Struct, frozen=True):
    """A value under a key, in the order of the columns. `value` is JSON; `version` changes with each write and is never
    used twice in a workspace. Times in microseconds."""

    key: str
    value: str
    version: int
    expires_at: int | None
    updated_at: int
