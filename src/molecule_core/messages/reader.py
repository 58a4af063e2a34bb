"""Reads logs, inboxes, chats and chains."""

from bisect import bisect_left
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from molecule_core.common.clock import to_rfc3339, yield_to_others
from molecule_core.common.errors import CursorNotFound
from molecule_core.common.limits import Limits
from molecule_core.messages.chains.model import Chain, ChainMessage
from molecule_core.messages.chat_view import (
    PeerMessageColumns,
    message_parts,
    question_options,
    stored_message,
    to_chat_head,
    to_chat_message,
    to_markdown,
    to_peer_message,
)
from molecule_core.messages.model import (
    ActivityFilters,
    ActivityPageRow,
    InboxState,
    LivePayload,
    PeerPosition,
    PlacedPeerMessage,
    TracedMessage,
    TurnLog,
)
from molecule_core.messages.rules import text_of
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Row, Store
from molecule_core.store.journal import log_key
from molecule_core.store.queries import Params
from molecule_core.store.wakeups import Notifier, Poll
from molecule_core.wire.schemas.activity import (
    ActivityMethod,
    ActivityRow,
    ActivityType,
    ChatPage,
    MailSender,
    MessageKind,
    WaitingMail,
    attachments_of,
)
from molecule_core.wire.schemas.conversations import ConversationPeer, ConversationPeers, LastPeerMessage
from molecule_core.wire.schemas.events import ActivityPayload, AgentMessagePayload
from molecule_core.wire.schemas.live import SnapshotChat, SnapshotUnanswered
from molecule_core.wire.schemas.questions import QuestionPage, QuestionRow

# 4 KiB: the bodies that a live event carries. Clients read larger ones with the row.
_MAX_PAYLOAD_BYTES = 4096
# Maximum number of unanswered messages in a snapshot: more than a page can show.
_MAX_UNANSWERED = 10_000
# Messages of a conversation are counted up to this number in each direction.
_MAX_COUNTED = 1000
# Characters of the text of a question in a list. Its chat has all of it.
_MAX_QUESTION_TEXT = 2000
_PEER_COLUMNS = len(PeerMessageColumns._fields)
# Inboxes per batch.
_INBOX_BATCH = 200
_NEWEST = (1 << 62) - 1
# Later than the end of every lease.
_AFTER_ALL_LEASES = (1 << 62) - 1


class InboxTotals(NamedTuple):
    """Unacknowledged messages of inboxes: in total, in the fullest one, and the workspaces that have any."""

    total: int
    largest: int
    workspace_ids: list[str]


