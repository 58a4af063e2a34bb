"""Moves about delegations, and those that every script has: time, agents that answer, heartbeats, removals.

Above: playing.py. Below: sides.py.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from molecule_core.common.clock import SECOND
from proofs.parity import moves
from proofs.parity.letters import wait
from proofs.parity.moves import Move
from proofs.parity.servers import pass_time
from proofs.parity.sides import Held, Side, shown
from testing.delegation_entrances import Begun, Tools
from testing.message_world import handle
from testing.push_agents import Reply, plain, said
from testing.waits import bounded, eventually
from testing.workspaces import beat, remove

_SORTS: dict[str, Reply] = {
    "said": said("done"),
    "busy": plain(503, {"retry-after": "9"}),
    "passes": plain(502),
    "refused": plain(404, error="go away"),
    "bad": (200, {}, b"<html>"),
    "error": plain(200, error="I cannot"),
    "accepted": plain(202, queued=True),
    "declined": plain(200, result={"status": {"state": "rejected"}}),
}


async def _begin(side: Side, move: Move) -> str:
    who = side.seats[move.who]
    key = move.key if move.key is None or isinstance(side.entrance, Tools) else f"{who.id}:{move.key}"
    given: dict[str, Any] = {"deadline": move.deadline} | ({"key": key} if key is not None else {})
    target = side.seats[move.target].id
    call = asyncio.create_task(side.entrance.begin(side.world.server, who, target, move.task, wait=move.wait, **given))
    if not move.wait:
        told = await bounded(call)
        if told.delegation_id and not told.hit:
            side.ids.append((move.who, told.delegation_id))
        return told_of(side, told)
    known = {id_ for _, id_ in side.ids}

    async def new() -> list[str]:
        rows = await who.api.get(f"/workspaces/{who.id}/delegations", limit=100)
        return [row["delegation_id"] for row in rows if row["delegation_id"] not in known]

    rows = await eventually(new, lambda found: bool(found) or call.done())
    side.ids += [(move.who, id_) for id_ in rows]
    side.calls.append((len(side.said), call))
    return "waits"


def told_of(side: Side, told: Begun) -> str:
    """What both sides must be told alike."""
    delivered = told.delivered if told.settled and side.says("delivered") else ""
    return f"{told.status} {told.text!r} {told.hit} {bool(told.refused)} {delivered}"


async def _claim(side: Side, move: Move) -> str:
    who = move.who
    if move.which == 1:
        return await wait(side, move)
    rows = await side.world.take(side.seats[who], limit=move.which)
    for row in rows:
        if row["kind"] == "delegation":
            held = Held(row["id"], row["attempt"], handle(row))
            side.held.setdefault(who, []).append(held)
        else:
            await side.seats[who].api.ack(side.seats[who].id, row)
    return str([row["kind"] for row in rows])


async def _give_back(side: Side, move: Move) -> str:
    if not side.held.get(move.who):
        return "nothing"
    held, seat = side.held[move.who].pop(), side.seats[move.who]
    body = {"claims": [{"activity_id": held.id, "attempt": held.attempt}]}
    await seat.api.post(f"/workspaces/{seat.id}/activity/release", body)
    return "given back"


async def _answer(side: Side, move: Move) -> str:
    everybody = [(who, held) for who in moves.SEATS for held in side.held.get(who, ())]
    if not everybody:
        return "nothing"
    who, held = everybody[move.which % len(everybody)]
    return await _say(side, who, held, move.how)


async def _answer_push(side: Side, move: Move) -> str:
    """The agent that is pushed to answers by its tools what it was sent."""
    sent = [each for each in side.world.net.of(side.url) if "delegation_id" in _metadata(each.body)]
    if not sent:
        return "nothing"
    pushed = sent[move.which % len(sent)]
    about = _metadata(pushed.body)
    held = Held(pushed.activity, pushed.attempt, about["instructions"]["reply_handle"])
    return await _say(side, moves.PUSHED, held, move.how)


def _metadata(body: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = body["params"]["message"]["metadata"]
    return found


async def _say(side: Side, who: str, held: Held, how: str) -> str:
    seat, world, own = side.seats[who], side.world, f"/workspaces/{side.seats[who].id}"
    giver = side.seats[next((name for name, id_ in side.ids if id_ == held.id), moves.LEAD)]
    told: dict[str, Any] = {"state": how}
    if how == "reply":
        return shown(await side.does(who, "reply", {"handle": held.handle, "text": "done"}), "state")
    if how == "decline":
        return shown(await side.does(who, "decline", {"handle": held.handle, "reason": "no"}), "state")
    if how == "on the way":
        await world.ask(giver, "half of it", by=seat, progress=True, in_reply_to=held.id)
    elif how.startswith("update"):
        body = {"status": "completed", "result": "done"} if how == "update" else {"status": "failed", "error": "no"}
        told = {"state": (await seat.api.post(f"{own}/delegations/{held.id}/update", body))["status"]}
    else:
        await world.ask(giver, "done", by=seat, **({"delegation_id": held.id} if how == "named message" else {}))
    return str(told["state"])


async def _progress(side: Side, move: Move) -> str:
    everybody = [(who, held) for who in moves.SEATS for held in side.held.get(who, ())]
    if not everybody:
        return "nothing"
    who, held = everybody[move.which % len(everybody)]
    given = {"task_id": held.id, "current_step": "reading", "percent": move.which % 100}
    return shown(await side.does(who, "report_progress", given), "noted")


async def _cancel(side: Side, move: Move) -> str:
    if not side.ids:
        return "nothing"
    who, id_ = side.ids[move.which % len(side.ids)]
    told = await bounded(side.entrance.cancel(side.world.server, side.seats[who], id_))
    return f"{told.status} {told.reason} {bool(told.refused)}"


async def _retry(side: Side, move: Move) -> str:
    if not side.ids:
        return "nothing"
    who, id_ = side.ids[move.which % len(side.ids)]
    told = await side.seats[who].api.post(f"/workspaces/{side.seats[who].id}/delegations/{id_}/retry")
    if not told.get("idempotent_hit"):
        side.ids.append((who, told["delegation_id"]))
    return str(told["state"])


async def _agent(side: Side, move: Move) -> str:
    """From now on the agent that is pushed to answers like this, and like the last of it for ever."""
    net, url, sorts = side.world.net, side.url, move.how.split()
    if sorts[-1] == "nobody":
        net.agents.pop(url, None)
    elif sorts[-1] == "unsure":
        net.breaks(url, "no answer within 300 s", sent=True)
    else:
        net.answers(url, *(_SORTS[sort] for sort in sorts if sort in _SORTS))
    return ""


async def _beat(side: Side, move: Move) -> str:
    await beat(side.seats[move.who], active_tasks=move.which)
    return ""


async def _remove(side: Side, move: Move) -> str:
    await remove(side.world.server.admin, side.seats[move.who])
    return ""


async def _forward(side: Side, move: Move) -> str:
    await pass_time(side.world, side.busy, side.world.clock.now() + move.seconds * SECOND)
    return ""


TASKS: dict[str, Callable[[Side, Move], Awaitable[str]]] = {
    "begin": _begin,
    "again": _begin,
    "claim": _claim,
    "give back": _give_back,
    "answer": _answer,
    "answer a push": _answer_push,
    "progress": _progress,
    "agent": _agent,
    "clock": _forward,
    "cancel": _cancel,
    "retry": _retry,
    "beat": _beat,
    "remove": _remove,
}
