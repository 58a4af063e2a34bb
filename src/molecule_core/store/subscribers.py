"""Dispatches the domain events of a command to subscribers, in the same transaction and a fixed order.

A writer puts domain events on its write set and does not know the subscribers. They are registered only in
`server/composition.py`; docs/order.md prints the table. A handler reads and decides as a command does: it is a
generator and sees the store as it was before the group. It never rejects: an exception is a bug, and nothing of the
command is written. The command's keys must protect what handlers change. Where they cannot, because the rows are known
only while it decides, the handler is registered as `isolated`, and the command is decided again in a group of its own.
"""

from collections import deque

from msgspec.structs import replace

from molecule_core.common import crash_points
from molecule_core.store.database import CommandSteps, EventHandler, Subscribers, T, WriteSet

# Events can cause events; a cycle must end in an error, not in a server that hangs.
MAX_DOMAIN_EVENTS = 64


class SubscriberTable(Subscribers):
    """Handlers by type of domain event."""

    def __init__(self) -> None:
        self._handlers: dict[type, dict[str, EventHandler]] = {}
        self._isolated: set[tuple[type, str]] = set()

    def subscribe(self, event: type, name: str, handler: EventHandler, *, isolated: bool = False) -> None:
        row = self._handlers.setdefault(event, {})
        if name in row:
            raise LookupError(f"{name} is already subscribed to {event.__name__}")
        row[name] = handler
        if isolated:
            self._isolated.add((event, name))

    def list_subscriptions(self) -> list[tuple[str, tuple[str, ...]]]:
        return [(event.__name__, tuple(row)) for event, row in self._handlers.items() if row]

    def render_table(self) -> str:
        isolated = {name for _, name in self._isolated}
        rendered = [
            (event, [f"`{each}`{' (isolated)' * (each in isolated)}" for each in names])
            for event, names in self.list_subscriptions()
        ]
        rows = [f"| `{event}` | {', '.join(names)} |" for event, names in rendered]
        return "\n".join(("| domain event | subscribers, in this order |", "|---|---|", *rows))

    def dispatch(self, org_id: str, write_set: WriteSet[T]) -> CommandSteps[T]:
        """Combine a write set with the changes of its subscribers.

        Raises LookupError if events cause events without end."""
        pending, dispatched = deque(write_set.domain_events), 0
        crash_points.mark_reached("events.dispatching")
        while pending:
            dispatched += 1
            if dispatched > MAX_DOMAIN_EVENTS:
                raise LookupError(
                    f"a command has more than {MAX_DOMAIN_EVENTS} domain events; check whether they cause each other"
                )
            event = pending.popleft()
            for name, handler in self._handlers.get(type(event), {}).items():
                changes = yield from handler(org_id, event)
                write_set += replace(changes, isolated=changes.isolated or (type(event), name) in self._isolated)
                pending.extend(changes.domain_events)
        crash_points.mark_reached("events.dispatched")
        return replace(write_set, domain_events=())
