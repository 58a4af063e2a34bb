"""Routes of replies by handle, questions with options, drafts and obligations."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from molecule_core.access.model import Role
from molecule_core.api.http.response import Response
from molecule_core.api.messages.send import idempotency_key_of, message_parts, notice_response
from molecule_core.api.query_parameters import (
    BEFORE,
    LIMIT,
    enum_param,
    query_params,
    read_int_param,
    read_state_param,
    read_text_param,
)
from molecule_core.api.rate_limits import SEND_RATE
from molecule_core.api.routing import (
    ALL_CREDENTIALS,
    PERSON_OR_ADMIN,
    WORKSPACE,
    AccessPolicy,
    Request,
    Route,
    WorkspaceScope,
    json_response,
)
from molecule_core.common.errors import InvalidField, InvalidMessage
from molecule_core.common.limits import Limits
from molecule_core.common.metrics import MessageMeter
from molecule_core.common.text import ID_ALPHABET, is_valid_client_id, single_line, validate_line
from molecule_core.messages.delivery.status_reader import OBLIGATION_STATES, ORG_OBLIGATION_STATES, DeliveryStatusReader
from molecule_core.messages.model import UserNotice
from molecule_core.messages.replies import ReplyOutcome, ReplyWriter
from molecule_core.messages.writer import MessageWriter
from molecule_core.wire.schemas.activity import Intent
from molecule_core.wire.schemas.obligations import DraftResponse, ObligationPage, ReplyResponse

_DEFAULT_PAGE = 100


class ReplyBody(Struct):
    """A reply to the message that `handle` names. With `progress` it only reports that work is under way.

    `data`: structured results, each an object or a list, which A2A clients get as data parts."""

    handle: str
    text: str = ""
    progress: bool = False
    intent: Intent = Intent.INFORM
    attachments: list[dict[str, Any]] = []
    data: list[dict[str, Any] | list[Any]] = []
    messageId: str | None = None


class DeclineBody(Struct):
    """A refusal to answer the message that `handle` names."""

    handle: str
    reason: str


class AskOptionsBody(Struct):
    """A question to the user, with answers to choose from. `progress`: it answers no message, the answer follows."""

    question: str
    options: Annotated[list[str], Meta(min_length=1)]
    in_reply_to: str | None = None
    progress: bool = False


_MAX_COVERED = 100


class DraftBody(Struct):
    """An answer that an agent wrote and did not send. `send`: send it, unless the workspace keeps drafts.

    `covers`: other messages of people that it answers too, since they arrived during the same turn."""

    text: str
    send: bool = False
    covers: Annotated[list[str], Meta(max_length=_MAX_COVERED)] = []


class SendDraftBody(Struct):
    """A text to send instead of the stored draft."""

    text: str | None = None


class ReplyRoutes:
    """Routes of replies, drafts and obligations."""

    def __init__(
        self,
        replies: ReplyWriter,
        writer: MessageWriter,
        status_reader: DeliveryStatusReader,
        message_meter: MessageMeter,
        *,
        limits: Limits,
    ) -> None:
        self._replies = replies
        self._writer = writer
        self._status_reader = status_reader
        self._message_meter = message_meter
        self._limits = limits

    def routes(self) -> list[Route]:
        """Return the routes."""
        one = "/workspaces/{id}"
        own_agent = AccessPolicy(frozenset((WORKSPACE,)), WorkspaceScope.OWN)
        operate = AccessPolicy(PERSON_OR_ADMIN, WorkspaceScope.OWN, Role.OPERATOR)
        draft = f"{one}/messages/{{activity_id}}/draft"
        page = ObligationPage
        of_one = query_params(LIMIT, BEFORE, enum_param("state", "Filter by state; default open.", OBLIGATION_STATES))
        of_all = query_params(
            LIMIT, BEFORE, enum_param("state", "Filter by state; default unanswered.", ORG_OBLIGATION_STATES)
        )
        return [
            Route(
                "POST",
                f"{one}/reply",
                self.reply_by_handle,
                own_agent,
                "Reply to a message",
                ReplyBody,
                ReplyResponse,
                rate_class=SEND_RATE,
            ),
            Route(
                "POST",
                f"{one}/decline",
                self.decline_message,
                own_agent,
                "Decline a message",
                DeclineBody,
                ReplyResponse,
                rate_class=SEND_RATE,
            ),
            Route(
                "POST",
                f"{one}/options",
                self.ask_user,
                own_agent,
                "Ask the user a question with buttons",
                AskOptionsBody,
                rate_class=SEND_RATE,
            ),
            Route(
                "POST",
                draft,
                self.keep_draft,
                own_agent,
                "Store an unsent answer as a draft, or send it",
                DraftBody,
                DraftResponse,
                rate_class=SEND_RATE,
            ),
            Route(
                "POST",
                f"{draft}/send",
                self.send_draft,
                operate,
                "Send a draft",
                SendDraftBody,
                DraftResponse,
                body_optional=True,
            ),
            Route("POST", f"{draft}/discard", self.discard_draft, operate, "Discard a draft", None, DraftResponse),
            Route(
                "GET",
                f"{one}/obligations",
                self.list_workspace_obligations,
                AccessPolicy(ALL_CREDENTIALS, WorkspaceScope.OWN, Role.VIEWER),
                "List the obligations of a workspace",
                None,
                page,
                query=of_one,
                keeps_history=True,
            ),
            Route(
                "GET",
                "/orgs/{org_id}/obligations",
                self.list_org_obligations,
                AccessPolicy(PERSON_OR_ADMIN),
                "List unanswered obligations of an organisation",
                None,
                page,
                query=of_all,
            ),
        ]

    # -- answering -----------------------------------------------------------------------------------------------------

    async def reply_by_handle(self, request: Request) -> Response:
        """Reply to the message of a handle, and acknowledge it.

        The handle determines the recipient. A second reply by the same handle returns the result of the first.
        """
        body = request.parse_body(ReplyBody)
        parts = message_parts(body.text, body.attachments, self._limits, data=body.data)
        key = idempotency_key_of(request, self._limits) or _checked_message_id(body.messageId, self._limits)
        result = await self._replies.reply(
            request.workspace.id, body.handle, parts, progress=body.progress, intent=body.intent, key=key
        )
        self._message_meter.accepted += 1
        return _reply_response(result)

    async def decline_message(self, request: Request) -> Response:
        """Decline a message with a reason: a person sees it at the message, a peer is notified."""
        body = request.parse_body(DeclineBody)
        reason = single_line(body.reason, self._limits.short_text_length)
        if not reason:
            raise InvalidMessage(reason="reason cannot be empty. Explain why you decline.")
        return _reply_response(await self._replies.decline(request.workspace.id, body.handle, reason))

    async def ask_user(self, request: Request) -> Response:
        """Ask the user a question with buttons.

        The choice arrives as a message of the user, with `option_of` and `option` in its metadata. A question counts as
        an answer, so it closes the obligation of the user's newest message, unless it has `progress`.
        """
        body = request.parse_body(AskOptionsBody)
        parts = message_parts(body.question, [], self._limits)
        metadata: dict[str, Any] = {"options": self._checked_options(body.options)}
        if body.in_reply_to is not None:
            metadata["in_reply_to"] = body.in_reply_to
        if body.progress:
            metadata["progress"] = True
        receipt = await self._writer.notify_user(
            request.workspace.id, UserNotice(parts, idempotency_key_of(request, self._limits), metadata)
        )
        return notice_response(receipt)

    def _checked_options(self, texts: list[str]) -> list[str]:
        if len(texts) > self._limits.options:
            raise InvalidField(reason=f"the question has too many options. Use at most {self._limits.options}.")
        options = [validate_line(each, self._limits.option_length, "options") for each in texts]
        if not all(each.strip() for each in options) or len(set(options)) < len(options):
            raise InvalidField(reason="two options cannot be the same or empty. Use a different text for each option.")
        return options

    # -- drafts --------------------------------------------------------------------------------------------------------

    async def keep_draft(self, request: Request) -> Response:
        """Store an unsent final text as a draft for people; with `send` send it, unless the workspace keeps drafts.

        A draft for a message that is answered already is not stored.
        """
        body = request.parse_body(DraftBody)
        activity_id, text = request.path_param("activity_id", "message"), self._checked_text(body.text)
        state = await self._replies.keep_draft(request.workspace.id, activity_id, text, send=body.send)
        for each in body.covers:
            await self._replies.close_covered(request.workspace.id, each.replace("\x00", ""), activity_id)
        return json_response(DraftResponse(state))

    async def send_draft(self, request: Request) -> Response:
        """Send a draft as the workspace, which answers the message."""
        new_text = request.parse_body(SendDraftBody).text
        text = None if new_text is None else self._checked_text(new_text)
        receipt = await self._replies.send_draft(
            request.workspace.id, request.path_param("activity_id", "message"), text
        )
        return json_response(DraftResponse("answered", receipt.activity_id))

    async def discard_draft(self, request: Request) -> Response:
        """Discard a draft. The message still waits for an answer."""
        state = await self._replies.discard_draft(request.workspace.id, request.path_param("activity_id", "message"))
        return json_response(DraftResponse(state))

    def _checked_text(self, text: str) -> str:
        (part,) = message_parts(text, [], self._limits)
        return str(part["text"])

    # -- obligations ---------------------------------------------------------------------------------------------------

    async def list_workspace_obligations(self, request: Request) -> Response:
        """List obligations of a workspace, newest first.

        `state`: open (default, all that are not closed), unanswered (overdue or answered outside), overdue,
        answered_outside, answered, declined or all.
        """
        query = request.query_params()
        state, before = read_state_param(query, OBLIGATION_STATES) or "open", read_text_param(query, "before")
        page = await self._status_reader.list_obligations(request.workspace.id, state, self._page_size(query), before)
        return json_response(page)

    async def list_org_obligations(self, request: Request) -> Response:
        """List obligations of an organisation that are not answered.

        `state`: unanswered (default, overdue or answered outside), overdue or answered_outside.
        """
        query = request.query_params()
        state, before = read_state_param(query, ORG_OBLIGATION_STATES) or "unanswered", read_text_param(query, "before")
        page = await self._status_reader.list_unanswered(
            request.path_params["org_id"], state, self._page_size(query), before
        )
        return json_response(page)

    def _page_size(self, query: dict[str, str]) -> int:
        maximum = self._limits.page_rows
        return read_int_param(query, "limit", minimum=1, maximum=maximum) or min(_DEFAULT_PAGE, maximum)


def _checked_message_id(message_id: str | None, limits: Limits) -> str | None:
    if message_id is not None and not is_valid_client_id(message_id, limits.id_length):
        raise InvalidMessage(
            reason=f"messageId is not valid. Use at most {limits.id_length} characters of {ID_ALPHABET}."
        )
    return message_id


def _reply_response(result: ReplyOutcome) -> Response:
    reply_result = ReplyResponse(
        status="declined" if result.state == "declined" else "sent",
        activity_id="" if result.receipt is None else result.receipt.activity_id,
        answers=result.inbound.id,
        peer_id=result.inbound.source_id or "",
        state=result.state,
        acknowledged=result.acknowledged,
    )
    return Response(msgspec.json.encode(reply_result))
