"""The contract of a store, and the shape of a command: read, decide, write set.

A writer describes a change as a `Command`. Its `steps` are a generator without I/O: it yields read requests, and
returns a `WriteSet` or raises. The store takes all queued commands as one group, answers their reads, applies their
write sets together, commits once, and only then resolves their futures. So a rejection needs no savepoint, and a result
means that the change is on disk.
"""

import asyncio
from collections.abc import Callable, Generator, Hashable, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from msgspec import Struct

from molecule_core.common.metrics import StoreMeter
from molecule_core.store.queries import Dialect, Params

Row = Sequence[Any]
T = TypeVar("T")


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


class WriteSet(Struct, Generic[T]):
    """The decision of a command: statements in order, journal events, and the result for its caller.

    `notify`: wake-up keys of waiters of this change. `after_commit` runs after the commit and before the result is
    returned, to update caches. `error`: raised after the commit instead of returning the result, for a change that
    records why the caller is rejected from now on. `domain_events`: dispatched to subscribers before the write
    (store/subscribers.py), not written themselves. `isolated`: what subscribers change is not protected by the
    command's keys, so it must be alone in its group."""

    result: T
    writes: list[tuple[str, Params]] = []
    events: list[JournalEvent] = []
    notify: tuple[str, ...] = ()
    after_commit: Callable[[], None] | None = None
    error: Exception | None = None
    domain_events: list[object] = []
    isolated: bool = False


CommandSteps = Generator[StepRequest, Any, WriteSet[T]]
"""Read requests, then a write set or an error."""


class Changes(NamedTuple):
    """Additions of a subscriber to a command's write set. `domain_events` are dispatched in turn."""

    writes: Sequence[tuple[str, Params]] = ()
    events: Sequence[JournalEvent] = ()
    notify: tuple[str, ...] = ()
    domain_events: tuple[object, ...] = ()
    after_commit: Callable[[], None] | None = None


EventHandler = Callable[[str, Any], Generator[StepRequest, Any, Changes]]
"""Handles a domain event of an organisation in the transaction of the command that emitted it."""


class Command(Struct, Generic[T]):
    """A change to one organisation (`org`; empty for what belongs to no organisation).

    Commands that share one of `keys` never run in the same group, so each sees the result of the other. An `exclusive`
    one gets a group of its own: for rare changes whose scope is known only when they decide. `steps` may be called
    again when the group is replayed."""

    org: str
    keys: tuple[Hashable, ...]
    steps: Callable[[], CommandSteps[T]]
    exclusive: bool = False


SCHEMA_VERSION = 9


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


class Store(Protocol):
    """One database. Both engines implement the same contract (tests/store)."""

    dialect: Dialect
    is_shared: bool
    """Whether other processes may write to the same database."""
    epoch: str
    """Changes when the store is restored from a backup: cursors of another epoch are invalid."""
    subscribers: Subscribers
    """Handlers of the domain events of its commands."""

    @property
    def meter(self) -> StoreMeter:
        """Return the counters of the writer."""

    @property
    def queued_commands(self) -> int:
        """Return the number of queued commands."""

    async def open(self) -> None:
        """Connect, and create the schema in an empty store. Raises SchemaTooNew, StateInUse, StoreUnavailable."""

    async def close(self) -> None:
        """Finish accepted commands, then close."""

    def run(self, command: Command[T]) -> "asyncio.Future[T]":
        """Queue a command; the future gets its result once it is durable, or its error, or StoreUnavailable.

        Raises ServerBusy at once if the queue is full."""

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
