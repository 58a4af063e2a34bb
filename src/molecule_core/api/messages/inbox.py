"""Routes by which agents and people read messages: the activity log, the inbox, acks and the chat."""

from typing import Annotated

import msgspec
from msgspec import Struct

from molecule_core.access.model import Role
from molecule_core.api.http.response import Response
from molecule_core.api.messages.inbox_view import InboxPresenter
from molecule_core.api.query_parameters import (
    AFTER,
    BEFORE,
    LIMIT,
    WAIT,
    bool_param,
    csv_param,
    enum_param,
    int_param,
    parse_time,
    query_params,
    read_int_param,
    read_text_param,
    string_param,
    time_param,
)
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
from molecule_core.common.clock import SECOND, Clock
from molecule_core.common.errors import CursorNotFound, InvalidField
from molecule_core.common.limits import Limits
from molecule_core.common.metrics import MessageMeter
from molecule_core.common.tracing import Tracing
from molecule_core.messages.inbox.claims import InboxClaims
from molecule_core.messages.model import ActivityFilters, ActivityPageRow
from molecule_core.messages.obligations.instructions import InstructionOptions
from molecule_core.messages.reader import MessageReader
from molecule_core.messages.writer import MessageWriter
from molecule_core.wire.schemas.activity import ActivityRow, ActivityType, ChatPage, WaitingMail
from molecule_core.wire.schemas.envelope import INSTRUCTION_INCLUDES

_OWN_READ_ACCESS = AccessPolicy(ALL_CREDENTIALS, WorkspaceScope.OWN, Role.VIEWER)
_BEFORE_TS_PARAM = time_param("before_ts", "Only rows older than this.")
_ACTIVITY_QUERY = query_params(
    LIMIT,
    WAIT,
    string_param("since_id", "Rows after this one, oldest first; rows up to it are acknowledged."),
    int_param("claim", "Claim messages under a lease of this many seconds.", minimum=1),
    bool_param("reports_read", "With claim: the agent reports by activity/read which messages its model has read."),
    bool_param("waiting", "Only unacknowledged messages, claimed or not. Claims nothing."),
    string_param("type", "Only rows of this activity_type."),
    enum_param("source", "Only rows from users (canvas) or from agents.", ("canvas", "agent")),
    string_param("peer_id", "Only the conversation with this workspace."),
    int_param("since_secs", "Only rows younger than this many seconds.", minimum=1),
    _BEFORE_TS_PARAM,
    csv_param("include", "What to add to each row.", ("attachments", "peer_info", *INSTRUCTION_INCLUDES)),
)


class AckBody(Struct):
    """An acknowledgement of one message, or of all up to a number. `attempt`: the delivery attempt that it is for."""

    acked_seq: int | None = None
    activity_id: str | None = None
    attempt: Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)] | None = None


class ClaimedMessage(Struct):
    """A claimed message, and the attempt of its claim."""

    activity_id: str
    attempt: int


class ReleaseClaimsBody(Struct):
    """Claimed messages that the agent will not handle. `end_waits`: also end its waiting claims."""

    claims: list[ClaimedMessage]
    end_waits: bool = False


class ReadClaimsBody(Struct):
    """Claimed messages that the model of an agent has read."""

    claims: list[ClaimedMessage]


class ReadUpToBody(Struct):
    """How far a person has read: the `seq` of a message of the chat.

    `unread`: the messages after it are unread again."""

    seq: Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
    unread: bool = False


