"""The tools that take more than one route, as walks over the public API: answering, reading back, the inbox.

Above: whoever runs tools (agent, command line, LangChain, the server's own MCP endpoint); each may have a better way of
its own for some of them. Below: anything that can make one request as a workspace.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from molecule_core.common.clock import Clock
from molecule_core.common.text import is_valid_client_id, truncate_line
from molecule_core.tools.runners.requester import Requester, with_approval
from molecule_core.tools.schemas import messages as types
from molecule_core.tools.schemas import replies
from molecule_core.tools.spec import ToolError, unknown_answer_error
from molecule_core.wire.protocols.a2a_response import message_parts, part_as_text, unwrap_result
from molecule_core.wire.schemas.envelope import include_parameter as asked_for
from molecule_core.wire.schemas.inbox import InboxMessage, message_from_row

LEASE_SECONDS = 300
"""How long a message is an agent's that has taken it: a model must have time to work on it, and after a crash it should
come again while somebody still waits."""
# What a server holds a poll at most; it cuts longer ones by itself.
_MAX_POLL_SECONDS = 25
_MAX_KEY_LENGTH = 128
IDEMPOTENCY_HEADER = "idempotency-key"
"""The header by which a server knows a repeated request."""
_SUMMARY_LENGTH = 200
_MAX_QUOTED_HANDLE = 64
_MESSAGE_ACTIVITY_TYPES = ("a2a_receive", "a2a_send")
# What hosts call a call of a tool: a repetition of it carries the same name.
CALL_META_KEY = "molecule/call"
"""Under which an engine of ours names a call, beside its arguments."""
THREAD_META_KEY = "molecule/thread"
"""Under which an engine of ours names the thread that a call is made in."""
_CALL_META_KEYS = (CALL_META_KEY, "claudecode/toolUseId")

ProgressCallback = Callable[[float, float | None, str], Awaitable[None]]


def idempotency_headers(key: str) -> dict[str, str]:
    """The header that makes a repeated call harmless; none without a key that the server would take."""
    return {IDEMPOTENCY_HEADER: key} if is_valid_client_id(key, _MAX_KEY_LENGTH) else {}


def host_call_id(meta: Mapping[str, Any]) -> str:
    """The name that an agent's host gives one call of a tool, by what it tells beside the arguments; empty if none."""
    for name in _CALL_META_KEYS:
        given = meta.get(name)
        if isinstance(given, str) and is_valid_client_id(given, _MAX_KEY_LENGTH):
            return given
    return ""


def engine_thread_id(meta: Mapping[str, Any]) -> str:
    """The thread that an engine of ours makes a call in; empty if it is none of ours."""
    given = meta.get(THREAD_META_KEY)
    return given if isinstance(given, str) and is_valid_client_id(given, _MAX_KEY_LENGTH) else ""


# -- answering ---------------------------------------------------------------------------------------------------------


async def reply_to_workspace(
    requester: Requester,
    workspace_id: str,
    arguments: types.ReplyToWorkspaceArguments,
    key: str = "",
    *,
    handle_matches: bool = False,
) -> dict[str, Any]:
    """Answers a person or a peer, and acknowledges what was answered. The answer leaves only from the seat that the
    message came to, and only to whom it came from. `fits`: the handle is known to name the message of `activity_id`;
    else the handle alone says what is answered, and the server settles it. Raises ToolError."""
    requester = with_approval(requester, arguments)
    if arguments.activity_id:
        await _check_recipient(requester, workspace_id, arguments)
    if arguments.reply_handle and not handle_matches:
        arguments = msgspec.structs.replace(arguments, activity_id="")
    if arguments.peer_id:
        sent = await _send_to_peer(requester, workspace_id, arguments, key)
    else:
        notice = {"message": arguments.text, **_reply_metadata(arguments)}
        sent = await requester.call(
            "POST", f"/workspaces/{workspace_id}/notify", body=notice, headers=idempotency_headers(key)
        )
        _require_member(sent, "status")
    # A server that took a handle has settled the message that it names, with the answer: nothing is left to be told.
    closes_message = bool(arguments.activity_id or arguments.reply_handle) and not arguments.progress
    sends_ack = closes_message and bool(arguments.activity_id)
    note = await _try_ack(requester, workspace_id, arguments.activity_id, arguments.attempt) if sends_ack else ""
    replied = types.ReplyToWorkspaceResult(
        status=_text_member(sent, "status") or "sent",
        workspace_id=workspace_id,
        peer_id=arguments.peer_id,
        activity_id=_text_member(sent, "activity_id"),
        acknowledged=closes_message and not note,
        answer=_answer_text(sent),
        note=note,
    )
    payload: dict[str, Any] = msgspec.to_builtins(replied)
    return payload


