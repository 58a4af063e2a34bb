"""A message as an agent's tools give it: what `wait_for_message` and its like return, made from a row of the inbox."""

from typing import Any

from msgspec import Struct

from molecule_core.wire.activity import attachments_of


class InboxMessage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message in the inbox. `activity_id` names it in every answer; `peer_id` is the workspace that wrote it, empty
    for a person; `arrival_workspace_id` is the seat that it came to, left out for an agent that has only one."""

    activity_id: str
    kind: str
    text: str
    created_at: str
    arrival_workspace_id: str = ""
    intent: str = "request"
    """`request` (an answer is due), `inform` or `ack`."""
    peer_id: str = ""
    peer_name: str = ""
    peer_role: str = ""
    user_name: str = ""
    method: str = ""
    attempt: int = 0
    redelivered: bool = False
    """Whether it was handed out before and not acknowledged: look whether you have answered it."""
    attachments: list[dict[str, Any]] = []
    agent_card_url: str = ""


def message_of(row: dict[str, Any]) -> InboxMessage:
    """The message in a row of `GET /workspaces/{id}/activity`. Whatever may stand in the row's body."""
    params = _object(_object(row.get("request_body")).get("params"))
    parts = _object(params.get("message")).get("parts")
    parts = parts if isinstance(parts, list) else []
    texts = [part.get("text") for part in map(_object, parts)]
    text = "\n".join(each for each in texts if isinstance(each, str))
    return InboxMessage(
        activity_id=_text(row.get("id")),
        arrival_workspace_id=_text(row.get("workspace_id")),
        kind=_text(row.get("kind")) or "peer_agent",
        text=text or _text(row.get("summary")),
        created_at=_text(row.get("created_at")),
        intent=_text(row.get("intent")) or "request",
        peer_id=_text(row.get("source_id")),
        peer_name=_text(row.get("peer_name")),
        peer_role=_text(row.get("peer_role")),
        user_name=_text(_object(params.get("metadata")).get("username")),
        method=_text(row.get("method")),
        attempt=row["attempt"] if isinstance(row.get("attempt"), int) else 0,
        redelivered=row.get("redelivered") is True,
        attachments=attachments_of(parts),
        agent_card_url=_text(row.get("agent_card_url")),
    )


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
