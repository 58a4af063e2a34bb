"""Facts rise: what a command says has happened is heard by other nouns, in the same transaction and in a fixed order.

A writer puts facts on its write set and knows nobody who hears them. Who hears is registered in `server.py` alone, and
the table is printed in docs/order.md. A follower reads and decides as a command does (it is a generator, and sees the
store as it was before the group), but it never refuses: one that raises has made a mistake, and nothing of the command
is written. The keys of the command must protect what its followers change; where they cannot, because it shows only
while it is decided what that is, the follower reaches `far`, and the command is decided again in a group of its own.

Above: `server.py`, the two engines. Below: `database`.
"""

from collections import deque
from collections.abc import Callable

from molecule_core.ground import points
from molecule_core.store.database import Decision, Follower, Followers, T, WriteSet

# Facts cause facts; a circle of them must end as a mistake, not as a server that hangs.
MOST_FACTS = 64


class FollowerTable(Followers):
    """Who follows which kind of fact."""

    def __init__(self) -> None:
        self._rows: dict[type, dict[str, Follower]] = {}
        self._far: set[tuple[type, str]] = set()

    def follow(self, fact: type, name: str, follower: Follower, *, far: bool = False) -> None:
        row = self._rows.setdefault(fact, {})
        if name in row:
            raise LookupError(f"{name} follows {fact.__name__} already")
        row[name] = follower
        if far:
            self._far.add((fact, name))

    def table(self) -> list[tuple[str, tuple[str, ...]]]:
        return [(fact.__name__, tuple(row)) for fact, row in self._rows.items() if row]

    def printed(self) -> str:
        far = {name for _, name in self._far}
        shown = [(fact, [f"`{each}`{' (far)' * (each in far)}" for each in names]) for fact, names in self.table()]
        rows = [f"| `{fact}` | {', '.join(names)} |" for fact, names in shown]
        return "\n".join(("| fact | followers, in this order |", "|---|---|", *rows))

    def after(self, org_id: str, written: WriteSet[T]) -> Decision[T]:
        """What a command has decided, with what its followers add. Raises LookupError if facts cause facts without an
        end."""
        whole = WriteSet(
            written.answer, [*written.writes], [*written.events], written.rings, written.then, written.refusal
        )
        waiting, heard = deque(written.facts), 0
        points.reached("facts.said")
        while waiting:
            heard += 1
            if heard > MOST_FACTS:
                raise LookupError(f"a command has more than {MOST_FACTS} facts: do they cause each other?")
            fact = waiting.popleft()
            for name, follower in self._rows.get(type(fact), {}).items():
                whole.far = whole.far or (type(fact), name) in self._far
                more = yield from follower(org_id, fact)
                whole.writes += more.writes
                whole.events += more.events
                whole.rings += more.rings
                whole.then = both(whole.then, more.then)
                waiting.extend(more.facts)
        points.reached("facts.heard")
        return whole


def both(first: Callable[[], None] | None, second: Callable[[], None] | None) -> Callable[[], None] | None:
    """Two things that are to happen after a commit, as one."""
    if first is None or second is None:
        return first or second

    def run() -> None:
        first()
        second()

    return run
