"""Builds chat entries from stored message bodies. Pure."""

from typing import Any, NamedTuple

import msgspec

from molecule_core.common.clock import to_optional_rfc3339, to_rfc3339
from molecule_core.messages.approval_messages import approval_id_of
from molecule_core.messages.obligations.model import ObligationState, obligation_state, template_label
from molecule_core.messages.rules import chosen_question, text_of
from molecule_core.wire.protocols.a2a_response import part_as_text
from molecule_core.wire.schemas.activity import (
    APPROVAL_KINDS,
    ActivityMethod,
    ChatMessage,
    ChatObligation,
    attachments_of,
)
from molecule_core.wire.schemas.conversations import PeerMessage
from molecule_core.wire.schemas.live import LastChatMessage, SnapshotChat


def message_parts(request_body: str) -> list[Any]:
    """Return the parts of a message, or an empty list: the body of an agent's report may be any JSON."""
    found = msgspec.json.decode(request_body)
    for name in ("params", "message", "parts"):
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, list) else []


def to_markdown(parts: list[dict[str, Any]]) -> str:
    """Return what an agent wrote as Markdown: its texts as they are, data as blocks of JSON."""
    shown = [part for part in parts if part["kind"] != "file"]
    return "\n".join(_fenced(part["data"]) if part["kind"] == "data" else part_as_text(part) for part in shown)


def _fenced(data: Any) -> str:
    # No line of JSON ends the block: each one with a text begins with a quotation mark.
    return f"```json\n{msgspec.json.format(msgspec.json.encode(data), indent=2).decode()}\n```"


def stored_message(request_body: str) -> dict[str, Any]:
    """Return the message of a stored body, which the server validated."""
    message: dict[str, Any] = msgspec.json.decode(request_body)["params"]["message"]
    return message


def question_options(request_body: str) -> list[str]:
    """Return the options of an agent's question."""
    if '"options"' not in request_body:
        return []
    options = stored_message(request_body)["metadata"].get("options", [])
    return [each for each in options if isinstance(each, str)] if isinstance(options, list) else []


def to_chat_message(
    id_: str,
    seq: int,
    method: str | None,
    created_at: int,
    request_body: str,
    delivery: str | None,
    trouble: str | None,
    *obligation_columns: Any,
) -> ChatMessage:
    """Build a chat message from a row of the chat queries."""
    params = msgspec.json.decode(request_body)["params"]
    message, parts = params["message"], params["message"]["parts"]
    entry = ChatMessage(
        id=id_,
        role="agent" if method == ActivityMethod.NOTIFY else "user",
        content=to_markdown(parts) if method == ActivityMethod.NOTIFY else text_of(parts),
        timestamp=to_rfc3339(created_at),
        seq=seq,
        attachments=attachments_of(parts),
        delivery=delivery,
        trouble=trouble,
    )
    if method == ActivityMethod.NOTIFY:
        entry.options = question_options(request_body)
        return entry
    entry.user, entry.client_id = params["metadata"].get("username"), message["messageId"]
    entry.obligation = _to_chat_obligation(_ObligationColumns(*obligation_columns))
    entry.option_of, entry.option = _chosen_option(message["metadata"])
    entry.in_reply_to = _quoted_message(message["metadata"])
    return entry


class PeerMessageColumns(NamedTuple):
    """The columns of the peer queries before those of the obligation, in their order.

    `found`: rows of the page before its limit in bytes."""

    id: str
    workspace_id: str
    source_id: str
    seq: int
    kind: str
    created_at: int
    request_body: str
    delivery: str
    trouble: str | None
    found: int


def to_peer_message(message: PeerMessageColumns, *obligation_columns: Any) -> PeerMessage:
    """Build a message between two workspaces."""
    parts = message_parts(message.request_body)
    return PeerMessage(
        id=message.id,
        source_id=message.source_id,
        target_id=message.workspace_id,
        message_kind=message.kind,
        content=to_markdown(parts),
        timestamp=to_rfc3339(message.created_at),
        seq=message.seq,
        attachments=attachments_of(parts),
        delivery=message.delivery,
        trouble=message.trouble,
        obligation=_to_chat_obligation(_ObligationColumns(*obligation_columns)),
        approval_id=approval_id_of(message.id) if message.kind in APPROVAL_KINDS else None,
    )


def _chosen_option(metadata: dict[str, Any]) -> tuple[str | None, int | None]:
    """Return the question that a message answers and the option's number, as its sender states them."""
    question = chosen_question(metadata)
    return (None, None) if question is None else (question, metadata["option"])


def _quoted_message(metadata: dict[str, Any]) -> str | None:
    """Return the message that a person's reply quotes, as its sender states it."""
    quoted = metadata.get("in_reply_to")
    return quoted if isinstance(quoted, str) else None


class _ObligationColumns(NamedTuple):
    """The obligation columns of the chat queries, in their order."""

    state: str | None
    overdue_at: int | None
    outside_at: int | None
    due_at: int | None
    draft: str | None
    reason: str | None
    template: str | None
    version: int | None
    form: str | None
    tokens: int | None
    answer_id: str | None = None


def _to_chat_obligation(obligation: _ObligationColumns) -> ChatObligation | None:
    if obligation.state is None:
        return None
    return ChatObligation(
        state=obligation_state(obligation.state, obligation.overdue_at, obligation.outside_at),
        due_at=to_optional_rfc3339(obligation.due_at),
        draft=obligation.draft if obligation.state == ObligationState.OPEN else None,
        reason=obligation.reason,
        template=template_label(obligation.template, obligation.version),
        form=obligation.form,
        tokens=obligation.tokens,
        answer_id=obligation.answer_id,
    )


def to_chat_head(
    workspace_id: str, id_: str, seq: int, method: str, created_at: int, summary: str | None, read_seq: int, unread: int
) -> SnapshotChat:
    """Build the summary of a chat for one person from a row of `chat_head`."""
    role = "agent" if method == ActivityMethod.NOTIFY else "user"
    last = LastChatMessage(id=id_, role=role, content=summary or "", timestamp=to_rfc3339(created_at), seq=seq)
    return SnapshotChat(workspace_id=workspace_id, unread=unread, read_seq=read_seq, last=last)
