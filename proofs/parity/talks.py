"""Moves about threads: conversations that are begun and gone on with, and agents that begin agents. Nothing runs them.

Above: playing.py. Below: sides.py.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from proofs.parity.doors import Told
from proofs.parity.moves import Move
from proofs.parity.sides import Side, shown

_BASE = "You keep the accounts.\nSay nothing that you do not know."
_RECENT = 4
_BELOW = ("detach", "interrupt", "close")


async def _start(side: Side, move: Move) -> str:
    given = {"base_instructions": _BASE, "input": move.task, "nickname": f"talk {move.which % 5}"}
    given |= {"model": "small"} if move.which % 3 == 0 else {}
    return await _begun(side, move.who, "start", given, "thread_id")


async def _begun(side: Side, who: str, verb: str, given: dict[str, Any], *names: str) -> str:
    told = await side.does(who, verb, given)
    if not told.refused:
        side.threads.append((who, told.said["thread_id"]))
    return shown(told, "path", *names)


def _recent(side: Side, move: Move) -> tuple[str, str] | None:
    return side.threads[-1 - move.which % min(len(side.threads), _RECENT)] if side.threads else None


def _on(verb: str, more: Callable[[Move], dict[str, Any]], *names: str) -> Callable[[Side, Move], Awaitable[str]]:
    """A move on a thread that was begun lately."""

    async def play(side: Side, move: Move) -> str:
        found = _recent(side, move)
        if found is None:
            return "nothing"
        who, thread_id = found
        return shown(await side.does(who, verb, {"thread_id": thread_id, **more(move)}), *names)

    return play


async def _fork(side: Side, move: Move) -> str:
    found = _recent(side, move)
    if found is None:
        return "nothing"
    given = {"thread_id": found[1], "nickname": "another"} | ({"position": 2} if move.which % 2 else {})
    return await _begun(side, found[0], "fork", given, "model")


async def _spawn(side: Side, move: Move) -> str:
    found = _recent(side, move)
    if found is None:
        return "nothing"
    given = {"thread_id": found[1], "task_name": f"task_{move.which % 3}", "message": move.task, "wake": "queue"}
    given |= {"nickname": "clerk", "role": "counts"} if move.which % 2 else {}
    given |= {"fork_turns": "all"} if move.which % 5 == 0 else {}
    told = await side.does(found[0], "spawn_agent", given)
    if not told.refused:
        agent = told.said["agent"]
        side.threads.append((found[0], agent["thread_id"]))
        side.agents.append((*found, agent["path"]))
    return _agent(told)


def _agent(told: Told) -> str:
    return shown(Told(told.said.get("agent", {}), told.refused), "path", "nickname", "status")


def _to(verb: str, more: Callable[[Move], dict[str, Any]]) -> Callable[[Side, Move], Awaitable[str]]:
    """A move on an agent that a thread has begun; now and then on one that it can only guess."""

    async def play(side: Side, move: Move) -> str:
        if not side.agents:
            return "nothing"
        who, thread_id, path = side.agents[-1 - move.which % min(len(side.agents), _RECENT)]
        target = "task_1" if move.which % 5 == 0 else path
        return _agent(await side.does(who, verb, {"thread_id": thread_id, "target": target, **more(move)}))

    return play


TALKS: dict[str, Callable[[Side, Move], Awaitable[str]]] = {
    "start": _start,
    "fork": _fork,
    "spawn": _spawn,
    "speak": _on("speak", lambda move: {"input": move.task, "mode": ("auto", "queue")[move.which % 2]}, "joined"),
    "interrupt": _on("interrupt", lambda move: {"descendants": _BELOW[move.which % 2]}, "status"),
    "close": _on("close", lambda move: {"descendants": _BELOW[move.which % 3]}, "status"),
    "resume": _on("resume", lambda move: {"model": "large"} if move.which % 2 else {}, "status", "model"),
    "send to agent": _to("send_message", lambda move: {"message": move.task}),
    "follow up": _to("followup_task", lambda move: {"message": move.task}),
    "interrupt agent": _to("interrupt_agent", lambda move: {"descendants": _BELOW[move.which % 2]}),
    "close agent": _to("close_agent", lambda move: {"descendants": _BELOW[move.which % 3]}),
    "resume agent": _to("resume_agent", lambda _move: {}),
}