class MessageReader:
    """Reads pages of activity and chat, and converts them for clients."""

    def __init__(self, store: Store, org: OrgReader, wakeups: Notifier, *, limits: Limits, public_url: str) -> None:
        self._store = store
        self._org = org
        self._wakeups = wakeups
        self._limits = limits
        self._public_url = public_url

    async def find_seq(self, workspace_id: str, activity_id: str) -> int | None:
        """Return the `seq` of a row in the log of a workspace; None if the log has no such row."""
        rows = await self._store.rows("position_of_activity", {"id": activity_id, "workspace_id": workspace_id})
        return rows[0][0] if rows else None

    async def has_sent(self, workspace_id: str, message_id: str) -> bool:
        """Return whether a workspace has sent a message with this id: another one is a repetition or rejected."""
        key = {"sender": f"workspace:{workspace_id}", "dedupe_key": message_id}
        return bool(await self._store.rows("message_by_dedupe_key", key))

    async def list_newest(
        self, workspace_id: str, filters: ActivityFilters, count: int, *, wait: float = 0, skip_dead: bool = False
    ) -> list[ActivityPageRow]:
        """List the newest matching rows, newest first; waits up to `wait` seconds for a first one.

        `skip_dead`: leave out dead letters without counting them."""
        page = self._page_params(workspace_id, filters, count, skip_dead)
        return await self._wait_for_rows(workspace_id, partial(self._load_rows, "activity_newest", page), wait)

    async def list_after(
        self,
        workspace_id: str,
        seq: int,
        filters: ActivityFilters,
        count: int,
        *,
        wait: float = 0,
        page_bytes: int | None = None,
        skip_dead: bool = False,
    ) -> list[ActivityPageRow]:
        """List matching rows after `seq`, oldest first; waits up to `wait` seconds for a first one.

        `page_bytes`: bytes left in the page (None: all). `skip_dead`: leave out dead letters without counting them."""
        if page_bytes is None:
            page_bytes = self._limits.page_bytes
        if filters.activity_type == ActivityType.RECEIVE and filters.is_whole_inbox:
            cursor_params = partial(self._inbox_after, workspace_id, seq, count, page_bytes, skip_dead)
            return await self._wait_for_rows(workspace_id, cursor_params, wait)
        page = {**self._page_params(workspace_id, filters, count, skip_dead), "page_bytes": page_bytes, "seq": seq}
        return await self._wait_for_rows(workspace_id, partial(self._load_rows, "activity_after", page), wait)

    async def list_unacked(self, workspace_id: str, count: int, now: int, after: int = 0) -> list[ActivityPageRow]:
        """List unacknowledged messages after a position, claimed or not, oldest first."""
        states = await self._store.rows("inbox_state", {"workspace_id": workspace_id})
        inbox = InboxState(*states[0]) if states else InboxState()
        page_bytes = self._limits.page_bytes
        page = {"workspace_id": workspace_id, "seq": inbox.acked_seq, "count": count, "page_bytes": page_bytes}
        below_floor = {**page, "now": _AFTER_ALL_LEASES, "after": after}
        found = await self._store.rows("requeued_rows", below_floor) if inbox.requeued else []
        requeued_rows, page_bytes = split_requeued_page(found, page_bytes)
        # `requeued_rows` counts the next attempt; this page shows the last one.
        before = [replace(row, attempt=(row.attempt or 0) - 1 or None) for row in requeued_rows]
        if page_bytes <= 0:
            return before
        page["seq"] = max(after, inbox.acked_seq)
        rows = await self._store.rows("waiting_rows", {**page, "now": now, "page_bytes": page_bytes})
        return [*before, *(ActivityPageRow(*row) for row in rows)][:count]

    async def _inbox_after(
        self, workspace_id: str, seq: int, count: int, page_bytes: int, skip_dead: bool
    ) -> list[ActivityPageRow]:
        """Read the inbox after `seq`; the usual empty poll costs one lookup in memory or in an index."""
        if self._is_at_end(workspace_id, seq):
            return []
        cursor_params = {"workspace_id": workspace_id, "seq": seq, "count": count, "living": int(skip_dead)}
        last = _last_seq_of_page(await self._store.rows("inbox_sizes", cursor_params), page_bytes)
        return [] if last is None else await self._load_rows("inbox_rows", {**cursor_params, "last": last})

    async def _load_rows(self, query: str, params: dict[str, object]) -> list[ActivityPageRow]:
        return [ActivityPageRow(*row) for row in await self._store.rows(query, params)]

    def _is_at_end(self, workspace_id: str, seq: int) -> bool:
        """Return whether a log surely has nothing after `seq`, which saves the usual poll its query."""
        highest = self._store.last_known_number("last_seq", workspace_id)
        return highest is not None and highest <= seq

    async def _wait_for_rows(
        self, workspace_id: str, find: Callable[[], Awaitable[list[ActivityPageRow]]], wait: float
    ) -> list[ActivityPageRow]:
        if wait <= 0:
            return await find()

        async def poll_rows() -> Poll[list[ActivityPageRow]]:
            self._org.active_workspace(workspace_id)  # it may have been removed during the wait
            return Poll(await find() or None)

        return await self._wakeups.wait_until(log_key(workspace_id), poll_rows, wait) or []

    def _page_params(
        self, workspace_id: str, filters: ActivityFilters, count: int, skip_dead: bool
    ) -> dict[str, object]:
        return {
            "workspace_id": workspace_id,
            **msgspec.structs.asdict(filters),
            "count": count,
            "page_bytes": self._limits.page_bytes,
            "living": int(skip_dead),
        }

    async def chat_page(
        self,
        workspace_id: str,
        *,
        count: int,
        before: int | None = None,
        before_seq: int | None = None,
        after_seq: int | None = None,
    ) -> ChatPage:
        """Return a page of chat, oldest first.

        The newest messages, or those before a time (microseconds) or row, or after a row."""
        page: dict[str, object] = {
            "workspace_id": workspace_id,
            "count": count + 1,
            "page_bytes": self._limits.page_bytes,
        }
        if after_seq is not None:
            rows = list(await self._store.rows("chat_after", {**page, "seq": after_seq}))
        else:
            newest: Params = {**page, "seq": before_seq or _NEWEST, "before": before}
            rows = list(await self._store.rows("chat_newest", newest))
        has_more = len(rows) > count or (
            len(rows) > 0 and await self._has_more_chat(workspace_id, rows[-1][1], after_seq)
        )
        rows = rows[:count]
        if after_seq is None:
            rows.reverse()
        return ChatPage([to_chat_message(*row) for row in rows], reached_end=not has_more)

    async def _has_more_chat(self, workspace_id: str, seq: int, after_seq: int | None) -> bool:
        """Return whether chat continues beyond a row: a page may have ended at its byte limit."""
        beyond: dict[str, object] = {"workspace_id": workspace_id, "count": 1, "page_bytes": 1, "seq": seq}
        if after_seq is not None:
            return bool(await self._store.rows("chat_after", beyond))
        return bool(await self._store.rows("chat_newest", {**beyond, "before": None}))

    async def chat_heads(self, workspace_ids: list[str], person_id: str) -> list[SnapshotChat]:
        """Return the chat summaries of workspaces for one person; workspaces without chat have none."""
        queries: list[Params] = [
            {"workspace_id": each, "person_id": person_id, "most": self._limits.unread_count} for each in workspace_ids
        ]
        found = await self._store.rows_of_each("chat_head", queries)
        return [to_chat_head(*rows[0]) for rows in found if rows]

    async def list_unanswered(self, org_id: str) -> list[SnapshotUnanswered]:
        """List messages of an organisation that are overdue or answered outside."""
        found: dict[str, SnapshotUnanswered] = {}
        for workspace_id, seq, overdue, outside in await self._store.rows(
            "unanswered_of_org", {"org_id": org_id, "most": _MAX_UNANSWERED}
        ):
            workspace = self._org.workspace(workspace_id)
            if workspace is None or workspace.removed:
                continue
            waiting = found.setdefault(workspace_id, SnapshotUnanswered(workspace_id, [], []))
            if overdue:
                waiting.overdue.append(seq)
            if outside:
                waiting.outside.append(seq)
        return list(found.values())

    async def message_parts(self, workspace_id: str, seq: int) -> list[dict[str, Any]] | None:
        """Return the parts of an inbox message; None if it was pruned."""
        query = {"workspace_id": workspace_id, "seq": seq - 1, "last": seq, "living": 0}
        rows = await self._store.rows("inbox_rows", query)
        body = ActivityPageRow(*rows[0]).request_body if rows else None
        return None if body is None else message_parts(body)

    async def live_payloads(self, activity_ids: list[str]) -> dict[str, LivePayload]:
        """Return the live-event payloads of rows, by id."""
        queries: list[Params] = [{"id": each, "most": _MAX_PAYLOAD_BYTES} for each in activity_ids]
        found = await self._store.rows_of_each("activity_for_event", queries)
        return {rows[0][0]: self._to_live_payload(*rows[0]) for rows in found if rows}

    def _to_live_payload(
        self, id_: str, seq: int, activity_type: str, chat: int, method: str | None, kind: str | None, *rest: Any
    ) -> LivePayload:
        source_id, target_id, status, duration_ms, summary, error_detail, *bodies = rest[:-5]
        if chat and method == ActivityMethod.NOTIFY:  # an agent may use any method name in its own log
            return LivePayload(self._agent_message_payload(seq, source_id, bodies[0]))
        request_body, response_body, tool_trace = (None if body is None else Raw(body.encode()) for body in bodies)
        view = ActivityPayload(
            activity_type=activity_type,
            status=status,
            seq=seq,
            method=method,
            kind=kind,
            summary=summary,
            source_id=source_id,
            target_id=target_id,
            duration_ms=duration_ms,
            request_body=request_body,
            response_body=response_body,
            tool_trace=tool_trace,
            error_detail=error_detail,
        )
        client_id = stored_message(bodies[0])["messageId"] if kind == MessageKind.USER else None
        workspace_id, intent, created_at, context_id, inbound_no = rest[-5:]
        if inbound_no is None:
            return LivePayload(msgspec.json.encode(view), client_id)
        head_columns = (
            id_,
            workspace_id,
            seq,
            activity_type,
            method,
            kind,
            intent,
            source_id,
            target_id,
            status,
            created_at,
        )
        bodies_columns = (duration_ms, summary, error_detail, bodies[0], None, None)
        row = ActivityPageRow(*head_columns, *bodies_columns, None, 0, None, None, context_id, inbound_no)
        return LivePayload(msgspec.json.encode(view), client_id, row)

    def _agent_message_payload(self, seq: int, workspace_id: str, request_body: str) -> bytes:
        workspace, parts = self._org.workspace(workspace_id), message_parts(request_body)
        message = AgentMessagePayload(
            message=to_markdown(parts),
            workspace_id=workspace_id,
            name="" if workspace is None else workspace.name,
            seq=seq,
            attachments=attachments_of(parts),
            options=question_options(request_body),
        )
        return msgspec.json.encode(message)

    async def count_unacked(self, workspace_ids: list[str]) -> InboxTotals:
        """Count unacknowledged messages of inboxes."""
        total = largest = 0
        used = list[str]()
        for first in range(0, len(workspace_ids), _INBOX_BATCH):
            batch = workspace_ids[first : first + _INBOX_BATCH]
            queries: list[Params] = [{"workspace_id": each} for each in batch]
            counts = [rows[0] for rows in await self._store.rows_of_each("inbox_unhandled", queries)]
            found = [unhandled for unhandled, _ in counts]
            total, largest = total + sum(found), max(largest, *found)
            used += [workspace_id for workspace_id, count in zip(batch, counts, strict=True) if any(count)]
            await yield_to_others()
        return InboxTotals(total, largest, used)

    async def count_overdue(self) -> int:
        """Return how many messages of all organisations have an overdue answer."""
        return await self._count_in_orgs("overdue_count")

    async def count_dead_letters(self) -> int:
        """Return how many dead letters all organisations have."""
        return await self._count_in_orgs("dead_letter_count")

    async def _count_in_orgs(self, query: str) -> int:
        queries: list[Params] = [{"org_id": each.id} for each in self._org.orgs()]
        return sum(rows[0][0] for rows in await self._store.rows_of_each(query, queries))

    async def count_ahead(self, positions: list[tuple[str, int]]) -> list[int]:
        """Count the unacknowledged rows before each (workspace, seq)."""
        most = self._limits.unread_count
        queries: list[Params] = [{"workspace_id": each, "seq": seq, "most": most} for each, seq in positions]
        return [rows[0][0] for rows in await self._store.rows_of_each("rows_ahead", queries)] if queries else []

    async def waiting_mail(self, workspace_id: str, now: int) -> WaitingMail:
        """Return the waiting mail of an inbox by sender, without delivering or acknowledging anything."""
        most = self._limits.unread_count
        query = {"workspace_id": workspace_id, "now": now, "count": most + 1}
        rows = list(await self._store.rows("unacknowledged_messages", query))
        senders: dict[str | None, int] = {}
        for source_id, _ in rows[:most]:
            senders[source_id] = senders.get(source_id, 0) + 1
        workspace = self._org.workspace(workspace_id)
        return WaitingMail(
            workspace_id,
            "" if workspace is None else workspace.name,
            min(len(rows), most),
            len(rows) > most,
            to_rfc3339(rows[0][1]) if rows else None,
            [self._to_mail_sender(source_id, count) for source_id, count in senders.items()],
        )

    def _to_mail_sender(self, source_id: str | None, count: int) -> MailSender:
        peer = None if source_id is None else self._org.workspace(source_id)
        return MailSender(source_id or "", "" if peer is None else peer.name, count)

    def to_activity_row(self, row: ActivityPageRow, *, with_peer: bool, with_files: bool) -> ActivityRow:
        """Convert a row for clients; `with_peer` adds its sender, `with_files` its files."""
        result = ActivityRow(
            row.id,
            row.workspace_id,
            row.seq,
            row.activity_type,
            row.method,
            row.kind,
            row.intent,
            row.source_id,
            row.target_id,
            row.status,
            to_rfc3339(row.created_at),
            row.duration_ms,
            row.summary,
            row.error_detail,
            _to_raw(row.request_body),
            _to_raw(row.response_body or _notice_response(row)),
            _to_raw(row.tool_trace),
        )
        if row.root_id is not None:
            result.root_id = row.root_id
            result.hop = row.hop
            result.cause_id = row.cause_id or UNSET
        if row.trace_parent is not None:
            result.trace_parent = row.trace_parent
        if row.attempt is not None:
            result.attempt = row.attempt
            result.redelivered = row.attempt > 1
        if row.reminder:
            result.reminder = True
        if with_peer:
            self._add_peer(result, row)
        if with_files and row.request_body and '"file"' in row.request_body:
            result.attachments = attachments_of(message_parts(row.request_body)) or UNSET
        return result

    def _add_peer(self, result: ActivityRow, row: ActivityPageRow) -> None:
        peer = self._org.workspace(row.source_id) if row.source_id else None
        if peer is not None:
            result.peer_name = peer.name
            result.peer_role = peer.role or UNSET
            result.agent_card_url = f"{self._public_url}/registry/discover/{peer.id}"


