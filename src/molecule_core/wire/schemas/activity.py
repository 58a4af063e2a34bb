"""Rows of activity and chat as every client reads them."""

from typing import Any

from msgspec import UNSET, Raw, Struct, UnsetType

from molecule_core.common.text import sanitize_file_name
from molecule_core.wire.schemas.envelope import Instructions

_MAX_NAME_BYTES = 255


class ActivityRow(Struct):
    """One row of GET /workspaces/{id}/activity. Times are RFC 3339. Members that are UNSET are left out. `root_id`,
    `hop` and `cause_id` tell the chain of a message that another one caused. `reminder`: it was handed out before, and
    nobody has answered it. `instructions` says to the agent itself
    how to answer, if it asks for that."""

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
    """The duty to answer a person's message: open, answered, declined (`reason`), answered_outside or overdue.

    `draft`: what the agent said and did not send. `template` (id@version), `form` and `tokens`: of the instructions
    that it came with."""

    state: str
    due_at: str | None = None
    draft: str | None = None
    reason: str | None = None
    template: str | None = None
    form: str | None = None
    tokens: int | None = None


class ChatMessage(Struct, omit_defaults=True):
    """One line of the chat between a workspace and its users. `role` is `user` or `agent`; `client_id` is the messageId
    that the person's client chose. `delivery` tells how far a person's message has come (stored, handed_over, acked,
    dead), `trouble` why it is dead, `obligation` whether it was answered. `options`: what an agent's question lets
    choose; `option_of`: the question that a person's message answers, with its `option` of this number."""

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


class MailSender(Struct):
    """Who wrote some of the mail that waits: a workspace, or (with an empty id) a person on the canvas."""

    workspace_id: str
    name: str
    count: int


class WaitingMail(Struct):
    """What waits in an inbox, without any of its words. `more`: there is more than was counted."""

    workspace_id: str
    name: str
    waiting: int
    more: bool
    oldest_at: str | None
    senders: list[MailSender]


class ChatPage(Struct):
    """A page of chat, oldest first. `reached_end`: nothing more lies in the direction that was asked for."""

    messages: list[ChatMessage]
    reached_end: bool


def attachments_of(parts: list[Any]) -> list[dict[str, Any]]:
    """The files among the parts of a message: `{kind, uri, name, mime_type, size}`, each only if known. Names are fit
    to be shown, whoever wrote them."""
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
    """The name of a file as it may be shown, whoever wrote it; None if it is no text."""
    return sanitize_file_name(value, _MAX_NAME_BYTES) if isinstance(value, str) else None
