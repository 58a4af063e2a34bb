"""Formats messages for models whose host displays them directly. Pure."""

from typing import Any

from molecule_core.agent.sanitize import sanitize, sanitize_line, strip_invisible
from molecule_core.wire.schemas import xml
from molecule_core.wire.schemas.activity import MessageKind
from molecule_core.wire.schemas.inbox import InboxMessage
from molecule_core.wire.schemas.runtimes import Runtime, tool_name

_MAX_PATH = 1000
REPLY_TOOL, POP_TOOL, DECIDE_TOOL = "reply_to_workspace", "inbox_pop", "decide_approval"


def channel_text(message: InboxMessage, *, single: bool, runtime: Runtime) -> tuple[str, dict[str, str]]:
    """Return a message as text for a host, and its fields: identifiers as keys, text as values.

    If the server sent instructions, the content is only these and the message: the host adds its own tag around them.

    A host may show the message in the middle of a task, with a warning not to trust imperatives in it. The added text
    therefore states routing facts only; how to answer is also in the tool descriptions.
    """
    if (instructions := message.instructions) is not None:
        content = xml.format_block(strip_invisible(instructions.text), strip_invisible(message.text))
        return content, _host_fields(message, sanitize_line(instructions.reply_via), single=single)
    if message.kind == MessageKind.APPROVAL_REQUEST and message.wants_answer:
        return _decision_request_text(message, tool_name(DECIDE_TOOL, runtime), single=single)
    reply = tool_name(REPLY_TOOL, runtime)
    route = {} if single else {"workspace_id": message.arrival_workspace_id}
    route |= {"peer_id": message.peer_id, "activity_id": message.activity_id}
    arguments = ", ".join(f'{name}="{sanitize_line(value)}"' for name, value in route.items())
    expectation = "an answer is expected" if message.wants_answer else "no answer is expected"
    content = (
        f"{plain_text(message)}\n\n[Molecule: {expectation}. To answer, call {reply} ({arguments}, text=…). Without "
        f"an answer, acknowledge the message with {tool_name(POP_TOOL, runtime)}.]"
    )
    return content, _host_fields(message, reply, single=single)


def prompt_text(message: InboxMessage, *, single: bool, runtime: Runtime) -> str:
    """Return a message as a prompt of its own: how to answer, and the text, quoted in a tag with its fields."""
    if (instructions := message.instructions) is None:
        return channel_text(message, single=single, runtime=runtime)[0]
    fields = _channel_fields(message, "", single=single)
    return xml.format_channel(fields, strip_invisible(instructions.text).rstrip(), strip_invisible(message.text))


def _decision_request_text(message: InboxMessage, decide_tool: str, *, single: bool) -> tuple[str, dict[str, str]]:
    """Format a message that asks for a decision, which a text answer cannot give."""
    route = {"approval_id": message.approval_id, "revision": str(message.revision), "action_hash": message.action_hash}
    arguments = ", ".join(f'{name}="{sanitize_line(value)}"' for name, value in route.items())
    content = (
        f"{plain_text(message)}\n\n[Molecule: a decision is expected. Decide only with {decide_tool} ({arguments}, "
        "decision=…).]"
    )
    return content, _host_fields(message, decide_tool, single=single)


def plain_text(message: InboxMessage) -> str:
    """Return sender and text, without a hint how to answer."""
    return f"{_sender_line(message)}\n\n{sanitize(message.text)}{_files_line(message)}"


def message_fields(message: InboxMessage) -> dict[str, str]:
    """Return the fields of a message for a reader without tools."""
    return _channel_fields(message, "", single=True)


def _sender_line(message: InboxMessage) -> str:
    if not message.peer_id:
        sender = (
            f"From the person {sanitize_line(message.user_name)}"
            if message.user_name
            else "From a person on the canvas"
        )
    else:
        name = sanitize_line(message.peer_name) or "unnamed"
        role = f" ({sanitize_line(message.peer_role)})" if message.peer_role else ""
        sender = f"From the peer agent {name}{role}, workspace {sanitize_line(message.peer_id)}"
        if message.kind == MessageKind.DELEGATION_RESULT:
            sender = f"Result of a task that you delegated. {sender}"
    return f"{sender}:" + (" (delivered before and not acknowledged)" if message.redelivered else "")


def _files_line(message: InboxMessage) -> str:
    names = _attachment_names(message)
    return f"\n\nFiles: {names}" if names else ""


def _attachment_names(message: InboxMessage) -> str:
    return ", ".join(map(_attachment_text, message.attachments))


def _attachment_text(attachment: dict[str, Any]) -> str:
    """Return the name of a file, and where it is: the local copy, else its uri for read_file."""
    name = sanitize_line(str(attachment.get("name") or attachment.get("uri") or "file"))
    path, uri = attachment.get("path"), attachment.get("uri")
    if isinstance(path, str):
        return f"{name} (path: {sanitize_line(path, _MAX_PATH)}, uri: {sanitize_line(str(uri))})"
    return f"{name} (uri: {sanitize_line(uri)})" if isinstance(uri, str) else name


def _host_fields(message: InboxMessage, reply: str, *, single: bool) -> dict[str, str]:
    """Return the fields of a message for a host: also the workspace that received it, and as which this agent reads."""
    own = sanitize_line(message.arrival_workspace_id or message.workspace_id)
    route = {"workspace_id": own, "watching_as": own} if own else {}
    return {**route, **_channel_fields(message, reply, single=single)}


def _channel_fields(message: InboxMessage, reply: str, *, single: bool) -> dict[str, str]:
    """Return the fields of a message. Never a key `source`: the host sets it itself, so it would appear twice."""
    fields = {
        "kind": message.kind,
        "arrival_workspace_id": "" if single else message.arrival_workspace_id,
        "peer_id": message.peer_id,
        "peer_name": message.peer_name,
        "peer_role": message.peer_role,
        "user_name": message.user_name,
        "method": message.method,
        "intent": message.intent,
        "activity_id": message.activity_id,
        "delegation_id": message.delegation_id,
        "approval_id": message.approval_id,
        "revision": str(message.revision or ""),
        "action_hash": message.action_hash,
        "ts": message.created_at,
        "attempt": str(message.attempt),
        "reply_tool": reply,
    }
    if (instructions := message.instructions) is not None:
        fields |= {"reply_handle": instructions.reply_handle, "attachments": _attachment_names(message)}
        fields["redelivered"] = "true" if message.redelivered else ""
    needed = ("peer_id", "activity_id")
    return {name: sanitize_line(value) for name, value in fields.items() if value or name in needed}