class PeerMessageReader:
    """Reads messages between two workspaces: the rows of each one's inbox that the other one sent, by time."""

    def __init__(self, store: Store, org: OrgReader, *, limits: Limits) -> None:
        self._store = store
        self._org = org
        self._limits = limits

    async def list_peers(self, org_id: str, workspace_id: str, count: int, before: str | None) -> ConversationPeers:
        """List the peers of a workspace, last message first, after the peer `before`. Raises CursorNotFound."""
        found = await self._store.rows("peers_of_workspace", {"org_id": org_id, "workspace_id": workspace_id})
        ordered = [peer_id for _, peer_id in sorted(((max(got, sent), peer_id) for peer_id, got, sent in found))][::-1]
        if before is not None and before not in ordered:
            raise CursorNotFound(name="before")
        first = 0 if before is None else ordered.index(before) + 1
        page = ordered[first : first + count]
        heads = [
            await self._store.rows_of_each(
                "peer_head", [{**self._direction(workspace_id, each, sent), "most": _MAX_COUNTED} for each in page]
            )
            for sent in (False, True)
        ]
        rows = [
            self._peer_row(each, [*got, *sent]) for each, got, sent in zip(page, *heads, strict=True) if got or sent
        ]
        return ConversationPeers(rows, reached_end=first + count >= len(ordered))

    def _peer_row(self, peer_id: str, heads: Sequence[Row]) -> ConversationPeer:
        id_, source_id, kind, summary, created_at, _ = max(heads, key=lambda head: (head[4], head[0]))
        peer, counts = self._org.workspace(peer_id), [head[5] for head in heads]
        last = LastPeerMessage(id_, source_id, kind, summary or "", to_rfc3339(created_at))
        return ConversationPeer(peer_id, None if peer is None else peer.name, sum(counts), _MAX_COUNTED in counts, last)

    async def find_position(self, workspace_id: str, peer_id: str, message_id: str) -> PeerPosition | None:
        """Return the position of a message of a conversation; None if it has no such message."""
        query = {"id": message_id, "workspace_id": workspace_id, "peer_id": peer_id}
        rows = await self._store.rows("peer_message_position", query)
        return PeerPosition(*rows[0]) if rows else None

    async def list_before(
        self, workspace_id: str, peer_id: str, position: PeerPosition | None, count: int
    ) -> tuple[list[PlacedPeerMessage], bool]:
        """List messages before a position (None: the newest), newest first, and whether there are more."""
        at, id_ = position or PeerPosition(_NEWEST, "")
        return await self._load_page(workspace_id, peer_id, "peer_messages_before", {"at": at, "id": id_}, count)

    async def list_after(
        self, workspace_id: str, peer_id: str, position: PeerPosition, count: int
    ) -> tuple[list[PlacedPeerMessage], bool]:
        """List messages after a position, oldest first, and whether there are more."""
        query = {"at": position.at, "id": position.id}
        return await self._load_page(workspace_id, peer_id, "peer_messages_after", query, count)

    async def _load_page(
        self, workspace_id: str, peer_id: str, name: str, query: dict[str, object], count: int
    ) -> tuple[list[PlacedPeerMessage], bool]:
        """Merge one page of each direction; beyond the end of either, a message could be missing."""
        page = {**query, "count": count + 1, "page_bytes": self._limits.page_bytes}
        both: list[Params] = [{**page, **self._direction(workspace_id, peer_id, sent)} for sent in (False, True)]
        sign = -1 if name == "peer_messages_before" else 1
        ends, placed = list[PeerPosition](), list[PlacedPeerMessage]()
        for rows in await self._store.rows_of_each(name, both):
            found = [_to_placed(row) for row in rows]
            placed += found
            if rows and PeerMessageColumns(*rows[0][:_PEER_COLUMNS]).found > min(len(rows), count):
                ends.append(found[-1].position)
        placed.sort(key=lambda each: each.position, reverse=sign < 0)
        complete = [
            each for each in placed if all(each.position == end or (each.position < end) == (sign > 0) for end in ends)
        ]
        fitting = _count_in_page([each.size for each in complete[:count]], self._limits.page_bytes)
        return complete[:fitting], bool(ends) or len(complete) > fitting

    def _direction(self, workspace_id: str, peer_id: str, sent: bool) -> dict[str, object]:
        target_id, source_id = (peer_id, workspace_id) if sent else (workspace_id, peer_id)
        return {"workspace_id": target_id, "source_id": source_id}


