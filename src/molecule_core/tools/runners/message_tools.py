"""Runs the message tools that take more than one request: replying, chat history, the inbox.

Called by every host of tools (agent, command line, LangChain, the server's MCP endpoint), unless it has its own
implementation of one; calls the public API through a Requester.
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
from molecule_core.wire.schemas.activity import ActivityMethod, ActivityType, Intent
from molecule_core.wire.schemas.envelope import include_parameter
from molecule_core.wire.schemas.inbox import InboxMessage, message_from_row

LEASE_SECONDS = 300
"""Lease of a claimed message: long enough for a model to work on it, short enough that a redelivery after a crash
still finds its sender waiting."""
# Servers cap the wait of a poll at this.
_MAX_POLL_SECONDS = 25
# Clients give up a call after 20 s without progress at the earliest.
_PROGRESS_POLL_SECONDS = 10
_MAX_KEY_LENGTH = 128
IDEMPOTENCY_HEADER = "idempotency-key"
"""The header that identifies a repeated request."""
_SUMMARY_LENGTH = 200
_MAX_QUOTED_HANDLE = 64
_MESSAGE_ACTIVITY_TYPES = (ActivityType.RECEIVE, ActivityType.SEND)
# Hosts name a tool call in `_meta`; a repeated call carries the same name.
CALL_META_KEY = "molecule/call"
"""The `_meta` member in which our engine names a call."""
THREAD_META_KEY = "molecule/thread"
"""The `_meta` member in which our engine names the calling thread."""
_CALL_META_KEYS = (CALL_META_KEY, "claudecode/toolUseId")

ProgressCallback = Callable[[float, float | None, str], Awaitable[None]]


def idempotency_headers(key: str) -> dict[str, str]:
    """Return the idempotency header for the key, or no header if the server would not accept the key."""
    return {IDEMPOTENCY_HEADER: key} if is_valid_client_id(key, _MAX_KEY_LENGTH) else {}


def host_call_id(meta: Mapping[str, Any]) -> str:
    """Return the host's name for a tool call from its `_meta`, or an empty string."""
    for name in _CALL_META_KEYS:
        value = meta.get(name)
        if isinstance(value, str) and is_valid_client_id(value, _MAX_KEY_LENGTH):
            return value
    return ""


def engine_thread_id(meta: Mapping[str, Any]) -> str:
    """Return the thread in which our engine makes a call, or an empty string for other hosts."""
    value = meta.get(THREAD_META_KEY)
    return value if isinstance(value, str) and is_valid_client_id(value, _MAX_KEY_LENGTH) else ""


# -- replying ----------------------------------------------------------------------------------------------------------


async def reply_to_workspace(
    requester: Requester,
    workspace_id: str,
    arguments: types.ReplyToWorkspaceArguments,
    key: str = "",
    *,
    handle_matches: bool = False,
) -> dict[str, Any]:
    """Reply to a person or a peer and acknowledge the message replied to. Raises ToolError.

    The reply is only sent from the workspace that received the message, and only to its sender. `handle_matches`:
    the handle is known to belong to `activity_id`; otherwise only the handle is sent, and the server closes its
    message."""
    if arguments.reply_handle and not arguments.peer_id and not arguments.activity_id:
        return await _reply_to_handle(requester, workspace_id, arguments, key)
    requester = with_approval(requester, arguments)
    if arguments.activity_id:
        await _check_recipient(requester, workspace_id, arguments)
    if arguments.reply_handle and not handle_matches:
        arguments = msgspec.structs.replace(arguments, activity_id="")
    if arguments.peer_id:
        response = await _send_to_peer(requester, workspace_id, arguments, key)
    else:
        notice = {"message": arguments.text, **_reply_metadata(arguments)}
        response = await requester.call(
            "POST", f"/workspaces/{workspace_id}/notify", body=notice, headers=idempotency_headers(key)
        )
        _require_member(response, "status")
    # Given a handle, the server has closed its message with the reply, so no ack is needed.
    closes_message = bool(arguments.activity_id or arguments.reply_handle) and not arguments.progress
    sends_ack = closes_message and bool(arguments.activity_id)
    note = await try_ack(requester, workspace_id, arguments.activity_id, arguments.attempt) if sends_ack else ""
    result = types.ReplyToWorkspaceResult(
        status=_text_member(response, "status") or "sent",
        workspace_id=workspace_id,
        peer_id=arguments.peer_id,
        activity_id=_text_member(response, "activity_id"),
        acknowledged=closes_message and not note,
        answers=_text_member(response, "answers"),  # not of a progress report, which answers nothing
        answer=_answer_text(response),
        note=note,
    )
    payload: dict[str, Any] = msgspec.to_builtins(result)
    return payload


