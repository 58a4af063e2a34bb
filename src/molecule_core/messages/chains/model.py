"""Model of message chains: each message has a position in a chain, and a chain may exceed a limit."""

from enum import StrEnum

from msgspec import Struct


class ChainState(StrEnum):
    """State of a chain that exceeded a limit."""

    FROZEN = "frozen"
    RELEASED = "released"
    ENDED = "ended"


class Chain(Struct, frozen=True, kw_only=True):
    """A chain that exceeded a limit, in column order.

    Its size then, its raised limits, and a person's decision. Times are microseconds."""

    root_id: str
    org_id: str
    workspace_id: str
    state: str
    reason: str
    trips: int
    hops: int
    messages: int
    small_talk: int
    most_hops: int
    most_messages: int
    most_small_talk: int
    frozen_at: int
    released_at: int | None = None
    ended_at: int | None = None
    decided_by: str | None = None


class Cause(Struct, frozen=True):
    """The message that an agent is most likely working on, and the record of its chain if that exceeded a limit."""

    id: str
    root_id: str | None
    hop: int
    small_talk: int | None
    source_id: str | None
    created_at: int
    held: int
    """Whether it is claimed and not acknowledged."""
    state: str | None = None
    reason: str | None = None
    trips: int | None = None
    most_hops: int | None = None
    most_messages: int | None = None
    most_small_talk: int | None = None


class ChainLink(Struct, frozen=True):
    """The position of a message in its chain.

    `root_id` None begins a chain. `most_messages`: how many may follow the root. `chain_no`: the message's number in
    the chain, None for its root; `numbers`: one for each copy of a broadcast."""

    root_id: str | None = None
    hop: int = 0
    cause_id: str | None = None
    small_talk: int | None = None
    most_messages: int | None = None
    chain_no: int | None = None
    numbers: tuple[int, ...] = ()


NEW_CHAIN = ChainLink()


class ChainMessage(Struct, frozen=True):
    """One message of a chain, in column order of the queries."""

    id: str
    workspace_id: str
    source_id: str | None
    target_id: str | None
    method: str | None
    kind: str | None
    summary: str | None
    hop: int
    cause_id: str | None
    created_at: int
    chain_no: int