class InboxRoutes:
    """Routes of the activity log, the inbox, acks and the chat."""

    def __init__(
        self,
        writer: MessageWriter,
        inbox_claims: InboxClaims,
        reader: MessageReader,
        presenter: InboxPresenter,
        message_meter: MessageMeter,
        *,
        clock: Clock,
        limits: Limits,
        tracing: Tracing | None,
    ) -> None:
        self._presenter = presenter
        self._writer = writer
        self._inbox_claims = inbox_claims
        self._reader = reader
        self._message_meter = message_meter
        self._clock = clock
        self._limits = limits
        self._tracing = tracing

    def routes(self) -> list[Route]:
        """Return the routes."""
        one = "/workspaces/{id}"
        own_agent = AccessPolicy(frozenset((WORKSPACE,)), WorkspaceScope.OWN)
        paged = query_params(LIMIT, BEFORE, AFTER, _BEFORE_TS_PARAM)
        return [
            Route(
                "GET",
                f"{one}/activity",
                self.list_activity,
                _OWN_READ_ACCESS,
                "Read the activity log or claim messages",
                None,
                list[ActivityRow],
                query=_ACTIVITY_QUERY,
                keeps_history=True,
            ),
            Route(
                "GET",
                f"{one}/activities",
                self.list_activity,
                _OWN_READ_ACCESS,
                "Read the activity log or claim messages (alias)",
                None,
                list[ActivityRow],
                query=_ACTIVITY_QUERY,
                keeps_history=True,
            ),
            Route(
                "GET",
                f"{one}/waiting",
                self.get_waiting_mail,
                _OWN_READ_ACCESS,
                "Count waiting messages by sender",
                None,
                WaitingMail,
                keeps_history=True,
            ),
            Route("POST", f"{one}/activity/ack", self.ack_messages, own_agent, "Acknowledge messages", AckBody),
            Route(
                "POST",
                f"{one}/activity/release",
                self.release_claims,
                own_agent,
                "Release claimed messages",
                ReleaseClaimsBody,
            ),
            Route(
                "POST",
                f"{one}/activity/read",
                self.mark_claims_read,
                own_agent,
                "Report which claimed messages the model has read",
                ReadClaimsBody,
            ),
            Route(
                "GET",
                f"{one}/chat-history",
                self.get_chat,
                _OWN_READ_ACCESS,
                "Read the chat history",
                None,
                ChatPage,
                query=paged,
                keeps_history=True,
            ),
            Route(
                "POST",
                f"{one}/chat/read",
                self.mark_chat_read,
                AccessPolicy(PERSON_OR_ADMIN, WorkspaceScope.OWN),
                "Mark the chat as read",
                ReadUpToBody,
            ),
        ]

    async def list_activity(self, request: Request) -> Response:
        """Read the activity log, or claim messages from the inbox.

        Without parameters: newest first. `since_id`: oldest first, after that row. `claim`: claims messages from the
        inbox for this many seconds; with `reports_read` (`true`) they count as delivered once the agent has reported
        that its model has read them, and until then as in the agent's inbox. `waiting` (`true`): messages that are not
        handled yet, claimed or not, oldest first; `since_id`: after that row.

        With `since_id` and without `claim`, the agent itself acknowledges all rows up to `since_id`.
        """
        query = request.query_params()
        filters = self._filters(query)
        limits = self._limits
        count = read_int_param(query, "limit", minimum=1, maximum=limits.page_rows) or min(100, limits.page_rows)
        wait = read_int_param(query, "wait", minimum=0, maximum=limits.wait_seconds) or 0
        lease = read_int_param(query, "claim", minimum=1, maximum=limits.lease_seconds)
        since_id = read_text_param(query, "since_id")
        is_history = filters.peer_id is not None or filters.before is not None
        options = self._presenter.options_for(
            request.workspace if request.is_own_workspace else None, query, is_history=is_history
        )
        self._message_meter.polls += wait > 0
        try:
            if query.get("waiting") == "true":
                after = 0 if since_id is None else await self._seq_of(request, since_id)
                rows = await self._reader.list_unacked(request.workspace.id, count, self._clock.now(), after)
            elif lease is not None:
                reports_read = query.get("reports_read") == "true"
                rows = await self._claim_messages(request, lease, count, wait, options, reports_read=reports_read)
            elif since_id is not None:
                rows = await self._read_after(request, since_id, filters, count, wait)
            elif request.is_own_workspace and filters.activity_type == ActivityType.RECEIVE:
                # This is the first page of a client that keeps a cursor.
                rows = await self._inbox_claims.read_latest(request.workspace.id, filters, count, wait=wait)
            else:
                rows = await self._reader.list_newest(request.workspace.id, filters, count, wait=wait)
        finally:
            self._message_meter.polls -= wait > 0
        if request.is_own_workspace and (lease is not None or since_id is not None):
            # Reading the log is not a delivery.
            self._message_meter.delivered += len(rows)
            if self._tracing is not None:
                self._trace_delivery(self._tracing, rows)
        includes = query.get("include", "").split(",")
        with_peer = "peer_info" in includes
        with_files = with_peer or "attachments" in includes
        if lease is None:
            # Claiming has added the instructions already, where it could.
            rows = await self._presenter.with_instructions(request.workspace, rows, options)
        views = [self._reader.to_activity_row(row, with_peer=with_peer, with_files=with_files) for row in rows]
        await self._presenter.refresh_delegation_status(request.workspace.id, views)
        return json_response([self._presenter.present_row(*each, options) for each in zip(views, rows, strict=True)])

    def _trace_delivery(self, tracing: Tracing, rows: list[ActivityPageRow]) -> None:
        for row in rows:
            if row.trace_parent is not None:
                about = {"molecule.workspace": row.workspace_id, "molecule.activity": row.id}
                tracing.begin_span("molecule.deliver", row.trace_parent, about, row.created_at).end()

    def _filters(self, query: dict[str, str]) -> ActivityFilters:
        source = read_text_param(query, "source")
        if source not in (None, "canvas", "agent"):
            raise InvalidField(reason="source has an unknown value. Use canvas or agent.")
        since = read_int_param(query, "since_secs", minimum=1, maximum=self._limits.since_seconds)
        return ActivityFilters(
            activity_type=read_text_param(query, "type"),
            source=source,
            peer_id=read_text_param(query, "peer_id"),
            since=None if since is None else self._clock.now() - since * SECOND,
            before=_parse_time(query, "before_ts"),
        )

    async def _read_after(
        self, request: Request, since_id: str, filters: ActivityFilters, count: int, wait: int
    ) -> list[ActivityPageRow]:
        seq = await self._seq_of(request, since_id)
        if request.is_own_workspace and filters.activity_type in (None, ActivityType.RECEIVE):
            return await self._inbox_claims.read_after_cursor(request.workspace.id, seq, filters, count, wait=wait)
        return await self._reader.list_after(request.workspace.id, seq, filters, count, wait=wait)

    async def _seq_of(self, request: Request, since_id: str) -> int:
        """Return the position of a row of the log. Raises CursorNotFound."""
        seq = await self._reader.find_seq(request.workspace.id, since_id)
        if seq is None:
            raise CursorNotFound(name="since_id")
        return seq

    async def _claim_messages(
        self,
        request: Request,
        lease: int,
        count: int,
        wait: int,
        options: InstructionOptions | None,
        *,
        reports_read: bool,
    ) -> list[ActivityPageRow]:
        """Claim messages. Raises InvalidField unless the agent itself asks."""
        if not request.is_own_workspace:
            raise InvalidField(
                reason="claim requires the token of the workspace. Read without claim, or use that token."
            )
        return await self._inbox_claims.claim(
            request.workspace.id,
            lease_seconds=lease,
            count=count,
            wait=wait,
            options=options,
            reports_read=reports_read,
        )

    async def get_waiting_mail(self, request: Request) -> Response:
        """Return how many messages wait and who sent them, without delivering any."""
        return json_response(await self._reader.waiting_mail(request.workspace.id, self._clock.now()))

    async def ack_messages(self, request: Request) -> Response:
        """Acknowledge messages, so that they are not delivered again."""
        body = request.parse_body(AckBody)
        if (body.acked_seq is None) == (body.activity_id is None):
            raise InvalidField(reason="the ack must have exactly one of acked_seq and activity_id. Send one of them.")
        if body.activity_id is not None:
            floor = await self._inbox_claims.acks.ack_message(request.workspace.id, body.activity_id, body.attempt)
        else:
            seq = body.acked_seq or 0
            if not 0 <= seq < 1 << 62:
                raise InvalidField(reason="acked_seq is not the seq of a row. Use the seq of a row of the inbox.")
            floor = await self._inbox_claims.acks.ack_up_to(request.workspace.id, seq, body.attempt)
        self._message_meter.acks += 1
        return json_response({"last_acked_seq": floor})

    async def release_claims(self, request: Request) -> Response:
        """Release claimed messages that an agent will not handle, before their leases end.

        An agent that stops sets `end_waits`, then reads the response of its waiting claim: no message is lost between.
        """
        body = request.parse_body(ReleaseClaimsBody)
        count = await self._writer.release_claims(request.workspace.id, self._attempts_of(body.claims))
        if body.end_waits:
            self._inbox_claims.end_waits(request.workspace.id)
        return json_response({"released": count})

    async def mark_claims_read(self, request: Request) -> Response:
        """Report claimed messages that the model of an agent has read: they count as delivered from now on.

        For messages that were claimed with `reports_read`. Others, and claims of other attempts, are skipped."""
        body = request.parse_body(ReadClaimsBody)
        count = await self._inbox_claims.mark_read(request.workspace.id, self._attempts_of(body.claims))
        return json_response({"read": count})

    def _attempts_of(self, claims: list[ClaimedMessage]) -> dict[str, int]:
        """Return the attempts of claims by activity id. Raises InvalidField if there are too many."""
        if len(claims) > self._limits.page_rows:
            raise InvalidField(
                reason=f"a request cannot have more than {self._limits.page_rows} claims. "
                "Send the rest in another request."
            )
        return {each.activity_id.replace("\x00", ""): each.attempt for each in claims}

    async def get_chat(self, request: Request) -> Response:
        """List messages between the workspace and its users, oldest first.

        `before` (an id) and `before_ts` page back, `after` (an id) forward.
        """
        query = request.query_params()
        count = read_int_param(query, "limit", minimum=1, maximum=self._limits.history_rows) or 100
        page = await self._reader.chat_page(
            request.workspace.id,
            count=count,
            before=_parse_time(query, "before_ts"),
            before_seq=await self._cursor_position(request, query, "before"),
            after_seq=await self._cursor_position(request, query, "after"),
        )
        return json_response(page)

    async def _cursor_position(self, request: Request, query: dict[str, str], name: str) -> int | None:
        activity_id = read_text_param(query, name)
        if activity_id is None:
            return None
        seq = await self._reader.find_seq(request.workspace.id, activity_id)
        if seq is None:
            raise CursorNotFound(name=name)
        return seq

    async def mark_chat_read(self, request: Request) -> Response:
        """Mark the chat as read by a person, in all of their browsers.

        A mark only moves forward. With `unread` it only moves back."""
        mark = request.parse_body(ReadUpToBody)
        await self._writer.mark_read(request.workspace.id, request.caller.id, mark.seq, back=mark.unread)
        return json_response({})


def _parse_time(query: dict[str, str], name: str) -> int | None:
    """Parse a time of the query (RFC 3339, with an offset) into microseconds. Raises InvalidField."""
    text = query.get(name)
    return parse_time(text.replace(" ", "+"), name) if text else None
