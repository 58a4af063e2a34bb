"""Which cells of the state tables a game reaches: each thing that can happen, in each way in which it can stand.

The tables of delegations and threads are watched while they are used; what happened to approvals is read in the
journal. What is owed for a message has no table; its cells are how it ended, and what it had met before.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import apsw

from molecule_core.approvals import rules as approvals
from molecule_core.delegations import rules as delegations
from molecule_core.threads import fold
from molecule_core.wire.schemas import thread_log as log

_STATUSES = ("pending_init", "running", "interrupted", "completed", "errored", "shutdown")
_LINES: dict[type, str] = {
    log.TurnAcceptedEntry: "turn accepted",
    log.TurnStartedEntry: "turn started",
    log.TurnEndedEntry: "turn ended",
    log.UserMessageEntry: "user message",
    log.CollabCallEntry: "call",
    log.ThreadClosedEntry: "closed",
    log.ThreadResumedEntry: "resumed",
}
_OWED = """SELECT state, overdue_at IS NOT NULL, outside_at IS NOT NULL, reminded_at IS NOT NULL AND reminded_at > 0
FROM obligations"""
_DELIVERED = """SELECT h.tick, w.delivery_mode FROM handovers h JOIN workspaces w ON w.id = h.workspace_id"""

_RULED = "SELECT name, entity_id, rev FROM events WHERE name LIKE 'APPROVAL%' AND entity_kind = 'approval' ORDER BY seq"
_STANDS = {
    "APPROVAL_ESCALATED": "pending",
    "APPROVAL_INFO_REQUESTED": "info_requested",
    "APPROVAL_ANSWERED": "pending",
    "APPROVAL_APPROVED": "approved",
    "APPROVAL_DENIED": "denied",
    "APPROVAL_EXPIRED": "expired",
    "APPROVAL_WITHDRAWN": "withdrawn",
}


class Cells:
    """Watches the tables from its making on: one for a process."""

    def __init__(self) -> None:
        self.reached: Counter[str] = Counter()
        delegations.TRANSITIONS = _Watched(delegations.TRANSITIONS, "delegation", self.reached)
        steps: Any = fold._HANDLERS
        for line, name in _LINES.items():
            steps[line] = self._noted(name, steps[line])

    def _noted(self, name: str, step: Callable[[Any, Any], dict[str, Any]]) -> Callable[[Any, Any], dict[str, Any]]:
        def noted(thread: Any, entry: Any) -> dict[str, Any]:
            what = f"{name} ({entry.status})" if isinstance(entry, log.TurnEndedEntry) else name
            self.reached[f"thread: {what} / {thread.status}"] += 1
            return step(thread, entry)

        return noted

    def read(self, connection: apsw.Connection) -> None:
        """Notes what is owed, and what became of mail, in a store at the end of a game."""
        self._approvals(connection)
        for state, *marks in connection.execute(_OWED):
            met = [name for name, is_so in zip(("overdue", "outside", "reminded"), marks, strict=True) if is_so]
            self.reached[f"obligation: {state} / {' '.join(met) or 'at once'}"] += 1
        for tick, mode in connection.execute(_DELIVERED):
            self.reached[f"mail: {tick} / {mode}"] += 1

    def _approvals(self, connection: apsw.Connection) -> None:
        """What has happened to each, as the journal tells it, and how it stood before."""
        stood: dict[str, str] = {}
        seen = set[tuple[str, int]]()
        for name, id_, rev in connection.execute(_RULED):
            if (id_, rev) in seen:  # the same, told to another workspace
                continue
            seen.add((id_, rev))
            if id_ in stood:
                self.reached[f"approval: {name} / {stood[id_]}"] += 1
            stood[id_] = _STANDS.get(name, stood.get(id_, "pending"))


class _Watched(dict[Any, Any]):
    """A table that notes which of its cells are looked at."""

    def __init__(self, table: Any, name: str, reached: Counter[str]) -> None:
        super().__init__(table)
        self._name, self._reached = name, reached

    def __getitem__(self, cell: Any) -> Any:
        fact, status = cell
        self._reached[f"{self._name}: {fact} / {status}"] += 1
        return super().__getitem__(cell)


def every_cell() -> set[str]:
    """All cells that there are."""
    found = {f"delegation: {fact} / {status}" for fact, status in delegations.TRANSITIONS}
    found |= {
        f"approval: {row.event} / {status}" for (_, status), row in approvals.TRANSITIONS.items() if row is not None
    }
    ends = [f"turn ended ({status})" for status in ("completed", "failed", "interrupted")]
    lines = [name for name in _LINES.values() if name != "turn ended"] + ends
    return found | {f"thread: {line} / {status}" for line in lines for status in _STATUSES}
