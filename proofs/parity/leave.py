"""Moves about approvals: what agents ask leave for, and who decides.

Above: playing.py. Below: sides.py.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from proofs.parity.letters import recent
from proofs.parity.moves import Move
from proofs.parity.sides import Leave, Side, shown

_ACTIONS = ("deploy", "refund")


async def _ask(side: Side, move: Move) -> str:
    """An agent asks; now and then for something that costs, or that is denied soon if nobody decides."""
    given: dict[str, Any] = {"action": _ACTIONS[move.which % 2], "reason": move.task, "wait": 0}
    given |= {"details": {"to": "Ops", "step": move.which % 3}} if move.which % 5 else {}
    given |= {"cost": 2.5} if move.which % 3 == 0 else {}
    given |= {"expires_in": 60} if move.which % 4 == 0 else {}
    told = await side.does(move.who, "request_approval", given, move.key)
    if not told.refused:
        named = (told.said["approval_id"], told.said["revision"], told.said["action_hash"])
        side.leaves.append(Leave(move.who, *named))
    return shown(told, "status", "revision", "action", "details")


async def _decide(side: Side, move: Move) -> str:
    """A workspace decides about what it was shown."""
    found = recent(side, move, "approval_request")
    if found is None:
        return "nothing"
    who, message = found
    about = {name: message[name] for name in ("approval_id", "revision", "action_hash")}
    return shown(await side.does(who, "decide_approval", _decision(move, about)), "status", "revision")


def _decision(move: Move, about: dict[str, Any]) -> dict[str, Any]:
    given = {**about, "decision": move.how, "note": move.task}
    if move.how == "approve" and move.which % 3 == 0:
        given["details"] = {"to": "Ops", "step": 7}
    if move.which % 7 == 0:
        given["revision"] += 1
    return given


async def _person(side: Side, move: Move) -> str:
    """A person decides, about what was asked for first or about what is asked for now."""
    if not side.leaves:
        return "nothing"
    leave = side.leaves[-1 - move.which % min(len(side.leaves), 3)]
    about = {"approval_id": leave.id, "revision": leave.revision, "action_hash": leave.action_hash}
    if move.which % 4:
        path = f"/workspaces/{side.seats[leave.who].id}/approvals/{leave.id}"
        now = await side.world.person.get(path)
        about |= {"revision": now["revision"], "action_hash": now["action_hash"]}
    given = {**_decision(move, about), "token": side.person}
    return shown(await side.does(leave.who, "person decides", given), "status", "revision")


async def _say_more(side: Side, move: Move) -> str:
    more = {"details": {"to": "Ops", "step": 9}} if move.which % 2 else {}
    return await _own(side, move, "say more", {"text": move.task, **more})


async def _withdraw(side: Side, move: Move) -> str:
    return await _own(side, move, "withdraw", {"note": move.task})


async def _own(side: Side, move: Move, verb: str, given: dict[str, Any]) -> str:
    """What a requester does with what it has asked for."""
    if not side.leaves:
        return "nothing"
    leave = side.leaves[-1 - move.which % min(len(side.leaves), 3)]
    return shown(await side.does(leave.who, verb, {"approval_id": leave.id, **given}), "status", "revision")


async def _use(side: Side, move: Move) -> str:
    """What was approved is done: exactly that, or, now and then, what was asked for first."""
    if not side.leaves:
        return "nothing"
    leave = side.leaves[-1 - move.which % min(len(side.leaves), 3)]
    action_hash = leave.action_hash
    if move.which % 3:
        item = await side.seats[leave.who].api.get(f"/workspaces/{side.seats[leave.who].id}/approvals/{leave.id}")
        action_hash = item["action_hash"]
    given = {"approval_id": leave.id, "action_hash": action_hash}
    return shown(await side.does(leave.who, "use", given), "status", "action")


async def _rule(side: Side, move: Move) -> str:
    """A person says what a workspace needs leave for."""
    rules = [{"action": "deploy", "note": f"rule {move.which}"}] if move.which % 2 else []
    return shown(await side.does(move.who, "person rules", {"rules": rules, "token": side.person}), "rules")


LEAVES: dict[str, Callable[[Side, Move], Awaitable[str]]] = {
    "ask leave": _ask,
    "decide": _decide,
    "person decides": _person,
    "say more": _say_more,
    "withdraw": _withdraw,
    "use": _use,
    "rules": _rule,
}
