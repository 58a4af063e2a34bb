"""Builds new log rows, and the writes and events that insert them. Calls delivery_log."""

from collections.abc import Generator, Iterable, Sequence
from typing import Any, Required, TypedDict, Unpack

from molecule_core.common.text import truncate_line
from molecule_core.messages.chains.model import NEW_CHAIN, ChainLink
from molecule_core.messages.delivery_log import record_tick
from molecule_core.messages.delivery_state import DeliveryTick
from molecule_core.messages.events import AnswerContent
from molecule_core.messages.model import MESSAGE_EXPIRY_TIMER, SUMMARY_LENGTH, Activity, Sender
from molecule_core.messages.rules import encode_message
from molecule_core.messages.storage_usage import ROW_BYTES, count_bytes
from molecule_core.org.model import Workspace, WorkspaceStatus
from molecule_core.store.database import JournalEvent, NextNumber, Statement, StepRequest, WriteSet
from molecule_core.store.journal import PUSHES_KEY, log_key, org_key
from molecule_core.store.timers import TIMERS_KEY, set_timer
from molecule_core.wire.schemas.activity import ActivityMethod, ActivityType, MessageKind


class ActivityColumns(TypedDict, total=False):
    """Columns that the functions below do not derive. One that is left out has the default of `Activity`."""

    method: str
    dedupe_key: str | None
    content_hash: str | None
    context_id: str | None
    status: str


class SentColumns(ActivityColumns, total=False):
    """The same for a row of a workspace's own log."""

    activity_type: str
    chat: int
    target_id: str | None
    sender: str


class ReceivedColumns(ActivityColumns, total=False):
    """The same for a row of an inbox."""

    kind: Required[str]
    intent: Required[str]
    error_detail: str | None
    response_body: str
    expires_at: int | None
    trace_parent: str | None


def sent_activity(
    org_id: str,
    workspace_id: str,
    id_: str,
    at: int,
    text: str,
    body: bytes,
    *,
    link: ChainLink = NEW_CHAIN,
    **columns: Unpack[SentColumns],
) -> Generator[StepRequest, Any, Activity]:
    """Build the row of something that a workspace sent, by default a message; takes its number.

    `at`: microseconds. `text`: its beginning is the summary."""
    columns.setdefault("activity_type", ActivityType.SEND)
    columns.setdefault("method", ActivityMethod.SEND)
    columns.setdefault("sender", f"workspace:{workspace_id}")
    return Activity(
        id=id_,
        org_id=org_id,
        workspace_id=workspace_id,
        seq=(yield NextNumber("last_seq", workspace_id)),
        size=len(body),
        source_id=workspace_id,
        created_at=at,
        summary=truncate_line(text, SUMMARY_LENGTH),
        request_body=body.decode(),
        root_id=link.root_id,
        hop=link.hop,
        cause_id=link.cause_id,
        chain_no=link.chain_no,
        **columns,
    )


def received_activity(
    target: Workspace,
    id_: str,
    at: int,
    sender: Sender,
    text: str,
    body: bytes,
    *,
    inbound_no: int | None = None,
    link: ChainLink = NEW_CHAIN,
    **columns: Unpack[ReceivedColumns],
) -> Generator[StepRequest, Any, Activity]:
    """Build the row of a message for an inbox; takes its numbers.

    `at`: microseconds. `text`: its beginning is the summary. `inbound_no`: None if inbox limits do not apply."""
    columns.setdefault("method", ActivityMethod.SEND)
    columns.setdefault("context_id", id_)
    if inbound_no is None:
        inbound_no = yield NextNumber("last_inbound", target.id)
    return Activity(
        id=id_,
        org_id=target.org_id,
        workspace_id=target.id,
        seq=(yield NextNumber("last_seq", target.id)),
        inbound_no=inbound_no,
        chat=int(columns["kind"] == MessageKind.USER),
        size=len(body) + len(columns.get("response_body", "").encode()),
        activity_type=ActivityType.RECEIVE,
        source_id=sender.workspace_id,
        target_id=target.id,
        user_id=sender.user_id,
        sender=sender.key,
        created_at=at,
        summary=truncate_line(text, SUMMARY_LENGTH),
        request_body=body.decode(),
        root_id=link.root_id,
        hop=link.hop,
        cause_id=link.cause_id,
        chain_no=link.chain_no,
        small_talk=link.small_talk,
        **columns,
    )


def answer_activity(
    org_id: str,
    workspace_id: str,
    answer: AnswerContent,
    at: int,
    metadata: dict[str, Any],
    **columns: Unpack[SentColumns],
) -> Generator[StepRequest, Any, Activity]:
    """Build the row of an answer that is not stored as a message, for the log of its sender."""
    message = {"kind": "message", "role": "agent", "messageId": answer.id, "parts": answer.parts, "metadata": metadata}
    columns["sender"], columns["context_id"] = answer.sender, answer.context_id or answer.id
    columns["dedupe_key"], columns["content_hash"] = answer.dedupe_key, answer.content_hash
    return sent_activity(org_id, workspace_id, answer.id, at, answer.text, encode_message(message), **columns)


def schedule_delivery(target: Workspace, activity: Activity) -> WriteSet[None]:
    """Schedule the message's expiry, its push, and a wake request for a hibernated agent."""
    scheduled = WriteSet(None)
    if activity.expires_at is not None:
        timer_write = set_timer(MESSAGE_EXPIRY_TIMER, activity.id, activity.expires_at)
        scheduled += WriteSet(None, [timer_write], notify=(TIMERS_KEY,))
    if target.uses_push:
        wake_write = ("schedule_push_check", {"workspace_id": target.id, "due": activity.created_at})
        scheduled += WriteSet(None, [wake_write], notify=(PUSHES_KEY,))
    if target.status is WorkspaceStatus.HIBERNATED:
        scheduled += record_tick(
            target.id, DeliveryTick.WAKE_REQUESTED, activity.seq, activity.inbound_no or 0, activity.created_at
        )
    return scheduled


def insert_activity(
    activity: Activity, file_ids: Sequence[str] = (), *, event_name: str = "ACTIVITY_LOGGED"
) -> WriteSet[Activity]:
    """Insert a log row: the row, the files that it mentions, its journal event and wake-ups."""
    return WriteSet(
        activity,
        [
            ("insert_activity", activity),
            count_bytes(activity.org_id, activity.workspace_id, bodies=activity.size + ROW_BYTES),
            *(insert_mentions(activity, file_ids) if file_ids else ()),
        ],
        [JournalEvent(event_name, activity.workspace_id, "activity", activity.id, at=activity.created_at)],
        (log_key(activity.workspace_id), org_key(activity.org_id)),
    )


def insert_mentions(activity: Activity, file_ids: Iterable[str]) -> list[Statement]:
    """Record the files that a row mentions.

    A mentioned file is retained, and the workspace that owns the log may read it."""
    row = {"activity_id": activity.id, "workspace_id": activity.workspace_id}
    return [("insert_mention", {"file_id": each, **row}) for each in file_ids]