def _to_placed(row: Row) -> PlacedPeerMessage:
    columns = PeerMessageColumns(*row[:_PEER_COLUMNS])
    message = to_peer_message(columns, *row[_PEER_COLUMNS:])
    size = len(columns.request_body.encode())
    return PlacedPeerMessage(PeerPosition(columns.created_at, columns.id), message, size)


class QuestionReader:
    """Reader of open questions."""

    def __init__(self, store: Store, org: OrgReader, *, limits: Limits) -> None:
        self._store = store
        self._org = org
        self._page_bytes = limits.page_bytes

    async def list_open(self, org_id: str, count: int, after: str | None) -> QuestionPage:
        """List the open questions of an organisation, oldest first. Raises CursorNotFound."""
        at = None if after is None else await self._position(org_id, after)
        page = {"org_id": org_id, "at": at, "after": after, "count": count + 1, "page_bytes": self._page_bytes}
        rows = await self._store.rows("questions_page", page)
        questions = [self._to_question(row) for row in rows[:count]]
        return QuestionPage(questions, reached_end=not rows or rows[0][-1] <= len(questions))

    async def _position(self, org_id: str, question_id: str) -> int:
        rows = await self._store.rows("position_of_question", {"id": question_id, "org_id": org_id})
        if not rows:
            raise CursorNotFound(name="after")
        return int(rows[0][0])

    def _to_question(self, row: Row) -> QuestionRow:
        id_, workspace_id, seq, asked_at, body, _ = row
        workspace = self._org.workspace(workspace_id)
        text = text_of(stored_message(body)["parts"])
        return QuestionRow(
            activity_id=id_,
            workspace_id=workspace_id,
            workspace_name="" if workspace is None else workspace.name,
            seq=seq,
            text=text[:_MAX_QUESTION_TEXT],
            is_cut=len(text) > _MAX_QUESTION_TEXT,
            options=question_options(body),
            asked_at=to_rfc3339(asked_at),
        )


