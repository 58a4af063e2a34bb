"""Routes of approvals: request, decide and use them, and set approval rules and standing authority."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from molecule_core.access.model import CredentialKind as Credential
from molecule_core.access.model import Role
from molecule_core.api.approvals.policies import clean_grants, clean_rules
from molecule_core.api.auth import Authenticator
from molecule_core.api.http.response import Response
from molecule_core.api.messages.send import idempotency_key_of
from molecule_core.api.query_parameters import (
    AFTER,
    BEFORE,
    LIMIT,
    WAIT,
    enum_param,
    int_param,
    query_params,
    read_int_param,
    read_text_param,
    string_param,
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
from molecule_core.approvals import rules
from molecule_core.approvals.model import (
    Approval,
    ApprovalRequest,
    DecisionInput,
    DecisionKind,
    DecisionRequest,
    PartyKind,
)
from molecule_core.approvals.reader import ORG_STATES, STATES, ApprovalReader
from molecule_core.approvals.writer import ApprovalWriter
from molecule_core.common.clock import to_rfc3339
from molecule_core.common.errors import InvalidField, NotFound
from molecule_core.common.limits import Limits
from molecule_core.common.text import ID_ALPHABET, is_valid_client_id, truncate_line, validate_line
from molecule_core.org.reader import OrgReader
from molecule_core.threads.reader import ThreadReader
from molecule_core.wire.schemas.approvals import (
    ApprovalAuthority,
    ApprovalItem,
    ApprovalPage,
    ApprovalRuleSet,
    ApprovalStatus,
    Party,
    PolicyReason,
    UseApprovalResponse,
)

_SESSION_PREFIX_LENGTH = 10
_DECISIONS = {
    **{each.value: each for each in DecisionKind},
    ApprovalStatus.APPROVED: DecisionKind.APPROVE,
    ApprovalStatus.DENIED: DecisionKind.DENY,
}
_ROLES = ("requester", "holder", "any")
_ORG_PARAM = string_param("org", "Organisation, for the admin.")
_MAX_SECONDS = 1 << 31


class AskApprovalBody(Struct):
    """A request for an approval.

    `context`: another name of `details`; `expires_in`: seconds; `source`: the way by which its agent asks, as reported
    by the agent; `thread_id`: the thread of the workspace in which it asks.
    """

    action: str
    reason: str = ""
    details: dict[str, Any] | None = None
    context: dict[str, Any] | None = None
    cost: Annotated[float, Meta(ge=0)] | None = None
    expires_in: Annotated[int, Meta(ge=1, lt=_MAX_SECONDS)] | None = None
    task_id: str | None = None
    thread_id: str | None = None
    source: Literal["api", "tool", "relay", "host", "a2a", "thread"] = "api"


class DecideApprovalBody(Struct):
    """A decision: approve (approved), deny (denied), escalate or more_info.

    `revision`, `action_hash`: of the request as it was shown; a request that has changed since it was made is approved
    only with one of them. `details`: approve with these instead. `holder`: if a person escalates, the workspace_id
    whose turn it was; without it, escalating twice counts once.
    """

    decision: str
    revision: int | None = None
    action_hash: str | None = None
    note: str = ""
    details: dict[str, Any] | None = None
    holder: str | None = None


class AnswerApprovalBody(Struct):
    """The requester's answer to a question. `details`: what it requests now."""

    text: str
    details: dict[str, Any] | None = None


class WithdrawApprovalBody(Struct):
    """Why a request is withdrawn."""

    note: str = ""


class UseApprovalBody(Struct):
    """The action that is about to be taken."""

    action_hash: str


