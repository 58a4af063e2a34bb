"""Server calls of `molecule connect`: find the workspace, get a token, wait for the agent."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from molecule_core.cli._lookup import find_org_id, find_workspace, match_workspace
from molecule_core.client.api import ApiClient, ApiError, NoAnswerError
from molecule_core.client.contact_file import ContactFile
from molecule_core.client.host_context_file import CONTEXT_PATH, HostContextFile
from molecule_core.common.clock import Clock, SystemClock
from molecule_core.common.errors import CommandFailed

_PRESENCE_EVENTS = ("WORKSPACE_ONLINE", "WORKSPACE_HEARTBEAT", "AGENT_CARD_UPDATED", "TASK_UPDATED")
_PRESENT_STATUSES = ("online", "degraded")
_BETWEEN_TRIES_SECONDS = 1.0
_BETWEEN_READS_SECONDS = 0.2
_MAX_CHOICES = 10


class WorkspaceChoice(NamedTuple):
    """The workspace to connect to, by id or name, and how to create it if there is none."""

    workspace: str
    create: bool
    parent: str | None
    org: str | None
    runtime: str


class WorkspaceAccess(NamedTuple):
    """A workspace to connect a host to. `token` is empty as long as there is none."""

    workspace_id: str
    name: str
    token: str = ""
    token_id: str | None = None


async def find_or_create_workspace(api: ApiClient, choice: WorkspaceChoice) -> WorkspaceAccess:
    """Return the workspace of a choice; create it if requested. Raises ApiError, NoAnswerError, CommandFailed."""
    org_id = None if choice.org is None else await find_org_id(api, choice.org)
    rows: list[dict[str, Any]] = await api.get("/workspaces", org_id=org_id)
    row = match_workspace(rows, choice.workspace)
    if row is not None:
        return WorkspaceAccess(row["id"], row["name"])
    if not choice.create:
        names = ", ".join(sorted(each["name"] for each in rows)[:_MAX_CHOICES]) or "none yet"
        raise CommandFailed(reason=f"workspace {choice.workspace!r} does not exist (existing: {names}). Use --create.")
    body: dict[str, Any] = {"name": choice.workspace, "runtime": choice.runtime, "external": True, "org_id": org_id}
    if choice.parent is not None:
        body["parent_id"] = find_workspace(rows, choice.parent)["id"]
    created = await api.post("/workspaces", body)
    (token,) = await api.get(f"/workspaces/{created['id']}/tokens")
    return WorkspaceAccess(created["id"], created["name"], created["connection"]["auth_token"], token["id"])


async def create_token(api: ApiClient, workspace: WorkspaceAccess) -> WorkspaceAccess:
    """Return the workspace with a new token. Raises ApiError, NoAnswerError."""
    created = await api.post(f"/workspaces/{workspace.workspace_id}/tokens")
    return workspace._replace(token=str(created["auth_token"]), token_id=str(created["id"]))


async def reuse_token(api: ApiClient, workspace: WorkspaceAccess, token: str) -> WorkspaceAccess:
    """Return the workspace with an existing token and its id, found by its hint. Raises ApiError, NoAnswerError."""
    rows = await api.get(f"/workspaces/{workspace.workspace_id}/tokens")
    ids = [str(row["id"]) for row in rows if token.startswith(row["hint"])]
    return workspace._replace(token=token, token_id=ids[0] if len(ids) == 1 else None)


async def is_token_valid(address: str, token: str, workspace_id: str) -> bool:
    """Return whether a token is valid for its workspace. Raises NoAnswerError."""
    async with ApiClient(address, token) as api:
        with suppress(ApiError):
            await api.get(f"/workspaces/{workspace_id}/waiting")
            return True
    return False


async def save_context(address: str, workspace: WorkspaceAccess, token_file: Path) -> None:
    """Keep the surroundings of the workspace, which a host shows at its first start. A failure costs only that."""
    context_file = HostContextFile.of_workspace(workspace.workspace_id, token_file, token_file.parent)
    async with ApiClient(address, workspace.token) as api:
        with suppress(ApiError, NoAnswerError):
            context_file.save(await api.get(CONTEXT_PATH.format(id=workspace.workspace_id)))


class SeenAgent(NamedTuple):
    """An agent that was seen, with the number of its tools (0: unknown)."""

    tool_count: int


class AgentWatch(NamedTuple):
    """What to wait for: the first contact of a workspace's agent.

    `contact`: where the process of the host confirms it; None: a host without such a process, of which every sign of
    the workspace's agent is one that comes after the start."""

    address: str
    token: str
    workspace_id: str
    contact: ContactFile | None


async def wait_for_agent(watch: AgentWatch, seconds: float, on_listening: Callable[[], None]) -> SeenAgent | None:
    """Wait until the agent is seen and return it, or None after `seconds`. Raises ApiError.

    `on_listening` is called when the event stream is open, and again after an interruption."""
    clock = SystemClock()
    tasks = [asyncio.create_task(_watch_events(watch, on_listening, clock))]
    if watch.contact is not None:
        tasks.append(asyncio.create_task(_watch_contact(watch.contact, clock)))
    try:
        done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        return done.pop().result() if done else None
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _watch_contact(contact: ContactFile, clock: Clock) -> SeenAgent:
    while (found := contact.read()) is None:
        await clock.wait(asyncio.get_running_loop().create_future(), _BETWEEN_READS_SECONDS)
    return SeenAgent(found.tools)


async def _watch_events(watch: AgentWatch, on_listening: Callable[[], None], clock: Clock) -> SeenAgent:
    """Return the agent when an event shows it. Raises ApiError, e.g. when the token was revoked."""
    was_present: bool | None = None
    async with ApiClient(watch.address, watch.token) as api:

        async def read_row() -> dict[str, Any]:
            return dict(await api.get(f"/workspaces/{watch.workspace_id}"))

        while True:
            with suppress(NoAnswerError):
                async for frame in api.events():
                    row = await read_row() if watch.contact is None else {}
                    is_present = row.get("status") in _PRESENT_STATUSES
                    if (_is_presence(frame, watch.workspace_id) and row) or (is_present and was_present is False):
                        return SeenAgent(count_tools(row["agent_card"]))
                    if "event" not in frame:  # the first frame: what comes now is not missed
                        was_present = is_present if was_present is None else was_present
                        on_listening()
            # The server was unreachable: pause before the next attempt.
            await clock.wait(asyncio.get_running_loop().create_future(), _BETWEEN_TRIES_SECONDS)


def _is_presence(frame: dict[str, Any], workspace_id: str) -> bool:
    return frame.get("event") in _PRESENCE_EVENTS and frame.get("workspace_id") == workspace_id


def count_tools(card: Any) -> int:
    """Return the number of tools on an agent card, given there as a number or a list."""
    tools = card.get("tools") if isinstance(card, dict) else None
    if isinstance(tools, list):
        return len(tools)
    return tools if isinstance(tools, int) and not isinstance(tools, bool) and tools > 0 else 0
