"""Messages over REST and JSON-RPC: send, notify, read, acknowledge, chat."""

import asyncio
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Struct, structs

from molecule_core.access.model import Caller, Kind, Role
from molecule_core.edges.problems import SPOKEN_IN_JSON_RPC, problem_of
from molecule_core.edges.routes import (
    EVERYBODY,
    PEOPLE,
    WORKSPACE,
    Answer,
    Call,
    Later,
    Reach,
    Route,
    Who,
    json_answer,
    plain_text,
    whole_number,
)
from molecule_core.ground.clock import SECOND, Clock, rfc3339
from molecule_core.ground.errors import CursorGone, InvalidCaller, InvalidField, InvalidMessage, MoleculeError
from molecule_core.ground.limits import Limits
from molecule_core.ground.metrics import MessageMeter
from molecule_core.ground.text import ID_ALPHABET, clean_line, is_client_id, shorten
from molecule_core.ground.tracing import Span, Tracing
from molecule_core.messages.model import LOGGABLE, RECEIVE, STATUSES, Draft, Filters, LogEntry, Receipt, Sender, Shown
from molecule_core.messages.reader import MessageReader
from molecule_core.messages.writer import MessageWriter
from molecule_core.wire.a2a import error_answer, is_envelope, queued_answer, read_send, rpc_id_of
from molecule_core.wire.activity import ActivityRow, ChatPage
from molecule_core.wire.trace import trace_parent

_OWN_READ = Who(EVERYBODY, Reach.OWN, Role.VIEWER)
Moment = Annotated[datetime, msgspec.Meta(tz=True)]


class Notice(Struct):
    """An agent's message to its user."""

    message: str
    attachments: list[dict[str, Any]] = []


class Ack(Struct):
    """What is handled: one message, or all up to a number. `attempt` names the hand-over it is for."""

    acked_seq: int | None = None
    activity_id: str | None = None
    attempt: int | None = None


class ReadUpTo(Struct):
    """How far a person has read: the `seq` of a chat's message."""

    seq: Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]