class ChainReader:
    """Reads message chains that exceeded a limit."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def list_chains(self, org_id: str, state: str | None, before: str | None, count: int) -> list[Chain]:
        """List an organisation's chains that exceeded a limit, newest first, after the one named by `before`."""
        query = {"org_id": org_id, "state": state, "before": before, "count": count}
        return [chain_from_row(row) for row in await self._store.rows("chains_of_org", query)]

    async def find_chain(self, org_id: str, root_id: str) -> Chain | None:
        """Return the record of a chain; None if it never exceeded a limit."""
        rows = await self._store.rows("chain", {"org_id": org_id, "root_id": root_id})
        return chain_from_row(rows[0]) if rows else None

    async def list_messages(self, org_id: str, root_id: str, after: int, count: int) -> list[ChainMessage]:
        """List the messages of a chain in order after number `after`; -1 includes the root."""
        chain_key = {"org_id": org_id, "root_id": root_id}
        first = await self._store.rows("chain_root", chain_key) if after < 0 else []
        rest = await self._store.rows(
            "chain_messages", {**chain_key, "after": max(after, 0), "count": count - len(first)}
        )
        return [ChainMessage(*row) for row in (*first, *rest)]


class TraceReader:
    """Reads what one request caused in the logs of messages."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def list_messages(self, org_id: str, activity_id: str, count: int) -> list[TracedMessage]:
        """List the messages of the chain that a message belongs to, the first ones in order; none if it is unknown."""
        first = await self._store.rows("trace_root", {"org_id": org_id, "id": activity_id})
        if not first:
            return []
        query = {"org_id": org_id, "root_id": first[0][0], "count": count - 1}
        return [TracedMessage(*row) for row in (*first, *(await self._store.rows("trace_messages", query)))]

    async def list_turns(self, workspace_id: str, seq: int, last_seq: int) -> list[TurnLog]:
        """List the turns that a bridge logged in a workspace among the rows after `seq` up to `last_seq`."""
        query = {"workspace_id": workspace_id, "seq": seq, "last_seq": last_seq}
        found = [_turn_log(*row) for row in await self._store.rows("turn_logs_after", query)]
        return [each for each in found if each is not None]


class _LoggedTurn(Struct):
    """Body of a bridge's log row. Other rows of bridges have no `usage`."""

    activity_id: str
    usage: dict[str, float]
    tools: dict[str, int] = {}
    usage_key: str = ""


