"""Routes of delegations: begin, wait, cancel, retry, list and read."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, NamedTuple

from msgspec import Meta, Struct

from molecule_core.access.model import Role
from molecule_core.api.delegations.access import DelegationAccess
from molecule_core.api.delegations.scope_gate import delegation_header
from molecule_core.api.delegations.scope_routes import ScopeRoutes
from molecule_core.api.http.response import Response
from molecule_core.api.messages.result_waits import DelegationWait
from molecule_core.api.messages.send import idempotency_key_of, message_parts, sender_of
from molecule_core.api.query_parameters import (
    BEFORE,
    LIMIT,
    ORG,
    enum_param,
    int_param,
    query_params,
    read_int_param,
    read_state_param,
    read_text_param,
    string_param,
)
from molecule_core.api.rate_limits import SEND_RATE
from molecule_core.api.routing import (
    ADMIN,
    ALL_CREDENTIALS,
    PERSON_OR_ADMIN,
    WORKSPACE,
    AccessPolicy,
    Request,
    Route,
    WorkspaceScope,
    json_response,
)
from molecule_core.approvals.reader import ApprovalReader
from molecule_core.common.errors import InvalidField, NotFound
from molecule_core.common.limits import Limits
from molecule_core.common.metrics import MessageMeter
from molecule_core.common.text import ID_ALPHABET, is_valid_client_id, single_line
from molecule_core.delegations import rules
from molecule_core.delegations.acceptance_rules import parse_terms
from molecule_core.delegations.model import ClaimedResult, Delegation, DelegationRequest
from molecule_core.delegations.reader import STATES, DelegationReader, timeline_item
from molecule_core.delegations.writer import DelegationWriter
from molecule_core.org.reader import OrgReader
from molecule_core.views.delegation_tree import DelegationTreeReader
from molecule_core.views.timeline import TimelineReader
from molecule_core.wire.protocols.trace_context import parse_traceparent
from molecule_core.wire.schemas.delegation_scope import DelegationScope
from molecule_core.wire.schemas.delegations import (
    DelegateResponse,
    DelegationDetail,
    DelegationItem,
    DelegationPage,
    DelegationStats,
    TimelinePage,
)

_DEFAULT_PAGE = 50
ADMINS = frozenset((ADMIN,))
_DELEGATED_STATUS = "delegated"
_INBOX = "inbox"
_DIRECTIONS = ("out", "in", "both")
_STATE_PARAM = enum_param("state", "Filter by state.", STATES)
WaitSeconds = Annotated[int, Meta(ge=0, lt=1 << 31)]


class DelegateBody(Struct):
    """A task for another workspace.

    `wait`: seconds to wait for its end. `idempotency_key`: the same key returns the same delegation, as does the header
    Idempotency-Key. `in_reply_to`: the message that the caller is working on. `accept`: checks that the answer must
    pass; `rounds`: how many answers that fail are returned to the target. `may`: what the task may do at most; it never
    may do more than the work that the caller does it for.
    """

    target_id: str
    task: str
    attachments: list[dict[str, Any]] = []
    idempotency_key: str | None = None
    wait: WaitSeconds = 0
    deadline_seconds: Annotated[int, Meta(ge=1, lt=1 << 31)] | None = None
    in_reply_to: str | None = None
    context_id: str | None = None
    accept: list[dict[str, Any]] | None = None
    rounds: int | None = None
    may: DelegationScope | None = None


class WaitDelegationBody(Struct):
    """Seconds to wait until the status of the delegation changes."""

    wait: WaitSeconds = 0


class CancelDelegationBody(Struct):
    """Why a delegation is cancelled."""

    reason: str = ""


class DelegationViews(NamedTuple):
    """Reads of what is shown beside a delegation."""

    tree: DelegationTreeReader
    timeline: TimelineReader
    approvals: ApprovalReader


class DelegationRoutes:
    """Routes of delegations."""

    def __init__(
        self,
        writer: DelegationWriter,
        reader: DelegationReader,
        delegation_wait: DelegationWait,
        views: DelegationViews,
        org: OrgReader,
        catch_up: Callable[[], Awaitable[None]],
        message_meter: MessageMeter,
        *,
        limits: Limits,
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._access = DelegationAccess(reader)
        self._delegation_wait = delegation_wait
        self._views = views
        self._org = org
        self._catch_up = catch_up
        self._message_meter = message_meter
        self._limits = limits

    def routes(self) -> list[Route]:
        """Return the routes."""
        one, every = "/workspaces/{id}", "/workspaces/{id}/delegations"
        own_agent, viewer = (
            AccessPolicy(frozenset((WORKSPACE,)), WorkspaceScope.OWN),
            AccessPolicy(ALL_CREDENTIALS, WorkspaceScope.OWN, Role.VIEWER),
        )
        items, of_org = list[DelegationItem], "/orgs/{org_id}/delegations"
        wait, cancel = f"{every}/{{delegation_id}}/wait", f"{every}/{{delegation_id}}/cancel"
        source = AccessPolicy(ALL_CREDENTIALS, WorkspaceScope.OWN, Role.OPERATOR)
        retry = f"{every}/{{delegation_id}}/retry"
        own_list = query_params(
            LIMIT,
            BEFORE,
            _STATE_PARAM,
            enum_param("direction", "Whether the workspace is source or target; default out.", _DIRECTIONS),
        )
        paged = query_params(LIMIT, int_param("before", "Page backwards from this seq.", minimum=1))
        of_all = query_params(LIMIT, BEFORE, _STATE_PARAM, ORG)
        counted = query_params(ORG)
        of_workspace = query_params(
            LIMIT,
            BEFORE,
            _STATE_PARAM,
            string_param("workspace_id", "Only those of this workspace, as source or target."),
        )
        return [
            Route(
                "POST",
                f"{one}/delegate",
                self.begin_delegation,
                own_agent,
                "Delegate a task",
                DelegateBody,
                DelegateResponse,
                202,
                rate_class=SEND_RATE,
                long_poll=True,
            ),
            Route(
                "GET",
                every,
                self.list_delegations,
                viewer,
                "List the delegations of a workspace",
                None,
                items,
                query=own_list,
                keeps_history=True,
            ),
            Route(
                "GET",
                f"{one}/timeline",
                self.get_timeline,
                viewer,
                "Get the timeline of a workspace",
                None,
                TimelinePage,
                query=paged,
                keeps_history=True,
            ),
            Route(
                "POST",
                wait,
                self.wait_for_delegation,
                own_agent,
                "Wait for a delegation",
                WaitDelegationBody,
                DelegateResponse,
                long_poll=True,
            ),
            Route(
                "POST",
                cancel,
                self.cancel_delegation,
                source,
                "Cancel a delegation",
                CancelDelegationBody,
                DelegationItem,
                body_optional=True,
            ),
            Route(
                "GET",
                "/delegations/{delegation_id}",
                self.get_delegation,
                AccessPolicy(ALL_CREDENTIALS),
                "Get a delegation",
                None,
                DelegationDetail,
            ),
            Route(
                "POST",
                retry,
                self.retry_delegation,
                source,
                "Retry a delegation",
                None,
                DelegateResponse,
                202,
                rate_class=SEND_RATE,
            ),
            Route(
                "GET",
                "/admin/delegations",
                self.list_all_delegations,
                AccessPolicy(ADMINS),
                "List delegations of all organisations",
                None,
                items,
                query=of_all,
            ),
            Route(
                "GET",
                "/admin/delegations/stats",
                self.get_stats,
                AccessPolicy(ADMINS),
                "Count delegations",
                None,
                DelegationStats,
                query=counted,
            ),
            Route(
                "GET",
                of_org,
                self.list_org_delegations,
                AccessPolicy(PERSON_OR_ADMIN),
                "List the delegations of an organisation",
                None,
                DelegationPage,
                query=of_workspace,
            ),
            *ScopeRoutes(self._reader.scopes).routes(),
        ]

    # -- begin and change ----------------------------------------------------------------------------------------------

    async def begin_delegation(self, request: Request) -> Response:
        """Begin a delegation.

        If the workspace delegated to the same target before under the same key, or the same task is still open, that
        delegation is returned, with `idempotent_hit`. The result arrives as a message in the inbox; `wait` waits for
        it.
        """
        body = request.parse_body(DelegateBody)
        delegation_request = self._delegation_request(request, body)
        if self._org.workspace(body.target_id) is None:  # another process may just have created it
            await self._catch_up()
        receipt = await self._delegation_wait.begin(self._writer.begin(delegation_request))
        self._message_meter.accepted += not receipt.is_duplicate
        outcome = ClaimedResult(receipt.row, "", "")
        if body.wait and receipt.row.open:
            outcome = await self._delegation_wait.wait_for_result(
                request, receipt.row, delegation_request.wait_seconds, receipt.held_until
            )
        return await self._receipt_response(
            outcome, is_hit=receipt.is_duplicate, is_new=not receipt.is_duplicate, status=202, may=receipt.may
        )

    def _delegation_request(self, request: Request, body: DelegateBody) -> DelegationRequest:
        limit = self._limits.id_length
        for name in ("idempotency_key", "in_reply_to", "context_id"):
            value = getattr(body, name)
            if value is not None and not is_valid_client_id(value, limit):
                raise InvalidField(reason=f"{name} is not valid. Use at most {limit} characters of {ID_ALPHABET}.")
        parts = message_parts(body.task, body.attachments, self._limits)
        terms = parse_terms(body.accept, body.rounds, self._limits)
        return DelegationRequest(
            source_id=request.workspace.id,
            target_id=body.target_id,
            parts=parts,
            task=body.task,
            sender=sender_of(request.caller),
            key=idempotency_key_of(request, self._limits) or body.idempotency_key,
            wait_seconds=min(body.wait, self._limits.patience_most_seconds),
            deadline_seconds=body.deadline_seconds,
            cause_id=delegation_header(request) or body.in_reply_to,
            context_id=body.context_id,
            trace_parent=parse_traceparent(request.header(b"traceparent")),
            checks=terms.checks,
            rounds=terms.rounds,
            may=body.may,
        )

    async def wait_for_delegation(self, request: Request) -> Response:
        """Wait until the status of a sent delegation changes, and return it."""
        seconds = min(request.parse_body(WaitDelegationBody).wait, self._limits.patience_most_seconds)
        row = await self._access.find_sent(request)
        outcome = ClaimedResult(row, "", "")
        if seconds:
            outcome = await self._delegation_wait.wait_for_result(request, row, seconds, for_end=False)
        return await self._receipt_response(outcome, is_hit=False, is_new=False, status=200)

    async def cancel_delegation(self, request: Request) -> Response:
        """Cancel a sent delegation and notify its worker. An ended one is returned unchanged."""
        reason = single_line(request.parse_body(CancelDelegationBody).reason, self._limits.short_text_length)
        row = await self._writer.cancel(await self._access.find_sent(request), sender_of(request.caller), reason)
        (item,) = await self._reader.to_items([row])
        return json_response(item)

    async def retry_delegation(self, request: Request) -> Response:
        """Begin an ended delegation again, with the same task, target and time limit."""
        receipt = await self._writer.retry(await self._access.find_sent(request), sender_of(request.caller))
        outcome = ClaimedResult(receipt.row, "", "")
        return await self._receipt_response(
            outcome, is_hit=receipt.is_duplicate, is_new=not receipt.is_duplicate, status=202, may=receipt.may
        )

    async def _receipt_response(
        self, outcome: ClaimedResult, *, is_hit: bool, is_new: bool, status: int, may: DelegationScope | None = None
    ) -> Response:
        """Build the receipt.

        The text of the result is returned once, here or by the message in the inbox; a repeated request for an ended
        delegation returns it too.
        """
        row, completed = outcome.row, outcome.row.reason is None
        receipt_body = DelegateResponse(
            delegation_id=row.id,
            status=_DELEGATED_STATUS if is_new else row.status.value,
            target_id=row.target_id,
            state=row.status.value,
            phase=row.phase.value,
            idempotent_hit=is_hit,
            settled=not row.open,
            result=(outcome.text if completed else "") or ((row.result or "") if is_hit else ""),
            delivered="" if row.open else outcome.delivered or ("" if row.recorded else _INBOX),
            error=row.error or "",
            reason="" if row.reason is None else row.reason.value,
            advice="" if row.reason is None else rules.ADVICE[row.reason],
            retry_of=row.retry_of or "",
            warning=await self._reader.start_warning(row),
            verified=rules.is_verified(row),
            may=may,
        )
        return json_response(receipt_body, status)

    # -- read ----------------------------------------------------------------------------------------------------------

    async def list_delegations(self, request: Request) -> Response:
        """List delegations of a workspace, newest first.

        `direction`: out (default, sent), in (received) or both; `state`: a status, or open; `before` (a delegation_id)
        pages back. Results are complete: a page ends early where they fill it (`page_bytes`), and only an empty page is
        past the last one.
        """
        query, own = request.query_params(), request.workspace
        direction = read_text_param(query, "direction") or _DIRECTIONS[0]
        if direction not in _DIRECTIONS:
            raise InvalidField(reason=f"direction has an unknown value. Use one of: {', '.join(_DIRECTIONS)}.")
        state, count = read_state_param(query, STATES), self._page_size(query)
        before = await self._cursor_delegation(own.org_id, query)
        if before is not None and own.id not in (before.source_id, before.target_id):
            raise NotFound(what="delegation")
        cursor = None if before is None else before.id
        if direction == "both":
            rows = await self._reader.involving(own.org_id, own.id, state, cursor, count)
        elif direction == "in":
            rows = await self._reader.received_by(own.org_id, own.id, state, cursor, count)
        elif before is not None and before.source_id != own.id:
            raise InvalidField(
                reason="before is not a delegation of this workspace. Use the id of a delegation that it created."
            )
        else:
            rows = await self._reader.sent_by(own.id, state, None if before is None else before.seq, count)
        return json_response(await self._reader.to_items(rows))

    async def get_timeline(self, request: Request) -> Response:
        """List messages and sent delegations of a workspace in the order of its log, oldest first.

        `before` (a `seq`) pages back. A page ends early where its entries fill it (`page_bytes`).
        """
        query = request.query_params()
        before = read_int_param(query, "before", minimum=1)
        return json_response(await self._views.timeline.read_page(request.workspace.id, before, self._page_size(query)))

    async def list_org_delegations(self, request: Request) -> Response:
        """List delegations of an organisation, newest first.

        `state`: a status, or open; `workspace_id`: sent or received by this workspace; `before` (a delegation_id) pages
        back. `result` is null, `response_preview` its beginning; a page may end early (`page_bytes`). `open` and
        `stuck` count the whole organisation.
        """
        query, org_id = request.query_params(), request.path_params["org_id"]
        before = await self._cursor_delegation(org_id, query)
        workspace_id = read_text_param(query, "workspace_id")
        rows = await self._reader.list_page(
            org_id, read_state_param(query, STATES), workspace_id, before, self._page_size(query)
        )
        open_count, stuck = await self._reader.count_open_and_stuck(org_id)
        return json_response(DelegationPage(await self._reader.to_previews(rows), open_count, stuck))

    async def list_all_delegations(self, request: Request) -> Response:
        """List delegations of all organisations, or of one `org_id`, newest first.

        `state`: a status, or open; `before` (a delegation_id) pages back. `result` is null, `response_preview` its
        beginning; a page may end early (`page_bytes`).
        """
        query = request.query_params()
        cursor, org_id = read_text_param(query, "before"), read_text_param(query, "org_id")
        if org_id is not None:
            before = await self._cursor_delegation(org_id, query)
        else:
            before = None if cursor is None else await self._reader.get_in_any_org(cursor)
        rows = await self._reader.list_page(
            org_id, read_state_param(query, STATES), None, before, self._page_size(query)
        )
        return json_response(await self._reader.to_previews(rows))

    async def get_stats(self, request: Request) -> Response:
        """Count delegations by status, of all organisations or of one `org_id`."""
        return json_response(await self._reader.stats(read_text_param(request.query_params(), "org_id")))

    async def _cursor_delegation(self, org_id: str, query: dict[str, str]) -> Delegation | None:
        cursor = read_text_param(query, "before")
        return None if cursor is None else await self._reader.get_delegation(org_id, cursor)

    def _page_size(self, query: dict[str, str]) -> int:
        maximum = self._limits.delegation_rows
        return read_int_param(query, "limit", minimum=1, maximum=maximum) or min(_DEFAULT_PAGE, maximum)

    async def get_delegation(self, request: Request) -> Response:
        """Return a delegation with its history and the tree below it.

        A workspace may read those it sent or received, and all below them.
        """
        row = await self._access.find_visible(request)
        (item,) = await self._reader.to_items([row])
        timeline = await self._reader.timeline(row.org_id, row.id)
        pending_approval = (
            await self._views.approvals.find_for_task(row.org_id, row.id, row.target_id) if row.open else None
        )
        full = DelegationDetail(
            delegation=item,
            task=row.task,
            result=row.result,
            timeline=[timeline_item(each) for each in timeline],
            earlier=timeline[0].no - 1 if timeline else 0,
            tree=await self._views.tree.read_tree(row),
            a2a_state=rules.a2a_state(row, needs_approval=pending_approval is not None),
            acceptance=await self._reader.acceptance_report(row),
            may=await self._reader.scopes.scope_of(row.org_id, row.id),
        )
        return json_response(full)
