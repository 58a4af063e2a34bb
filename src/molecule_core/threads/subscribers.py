"""Subscriber of workspace removals. It runs in the transaction of the event."""

from molecule_core.common.limits import Limits
from molecule_core.org.model import WorkspacesRemoved
from molecule_core.store.database import CommandSteps, ReadQuery, RequestBatch
from molecule_core.threads.model import SERVER_AUTHOR, Thread
from molecule_core.threads.transitions import ThreadTransitions
from molecule_core.threads.unit_of_work import ThreadUnitOfWork


class ThreadSubscriber:
    """Subscriber of workspace events."""

    def __init__(self, transitions: ThreadTransitions, limits: Limits) -> None:
        self._transitions = transitions
        self._limits = limits

    def on_workspaces_removed(self, org_id: str, event: WorkspacesRemoved) -> CommandSteps[None]:
        """Close the threads of removed workspaces and notify the threads that requested or wait for their work.

        Agents of other workspaces below them continue."""
        found = yield RequestBatch(
            [ReadQuery("open_threads_of_workspace", {"workspace_id": each}) for each in event.ids]
        )
        threads_to_close = sorted(
            (Thread.from_row(row) for rows in found for row in rows), key=lambda each: each.created_at
        )
        uow = ThreadUnitOfWork(event.at, self._limits, self._transitions.meter)
        roots = dict.fromkeys(each.root_id for each in threads_to_close)
        for rows in (yield RequestBatch([ReadQuery("threads_of_tree", {"root_id": each}) for each in roots])):
            uow.attach_tree([Thread.from_row(row) for row in rows])
        for each in threads_to_close:
            uow.attach(each)
            yield from self._transitions.close_thread(uow, each.thread_id, SERVER_AUTHOR, "detach")
        return uow.to_write_set(None)
