"""Routes of teams and workspace states: expand, collapse, pause, resume, hibernate, abilities."""

from collections.abc import Iterator

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import asdict

from molecule_core.access.model import Role
from molecule_core.api.http.response import Response
from molecule_core.api.instructions.template_choices import TemplateChoices
from molecule_core.api.org.workspaces import ReplySeconds, check_workspace_numbers, connection_details
from molecule_core.api.query_parameters import CONFIRM, CONFIRM_NAME, query_params, read_text_param
from molecule_core.api.routing import PERSON_OR_ADMIN, AccessPolicy, Request, Route, WorkspaceScope, json_response
from molecule_core.common.errors import InvalidField
from molecule_core.org.model import LifecycleAction, NewWorkspace, TeamSpec, Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.org.writer import OrgWriter
from molecule_core.wire.schemas.envelope import InstructionShape
from molecule_core.wire.schemas.events import WorkspaceView


class TeamMember(Struct, forbid_unknown_fields=True):
    """A workspace of a team, and those below it."""

    name: str
    role: str | None = None
    runtime: str | None = None
    external: bool = False
    tier: int = 1
    max_concurrent_tasks: int = 1
    instruction_template_id: str | None = None
    instruction_compact: bool = False
    instruction_shape: InstructionShape | None = None
    reply_seconds: ReplySeconds | None = None
    send_drafts: bool = True
    key: str | None = None
    children: list["TeamMember"] = []


class ExpandTeamBody(Struct, forbid_unknown_fields=True):
    """A team to create below a workspace, which becomes its coordinator."""

    children: list[TeamMember]


class AbilitiesBody(Struct, forbid_unknown_fields=True):
    """What a workspace may do besides talking to its peers; what is left out stays."""

    broadcast_enabled: bool | UnsetType = UNSET
    talk_to_user_enabled: bool | UnsetType = UNSET


class WorkspaceTreeRoutes:
    """Routes that change teams, or the state of a workspace."""

    def __init__(self, writer: OrgWriter, org: OrgReader, templates: TemplateChoices, *, public_url: str) -> None:
        self._templates = templates
        self._writer = writer
        self._org = org
        self._public_url = public_url

    def routes(self) -> list[Route]:
        """Return the routes."""
        one = "/workspaces/{id}"
        operator_of = AccessPolicy(PERSON_OR_ADMIN, WorkspaceScope.OWN, Role.OPERATOR)
        owner_of = AccessPolicy(PERSON_OR_ADMIN, WorkspaceScope.OWN, Role.OWNER)
        abilities = f"{one}/abilities"
        confirmed = query_params(CONFIRM, CONFIRM_NAME)
        return [
            Route(
                "POST",
                f"{one}/expand",
                self.expand_team,
                operator_of,
                "Create a team below a workspace",
                ExpandTeamBody,
            ),
            Route(
                "POST",
                f"{one}/collapse",
                self.collapse_team,
                operator_of,
                "Remove all workspaces below a workspace",
                query=confirmed,
            ),
            Route("POST", f"{one}/pause", self.pause_workspace, operator_of, "Pause a workspace", None, WorkspaceView),
            Route(
                "POST", f"{one}/resume", self.resume_workspace, operator_of, "Resume a workspace", None, WorkspaceView
            ),
            Route(
                "POST",
                f"{one}/hibernate",
                self.hibernate_workspace,
                operator_of,
                "Hibernate a workspace",
                None,
                WorkspaceView,
            ),
            Route(
                "PATCH",
                abilities,
                self.set_abilities,
                owner_of,
                "Set the abilities of a workspace",
                AbilitiesBody,
                WorkspaceView,
            ),
        ]

    async def expand_team(self, request: Request) -> Response:
        """Create a whole team, or nothing. Its tokens are shown only once."""
        team = tuple(_team_spec(each) for each in request.parse_body(ExpandTeamBody).children)
        chosen = (each.instruction_template_id for each in _team_workspaces(team))
        self._templates.check_all(request.caller, request.workspace.org_id, chosen)
        created = await self._writer.expand(request.workspace.id, team)
        children = [
            {
                "id": each.id,
                "name": each.name,
                "role": each.role,
                "parent_id": each.parent_id,
                "connection": connection_details(each.id, token, self._public_url),
            }
            for each, token, _ in created
        ]
        return json_response({"status": "expanded", "children": children})

    async def collapse_team(self, request: Request) -> Response:
        """Remove all workspaces below one; with `name`, only if a person typed its current name to confirm."""
        query = request.query_params()
        confirmed, typed = query.get("confirm") == "true", read_text_param(query, "name")
        removed = await self._writer.collapse(request.workspace.id, confirmed=confirmed, typed_name=typed)
        names, ids = [each.name for each in removed], [each.id for each in removed]
        return json_response({"status": "collapsed", "removed": names, "removed_ids": ids})

    async def pause_workspace(self, request: Request) -> Response:
        """Pause a workspace: its messages wait until it is resumed, whatever its agent reports."""
        return await self._apply_action(request, LifecycleAction.PAUSE)

    async def resume_workspace(self, request: Request) -> Response:
        """Resume a workspace. Its status is that of its agent's last heartbeat."""
        return await self._apply_action(request, LifecycleAction.RESUME)

    async def hibernate_workspace(self, request: Request) -> Response:
        """Hibernate a workspace: its agent may stop, and wakes the workspace by registering; so does resuming it."""
        return await self._apply_action(request, LifecycleAction.HIBERNATE)

    async def _apply_action(self, request: Request, action: LifecycleAction) -> Response:
        return self._view_response(await self._writer.apply_lifecycle_action(request.workspace.id, action))

    async def set_abilities(self, request: Request) -> Response:
        """Enable or disable broadcasts and messages to the user."""
        submitted = asdict(request.parse_body(AbilitiesBody))
        fields = {name: value for name, value in submitted.items() if value is not UNSET}
        if not fields:
            raise InvalidField(
                reason="the request changes nothing. Send broadcast_enabled, talk_to_user_enabled or both."
            )
        return self._view_response(await self._writer.update_workspace(request.workspace.id, fields))

    def _view_response(self, workspace: Workspace) -> Response:
        return json_response(self._org.workspace_view(workspace))


def _team_workspaces(team: tuple[TeamSpec, ...]) -> Iterator[NewWorkspace]:
    for each in team:
        yield each.workspace
        yield from _team_workspaces(each.children)


def _team_spec(member: TeamMember) -> TeamSpec:
    check_workspace_numbers(member.tier, member.max_concurrent_tasks)
    member_fields = {name: value for name, value in asdict(member).items() if name not in ("children", "runtime")}
    workspace = NewWorkspace(**member_fields, runtime=member.runtime or "generic-mcp")
    return TeamSpec(workspace, tuple(_team_spec(each) for each in member.children))