class ApprovalRoutes:
    """Routes of approvals."""

    def __init__(
        self,
        writer: ApprovalWriter,
        reader: ApprovalReader,
        threads: ThreadReader,
        org: OrgReader,
        authenticator: Authenticator,
        *,
        limits: Limits,
    ) -> None:
        self._threads = threads
        self._writer = writer
        self._reader = reader
        self._org = org
        self._authenticator = authenticator
        self._limits = limits

    def routes(self) -> list[Route]:
        """Return the routes."""
        all_path = "/workspaces/{id}/approvals"
        one, item = f"{all_path}/{{approval_id}}", ApprovalItem
        own_agent, viewer = (
            AccessPolicy(frozenset((WORKSPACE,)), WorkspaceScope.OWN),
            AccessPolicy(ALL_CREDENTIALS, WorkspaceScope.OWN, Role.VIEWER),
        )
        # The path names the requester or the deciding workspace; who may decide is checked against the approval.
        decide_access, own = (
            AccessPolicy(ALL_CREDENTIALS, WorkspaceScope.TALK, Role.OPERATOR),
            AccessPolicy(ALL_CREDENTIALS, WorkspaceScope.OWN, Role.OPERATOR),
        )
        policy_access = AccessPolicy(PERSON_OR_ADMIN, WorkspaceScope.OWN, Role.OPERATOR)
        rules_path, authority_path = "/workspaces/{id}/approval-rules", "/workspaces/{id}/standing-authority"
        of_one = query_params(
            LIMIT,
            BEFORE,
            enum_param("role", "Role of the workspace; default requester.", _ROLES),
            enum_param("state", "Filter by state.", STATES),
        )
        waits = query_params(WAIT, int_param("seq", "Wait for a change after this `seq`."))
        waiting = query_params(LIMIT, AFTER, _ORG_PARAM)
        of_all = query_params(LIMIT, BEFORE, _ORG_PARAM, enum_param("state", "Filter by state.", ORG_STATES))
        return [
            Route(
                "POST",
                all_path,
                self.request_approval,
                own_agent,
                "Request an approval",
                AskApprovalBody,
                item,
                201,
                rate_class=SEND_RATE,
            ),
            Route(
                "GET",
                all_path,
                self.list_approvals,
                viewer,
                "List the approvals of a workspace",
                None,
                ApprovalPage,
                query=of_one,
                keeps_history=True,
            ),
            Route(
                "GET", one, self.get_approval, viewer, "Get an approval", None, item, query=waits, keeps_history=True
            ),
            Route(
                "POST",
                f"{one}/decide",
                self.decide_approval,
                decide_access,
                "Decide on an approval",
                DecideApprovalBody,
                item,
            ),
            Route(
                "POST",
                f"{one}/answer",
                self.answer_question,
                own_agent,
                "Answer a question about an approval",
                AnswerApprovalBody,
                item,
            ),
            Route(
                "POST",
                f"{one}/withdraw",
                self.withdraw_approval,
                own,
                "Withdraw an approval request",
                WithdrawApprovalBody,
                item,
                body_optional=True,
            ),
            Route(
                "POST",
                f"{one}/use",
                self.use_approval,
                own_agent,
                "Use an approval",
                UseApprovalBody,
                UseApprovalResponse,
            ),
            Route(
                "GET",
                "/approvals/pending",
                self.list_pending,
                AccessPolicy(PERSON_OR_ADMIN),
                "List open approvals of an organisation",
                None,
                ApprovalPage,
                query=waiting,
            ),
            Route(
                "GET",
                "/approvals",
                self.list_org_approvals,
                AccessPolicy(PERSON_OR_ADMIN),
                "List approvals of an organisation",
                None,
                ApprovalPage,
                query=of_all,
            ),
            Route(
                "GET",
                rules_path,
                self.get_rules,
                viewer,
                "Get the approval rules of a workspace",
                None,
                ApprovalRuleSet,
            ),
            Route(
                "PUT",
                rules_path,
                self.set_rules,
                policy_access,
                "Set the approval rules of a workspace",
                ApprovalRuleSet,
                ApprovalRuleSet,
            ),
            Route(
                "GET",
                authority_path,
                self.get_authority,
                viewer,
                "Get the standing authority of a workspace",
                None,
                ApprovalAuthority,
            ),
            Route(
                "PUT",
                authority_path,
                self.set_authority,
                policy_access,
                "Set the standing authority of a workspace",
                ApprovalAuthority,
                ApprovalAuthority,
            ),
        ]

    # -- requester -----------------------------------------------------------------------------------------------------

    async def request_approval(self, request: Request) -> Response:
        """Request an approval from the workspace above, and so on up to a person.

        The same Idempotency-Key returns the first request. The response may contain a decision already, by
        standing authority.
        """
        body, own = request.parse_body(AskApprovalBody), request.workspace
        if body.details is not None and body.context is not None:
            raise InvalidField(reason="context and details are the same field. Send one of them.")
        action = validate_line(body.action, self._limits.short_text_length, "action")
        if not action:
            raise InvalidField(reason="action cannot be empty. Describe the action.")
        if action.startswith(rules.tool_action("")):
            raise InvalidField(
                reason="action cannot begin with tool:, which the server uses for tools. Call the tool instead."
            )
        if body.task_id is not None and not is_valid_client_id(body.task_id, self._limits.id_length):
            raise InvalidField(
                reason=f"task_id is not a valid id. Use at most {self._limits.id_length} characters of {ID_ALPHABET}."
            )
        await self._check_thread(body.thread_id, own.id)
        used_before = await self._reader.was_used_before(own.id, action)
        rule = rules.matching_rule(self._reader.policies_of(own.id).rules, action, body.cost, used_before=used_before)
        result = await self._writer.request(
            ApprovalRequest(
                workspace_id=own.id,
                action=action,
                reason=self._shorten_text(body.reason),
                details=self._checked_details(body.details or body.context) or {},
                cost=body.cost,
                expires_in=body.expires_in,
                task_id=body.task_id,
                thread_id=body.thread_id,
                source=body.source,
                key=idempotency_key_of(request, self._limits),  # control: approval-key
                risk=rules.risk_notes(body.cost, used_before=used_before),
                policy=() if rule is None else (PolicyReason("rule", rules.rule_text(rule)),),
            )
        )
        return json_response(self._reader.to_item(result.row), 200 if result.is_duplicate else 201)

    async def _check_thread(self, thread_id: str | None, workspace_id: str) -> None:
        """Check that the thread of a request belongs to the workspace. Raises InvalidField."""
        if thread_id is None:
            return
        thread = await self._threads.find_thread(thread_id)
        if thread is None or thread.workspace_id != workspace_id:
            raise InvalidField(reason="thread_id is not a thread of this workspace. Check the id, or omit it.")

    async def answer_question(self, request: Request) -> Response:
        """Answer a question about a request: the revision rises, and the request returns to the approver who asked."""
        body = request.parse_body(AnswerApprovalBody)
        text = self._shorten_text(body.text)
        if not text.strip():
            raise InvalidField(reason="text cannot be empty. Answer the question.")
        row = await self._own_approval(request)
        changed = await self._writer.answer_question(
            row, self._acting_party(request), text, self._checked_details(body.details)
        )
        return json_response(self._reader.to_item(changed))

    async def withdraw_approval(self, request: Request) -> Response:
        """Withdraw a request. Repeating it changes nothing."""
        note = self._shorten_text(request.parse_body(WithdrawApprovalBody).note)
        row = await self._writer.withdraw(await self._own_approval(request), self._acting_party(request), note)
        return json_response(self._reader.to_item(row))

    async def use_approval(self, request: Request) -> Response:
        """Use an approval, right before the action.

        Succeeds once, for exactly the approved action, and again for the same use, which has the same Idempotency-Key.
        """
        submitted, key = request.parse_body(UseApprovalBody), idempotency_key_of(request, self._limits)
        # An approval may be requested and used under the same key, so uses get a prefix that no client's key can have.
        name = None if key is None else f"use/{key}"
        row = await self._writer.use(await self._own_approval(request), submitted.action_hash, name)
        return json_response(UseApprovalResponse(row.id, to_rfc3339(row.used_at or 0)))

    # -- decisions -----------------------------------------------------------------------------------------------------

    async def decide_approval(self, request: Request) -> Response:
        """Decide as the holder, or as a person (owner or operator).

        The first decision is final; the same decision by the same party again gets the same response. The path names
        the requester or the deciding workspace.
        """
        body = request.parse_body(DecideApprovalBody)
        decision = _DECISIONS.get(body.decision)
        if decision is None:
            raise InvalidField(reason=f"decision has an unknown value. Use one of: {', '.join(_DECISIONS)}.")
        if body.details is not None and decision is not DecisionKind.APPROVE:
            raise InvalidField(
                reason="details can be changed only with the decision approve. Omit details, or approve."
            )
        note = self._shorten_text(body.note)
        if decision is DecisionKind.MORE_INFO and not note.strip():
            raise InvalidField(reason="note cannot be empty for the decision more_info. Write your question in it.")
        row = await self._visible_approval(request)
        session = self._authenticator.credential_hash(request.headers)[:_SESSION_PREFIX_LENGTH]
        submitted = DecisionRequest(decision, body.revision, body.action_hash, body.holder)
        details = self._checked_details(body.details)
        decided = await self._writer.decide(
            row,
            DecisionInput(
                request=submitted, by=self._acting_party(request), note=note, details=details, session=session
            ),
        )
        return json_response(self._reader.to_item(decided))

    async def list_pending(self, request: Request) -> Response:
        """List open approvals of an organisation, oldest first.

        `after` (an approval_id) pages forward. `for_person`: the approval waits for a person.
        """
        query = request.query_params()
        org_id = self._requested_org(request, query)
        count, cursor = self._page_size(query), read_text_param(query, "after")
        after = None if cursor is None else await self._reader.get_approval(org_id, cursor)
        return self._page_response(await self._reader.list_open(org_id, after, count + 1), count)

    async def list_org_approvals(self, request: Request) -> Response:
        """List approvals of an organisation, newest first.

        `state`: a status, open, or decided; `before` (an approval_id) pages back.
        """
        query, state = request.query_params(), read_text_param(request.query_params(), "state")
        org_id = self._requested_org(request, query)
        if state is not None and state not in ORG_STATES:
            raise InvalidField(reason=f"state has an unknown value. Use one of: {', '.join(ORG_STATES)}.")
        count, cursor = self._page_size(query), read_text_param(query, "before")
        before = None if cursor is None else await self._reader.get_approval(org_id, cursor)
        return self._page_response(await self._reader.list_of_org(org_id, state, before, count + 1), count)

    def _requested_org(self, request: Request, query: dict[str, str]) -> str:
        """Return the requested organisation, if the caller belongs to it. Raises NotFound."""
        caller = request.caller
        org_id = read_text_param(query, "org") or caller.org_id or self._org.orgs()[0].id
        has_access = caller.kind is Credential.ADMIN or caller.org_id == org_id
        if not has_access or self._org.find_org(org_id) is None:
            raise NotFound(what="organisation")
        return org_id

    # -- read ----------------------------------------------------------------------------------------------------------

    async def list_approvals(self, request: Request) -> Response:
        """List approvals of a workspace, newest first.

        `role`: requester (default), holder (it was asked to decide), or any; `state`: a status, or open; `before` (an
        approval_id) pages back.
        """
        query, own = request.query_params(), request.workspace
        role, state = read_text_param(query, "role") or _ROLES[0], read_text_param(query, "state")
        if role not in _ROLES:
            raise InvalidField(reason=f"role has an unknown value. Use one of: {', '.join(_ROLES)}.")
        if state is not None and state not in STATES:
            raise InvalidField(reason=f"state has an unknown value. Use one of: {', '.join(STATES)}.")
        count, cursor = self._page_size(query), read_text_param(query, "before")
        before = None if cursor is None else await self._reader.get_approval(own.org_id, cursor)
        if before is not None and own.id not in (before.workspace_id, *before.asked_ids):
            raise NotFound(what="approval")
        if role == "requester":
            rows = await self._reader.requested_by(own.id, state, before, count + 1)
        elif role == "holder":
            rows = await self._reader.held_by(own.org_id, own.id, state, before, count + 1)
        else:
            rows = await self._reader.involving(own.org_id, own.id, state, before, count + 1)
        return self._page_response(rows, count)

    async def get_approval(self, request: Request) -> Response:
        """Return an approval, to its requester, to all who were asked to decide it, and to people.

        `wait` (seconds) waits for a change after `seq`.
        """
        query, row = request.query_params(), await self._visible_approval(request)
        wait = read_int_param(query, "wait", minimum=0, maximum=self._limits.wait_seconds)
        seq = read_int_param(query, "seq", minimum=0)
        if wait and row.open and (seq is None or row.rev <= seq):
            row = await self._reader.wait_for_change(row, wait)
        return json_response(self._reader.to_item(row))

    # -- rules and authority -------------------------------------------------------------------------------------------

    async def get_rules(self, request: Request) -> Response:
        """Return which actions of this workspace need an approval."""
        return json_response(ApprovalRuleSet(list(self._reader.policies_of(request.workspace.id).rules)))

    async def set_rules(self, request: Request) -> Response:
        """Set which actions of this workspace need an approval, replacing all previous rules."""
        rules_list = clean_rules(request.parse_body(ApprovalRuleSet), self._limits)
        by = request.caller.key
        found = await self._writer.set_policies(request.workspace.id, by, approval_rules=rules_list)
        return json_response(ApprovalRuleSet(list(found.rules)))

    async def get_authority(self, request: Request) -> Response:
        """Return which actions this workspace approves automatically for those below it."""
        return json_response(ApprovalAuthority(list(self._reader.policies_of(request.workspace.id).grants)))

    async def set_authority(self, request: Request) -> Response:
        """Set which actions this workspace approves automatically for those below it, replacing all previous grants."""
        grants = clean_grants(request.parse_body(ApprovalAuthority), self._limits)
        by = request.caller.key
        found = await self._writer.set_policies(request.workspace.id, by, grants=grants)
        return json_response(ApprovalAuthority(list(found.grants)))

    # -- helpers -------------------------------------------------------------------------------------------------------

    async def _visible_approval(self, request: Request) -> Approval:
        """Return the approval of the path if the path's workspace and the caller are parties of it. Raises NotFound."""
        row = await self._reader.get_approval(request.workspace.org_id, _approval_id(request))
        parties = (row.workspace_id, *row.asked_ids)
        is_agent = request.caller.kind is Credential.WORKSPACE
        is_party = request.caller.id in parties if is_agent else True
        path_names_party = (
            request.workspace.id in (row.workspace_id, request.caller.id)
            if is_agent
            else request.workspace.id in parties
        )
        if not is_party or not path_names_party:
            raise NotFound(what="approval")
        return row

    async def _own_approval(self, request: Request) -> Approval:
        """Return the approval of the path, if the workspace of the path requested it. Raises NotFound."""
        row = await self._reader.get_approval(request.workspace.org_id, _approval_id(request))
        if row.workspace_id != request.workspace.id:
            raise NotFound(what="approval")
        return row

    def _acting_party(self, request: Request) -> Party:
        """Return the party that acts, as the credential proves it."""
        if request.caller.kind is not Credential.WORKSPACE:
            return Party(PartyKind.PERSON.value, request.caller.id, request.caller.name)
        workspace = self._org.workspace(request.caller.id)
        return Party(PartyKind.WORKSPACE.value, request.caller.id, "" if workspace is None else workspace.name)

    def _page_response(self, rows: list[Approval], count: int) -> Response:
        return json_response(ApprovalPage([self._reader.to_item(row) for row in rows[:count]], len(rows) <= count))

    def _page_size(self, query: dict[str, str]) -> int:
        maximum = self._limits.approval_rows
        return read_int_param(query, "limit", minimum=1, maximum=maximum) or maximum

    def _shorten_text(self, text: str) -> str:
        return truncate_line(text, self._limits.approval_text_length)

    def _checked_details(self, details: dict[str, Any] | None) -> dict[str, Any] | None:
        if details is not None and len(rules.canonical_json(details).encode()) > self._limits.approval_bytes:
            raise InvalidField(
                reason=f"details are larger than the limit of {self._limits.approval_bytes} bytes. Shorten them."
            )
        return details


def _approval_id(request: Request) -> str:
    """Return the approval id of the path. Raises NotFound."""
    return request.path_param("approval_id", "approval")
