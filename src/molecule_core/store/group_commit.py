"""Group commit: commands that are queued at the same moment share one transaction, on either engine."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from msgspec import Struct

from molecule_core.common import crash_points
from molecule_core.common.clock import yield_to_others
from molecule_core.common.errors import ServerBusy, StoreUnavailable, reject_future
from molecule_core.common.limits import Limits
from molecule_core.common.metrics import StoreMeter
from molecule_core.store.database import Command, CommandSteps, JournalEvent, StepRequest, WriteConflict, WriteSet
from molecule_core.store.queries import Params, Query
from molecule_core.store.subscribers import SubscriberTable
from molecule_core.store.write_health import WriteHealth

_log = logging.getLogger("molecule.store")


# Thousands of commands with one key must not be scanned again for every group.
_MAX_SKIPPED = 256
# Loop iterations before a group is closed, so that it includes commands that arrived with its first one, and the next
# commands of callers of the previous group. A single caller hardly notices.
_GATHER_TURNS = 2


class PendingCommand(Struct, eq=False):
    """A queued command: its caller's future and, once decided, its write set or error."""

    command: Command[Any]
    future: "asyncio.Future[Any]"
    subscribers: SubscriberTable
    write_set: WriteSet[Any] | None = None
    error: Exception | None = None
    took_number: bool = False

    def start(self) -> "tuple[CommandSteps[Any], StepRequest] | None":
        """Begin to decide; return None if no read was needed."""
        steps = self.command.steps()
        return self.advance(steps, None)

    def advance(self, steps: "CommandSteps[Any]", found: Any) -> "tuple[CommandSteps[Any], StepRequest] | None":
        """Send an answer to the generator; return its next request, or None once the command is decided or rejected."""
        try:
            return steps, steps.send(found)
        except StopIteration as stop:
            if stop.value.domain_events:
                return self.advance(self.subscribers.dispatch(self.command.org, stop.value), None)
            self.write_set = stop.value
        except Exception as error:
            # A rejection or a bug in one command: the others of the group continue either way.
            self.error = error
        return None

    def resolve(self) -> None:
        """Resolve the caller's future, after the commit."""
        if self.write_set is not None and self.write_set.after_commit is not None:
            try:
                self.write_set.after_commit()
            except Exception:
                _log.exception("the caches could not be updated; restart the server")
        if self.future.done():  # the caller was cancelled; what was written stays
            return
        error = self.error or (self.write_set.error if self.write_set is not None else None)
        if error is not None:
            reject_future(self.future, error)
        elif self.write_set is not None:
            self.future.set_result(self.write_set.result)

    def fail(self, error: Exception) -> None:
        """Reject the caller's future: nothing was written."""
        if not self.future.done():
            reject_future(self.future, error)


def merge_group(
    group: Sequence[PendingCommand],
) -> tuple[list[tuple[str, list[Params]]], list[tuple[str, JournalEvent]]]:
    """Return the writes of a whole group, equal statements together, and its events with their organisations.

    The order within each command is kept. Commands of one group share no key, so their statements may be reordered.
    Raises WriteConflict if a command was rejected after it took a number, which would leave a gap, or if changes of an
    isolated subscriber might conflict with another command."""
    decided = [(pending.command.org, pending.write_set) for pending in group if pending.write_set is not None]
    if any(pending.took_number and pending.error is not None for pending in group):
        raise WriteConflict
    if len(group) > 1 and any(write_set.isolated for _, write_set in decided):
        raise WriteConflict
    lists = [
        [(name, [params for _, params in run]) for name, run in groupby(write_set.writes, itemgetter(0))]
        for _, write_set in decided
    ]
    statements: list[tuple[str, list[Params]]] = []
    for position in range(max(map(len, lists), default=0)):
        batches: dict[str, list[Params]] = {}
        for runs in lists:
            if position < len(runs):
                name, params = runs[position]
                batches.setdefault(name, []).extend(params)
        statements += batches.items()
    return statements, [(org, event) for org, write_set in decided for event in write_set.events]


class CacheInvalidation(NamedTuple):
    """A cached entry of all processes that has changed; `key` identifies it within its kind."""

    org_id: str
    kind: str
    key: str


def cache_invalidations(group: Iterable[PendingCommand], queries: Mapping[str, Query]) -> list[CacheInvalidation]:
    """Return the cached entries that a group changes, each once."""
    found: dict[CacheInvalidation, None] = {}
    for pending in group:
        for name, params in pending.write_set.writes if pending.write_set is not None else ():
            if (changed := queries[name].cache_change(params)) is not None:
                found[CacheInvalidation(pending.command.org, *changed)] = None
    return list(found)