async def _reply_to_handle(
    requester: Requester, workspace_id: str, arguments: types.ReplyToWorkspaceArguments, key: str
) -> dict[str, Any]:
    """Reply to the message of a handle, of which nothing else is known."""
    by_handle = replies.ReplyByHandleArguments(
        handle=arguments.reply_handle,
        text=arguments.text,
        progress=arguments.progress,
        approval_id=arguments.approval_id,
    )
    found = await reply_by_handle(requester, workspace_id, by_handle, key, arguments.attempt, intent=arguments.intent)
    result = types.ReplyToWorkspaceResult(
        status=found["status"],
        workspace_id=workspace_id,
        peer_id=found["peer_id"],
        activity_id=found["activity_id"],
        acknowledged=found["acknowledged"],
        answers=found["answers"],
        note=found["note"],
    )
    payload: dict[str, Any] = msgspec.to_builtins(result)
    return payload


def _reply_metadata(arguments: types.ReplyToWorkspaceArguments) -> dict[str, Any]:
    """Return the members that link a reply to its message, and mark progress."""
    payload = {
        "in_reply_to": arguments.activity_id,
        "reply_handle": arguments.reply_handle,
        "progress": arguments.progress,
    }
    return {name: value for name, value in payload.items() if value}


def two_messages_error(activity_id: str, handle: str) -> ToolError:
    """Build the error for a call whose activity_id and handle belong to different messages."""
    return ToolError(
        f"activity_id {activity_id} and reply_handle {truncate_line(handle, _MAX_QUOTED_HANDLE)} belong to two "
        "messages. Use only the one of the message that you answer.",
        "two_messages",
    )


async def _check_recipient(requester: Requester, workspace_id: str, arguments: types.ReplyToWorkspaceArguments) -> None:
    sender = await fetch_sender(requester, workspace_id, arguments.activity_id)
    if sender != arguments.peer_id:
        advice = f"Set peer_id to {sender!r}" if sender else "Omit peer_id: the message is from a person"
        raise ToolError(
            f"message {arguments.activity_id} is not from {arguments.peer_id or 'a person'}. {advice}. If this is "
            "not an answer to the message, omit activity_id.",
            "wrong_peer",
        )


async def fetch_sender(requester: Requester, workspace_id: str, activity_id: str) -> str:
    """Return the sender of a message to this workspace: a workspace's id, or empty for a person.

    Raises ToolError, with the code `wrong_workspace` if the message is not in the workspace's inbox."""
    try:
        log = await requester.call("GET", f"/workspaces/{workspace_id}/messages/{quote(activity_id, safe='')}/ticks")
    except ToolError as error:
        if error.code != "not_found":
            raise
        raise ToolError(
            f"workspace {workspace_id} has no message {activity_id}. Set workspace_id to the message's "
            "arrival_workspace_id. If the message is too old to be found, omit activity_id.",
            "wrong_workspace",
        ) from None
    return _text_member(log, "source_id")


async def _send_to_peer(
    requester: Requester, workspace_id: str, arguments: types.ReplyToWorkspaceArguments, key: str
) -> Any:
    if arguments.peer_id == workspace_id:
        raise ToolError("peer_id cannot be your own workspace. Use the peer_id of the message.", "wrong_peer")
    metadata: dict[str, Any] = {"intent": arguments.intent, **_reply_metadata(arguments)}  # control: message-intent
    message: dict[str, Any] = {
        "role": "agent",
        "parts": [{"kind": "text", "text": arguments.text}],
        "metadata": metadata,
    }
    if idempotency_headers(key):
        message["messageId"] = key
    envelope = {"jsonrpc": "2.0", "id": key or "reply", "method": ActivityMethod.SEND, "params": {"message": message}}
    path = f"/workspaces/{quote(arguments.peer_id, safe='')}/a2a"
    response = await requester.call("POST", path, body=envelope, headers=idempotency_headers(key))
    if isinstance(response, dict) and isinstance(response.get("error"), dict):
        raise ToolError(
            f"the peer's agent rejected the message: {_text_member(response['error'], 'message')}", "refused_by_peer"
        )
    _require_member(response, "result", "status")
    await _log_sent(requester, workspace_id, arguments, envelope)
    return response


