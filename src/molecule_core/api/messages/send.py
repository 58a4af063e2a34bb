"""Routes that send messages over REST and JSON-RPC: send, notify, broadcast, report."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

import msgspec
from msgspec import Struct, structs

from molecule_core.access.model import Caller, CredentialKind, Role
from molecule_core.api.errors import JSON_RPC_ERRORS, error_mapping, problem_headers
from molecule_core.api.http.response import Response
from molecule_core.api.messages.result_waits import ReplyWait
from molecule_core.api.query_parameters import read_int_param
from molecule_core.api.rate_limits import SEND_RATE, RateLimiter
from molecule_core.api.routing import (
    ALL_CREDENTIALS,
    WORKSPACE,
    AccessPolicy,
    DeferredResponse,
    Request,
    Route,
    WorkspaceScope,
    json_response,
)
from molecule_core.common.clock import to_rfc3339
from molecule_core.common.errors import (
    DeliveryRejected,
    InvalidCaller,
    InvalidField,
    InvalidMessage,
    MoleculeError,
    NotFound,
)
from molecule_core.common.limits import Limits
from molecule_core.common.metrics import MessageMeter
from molecule_core.common.text import ID_ALPHABET, is_valid_client_id, single_line, truncate_line, validate_line
from molecule_core.common.tracing import Span, Tracing
from molecule_core.messages import rules
from molecule_core.messages.delivery.push_policy import to_rpc_response
from molecule_core.messages.files.inline_files import has_inline_files, store_inline_files
from molecule_core.messages.files.uploads import FileWriter
from molecule_core.messages.model import (
    LOG_STATUSES,
    LOGGABLE_TYPES,
    AgentLogEntry,
    BroadcastDraft,
    MessageDraft,
    MessageReceipt,
    Sender,
    UserNotice,
)
from molecule_core.messages.replies import ReplyWriter
from molecule_core.messages.writer import MessageWriter
from molecule_core.org.model import DeliveryMode
from molecule_core.wire.protocols.a2a import (
    EXTENSIONS_HEADER,
    SendRequest,
    is_delegation_request,
    is_jsonrpc,
    parse_send,
    queued_response,
    rpc_error_response,
    rpc_id_of,
)
from molecule_core.wire.protocols.trace_context import parse_traceparent
from molecule_core.wire.schemas.activity import ActivityType, MessageKind


class NotifyBody(Struct):
    """An agent's message to its user."""

    message: str
    attachments: list[dict[str, Any]] = []
    in_reply_to: str | None = None
    reply_handle: str | None = None
    progress: bool = False


def notice_response(receipt: MessageReceipt) -> Response:
    """Return the response to a message to the user; `answers`: the message that it answered, if any."""
    answers = {"answers": receipt.answered_id} if receipt.answered_id else {}
    return json_response({"status": "sent", "activity_id": receipt.activity_id, **answers})


class DelegationSender(Protocol):
    """Begins delegations for messages that request one: `A2ADelegation`."""

    async def send_delegation(self, request: Request, draft: MessageDraft, *, wait_seconds: int) -> Response:
        """Begin a delegation, and return an A2A task of the same id."""


