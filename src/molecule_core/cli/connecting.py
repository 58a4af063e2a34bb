"""What `molecule connect` asks the server: which seat, a token for it, and whether its agent has come."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from molecule_core.client.api import Api, ApiError, NoAnswer
from molecule_core.client.org_plan import path_of, shown
from molecule_core.ground.clock import SystemClock
from molecule_core.ground.errors import CommandFailed

_SIGNS = ("WORKSPACE_ONLINE", "WORKSPACE_HEARTBEAT", "AGENT_CARD_UPDATED", "TASK_UPDATED")
_THERE = ("online", "degraded")
_BETWEEN_TRIES_SECONDS = 1.0
_CHOICES = 10


class Wish(NamedTuple):
    """Which seat is wanted: by id or name, and how it is to be made if there is none."""

    workspace: str
    create: bool
    parent: str | None
    org: str | None
    runtime: str


class Arrival(NamedTuple):
    """A seat that a host is put into. `token` is empty while there is none for it."""

    workspace_id: str
    name: str
    token: str = ""
    token_id: str | None = None


async def find_seat(api: Api, wish: Wish) -> Arrival:
    """The seat that is meant; made if it is to be. Raises ApiError, NoAnswer, CommandFailed."""
    org_id = await _org_id(api, wish.org)
    rows: list[dict[str, Any]] = await api.get("/workspaces", org_id=org_id)
    row = _meant(rows, wish.workspace)
    if row is not None:
        return Arrival(row["id"], row["name"])
    if not wish.create:
        names = ", ".join(sorted(each["name"] for each in rows)[:_CHOICES]) or "none yet"
        raise CommandFailed(reason=f"there is no seat {wish.workspace!r} (there are: {names}); --create makes it")
    body: dict[str, Any] = {"name": wish.workspace, "runtime": wish.runtime, "external": True, "org_id": org_id}
    if wish.parent is not None:
        parent = _meant(rows, wish.parent)
        if parent is None:
            raise CommandFailed(reason=f"there is no seat {wish.parent!r} that the new one could answer to")
        body["parent_id"] = parent["id"]
    made = await api.post("/workspaces", body)
    (token,) = await api.get(f"/workspaces/{made['id']}/tokens")
    return Arrival(made["id"], made["name"], made["connection"]["auth_token"], token["id"])


async def _org_id(api: Api, name: str | None) -> str | None:
    """The organisation of this name; None: the caller's own, or for the admin all of them."""
    if name is None:
        return None
    session = await api.get("/session")
    orgs = await api.get("/orgs") if session["user"]["kind"] == "admin" else [session["org"]]
    found = [each["id"] for each in orgs if each["name"] == name]
    if not found:
        names = ", ".join(each["name"] for each in orgs)
        raise CommandFailed(reason=f"there is no organisation named {name!r}; there are: {names}")
    return str(found[0])


def _meant(rows: list[dict[str, Any]], wanted: str) -> dict[str, Any] | None:
    """The seat with this id, or the only one of this name. Raises CommandFailed."""
    named = [row for row in rows if row["id"] == wanted] or [row for row in rows if row["name"] == wanted]
    if len(named) > 1:
        by_id = {row["id"]: row for row in rows}
        choices = "; ".join(f"{shown(path_of(row, by_id))} is {row['id']}" for row in named[:_CHOICES])
        raise CommandFailed(reason=f"{len(named)} seats are called {wanted!r}; name one by its id: {choices}")
    return named[0] if named else None


async def fresh_token(api: Api, seat: Arrival) -> Arrival:
    """The seat with a token of its own. Raises ApiError, NoAnswer."""
    made = await api.post(f"/workspaces/{seat.workspace_id}/tokens")
    return seat._replace(token=str(made["auth_token"]), token_id=str(made["id"]))


async def kept_token(api: Api, seat: Arrival, token: str) -> Arrival:
    """The seat with a token that is there already, and its id: lists of tokens show how each begins. Raises ApiError,
    NoAnswer."""
    rows = await api.get(f"/workspaces/{seat.workspace_id}/tokens")
    ids = [str(row["id"]) for row in rows if token.startswith(row["hint"])]
    return seat._replace(token=token, token_id=ids[0] if len(ids) == 1 else None)


async def still_good(address: str, token: str, workspace_id: str) -> bool:
    """Whether a token opens its seat. Raises NoAnswer."""
    async with Api(address, token) as api:
        with suppress(ApiError):
            await api.get(f"/workspaces/{workspace_id}/waiting")
            return True
    return False


class Seen(NamedTuple):
    """An agent in its seat: how many tools it says it has (0: it does not say), and whether it was there before."""

    tools: int
    before: bool


async def wait_for_agent(
    address: str, token: str, workspace_id: str, seconds: float, listening: Callable[[], None]
) -> Seen | None:
    """The agent that comes, or is there; None if none comes in time. `listening` is called as soon as whoever comes is
    seen, and again after an interruption. Raises ApiError."""
    clock = SystemClock()
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds), Api(address, token) as api:
            while True:
                with suppress(NoAnswer):
                    seen = await _seen(api, workspace_id, listening)
                    if seen is not None:
                        return seen
                # The server went away: it is asked again, not without a pause.
                await clock.wait(asyncio.get_running_loop().create_future(), _BETWEEN_TRIES_SECONDS)
    return None


async def _seen(api: Api, workspace_id: str, listening: Callable[[], None]) -> Seen | None:
    """The agent as soon as it is there; None if the stream ends before. Raises ApiError, NoAnswer."""
    path = f"/workspaces/{workspace_id}"
    async for frame in api.events():
        if frame.get("event") in _SIGNS and frame.get("workspace_id") == workspace_id:
            return Seen(tools_of((await api.get(path))["agent_card"]), before=False)
        if "event" not in frame:  # the greeting: from here on nothing is missed, and what was before is looked up
            row: dict[str, Any] = await api.get(path)
            if row["status"] in _THERE:
                return Seen(tools_of(row["agent_card"]), before=True)
            listening()
    return None


def tools_of(card: Any) -> int:
    """How many tools an agent card tells: as a number, or as a list."""
    told = card.get("tools") if isinstance(card, dict) else None
    if isinstance(told, list):
        return len(told)
    return told if isinstance(told, int) and not isinstance(told, bool) and told > 0 else 0
