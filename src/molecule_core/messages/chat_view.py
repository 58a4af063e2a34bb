"""The lines of a chat, made from the stored bodies of messages. Pure.

Above: the reader. Below: the words for how an answer stands.
"""

from typing import Any, NamedTuple

import msgspec

from molecule_core.common.clock import to_rfc3339
from molecule_core.messages.model import METHOD_NOTIFY
from molecule_core.messages.obligations.model import obligation_state, template_label
from molecule_core.wire.schemas.activity import ChatMessage, ChatObligation, attachments_of
from molecule_core.wire.schemas.live import LastChatMessage, SnapshotChat


def message_parts(request_body: str) -> list[Any]:
    """The parts of a message, if that is what the body is: a report's body may be any JSON."""
    found = msgspec.json.decode(request_body)
    for name in ("params", "message", "parts"):
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, list) else []


def stored_message(request_body: str) -> dict[str, Any]:
    """The message in a stored body, which the server made regular."""
    message: dict[str, Any] = msgspec.json.decode(request_body)["params"]["message"]
    return message


def text_of(parts: list[Any]) -> str:
    """All text of a message."""
    return "\n".join(part["text"] for part in parts if part["kind"] == "text")


def question_options(request_body: str) -> list[str]:
    """What an agent's question lets choose, as the server has stored it."""
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
    """A line, as the queries of a chat select it."""
    params = msgspec.json.decode(request_body)["params"]
    message = params["message"]
    entry = ChatMessage(
        id=id_,
        role="agent" if method == METHOD_NOTIFY else "user",
        content=text_of(message["parts"]),
        timestamp=to_rfc3339(created_at),
        seq=seq,
        attachments=attachments_of(message["parts"]),
        delivery=delivery,
        trouble=trouble,
    )
    if method == METHOD_NOTIFY:
        entry.options = question_options(request_body)
        return entry
    entry.user, entry.client_id = params["metadata"].get("username"), message["messageId"]
    entry.obligation = _to_chat_obligation(_ObligationColumns(*obligation_columns))
    entry.option_of, entry.option = _chosen_option(message["metadata"])
    return entry


def _chosen_option(metadata: dict[str, Any]) -> tuple[str | None, int | None]:
    """The question that a message answers, and the number of the option: what its sender says of it."""
    question, option = metadata.get("option_of"), metadata.get("option")
    is_choice = isinstance(question, str) and isinstance(option, int) and not isinstance(option, bool)
    return (question, option) if is_choice else (None, None)


class _ObligationColumns(NamedTuple):
    """What the queries of a chat select of an obligation, in their order."""

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


def _to_chat_obligation(obligation: _ObligationColumns) -> ChatObligation | None:
    if obligation.state is None:
        return None
    return ChatObligation(
        state=obligation_state(obligation.state, obligation.overdue_at, obligation.outside_at),
        due_at=None if obligation.due_at is None else to_rfc3339(obligation.due_at),
        draft=obligation.draft if obligation.state == "open" else None,
        reason=obligation.reason,
        template=template_label(obligation.template, obligation.version),
        form=obligation.form,
        tokens=obligation.tokens,
    )


def to_chat_head(
    workspace_id: str, id_: str, seq: int, method: str, created_at: int, summary: str | None, read_seq: int, unread: int
) -> SnapshotChat:
    """How a chat stands for a person, as `chat_head` selects it."""
    role = "agent" if method == METHOD_NOTIFY else "user"
    last = LastChatMessage(id=id_, role=role, content=summary or "", timestamp=to_rfc3339(created_at), seq=seq)
    return SnapshotChat(workspace_id=workspace_id, unread=unread, read_seq=read_seq, last=last)
