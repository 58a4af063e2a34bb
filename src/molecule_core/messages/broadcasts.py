"""Sends broadcasts: a copy in each inbox of the organisation, in one transaction. Called by the message writer."""

from collections.abc import Generator, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from molecule_core.common.clock import Clock
from molecule_core.common.errors import BroadcastDisabled, BroadcastTooWide
from molecule_core.common.ids import IdGenerator
from molecule_core.common.limits import Limits
from molecule_core.common.text import truncate_line
from molecule_core.messages import rules
from molecule_core.messages.activities import insert_mentions, schedule_delivery
from molecule_core.messages.chains.model import NEW_CHAIN, ChainLink
from molecule_core.messages.chains.writer import ChainWriter
from molecule_core.messages.files import attachments
from molecule_core.messages.model import (
    SUMMARY_LENGTH,
    Activity,
    BroadcastDraft,
    BroadcastReceipt,
    InboxState,
    MessageDraft,
)
from molecule_core.messages.storage_usage import ROW_BYTES, StorageQuota, count_bytes
from molecule_core.org.model import Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import (
    Command,
    CommandSteps,
    CurrentNumber,
    JournalEvent,
    NextNumber,
    ReadQuery,
    RequestBatch,
    StepRequest,
    Store,
    WriteSet,
)
from molecule_core.store.journal import log_key, org_key
from molecule_core.wire.schemas.activity import ActivityMethod, ActivityType, Intent, MessageKind


class BroadcastWriter:
    """Sends messages of a workspace to all others."""

    def __init__(
        self,
        store: Store,
        org: OrgReader,
        chains: ChainWriter,
        quota: StorageQuota,
        *,
        clock: Clock,
        ids: IdGenerator,
        limits: Limits,
    ) -> None:
        self._store = store
        self._org = org
        self._chains = chains
        self._quota = quota
        self._clock = clock
        self._ids = ids
        self._limits = limits

    def list_recipients(self, workspace_id: str) -> list[Workspace]:
        """Return the recipients of a workspace's broadcast.

        Raises BroadcastDisabled, BroadcastTooWide, NotFound, WorkspaceRemoved."""
        own = self._org.active_workspace(workspace_id)
        if not own.broadcast_enabled:
            raise BroadcastDisabled
        others = [each for each in self._org.workspaces(own.org_id) if each.id != workspace_id]
        if len(others) > self._limits.broadcast_most:
            raise BroadcastTooWide(count=len(others), limit=self._limits.broadcast_most)
        return others

    async def send(self, workspace_id: str, broadcast: BroadcastDraft) -> BroadcastReceipt:
        """Send a copy to each active workspace with inbox capacity; the receipt names the others.

        Raises MessageIdReused, ChainFrozen, ChainEnded, InvalidMessage, and the errors of `list_recipients`."""
        key = () if broadcast.dedupe_key is None else (("message", broadcast.sender.key, broadcast.dedupe_key),)
        keys = (*key, *attachments.file_keys(broadcast.parts))
        org_id = self._org.active_workspace(workspace_id).org_id
        return await self._store.run(Command(org_id, keys, partial(self._decide_broadcast, workspace_id, broadcast)))

    def _decide_broadcast(self, workspace_id: str, broadcast: BroadcastDraft) -> CommandSteps[BroadcastReceipt]:
        others, own_id = self.list_recipients(workspace_id), self._ids.new()
        org_id = self._org.active_workspace(workspace_id).org_id
        digest = rules.hash_of_parts(workspace_id, broadcast.parts)
        if broadcast.dedupe_key is not None:
            duplicates = yield ReadQuery(
                "message_by_dedupe_key", {"sender": broadcast.sender.key, "dedupe_key": broadcast.dedupe_key}
            )
            if duplicates:
                receipt = rules.replayed_receipt(duplicates[0], digest=digest, message_id=broadcast.dedupe_key)
                stored = yield ReadQuery("response_of", {"id": receipt.activity_id})
                return WriteSet(msgspec.json.decode(stored[0][0], type=BroadcastReceipt))
        yield from self._quota.check_bodies(org_id, workspace_id, len(broadcast.text.encode()))
        link = yield from self._find_link(org_id, workspace_id, broadcast, len(others))
        if isinstance(link, WriteSet):
            return link
        resolved = yield from attachments.resolve_files(broadcast.parts, org_id, broadcast.sender.workspace_id)
        broadcast = replace(broadcast, parts=resolved.parts)
        recipients, skipped = yield from self._reserve_slots(others)
        copies_link = link
        if link.root_id is None:  # this message begins the chain, and the copies are its first followers
            copies_link = ChainLink(own_id, 0, own_id, numbers=tuple(range(1, len(others) + 1)))
        seqs = yield RequestBatch(
            [NextNumber("last_seq", id_) for id_ in (workspace_id, *(each.id for each, _ in recipients))]
        )
        broadcast_receipt = BroadcastReceipt(own_id, len(recipients), skipped)
        own = _sender_activity(
            workspace_id, broadcast, link, digest, broadcast_receipt, seqs[0], org_id=org_id, now=self._clock.now()
        )
        copies = [
            (each, _recipient_activity(own, copies_link, self._ids.new(), each.id, inbound_no, chain_no, seq))
            for (each, inbound_no), chain_no, seq in zip(recipients, copies_link.numbers, seqs[1:], strict=False)
        ]
        return _broadcast_changes(broadcast_receipt, own, copies, resolved.file_ids)

    def _find_link(
        self, org_id: str, workspace_id: str, broadcast: BroadcastDraft, count: int
    ) -> Generator[StepRequest, Any, ChainLink | WriteSet[Any]]:
        if broadcast.sender.workspace_id is None:
            return NEW_CHAIN
        return (yield from self._chains.link_message(org_id, workspace_id, broadcast.cause_id, count=count))

    def _reserve_slots(
        self, others: list[Workspace]
    ) -> Generator[StepRequest, Any, tuple[list[tuple[Workspace, int]], list[str]]]:
        """Take an inbound number for each recipient; also returns the names of workspaces with a full inbox."""
        limit = self._limits.inbox_unhandled
        heads = yield RequestBatch([CurrentNumber("last_inbound", each.id) for each in others])
        nearly_full = [
            each.id for each, head in zip(others, heads, strict=True) if head + self._limits.group_commands >= limit
        ]
        rows = yield RequestBatch([ReadQuery("inbox_state", {"workspace_id": id_}) for id_ in nearly_full])
        inboxes = {id_: InboxState(*found[0]) for id_, found in zip(nearly_full, rows, strict=True) if found}
        maximums = [rules.max_inbound_no(inboxes.get(each.id, InboxState()), limit) for each in others]
        numbers = yield RequestBatch(
            [NextNumber("last_inbound", each.id, maximum) for each, maximum in zip(others, maximums, strict=True)]
        )
        found = list(zip(others, numbers, strict=True))
        recipients = [(each, number) for each, number in found if number is not None]
        return recipients, [each.name for each, number in found if number is None]


