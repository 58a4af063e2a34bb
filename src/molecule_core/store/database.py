"""What a store promises, and the shape of a command: read, decide, write set.

A slice's writer describes a change as a `Command`. Its `decide` is a generator without I/O: it yields what it wants to
read, and returns a `WriteSet` or raises a refusal. The store takes all commands that wait in the same moment as one
group, answers their reads, applies their write sets together, commits once, and only then answers. A refusal therefore
needs no savepoint, and an answer means: on disk.
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
    """Asks for the rows of a named query; answered with a list of rows."""

    name: str
    params: Params


class NextNumber(NamedTuple):
    """Asks for the next number of a gap-free sequence; answered with an int, 1 for the first, or with None if it would
    be larger than `most`: then none is taken.

    `name` is a query that tells the highest number in use for `:key`. A command takes numbers after its last chance
    to refuse, so that none is left unused; but a `loose` one, which only counts, may stay unused.
    """

    name: str
    key: str
    max_number: int | None = None
    allow_gaps: bool = False


class CurrentNumber(NamedTuple):
    """Asks for the highest number of such a sequence without taking one; 0 for none."""

    name: str
    key: str


class RequestBatch(NamedTuple):
    """Asks for many things at once, which then cost one round; answered with a list, in their order."""

    requests: Sequence[ReadQuery | NextNumber | CurrentNumber]


StepRequest = ReadQuery | NextNumber | CurrentNumber | RequestBatch


class JournalEvent(NamedTuple):
    """A fact for the journal: a name of `wire.events.EVENTS`, whose it is, and what it is about.

    `payload` is JSON, or None where the payload is made from the entity when it is read. `at` (microseconds) is when
    it happened, if its entity says so too; otherwise it happens when it is written. `above`: the other workspace that
    hears it as if it were its own, if there is one."""

    name: str
    workspace_id: str
    entity_kind: str
    entity_id: str
    rev: int = 0
    payload: bytes | None = None
    at: int | None = None
    observer_workspace_id: str | None = None


class WriteSet(Struct, Generic[T]):
    """What a command has decided: statements in order, facts for the journal, and the answer for its caller.

    `rings` are the wake-up keys of those who may be waiting for this change. `then` runs after the commit and before
    the answer: the place to bring memory that mirrors the store up to date. `refusal`: what is written is why the
    caller is refused, from now on; raised instead of the answer, and after the commit as well. `facts`: what others
    hear of it before it is written (store/subscribers.py); they are not written themselves. `far`: what they do then is
    not protected by the keys of the command, which must stand alone in its group."""

    result: T
    writes: list[tuple[str, Params]] = []
    events: list[JournalEvent] = []
    notify: tuple[str, ...] = ()
    after_commit: Callable[[], None] | None = None
    error: Exception | None = None
    domain_events: list[object] = []
    isolated: bool = False


CommandSteps = Generator[StepRequest, Any, WriteSet[T]]
"""Reads, then a write set or a refusal."""


class Changes(NamedTuple):
    """What a follower of a fact adds to the command that put it: as in its write set. `facts` are followed in turn."""

    writes: Sequence[tuple[str, Params]] = ()
    events: Sequence[JournalEvent] = ()
    notify: tuple[str, ...] = ()
    domain_events: tuple[object, ...] = ()
    after_commit: Callable[[], None] | None = None


EventHandler = Callable[[str, Any], Generator[StepRequest, Any, Changes]]
"""Hears a fact of an organisation, within the transaction of the command that put it."""


class Command(Struct, Generic[T]):
    """A change to one organisation (`org`; empty for what belongs to no organisation).

    Commands that share one of `keys` never run in the same group, so each decides on what the other left behind.
    One that is `alone` shares its group with nobody: for rare changes whose reach is known only when they decide.
    `decide` may be called again when the group has to be replayed."""

    org: str
    keys: tuple[Hashable, ...]
    steps: Callable[[], CommandSteps[T]]
    exclusive: bool = False


SCHEMA_VERSION = 9


class Subscribers(Protocol):
    """Who follows which kind of fact (store/subscribers.py)."""

    def subscribe(self, event: type, name: str, handler: EventHandler, *, isolated: bool = False) -> None:
        """Names who hears such facts, behind those who hear them already. `far`: it changes what the keys of those who
        say them do not protect. Raises LookupError if the name does."""

    def list_subscriptions(self) -> list[tuple[str, tuple[str, ...]]]:
        """Each kind of fact with who follows it, in order."""

    def render_table(self) -> str:
        """The table as docs/order.md has it."""


class WriteConflict(Exception):
    """The group broke a constraint, wrote what does not fit or left a number unused; each command is replayed alone."""


class Store(Protocol):
    """One database. Both engines keep the same contract (tests/store)."""

    dialect: Dialect
    is_shared: bool
    """Whether other processes may write to the same database."""
    epoch: str
    """Changes when the store is restored from a backup: cursors of another epoch mean nothing here."""
    subscribers: Subscribers
    """Who hears the facts of its commands."""

    @property
    def meter(self) -> StoreMeter:
        """What the one writer has done so far."""

    @property
    def queued_commands(self) -> int:
        """How many commands wait for it."""

    async def open(self) -> None:
        """Connects, creates the schema if the store is empty. Raises SchemaTooNew, StateInUse, StoreUnavailable."""

    async def close(self) -> None:
        """Finishes what was accepted, then closes."""

    def run(self, command: Command[T]) -> "asyncio.Future[T]":
        """Takes a command; the future has its answer once it is durable, or its refusal, or StoreUnavailable.

        Raises ServerBusy at once if too many wait."""

    async def rows(self, name: str, params: Params) -> Sequence[Row]:
        """The rows of a named query that only reads what is committed."""

    async def rows_of_each(self, name: str, batch: Sequence[Params]) -> Sequence[Sequence[Row]]:
        """The rows of one such query for many parameters, in their order, in one round trip."""

    def last_known_number(self, name: str, key: str) -> int | None:
        """A number that no committed number of a sequence exceeds, if this process is sure to know one; else None.

        Lets a poll that finds nothing end without a query. `name` and `key` as for `Take`."""

    async def catch_up(self) -> None:
        """Brings memory that mirrors the store up to date with what other processes have committed. Costs a query where
        the store is shared, and nothing elsewhere."""
