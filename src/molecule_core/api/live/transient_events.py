"""Events that live channels send and the journal does not store: heartbeats, current tasks, progress.

Only the newest state of each agent and delegation is sent, at most four times a second.
"""

import asyncio
from collections.abc import Callable, Iterator

from molecule_core.common.clock import SECOND, Clock
from molecule_core.org.reader import OrgReader
from molecule_core.views.feed import EncodedEvent, Feed, ProgressWatermark

# At most four updates a second of each kind.
PUBLISH_INTERVAL_SECONDS = 0.25
# New subscribers receive the current tasks and progress that changed within this time.
_RECENT_SECONDS = 60


class TransientEvents:
    """Publisher of the transient events of one org."""

    def __init__(
        self, feed: Feed, org: OrgReader, org_id: str, publish: Callable[[EncodedEvent], object], *, clock: Clock
    ) -> None:
        self._feed = feed
        self._org = org
        self._org_id = org_id
        self._publish = publish
        self._clock = clock
        self._tasks: dict[str, tuple[str | None, int]] = {}
        self._progress_watermark = ProgressWatermark(clock.now())

    async def publish_heartbeats(self) -> None:
        """Publish heartbeats and changed tasks."""
        heartbeat_count = self._org.last_heartbeat_number()
        while not self._feed.closing:
            await self._feed.wait_for_heartbeat(self._org_id, heartbeat_count)
            heard_workspaces, heartbeat_count = (
                self._org.workspaces_after_heartbeat(self._org_id, heartbeat_count),
                self._org.last_heartbeat_number(),
            )
            for workspace in heard_workspaces:
                for event in self._heartbeat_events(workspace.id):
                    self._publish(event)
            await clock_sleep(self._clock, PUBLISH_INTERVAL_SECONDS)

    def _heartbeat_events(self, workspace_id: str) -> Iterator[EncodedEvent]:
        now, heartbeat = self._clock.now(), self._org.last_heartbeat(workspace_id)
        yield self._feed.heartbeat_event(workspace_id, now)
        task = (heartbeat.current_task, heartbeat.active_tasks)
        if self._tasks.get(workspace_id) != task:
            self._tasks[workspace_id] = task
            yield self._feed.task_event(workspace_id, now)

    async def publish_progress(self) -> None:
        """Publish the progress of delegations."""
        while not self._feed.closing:
            for event in await self._feed.wait_for_progress(self._org_id, self._progress_watermark):
                self._publish(event)
            await clock_sleep(self._clock, PUBLISH_INTERVAL_SECONDS)

    async def recent(self) -> list[EncodedEvent]:
        """Return the events of the last minute, for subscribers that connected or loaded a snapshot meanwhile."""
        now = self._clock.now()
        since = now - _RECENT_SECONDS * SECOND
        tasks = [self._feed.task_event(each.id, now) for each in self._org.tasks_changed_since(self._org_id, since)]
        return tasks + await self._feed.progress_since(self._org_id, since)


async def clock_sleep(clock: Clock, seconds: float) -> None:
    """Sleep on the injected clock."""
    await clock.wait(asyncio.get_running_loop().create_future(), seconds)