class MessageRoutes:
    """Routes that send messages."""

    def __init__(  # noqa: PLR0913 (each is a service of its own)
        self,
        writer: MessageWriter,
        replies: ReplyWriter,
        reply_wait: ReplyWait,
        rate_limiter: RateLimiter,
        message_meter: MessageMeter,
        delegations: DelegationSender,
        files: FileWriter,
        *,
        limits: Limits,
        tracing: Tracing | None,
    ) -> None:
        self._files = files
        self._tracing = tracing
        self._delegations = delegations
        self._rate_limiter = rate_limiter
        self._writer = writer
        self._replies = replies
        self._reply_wait = reply_wait
        self._limits = limits
        self._message_meter = message_meter

    def routes(self) -> list[Route]:
        """Return the routes."""
        one = "/workspaces/{id}"
        own_agent = AccessPolicy(frozenset((WORKSPACE,)), WorkspaceScope.OWN)
        return [
            Route(
                "POST",
                f"{one}/notify",
                self.notify_user,
                own_agent,
                "Send a message to the user",
                NotifyBody,
                rate_class=SEND_RATE,
            ),
            Route(
                "POST",
                f"{one}/broadcast",
                self.broadcast_message,
                AccessPolicy(ALL_CREDENTIALS, WorkspaceScope.OWN, Role.OPERATOR),
                "Broadcast a message to the organisation",
                NotifyBody,
                rate_class=SEND_RATE,
            ),
            Route(
                "POST",
                f"{one}/activity",
                self.report_activity,
                own_agent,
                "Add an entry to the activity log",
                AgentLogEntry,
            ),
        ]

    # -- in ------------------------------------------------------------------------------------------------------------

    def send_message(self, request: Request) -> Response | DeferredResponse | Coroutine[Any, Any, Response]:
        """Send a message to a workspace, for clients that name no version of A2A.

        Once the request is known to be JSON-RPC, an error is a JSON-RPC response too, with the HTTP status that these
        clients check. For a push agent the response waits a while for the agent's answer.
        """
        body = request.json()
        speaks_rpc = is_jsonrpc(body)
        rpc_id = rpc_id_of(body)

        span: Span | None = None

        def to_response(future: "asyncio.Future[MessageReceipt]") -> Response:
            try:
                receipt = future.result()
            except MoleculeError as error:
                return to_error_response(error)
            count_accepted()
            return _receipt_response(rpc_id, receipt)

        def count_accepted() -> None:
            self._message_meter.accepted += 1
            if span is not None:
                span.end()

        def to_error_response(error: MoleculeError) -> Response:
            self._message_meter.rejected += 1
            if span is not None:
                span.end(error_mapping(error).code)
            return _rpc_error(rpc_id, error, speaks_rpc)

        def send_draft(draft: MessageDraft) -> Response | DeferredResponse | Coroutine[Any, Any, Response]:
            nonlocal span
            try:
                if is_delegation_request(draft.message["metadata"], request.header(EXTENSIONS_HEADER)):
                    return self._send_delegation(request, draft, to_error_response)
                # Read before sending: a request that is rejected for its header must not have sent anything.
                wait_seconds = self._wait_seconds(request) if request.workspace.uses_push else None
                draft = structs.replace(draft, wait_seconds=wait_seconds or 0)
                if self._tracing is not None:
                    about = {"molecule.workspace": request.workspace.id, "molecule.org": request.workspace.org_id}
                    span = self._tracing.begin_span("molecule.send", draft.trace_parent, about)
                    draft = structs.replace(draft, trace_parent=span.trace_parent)
                future = self.start_send(request, draft)
            except MoleculeError as error:
                return to_error_response(error)
            if span is not None:
                writing = span.begin_child("molecule.store")
                future.add_done_callback(lambda _: writing.end())
            if wait_seconds is None:
                return DeferredResponse(future, to_response)
            # Counted here because the sender may disconnect before the response is built.
            future.add_done_callback(lambda result: count_accepted() if _succeeded(result) else None)
            return self._await_reply(request, draft, future, to_response, wait_seconds)

        try:
            draft = self._parse_draft(request, body)
        except MoleculeError as error:
            return to_error_response(error)
        if has_inline_files(draft.message["parts"]):
            return self._store_files_first(request, draft, send_draft, to_error_response)
        return send_draft(draft)

    async def _store_files_first(
        self,
        request: Request,
        draft: MessageDraft,
        send_draft: Callable[[MessageDraft], Response | DeferredResponse | Coroutine[Any, Any, Response]],
        to_error_response: Callable[[MoleculeError], Response],
    ) -> Response:
        """Store the files whose bytes are in a message, then send it with their addresses."""
        owner_id = draft.sender.workspace_id or request.workspace.id
        try:
            parts = await store_inline_files(self._files, owner_id, draft.sender, draft.message["parts"])
        except MoleculeError as error:
            return to_error_response(error)
        response = send_draft(structs.replace(draft, message={**draft.message, "parts": parts}))
        if isinstance(response, Response):
            return response
        if isinstance(response, DeferredResponse):
            await asyncio.wait([response.future])
            return response.to_response(response.future)
        return await response

    async def _send_delegation(
        self, request: Request, draft: MessageDraft, to_error_response: Callable[[MoleculeError], Response]
    ) -> Response:
        """Begin a delegation for a message that asks for work. Errors are in the protocol of the message."""
        try:
            requested, is_pushed = request.header(b"x-timeout"), request.workspace.uses_push
            wait_seconds = self._wait_seconds(request) if is_pushed or requested is not None else 0
            answer = await self._delegations.send_delegation(request, draft, wait_seconds=wait_seconds)
        except MoleculeError as error:
            return to_error_response(error)
        self._message_meter.accepted += 1
        return answer

    def start_send(self, request: Request, draft: MessageDraft) -> "asyncio.Future[MessageReceipt]":
        """Start sending a message; a workspace's message that names a handle is sent as a reply."""
        handle = draft.message["metadata"].get("reply_handle")
        if draft.sender.workspace_id is None or not isinstance(handle, str):
            return self._writer.send(request.workspace.id, draft)  # control: send-target
        progress = rules.is_progress(draft.message["metadata"])
        return asyncio.ensure_future(
            self._answer_by_handle(draft.sender.workspace_id, request.workspace.id, handle, draft, progress)
        )

    async def _answer_by_handle(
        self, workspace_id: str, target_id: str | None, handle: str, outgoing: MessageDraft | UserNotice, progress: bool
    ) -> MessageReceipt:
        requested = await self._replies.find_by_handle(workspace_id, handle)
        self._replies.check_recipient(requested, target_id)
        if (
            requested.kind == MessageKind.DELEGATION
            and isinstance(outgoing, MessageDraft)
            and rules.is_decline(outgoing.message["metadata"])
        ):
            result = await self._replies.decline(workspace_id, handle, self._decline_reason(outgoing.text))
        else:
            result = await self._replies.send_answer(requested, outgoing, progress=progress)
        if result.receipt is None:
            raise LookupError("an accepted reply must have a receipt")
        return result.receipt

    def _decline_reason(self, text: str) -> str:
        maximum = self._limits.short_text_length
        return single_line(text, maximum) or "it was declined"

    async def _await_reply(
        self,
        request: Request,
        draft: MessageDraft,
        sending: "asyncio.Future[MessageReceipt]",
        receipt_of: "Callable[[asyncio.Future[MessageReceipt]], Response]",
        seconds: int,
    ) -> Response:
        """Return the answer of a push agent, or a receipt if the agent is busy or does not answer in time."""
        try:
            receipt, state = await self._reply_wait.wait_for_reply(request, sending, seconds)
        except MoleculeError:
            if _succeeded(sending):
                raise
            return receipt_of(sending)
        if state is not None and state.answer is not None:
            return Response(to_rpc_response(draft.rpc_id, state.answer))
        if state is not None and state.is_dead:
            raise DeliveryRejected(reason=state.dead_reason, detail=state.dead_detail)
        depth = await self._reply_wait.status_reader.inbox_depth(request.workspace.id)
        explanation = "the agent has not answered yet"
        if state is not None:
            explanation = "the agent is busy or could not be reached; the message waits in its inbox"
        explanation += (
            "; its answer will arrive in your inbox" if receipt.expects_reply else "; a2a/queue shows its state"
        )
        at = to_rfc3339(receipt.created_at)
        rpc_result = queued_response(
            draft.rpc_id, activity_id=receipt.activity_id, context_id=receipt.context_id, at=at
        )
        queued = {"queued": True, "queue_id": receipt.activity_id, "queue_depth": depth, "message": explanation}
        return json_response(
            {**rpc_result, "delivery_mode": "push-async" if state is None else DeliveryMode.PUSH, **queued}, 202
        )

    def _wait_seconds(self, request: Request) -> int:
        """Return the seconds that a sender waits for a push agent. Raises InvalidField."""
        requested = request.header(b"x-timeout")
        if requested is None:
            return self._limits.patience_seconds
        maximum = self._limits.patience_most_seconds
        return read_int_param({"X-Timeout": requested.strip()}, "X-Timeout", minimum=0, maximum=maximum) or 0

    def _parse_draft(self, request: Request, body: Any) -> MessageDraft:
        sent = parse_send(body, strict=False, limits=self._limits)
        dedupe_key = idempotency_key_of(request, self._limits)
        if dedupe_key is None:
            dedupe_key = sent.message_id  # control: message-dedupe-key
        return draft_of(request, sent, dedupe_key)

    async def notify_user(self, request: Request) -> Response:
        """Send an agent's message to its user.

        It answers the message named by `reply_handle` or `in_reply_to`, else the newest that the user waits for. With
        `progress` it only reports that work is under way.
        """
        body, own = request.parse_body(NotifyBody), request.workspace.id
        metadata: dict[str, Any] = {} if body.in_reply_to is None else {"in_reply_to": body.in_reply_to}
        if body.progress:
            metadata["progress"] = True
        user_notice = UserNotice(
            self._notify_parts(body), idempotency_key_of(request, self._limits), metadata
        )  # control: notice-idempotency-key
        if body.reply_handle is not None:
            receipt = await self._answer_by_handle(own, None, body.reply_handle, user_notice, body.progress)
        else:
            receipt = await self._writer.notify_user(own, user_notice)
        return notice_response(receipt)

    def _notify_parts(self, body: NotifyBody) -> list[dict[str, Any]]:
        return message_parts(body.message, body.attachments, self._limits)

    async def broadcast_message(self, request: Request) -> Response:
        """Send a message to all other workspaces of the organisation. Each copy counts as a message of its sender."""
        body = request.parse_body(NotifyBody)
        parts, sender = self._notify_parts(body), sender_of(request.caller)
        copies = len(self._writer.broadcasts.list_recipients(request.workspace.id))
        if sender.workspace_id is not None:
            request.rate_status = self._rate_limiter.charge_sends(
                sender.workspace_id, request.workspace.org_id, copies - 1
            )
        broadcast_request = BroadcastDraft(
            sender, parts, body.message, idempotency_key_of(request, self._limits), body.in_reply_to
        )
        result = await self._writer.broadcasts.send(request.workspace.id, broadcast_request)
        return json_response({"status": "sent", **msgspec.structs.asdict(result)})

    async def report_activity(self, request: Request) -> Response:
        """Add a row to the agent's own log.

        An error whose request_body names an open message (`activity_id`) is also shown at that message."""
        report = request.parse_body(AgentLogEntry)
        if report.activity_type not in LOGGABLE_TYPES:
            raise InvalidField(reason=f"activity_type has an unknown value. Use one of: {', '.join(LOGGABLE_TYPES)}.")
        if report.status not in LOG_STATUSES:
            raise InvalidField(reason=f"status has an unknown value. Use one of: {', '.join(LOG_STATUSES)}.")
        if report.source_id not in (None, "", request.workspace.id):
            raise InvalidCaller
        await self._writer.log_activity(request.workspace.id, self._clean_report(report))
        about = report.request_body.get("activity_id") if isinstance(report.request_body, dict) else None
        if report.activity_type == ActivityType.ERROR and isinstance(about, str):
            with contextlib.suppress(NotFound):  # the message may be deleted already
                await self._replies.note_failure(request.workspace.id, about, report.error_detail or "it failed")
        return json_response({"status": "logged"})

    def _clean_report(self, report: AgentLogEntry) -> AgentLogEntry:
        limit = self._limits.short_text_length
        fields = msgspec.structs.asdict(report)
        for name in ("method", "target_id"):
            if fields[name] is not None:
                fields[name] = validate_line(fields[name], limit, name)
        if report.summary is not None:
            fields["summary"] = truncate_line(report.summary, limit)
        if report.error_detail is not None:
            fields["error_detail"] = report.error_detail[: self._limits.error_detail_length]
        if report.duration_ms is not None and not 0 <= report.duration_ms < 1 << 53:
            raise InvalidField(
                reason=f"duration_ms cannot be {report.duration_ms}. Use a number of milliseconds from 0."
            )
        return AgentLogEntry(**fields)


