"""The tasks of webhooks: each change of a task, in the line of A2A that the webhook's client speaks.

Called by `webhooks/dispatcher.py`; reads tasks and their events as streams do.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from molecule_core.messages.task_reader import TaskMessageReader
from molecule_core.org.model import Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Store
from molecule_core.store.journal import Journal, JournalEntry, org_key
from molecule_core.store.wakeups import Notifier, Poll
from molecule_core.views.a2a_tasks import A2ATaskChanges, A2ATaskReader, TaskCursor, TaskFollower
from molecule_core.webhooks.model import TaskChange, TaskSource, Webhook
from molecule_core.wire.protocols.a2a_shapes import A2ALine, A2ATask, StatusUpdate, StreamEvent, render_stream_event

_JOURNAL_PAGE = 200
# 60 s: whether the owner may still see a task, and whether it has ended, is looked at this often without an event.
_QUIET_SECONDS = 60.0

OwnerCheck = Callable[[str, Workspace], Awaitable[bool]]
"""Returns whether the owner of a webhook may still see tasks of a workspace."""


class TaskReaders(NamedTuple):
    """Readers of tasks, their events, and what they consist of."""

    tasks: A2ATaskReader
    changes: A2ATaskChanges
    messages: TaskMessageReader


class WebhookTasks(TaskSource):
    """Reader of the tasks of webhooks."""

    def __init__(
        self, store: Store, readers: TaskReaders, org: OrgReader, wakeups: Notifier, is_owner_active: OwnerCheck
    ) -> None:
        self._pages = SharedPages(Journal(store))
        self._readers = readers
        self._org = org
        self._wakeups = wakeups
        self._is_owner_active = is_owner_active

    async def read_task(self, webhook: Webhook) -> TaskChange | None:
        """Return the task as it is now; None if its owner cannot see it any more."""
        workspace = await self._visible_workspace(webhook)
        if workspace is None:
            return None
        found = await self._readers.changes.snapshot(workspace, webhook.owner, webhook.task_id)
        return None if found is None else TaskChange(found.seq, _encode(found.task, webhook))

    async def is_over(self, webhook: Webhook) -> bool:
        """Return whether the task has ended, or its owner cannot see it any more."""
        task = await self._find(webhook)
        return task is None or task.status.state.is_terminal

    async def changes(self, webhook: Webhook, after: int) -> AsyncIterator[TaskChange]:
        """Yield the changes of the task after a cursor, and wait for further ones, until the task has ended."""
        workspace, task = self._org.workspace(webhook.workspace_id), await self._find(webhook)
        if workspace is None or task is None:
            return
        # The rows and the revision that the task has now must not hide what the journal says after the cursor.
        start = TaskCursor(replace(task, rev=0, known_ids=frozenset((task.id,))), after, after)
        readers = self._readers
        follower = TaskFollower(readers.tasks, readers.messages, workspace, webhook.owner, start)
        cursor, was_over = after, task.status.state.is_terminal
        while not self._wakeups.closing:
            entries = await self._wait_for_entries(webhook.org_id, cursor, 0.0 if was_over else _QUIET_SECONDS)
            for entry in entries:
                cursor = entry.seq
                for event in await follower.events_of(entry):
                    body = await self._body_of(event, webhook)
                    if body is None:
                        return
                    yield TaskChange(cursor, body)
                    if isinstance(event, StatusUpdate) and event.status.state.is_terminal:
                        return
            if entries or self._wakeups.closing:
                continue
            if was_over:
                return
            if await self.is_over(webhook):  # no event has reported it
                last = await self.read_task(webhook)
                if last is not None:
                    yield last
                return

    async def _wait_for_entries(self, org_id: str, after: int, seconds: float) -> list[JournalEntry]:
        async def poll() -> Poll[list[JournalEntry]]:
            return Poll(await self._pages.read_after(org_id, after) or None)

        return await self._wakeups.wait_until(org_key(org_id), poll, seconds) or []

    async def _body_of(self, event: StreamEvent, webhook: Webhook) -> bytes | None:
        """Return the body of a notification: the event, or in 0.3 the task; None if the owner cannot see the task."""
        task = await self._find(webhook)
        if task is None:
            return None
        return _encode(task if webhook.line == A2ALine.V0_3 else event, webhook)

    async def _find(self, webhook: Webhook) -> A2ATask | None:
        workspace = await self._visible_workspace(webhook)
        return None if workspace is None else await self._readers.tasks.find(workspace, webhook.owner, webhook.task_id)

    async def _visible_workspace(self, webhook: Webhook) -> Workspace | None:
        workspace = self._org.workspace(webhook.workspace_id)
        if workspace is None or workspace.removed or not await self._is_owner_active(webhook.owner, workspace):
            return None
        return workspace


class SharedPages:
    """Pages of journals that many followers read at the same position: the last one of each is kept."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._pages: dict[str, tuple[int, list[JournalEntry]]] = {}

    async def read_after(self, org_id: str, seq: int) -> list[JournalEntry]:
        """Return events after a number, oldest first; those of a kept page may be fewer than there are."""
        start, entries = self._pages.get(org_id, (0, []))
        if entries and start == seq:
            return entries
        found = await self._journal.read_after(org_id, seq, _JOURNAL_PAGE)
        if found:
            self._pages[org_id] = (seq, found)
        return found


def _encode(event: StreamEvent, webhook: Webhook) -> bytes:
    return msgspec.json.encode(render_stream_event(event, A2ALine(webhook.line)))
