"""Messages over REST and JSON-RPC: send, notify, broadcast, report. What comes of them is read in `edges/inbox.py`."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
from msgspec import Struct, structs

from molecule_core.access.model import Caller, Kind, Role
from molecule_core.edges.awaiting import AwaitingAnswers, Followed
from molecule_core.edges.delegated import EXTENSIONS, Delegated, asks_to_delegate
from molecule_core.edges.problems import SPOKEN_IN_JSON_RPC, problem_headers, problem_of
from molecule_core.edges.query import whole_number
from molecule_core.edges.rates import SENDING, Rates
from molecule_core.edges.routes import EVERYBODY, WORKSPACE, Answer, Call, Later, Reach, Route, Who, json_answer
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
from molecule_core.ground.text import ID_ALPHABET, clean_line, is_client_id, plain_line, shorten
from molecule_core.ground.tracing import Span, Tracing
from molecule_core.messages import rules
from molecule_core.messages.model import (
    KIND_DELEGATION,
    LOGGABLE,
    STATUSES,
    Announcement,
    Draft,
    Line,
    LogEntry,
    Receipt,
    Sender,
)
from molecule_core.messages.replies import Replies
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
    reply_handle: str | None = None
    progress: bool = False


class MessageEdge:
    """The routes of messages."""

    def __init__(
        self,
        writer: MessageWriter,
        replies: Replies,
        followed: Followed,
        rates: Rates,
        counted: MessageMeter,
        delegated: Delegated,
        *,
        limits: Limits,
        tracing: Tracing | None,
    ) -> None:
        self._tracing = tracing
        self._delegated = delegated
        self._rates = rates
        self._writer = writer
        self._replies = replies
        self._tracking, *_ = followed
        self._awaiting = AwaitingAnswers(*followed)
        self._limits = limits
        self._counted = counted

    def routes(self) -> list[Route]:
        """The rows for the table."""
        one = "/workspaces/{id}"
        talk = Who(EVERYBODY, Reach.TALK, Role.OPERATOR)
        own_agent = Who(frozenset((WORKSPACE,)), Reach.OWN)
        return [
            Route(
                "POST",
                f"{one}/a2a",
                self.send,
                talk,
                "Send a message (JSON-RPC message/send)",
                counts=SENDING,
                holds=True,
                queues=True,
            ),
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
            accepted()
            return _queued(rpc_id, receipt)

        def accepted() -> None:
            self._counted.accepted += 1
            if span is not None:
                span.end()

        def refused(error: MoleculeError) -> Answer:
            self._counted.refused += 1
            if span is not None:
                span.end(problem_of(error).code)
            return _rpc_refusal(rpc_id, error, speaks_rpc, version)

        span: Span | None = None
        try:
            draft = self._draft(call, body, version)
            if asks_to_delegate(draft.message["metadata"], call.header(EXTENSIONS)):
                return self._delegate(call, draft, version, refused)
            # before it is on its way: what is refused has not been sent
            patience = self._patience(call) if call.target.delivery_mode == PUSH else None
            draft = structs.replace(draft, patience=patience or 0)
            if self._tracing is not None:
                about = {"molecule.workspace": call.target.id, "molecule.org": call.target.org_id}
                span = self._tracing.begin("molecule.send", draft.trace_parent, about)
                draft = structs.replace(draft, trace_parent=span.trace_parent)
            future = self._sent(call, draft)
        except MoleculeError as error:
            return refused(error)
        if span is not None:
            writing = span.child("molecule.store")
            future.add_done_callback(lambda _: writing.end())
        if patience is None:
            return Later(future, answer)
        # here, and not with the answer: its sender may hang up before
        future.add_done_callback(lambda done: accepted() if _has_result(done) else None)
        return self._await_answer(call, draft, future, answer, patience)

    async def _delegate(
        self, call: Call, draft: Draft, version: str | None, refused: Callable[[MoleculeError], Answer]
    ) -> Answer:
        """A message that asks for work is a delegation, and is refused in the same language."""
        try:
            asked, is_pushed = call.header(b"x-timeout"), call.target.delivery_mode == PUSH
            patience = self._patience(call) if is_pushed or asked is not None else 0
            answer = await self._delegated.send(call, draft, version=version, patience=patience)
        except MoleculeError as error:
            return refused(error)
        self._counted.accepted += 1
        return answer

    def _sent(self, call: Call, draft: Draft) -> "asyncio.Future[Receipt]":
        """A workspace's message that names a handle answers by it."""
        handle = draft.message["metadata"].get("reply_handle")
        if draft.sender.workspace_id is None or not isinstance(handle, str):
            return self._writer.send(call.target.id, draft)  # control: send-target
        progress = rules.says_progress(draft.message["metadata"])
        return asyncio.ensure_future(self._answer(draft.sender.workspace_id, call.target.id, handle, draft, progress))

    async def _answer(
        self, workspace_id: str, target_id: str | None, handle: str, out: Draft | Line, progress: bool
    ) -> Receipt:
        asked = await self._replies.asked(workspace_id, handle)
        self._replies.check_goes_to(asked, target_id)
        if asked.kind == KIND_DELEGATION and isinstance(out, Draft) and rules.declines(out.message["metadata"]):
            done = await self._replies.decline(workspace_id, handle, self._reason(out.text))
        else:
            done = await self._replies.answer(asked, out, progress=progress)
        if done.receipt is None:
            raise LookupError("an answer that was taken has a receipt")
        return done.receipt

    def _reason(self, text: str) -> str:
        most = self._limits.short_text_length
        return plain_line(text, most) or "it was declined"

    async def _await_answer(
        self,
        call: Call,
        draft: Draft,
        sending: "asyncio.Future[Receipt]",
        receipt_of: "Callable[[asyncio.Future[Receipt]], Answer]",
        seconds: int,
    ) -> Answer:
        """The answer of a push agent, or, if it has no time or its answer does not come so soon, a receipt."""
        try:
            receipt, state = await self._awaiting.end(call, sending, seconds)
        except MoleculeError:
            if _has_result(sending):
                raise
            return receipt_of(sending)
        if state is not None and state.answer is not None:
            return Answer(rpc_answer(draft.rpc_id, state.answer))
        if state is not None and state.dead:
            raise NotTaken(reason=state.dead_reason, detail=state.dead_detail)
        depth = await self._tracking.depth(call.target.id)
        why = "the agent has not answered yet"
        if state is not None:
            why = "the agent is busy or could not be reached; the message waits for it"
        why += "; its answer comes into your inbox" if receipt.asks else "; a2a/queue tells how it stands"
        at = rfc3339(receipt.created_at)
        told = queued_answer(draft.rpc_id, activity_id=receipt.activity_id, context_id=receipt.context_id, at=at)
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
        dedupe_key = checked_key(call, self._limits)
        if dedupe_key is None and version is None:
            dedupe_key = sent.message_id  # control: message-dedupe-key
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

    async def notify(self, call: Call) -> Answer:
        """An agent writes to its user. It answers the message that it names by `reply_handle` or `in_reply_to`, else
        the newest that the user waits for; with `progress` it only says that somebody is at work on it."""
        notice, own = call.read(Notice), call.target.id
        metadata: dict[str, Any] = {} if notice.in_reply_to is None else {"in_reply_to": notice.in_reply_to}
        if notice.progress:
            metadata["progress"] = True
        line = Line(self._parts(notice), checked_key(call, self._limits), metadata)  # control: notice-idempotency-key
        if notice.reply_handle is not None:
            receipt = await self._answer(own, None, notice.reply_handle, line, notice.progress)
        else:
            receipt = await self._writer.notify(own, line)
        return json_answer({"status": "sent", "activity_id": receipt.activity_id})

    def _parts(self, notice: Notice) -> list[dict[str, Any]]:
        return parts_of(notice.message, notice.attachments, self._limits)

    async def broadcast(self, call: Call) -> Answer:
        """A workspace writes to all others of its organisation. Each copy counts as a message of its sender."""
        notice = call.read(Notice)
        parts, sender = self._parts(notice), sender_of(call.by)
        copies = len(self._writer.broadcasts.reach(call.target.id))
        if sender.workspace_id is not None:
            call.standing = self._rates.sends(sender.workspace_id, call.target.org_id, copies - 1)
        said = Announcement(sender, parts, notice.message, checked_key(call, self._limits), notice.in_reply_to)
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


def parts_of(text: str, attachments: list[dict[str, Any]], limits: Limits) -> list[dict[str, Any]]:
    """What an agent writes as the parts of a message. Raises InvalidMessage."""
    if not text.strip() and not attachments:
        raise InvalidMessage(reason="message is empty; say something")
    if len(text.encode()) > limits.text_bytes:
        raise InvalidMessage(reason=f"the text is longer than {limits.text_bytes} bytes; shorten it")
    if len(attachments) > limits.attachments:
        raise InvalidMessage(reason=f"more than {limits.attachments} files; send the rest separately")
    parts: list[dict[str, Any]] = [{"kind": "text", "text": text}] if text else []
    return parts + [{"kind": "file", "file": attachment} for attachment in attachments]


def checked_key(call: Call, limits: Limits) -> str | None:
    """What tells repetitions of a command, if its header names it. Raises InvalidField."""
    key = call.header(b"idempotency-key")
    if key is not None and not is_client_id(key, limits.id_length):
        limit = limits.id_length
        raise InvalidField(reason=f"Idempotency-Key must be at most {limit} characters of {ID_ALPHABET}")
    return key


def _has_result(done: "asyncio.Future[Receipt]") -> bool:
    return not done.cancelled() and done.exception() is None


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