def message_parts(
    text: str,
    attachments: list[dict[str, Any]],
    limits: Limits,
    *,
    data: Sequence[dict[str, Any] | list[Any]] = (),
) -> list[dict[str, Any]]:
    """Return an agent's text, attachments and data as message parts. Raises InvalidMessage."""
    if not text.strip() and not attachments and not data:
        raise InvalidMessage(reason="the message cannot be empty. Add a text or a file.")
    if len(text.encode()) > limits.text_bytes:
        raise InvalidMessage(reason=f"the text is larger than the limit of {limits.text_bytes} bytes. Shorten it.")
    if data and len(msgspec.json.encode(data)) > limits.text_bytes:
        raise InvalidMessage(
            reason=f"the data is larger than the limit of {limits.text_bytes} bytes of JSON. Send it as a file."
        )
    if len(attachments) > limits.attachments:
        raise InvalidMessage(
            reason=f"a message cannot have more than {limits.attachments} files. Send the rest separately."
        )
    parts: list[dict[str, Any]] = [{"kind": "text", "text": text}] if text else []
    parts += [{"kind": "data", "data": each} for each in data]
    parts += [{"kind": "file", "file": attachment} for attachment in attachments]
    if len(parts) > limits.parts:
        raise InvalidMessage(reason=f"a message cannot have {len(parts)} parts. Use at most {limits.parts}.")
    return parts


