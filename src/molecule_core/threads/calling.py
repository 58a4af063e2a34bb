"""Calls of collaboration tools: each begins and ends in the log of who calls, also one that is refused; the same call
again gets the end that it has.

Above: spawning, waiting. Below: acts, steps, rules.
"""

from collections.abc import Callable, Collection, Generator
from typing import Any

from msgspec.structs import replace

from molecule_core.ground.clock import Clock
from molecule_core.ground.errors import InvalidField, MayNotTalk, MoleculeError, NotFound
from molecule_core.ground.limits import Limits
from molecule_core.ground.metrics import ThreadMeter
from molecule_core.ground.refusals import NoSuchAgent
from molecule_core.org.reader import OrgReader
from molecule_core.org.rules import may_talk
from molecule_core.store.database import Command, Decision, Read, Step, Store, WriteSet
from molecule_core.threads import counting, rules
from molecule_core.threads.model import Line, Thread
from molecule_core.threads.steps import Change, thread_row
from molecule_core.threads.turning import check_fence
from molecule_core.wire.threadlog import AgentTool, Author, Collab, entry_of
from molecule_core.wire.threads import AgentCall

Deed = Callable[[Change, Thread, Collab], Generator[Step, Any, Collab]]
"""Does what a call asks for, and says how it ended. Raises a refusal before anything is written."""


class Calls:
    """Runs calls, each as one command."""

    def __init__(self, store: Store, org: OrgReader, meter: ThreadMeter, *, clock: Clock, limits: Limits) -> None:
        self._store = store
        self._meter = meter
        self._org = org
        self._clock = clock
        self._limits = limits

    async def run(self, thread: Thread, tool: AgentTool, asked: AgentCall, deed: Deed) -> Collab:
        """A call from its begin to its end. A refusal is raised, and stands in the log as a failed end; but not that of
        a call whose name a wait has that goes on. Raises NotFound, StaleGeneration, InvalidField, and what the deed
        raises."""

        def decide() -> Decision[Collab]:
            change, row = yield from self.caller(thread, asked)
            known = yield from call_of(row, f"end:{asked.call_id}")
            if known is not None:
                return WriteSet(known)
            if (yield from call_of(row, f"begin:{asked.call_id}")) is not None:
                raise InvalidField(reason="call_id is that of a wait that goes on; give each call its own")
            begun = self.begin(change, row, tool, asked)
            try:
                ended = yield from deed(change, row, begun)
            except MoleculeError as refusal:
                return self._refused(row, tool, asked, refusal)
            change.add(row.thread_id, ended, turn_id=row.turn_id, key=f"end:{asked.call_id}")
            return change.written(ended)

        return await self._store.run(Command(thread.org_id, (), decide, alone=True))

    def caller(self, thread: Thread, asked: AgentCall) -> Generator[Step, Any, tuple[Change, Thread]]:
        """The thread that calls, as it stands then."""
        row = yield from thread_row(thread.thread_id)
        if row is None:
            raise NotFound(what="thread")
        if asked.generation is not None:
            check_fence(row, asked.generation)
        change = Change(self._clock.now(), self._limits, self._meter)
        return change, change.take(row)

    def begin(self, change: Change, row: Thread, tool: AgentTool, asked: AgentCall) -> Collab:
        """The first of the two lines."""
        begun = Collab(
            call_id=asked.call_id,
            tool=tool,
            status="inProgress",
            sender_thread_id=row.thread_id,
            prompt=asked.message,
            model=asked.model,
            effort=asked.effort,
        )
        change.add(row.thread_id, begun, turn_id=row.turn_id, key=f"begin:{asked.call_id}")
        return begun

    def _refused(self, row: Thread, tool: AgentTool, asked: AgentCall, refusal: MoleculeError) -> WriteSet[Collab]:
        """Nothing but the two lines is written."""
        change = Change(self._clock.now(), self._limits, self._meter)
        change.take(row)
        ended = replace(self.begin(change, row, tool, asked), status="failed", reason=refusal.text)
        if tool == "spawn":
            change.counts(counting.refused(refusal))
        change.add(row.thread_id, ended, turn_id=row.turn_id, key=f"end:{asked.call_id}")
        return change.written(ended, refusal=refusal)

    # -- whom a target means -------------------------------------------------------------------------------------------

    def target(self, change: Change, sender: Thread, target: str | None) -> Generator[Step, Any, Thread]:
        """The agent that a path or an id means, if the sender may reach it. Raises NoSuchAgent, MayNotTalk."""
        found = yield from self.find(sender, target or "")
        if found is None:
            raise NoSuchAgent(target=target or "")
        return change.take(found)

    def find(self, sender: Thread, target: str) -> Generator[Step, Any, Thread | None]:
        """The same; None: there is none. Raises MayNotTalk."""
        path = rules.path_meant(sender.path, target) if target else None
        found = None
        if path is not None:
            rows = yield Read("thread_at", {"root_id": sender.root_id, "path": path})
            found = Thread.of(rows[0]) if rows else None
        if found is None and target and "\x00" not in target:
            found = yield from thread_row(target)
        if found is None or found.org_id != sender.org_id:
            return None
        if found.root_id != sender.root_id:
            self._check_reach(sender, found)
        return found

    def _check_reach(self, sender: Thread, found: Thread) -> None:
        """Beyond the own tree only where the workspaces may talk."""
        one, other = self._org.workspace(sender.workspace_id), self._org.workspace(found.workspace_id)
        if one is None or other is None or not may_talk(self._org, one, other):
            raise MayNotTalk(caller=sender.workspace_id, target=found.workspace_id)


def call_of(row: Thread, key: str) -> Generator[Step, Any, Collab | None]:
    """The begin or the end of a call that was made."""
    rows = yield Read("thread_entry_by_key", {"thread_id": row.thread_id, "key": key})
    entry = entry_of(Line(*rows[0]).body) if rows else None
    return entry if isinstance(entry, Collab) else None


def heard_by(row: Thread, others: Collection[Thread]) -> Generator[Step, Any, set[str]]:
    """Those of other threads whose last words a call tells its thread: what its workspace may read of their trees, and
    ends that were sent to the thread itself as letters."""
    known = {each.thread_id for each in others if each.workspace_id == row.workspace_id}
    foreign = [each for each in others if each.thread_id not in known]
    for root_id in dict.fromkeys(each.root_id for each in foreign):
        tree = yield Read("threads_of_tree", {"root_id": root_id})
        known |= rules.read_by(row.workspace_id, [Thread.of(each) for each in tree])
    for each in foreign:
        wish = {"receiver_id": row.thread_id, "author_id": each.thread_id}
        if each.thread_id not in known and (yield Read("thread_final_sent", wish)) == [(rules.last_words(each),)]:
            known.add(each.thread_id)
    return known


def author_of(row: Thread) -> Author:
    """A thread as somebody who acts."""
    return Author("thread", row.thread_id, row.path)
