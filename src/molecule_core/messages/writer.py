"""The only hand that changes messages, inboxes, claims and acks."""

import asyncio
from collections.abc import Callable, Generator
from functools import partial
from typing import Any

import msgspec

from molecule_core.ground.clock import SECOND, Clock
from molecule_core.ground.errors import InboxFull, MayNotTalk, NotFound, TalkToUserDisabled
from molecule_core.ground.ids import Ids
from molecule_core.ground.limits import Limits
from molecule_core.ground.text import shorten
from molecule_core.messages import rules
from molecule_core.messages.model import (
    KIND_PEER,
    KIND_USER,
    NOTIFY,
    RECEIVE,
    SEND,
    Activity,
    Draft,
    Filters,
    Handout,
    Inbox,
    LogEntry,
    Receipt,
    Shown,
)
from molecule_core.org.reader import OrgReader
from molecule_core.org.rules import may_talk
from molecule_core.store.database import Command, Decision, Event, Peek, Read, Step, Store, T, Take, WriteSet
from molecule_core.store.journal import log_key, org_key
from molecule_core.store.queries import Params
from molecule_core.store.wakeups import Look, Wakeups
from molecule_core.wire.a2a import SEND as METHOD_SEND

_SUMMARY_LENGTH = 80
# Rows looked at in one read while the floor of an inbox moves up.
_FLOOR_STEP = 256


