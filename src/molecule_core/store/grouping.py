"""The group: commands that wait in the same moment share one transaction and one commit, on either engine."""

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from molecule_core.ground import points
from molecule_core.ground.base_error import refuse
from molecule_core.ground.clock import others_first
from molecule_core.ground.errors import ServerBusy, StoreUnavailable
from molecule_core.ground.limits import Limits
from molecule_core.ground.metrics import StoreMeter
from molecule_core.store.database import Command, Decision, Event, Step, WriteSet
from molecule_core.store.followers import FollowerTable
from molecule_core.store.queries import Params, Query

_log = logging.getLogger("molecule.store")


# Thousands of commands for one key must not be walked past again for every group.
_MOST_SKIPPED = 256
# So many turns of the loop pass before a group is closed: what came in with its first command, and whoever was answered
# by the group before and asks again, are in it then, and share its commit. One caller alone hardly notices.
_GATHERING_TURNS = 2


class Pending:
    """A command on its way: its caller's future and, once decided, its write set or its refusal."""

    __slots__ = ("_followers", "answer", "command", "error", "future", "taken", "write_set")

    def __init__(self, command: Command[Any], future: "asyncio.Future[Any]", followers: FollowerTable) -> None:
        self.command = command
        self.future = future
        self._followers = followers
        self.reset()

    def reset(self) -> None:
        """Forgets a decision, so that the command can be decided afresh."""
        self.write_set: WriteSet[Any] | None = None
        self.error: Exception | None = None
        self.taken = False

    def start(self) -> "tuple[Decision[Any], Step] | None":
        """Begins to decide; None if no read was needed."""
        decision = self.command.decide()
        return self.advance(decision, None)

    def advance(self, decision: "Decision[Any]", found: Any) -> "tuple[Decision[Any], Step] | None":
        """Feeds what was found; returns the next wish, or None once the command is decided or refused."""
        try:
            return decision, decision.send(found)
        except StopIteration as stop:
            if stop.value.facts:
                return self.advance(self._followers.after(self.command.org, stop.value), None)
            self.write_set = stop.value
        except Exception as error:
            # A refusal, or a mistake in one command: either way the others of the group go on.
            self.error = error
        return None

    @property
    def writes_something(self) -> bool:
        """Whether the group needs a commit because of this command."""
        return self.write_set is not None and bool(self.write_set.writes or self.write_set.events)

    def settle(self) -> None:
        """Tells the caller, after the commit."""
        if self.write_set is not None and self.write_set.then is not None:
            try:
                self.write_set.then()
            except Exception:
                _log.exception("what is in memory could not be brought up to date; a restart does it")
        if self.future.done():  # the caller went away; what was written stays written
            return
        refusal = self.error or (self.write_set.refusal if self.write_set is not None else None)
        if refusal is not None:
            refuse(self.future, refusal)
        elif self.write_set is not None:
            self.future.set_result(self.write_set.answer)

    def fail(self, error: Exception) -> None:
        """Tells the caller that nothing was written."""
        if not self.future.done():
            refuse(self.future, error)


def must_part(group: Sequence[Pending]) -> bool:
    """Whether a group cannot be written as it is: a refusal that came after a number was taken would leave a gap, and
    what follows one command might undo what another one does."""
    if any(pending.taken and pending.error is not None for pending in group):
        return True
    return len(group) > 1 and any(each.write_set is not None and each.write_set.far for each in group)


def in_statement_order(group: Iterable[Pending]) -> Iterable[tuple[str, list[Params]]]:
    """The writes of a whole group, equal statements together. The order within each command is kept; commands of one
    group share no key, so their statements may change places."""
    lists = [_runs(pending.write_set.writes) for pending in group if pending.write_set is not None]
    for position in itertools.count():
        batches: dict[str, list[Params]] = {}
        for runs in lists:
            if position < len(runs):
                name, params = runs[position]
                batches.setdefault(name, []).extend(params)
        if not batches:
            return
        yield from batches.items()


def _runs(writes: list[tuple[str, Params]]) -> list[tuple[str, list[Params]]]:
    """The writes of one command, those that follow each other with the same statement as one."""
    if len(writes) == 1:
        return [(writes[0][0], [writes[0][1]])]
    return [(name, [params for _, params in run]) for name, run in itertools.groupby(writes, itemgetter(0))]


def facts_of(group: Iterable[Pending]) -> list[tuple[str, Event]]:
    """(organisation, event) of a whole group, in the order the commands came."""
    return [
        (pending.command.org, event)
        for pending in group
        if pending.write_set is not None
        for event in pending.write_set.events
    ]


