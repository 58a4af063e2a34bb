"""Facts rise: what a command says has happened is heard by other nouns, in the same transaction and in a fixed order.

A writer puts facts on its write set and knows nobody who hears them. Who hears is registered in `server/composition.py` alone, and
the table is printed in docs/order.md. A follower reads and decides as a command does (it is a generator, and sees the
store as it was before the group), but it never refuses: one that raises has made a mistake, and nothing of the command
is written. The keys of the command must protect what its followers change; where they cannot, because it shows only
while it is decided what that is, the follower reaches `far`, and the command is decided again in a group of its own.

Above: `server/composition.py`, the two engines. Below: `database`.
"""

from collections import deque
from collections.abc import Callable

from molecule_core.common import crash_points
from molecule_core.store.database import CommandSteps, EventHandler, Subscribers, T, WriteSet

# Facts cause facts; a circle of them must end as a mistake, not as a server that hangs.
MAX_DOMAIN_EVENTS = 64


class SubscriberTable(Subscribers):
    """Who follows which kind of fact."""

    def __init__(self) -> None:
        self._handlers: dict[type, dict[str, EventHandler]] = {}
        self._isolated: set[tuple[type, str]] = set()

    def subscribe(self, event: type, name: str, handler: EventHandler, *, isolated: bool = False) -> None:
        row = self._handlers.setdefault(event, {})
        if name in row:
            raise LookupError(f"{name} follows {event.__name__} already")
        row[name] = handler
        if isolated:
            self._isolated.add((event, name))

    def list_subscriptions(self) -> list[tuple[str, tuple[str, ...]]]:
        return [(event.__name__, tuple(row)) for event, row in self._handlers.items() if row]

    def render_table(self) -> str:
        isolated = {name for _, name in self._isolated}
        rendered = [
            (event, [f"`{each}`{' (far)' * (each in isolated)}" for each in names])
            for event, names in self.list_subscriptions()
        ]
        rows = [f"| `{event}` | {', '.join(names)} |" for event, names in rendered]
        return "\n".join(("| fact | followers, in this order |", "|---|---|", *rows))

    def dispatch(self, org_id: str, write_set: WriteSet[T]) -> CommandSteps[T]:
        """What a command has decided, with what its followers add. Raises LookupError if facts cause facts without an
        end."""
        combined = WriteSet(
            write_set.result,
            [*write_set.writes],
            [*write_set.events],
            write_set.notify,
            write_set.after_commit,
            write_set.error,
        )
        pending, dispatched = deque(write_set.domain_events), 0
        crash_points.mark_reached("facts.said")
        while pending:
            dispatched += 1
            if dispatched > MAX_DOMAIN_EVENTS:
                raise LookupError(f"a command has more than {MAX_DOMAIN_EVENTS} facts: do they cause each other?")
            event = pending.popleft()
            for name, handler in self._handlers.get(type(event), {}).items():
                combined.isolated = combined.isolated or (type(event), name) in self._isolated
                changes = yield from handler(org_id, event)
                combined.writes += changes.writes
                combined.events += changes.events
                combined.notify += changes.notify
                combined.after_commit = chain_callbacks(combined.after_commit, changes.after_commit)
                pending.extend(changes.domain_events)
        crash_points.mark_reached("facts.heard")
        return combined


def chain_callbacks(first: Callable[[], None] | None, second: Callable[[], None] | None) -> Callable[[], None] | None:
    """Two things that are to happen after a commit, as one."""
    if first is None or second is None:
        return first or second

    def run() -> None:
        first()
        second()

    return run
