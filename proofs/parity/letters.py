"""Moves about plain messages and about the answers that are owed for them.

Above: playing.py. Below: sides.py.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from proofs.parity.doors import Told
from proofs.parity.moves import Move
from proofs.parity.sides import Held, Side, shown

# So far back a script reaches for a message that it answers.
_RECENT = 4
_SHOWN = ("kind", "text", "intent", "attempt", "redelivered", "reminder", "revision")


async def _ask(side: Side, move: Move) -> str:
    """The person on the canvas asks."""
    await side.world.ask(side.seats[move.target], move.task)
    return ""


async def _write(side: Side, move: Move) -> str:
    given = {"peer_id": side.seats[move.target].id, "text": move.task, "intent": move.how}
    return shown(await side.does(move.who, "reply_to_workspace", given, move.key), "status", "acknowledged")


async def wait(side: Side, move: Move) -> str:
    """An agent takes the next message."""
    told = await side.does(move.who, "wait_for_message", {"timeout_secs": 0})
    message: dict[str, Any] | None = told.said.get("message")
    if message is None:
        return shown(told, "message")
    side.mail.append((move.who, message))
    if message["kind"] == "delegation":
        held = Held(message["activity_id"], message["attempt"], message["reply_handle"])
        side.held.setdefault(move.who, []).append(held)
    return shown(Told(message), *_SHOWN)


def recent(side: Side, move: Move, *kinds: str) -> tuple[str, dict[str, Any]] | None:
    """A message that was shown lately, of these kinds, and whose it is."""
    fitting = [each for each in side.mail if not kinds or each[1]["kind"] in kinds]
    return fitting[-1 - move.which % min(len(fitting), _RECENT)] if fitting else None


async def _reply(side: Side, move: Move) -> str:
    found = recent(side, move)
    if found is None:
        return "nothing"
    who, message = found
    if not message["reply_handle"]:
        return await _popped(side, who, message)
    given: dict[str, Any] = {"handle": message["reply_handle"]}
    if move.how == "decline":
        return shown(await side.does(who, "decline", {**given, "reason": move.task}, move.key), "state")
    given |= {"text": move.task} | ({"progress": True} if move.how == "on the way" else {})
    return shown(await side.does(who, "reply", given, move.key), "state")


async def _reply_plainly(side: Side, move: Move) -> str:
    """An answer by those that know no handles."""
    found = recent(side, move)
    if found is None:
        return "nothing"
    who, message = found
    given = {"text": move.task, "peer_id": message["peer_id"], "activity_id": message["activity_id"]}
    given |= {"attempt": message["attempt"]} | ({"progress": True} if move.how == "on the way" else {})
    return shown(await side.does(who, "reply_to_workspace", given, move.key), "status", "acknowledged")


async def _pop(side: Side, move: Move) -> str:
    found = recent(side, move)
    return "nothing" if found is None else await _popped(side, *found)


async def _popped(side: Side, who: str, message: dict[str, Any]) -> str:
    given = {"activity_id": message["activity_id"], "attempt": message["attempt"]}
    return shown(await side.does(who, "inbox_pop", given))


async def _notify(side: Side, move: Move) -> str:
    given: dict[str, Any] = {"message": move.task}
    if move.how == "on the way":
        given["progress"] = True
    if move.how == "by handle":
        own = [each for who, each in side.mail if who == move.who and each["kind"] == "canvas_user"]
        given |= {"reply_handle": own[-1]["reply_handle"]} if own else {}
    return shown(await side.does(move.who, "send_message_to_user", given, move.key), "status")


async def _options(side: Side, move: Move) -> str:
    given = {"question": move.task, "options": ["yes", "no"]}
    return shown(await side.does(move.who, "present_options", given, move.key), "status")


async def _broadcast(side: Side, move: Move) -> str:
    if move.which % 2:
        await side.world.server.let_broadcast(side.seats[move.who].id)
    return shown(await side.does(move.who, "broadcast_message", {"message": move.task}, move.key), "delivered")


LETTERS: dict[str, Callable[[Side, Move], Awaitable[str]]] = {
    "ask": _ask,
    "write": _write,
    "wait": wait,
    "reply": _reply,
    "reply plainly": _reply_plainly,
    "pop": _pop,
    "notify": _notify,
    "options": _options,
    "broadcast": _broadcast,
}
