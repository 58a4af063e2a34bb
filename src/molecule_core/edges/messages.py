"""Messages over REST and JSON-RPC: send, notify, broadcast, report. What comes of them is read in `edges/inbox.py`."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
from msgspec import Struct, structs

from molecule_core.access.model import Caller, Kind, Role
from molecule_core.edges.problems import SPOKEN_IN_JSON_RPC, problem_headers, problem_of
from molecule_core.edges.rates import SENDING, Rates
from molecule_core.edges.routes import (
    EVERYBODY,
    WORKSPACE,
    Answer,
    Call,
    Later,
    Reach,
    Route,
    Who,
    json_answer,
    whole_number,
)
from molecule_core.ground.clock import rfc3339
from molecule_core.ground.errors import (
    InvalidCaller,
    InvalidField,
    InvalidMessage,
    MoleculeError,
    NotTaken,
)
from molecule_core.ground.limits import Limits
from molecule_core.ground.metrics import MessageMeter
from molecule_core.ground.text import ID_ALPHABET, clean_line, is_client_id, shorten
from molecule_core.ground.tracing import Span, Tracing
from molecule_core.messages.model import (
    LOGGABLE,
    STATUSES,
    Announcement,
    Draft,
    LogEntry,
    Receipt,
    Sender,
)
from molecule_core.messages.tracking import Tracking
from molecule_core.messages.turns import rpc_answer
from molecule_core.messages.writer import MessageWriter
from molecule_core.org.model import PUSH
from molecule_core.wire.a2a import error_answer, is_envelope, queued_answer, read_send, rpc_id_of
from molecule_core.wire.trace import trace_parent


class Notice(Struct):
    """An agent's message to its user."""

    message: str
    attachments: list[dict[str, Any]] = []
    in_reply_to: str | None = None


