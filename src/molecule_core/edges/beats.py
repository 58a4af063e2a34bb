"""What live channels tell and the journal does not keep: that agents live, what they work on, how far work is.

Of each agent and each delegation the newest counts, and is told at most four times a second.

Above: `edges/live.py`. Below: `views/feed.py`.
"""

import asyncio
from collections.abc import Callable, Iterator

from molecule_core.ground.clock import SECOND, Clock
from molecule_core.org.reader import OrgReader
from molecule_core.views.feed import Feed, Heard, Notice

# What agents say of themselves is told at most four times a second.
BEAT_SECONDS = 0.25
# What agents work on, and how far they are, is told anew to who comes, as far as it has changed within this time.
_AWAY_SECONDS = 60


class Beats:
    """Tells the listeners of one organisation."""

    def __init__(
        self, feed: Feed, org: OrgReader, org_id: str, tell: Callable[[Notice], object], *, clock: Clock
    ) -> None:
        self._feed = feed
        self._org = org
        self._org_id = org_id
        self._tell = tell
        self._clock = clock
        self._tasks: dict[str, tuple[str | None, int]] = {}
        self._heard = Heard(clock.now())

    async def tell_beats(self) -> None:
        """That agents were heard."""
        beat = self._org.beats()
        while not self._feed.closing:
            await self._feed.wait_for_beat(self._org_id, beat)
            heard, beat = self._org.heard_after(self._org_id, beat), self._org.beats()
            for workspace in heard:
                for notice in self._beats_of(workspace.id):
                    self._tell(notice)
            await pause(self._clock, BEAT_SECONDS)

    def _beats_of(self, workspace_id: str) -> Iterator[Notice]:
        now, pulse = self._clock.now(), self._org.pulse(workspace_id)
        yield self._feed.beat(workspace_id, now)
        task = (pulse.current_task, pulse.active_tasks)
        if self._tasks.get(workspace_id) != task:
            self._tasks[workspace_id] = task
            yield self._feed.task(workspace_id, now)

    async def tell_progress(self) -> None:
        """How far work is."""
        while not self._feed.closing:
            for notice in await self._feed.progress(self._org_id, self._heard):
                self._tell(notice)
            await pause(self._clock, BEAT_SECONDS)

    async def of_late(self) -> list[Notice]:
        """What was told within the last minute: who comes, or loaded a snapshot meanwhile, was not told."""
        now = self._clock.now()
        since = now - _AWAY_SECONDS * SECOND
        tasks = [self._feed.task(each.id, now) for each in self._org.tasks_changed_since(self._org_id, since)]
        return tasks + await self._feed.progress_since(self._org_id, since)


async def pause(clock: Clock, seconds: float) -> None:
    """Waits on the clock that was handed in."""
    await clock.wait(asyncio.get_running_loop().create_future(), seconds)
