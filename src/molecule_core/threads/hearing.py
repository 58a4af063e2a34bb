"""What happens to seats is heard here, in the transaction in which it happens.

Above: hands. Below: acts, steps.
"""

from collections.abc import Generator
from typing import Any

from molecule_core.ground.limits import Limits
from molecule_core.org.model import SeatsGone
from molecule_core.store.database import Followed, Read, Several, Step
from molecule_core.threads.acts import Acts
from molecule_core.threads.model import SERVER, Thread
from molecule_core.threads.steps import Change


class ThreadHearing:
    """Follows facts of seats."""

    def __init__(self, acts: Acts, limits: Limits) -> None:
        self._acts = acts
        self._limits = limits

    def seats_gone(self, org_id: str, fact: SeatsGone) -> Generator[Step, Any, Followed]:
        """Seats are removed: their threads are closed, and whoever asked them for something, or waits for them, hears
        that. Agents of other seats below them go on."""
        found = yield Several([Read("threads_of_seat", {"workspace_id": each}) for each in fact.ids])
        closing = sorted((Thread.of(row) for rows in found for row in rows), key=lambda each: each.created_at)
        change = Change(fact.at, self._limits)
        roots = dict.fromkeys(each.root_id for each in closing)
        for rows in (yield Several([Read("threads_of_tree", {"root_id": each}) for each in roots])):
            change.knows_tree([Thread.of(row) for row in rows])
        for each in closing:
            change.take(each)
            yield from self._acts.close(change, each.thread_id, SERVER, "detach")
        done = change.written(None)
        return Followed(done.writes, done.events, done.rings)
