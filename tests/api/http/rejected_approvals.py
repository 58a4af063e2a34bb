"""Every refusal of approvals, provoked on a small server."""

from collections.abc import Awaitable, Callable
from typing import Any

Provoke = Callable[[Any], Awaitable[Any]]
_EVERY = "/workspaces/{id}/approvals"
_MORE = {"decision": "more_info", "note": "why?"}


async def _asked(world: Any) -> Any:
    return (await world.ask("POST", _EVERY, {"action": "act"}, token=world.seat.token)).json


def _said(*verbs: tuple[str, dict[str, Any], bool]) -> Provoke:
    """What comes of the last of these verbs: its name, its body, and whether the requester itself says it."""

    async def provoke(world: Any) -> Any:
        item, reply = await _asked(world), None
        for name, body, is_own in verbs:
            said = {"action_hash": item["action_hash"], **body} if name == "use" else body
            more = {"token": world.seat.token} if is_own else {}
            reply = await world.ask("POST", f"{_EVERY}/{item['approval_id']}/{name}", said, **more)
        return reply

    return provoke


async def _below(world: Any) -> tuple[Any, Any]:
    await world.seat.api.post("/registry/heartbeat", {"workspace_id": world.seat.id})
    child = await world.server.seat("Child", parent_id=world.seat.id)
    return child, await child.api.post(f"/workspaces/{child.id}/approvals", {"action": "act"})


async def _decided_by_who_passed_it_on(world: Any) -> Any:
    _, item = await _below(world)
    path = f"{_EVERY}/{item['approval_id']}/decide"
    await world.ask("POST", path, {"decision": "escalate"}, token=world.seat.token)
    return await world.ask("POST", path, {"decision": "approve"}, token=world.seat.token)


async def _text_instead(world: Any) -> Any:
    child, item = await _below(world)
    metadata = {"in_reply_to": item["message_id"]}
    message = {"role": "user", "parts": [{"kind": "text", "text": "yes"}], "metadata": metadata}
    body = {"jsonrpc": "2.0", "id": "1", "method": "message/send", "params": {"message": message}}
    return await world.ask("POST", f"/workspaces/{child.id}/a2a", body, token=world.seat.token)


async def _tool_without_leave(world: Any) -> Any:
    await world.ask("PUT", "/workspaces/{id}/approval-rules", {"rules": [{"action": "tool:*"}]})
    return await world.ask("POST", "/workspaces/{id}/notify", {"message": "hello"}, token=world.seat.token)


async def _one_too_many(world: Any) -> Any:
    await _asked(world)
    return await world.ask("POST", _EVERY, {"action": "act"}, token=world.seat.token)


_Verb = tuple[str, dict[str, Any], bool]
_YES: _Verb = ("decide", {"decision": "approve"}, False)
_NO: _Verb = ("decide", {"decision": "deny"}, False)
_USE: _Verb = ("use", {}, True)
_ASK: _Verb = ("decide", _MORE, False)
_TELL: _Verb = ("answer", {"text": "so"}, True)
PROVOKED: dict[str, Provoke] = {
    "own_approval": _said(("decide", {"decision": "approve"}, True)),
    "already_decided": _said(_YES, _NO),
    "approval_changed": _said(("decide", {"decision": "approve", "revision": 9}, False)),
    "approval_mismatch": _said(_YES, ("use", {"action_hash": "other"}, True)),
    "nobody_above": _said(("decide", {"decision": "escalate"}, False)),
    "approval_ended": _said(_NO, ("withdraw", {}, True)),
    "nothing_asked": _said(_TELL),
    "too_many_questions": _said(_ASK, _TELL, _ASK),
    "approval_used": _said(_YES, _USE, _USE),
    "not_approved": _said(_USE),
    "approval_moved_on": _decided_by_who_passed_it_on,
    "decide_instead": _text_instead,
    "approval_needed": _tool_without_leave,
    "too_many_approvals": _one_too_many,
}
