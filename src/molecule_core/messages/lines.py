"""The lines of a chat, made from the stored bodies of messages. Pure.

Above: the reader. Below: the words for how an answer stands.
"""

from typing import Any, NamedTuple

import msgspec

from molecule_core.ground.clock import rfc3339
from molecule_core.messages.model import NOTIFY
from molecule_core.messages.obligations import standing_of, template_name
from molecule_core.wire.activity import ChatMessage, ChatObligation, attachments_of
from molecule_core.wire.live import ChatHead, SnapshotChat


def parts_of(request_body: str) -> list[Any]:
    """The parts of a message, if that is what the body is: a report's body may be any JSON."""
    found = msgspec.json.decode(request_body)
    for name in ("params", "message", "parts"):
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, list) else []


def message_of(request_body: str) -> dict[str, Any]:
    """The message in a stored body, which the server made regular."""
    message: dict[str, Any] = msgspec.json.decode(request_body)["params"]["message"]
    return message


def text_of(parts: list[Any]) -> str:
    """All text of a message."""
    return "\n".join(part["text"] for part in parts if part["kind"] == "text")


def options_of(request_body: str) -> list[str]:
    """What an agent's question lets choose, as the server has stored it."""
    if '"options"' not in request_body:
        return []
    options = message_of(request_body)["metadata"].get("options", [])
    return [each for each in options if isinstance(each, str)] if isinstance(options, list) else []


def chat_message(
    id_: str,
    seq: int,
    method: str | None,
    created_at: int,
    request_body: str,
    delivery: str | None,
    trouble: str | None,
    *owed: Any,
) -> ChatMessage:
    """A line, as the queries of a chat select it."""
    params = msgspec.json.decode(request_body)["params"]
    message = params["message"]
    line = ChatMessage(
        id=id_,
        role="agent" if method == NOTIFY else "user",
        content=text_of(message["parts"]),
        timestamp=rfc3339(created_at),
        seq=seq,
        attachments=attachments_of(message["parts"]),
        delivery=delivery,
        trouble=trouble,
    )
    if method == NOTIFY:
        line.options = options_of(request_body)
        return line
    line.user, line.client_id = params["metadata"].get("username"), message["messageId"]
    line.obligation = _obligation(_Owed(*owed))
    line.option_of, line.option = _chosen(message["metadata"])
    return line


def _chosen(metadata: dict[str, Any]) -> tuple[str | None, int | None]:
    """The question that a message answers, and the number of the option: what its sender says of it."""
    question, option = metadata.get("option_of"), metadata.get("option")
    is_choice = isinstance(question, str) and isinstance(option, int) and not isinstance(option, bool)
    return (question, option) if is_choice else (None, None)


class _Owed(NamedTuple):
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


def _obligation(owed: _Owed) -> ChatObligation | None:
    if owed.state is None:
        return None
    return ChatObligation(
        state=standing_of(owed.state, owed.overdue_at, owed.outside_at),
        due_at=None if owed.due_at is None else rfc3339(owed.due_at),
        draft=owed.draft if owed.state == "open" else None,
        reason=owed.reason,
        template=template_name(owed.template, owed.version),
        form=owed.form,
        tokens=owed.tokens,
    )


def chat_head(
    workspace_id: str, id_: str, seq: int, method: str, created_at: int, summary: str | None, read_seq: int, unread: int
) -> SnapshotChat:
    """How a chat stands for a person, as `chat_head` selects it."""
    role = "agent" if method == NOTIFY else "user"
    last = ChatHead(id=id_, role=role, content=summary or "", timestamp=rfc3339(created_at), seq=seq)
    return SnapshotChat(workspace_id=workspace_id, unread=unread, read_seq=read_seq, last=last)