class MessageEdge:
    """The routes of messages."""

    def __init__(
        self,
        writer: MessageWriter,
        reader: MessageReader,
        *,
        clock: Clock,
        limits: Limits,
        tracing: Tracing | None = None,
    ) -> None:
        self._tracing = tracing
        self._writer = writer
        self._reader = reader
        self._clock = clock
        self._limits = limits
        self.counted = MessageMeter()

    def routes(self) -> list[Route]:
        """The rows for the table."""
        one = "/workspaces/{id}"
        talk = Who(EVERYBODY, Reach.TALK, Role.OPERATOR)
        own_agent = Who(frozenset((WORKSPACE,)), Reach.OWN)
        return [
            Route("POST", f"{one}/a2a", self.send, talk, "Send a message (JSON-RPC message/send)"),
            Route("POST", f"{one}/notify", self.notify, own_agent, "Write to the user", Notice),
            Route(
                "GET", f"{one}/activity", self.activity, _OWN_READ, "Read the log or the inbox", None, list[ActivityRow]
            ),
            Route("GET", f"{one}/activities", self.activity, _OWN_READ, "The same", None, list[ActivityRow]),
            Route("POST", f"{one}/activity", self.report, own_agent, "Report on one's own work", LogEntry),
            Route("POST", f"{one}/activity/ack", self.ack, own_agent, "Say what is handled", Ack),
            Route("GET", f"{one}/chat-history", self.chat, _OWN_READ, "Read the chat with the user", None, ChatPage),
            Route("POST", f"{one}/chat/read", self.read_chat, Who(PEOPLE, Reach.OWN), "Say what was read", ReadUpTo),
        ]

    # -- in ------------------------------------------------------------------------------------------------------------

    def send(self, call: Call) -> Answer | Later:
        """A message to a workspace. Once JSON-RPC was understood, a refusal of the message speaks it too: with the
        status that older clients look at, or with 200 for a client that names its A2A version."""
        body = call.json()
        version = call.header(b"a2a-version")
        speaks_rpc = version is not None or is_envelope(body)
        rpc_id = rpc_id_of(body)

        def answer(future: "asyncio.Future[Receipt]") -> Answer:
            try:
                receipt = future.result()
            except MoleculeError as error:
                return refused(error)
            self.counted.accepted += 1
            if span is not None:
                span.end()
            return _queued(rpc_id, receipt)

        def refused(error: MoleculeError) -> Answer:
            self.counted.refused += 1
            if span is not None:
                span.end(problem_of(error).code)
            return _rpc_refusal(rpc_id, error, speaks_rpc, version)

        span: Span | None = None
        try:
            draft = self._draft(call, body, version)
            if self._tracing is None:
                return Later(self._writer.send(call.target.id, draft), answer)
            about = {"molecule.workspace": call.target.id, "molecule.org": call.target.org_id}
            span = self._tracing.begin("molecule.send", draft.trace_parent, about)
            writing = span.child("molecule.store")
            future = self._writer.send(call.target.id, structs.replace(draft, trace_parent=span.trace_parent))
            future.add_done_callback(lambda _: writing.end())
            return Later(future, answer)
        except MoleculeError as error:
            return refused(error)

    def _draft(self, call: Call, body: Any, version: str | None) -> Draft:
        sent = read_send(body, version=version, limits=self._limits)
        dedupe_key = self._idempotency_key(call)
        if dedupe_key is None and version is None:
            dedupe_key = sent.message_id
        return Draft(
            sender=_sender(call.by),
            params=sent.params,
            message=sent.message,
            rpc_id=sent.rpc_id,
            text=sent.text,
            intent=sent.intent,
            dedupe_key=dedupe_key,
            context_id=sent.context_id,
            trace_parent=_trace_of(call, sent.params),
        )

    def _idempotency_key(self, call: Call) -> str | None:
        key = call.header(b"idempotency-key")
        if key is not None and not is_client_id(key, self._limits.id_length):
            limit = self._limits.id_length
            raise InvalidField(reason=f"Idempotency-Key must be at most {limit} characters of {ID_ALPHABET}")
        return key

    async def notify(self, call: Call) -> Answer:
        """An agent writes to its user."""
        notice = call.read(Notice)
        if not notice.message.strip() and not notice.attachments:
            raise InvalidMessage(reason="message is empty; say something")
        if len(notice.message.encode()) > self._limits.text_bytes:
            raise InvalidMessage(reason=f"the text is longer than {self._limits.text_bytes} bytes; shorten it")
        if len(notice.attachments) > self._limits.attachments:
            raise InvalidMessage(reason=f"more than {self._limits.attachments} files; send the rest separately")
        parts: list[dict[str, Any]] = [{"kind": "text", "text": notice.message}] if notice.message else []
        parts += [{"kind": "file", "file": attachment} for attachment in notice.attachments]
        receipt = await self._writer.notify(call.target.id, parts, self._idempotency_key(call))
        return json_answer({"status": "sent", "activity_id": receipt.activity_id})

    async def report(self, call: Call) -> Answer:
        """A row in the agent's own log."""
        report = call.read(LogEntry)
        if report.activity_type not in LOGGABLE:
            raise InvalidField(reason=f"activity_type must be one of {', '.join(LOGGABLE)}")
        if report.status not in STATUSES:
            raise InvalidField(reason=f"status must be one of {', '.join(STATUSES)}")
        if report.source_id not in (None, "", call.target.id):
            raise InvalidCaller
        await self._writer.log(call.target.id, self._checked(report))
        return json_answer({"status": "logged"})

    def _checked(self, report: LogEntry) -> LogEntry:
        limit = self._limits.short_text_length
        fields = msgspec.structs.asdict(report)
        for name in ("method", "target_id"):
            if fields[name] is not None:
                fields[name] = clean_line(fields[name], limit, name)
        if report.summary is not None:
            fields["summary"] = shorten(report.summary, limit)
        if report.error_detail is not None:
            fields["error_detail"] = report.error_detail[: self._limits.error_detail_length]
        if report.duration_ms is not None and not 0 <= report.duration_ms < 1 << 53:
            raise InvalidField(reason="duration_ms must be a number of milliseconds")
        return LogEntry(**fields)

    # -- out -----------------------------------------------------------------------------------------------------------

    async def activity(self, call: Call) -> Answer:
        """The log: newest first, or with `since_id` oldest first behind that row, or `claim`ed from the inbox.

        `since_id` says that what lies behind it is handled, if the agent itself asks and claims nothing."""
        query = call.query()
        filters = self._filters(query)
        limits = self._limits
        count = whole_number(query, "limit", least=1, most=limits.page_rows) or min(100, limits.page_rows)
        wait = whole_number(query, "wait", least=0, most=limits.wait_seconds) or 0
        lease = whole_number(query, "claim", least=1, most=limits.lease_seconds)
        since_id = plain_text(query, "since_id")
        self.counted.polls += wait > 0
        try:
            if lease is not None:
                rows = await self._claimed(call, lease, count, wait)
            elif since_id is not None:
                rows = await self._after(call, since_id, filters, count, wait)
            else:
                rows = await self._reader.newest(call.target.id, filters, count, wait=wait)
        finally:
            self.counted.polls -= wait > 0
        if call.is_own and (lease is not None or since_id is not None):  # not who reads what it has had before
            self.counted.handed_out += len(rows)
            if self._tracing is not None:
                self._trace_delivery(self._tracing, rows)
        includes = query.get("include", "").split(",")
        with_peer = "peer_info" in includes
        return json_answer([self._reader.show(row, with_peer=with_peer) for row in rows])

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
            await self._writer.ack_cursor(call.target.id, seq, filters)
        return await self._reader.after(call.target.id, seq, filters, count, wait=wait)

    async def _claimed(self, call: Call, lease: int, count: int, wait: int) -> list[Shown]:
        """Only the agent itself takes its mail."""
        if not call.is_own:
            raise InvalidField(reason="claim is for the workspace's own token; read without it")
        return await self._writer.claim(call.target.id, lease_seconds=lease, count=count, wait=wait)

    async def ack(self, call: Call) -> Answer:
        """What is handled does not come again."""
        ack = call.read(Ack)
        if (ack.acked_seq is None) == (ack.activity_id is None):
            raise InvalidField(reason="name either acked_seq or activity_id")
        if ack.activity_id is not None:
            floor = await self._writer.ack_one(call.target.id, ack.activity_id, ack.attempt)
        else:
            seq = ack.acked_seq or 0
            if not 0 <= seq < 1 << 62:
                raise InvalidField(reason="acked_seq must be the seq of a row")
            floor = await self._writer.ack_upto(call.target.id, seq, ack.attempt)
        self.counted.acks += 1
        return json_answer({"last_acked_seq": floor})

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


