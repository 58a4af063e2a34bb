"""The contract of a store, and the shape of a command: read, decide, write set.

A writer describes a change as a `Command`. Its `steps` are a generator without I/O: it yields read requests, and
returns a `WriteSet` or raises. The store takes all queued commands as one group, answers their reads, applies their
write sets together, commits once, and only then resolves their futures. So a rejection needs no savepoint, and a result
means that the change is on disk.
"""

import asyncio
from collections.abc import Callable, Generator, Hashable, Sequence
from functools import partial
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from molecule_core.common.metrics import StoreMeter
from molecule_core.store.queries import Dialect, Params

Row = Sequence[Any]
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Statement = tuple[str, Params]
"""The name of a query that writes, and its parameters."""


class ReadQuery(NamedTuple):
    """Requests the rows of a named query."""

    name: str
    params: Params


class NextNumber(NamedTuple):
    """Requests the next number of a gap-free sequence.

    Answered with an int, 1 for the first, or None if it would exceed `max_number`. `name` is a query that returns the
    highest number in use for `:key`. A command requests numbers after its last chance to be rejected, so that none
    stays unused. `allow_gaps`: a number that is only a counter may stay unused."""

    name: str
    key: str
    max_number: int | None = None
    allow_gaps: bool = False


class CurrentNumber(NamedTuple):
    """Requests the highest number of such a sequence without taking one; 0 if there is none."""

    name: str
    key: str


class RequestBatch(NamedTuple):
    """Requests several things in one round trip; answered with a list in the same order."""

    requests: Sequence[ReadQuery | NextNumber | CurrentNumber]


StepRequest = ReadQuery | NextNumber | CurrentNumber | RequestBatch


class JournalEvent(NamedTuple):
    """An event for the journal: its name in `wire.schemas.events.EVENTS`, its workspace, and its entity.

    `payload` is JSON, or None if it is built from the entity when the event is read. `at` (microseconds) is the time
    stored in the entity, if there is one; default: the time of the write. `observer_workspace_id`: another workspace
    that receives the event as if it were its own."""

    name: str
    workspace_id: str
    entity_kind: str
    entity_id: str
    rev: int = 0
    payload: bytes | None = None
    at: int | None = None
    observer_workspace_id: str | None = None


class WriteSet(Struct, Generic[T_co], frozen=True):
    """What a command, a part of it, or a subscriber changes, and its result (None for a part without one).

    `writes`: statements in order. `events`: for the journal. `notify`: wake-up keys of waiters of this change.
    `after_commit` runs after the commit and before the result is returned, to update caches. `error`: raised after the
    commit instead of returning the result, for a change that records why the caller is rejected from now on.
    `domain_events`: dispatched to subscribers before the write (store/subscribers.py), not written themselves.
    `isolated`: what subscribers change is not protected by the command's keys, so it must be alone in its group."""

    result: T_co
    writes: Sequence[Statement] = ()
    events: Sequence[JournalEvent] = ()
    notify: tuple[str, ...] = ()
    after_commit: Callable[[], None] | None = None
    error: Exception | None = None
    domain_events: Sequence[object] = ()
    isolated: bool = False

    def __add__(self, other: "WriteSet[Any]") -> "WriteSet[T_co]":
        """Return both changes in order, with the result of the first, and the first error."""
        writes, events, domain_events = self.writes, self.events, self.domain_events
        after_commit = self.after_commit or other.after_commit
        if self.after_commit is not None and other.after_commit is not None:
            after_commit = partial(_run_both, self.after_commit, other.after_commit)
        # Every message is joined of parts that are mostly empty: no lists are copied for them, and nothing is called.
        return WriteSet(
            self.result,
            [*writes, *other.writes] if writes and other.writes else writes or other.writes,
            [*events, *other.events] if events and other.events else events or other.events,
            self.notify + other.notify,
            after_commit,
            self.error or other.error,
            [*domain_events, *other.domain_events] if other.domain_events else domain_events,
            self.isolated or other.isolated,
        )

    def returning(self, result: T) -> "WriteSet[T]":
        """Return the same change with another result."""
        return replace(self, result=result)  # type: ignore[arg-type]


