"""Message chains as clients read them."""

from msgspec import Struct


class ChainRow(Struct):
    """A chain that reached a limit. Times are RFC 3339.

    `state`: frozen, released or ended; `most_hops` and `most_messages`: the limits that apply now."""

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
    """A page of chains, newest first. `reached_end`: there are no older ones."""

    chains: list[ChainRow]
    reached_end: bool


class ChainMessageRow(Struct):
    """A message of a chain. `no`: its position, 0 for the first."""

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
    """A chain with a page of its messages, oldest first. `chain` is null if it never reached a limit."""

    root_id: str
    chain: ChainRow | None
    messages: list[ChainMessageRow]
    reached_end: bool