def _queued(rpc_id: str | int | None, receipt: Receipt) -> Answer:
    at = rfc3339(receipt.created_at)
    return json_answer(queued_answer(rpc_id, activity_id=receipt.activity_id, context_id=receipt.context_id, at=at))


def _rpc_refusal(rpc_id: str | int | None, error: MoleculeError, speaks_rpc: bool, version: str | None) -> Answer:
    """A refusal in JSON-RPC, if that is what the caller speaks; else it is raised on."""
    if not speaks_rpc or not isinstance(error, SPOKEN_IN_JSON_RPC):
        raise error
    row = problem_of(error)
    return json_answer(error_answer(rpc_id, row.rpc, error.text, row.code), row.status if version is None else 200)


def _trace_of(call: Call, params: dict[str, Any]) -> str | None:
    """The trace that a request names, in its header or, for clients that cannot set one, in the message's metadata."""
    inside = params["metadata"]
    if b"traceparent" not in call.headers and "traceparent" not in inside:
        return None
    return trace_parent(call.header(b"traceparent")) or trace_parent(inside.get("traceparent"))


def _sender(caller: Caller) -> Sender:
    """Who a message is from: never what the body says."""
    if caller.kind is Kind.WORKSPACE:
        return Sender(key=f"workspace:{caller.id}", workspace_id=caller.id, user_id=None, user_name=None)
    return Sender(key=f"{caller.kind.value}:{caller.id}", workspace_id=None, user_id=caller.id, user_name=caller.name)


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