def _reply_metadata(arguments: types.ReplyToWorkspaceArguments) -> dict[str, Any]:
    """Which message an answer belongs to, and whether it is one."""
    payload = {
        "in_reply_to": arguments.activity_id,
        "reply_handle": arguments.reply_handle,
        "progress": arguments.progress,
    }
    return {name: value for name, value in payload.items() if value}


def two_messages_error(activity_id: str, handle: str) -> ToolError:
    """What a call is told that names two messages."""
    return ToolError(
        f"activity_id {activity_id} and reply_handle {truncate_line(handle, _MAX_QUOTED_HANDLE)} are of two messages; give the "
        "one that you answer.",
        "two_messages",
    )


async def _check_recipient(requester: Requester, workspace_id: str, arguments: types.ReplyToWorkspaceArguments) -> None:
    sender = await fetch_sender(requester, workspace_id, arguments.activity_id)
    if sender != arguments.peer_id:
        right = f"give peer_id {sender!r}" if sender else "leave peer_id out: it came from a person"
        raise ToolError(
            f"message {arguments.activity_id} is not from {arguments.peer_id or 'a person'}; {right}, or leave activity_id out "
            "if this is no answer to it.",
            "wrong_peer",
        )


async def fetch_sender(requester: Requester, workspace_id: str, activity_id: str) -> str:
    """Who sent a message to this seat: a workspace's id, or empty for a person. Raises ToolError, of the code
    `wrong_workspace` if the seat's inbox does not hold it."""
    try:
        known = await requester.call("GET", f"/workspaces/{workspace_id}/messages/{quote(activity_id, safe='')}/ticks")
    except ToolError as error:
        if error.code != "not_found":
            raise
        raise ToolError(
            f"workspace {workspace_id} has no message {activity_id}. Take workspace_id from the message's arrival_workspace_id; "
            "if it is too old to be known any more, leave activity_id out.",
            "wrong_workspace",
        ) from None
    return _text_member(known, "source_id")


async def _send_to_peer(
    requester: Requester, workspace_id: str, arguments: types.ReplyToWorkspaceArguments, key: str
) -> Any:
    if arguments.peer_id == workspace_id:
        raise ToolError("peer_id is your own workspace; name the peer that wrote to you.", "wrong_peer")
    metadata: dict[str, Any] = {"intent": arguments.intent, **_reply_metadata(arguments)}  # control: message-intent
    message: dict[str, Any] = {
        "role": "agent",
        "parts": [{"kind": "text", "text": arguments.text}],
        "metadata": metadata,
    }
    if idempotency_headers(key):
        message["messageId"] = key
    envelope = {"jsonrpc": "2.0", "id": key or "reply", "method": "message/send", "params": {"message": message}}
    path = f"/workspaces/{quote(arguments.peer_id, safe='')}/a2a"
    sent = await requester.call("POST", path, body=envelope, headers=idempotency_headers(key))
    if isinstance(sent, dict) and isinstance(sent.get("error"), dict):
        raise ToolError(f"the peer's agent refused it: {_text_member(sent['error'], 'message')}", "refused_by_peer")
    _require_member(sent, "result", "status")
    await _log_sent(requester, workspace_id, arguments, envelope)
    return sent


async def _log_sent(
    requester: Requester, workspace_id: str, arguments: types.ReplyToWorkspaceArguments, envelope: dict[str, Any]
) -> None:
    """What one said to a peer stands in one's own log too, or `chat_history` would know only the other half. That it
    is missing there is no reason to call the answer failed."""
    entry = {
        "activity_type": "a2a_send",
        "method": "message/send",
        "target_id": arguments.peer_id,
        "summary": truncate_line(arguments.text, _SUMMARY_LENGTH),
        "request_body": envelope,
    }
    try:
        await requester.call("POST", f"/workspaces/{workspace_id}/activity", body=entry)
    except ToolError:
        return