def _sender_activity(
    workspace_id: str,
    broadcast: BroadcastDraft,
    link: ChainLink,
    digest: str,
    broadcast_receipt: BroadcastReceipt,
    seq: int,
    *,
    org_id: str,
    now: int,
) -> Activity:
    """Build the row for the sender's own log. The copies share its columns, so that the body is encoded once."""
    own_id, sender = broadcast_receipt.activity_id, broadcast.sender
    message = {"kind": "message", "role": "agent", "parts": broadcast.parts, "metadata": {}}
    draft = MessageDraft(sender, {"metadata": {}}, message, None, broadcast.text, Intent.INFORM, None, own_id)
    body, response = rules.stored_body(draft, MessageKind.BROADCAST, own_id), msgspec.json.encode(broadcast_receipt)
    return Activity(
        id=own_id,
        org_id=org_id,
        workspace_id=workspace_id,
        seq=seq,
        size=len(body) + len(response),
        activity_type=ActivityType.SEND,
        method=ActivityMethod.BROADCAST_SENT,
        kind=MessageKind.BROADCAST,
        intent=Intent.INFORM,
        source_id=workspace_id,
        user_id=sender.user_id,
        sender=sender.key,
        dedupe_key=broadcast.dedupe_key,
        content_hash=digest,
        context_id=own_id,
        created_at=now,
        summary=truncate_line(broadcast.text, SUMMARY_LENGTH),
        request_body=body.decode(),
        response_body=response.decode(),
        root_id=link.root_id,
        hop=link.hop,
        cause_id=link.cause_id,
    )


def _recipient_activity(
    own: Activity, link: ChainLink, id_: str, target_id: str, inbound_no: int, chain_no: int | None, seq: int
) -> Activity:
    return replace(
        own,
        id=id_,
        workspace_id=target_id,
        target_id=target_id,
        seq=seq,
        inbound_no=inbound_no,
        size=own.size - len((own.response_body or "").encode()),
        activity_type=ActivityType.RECEIVE,
        method=ActivityMethod.BROADCAST,
        dedupe_key=None,
        content_hash=None,
        response_body=None,
        root_id=link.root_id,
        hop=link.hop,
        cause_id=link.cause_id,
        chain_no=chain_no,
    )


def _broadcast_changes(
    broadcast_receipt: BroadcastReceipt,
    own: Activity,
    copies: Sequence[tuple[Workspace, Activity]],
    file_ids: Sequence[str],
) -> WriteSet[BroadcastReceipt]:
    rows = (own, *(row for _, row in copies))
    written = WriteSet(
        broadcast_receipt,
        [
            *(("insert_activity", row) for row in rows),
            *(count_bytes(row.org_id, row.workspace_id, bodies=row.size + ROW_BYTES) for row in rows),
            *(mention for row in rows for mention in insert_mentions(row, file_ids)),
        ],
        [
            JournalEvent(
                "BROADCAST_MESSAGE" if row is own else "ACTIVITY_LOGGED",
                row.workspace_id,
                "activity",
                row.id,
                at=row.created_at,
            )
            for row in rows
        ],
        (*(log_key(row.workspace_id) for row in rows), org_key(own.org_id)),
    )
    # After all rows, so that their inserts stay adjacent and run together.
    return written + sum((schedule_delivery(target, row) for target, row in copies), WriteSet(None))
