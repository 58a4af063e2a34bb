"""What was said and done, as agents and people read it: the log, the inbox, acks, the chat."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Struct

from molecule_core.access.model import Role
from molecule_core.edges.projecting import Projection
from molecule_core.edges.query import (
    AFTER,
    BEFORE,
    LIMIT,
    WAIT,
    asks,
    choice,
    flag,
    moment,
    number,
    plain_text,
    text,
    whole_number,
    words,
)
from molecule_core.edges.routes import EVERYBODY, PEOPLE, WORKSPACE, Answer, Call, Reach, Route, Who, json_answer
from molecule_core.ground.clock import SECOND, Clock
from molecule_core.ground.errors import CursorGone, InvalidField
from molecule_core.ground.limits import Limits
from molecule_core.ground.metrics import MessageMeter
from molecule_core.ground.tracing import Tracing
from molecule_core.messages.handing import Handing
from molecule_core.messages.model import RECEIVE, Filters, Shown
from molecule_core.messages.reader import MessageReader
from molecule_core.messages.telling import Wish
from molecule_core.messages.writer import MessageWriter
from molecule_core.wire.activity import ActivityRow, ChatPage, WaitingMail
from molecule_core.wire.envelope import INCLUDES

_OWN_READ = Who(EVERYBODY, Reach.OWN, Role.VIEWER)
Moment = Annotated[datetime, msgspec.Meta(tz=True)]
_BEFORE_TS = moment("before_ts", "Only what is older than this.")
_ASKED = asks(
    LIMIT,
    WAIT,
    text("since_id", "The row behind which to go on, oldest first; what lies before it is handled."),
    number("claim", "Take messages from the inbox, and hold them for so many seconds.", least=1),
    flag("waiting", "What is not handled yet, whoever holds it."),
    text("type", "Only rows of this activity_type."),
    choice("source", "Only what came from there.", ("canvas", "agent")),
    text("peer_id", "Only what was said with this workspace."),
    number("since_secs", "Only what is younger than so many seconds.", least=1),
    _BEFORE_TS,
    words("include", "What is told beside each row.", ("attachments", "peer_info", *INCLUDES)),
)


class Ack(Struct):
    """What is handled: one message, or all up to a number. `attempt` names the hand-over it is for."""

    acked_seq: int | None = None
    activity_id: str | None = None
    attempt: Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)] | None = None


class Claimed(Struct):
    """A message that was claimed, and under which attempt."""

    activity_id: str
    attempt: int


class Release(Struct):
    """Claimed messages that the agent will not handle."""

    claims: list[Claimed]


class ReadUpTo(Struct):
    """How far a person has read: the `seq` of a chat's message."""

    seq: Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]