async def _log_sent(
    requester: Requester, workspace_id: str, arguments: types.ReplyToWorkspaceArguments, envelope: dict[str, Any]
) -> None:
    """Record a sent message in the sender's own log, so that `chat_history` shows both sides.

    A failure is ignored: the message itself was sent."""
    entry = {
        "activity_type": ActivityType.SEND,
        "method": ActivityMethod.SEND,
        "target_id": arguments.peer_id,
        "summary": truncate_line(arguments.text, _SUMMARY_LENGTH),
        "request_body": envelope,
    }
    try:
        await requester.call("POST", f"/workspaces/{workspace_id}/activity", body=entry)
    except ToolError:
        return


async def ack_unnamed(requester: Requester, workspace_id: str, result: dict[str, Any], attempt: int) -> None:
    """Acknowledge the message that a call answered without naming it, and note that in the call's result.

    `attempt`: of its claim. Only for a message that the caller was shown: the server does not know that it was."""
    note = await try_ack(requester, workspace_id, result["answers"], attempt)
    if "acknowledged" in result:
        result.update(acknowledged=not note, note=note)


async def try_ack(requester: Requester, workspace_id: str, activity_id: str, attempt: int) -> str:
    """Acknowledge the message. Returns an empty string, or the note for the caller if that failed."""
    try:
        await _ack(requester, workspace_id, activity_id, attempt)
    except ToolError as error:
        return f"Your answer was sent; do not send it again. The message could not be acknowledged: {error.text}"
    return ""


async def _ack(requester: Requester, workspace_id: str, activity_id: str, attempt: int) -> None:
    body = {"activity_id": activity_id, **({"attempt": attempt} if attempt else {})}
    _require_member(
        await requester.call("POST", f"/workspaces/{workspace_id}/activity/ack", body=body), "last_acked_seq"
    )


def _require_member(answer: Any, *names: str) -> None:
    """Raise ToolError unless the response has one of these members.

    Otherwise the page of a proxy would pass as success."""
    if not isinstance(answer, dict) or not any(name in answer for name in names):
        raise unknown_answer_error(f"it has no member {' or '.join(names)}")


def _answer_text(answer: Any) -> str:
    """Return the text of a peer's direct response: data as JSON, files by name."""
    result = unwrap_result(answer) if isinstance(answer, dict) and "result" in answer else None
    if isinstance(result, str):
        return result
    return "\n".join(part_as_text(part) for part in message_parts(result))


# -- replying by handle ------------------------------------------------------------------------------------------------


async def reply_by_handle(
    requester: Requester,
    workspace_id: str,
    arguments: replies.ReplyByHandleArguments,
    key: str = "",
    attempt: int = 0,
    *,
    intent: str = Intent.INFORM,
) -> dict[str, Any]:
    """Reply to the message of a handle. `attempt`: of its claim, if known. Raises ToolError."""
    requester = with_approval(requester, arguments)
    payload: dict[str, Any] = {"handle": arguments.handle, "text": arguments.text}
    if intent != Intent.INFORM:
        payload["intent"] = intent
    if arguments.progress:  # control: answer-in-progress
        payload["progress"] = True
    if arguments.attachments:
        payload["attachments"] = arguments.attachments
    if arguments.data:
        payload["data"] = arguments.data
    response = await requester.call(
        "POST", f"/workspaces/{workspace_id}/reply", body=payload, headers=idempotency_headers(key)
    )
    return await _finish_by_handle(requester, workspace_id, response, "" if arguments.progress else "answered", attempt)


async def decline_by_handle(
    requester: Requester, workspace_id: str, arguments: replies.DeclineArguments, key: str = "", attempt: int = 0
) -> dict[str, Any]:
    """Decline the message of a handle. `attempt`: of its claim, if known. Raises ToolError."""
    requester = with_approval(requester, arguments)
    payload = {"handle": arguments.handle, "reason": arguments.reason}
    response = await requester.call(
        "POST", f"/workspaces/{workspace_id}/decline", body=payload, headers=idempotency_headers(key)
    )
    return await _finish_by_handle(requester, workspace_id, response, "declined", attempt)


