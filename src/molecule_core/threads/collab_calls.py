"""Calls of collaboration tools. Each call has a begin and an end entry in the caller's log, rejected ones included.

A repeated call returns the end that is in the log.
"""

from collections.abc import Callable, Collection, Generator, Sequence
from typing import Any

from msgspec.structs import replace

from molecule_core.common.clock import Clock
from molecule_core.common.errors import CommunicationDenied, InvalidField, MoleculeError, NotFound
from molecule_core.common.limits import Limits
from molecule_core.common.metrics import ThreadMeter
from molecule_core.org.reader import OrgReader
from molecule_core.org.rules import may_talk
from molecule_core.store.database import Command, CommandSteps, ReadQuery, StepRequest, Store, WriteSet
from molecule_core.threads import metrics, rules
from molecule_core.threads.engine_writer import check_generation
from molecule_core.threads.errors import AgentNotFound
from molecule_core.threads.model import LogEntryRow, Thread
from molecule_core.threads.unit_of_work import ThreadUnitOfWork, load_thread
from molecule_core.wire.schemas.thread_log import AgentTool, Author, CollabCallEntry, decode_entry
from molecule_core.wire.schemas.threads import AgentCallBody

_TOOLS_WITH_TARGET = ("send", "followup", "interrupt", "close", "resume")
CallAction = Callable[[ThreadUnitOfWork, Thread, CollabCallEntry], Generator[StepRequest, Any, CollabCallEntry]]
"""Carries out a call and returns its end. Raises an error before it writes anything."""