class InboxEdge:
    """The routes of reading and of saying what is handled."""

    def __init__(
        self,
        writer: MessageWriter,
        handing: Handing,
        reader: MessageReader,
        projection: Projection,
        counted: MessageMeter,
        *,
        clock: Clock,
        limits: Limits,
        tracing: Tracing | None,
    ) -> None:
        self._projection = projection
        self._writer = writer
        self._handing = handing
        self._reader = reader
        self._counted = counted
        self._clock = clock
        self._limits = limits
        self._tracing = tracing

    def routes(self) -> list[Route]:
        """The rows for the table."""
        one = "/workspaces/{id}"
        own_agent = Who(frozenset((WORKSPACE,)), Reach.OWN)
        paged = asks(LIMIT, BEFORE, AFTER, _BEFORE_TS)
        return [
            Route(
                "GET",
                f"{one}/activity",
                self.activity,
                _OWN_READ,
                "Read the log or the inbox",
                None,
                list[ActivityRow],
                query=_ASKED,
            ),
            Route(
                "GET", f"{one}/activities", self.activity, _OWN_READ, "The same", None, list[ActivityRow], query=_ASKED
            ),
            Route("GET", f"{one}/waiting", self.waiting, _OWN_READ, "What waits, and from whom", None, WaitingMail),
            Route("POST", f"{one}/activity/ack", self.ack, own_agent, "Say what is handled", Ack),
            Route("POST", f"{one}/activity/release", self.release, own_agent, "Give claimed messages back", Release),
            Route(
                "GET",
                f"{one}/chat-history",
                self.chat,
                _OWN_READ,
                "Read the chat with the user",
                None,
                ChatPage,
                query=paged,
            ),
            Route("POST", f"{one}/chat/read", self.read_chat, Who(PEOPLE, Reach.OWN), "Say what was read", ReadUpTo),
        ]

    async def activity(self, call: Call) -> Answer:
        """The log: newest first, or with `since_id` oldest first behind that row, or `claim`ed from the inbox, or what
        is `waiting` there (`true`): not handled yet, whoever holds it.

        `since_id` says that what lies behind it is handled, if the agent itself asks and claims nothing."""
        query = call.query()
        filters = self._filters(query)
        limits = self._limits
        count = whole_number(query, "limit", least=1, most=limits.page_rows) or min(100, limits.page_rows)
        wait = whole_number(query, "wait", least=0, most=limits.wait_seconds) or 0
        lease = whole_number(query, "claim", least=1, most=limits.lease_seconds)
        since_id = plain_text(query, "since_id")
        looks_back = filters.peer_id is not None or filters.before is not None
        wish = self._projection.wish(call.target if call.is_own else None, query, looks_back=looks_back)
        self._counted.polls += wait > 0
        try:
            if query.get("waiting") == "true":
                rows = await self._reader.waiting(call.target.id, count, self._clock.now())
            elif lease is not None:
                rows = await self._claimed(call, lease, count, wait, wish)
            elif since_id is not None:
                rows = await self._after(call, since_id, filters, count, wait)
            elif call.is_own and filters.activity_type == RECEIVE:  # the first page of clients that keep a cursor
                rows = await self._handing.read_newest(call.target.id, filters, count, wait=wait)
            else:
                rows = await self._reader.newest(call.target.id, filters, count, wait=wait)
        finally:
            self._counted.polls -= wait > 0
        if call.is_own and (lease is not None or since_id is not None):  # not who reads what it has had before
            self._counted.handed_out += len(rows)
            if self._tracing is not None:
                self._trace_delivery(self._tracing, rows)
        includes = query.get("include", "").split(",")
        with_peer = "peer_info" in includes
        with_files = with_peer or "attachments" in includes
        if lease is None:  # what is claimed was told, or could not be
            rows = await self._projection.told(call.target, rows, wish)
        shown = [self._reader.show(row, with_peer=with_peer, with_files=with_files) for row in rows]
        await self._projection.bring_up_to_date(call.target.id, shown)
        return json_answer([self._projection.show(*each, wish) for each in zip(shown, rows, strict=True)])

    def _trace_delivery(self, tracing: Tracing, rows: list[Shown]) -> None:
        for row in rows:
            if row.trace_parent is not None:
                about = {"molecule.workspace": row.workspace_id, "molecule.activity": row.id}
                tracing.begin("molecule.deliver", row.trace_parent, about, row.created_at).end()

    def _filters(self, query: dict[str, str]) -> Filters:
        source = plain_text(query, "source")
        if source not in (None, "canvas", "agent"):
            raise InvalidField(reason="source must be canvas or agent")
        since = whole_number(query, "since_secs", least=1, most=self._limits.since_seconds)
        return Filters(
            activity_type=plain_text(query, "type"),
            source=source,
            peer_id=plain_text(query, "peer_id"),
            since=None if since is None else self._clock.now() - since * SECOND,
            before=_time(query, "before_ts"),
        )

    async def _after(self, call: Call, since_id: str, filters: Filters, count: int, wait: int) -> list[Shown]:
        seq = await self._reader.place(call.target.id, since_id)
        if seq is None:
            raise CursorGone(name="since_id")
        if call.is_own and filters.activity_type in (None, RECEIVE):
            return await self._handing.read_behind(call.target.id, seq, filters, count, wait=wait)
        return await self._reader.after(call.target.id, seq, filters, count, wait=wait)

    async def _claimed(self, call: Call, lease: int, count: int, wait: int, wish: Wish | None) -> list[Shown]:
        """Only the agent itself takes its mail."""
        if not call.is_own:
            raise InvalidField(reason="claim is for the workspace's own token; read without it")
        return await self._handing.claim(call.target.id, lease_seconds=lease, count=count, wait=wait, wish=wish)

    async def waiting(self, call: Call) -> Answer:
        """How much mail waits and who wrote it; nothing is handed out."""
        return json_answer(await self._reader.waiting_mail(call.target.id, self._clock.now()))

    async def ack(self, call: Call) -> Answer:
        """What is handled does not come again."""
        ack = call.read(Ack)
        if (ack.acked_seq is None) == (ack.activity_id is None):
            raise InvalidField(reason="name either acked_seq or activity_id")
        if ack.activity_id is not None:
            floor = await self._handing.ack_one(call.target.id, ack.activity_id, ack.attempt)
        else:
            seq = ack.acked_seq or 0
            if not 0 <= seq < 1 << 62:
                raise InvalidField(reason="acked_seq must be the seq of a row")
            floor = await self._handing.ack_upto(call.target.id, seq, ack.attempt)
        self._counted.acks += 1
        return json_answer({"last_acked_seq": floor})

    async def release(self, call: Call) -> Answer:
        """What an agent that ends has claimed and not handled need not wait for the end of its lease."""
        claims = call.read(Release).claims
        if len(claims) > self._limits.page_rows:
            raise InvalidField(reason=f"at most {self._limits.page_rows} claims are taken at once")
        count = await self._writer.give_back(call.target.id, {each.activity_id: each.attempt for each in claims})
        return json_answer({"released": count})

    async def chat(self, call: Call) -> Answer:
        """What the workspace and its users said, oldest first. `before` (an id) and `before_ts` page back, `after` (an
        id) forward."""
        query = call.query()
        count = whole_number(query, "limit", least=1, most=self._limits.history_rows) or 100
        page = await self._reader.chat(
            call.target.id,
            count=count,
            before=_time(query, "before_ts"),
            before_seq=await self._place(call, query, "before"),
            after_seq=await self._place(call, query, "after"),
        )
        return json_answer(page)

    async def _place(self, call: Call, query: dict[str, str], name: str) -> int | None:
        activity_id = plain_text(query, name)
        if activity_id is None:
            return None
        seq = await self._reader.place(call.target.id, activity_id)
        if seq is None:
            raise CursorGone(name=name)
        return seq

    async def read_chat(self, call: Call) -> Answer:
        """What a person has read is not unread any more, in all of their browsers."""
        await self._writer.mark_read(call.target.id, call.by.id, call.read(ReadUpTo).seq)
        return json_answer({})


def _time(query: dict[str, str], name: str) -> int | None:
    """A time of the query (RFC 3339, with an offset) in microseconds. Raises InvalidField."""
    text = query.get(name)
    if not text:
        return None
    try:
        at: datetime = msgspec.convert(text.replace(" ", "+"), Moment)
    except msgspec.ValidationError:
        raise InvalidField(reason=f"{name} must be a time such as 2026-11-21T22:41:07Z") from None
    return int(at.timestamp()) * SECOND + at.microsecond