class CommandQueue:
    """Queue of the writer. At most `limits.waiting_commands`, then ServerBusy."""

    def __init__(self, limits: Limits) -> None:
        self.subscribers = SubscriberTable()
        self.meter = StoreMeter()
        self.write_health = WriteHealth()
        self._limits = limits
        self._queued: deque[PendingCommand] = deque()
        self._individual: deque[PendingCommand] = deque()
        self._wakeup = asyncio.Event()
        self._closing = False

    @property
    def queued_commands(self) -> int:
        """Return the number of queued commands."""
        return len(self._queued) + len(self._individual)

    def submit(self, command: Command[Any]) -> "asyncio.Future[Any]":
        """Queue a command; its future resolves when it is durable or rejected."""
        if self._closing:
            raise StoreUnavailable
        if len(self._queued) >= self._limits.waiting_commands:
            raise ServerBusy
        future = asyncio.get_running_loop().create_future()
        self._queued.append(PendingCommand(command, future, self.subscribers))
        self._wakeup.set()
        return future

    def close(self) -> None:
        """Accept no more commands; queued ones are still run."""
        self._closing = True
        self._wakeup.set()

    async def next_group(self) -> list[PendingCommand]:
        """Return the next group, or an empty list after the queue was closed and emptied."""
        while not (self._queued or self._individual):
            if self._closing:
                return []
            self._wakeup.clear()
            await self._wakeup.wait()
        for _ in range(_GATHER_TURNS):
            await yield_to_others()
        if self._individual:
            return [self._individual.popleft()]
        return self._pick_disjoint_group()

    def _pick_disjoint_group(self) -> list[PendingCommand]:
        """Pick the commands that may run together; one that shares a key with an earlier one stays queued."""
        group: list[PendingCommand] = []
        later: list[PendingCommand] = []
        used: set[Hashable] = set()
        while self._queued and len(group) < self._limits.group_commands and len(later) < _MAX_SKIPPED:
            pending = self._queued.popleft()
            if pending.command.exclusive:
                if group or later:
                    later.append(pending)
                    break
                return [pending]
            keys = pending.command.keys
            (later if not used.isdisjoint(keys) else group).append(pending)
            used.update(keys)
        self._queued.extendleft(reversed(later))
        return group

    def replay_individually(self, group: Sequence[PendingCommand]) -> None:
        """Queue a group again, each command in a group of its own."""
        self._individual.extend(PendingCommand(each.command, each.future, self.subscribers) for each in group)


async def run_writer(
    queue: CommandQueue,
    commit: "Callable[[list[PendingCommand]], Any]",
    notify: "Callable[[Iterable[str]], None]",
    conflict: type[Exception],
    monotonic: "Callable[[], float]",
) -> None:
    """Run the writer: take groups until the queue is closed, commit each, and resolve the callers' futures."""
    meter = queue.meter
    while group := await queue.next_group():
        began = monotonic()
        crash_points.mark_reached("group.taken")
        try:
            await commit(group)
            crash_points.mark_reached("group.committed")
            meter.committed += 1
            meter.commands += len(group)
            meter.observe(monotonic() - began)
            if queue.write_health.is_failing and _has_writes(group):
                queue.write_health.record_success(monotonic())
        except conflict as error:
            meter.replayed += 1
            if len(group) > 1:
                queue.replay_individually(group)
            else:
                group[0].fail(_individual_error(group[0], error))
            continue
        except StoreUnavailable as error:
            meter.failed += 1
            queue.write_health.record_failure(error, monotonic())
            for pending in group:
                pending.fail(error)
            continue
        except Exception as error:
            # A bug in one command that shows only while writing: the others and the writer continue.
            meter.failed += 1
            if len(group) > 1:
                queue.replay_individually(group)
            else:
                _log.exception("a command could not be written")
                group[0].fail(error)
            continue
        for pending in group:
            pending.resolve()
        crash_points.mark_reached("group.resolved")
        notify(key for pending in group if pending.write_set is not None for key in pending.write_set.notify)
        crash_points.mark_reached("group.notified")


def _has_writes(group: Sequence[PendingCommand]) -> bool:
    """Return whether a group changed anything: one that did not proves nothing about the disk."""
    write_sets = (each.write_set for each in group)
    return any(each is not None and (each.writes or each.events) for each in write_sets)


def _individual_error(pending: PendingCommand, conflict: Exception) -> Exception:
    """Return the error of a command that was replayed alone: its own, or the conflict, which the log should show."""
    return pending.error or conflict