async def _try_ack(requester: Requester, workspace_id: str, activity_id: str, attempt: int) -> str:
    """Why the message could not be acknowledged; empty if it was."""
    try:
        await _ack(requester, workspace_id, activity_id, attempt)
    except ToolError as error:
        return f"Your answer was sent, do not send it again. The message could not be acknowledged: {error.text}"
    return ""


async def _ack(requester: Requester, workspace_id: str, activity_id: str, attempt: int) -> None:
    named = {"activity_id": activity_id, **({"attempt": attempt} if attempt else {})}
    _require_member(
        await requester.call("POST", f"/workspaces/{workspace_id}/activity/ack", body=named), "last_acked_seq"
    )


def _require_member(answer: Any, *names: str) -> None:
    """Whoever takes any answer for success tells a page of a proxy that it was heard. Raises ToolError if an answer has
    none of these members."""
    if not isinstance(answer, dict) or not any(name in answer for name in names):
        raise unknown_answer_error(f"it has no member {' or '.join(names)}")


def _answer_text(answer: Any) -> str:
    """What a peer that answers at once said; of data, its JSON, and of files, their names."""
    result = unwrap_result(answer) if isinstance(answer, dict) and "result" in answer else None
    if isinstance(result, str):
        return result
    return "\n".join(part_as_text(part) for part in message_parts(result))


# -- answering by handle -----------------------------------------------------------------------------------------------


async def reply_by_handle(
    requester: Requester, workspace_id: str, arguments: replies.ReplyByHandleArguments, key: str = "", attempt: int = 0
) -> dict[str, Any]:
    """Answers the message of a handle; `attempt`: under which it is held, if that is known. Raises ToolError."""
    requester = with_approval(requester, arguments)
    payload: dict[str, Any] = {"handle": arguments.handle, "text": arguments.text}
    if arguments.progress:  # control: answer-in-progress
        payload["progress"] = True
    if arguments.attachments:
        payload["attachments"] = arguments.attachments
    sent = await requester.call(
        "POST", f"/workspaces/{workspace_id}/reply", body=payload, headers=idempotency_headers(key)
    )
    return await _finish_by_handle(requester, workspace_id, sent, "" if arguments.progress else "answered", attempt)


async def decline_by_handle(
    requester: Requester, workspace_id: str, arguments: replies.DeclineArguments, key: str = "", attempt: int = 0
) -> dict[str, Any]:
    """Says that the message of a handle will not be answered. Raises ToolError."""
    requester = with_approval(requester, arguments)
    payload = {"handle": arguments.handle, "reason": arguments.reason}
    sent = await requester.call(
        "POST", f"/workspaces/{workspace_id}/decline", body=payload, headers=idempotency_headers(key)
    )
    return await _finish_by_handle(requester, workspace_id, sent, "declined", attempt)


async def _finish_by_handle(
    requester: Requester, workspace_id: str, sent: Any, state: str, attempt: int
) -> dict[str, Any]:
    """What became of the message; what is closed is acknowledged too. `state`: what the server means that says none,
    empty for progress."""
    _require_member(sent, "answers")
    answers = _text_member(sent, "answers")
    acknowledged = isinstance(sent, dict) and sent.get("acknowledged") is True
    note = ""
    if state and answers and not acknowledged:
        note = await _try_ack(requester, workspace_id, answers, attempt)
        acknowledged = not note
    closed = replies.ReplyByHandleResult(
        status=_text_member(sent, "status") or "sent",
        workspace_id=workspace_id,
        activity_id=_text_member(sent, "activity_id"),
        answers=answers,
        peer_id=_text_member(sent, "peer_id"),
        state=_text_member(sent, "state") or state or "open",
        acknowledged=acknowledged,
        note=note,
    )
    payload: dict[str, Any] = msgspec.to_builtins(closed)
    return payload


# -- reading back ------------------------------------------------------------------------------------------------------


async def chat_history(
    requester: Requester, workspace_id: str, arguments: types.ChatHistoryArguments
) -> dict[str, Any]:
    """What was said before, oldest first. Raises ToolError."""
    requester = with_approval(requester, arguments, read_only=True)
    query: dict[str, Any] = {"limit": arguments.limit}
    if arguments.before_ts:
        query["before_ts"] = arguments.before_ts
    if arguments.peer_id:
        lines, reached_end = await _peer_history(requester, workspace_id, arguments.peer_id, query)
    else:
        page = await requester.call("GET", f"/workspaces/{workspace_id}/chat-history", query=query)
        lines, reached_end = [_chat_entry(each) for each in page["messages"]], bool(page["reached_end"])
    found = types.ChatHistoryResult(
        workspace_id=workspace_id, peer_id=arguments.peer_id, messages=lines, reached_end=reached_end
    )
    payload: dict[str, Any] = msgspec.to_builtins(found)
    return payload


