"""A message as an agent's tools give it: what `wait_for_message` and its like return, made from a row of the inbox."""

from typing import Any

from msgspec import Struct

from molecule_core.wire.schemas.activity import attachments_of
from molecule_core.wire.schemas.envelope import Instructions, parse_instructions

# Of other kinds a sender may have written what looks like the id of a task.
_DELEGATION_KINDS = ("delegation", "delegation_result")
APPROVAL_KINDS = ("approval_request", "approval_decision")
"""The kinds of messages about an approval: to who is to decide, and to who has asked."""


class InboxMessage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message in the inbox. `activity_id` names it in every answer; `peer_id` is the workspace that wrote it, empty
    for a person; `body` and `text` are its words, `ts` and `created_at` its time: the second names are those that older
    agents know. `arrival_workspace_id` is `workspace_id` for an agent that sits in several, and left out otherwise."""

    kind: str
    workspace_id: str
    peer_id: str
    method: str
    activity_id: str
    ts: str
    body: str
    instructions: Instructions | None = None
    """How to answer it, if the server says so."""
    text: str
    created_at: str
    arrival_workspace_id: str = ""
    intent: str = "request"
    """`request` (an answer is due), `inform` or `ack`."""
    peer_name: str = ""
    peer_role: str = ""
    user_name: str = ""
    attempt: int = 0
    redelivered: bool = False
    """Whether it was handed out before and not acknowledged: look whether you have answered it."""
    reminder: bool = False
    """Whether it comes once more because nobody has answered it, whoever has acknowledged it."""
    attachments: list[dict[str, Any]] = []
    agent_card_url: str = ""
    delegation_id: str = ""
    """Of a task that was delegated, or of the result of one: its task_id."""
    approval_id: str = ""
    """Of an approval that is to be decided, or that was."""
    revision: int = 0
    """Of an approval: how often what is decided about was changed or explained, the first time included."""
    action_hash: str = ""
    """Of an approval: what exactly is decided about."""

    @property
    def reply_handle(self) -> str:
        """What names it in an answer, if it has such a name."""
        return self.instructions.reply_handle if self.instructions is not None else ""


def message_from_row(row: dict[str, Any], reader_id: str = "") -> InboxMessage:
    """The message in a row of `GET /workspaces/{id}/activity`. Whatever may stand in the row's body. `own`: the seat
    that asked, whatever the row says."""
    params = _as_object(_as_object(row.get("request_body")).get("params"))
    parts = _as_object(params.get("message")).get("parts")
    parts = parts if isinstance(parts, list) else []
    texts = [part.get("text") for part in map(_as_object, parts)]
    text = "\n".join(each for each in texts if isinstance(each, str)) or _as_text(row.get("summary"))
    workspace_id, created_at = reader_id or _as_text(row.get("workspace_id")), _as_text(row.get("created_at"))
    kind = _as_text(row.get("kind")) or "peer_agent"
    metadata = _message_metadata(params)
    approval = metadata if kind in APPROVAL_KINDS else {}
    revision = approval.get("revision")
    return InboxMessage(
        kind=kind,
        workspace_id=workspace_id,
        peer_id=_as_text(row.get("source_id")),
        method=_as_text(row.get("method")),
        activity_id=_as_text(row.get("id")),
        ts=created_at,
        body=text,
        instructions=parse_instructions(row.get("instructions")),
        text=text,
        created_at=created_at,
        arrival_workspace_id=workspace_id,
        intent=_as_text(row.get("intent")) or "request",
        peer_name=_as_text(row.get("peer_name")),
        peer_role=_as_text(row.get("peer_role")),
        user_name=_as_text(_as_object(params.get("metadata")).get("username")),
        attempt=row["attempt"] if isinstance(row.get("attempt"), int) else 0,
        redelivered=row.get("redelivered") is True,
        reminder=row.get("reminder") is True,
        attachments=attachments_of(parts),
        agent_card_url=_as_text(row.get("agent_card_url")),
        delegation_id=_as_text(metadata.get("delegation_id")) if kind in _DELEGATION_KINDS else "",
        approval_id=_as_text(approval.get("approval_id")),
        revision=revision if isinstance(revision, int) else 0,
        action_hash=_as_text(approval.get("action_hash")),
    )


def _message_metadata(params: dict[str, Any]) -> dict[str, Any]:
    """What was said beside the words of a message."""
    return _as_object(_as_object(params.get("message")).get("metadata"))


def _as_object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else ""