def _run_both(first: Callable[[], None], second: Callable[[], None]) -> None:
    first()
    second()


CommandSteps = Generator[StepRequest, Any, WriteSet[T]]
"""Read requests, then a write set or an error."""
EventHandler = Callable[[str, Any], CommandSteps[object]]
"""Handles a domain event of an organisation in the transaction of the command that emitted it.

The store adds the returned change to the command's own; its `domain_events` are dispatched in turn."""


def write_only(write_set: WriteSet[T]) -> CommandSteps[T]:
    """Return the steps of a command that reads nothing."""
    yield from ()
    return write_set


class Command(Struct, Generic[T]):
    """A change to one organisation (`org`; empty for what belongs to no organisation).

    Commands that share one of `keys` never run in the same group, so each sees the result of the other. An `exclusive`
    one gets a group of its own: for rare changes whose scope is known only when they decide. `steps` may be called
    again when the group is replayed."""

    org: str
    keys: tuple[Hashable, ...]
    steps: Callable[[], CommandSteps[T]]
    exclusive: bool = False


SCHEMA_VERSION = 22


class Subscribers(Protocol):
    """Handlers by type of domain event (store/subscribers.py)."""

    def subscribe(self, event: type, name: str, handler: EventHandler, *, isolated: bool = False) -> None:
        """Register a handler, after those already registered.

        `isolated`: the handler changes what the keys of the emitting command do not protect. Raises LookupError if the
        name is registered already."""

    def list_subscriptions(self) -> list[tuple[str, tuple[str, ...]]]:
        """Return each event type with the names of its handlers, in order."""

    def render_table(self) -> str:
        """Render the table of docs/order.md."""


class WriteConflict(Exception):
    """The group broke a constraint, wrote invalid data or left a number unused; each command is replayed alone."""


class RunCommand(Protocol):
    """The entrance of a store."""

    def __call__(self, command: Command[T]) -> "asyncio.Future[T]":
        """Queue a command; the future gets its result once it is durable, or its error, or StoreUnavailable.

        Raises ServerBusy at once if the queue is full."""


class Store(Protocol):
    """One database. Both engines implement the same contract (tests/store)."""

    dialect: Dialect
    is_shared: bool
    """Whether other processes may write to the same database."""
    epoch: str
    """Changes when the store is restored from a backup: cursors of another epoch are invalid."""
    subscribers: Subscribers
    """Handlers of the domain events of its commands."""
    run: "RunCommand"
    """Queues a command."""

    @property
    def meter(self) -> StoreMeter:
        """Return the counters of the writer."""

    @property
    def is_write_failing(self) -> bool:
        """Return whether the last group that was to be written failed."""

    @property
    def queued_commands(self) -> int:
        """Return the number of queued commands."""

    async def open(self) -> None:
        """Connect, and create the schema in an empty store. Raises SchemaTooNew, StateInUse, StoreUnavailable."""

    async def close(self) -> None:
        """Finish accepted commands, then close."""

    async def rows(self, name: str, params: Params) -> Sequence[Row]:
        """Return the rows of a named query; reads committed data only."""

    async def rows_of_each(self, name: str, batch: Sequence[Params]) -> Sequence[Sequence[Row]]:
        """Return the rows of one query for each of several parameters, in order, in one round trip."""

    def last_known_number(self, name: str, key: str) -> int | None:
        """Return a number that no committed number of a sequence exceeds, or None if this process cannot know one.

        Lets a poll that finds nothing end without a query. `name` and `key` as for `NextNumber`."""

    async def catch_up(self) -> None:
        """Update caches with what other processes have committed.

        Costs a query if the store is shared, else nothing."""