def _chat_entry(message: dict[str, Any]) -> types.ChatHistoryEntry:
    return types.ChatHistoryEntry(
        activity_id=message["id"],
        role=message["role"],
        text=message["content"],
        created_at=message["timestamp"],
        name=message.get("user") or "",
        attachments=message.get("attachments", []),
    )


async def _peer_history(
    requester: Requester, workspace_id: str, peer_id: str, query: dict[str, Any]
) -> tuple[list[types.ChatHistoryEntry], bool]:
    path = f"/workspaces/{workspace_id}/activity"
    peer_query = {**query, "peer_id": peer_id, "include": "peer_info"}
    rows = await requester.call("GET", path, query=peer_query)
    lines = [
        _peer_entry(row, workspace_id) for row in reversed(rows) if row["activity_type"] in _MESSAGE_ACTIVITY_TYPES
    ]
    if not rows:
        return lines, True
    # A page may have ended because it was full of bytes: whether something is before it is asked.
    before = {**peer_query, "limit": 1, "before_ts": rows[-1]["created_at"]}
    return lines, not await requester.call("GET", path, query=before)


def _peer_entry(row: dict[str, Any], workspace_id: str) -> types.ChatHistoryEntry:
    message = message_from_row(row)
    return types.ChatHistoryEntry(
        activity_id=message.activity_id,
        role="agent" if row["source_id"] == workspace_id else "peer",
        text=message.text,
        created_at=message.created_at,
        name=message.peer_name if row["source_id"] != workspace_id else "",
        attachments=message.attachments,
    )


# -- the inbox, without one of one's own -------------------------------------------------------------------------------


async def wait_for_message(
    requester: Requester,
    workspace_id: str,
    seconds: float,
    *,
    clock: Clock,
    lease: int = LEASE_SECONDS,
    progress: ProgressCallback | None = None,
) -> InboxMessage | None:
    """Takes the next message out of the inbox of one seat; None if none comes within so many seconds. Raises
    ToolError."""
    started_at = clock.monotonic()
    elapsed = 0.0
    while True:
        message = await claim_message(requester, workspace_id, seconds - elapsed, lease=lease)
        elapsed = clock.monotonic() - started_at
        if message is not None or elapsed >= seconds:
            return message
        if progress is not None:
            await progress(elapsed, seconds, "no message yet")


async def claim_message(
    requester: Requester, workspace_id: str, seconds: float, *, lease: int = LEASE_SECONDS, has_several: bool = False
) -> InboxMessage | None:
    """The same with one question, which a server does not hold for ever. Raises ToolError."""
    wait_seconds = int(min(max(0.0, seconds) + 0.999, _MAX_POLL_SECONDS))
    query = {"claim": lease, "limit": 1, "wait": wait_seconds, "include": asked_for(several=has_several)}
    rows = await requester.call("GET", f"/workspaces/{workspace_id}/activity", query=query)
    return message_from_row(rows[0]) if rows else None


async def peek_messages(
    requester: Requester, workspace_id: str, limit: int, *, has_several: bool = False
) -> list[InboxMessage]:
    """The messages that nobody handled, oldest first; none of them is taken. Raises ToolError."""
    query = {"waiting": "true", "limit": limit, "include": asked_for(several=has_several)}
    return [
        message_from_row(row)
        for row in await requester.call("GET", f"/workspaces/{workspace_id}/activity", query=query)
    ]


async def ack_message(requester: Requester, workspace_id: str, arguments: types.InboxPopArguments) -> dict[str, Any]:
    """One message is handled. Raises ToolError."""
    await _ack(requester, workspace_id, arguments.activity_id, arguments.attempt)
    payload: dict[str, Any] = msgspec.to_builtins(
        types.InboxPopResult(activity_id=arguments.activity_id, workspace_id=workspace_id, removed=True)
    )
    return payload


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text_member(value: Any, name: str) -> str:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""