class CollabCalls:
    """Runner of calls, each as one command."""

    def __init__(self, store: Store, org: OrgReader, meter: ThreadMeter, *, clock: Clock, limits: Limits) -> None:
        self._store = store
        self._meter = meter
        self._org = org
        self._clock = clock
        self._limits = limits

    async def run_call(
        self, thread: Thread, tool: AgentTool, request: AgentCallBody, action: CallAction
    ) -> CollabCallEntry:
        """Run a call from begin to end.

        A rejection is raised and logged as a failed end, except for a call that reuses the call_id of a pending wait.
        Raises NotFound, StaleGeneration, InvalidField, and what `action` raises."""

        def decide() -> CommandSteps[CollabCallEntry]:
            uow, row = yield from self.load_caller(thread, request)
            known = yield from load_call(row, f"end:{request.call_id}")
            if known is not None:
                return WriteSet(known)
            if (yield from load_call(row, f"begin:{request.call_id}")) is not None:
                raise InvalidField(
                    reason="call_id belongs to a wait that is still running. Use a new call_id for each call."
                )
            receivers = yield from self._known_receivers(row, tool, request)
            pending = self.append_begin(uow, row, tool, request, receivers)
            try:
                ended = yield from action(uow, row, pending)
            except MoleculeError as error:
                return self._reject(row, tool, request, error, receivers)
            uow.append_entry(row.thread_id, ended, turn_id=row.turn_id, key=f"end:{request.call_id}")
            return uow.to_write_set(ended)

        return await self._store.run(Command(thread.org_id, (), decide, exclusive=True))

    def load_caller(
        self, thread: Thread, request: AgentCallBody
    ) -> Generator[StepRequest, Any, tuple[ThreadUnitOfWork, Thread]]:
        """Read the calling thread into a new unit of work."""
        row = yield from load_thread(thread.thread_id)
        if row is None:
            raise NotFound(what="thread")
        if request.generation is not None:
            check_generation(row, request.generation)
        uow = ThreadUnitOfWork(self._clock.now(), self._limits, self._meter)
        return uow, uow.attach(row)

    def append_begin(
        self,
        uow: ThreadUnitOfWork,
        row: Thread,
        tool: AgentTool,
        request: AgentCallBody,
        receivers: Sequence[str] = (),
    ) -> CollabCallEntry:
        """Append the begin entry."""
        pending = CollabCallEntry(
            call_id=request.call_id,
            tool=tool,
            status="inProgress",
            sender_thread_id=row.thread_id,
            receiver_thread_ids=list(receivers),
            prompt=request.message,
            model=request.model,
            effort=request.effort,
        )
        uow.append_entry(row.thread_id, pending, turn_id=row.turn_id, key=f"begin:{request.call_id}")
        return pending

    def _known_receivers(
        self, row: Thread, tool: AgentTool, request: AgentCallBody
    ) -> Generator[StepRequest, Any, list[str]]:
        """Return the agent that a call names, if its caller may reach it."""
        if tool not in _TOOLS_WITH_TARGET:
            return []
        try:
            found = yield from self.find_target(row, request.target or "")
        except CommunicationDenied:
            return []
        return [] if found is None else [found.thread_id]

    def _reject(
        self,
        row: Thread,
        tool: AgentTool,
        request: AgentCallBody,
        error: MoleculeError,
        receivers: Sequence[str],
    ) -> WriteSet[CollabCallEntry]:
        """Write only the two entries of a rejected call."""
        uow = ThreadUnitOfWork(self._clock.now(), self._limits, self._meter)
        uow.attach(row)
        ended = replace(self.append_begin(uow, row, tool, request, receivers), status="failed", reason=error.text)
        if tool == "spawn":
            uow.add_metrics(metrics.metrics_for_rejected_spawn(error))
        uow.append_entry(row.thread_id, ended, turn_id=row.turn_id, key=f"end:{request.call_id}")
        return uow.to_write_set(ended, error=error)

    # -- targets -------------------------------------------------------------------------------------------------------

    def resolve_target(
        self, uow: ThreadUnitOfWork, sender: Thread, target: str | None
    ) -> Generator[StepRequest, Any, Thread]:
        """Return the agent with a path or id, if the sender may reach it. Raises AgentNotFound, CommunicationDenied."""
        found = yield from self.find_target(sender, target or "")
        if found is None:
            raise AgentNotFound(target=target or "")
        return uow.attach(found)

    def find_target(self, sender: Thread, target: str) -> Generator[StepRequest, Any, Thread | None]:
        """Return the same, or None if there is none. Raises CommunicationDenied."""
        path = rules.resolve_path(sender.path, target) if target else None
        found = None
        if path is not None:
            rows = yield ReadQuery("thread_by_path", {"root_id": sender.root_id, "path": path})
            found = Thread.from_row(rows[0]) if rows else None
        if found is None and target and "\x00" not in target:
            found = yield from load_thread(target)
        if found is None or found.org_id != sender.org_id:
            return None
        if found.root_id != sender.root_id:
            self._check_reach(sender, found)
        return found

    def _check_reach(self, sender: Thread, found: Thread) -> None:
        """Raise CommunicationDenied for another tree unless the workspaces may communicate."""
        one, other = self._org.workspace(sender.workspace_id), self._org.workspace(found.workspace_id)
        if one is None or other is None or not may_talk(self._org, one, other):
            raise CommunicationDenied(caller=sender.workspace_id, target=found.workspace_id)


def load_call(row: Thread, key: str) -> Generator[StepRequest, Any, CollabCallEntry | None]:
    """Read the begin or the end entry of a call."""
    rows = yield ReadQuery("thread_entry_by_key", {"thread_id": row.thread_id, "key": key})
    entry = decode_entry(LogEntryRow(*rows[0]).body) if rows else None
    return entry if isinstance(entry, CollabCallEntry) else None


def readable_by_caller(row: Thread, others: Collection[Thread]) -> Generator[StepRequest, Any, set[str]]:
    """Return the threads whose last messages a call may show to its caller.

    These are the ones that its workspace may read, and those whose final message was sent to the caller as mail."""
    known = {each.thread_id for each in others if each.workspace_id == row.workspace_id}
    foreign = [each for each in others if each.thread_id not in known]
    for root_id in dict.fromkeys(each.root_id for each in foreign):
        tree = yield ReadQuery("threads_of_tree", {"root_id": root_id})
        known |= rules.readable_by(row.workspace_id, [Thread.from_row(each) for each in tree])
    for each in foreign:
        query = {"receiver_id": row.thread_id, "author_id": each.thread_id}
        if each.thread_id not in known and (yield ReadQuery("last_final_answer", query)) == [
            (rules.last_final_text(each),)
        ]:
            known.add(each.thread_id)
    return known


def thread_author(row: Thread) -> Author:
    """Return a thread as an author."""
    return Author("thread", row.thread_id, row.path)
