"""Chains of messages as clients read them."""

from msgspec import Struct


class ChainRow(Struct):
    """A chain that ran into a limit. `state`: frozen, released or ended; `most_hops` and `most_messages`: how far it
    may go now. Times are RFC 3339."""

    root_id: str
    workspace_id: str
    workspace_name: str | None
    state: str
    reason: str
    trips: int
    hops: int
    messages: int
    most_hops: int
    most_messages: int
    frozen_at: str
    released_at: str | None
    ended_at: str | None
    decided_by: str | None


class ChainPage(Struct):
    """Chains, newest first. `reached_end`: there are no older ones."""

    chains: list[ChainRow]
    reached_end: bool


class ChainMessageRow(Struct):
    """One message of a chain; `no` is its place, 0 for the first."""

    no: int
    activity_id: str
    workspace_id: str
    workspace_name: str | None
    source_id: str | None
    source_name: str | None
    kind: str | None
    method: str | None
    summary: str | None
    hop: int
    cause_id: str | None
    at: str


class ChainDetail(Struct):
    """A chain with a page of its messages, oldest first. `chain` is null if it never ran into a limit."""

    root_id: str
    chain: ChainRow | None
    messages: list[ChainMessageRow]
    reached_end: bool
