"""The hand that makes messages: what is sent, said to the user, logged, read. What becomes of them is `handing`'s."""

import asyncio
from collections.abc import Generator, Iterable
from functools import partial
from typing import Any

import msgspec

from molecule_core.ground.clock import SECOND, Clock
from molecule_core.ground.errors import InboxFull, MayNotTalk, TalkToUserDisabled
from molecule_core.ground.ids import Ids
from molecule_core.ground.limits import Limits
from molecule_core.ground.text import shorten
from molecule_core.messages import attachments, rules
from molecule_core.messages.broadcasts import Broadcasts
from molecule_core.messages.chains import Chains
from molecule_core.messages.handing import handout, inbox_keys, inbox_of, ticked
from molecule_core.messages.lineage import BEGINS
from molecule_core.messages.model import (
    EXPIRY,
    KIND_PEER,
    KIND_USER,
    NOTIFY,
    RECEIVE,
    SEND,
    SUMMARY_LENGTH,
    WAKE_ASKED,
    Activity,
    Draft,
    Handout,
    Inbox,
    LogEntry,
    Place,
    Receipt,
    Span,
)
from molecule_core.org.model import PUSH, Status, Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.org.rules import may_talk
from molecule_core.store.database import Command, Decision, Event, Peek, Read, Step, Store, T, Take, WriteSet
from molecule_core.store.journal import PUSHES, log_key, org_key
from molecule_core.store.timers import TIMERS, timer
from molecule_core.wire.a2a import SEND as METHOD_SEND


