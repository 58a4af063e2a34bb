"""The tools that take more than one route, as walks over the public API: answering, reading back, the inbox.

Above: whoever runs tools (agent, command line, LangChain, the server's own MCP endpoint); each may have a better way of
its own for some of them. Below: anything that can make one request as a workspace.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from molecule_core.ground.clock import Clock
from molecule_core.ground.text import is_client_id, shorten
from molecule_core.wire import replytypes
from molecule_core.wire import tooltypes as types
from molecule_core.wire.agentanswers import parts_of, result_of, words_of
from molecule_core.wire.envelope import asked as asked_for
from molecule_core.wire.inbox import InboxMessage, message_of
from molecule_core.wire.speaks import Speaks, allowed
from molecule_core.wire.toolspec import ToolError, unknown_answer

LEASE_SECONDS = 300
"""How long a message is an agent's that has taken it: a model must have time to work on it, and after a crash it should
come again while somebody still waits."""
# What a server holds a poll at most; it cuts longer ones by itself.
_POLL_SECONDS = 25
_LONGEST_KEY = 128
KEY_HEADER = "idempotency-key"
"""The header by which a server knows a repeated request."""
_SUMMARY_LENGTH = 200
_HANDLE_SHOWN = 64
_TEXTS = ("a2a_receive", "a2a_send")
# What hosts call a call of a tool: a repetition of it carries the same name.
CALL_NAME = "molecule/call"
"""Under which an engine of ours names a call, beside its arguments."""
THREAD_NAME = "molecule/thread"
"""Under which an engine of ours names the thread that a call is made in."""
_CALL_NAMES = (CALL_NAME, "claudecode/toolUseId")

Progress = Callable[[float, float | None, str], Awaitable[None]]


def key_headers(key: str) -> dict[str, str]:
    """The header that makes a repeated call harmless; none without a key that the server would take."""
    return {KEY_HEADER: key} if is_client_id(key, _LONGEST_KEY) else {}


def call_name(meta: Mapping[str, Any]) -> str:
    """The name that an agent's host gives one call of a tool, by what it tells beside the arguments; empty if none."""
    for name in _CALL_NAMES:
        given = meta.get(name)
        if isinstance(given, str) and is_client_id(given, _LONGEST_KEY):
            return given
    return ""


def thread_name(meta: Mapping[str, Any]) -> str:
    """The thread that an engine of ours makes a call in; empty if it is none of ours."""
    given = meta.get(THREAD_NAME)
    return given if isinstance(given, str) and is_client_id(given, _LONGEST_KEY) else ""


# -- answering ---------------------------------------------------------------------------------------------------------


async def reply(
    speaks: Speaks, own: str, given: types.ReplyArguments, key: str = "", *, fits: bool = False
) -> dict[str, Any]:
    """Answers a person or a peer, and acknowledges what was answered. The answer leaves only from the seat that the
    message came to, and only to whom it came from. `fits`: the handle is known to name the message of `activity_id`;
    else the handle alone says what is answered, and the server settles it. Raises ToolError."""
    speaks = allowed(speaks, given)
    if given.activity_id:
        await _check_route(speaks, own, given)
    if given.reply_handle and not fits:
        given = msgspec.structs.replace(given, activity_id="")
    if given.peer_id:
        sent = await _to_peer(speaks, own, given, key)
    else:
        notice = {"message": given.text, **_about(given)}
        sent = await speaks.call("POST", f"/workspaces/{own}/notify", body=notice, headers=key_headers(key))
        _check(sent, "status")
    # A server that took a handle has settled the message that it names, with the answer: nothing is left to be told.
    closes = bool(given.activity_id or given.reply_handle) and not given.progress
    tells = closes and bool(given.activity_id)
    note = await _acknowledged(speaks, own, given.activity_id, given.attempt) if tells else ""
    replied = types.Replied(
        status=_text(sent, "status") or "sent",
        workspace_id=own,
        peer_id=given.peer_id,
        activity_id=_text(sent, "activity_id"),
        acknowledged=closes and not note,
        answer=_said(sent),
        note=note,
    )
    told: dict[str, Any] = msgspec.to_builtins(replied)
    return told


def _about(given: types.ReplyArguments) -> dict[str, Any]:
    """Which message an answer belongs to, and whether it is one."""
    told = {"in_reply_to": given.activity_id, "reply_handle": given.reply_handle, "progress": given.progress}
    return {name: value for name, value in told.items() if value}


def refuse_two_messages(activity_id: str, handle: str) -> ToolError:
    """What a call is told that names two messages."""
    return ToolError(
        f"activity_id {activity_id} and reply_handle {shorten(handle, _HANDLE_SHOWN)} are of two messages; give the "
        "one that you answer.",
        "two_messages",
    )


async def _check_route(speaks: Speaks, own: str, given: types.ReplyArguments) -> None:
    sender = await check_own(speaks, own, given.activity_id)
    if sender != given.peer_id:
        right = f"give peer_id {sender!r}" if sender else "leave peer_id out: it came from a person"
        raise ToolError(
            f"message {given.activity_id} is not from {given.peer_id or 'a person'}; {right}, or leave activity_id out "
            "if this is no answer to it.",
            "wrong_peer",
        )


