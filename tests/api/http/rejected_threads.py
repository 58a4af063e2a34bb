"""Every refusal of threads, provoked on a small server."""

from collections.abc import Awaitable, Callable
from typing import Any

Provoke = Callable[[Any], Awaitable[Any]]


async def _started(world: Any, **wish: Any) -> Any:
    body = {"base_instructions": "Be kind.", **wish}
    return (await world.ask("POST", "/workspaces/{id}/threads", body)).json


def _then(*calls: tuple[str, Any], **wish: Any) -> Provoke:
    """What comes of the last of these requests about a new thread; `TURN` in a path is its first turn."""

    async def provoke(world: Any) -> Any:
        thread, reply = await _started(world, input="hi", **wish), None
        for path, body in calls:
            whole = f"/threads/{thread['thread_id']}{path}".replace("TURN", thread["queued"][0])
            reply = await world.ask("POST", whole, body)
        return reply

    return provoke


async def first_turn_begun(world: Any) -> Any:
    """What comes of the begin of the first turn of a new thread."""
    return await _then(_CLAIM, _BEGIN)(world)


async def _no_base(world: Any) -> Any:
    return await world.ask("POST", "/workspaces/{id}/threads", {})


async def _child(world: Any) -> str:
    thread = await _started(world)
    spawn = {"call_id": "s", "task_name": "one", "message": "do"}
    answer = await world.ask("POST", f"/threads/{thread['thread_id']}/agents/spawn", spawn)
    return str(answer.json["call"]["new_thread_id"])


async def _more_than_its_parent(world: Any) -> Any:
    return await world.ask("POST", f"/threads/{await _child(world)}/resume", {"permissions": {"sandbox": "off"}})


async def _waking_the_root(world: Any) -> Any:
    child = await _child(world)
    wake = {"call_id": "f", "target": "root", "message": "wake"}
    return await world.ask("POST", f"/threads/{child}/agents/followup", wake)


_CLAIM = ("/claim", {"owner": "one"})
_BEGIN = ("/turns/TURN/begin", {"generation": 1})
_SPAWN = {"call_id": "s", "task_name": "one", "message": "do"}
PROVOKED: dict[str, Provoke] = {
    "base_missing": _no_base,
    "thread_owned": _then(_CLAIM, ("/claim", {"owner": "two"})),
    "stale_generation": _then(_CLAIM, _CLAIM, _BEGIN),
    "thread_closed": _then(("/close", {}), ("/turns", {"input": "more"})),
    "thread_busy": _then(_CLAIM, _BEGIN, ("/resume", {"model": "other"})),
    "wider_permissions": _more_than_its_parent,
    "no_turn": _then(("/turns", {"input": "more", "mode": "steer"})),
    "other_turn": _then(_CLAIM, _BEGIN, ("/turns", {"input": "x", "mode": "steer", "expected_turn_id": "no"})),
    "turn_not_open": _then(_CLAIM, ("/turns/TURN/end", {"generation": 1, "status": "completed"})),
    "thread_limit": _then(("/turns", {"input": "more"}), ("/turns", {"input": "and more"})),
    "invalid_task": _then(("/agents/spawn", {**_SPAWN, "task_name": "No!"})),
    "no_such_agent": _then(("/agents/send", {"call_id": "s", "target": "nobody", "message": "do"})),
    "root_asleep": _waking_the_root,
}