class MessageWriter:
    """Sends and logs messages."""

    def __init__(self, store: Store, org: OrgReader, *, clock: Clock, ids: Ids, limits: Limits) -> None:
        self._store = store
        self._org = org
        self._clock = clock
        self._ids = ids
        self._limits = limits
        self.chains = Chains(store, clock=clock, limits=limits)
        self.broadcasts = Broadcasts(store, org, self.chains, clock=clock, ids=ids, limits=limits)

    # -- sending -------------------------------------------------------------------------------------------------------

    def send(self, workspace_id: str, draft: Draft) -> "asyncio.Future[Receipt]":
        """A message enters an inbox, exactly once for each (sender, id). The receipt comes when it is durable.

        Raises NotFound, WorkspaceRemoved; the future MayNotTalk, MessageIdReused, ChainFrozen, InboxFull,
        InvalidMessage."""
        key = () if draft.dedupe_key is None else (("message", draft.sender.key, draft.dedupe_key),)
        keys = (*key, *attachments.keys_of(draft.message["parts"]))
        target = self._org.living(workspace_id)
        return self._store.run(Command(target.org_id, keys, partial(self._sending, workspace_id, draft)))

    def _sending(self, workspace_id: str, draft: Draft) -> Decision[Receipt]:
        target, sender = self._org.living(workspace_id), draft.sender
        if sender.workspace_id is not None and not may_talk(self._org, self._org.living(sender.workspace_id), target):
            raise MayNotTalk
        life = rules.life_of(draft, self._limits.expires_seconds)
        hashed = None
        if draft.dedupe_key is not None:
            hashed = rules.content_hash(workspace_id, draft)
            twins = yield Read("find_twin", {"sender": sender.key, "dedupe_key": draft.dedupe_key})
            if twins:
                return WriteSet(rules.repeated(twins[0], hashed=hashed, message_id=draft.dedupe_key))
        most_inbound = yield from self._room_in(workspace_id)
        link = BEGINS
        if sender.workspace_id is not None:
            named, text = rules.named_cause(draft.message["metadata"]), rules.only_text(draft)
            place = yield from self.chains.place(
                target.org_id, sender.workspace_id, named, target_id=workspace_id, text=text
            )
            if isinstance(place, WriteSet):
                return place
            link = place
        sent = yield from attachments.looked_up(draft.message["parts"], target.org_id, sender.workspace_id)
        if sent.parts is not draft.message["parts"]:
            draft = msgspec.structs.replace(draft, message={**draft.message, "parts": sent.parts})
        inbound_no = yield from self._numbered(workspace_id, most_inbound)
        activity_id, now = self._ids.new(), self._clock.now()
        kind = KIND_USER if sender.workspace_id is None else KIND_PEER
        body = rules.stored_body(draft, kind, draft.message.get("messageId") or activity_id)
        activity = Activity(
            id=activity_id,
            org_id=target.org_id,
            workspace_id=workspace_id,
            seq=(yield Take("last_seq", workspace_id)),
            inbound_no=inbound_no,
            chat=int(kind == KIND_USER),
            size=len(body),
            activity_type=RECEIVE,
            method=METHOD_SEND,
            kind=kind,
            intent=draft.intent,
            source_id=sender.workspace_id,
            target_id=workspace_id,
            user_id=sender.user_id,
            sender=sender.key,
            dedupe_key=draft.dedupe_key,
            content_hash=hashed,
            context_id=draft.context_id or activity_id,
            created_at=now,
            summary=shorten(draft.text, SUMMARY_LENGTH),
            request_body=body.decode(),
            expires_at=None if life is None else now + life * SECOND,
            root_id=link.root_id,
            hop=link.hop,
            cause_id=link.cause_id,
            chain_no=link.chain_no,
            small_talk=link.small_talk,
            trace_parent=draft.trace_parent,
        )
        receipt = Receipt(activity.id, activity.context_id or activity.id, activity.created_at)
        event = "USER_MESSAGE" if kind == KIND_USER else "ACTIVITY_LOGGED"
        return _with_its_delivery(_logged(receipt, activity, event, sent.file_ids), target, activity)

    def admitted(self, workspace_id: str) -> Generator[Step, Any, int]:
        """The inbound number of a row, or InboxFull."""
        most = yield from self._room_in(workspace_id)
        return (yield from self._numbered(workspace_id, most))

    def _numbered(self, workspace_id: str, most: int) -> Generator[Step, Any, int]:
        number: int | None = yield Take("last_inbound", workspace_id, most)
        if number is None:  # others of its group were before it
            raise InboxFull(limit=self._limits.inbox_unhandled)
        return number

    def _room_in(self, workspace_id: str) -> Generator[Step, Any, int]:
        """The highest inbound number that the next message may have, or InboxFull. How much is handled is read only if
        so many ever came that the inbox could be full."""
        limit = self._limits.inbox_unhandled
        head_no = yield Peek("last_inbound", workspace_id)
        inbox = Inbox() if head_no + self._limits.group_commands < limit else (yield from inbox_of(workspace_id))
        most = rules.most_inbound(inbox, limit)
        if head_no >= most:
            raise InboxFull(limit=limit)
        return most

    async def notify(
        self, workspace_id: str, parts: list[dict[str, Any]], dedupe_key: str | None, cause_id: str | None = None
    ) -> Receipt:
        """An agent writes to its user; `cause_id`: the message that it says it answers.

        Raises TalkToUserDisabled, MessageIdReused, ChainFrozen, NotFound, WorkspaceRemoved, InvalidMessage."""
        target = self._org.living(workspace_id)
        if not target.talk_to_user_enabled:
            raise TalkToUserDisabled
        sender = f"workspace:{workspace_id}"
        key = () if dedupe_key is None else (("message", sender, dedupe_key),)
        keys = (*key, *attachments.keys_of(parts))

        def decide() -> Decision[Receipt]:
            self._org.living(workspace_id)
            activity_id = self._ids.new()
            hashed = rules.hash_of_parts(workspace_id, parts)
            if dedupe_key is not None:
                twins = yield Read("find_twin", {"sender": sender, "dedupe_key": dedupe_key})
                if twins:
                    return WriteSet(rules.repeated(twins[0], hashed=hashed, message_id=dedupe_key))
            link = yield from self.chains.place(target.org_id, workspace_id, cause_id)
            if isinstance(link, WriteSet):
                return link
            sent = yield from attachments.looked_up(parts, target.org_id, workspace_id)
            body = rules.notice_body(activity_id, sent.parts)
            activity = Activity(
                id=activity_id,
                org_id=target.org_id,
                workspace_id=workspace_id,
                seq=(yield Take("last_seq", workspace_id)),
                chat=1,
                size=len(body),
                activity_type=SEND,
                method=NOTIFY,
                source_id=workspace_id,
                sender=sender,
                dedupe_key=dedupe_key,
                content_hash=hashed,
                context_id=activity_id,
                created_at=self._clock.now(),
                summary=shorten(rules.text_of(parts), SUMMARY_LENGTH),
                request_body=body.decode(),
                root_id=link.root_id,
                hop=link.hop,
                cause_id=link.cause_id,
                chain_no=link.chain_no,
            )
            receipt = Receipt(activity.id, activity.id, activity.created_at)
            return _logged(receipt, activity, "AGENT_MESSAGE", sent.file_ids)

        return await self._store.run(Command(target.org_id, keys, decide))

    async def log(self, workspace_id: str, entry: LogEntry) -> str:
        """An agent reports on its own work; returns the id of the row. Raises NotFound, WorkspaceRemoved."""
        target = self._org.living(workspace_id)
        bodies = [_json(body) for body in (entry.request_body, entry.response_body)]

        def decide() -> Decision[str]:
            self._org.living(workspace_id)
            activity = Activity(
                id=self._ids.new(),
                org_id=target.org_id,
                workspace_id=workspace_id,
                seq=(yield Take("last_seq", workspace_id)),
                size=sum(len(body) for body in bodies if body is not None),
                activity_type=entry.activity_type,
                method=entry.method,
                source_id=workspace_id,
                target_id=entry.target_id,
                sender=f"workspace:{workspace_id}",
                status=entry.status,
                created_at=self._clock.now(),
                duration_ms=entry.duration_ms,
                summary=entry.summary,
                error_detail=entry.error_detail,
                request_body=bodies[0],
                response_body=bodies[1],
            )
            return _logged(activity.id, activity, "ACTIVITY_LOGGED")

        return await self._store.run(Command(target.org_id, (), decide))

    async def mark_read(self, workspace_id: str, person_id: str, seq: int) -> None:
        """A person has read a chat up to a row. Raises NotFound, WorkspaceRemoved."""
        target = self._org.living(workspace_id)

        def decide() -> Decision[None]:
            highest = yield Peek("last_seq", workspace_id)
            mark = {"person_id": person_id, "workspace_id": workspace_id, "seq": min(seq, highest)}
            return WriteSet(None, [("save_read_mark", mark)])

        await self._store.run(Command(target.org_id, (("read", person_id, workspace_id),), decide))

    async def give_back(self, workspace_id: str, claims: dict[str, int]) -> int:
        """Messages (id -> attempt) that an agent has claimed and will not handle: whoever claims next gets them. Those
        that are handled, or were handed out again since, are left alone. Returns how many could be had back. Who waits
        at this moment is not woken: that may be the last poll of the very agent that ends.

        Raises NotFound, WorkspaceRemoved."""

        def decide() -> Decision[int]:
            now = self._clock.now()
            writes = []
            for activity_id, attempt in claims.items():
                places = yield Read("place_of_activity", {"id": activity_id, "workspace_id": workspace_id})
                row = {"workspace_id": workspace_id, "seq": places[0][0] if places else 0}
                held = [Handout(*noted) for noted in (yield Read("handout", row))]
                if held and held[0].acked_at is None and held[0].attempt == attempt:
                    writes.append(handout(workspace_id, held[0].seq, attempt, now, None))
            return WriteSet(len(writes), writes)

        target = self._org.living(workspace_id)
        return await self._store.run(Command(target.org_id, inbox_keys(workspace_id), decide))


