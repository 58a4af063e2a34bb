"""Server calls of `molecule connect`: find the workspace, get a token, wait for the agent."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from molecule_core.client.api import ApiClient, ApiError, NoAnswerError
from molecule_core.client.org_plan import format_path, row_path
from molecule_core.common.clock import SystemClock
from molecule_core.common.errors import CommandFailed

_PRESENCE_EVENTS = ("WORKSPACE_ONLINE", "WORKSPACE_HEARTBEAT", "AGENT_CARD_UPDATED", "TASK_UPDATED")
_PRESENT_STATUSES = ("online", "degraded")
_BETWEEN_TRIES_SECONDS = 1.0
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
    org_id = await _find_org_id(api, choice.org)
    rows: list[dict[str, Any]] = await api.get("/workspaces", org_id=org_id)
    row = _match_workspace(rows, choice.workspace)
    if row is not None:
        return WorkspaceAccess(row["id"], row["name"])
    if not choice.create:
        names = ", ".join(sorted(each["name"] for each in rows)[:_MAX_CHOICES]) or "none yet"
        raise CommandFailed(reason=f"there is no seat {choice.workspace!r} (there are: {names}); --create makes it")
    body: dict[str, Any] = {"name": choice.workspace, "runtime": choice.runtime, "external": True, "org_id": org_id}
    if choice.parent is not None:
        parent = _match_workspace(rows, choice.parent)
        if parent is None:
            raise CommandFailed(reason=f"there is no seat {choice.parent!r} that the new one could answer to")
        body["parent_id"] = parent["id"]
    created = await api.post("/workspaces", body)
    (token,) = await api.get(f"/workspaces/{created['id']}/tokens")
    return WorkspaceAccess(created["id"], created["name"], created["connection"]["auth_token"], token["id"])


async def _find_org_id(api: ApiClient, name: str | None) -> str | None:
    """Return the id of the organisation with this name; without a name None, for all that the caller can see."""
    if name is None:
        return None
    session = await api.get("/session")
    orgs = await api.get("/orgs") if session["user"]["kind"] == "admin" else [session["org"]]
    found = [each["id"] for each in orgs if each["name"] == name]
    if not found:
        names = ", ".join(each["name"] for each in orgs)
        raise CommandFailed(reason=f"there is no organisation named {name!r}; there are: {names}")
    return str(found[0])


def _match_workspace(rows: list[dict[str, Any]], wanted: str) -> dict[str, Any] | None:
    """Return the workspace with this id, or the only one with this name. Raises CommandFailed."""
    named = [row for row in rows if row["id"] == wanted] or [row for row in rows if row["name"] == wanted]
    if len(named) > 1:
        by_id = {row["id"]: row for row in rows}
        choices = "; ".join(f"{format_path(row_path(row, by_id))} is {row['id']}" for row in named[:_MAX_CHOICES])
        raise CommandFailed(reason=f"{len(named)} seats are called {wanted!r}; name one by its id: {choices}")
    return named[0] if named else None


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


class SeenAgent(NamedTuple):
    """An agent that was seen: number of tools on its card (0: unknown), and whether it was online before."""

    tool_count: int
    was_present: bool


async def wait_for_agent(
    address: str, token: str, workspace_id: str, seconds: float, on_listening: Callable[[], None]
) -> SeenAgent | None:
    """Wait until the agent is online and return it, or None after `seconds`. Raises ApiError.

    `on_listening` is called when the event stream is open, and again after an interruption."""
    clock = SystemClock()
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds), ApiClient(address, token) as api:
            while True:
                with suppress(NoAnswerError):
                    seen = await _watch_for_agent(api, workspace_id, on_listening)
                    if seen is not None:
                        return seen
                # The server was unreachable: pause before the next attempt.
                await clock.wait(asyncio.get_running_loop().create_future(), _BETWEEN_TRIES_SECONDS)
    return None


async def _watch_for_agent(api: ApiClient, workspace_id: str, on_listening: Callable[[], None]) -> SeenAgent | None:
    """Return the agent when it is online, or None if the event stream ends before. Raises ApiError, NoAnswerError."""
    path = f"/workspaces/{workspace_id}"
    async for frame in api.events():
        if frame.get("event") in _PRESENCE_EVENTS and frame.get("workspace_id") == workspace_id:
            return SeenAgent(count_tools((await api.get(path))["agent_card"]), was_present=False)
        if "event" not in frame:  # the first frame: later events are not missed, so look up the state before it
            row: dict[str, Any] = await api.get(path)
            if row["status"] in _PRESENT_STATUSES:
                return SeenAgent(count_tools(row["agent_card"]), was_present=True)
            on_listening()
    return None


def count_tools(card: Any) -> int:
    """Return the number of tools on an agent card, given there as a number or a list."""
    tools = card.get("tools") if isinstance(card, dict) else None
    if isinstance(tools, list):
        return len(tools)
    return tools if isinstance(tools, int) and not isinstance(tools, bool) and tools > 0 else 0
