"""Reads A2A agents of others and their tasks."""

from molecule_core.a2a_agents.model import A2AAgent, RemoteTask
from molecule_core.store.database import Store

# A conversation's newest tasks: more than an agent has open at once.
_MAX_TASKS = 20


class A2AAgentReader:
    """Read access to A2A agents and their tasks."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def agent(self, workspace_id: str) -> A2AAgent | None:
        """Return the A2A agent of a workspace, or None."""
        rows = await self._store.rows("a2a_agent", {"workspace_id": workspace_id})
        return A2AAgent(*rows[0]) if rows else None

    async def task(self, workspace_id: str, activity_id: str) -> RemoteTask | None:
        """Return the task that carries a message, or None."""
        rows = await self._store.rows("a2a_task", {"workspace_id": workspace_id, "activity_id": activity_id})
        return RemoteTask(*rows[0]) if rows else None

    async def tasks_of_conversation(self, workspace_id: str, conversation: str) -> list[RemoteTask]:
        """Return the last tasks of a conversation, the newest first."""
        query = {"workspace_id": workspace_id, "conversation": conversation, "count": _MAX_TASKS}
        return [RemoteTask(*row) for row in await self._store.rows("a2a_tasks_of_conversation", query)]
