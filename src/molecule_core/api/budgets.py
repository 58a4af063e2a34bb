"""Routes of budgets: people set them; a workspace reads those that limit it."""

from molecule_core.access.model import Role
from molecule_core.api.http.response import Response
from molecule_core.api.routing import (
    ALL_CREDENTIALS,
    PERSON_OR_ADMIN,
    AccessPolicy,
    Request,
    Route,
    WorkspaceScope,
    json_response,
)
from molecule_core.budgets.model import (
    BudgetDraft,
    BudgetPeriod,
    BudgetScope,
    BudgetUnit,
    SpendingBudget,
    TurnLeaseSizes,
)
from molecule_core.budgets.reader import BudgetReader
from molecule_core.budgets.writer import BudgetWriter
from molecule_core.common.errors import NotFound
from molecule_core.delegations.reader import DelegationReader
from molecule_core.messages.reader import TraceReader
from molecule_core.org.reader import OrgReader
from molecule_core.wire.schemas.budgets import (
    BudgetDeletedPayload,
    BudgetList,
    BudgetView,
    ChangeBudgetBody,
    CreateBudgetBody,
    TurnLeaseBody,
    WorkspaceBudgets,
)


class BudgetRoutes:
    """Routes of budgets."""

    def __init__(
        self,
        writer: BudgetWriter,
        reader: BudgetReader,
        org: OrgReader,
        traces: TraceReader,
        delegations: DelegationReader,
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._org = org
        self._traces = traces
        self._delegations = delegations

    def routes(self) -> list[Route]:
        """Return the routes."""
        viewer = AccessPolicy(PERSON_OR_ADMIN)
        operator = AccessPolicy(PERSON_OR_ADMIN, WorkspaceScope.NONE, Role.OPERATOR)
        every, one = "/orgs/{org_id}/budgets", "/orgs/{org_id}/budgets/{budget_id}"
        own = AccessPolicy(ALL_CREDENTIALS, WorkspaceScope.OWN)
        lease, person = "/workspaces/{id}/turn-lease", AccessPolicy(PERSON_OR_ADMIN, WorkspaceScope.OWN, Role.OPERATOR)
        return [
            Route("GET", every, self.list_budgets, viewer, "List the budgets", None, BudgetList),
            Route("POST", every, self.create_budget, operator, "Create a budget", CreateBudgetBody, BudgetView, 201),
            Route("GET", one, self.get_budget, viewer, "Get a budget", None, BudgetView),
            Route("PUT", one, self.change_budget, operator, "Change a budget", ChangeBudgetBody, BudgetView),
            Route("DELETE", one, self.delete_budget, operator, "Delete a budget", None, BudgetDeletedPayload),
            Route(
                "GET",
                "/workspaces/{id}/budgets",
                self.list_of_workspace,
                own,
                "List the budgets that limit a workspace",
                None,
                WorkspaceBudgets,
            ),
            Route(
                "PUT",
                lease,
                self.set_turn_lease,
                person,
                "Set what the turns of a workspace lease",
                TurnLeaseBody,
                TurnLeaseBody,
            ),
        ]

    async def list_budgets(self, request: Request) -> Response:
        """List the budgets of an organisation in their current periods, oldest first."""
        return json_response(BudgetList(await self._reader.list_budgets(request.path_params["org_id"])))

    async def create_budget(self, request: Request) -> Response:
        """Create a budget of a workspace, of a workspace and all below it, of a message chain or of a delegation.

        Usage that was recorded before does not count. There is one budget of a scope, target, unit and period.
        """
        body, org_id = request.parse_body(CreateBudgetBody), request.path_params["org_id"]
        scope = BudgetScope(body.scope)
        target_id, workspace_id = await self._find_target(org_id, scope, body.target_id)
        draft = BudgetDraft(
            scope=scope,
            target_id=target_id,
            workspace_id=workspace_id,
            unit=BudgetUnit(body.unit),
            most=body.limit,
            period=BudgetPeriod(body.period),
        )
        budget = await self._writer.create_budget(org_id, draft, request.caller.key)
        return json_response(await self._reader.view_of(budget), 201)

    async def _find_target(self, org_id: str, scope: BudgetScope, target_id: str) -> tuple[str, str]:
        """Return the target of a budget, and the workspace where it is shown. Raises NotFound."""
        if scope is BudgetScope.DELEGATION:
            delegation = await self._delegations.get_delegation(org_id, target_id)
            return delegation.id, delegation.target_id
        if scope is BudgetScope.CHAIN:
            messages = await self._traces.list_messages(org_id, target_id, 1)
            if not messages:
                raise NotFound(what="message")
            return messages[0].id, messages[0].workspace_id
        workspace = self._org.active_workspace(target_id)
        if workspace.org_id != org_id:
            raise NotFound(what="workspace")
        return workspace.id, workspace.id

    async def get_budget(self, request: Request) -> Response:
        """Return a budget in its current period."""
        return json_response(await self._reader.view_of(self._find_budget(request)))

    async def change_budget(self, request: Request) -> Response:
        """Change the limit of a budget. Turns that waited for it begin if there is capacity now."""
        body = request.parse_body(ChangeBudgetBody)
        budget = await self._writer.change_limit(self._find_budget(request), body.limit, request.caller.key)
        return json_response(await self._reader.view_of(budget))

    async def delete_budget(self, request: Request) -> Response:
        """Delete a budget, and what was counted of it."""
        budget = self._find_budget(request)
        await self._writer.delete_budget(budget)
        return json_response(BudgetDeletedPayload(budget.id))

    def _find_budget(self, request: Request) -> SpendingBudget:
        budget_id = request.path_params["budget_id"].replace("\x00", "")
        return self._reader.get_budget(request.path_params["org_id"], budget_id)

    async def list_of_workspace(self, request: Request) -> Response:
        """List the budgets that limit all turns of a workspace, and what a turn leases from each."""
        workspace = request.workspace
        budgets = await self._reader.list_of_workspace(workspace.org_id, workspace.id)
        sizes = self._reader.lease_sizes(workspace.id)
        return json_response(WorkspaceBudgets(budgets, TurnLeaseBody(sizes.money, sizes.tokens)))

    async def set_turn_lease(self, request: Request) -> Response:
        """Set what each turn of a workspace reserves of a budget before it begins. Its usage replaces it."""
        body = request.parse_body(TurnLeaseBody)
        sizes = TurnLeaseSizes(body.money, body.tokens)
        await self._writer.set_turn_lease(request.workspace.org_id, request.workspace.id, sizes)
        return json_response(body)
