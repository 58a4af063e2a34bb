"""How messages hang together: each is at a place of a chain, and a chain may have run into a limit."""

from enum import StrEnum

from msgspec import Struct


class ChainState(StrEnum):
    """How a chain stands that ran into a limit."""

    FROZEN = "frozen"
    RELEASED = "released"
    ENDED = "ended"


class Chain(Struct, frozen=True, kw_only=True):
    """A chain that ran into a limit: how far it was then, how far it may go, and what a person decided. Times are
    microseconds. In the order of its columns."""

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
    """The message that an agent is most likely at work on; of its chain, if it ever ran into a limit, what is noted."""

    id: str
    root_id: str | None
    hop: int
    small_talk: int | None
    source_id: str | None
    created_at: int
    held: int
    """Whether it was handed out and is not handled yet."""
    state: str | None = None
    reason: str | None = None
    trips: int | None = None
    most_hops: int | None = None
    most_messages: int | None = None
    most_small_talk: int | None = None


class ChainLink(Struct, frozen=True):
    """The place of a message in its chain: `root_id` None begins one. `most_messages`: so many may follow the root.
    `numbers`: which of them this one is, or its copies are."""

    root_id: str | None = None
    hop: int = 0
    cause_id: str | None = None
    small_talk: int | None = None
    most_messages: int | None = None
    numbers: tuple[int, ...] = ()

    @property
    def chain_no(self) -> int | None:
        """The number of the only copy."""
        return self.numbers[0] if self.numbers else None


NEW_CHAIN = ChainLink()


class ChainMessage(Struct, frozen=True):
    """One message of a chain, in the order of the query."""

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