class MessageWriter:
    """Sends, logs, hands out and settles messages."""

    def __init__(
        self, store: Store, org: OrgReader, wakeups: Wakeups, *, clock: Clock, ids: Ids, limits: Limits
    ) -> None:
        self._store = store
        self._org = org
        self._wakeups = wakeups
        self._clock = clock
        self._ids = ids
        self._limits = limits

    # -- sending -------------------------------------------------------------------------------------------------------

    def send(self, workspace_id: str, draft: Draft) -> "asyncio.Future[Receipt]":
        """A message enters an inbox, exactly once for each (sender, id). The receipt comes when it is durable.

        Raises NotFound, WorkspaceRemoved; the future MayNotTalk, MessageIdReused, InboxFull."""
        keys = () if draft.dedupe_key is None else (("message", draft.sender.key, draft.dedupe_key),)
        target = self._org.living(workspace_id)
        return self._store.run(Command(target.org_id, keys, partial(self._sending, workspace_id, draft)))

    def _sending(self, workspace_id: str, draft: Draft) -> Decision[Receipt]:
        target, sender = self._org.living(workspace_id), draft.sender
        if sender.workspace_id is not None and not may_talk(self._org, self._org.living(sender.workspace_id), target):
            raise MayNotTalk
        hashed = None
        if draft.dedupe_key is not None:
            hashed = rules.content_hash(workspace_id, draft)
            twins = yield Read("find_twin", {"sender": sender.key, "dedupe_key": draft.dedupe_key})
            if twins:
                return WriteSet(rules.repeated(twins[0], hashed=hashed, message_id=draft.dedupe_key))
        inbound_no = yield from self._admitted(workspace_id)
        activity_id = self._ids.new()
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
            created_at=self._clock.now(),
            summary=shorten(draft.text, _SUMMARY_LENGTH),
            request_body=body.decode(),
        )
        receipt = Receipt(activity.id, activity.context_id or activity.id, activity.created_at)
        return _logged(receipt, activity, "USER_MESSAGE" if kind == KIND_USER else "ACTIVITY_LOGGED")

    def _admitted(self, workspace_id: str) -> Generator[Step, Any, int]:
        """The inbound number of a message, or InboxFull. How much is handled is read only if so many ever came that the
        inbox could be full."""
        limit = self._limits.inbox_unhandled
        head_no = yield Peek("last_inbound", workspace_id)
        inbox = Inbox() if head_no + self._limits.group_commands < limit else (yield from _inbox_of(workspace_id))
        number: int | None = yield Take("last_inbound", workspace_id, rules.most_inbound(inbox, limit))
        if number is None:
            raise InboxFull(limit=limit)
        return number

    async def notify(self, workspace_id: str, parts: list[dict[str, Any]], dedupe_key: str | None) -> Receipt:
        """An agent writes to its user. Raises TalkToUserDisabled, MessageIdReused, NotFound, WorkspaceRemoved."""
        target = self._org.living(workspace_id)
        if not target.talk_to_user_enabled:
            raise TalkToUserDisabled
        sender = f"workspace:{workspace_id}"
        keys = () if dedupe_key is None else (("message", sender, dedupe_key),)

        def decide() -> Decision[Receipt]:
            self._org.living(workspace_id)
            activity_id = self._ids.new()
            body = _notice(activity_id, parts)
            hashed = rules.hash_of_parts(workspace_id, parts)
            if dedupe_key is not None:
                twins = yield Read("find_twin", {"sender": sender, "dedupe_key": dedupe_key})
                if twins:
                    return WriteSet(rules.repeated(twins[0], hashed=hashed, message_id=dedupe_key))
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
                summary=shorten(_text_of(parts), _SUMMARY_LENGTH),
                request_body=body.decode(),
            )
            return _logged(Receipt(activity.id, activity.id, activity.created_at), activity, "AGENT_MESSAGE")

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

    # -- handing out and settling --------------------------------------------------------------------------------------

    async def claim(self, workspace_id: str, *, lease_seconds: int, count: int, wait: float = 0) -> list[Shown]:
        """Hands out messages that nobody holds and nobody handled, oldest first, each with its attempt; waits so many
        seconds for a first one. Not handled within the lease, each comes again with the next attempt."""
        deciding = partial(self._claiming, workspace_id, lease_seconds, count)

        async def look() -> Look[list[Shown]]:
            self._org.living(workspace_id)  # it may have been removed while we waited
            if await self._all_handled(workspace_id):
                return Look(None)
            rows = await self._store.run(self._on_inbox(workspace_id, deciding))
            return Look(rows or None, again_in=None if rows else await self._lease_ends_in(workspace_id))

        if wait <= 0:
            return (await look()).found or []
        return await self._wakeups.until(log_key(workspace_id), look, wait) or []

    async def _all_handled(self, workspace_id: str) -> bool:
        """Whether an inbox is known to hold nothing that could be handed out, so that no command is needed."""
        highest = self._store.highest("last_inbound", workspace_id)
        if highest is None:
            return False
        inbox = await self._inbox(workspace_id)
        return inbox.acked_no + inbox.acked_above >= highest

    async def _inbox(self, workspace_id: str) -> Inbox:
        rows = await self._store.rows("inbox_state", {"workspace_id": workspace_id})
        return Inbox(*rows[0]) if rows else Inbox()

    def _claiming(self, workspace_id: str, lease_seconds: int, count: int) -> Decision[list[Shown]]:
        now = self._clock.now()
        inbox = yield from _inbox_of(workspace_id)
        wish = {"workspace_id": workspace_id, "seq": inbox.acked_seq, "now": now, "count": count}
        found = yield Read("claimable", {**wish, "page_bytes": self._limits.page_bytes})
        rows = [Shown(*row) for row in found]
        lease_until = now + lease_seconds * SECOND
        return WriteSet(rows, [_handout(workspace_id, row.seq, row.attempt or 1, lease_until, None) for row in rows])

    async def _lease_ends_in(self, workspace_id: str) -> float | None:
        """Seconds until the first lease of a workspace ends; None if it has none."""
        end = (await self._store.rows("next_lease_end", {"workspace_id": workspace_id}))[0][0]
        return None if end is None else max(0.0, (end - self._clock.now()) / SECOND)

    async def ack_upto(self, workspace_id: str, seq: int, attempt: int | None) -> int:
        """All messages up to a number are handled; returns how far the inbox is handled, never less than before.

        Raises StaleAttempt if an attempt is named and one of them was handed out again since."""
        return await self._store.run(
            self._on_inbox(workspace_id, lambda: self._acking_upto(workspace_id, seq, attempt))
        )

    def _acking_upto(self, workspace_id: str, seq: int, attempt: int | None) -> Decision[int]:
        inbox = yield from _inbox_of(workspace_id)
        # What is there, not what other commands of this group have just taken numbers for: nobody has handled that.
        present = yield Read("last_seq", {"key": workspace_id})
        seq = min(seq, present[0][0] or 0)
        if seq <= inbox.acked_seq:
            return WriteSet(inbox.acked_seq)
        rows = yield Read("handouts_upto", {"workspace_id": workspace_id, "seq": seq})
        handouts = [Handout(*row) for row in rows]
        if attempt is not None:
            for handout in handouts:
                if handout.acked_at is None:
                    rules.check_attempt(handout, attempt)
        last = yield Read("last_inbound_upto", {"workspace_id": workspace_id, "seq": seq})
        single = sum(handout.acked_at is not None for handout in handouts)
        acked_no = last[0][1] if last else inbox.acked_no
        passed = Inbox(seq, acked_no, inbox.acked_above - single)
        floor = yield from _raised(workspace_id, passed, frozenset())
        return WriteSet(floor.acked_seq, _settled(workspace_id, floor, []))

    async def ack_one(self, workspace_id: str, activity_id: str, attempt: int | None) -> int:
        """One message is handled; returns how far the inbox is handled without a gap.

        Raises NotFound, AttemptMissing, StaleAttempt, InvalidField."""

        def decide() -> Decision[int]:
            inbox = yield from _inbox_of(workspace_id)
            places = yield Read("place_of_activity", {"id": activity_id, "workspace_id": workspace_id})
            if not places or places[0][1] is None:
                raise NotFound(what="message")
            seq = places[0][0]
            noted = yield Read("handout", {"workspace_id": workspace_id, "seq": seq})
            handout = Handout(*noted[0]) if noted else None
            if seq <= inbox.acked_seq or (handout is not None and handout.acked_at is not None):
                return WriteSet(inbox.acked_seq)
            rules.check_own_attempt(handout, attempt)
            return (yield from self._acking_single(workspace_id, inbox, [(seq, handout.attempt if handout else 0)]))

        return await self._store.run(self._on_inbox(workspace_id, decide))

    async def ack_cursor(self, workspace_id: str, seq: int, filters: Filters) -> int:
        """What an old client has behind its cursor is handled: all that matches its filters, up to a number."""
        inbox = await self._inbox(workspace_id)
        shows_no_mail = filters.activity_type not in (None, RECEIVE)
        if inbox.acked_seq >= seq or shows_no_mail:
            return inbox.acked_seq
        if filters.whole_inbox:
            return await self.ack_upto(workspace_id, seq, None)

        def decide() -> Decision[int]:
            inbox = yield from _inbox_of(workspace_id)
            wish = {"workspace_id": workspace_id, "floor": inbox.acked_seq, "seq": seq}
            open_rows = yield Read("unhandled_upto", {**wish, **msgspec.structs.asdict(filters)})
            if not open_rows:
                return WriteSet(inbox.acked_seq)
            return (yield from self._acking_single(workspace_id, inbox, [(row[0], row[1]) for row in open_rows]))

        return await self._store.run(self._on_inbox(workspace_id, decide))

    def _acking_single(self, workspace_id: str, inbox: Inbox, rows: list[tuple[int, int]]) -> Decision[int]:
        """Settles single rows, given as (seq, attempt), and moves the floor if they closed a gap."""
        above = Inbox(inbox.acked_seq, inbox.acked_no, inbox.acked_above + len(rows))
        floor = yield from _raised(workspace_id, above, frozenset(seq for seq, _ in rows))
        now = self._clock.now()
        notes = [_handout(workspace_id, seq, attempt, 0, now) for seq, attempt in rows if seq > floor.acked_seq]
        return WriteSet(floor.acked_seq, _settled(workspace_id, floor, notes))

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _on_inbox(self, workspace_id: str, decide: Callable[[], Decision[T]]) -> Command[T]:
        def of_living() -> Decision[T]:
            self._org.living(workspace_id)  # another process may have removed it: memory knows under the lock
            return (yield from decide())

        return Command(self._org.living(workspace_id).org_id, (("inbox", workspace_id),), of_living)