async def check_own(speaks: Speaks, own: str, activity_id: str) -> str:
    """Who sent a message to this seat: a workspace's id, or empty for a person. Raises ToolError, of the code
    `wrong_workspace` if the seat's inbox does not hold it."""
    try:
        known = await speaks.call("GET", f"/workspaces/{own}/messages/{quote(activity_id, safe='')}/ticks")
    except ToolError as error:
        if error.code != "not_found":
            raise
        raise ToolError(
            f"workspace {own} has no message {activity_id}. Take workspace_id from the message's arrival_workspace_id; "
            "if it is too old to be known any more, leave activity_id out.",
            "wrong_workspace",
        ) from None
    return _text(known, "source_id")


async def _to_peer(speaks: Speaks, own: str, given: types.ReplyArguments, key: str) -> Any:
    if given.peer_id == own:
        raise ToolError("peer_id is your own workspace; name the peer that wrote to you.", "wrong_peer")
    metadata: dict[str, Any] = {"intent": given.intent, **_about(given)}  # control: message-intent
    message: dict[str, Any] = {
        "role": "agent",
        "parts": [{"kind": "text", "text": given.text}],
        "metadata": metadata,
    }
    if key_headers(key):
        message["messageId"] = key
    envelope = {"jsonrpc": "2.0", "id": key or "reply", "method": "message/send", "params": {"message": message}}
    path = f"/workspaces/{quote(given.peer_id, safe='')}/a2a"
    sent = await speaks.call("POST", path, body=envelope, headers=key_headers(key))
    if isinstance(sent, dict) and isinstance(sent.get("error"), dict):
        raise ToolError(f"the peer's agent refused it: {_text(sent['error'], 'message')}", "refused_by_peer")
    _check(sent, "result", "status")
    await _note_sent(speaks, own, given, envelope)
    return sent


async def _note_sent(speaks: Speaks, own: str, given: types.ReplyArguments, envelope: dict[str, Any]) -> None:
    """What one said to a peer stands in one's own log too, or `chat_history` would know only the other half. That it
    is missing there is no reason to call the answer failed."""
    entry = {
        "activity_type": "a2a_send",
        "method": "message/send",
        "target_id": given.peer_id,
        "summary": shorten(given.text, _SUMMARY_LENGTH),
        "request_body": envelope,
    }
    try:
        await speaks.call("POST", f"/workspaces/{own}/activity", body=entry)
    except ToolError:
        return


async def _acknowledged(speaks: Speaks, own: str, activity_id: str, attempt: int) -> str:
    """Why the message could not be acknowledged; empty if it was."""
    try:
        await _ack(speaks, own, activity_id, attempt)
    except ToolError as error:
        return f"Your answer was sent, do not send it again. The message could not be acknowledged: {error.text}"
    return ""


async def _ack(speaks: Speaks, own: str, activity_id: str, attempt: int) -> None:
    named = {"activity_id": activity_id, **({"attempt": attempt} if attempt else {})}
    _check(await speaks.call("POST", f"/workspaces/{own}/activity/ack", body=named), "last_acked_seq")


def _check(answer: Any, *names: str) -> None:
    """Whoever takes any answer for success tells a page of a proxy that it was heard. Raises ToolError if an answer has
    none of these members."""
    if not isinstance(answer, dict) or not any(name in answer for name in names):
        raise unknown_answer(f"it has no member {' or '.join(names)}")


def _said(answer: Any) -> str:
    """What a peer that answers at once said; of data, its JSON, and of files, their names."""
    result = result_of(answer) if isinstance(answer, dict) and "result" in answer else None
    if isinstance(result, str):
        return result
    return "\n".join(words_of(part) for part in parts_of(result))


# -- answering by handle -----------------------------------------------------------------------------------------------


async def answer(
    speaks: Speaks, own: str, given: replytypes.AnswerArguments, key: str = "", attempt: int = 0
) -> dict[str, Any]:
    """Answers the message of a handle; `attempt`: under which it is held, if that is known. Raises ToolError."""
    speaks = allowed(speaks, given)
    told: dict[str, Any] = {"handle": given.handle, "text": given.text}
    if given.progress:  # control: answer-in-progress
        told["progress"] = True
    if given.attachments:
        told["attachments"] = given.attachments
    sent = await speaks.call("POST", f"/workspaces/{own}/reply", body=told, headers=key_headers(key))
    return await _closed(speaks, own, sent, "" if given.progress else "answered", attempt)


async def decline(
    speaks: Speaks, own: str, given: replytypes.DeclineArguments, key: str = "", attempt: int = 0
) -> dict[str, Any]:
    """Says that the message of a handle will not be answered. Raises ToolError."""
    speaks = allowed(speaks, given)
    told = {"handle": given.handle, "reason": given.reason}
    sent = await speaks.call("POST", f"/workspaces/{own}/decline", body=told, headers=key_headers(key))
    return await _closed(speaks, own, sent, "declined", attempt)