def _with_its_delivery(written: WriteSet[T], target: Workspace, activity: Activity) -> WriteSet[T]:
    """What else a message begins: its end, if it has one; a look at the agent that it is to be pushed to; a wish that
    somebody wake the agent."""
    if activity.expires_at is not None:
        written.writes.append(timer(EXPIRY, activity.id, activity.expires_at))
        written.rings += (TIMERS,)
    if target.delivery_mode == PUSH:
        written.writes.append(("wake_target", {"workspace_id": target.id, "due": activity.created_at}))
        written.rings += (PUSHES,)
    if target.status is Status.HIBERNATED:
        place = Place(activity.seq, 0, activity.inbound_no or 0)
        noted, told = ticked(target.id, WAKE_ASKED, [Span(place, place)], activity.created_at)
        written.writes += noted
        written.events += told
    return written


def _logged(answer: T, activity: Activity, event: str, file_ids: Iterable[str] = ()) -> WriteSet[T]:
    mentions = ({"file_id": each, "activity_id": activity.id} for each in file_ids)
    return WriteSet(
        answer,
        [
            ("insert_activity", activity),
            *(("insert_mention", {**each, "workspace_id": activity.workspace_id}) for each in mentions),
        ],
        [Event(event, activity.workspace_id, "activity", activity.id, at=activity.created_at)],
        (log_key(activity.workspace_id), org_key(activity.org_id)),
    )


def _json(body: Any) -> str | None:
    return None if body is None else msgspec.json.encode(body).decode()