def _logged(answer: T, activity: Activity, event: str) -> WriteSet[T]:
    return WriteSet(
        answer,
        [("insert_activity", activity)],
        [Event(event, activity.workspace_id, "activity", activity.id, at=activity.created_at)],
        (log_key(activity.workspace_id), org_key(activity.org_id)),
    )


def _inbox_of(workspace_id: str) -> Generator[Step, Any, Inbox]:
    rows = yield Read("inbox_state", {"workspace_id": workspace_id})
    return Inbox(*rows[0]) if rows else Inbox()


def _raised(workspace_id: str, inbox: Inbox, just_handled: frozenset[int]) -> Generator[Step, Any, Inbox]:
    """Moves the floor up over everything that is handled without a gap."""
    while inbox.acked_above > 0:
        wish = {"workspace_id": workspace_id, "floor": inbox.acked_seq, "count": _FLOOR_STEP}
        rows = yield Read("handled_behind", wish)
        inbox, swallowed = rules.contiguous(inbox, [(seq, bool(done) or seq in just_handled) for seq, done in rows])
        if swallowed < _FLOOR_STEP:
            break
    return inbox


def _settled(workspace_id: str, inbox: Inbox, notes: list[tuple[str, Params]]) -> list[tuple[str, Params]]:
    floor = {"workspace_id": workspace_id, **msgspec.structs.asdict(inbox)}
    return [
        ("save_inbox", floor),
        ("forget_handouts", {"workspace_id": workspace_id, "seq": inbox.acked_seq}),
        *notes,
    ]


def _handout(workspace_id: str, seq: int, attempt: int, lease_until: int, acked_at: int | None) -> tuple[str, Params]:
    row = Handout(seq, attempt, lease_until, acked_at)
    return "save_handout", {"workspace_id": workspace_id, **msgspec.structs.asdict(row)}


def _notice(activity_id: str, parts: list[dict[str, Any]]) -> bytes:
    message = {"kind": "message", "role": "agent", "messageId": activity_id, "parts": parts, "metadata": {}}
    return msgspec.json.encode({"method": NOTIFY, "params": {"message": message, "metadata": {}}})


def _text_of(parts: list[dict[str, Any]]) -> str:
    return "\n".join(part["text"] for part in parts if part["kind"] == "text")


def _json(body: Any) -> str | None:
    return None if body is None else msgspec.json.encode(body).decode()