async def _closed(speaks: Speaks, own: str, sent: Any, state: str, attempt: int) -> dict[str, Any]:
    """What became of the message; what is closed is acknowledged too. `state`: what the server means that says none,
    empty for progress."""
    _check(sent, "answers")
    answers = _text(sent, "answers")
    acknowledged = isinstance(sent, dict) and sent.get("acknowledged") is True
    note = ""
    if state and answers and not acknowledged:
        note = await _acknowledged(speaks, own, answers, attempt)
        acknowledged = not note
    closed = replytypes.Closed(
        status=_text(sent, "status") or "sent",
        workspace_id=own,
        activity_id=_text(sent, "activity_id"),
        answers=answers,
        peer_id=_text(sent, "peer_id"),
        state=_text(sent, "state") or state or "open",
        acknowledged=acknowledged,
        note=note,
    )
    told: dict[str, Any] = msgspec.to_builtins(closed)
    return told


# -- reading back ------------------------------------------------------------------------------------------------------


async def history(speaks: Speaks, own: str, given: types.HistoryArguments) -> dict[str, Any]:
    """What was said before, oldest first. Raises ToolError."""
    speaks = allowed(speaks, given, reads=True)
    query: dict[str, Any] = {"limit": given.limit}
    if given.before_ts:
        query["before_ts"] = given.before_ts
    if given.peer_id:
        lines, reached_end = await _with_peer(speaks, own, given.peer_id, query)
    else:
        page = await speaks.call("GET", f"/workspaces/{own}/chat-history", query=query)
        lines, reached_end = [_chat_line(each) for each in page["messages"]], bool(page["reached_end"])
    found = types.History(workspace_id=own, peer_id=given.peer_id, messages=lines, reached_end=reached_end)
    told: dict[str, Any] = msgspec.to_builtins(found)
    return told


def _chat_line(message: dict[str, Any]) -> types.HistoryLine:
    return types.HistoryLine(
        activity_id=message["id"],
        role=message["role"],
        text=message["content"],
        created_at=message["timestamp"],
        name=message.get("user") or "",
        attachments=message.get("attachments", []),
    )


async def _with_peer(
    speaks: Speaks, own: str, peer_id: str, query: dict[str, Any]
) -> tuple[list[types.HistoryLine], bool]:
    path = f"/workspaces/{own}/activity"
    asked = {**query, "peer_id": peer_id, "include": "peer_info"}
    rows = await speaks.call("GET", path, query=asked)
    lines = [_peer_line(row, own) for row in reversed(rows) if row["activity_type"] in _TEXTS]
    if not rows:
        return lines, True
    # A page may have ended because it was full of bytes: whether something is before it is asked.
    before = {**asked, "limit": 1, "before_ts": rows[-1]["created_at"]}
    return lines, not await speaks.call("GET", path, query=before)


def _peer_line(row: dict[str, Any], own: str) -> types.HistoryLine:
    message = message_of(row)
    return types.HistoryLine(
        activity_id=message.activity_id,
        role="agent" if row["source_id"] == own else "peer",
        text=message.text,
        created_at=message.created_at,
        name=message.peer_name if row["source_id"] != own else "",
        attachments=message.attachments,
    )


# -- the inbox, without one of one's own -------------------------------------------------------------------------------


async def wait(
    speaks: Speaks,
    own: str,
    seconds: float,
    *,
    clock: Clock,
    lease: int = LEASE_SECONDS,
    progress: Progress | None = None,
) -> InboxMessage | None:
    """Takes the next message out of the inbox of one seat; None if none comes within so many seconds. Raises
    ToolError."""
    begun = clock.monotonic()
    passed = 0.0
    while True:
        message = await claim(speaks, own, seconds - passed, lease=lease)
        passed = clock.monotonic() - begun
        if message is not None or passed >= seconds:
            return message
        if progress is not None:
            await progress(passed, seconds, "no message yet")


async def claim(
    speaks: Speaks, own: str, seconds: float, *, lease: int = LEASE_SECONDS, several: bool = False
) -> InboxMessage | None:
    """The same with one question, which a server does not hold for ever. Raises ToolError."""
    held = int(min(max(0.0, seconds) + 0.999, _POLL_SECONDS))
    query = {"claim": lease, "limit": 1, "wait": held, "include": asked_for(several=several)}
    rows = await speaks.call("GET", f"/workspaces/{own}/activity", query=query)
    return message_of(rows[0]) if rows else None


async def peek(speaks: Speaks, own: str, limit: int, *, several: bool = False) -> list[InboxMessage]:
    """The messages that nobody handled, oldest first; none of them is taken. Raises ToolError."""
    query = {"waiting": "true", "limit": limit, "include": asked_for(several=several)}
    return [message_of(row) for row in await speaks.call("GET", f"/workspaces/{own}/activity", query=query)]


async def pop(speaks: Speaks, own: str, given: types.PopArguments) -> dict[str, Any]:
    """One message is handled. Raises ToolError."""
    await _ack(speaks, own, given.activity_id, given.attempt)
    told: dict[str, Any] = msgspec.to_builtins(
        types.Popped(activity_id=given.activity_id, workspace_id=own, removed=True)
    )
    return told


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any, name: str) -> str:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""
