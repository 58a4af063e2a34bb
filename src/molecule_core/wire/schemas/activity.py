"""Rows of the activity log and the chat as clients read them."""

from enum import StrEnum
from typing import Any

from msgspec import UNSET, Raw, Struct, UnsetType

from molecule_core.common.text import sanitize_file_name
from molecule_core.wire.schemas.envelope import Instructions

_MAX_NAME_BYTES = 255


class ActivityType(StrEnum):
    """Type of a row of a workspace's log."""

    RECEIVE = "a2a_receive"
    SEND = "a2a_send"
    DELEGATION = "delegation"
    """The row in a workspace's own log for a delegation that it sent. Only the server writes it."""
    TASK_UPDATE = "task_update"
    AGENT_LOG = "agent_log"
    SKILL_PROMOTION = "skill_promotion"
    MEMORY_WRITE = "memory_write"
    ERROR = "error"
    MEMORY_WRITE_GLOBAL = "memory_write_global"


class ActivityMethod(StrEnum):
    """Method of a row that the server writes; agents may use any name in their own log."""

    SEND = "message/send"
    NOTIFY = "notify"
    BROADCAST = "broadcast"
    BROADCAST_SENT = "broadcast_sent"
    UPLOAD = "chat_upload_receive"
    DELEGATE = "delegate"
    """Of the row in the source's own log."""
    DELEGATE_RESULT = "delegate_result"
    """Of the row that brings the result."""


class MessageKind(StrEnum):
    """Kind of an incoming message."""

    USER = "canvas_user"
    PEER = "peer_agent"
    DELEGATION = "delegation"
    DELEGATION_RESULT = "delegation_result"
    APPROVAL_REQUEST = "approval_request"
    APPROVAL_DECISION = "approval_decision"
    BROADCAST = "broadcast"
    UPLOAD = "chat_upload_receive"
    SYSTEM = "system"


APPROVAL_KINDS = (MessageKind.APPROVAL_REQUEST, MessageKind.APPROVAL_DECISION)
"""Kinds of messages about an approval: to the approver, and to the requester."""


class Intent(StrEnum):
    """Whether a message wants an answer."""

    REQUEST = "request"
    INFORM = "inform"
    ACK = "ack"
    """A read confirmation. Like `inform`, it wants no answer."""


class ActivityRow(Struct):
    """A row of GET /workspaces/{id}/activity. Times are RFC 3339. UNSET members are omitted.

    `root_id`, `hop` and `cause_id`: position in a chain of messages that caused each other. `reminder`: delivered
    before and still unanswered. `instructions`: how to answer, for the agent itself if it requests them."""

    id: str
    workspace_id: str
    seq: int
    activity_type: str
    method: str | None
    kind: str | None
    intent: str | None
    source_id: str | None
    target_id: str | None
    status: str
    created_at: str
    duration_ms: int | None
    summary: str | None
    error_detail: str | None
    request_body: Raw | UnsetType = UNSET
    response_body: Raw | UnsetType = UNSET
    tool_trace: Raw | UnsetType = UNSET
    root_id: str | UnsetType = UNSET
    hop: int | UnsetType = UNSET
    cause_id: str | UnsetType = UNSET
    trace_parent: str | UnsetType = UNSET
    attempt: int | UnsetType = UNSET
    redelivered: bool | UnsetType = UNSET
    reminder: bool | UnsetType = UNSET
    peer_name: str | UnsetType = UNSET
    peer_role: str | UnsetType = UNSET
    agent_card_url: str | UnsetType = UNSET
    attachments: list[dict[str, Any]] | UnsetType = UNSET
    instructions: Instructions | UnsetType = UNSET


class ChatObligation(Struct, omit_defaults=True):
    """The obligation to answer a person's message.

    `state`: open, answered, declined, answered_outside or overdue. `reason`: why it was declined, or why the agent's
    work on an open message failed. `draft`: output of the agent that it
    did not send. `template` (id@version), `form` and `tokens`: of the instructions delivered with the message.
    `answer_id`: the message that answered it, in a chat."""

    state: str
    due_at: str | None = None
    draft: str | None = None
    reason: str | None = None
    template: str | None = None
    form: str | None = None
    tokens: int | None = None
    answer_id: str | None = None


class ChatMessage(Struct, omit_defaults=True):
    """A message of the chat between a workspace and its users.

    `role`: `user` or `agent`; `client_id`: the messageId that the person's client chose. `delivery`: progress of a
    person's message (stored, in_inbox, handed_over, acked, dead); `trouble`: why it is dead; `obligation`: whether it
    was answered. `options`: the choices of an agent's question; `option_of`: the question that a person's message
    answers, with the number of the chosen `option`; `in_reply_to`: the message that a person's reply quotes."""

    id: str
    role: str
    content: str
    timestamp: str
    seq: int
    user: str | None = None
    client_id: str | None = None
    attachments: list[dict[str, Any]] = []
    delivery: str | None = None
    trouble: str | None = None
    obligation: ChatObligation | None = None
    options: list[str] = []
    option_of: str | None = None
    option: int | None = None
    in_reply_to: str | None = None


class MailSender(Struct):
    """A sender of waiting messages: a workspace, or a person on the canvas (empty id)."""

    workspace_id: str
    name: str
    count: int


class WaitingMail(Struct):
    """Summary of the messages that wait in an inbox, without their text. `more`: there are more than were counted."""

    workspace_id: str
    name: str
    waiting: int
    more: bool
    oldest_at: str | None
    senders: list[MailSender]


class ChatPage(Struct):
    """A page of chat, oldest first. `reached_end`: there are no more messages in the requested direction."""

    messages: list[ChatMessage]
    reached_end: bool


def attachments_of(parts: list[Any]) -> list[dict[str, Any]]:
    """List the files among the parts of a message as `{kind, uri, name, mime_type, size}`, unknown members omitted.

    Names are sanitized for display."""
    found = []
    for part in parts:
        file = part.get("file") if isinstance(part, dict) and part.get("kind") == "file" else None
        if isinstance(file, dict):
            fields = {
                "kind": "file",
                "uri": _str_or_none(file.get("uri")),
                "name": display_file_name(file.get("name")),
                "mime_type": _str_or_none(file.get("mimeType") or file.get("mime_type")),
                "size": _size_or_none(file.get("size")),
            }
            found.append({key: value for key, value in fields.items() if value is not None})
    return found


def _str_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _size_or_none(value: Any) -> int | None:
    return value if isinstance(value, int) and value >= 0 else None


def display_file_name(value: Any) -> str | None:
    """Return a file name sanitized for display, or None if it is not a string."""
    return sanitize_file_name(value, _MAX_NAME_BYTES) if isinstance(value, str) else None