async def _finish_by_handle(
    requester: Requester, workspace_id: str, response: Any, state: str, attempt: int
) -> dict[str, Any]:
    """Acknowledge the message if it is closed, and build the result.

    `state`: the resulting state if the server returns none; empty for progress."""
    _require_member(response, "answers")
    answers = _text_member(response, "answers")
    acknowledged = isinstance(response, dict) and response.get("acknowledged") is True
    note = ""
    if state and answers and not acknowledged:
        note = await try_ack(requester, workspace_id, answers, attempt)
        acknowledged = not note
    result = replies.ReplyByHandleResult(
        status=_text_member(response, "status") or "sent",
        workspace_id=workspace_id,
        activity_id=_text_member(response, "activity_id"),
        answers=answers,
        peer_id=_text_member(response, "peer_id"),
        state=_text_member(response, "state") or state or "open",
        acknowledged=acknowledged,
        note=note,
    )
    payload: dict[str, Any] = msgspec.to_builtins(result)
    return payload


# -- chat history ------------------------------------------------------------------------------------------------------


async def chat_history(
    requester: Requester, workspace_id: str, arguments: types.ChatHistoryArguments
) -> dict[str, Any]:
    """Return the conversation with the person or a peer, oldest first. Raises ToolError."""
    requester = with_approval(requester, arguments, read_only=True)
    query: dict[str, Any] = {"limit": arguments.limit}
    if arguments.before_ts:
        query["before_ts"] = arguments.before_ts
    if arguments.peer_id:
        entries, reached_end = await _peer_history(requester, workspace_id, arguments.peer_id, query)
    else:
        page = await requester.call("GET", f"/workspaces/{workspace_id}/chat-history", query=query)
        entries, reached_end = [_chat_entry(each) for each in page["messages"]], bool(page["reached_end"])
    result = types.ChatHistoryResult(
        workspace_id=workspace_id, peer_id=arguments.peer_id, messages=entries, reached_end=reached_end
    )
    payload: dict[str, Any] = msgspec.to_builtins(result)
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
    entries = [
        _peer_entry(row, workspace_id) for row in reversed(rows) if row["activity_type"] in _MESSAGE_ACTIVITY_TYPES
    ]
    if not rows:
        return entries, True
    # A short page may have reached its byte limit, so only a query for an older row shows whether there is one.
    before = {**peer_query, "limit": 1, "before_ts": rows[-1]["created_at"]}
    return entries, not await requester.call("GET", path, query=before)


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


# -- inbox, for callers without a mailbox of their own -----------------------------------------------------------------


async def wait_for_message(
    requester: Requester,
    workspace_id: str,
    seconds: float,
    *,
    clock: Clock,
    lease: int = LEASE_SECONDS,
    progress: ProgressCallback | None = None,
) -> InboxMessage | None:
    """Claim the next message in the workspace's inbox, or return None after `seconds`. Raises ToolError."""
    started_at = clock.monotonic()
    elapsed = 0.0
    while True:
        remaining = seconds - elapsed
        poll_seconds = remaining if progress is None else min(remaining, _PROGRESS_POLL_SECONDS)
        message = await claim_message(requester, workspace_id, poll_seconds, lease=lease)
        elapsed = clock.monotonic() - started_at
        if message is not None or elapsed >= seconds:
            return message
        if progress is not None:
            await progress(elapsed, seconds, "no message yet")


async def claim_message(
    requester: Requester, workspace_id: str, seconds: float, *, lease: int = LEASE_SECONDS, has_several: bool = False
) -> InboxMessage | None:
    """Claim the next message with one request, whose wait the server caps. Raises ToolError."""
    wait_seconds = int(min(max(0.0, seconds) + 0.999, _MAX_POLL_SECONDS))
    query = {"claim": lease, "limit": 1, "wait": wait_seconds, "include": include_parameter(several=has_several)}
    rows = await requester.call("GET", f"/workspaces/{workspace_id}/activity", query=query)
    return message_from_row(rows[0]) if rows else None


async def peek_messages(
    requester: Requester, workspace_id: str, limit: int, *, has_several: bool = False
) -> list[InboxMessage]:
    """Return the unacknowledged messages, oldest first, without claiming them. Raises ToolError."""
    query = {"waiting": "true", "limit": limit, "include": include_parameter(several=has_several)}
    return [
        message_from_row(row)
        for row in await requester.call("GET", f"/workspaces/{workspace_id}/activity", query=query)
    ]


async def ack_message(requester: Requester, workspace_id: str, arguments: types.InboxPopArguments) -> dict[str, Any]:
    """Acknowledge a message. Raises ToolError."""
    await _ack(requester, workspace_id, arguments.activity_id, arguments.attempt)
    payload: dict[str, Any] = msgspec.to_builtins(
        types.InboxPopResult(activity_id=arguments.activity_id, workspace_id=workspace_id, removed=True)
    )
    return payload


def _text_member(value: Any, name: str) -> str:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""