class MessageEdge:
    """The routes of messages."""

    def __init__(
        self,
        writer: MessageWriter,
        tracking: Tracking,
        rates: Rates,
        counted: MessageMeter,
        *,
        limits: Limits,
        tracing: Tracing | None,
    ) -> None:
        self._tracing = tracing
        self._rates = rates
        self._writer = writer
        self._tracking = tracking
        self._limits = limits
        self._counted = counted

    def routes(self) -> list[Route]:
        """The rows for the table."""
        one = "/workspaces/{id}"
        talk = Who(EVERYBODY, Reach.TALK, Role.OPERATOR)
        own_agent = Who(frozenset((WORKSPACE,)), Reach.OWN)
        return [
            Route("POST", f"{one}/a2a", self.send, talk, "Send a message (JSON-RPC message/send)", counts=SENDING),
            Route("POST", f"{one}/notify", self.notify, own_agent, "Write to the user", Notice, counts=SENDING),
            Route(
                "POST",
                f"{one}/broadcast",
                self.broadcast,
                Who(EVERYBODY, Reach.OWN, Role.OPERATOR),
                "Write to all others of the organisation",
                Notice,
                counts=SENDING,
            ),
            Route("POST", f"{one}/activity", self.report, own_agent, "Report on one's own work", LogEntry),
        ]

    # -- in ------------------------------------------------------------------------------------------------------------

    def send(self, call: Call) -> Answer | Later | Coroutine[Any, Any, Answer]:
        """A message to a workspace. Once JSON-RPC was understood, a refusal of the message speaks it too: with the
        status that older clients look at, or with 200 for a client that names its A2A version. A push agent's own
        answer is waited for, for a while."""
        body = call.json()
        version = call.header(b"a2a-version")
        speaks_rpc = version is not None or is_envelope(body)
        rpc_id = rpc_id_of(body)

        def answer(future: "asyncio.Future[Receipt]") -> Answer:
            try:
                receipt = future.result()
            except MoleculeError as error:
                return refused(error)
            self._counted.accepted += 1
            if span is not None:
                span.end()
            return _queued(rpc_id, receipt)

        def refused(error: MoleculeError) -> Answer:
            self._counted.refused += 1
            if span is not None:
                span.end(problem_of(error).code)
            return _rpc_refusal(rpc_id, error, speaks_rpc, version)

        span: Span | None = None
        try:
            draft = self._draft(call, body, version)
            if self._tracing is not None:
                about = {"molecule.workspace": call.target.id, "molecule.org": call.target.org_id}
                span = self._tracing.begin("molecule.send", draft.trace_parent, about)
                draft = structs.replace(draft, trace_parent=span.trace_parent)
            future = self._writer.send(call.target.id, draft)
        except MoleculeError as error:
            return refused(error)
        if span is not None:
            writing = span.child("molecule.store")
            future.add_done_callback(lambda _: writing.end())
        if call.target.delivery_mode == PUSH:
            return self._await_answer(call, rpc_id, future, answer)
        return Later(future, answer)

    async def _await_answer(
        self,
        call: Call,
        rpc_id: str | int | None,
        sending: "asyncio.Future[Receipt]",
        receipt_of: "Callable[[asyncio.Future[Receipt]], Answer]",
    ) -> Answer:
        """The answer of a push agent, or, if it has no time or its answer does not come soon, a receipt."""
        seconds = self._patience(call)
        await asyncio.wait((sending,))
        if sending.cancelled() or sending.exception() is not None:
            return receipt_of(sending)
        receipt = sending.result()
        state = await self._tracking.answer(call.target.id, receipt.activity_id, seconds)
        if state is not None and state.answer is not None:
            return Answer(rpc_answer(rpc_id, state.answer))
        if state is not None and state.dead:
            raise NotTaken(reason=state.dead_reason, detail=state.dead_detail)
        depth = await self._tracking.depth(call.target.id)
        why = "the agent has not answered yet; ask for its answer under a2a/queue"
        if state is not None:
            why = "the agent is busy or could not be reached; the message waits for it"
        at = rfc3339(receipt.created_at)
        told = queued_answer(rpc_id, activity_id=receipt.activity_id, context_id=receipt.context_id, at=at)
        queued = {"queued": True, "queue_id": receipt.activity_id, "queue_depth": depth, "message": why}
        return json_answer({**told, "delivery_mode": "push-async" if state is None else PUSH, **queued}, 202)

    def _patience(self, call: Call) -> int:
        """The seconds that a sender waits for a push agent. Raises InvalidField."""
        asked = call.header(b"x-timeout")
        if asked is None:
            return self._limits.patience_seconds
        most = self._limits.patience_most_seconds
        return whole_number({"X-Timeout": asked.strip()}, "X-Timeout", least=0, most=most) or 0

    def _draft(self, call: Call, body: Any, version: str | None) -> Draft:
        sent = read_send(body, version=version, limits=self._limits)
        dedupe_key = self._idempotency_key(call)
        if dedupe_key is None and version is None:
            dedupe_key = sent.message_id
        return Draft(
            sender=sender_of(call.by),
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
        parts, cause = self._parts(notice), notice.in_reply_to
        receipt = await self._writer.notify(call.target.id, parts, self._idempotency_key(call), cause)
        return json_answer({"status": "sent", "activity_id": receipt.activity_id})

    def _parts(self, notice: Notice) -> list[dict[str, Any]]:
        if not notice.message.strip() and not notice.attachments:
            raise InvalidMessage(reason="message is empty; say something")
        if len(notice.message.encode()) > self._limits.text_bytes:
            raise InvalidMessage(reason=f"the text is longer than {self._limits.text_bytes} bytes; shorten it")
        if len(notice.attachments) > self._limits.attachments:
            raise InvalidMessage(reason=f"more than {self._limits.attachments} files; send the rest separately")
        parts: list[dict[str, Any]] = [{"kind": "text", "text": notice.message}] if notice.message else []
        parts += [{"kind": "file", "file": attachment} for attachment in notice.attachments]
        return parts

    async def broadcast(self, call: Call) -> Answer:
        """A workspace writes to all others of its organisation. Each copy counts as a message of its sender."""
        notice = call.read(Notice)
        parts, sender = self._parts(notice), sender_of(call.by)
        copies = len(self._writer.broadcasts.reach(call.target.id))
        if sender.workspace_id is not None:
            call.standing = self._rates.sends(sender.workspace_id, call.target.org_id, copies - 1)
        said = Announcement(sender, parts, notice.message, self._idempotency_key(call), notice.in_reply_to)
        done = await self._writer.broadcasts.send(call.target.id, said)
        return json_answer({"status": "sent", **msgspec.structs.asdict(done)})

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


def _queued(rpc_id: str | int | None, receipt: Receipt) -> Answer:
    at = rfc3339(receipt.created_at)
    return json_answer(queued_answer(rpc_id, activity_id=receipt.activity_id, context_id=receipt.context_id, at=at))


def _rpc_refusal(rpc_id: str | int | None, error: MoleculeError, speaks_rpc: bool, version: str | None) -> Answer:
    """A refusal in JSON-RPC, if that is what the caller speaks; else it is raised on."""
    if not speaks_rpc or not isinstance(error, SPOKEN_IN_JSON_RPC):
        raise error
    row = problem_of(error)
    answer = json_answer(error_answer(rpc_id, row.rpc, error.text, row.code), row.status if version is None else 200)
    answer.headers = tuple(problem_headers(error))
    return answer


def _trace_of(call: Call, params: dict[str, Any]) -> str | None:
    """The trace that a request names, in its header or, for clients that cannot set one, in the message's metadata."""
    inside = params["metadata"]
    if b"traceparent" not in call.headers and "traceparent" not in inside:
        return None
    return trace_parent(call.header(b"traceparent")) or trace_parent(inside.get("traceparent"))


def sender_of(caller: Caller) -> Sender:
    """Who a message is from: never what the body says."""
    if caller.kind is Kind.WORKSPACE:
        return Sender(key=f"workspace:{caller.id}", workspace_id=caller.id, user_id=None, user_name=None)
    return Sender(key=f"{caller.kind.value}:{caller.id}", workspace_id=None, user_id=caller.id, user_name=caller.name)