class Change(NamedTuple):
    """Something that processes keep in memory is not what it was; `key` names it among its kind."""

    org_id: str
    kind: str
    key: str


def changes_of(group: Iterable[Pending], queries: Mapping[str, Query]) -> list[Change]:
    """What a whole group changes of that, each thing once."""
    found: dict[Change, None] = {}
    for pending in group:
        for name, params in pending.write_set.writes if pending.write_set is not None else ():
            if (changed := queries[name].changes(params)) is not None:
                found[Change(pending.command.org, *changed)] = None
    return list(found)


class Queue:
    """Commands that wait for the one writer. At most `limits.waiting_commands`, then ServerBusy."""

    def __init__(self, limits: Limits) -> None:
        self.followers = FollowerTable()
        self.meter = StoreMeter()
        self._limits = limits
        self._waiting: deque[Pending] = deque()
        self._alone: deque[Pending] = deque()
        self._bell: asyncio.Future[None] | None = None
        self._closing = False

    @property
    def waiting(self) -> int:
        """How many commands wait to be taken."""
        return len(self._waiting) + len(self._alone)

    def put(self, command: Command[Any]) -> "asyncio.Future[Any]":
        """Takes a command; its future is answered when it is durable or refused."""
        if self._closing:
            raise StoreUnavailable
        if len(self._waiting) >= self._limits.waiting_commands:
            raise ServerBusy
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(Pending(command, future, self.followers))
        self._wake()
        return future

    def close(self) -> None:
        """No more commands; those that wait are still taken."""
        self._closing = True
        self._wake()

    def _wake(self) -> None:
        if self._bell is not None and not self._bell.done():
            self._bell.set_result(None)

    async def take(self) -> list[Pending]:
        """The next group, or an empty list after the queue was closed and emptied."""
        while not (self._waiting or self._alone):
            if self._closing:
                return []
            self._bell = asyncio.get_running_loop().create_future()
            await self._bell
        for _ in range(_GATHERING_TURNS):
            await others_first()
        if self._alone:
            return [self._alone.popleft()]
        return self._without_shared_keys()

    def _without_shared_keys(self) -> list[Pending]:
        """As many as may run together; a command that shares a key with an earlier one stays, and keeps its place."""
        group: list[Pending] = []
        later: list[Pending] = []
        used: set[Hashable] = set()
        while self._waiting and len(group) < self._limits.group_commands and len(later) < _MOST_SKIPPED:
            pending = self._waiting.popleft()
            if pending.command.alone:
                if group or later:
                    later.append(pending)
                    break
                return [pending]
            keys = pending.command.keys
            (later if not used.isdisjoint(keys) else group).append(pending)
            used.update(keys)
        self._waiting.extendleft(reversed(later))
        return group

    def replay_alone(self, group: Sequence[Pending]) -> None:
        """Puts a group back, to be decided again one by one."""
        for pending in group:
            pending.reset()
        self._alone.extend(group)


async def write_groups(
    queue: Queue,
    commit: "Callable[[list[Pending]], Any]",
    ring: "Callable[[Iterable[str]], None]",
    conflict: type[Exception],
    monotonic: "Callable[[], float]",
) -> None:
    """The one writer: takes groups until the queue is closed, commits each, and tells the callers."""
    meter = queue.meter
    while group := await queue.take():
        began = monotonic()
        points.reached("group.taken")
        try:
            await commit(group)
            points.reached("group.committed")
            meter.committed += 1
            meter.commands += len(group)
            meter.took(monotonic() - began)
        except conflict as error:
            meter.replayed += 1
            if len(group) > 1:
                queue.replay_alone(group)
            else:
                group[0].fail(_alone_refusal(group[0], error))
            continue
        except StoreUnavailable as error:
            meter.failed += 1
            for pending in group:
                pending.fail(error)
            continue
        except Exception as error:
            # A mistake of ours in one command, seen only while writing: the others go on, and so does the writer.
            meter.failed += 1
            if len(group) > 1:
                queue.replay_alone(group)
            else:
                _log.exception("a command could not be written")
                group[0].fail(error)
            continue
        for pending in group:
            pending.settle()
        points.reached("group.told")
        ring(key for pending in group if pending.write_set is not None for key in pending.write_set.rings)
        points.reached("group.rung")


def _alone_refusal(pending: Pending, conflict: Exception) -> Exception:
    """A command that conflicts with nobody else has its own refusal, or has made a mistake that the log should show."""
    return pending.error or conflict