def _turn_log(logged_at: int, duration_ms: int | None, body: str) -> TurnLog | None:
    try:
        logged = msgspec.json.decode(body, type=_LoggedTurn)
    except msgspec.DecodeError:  # ValidationError included: an agent's own row with other members
        return None
    seconds = (duration_ms or 0) / 1000
    return TurnLog(logged_at, seconds, logged.activity_id, logged.usage, logged.tools, logged.usage_key)


def chain_from_row(row: Row) -> Chain:
    """Convert a row of the table to a chain."""
    return Chain(**dict(zip(Chain.__struct_fields__, row, strict=True)))


def split_requeued_page(found: Sequence[Row], page_bytes: int) -> tuple[list[ActivityPageRow], int]:
    """Convert rows of `requeued_rows`; also returns the bytes that they leave in the page."""
    return [ActivityPageRow(*row[:-1]) for row in found], page_bytes - (found[-1][-1] if found else 0)


def _last_seq_of_page(sizes: Sequence[Sequence[int]], max_bytes: int) -> int | None:
    """Return the last row that fits a page, given (seq, bytes) in order; the first always fits. None for no rows."""
    last, total = None, 0
    for seq, size in sizes:
        total += size
        if last is not None and total > max_bytes:
            break
        last = seq
    return last


def _count_in_page(sizes: Sequence[int], max_bytes: int) -> int:
    """Return how many first items fit a page; the one that reaches the limit still does."""
    return min(len(sizes), bisect_left(list(accumulate(sizes)), max_bytes) + 1)


def _to_raw(body: str | None) -> "Raw | msgspec.UnsetType":
    return UNSET if body is None else Raw(body.encode())


def _notice_response(row: ActivityPageRow) -> str | None:
    """Return the response body of an agent's message to its user, where clients of the original Molecule read it."""
    if row.method != ActivityMethod.NOTIFY or row.request_body is None:
        return None
    parts = [part for part in message_parts(row.request_body) if isinstance(part, dict)]
    texts = [part for part in parts if part.get("kind") == "text" and isinstance(part.get("text"), str)]
    others = [part for part in parts if part not in texts]
    return msgspec.json.encode({"result": text_of(texts), **({"parts": others} if others else {})}).decode()