def idempotency_key_of(request: Request, limits: Limits) -> str | None:
    """Return the key of the header Idempotency-Key, if there is one. Raises InvalidField."""
    key = request.header(b"idempotency-key")
    if key is not None and not is_valid_client_id(key, limits.id_length):
        limit = limits.id_length
        raise InvalidField(reason=f"Idempotency-Key is not valid. Use at most {limit} characters of {ID_ALPHABET}.")
    return key


def draft_of(request: Request, sent: SendRequest, dedupe_key: str | None) -> MessageDraft:
    """Return the draft of a parsed `message/send`."""
    trace_parent = None  # from the header, or from the metadata for clients that cannot set one
    for each in (request.header(b"traceparent"), sent.params["metadata"].get("traceparent")):
        if each is not None and trace_parent is None:
            trace_parent = parse_traceparent(each)
    return MessageDraft(
        sender=sender_of(request.caller),
        params=sent.params,
        message=sent.message,
        rpc_id=sent.rpc_id,
        text=sent.text,
        intent=sent.intent,
        dedupe_key=dedupe_key,
        context_id=sent.context_id,
        trace_parent=trace_parent,
    )


def _succeeded(result: "asyncio.Future[MessageReceipt]") -> bool:
    return not result.cancelled() and result.exception() is None


def _receipt_response(rpc_id: str | int | None, receipt: MessageReceipt) -> Response:
    at = to_rfc3339(receipt.created_at)
    return json_response(queued_response(rpc_id, activity_id=receipt.activity_id, context_id=receipt.context_id, at=at))


def _rpc_error(rpc_id: str | int | None, error: MoleculeError, speaks_rpc: bool) -> Response:
    """Return an error as a JSON-RPC response, or raise it if the caller does not speak JSON-RPC."""
    if not speaks_rpc or not isinstance(error, JSON_RPC_ERRORS):
        raise error
    row = error_mapping(error)
    answer = json_response(rpc_error_response(rpc_id, row.rpc, error.text, row.code), row.status)
    answer.headers = tuple(problem_headers(error))
    return answer


def sender_of(caller: Caller) -> Sender:
    """Return the sender of a message, by the credential and never by the body."""
    if caller.kind is CredentialKind.WORKSPACE:
        return Sender(key=f"workspace:{caller.id}", workspace_id=caller.id, user_id=None, user_name=None)
    return Sender(key=caller.key, workspace_id=None, user_id=caller.id, user_name=caller.name)
