"""An inbox message as the agent's tools return it (`wait_for_message` and others), built from an activity row."""

from typing import Any

import msgspec
from msgspec import Struct

from molecule_core.wire.schemas.activity import APPROVAL_KINDS, Intent, MessageKind, attachments_of
from molecule_core.wire.schemas.envelope import Instructions, parse_instructions

# In other kinds, senders control the metadata and could forge a task id.
_DELEGATION_KINDS = (MessageKind.DELEGATION, MessageKind.DELEGATION_RESULT)


class InboxMessage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message in the inbox.

    `activity_id` identifies it in every reply; `peer_id` is the sending workspace, empty for a person. `text` equals
    `body` and `created_at` equals `ts`, for older agents. `arrival_workspace_id` equals `workspace_id` for an agent
    with several workspaces and is omitted otherwise."""

    kind: str
    workspace_id: str
    peer_id: str
    method: str
    activity_id: str
    ts: str
    body: str
    instructions: Instructions | None = None
    """How to answer it, if the server sent instructions."""
    text: str
    created_at: str
    arrival_workspace_id: str = ""
    intent: str = Intent.REQUEST
    """`request` (an answer is due), `inform` or `ack`."""
    peer_name: str = ""
    peer_role: str = ""
    user_name: str = ""
    attempt: int = 0
    redelivered: bool = False
    """Delivered before and not acknowledged: check whether you have answered it already."""
    reminder: bool = False
    """Repeated because it is still unanswered, even if it was acknowledged."""
    attachments: list[dict[str, Any]] = []
    agent_card_url: str = ""
    delegation_id: str = ""
    """The task_id of a delegated task or of its result."""
    approval_id: str = ""
    """The approval to decide, or that was decided."""
    revision: int = 0
    """Revision of the approval: 1, plus one for each change or explanation of what is to be decided."""
    action_hash: str = ""
    """Hash of the exact action to decide about."""
    when: str = ""
    """How a message arrives at a running turn: `steer` into it, else after it."""
    option_of: str = ""
    """The question of this workspace that the person answered with one of its options."""

    @property
    def wants_answer(self) -> bool:
        """Return whether an answer is due."""
        return self.intent == Intent.REQUEST

    @property
    def reply_handle(self) -> str:
        """Return the reply handle, or an empty string if it has none."""
        return self.instructions.reply_handle if self.instructions is not None else ""


def message_from_row(row: dict[str, Any], reader_id: str = "") -> InboxMessage:
    """Build the message from a row of `GET /workspaces/{id}/activity`, whatever its body holds.

    `reader_id`: the workspace that read it; overrides the row's."""
    params = _as_object(_as_object(row.get("request_body")).get("params"))
    parts = _as_object(params.get("message")).get("parts")
    parts = parts if isinstance(parts, list) else []
    texts = [_part_text(part) for part in map(_as_object, parts)]
    text = "\n".join(each for each in texts if each is not None) or _as_text(row.get("summary"))
    workspace_id, created_at = reader_id or _as_text(row.get("workspace_id")), _as_text(row.get("created_at"))
    kind = _as_text(row.get("kind")) or MessageKind.PEER
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
        intent=_as_text(row.get("intent")) or Intent.REQUEST,
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
        when=_as_text(metadata.get("when")) if kind == MessageKind.USER else "",
        option_of=_as_text(metadata.get("option_of")) if kind == MessageKind.USER else "",
    )


def _part_text(part: dict[str, Any]) -> str | None:
    """Return the text of a part, data as JSON; None if it has none."""
    if isinstance(text := part.get("text"), str):
        return text
    data = part.get("data")
    return msgspec.json.encode(data).decode() if isinstance(data, dict | list) else None


def _message_metadata(params: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata of the message."""
    return _as_object(_as_object(params.get("message")).get("metadata"))


def _as_object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else ""
