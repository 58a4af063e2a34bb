"""Routes of agents: register, send heartbeats, set the card, list peers and look them up."""

from typing import Any

from msgspec import Raw, Struct

from molecule_core.access.model import CredentialKind, Role
from molecule_core.api.auth import Authenticator
from molecule_core.api.http.response import Response
from molecule_core.api.query_parameters import query_params, string_param
from molecule_core.api.routing import (
    ALL_CREDENTIALS,
    WORKSPACE,
    AccessPolicy,
    Request,
    Route,
    WorkspaceScope,
    json_response,
)
from molecule_core.common.clock import Clock, to_optional_rfc3339
from molecule_core.common.errors import CommunicationDenied, InvalidField, TokenOfOtherWorkspace
from molecule_core.common.limits import Limits
from molecule_core.common.net.safe_fetch import Fetcher
from molecule_core.common.text import truncate_line
from molecule_core.messages.obligations.instructions import InstructionBuilder
from molecule_core.org import rules
from molecule_core.org.model import DeliveryMode, Heartbeat, Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.org.writer import OrgWriter

COMPACTED = "compacted"
_CARD_TOOL = "update_agent_card"
_AGENT_ACCESS = AccessPolicy(frozenset((WORKSPACE, CredentialKind.ADMIN)))


class RegisterBody(Struct):
    """Registration of an agent. The card is any JSON; people are shown its name, description and skills."""

    id: str
    agent_card: Any
    url: str | None = None
    delivery_mode: str | None = None


class HeartbeatBody(Struct):
    """Heartbeat of an agent, optionally with its card and its tools.

    `runtime_state`: `wedged`, or `compacted` if the agent has lost earlier instructions. `presence_only`: the sender is
    one of several programs of the agent: record that it is there; the state that a runtime reports stays.
    """

    workspace_id: str
    error_rate: float = 0.0
    sample_error: str | None = None
    active_tasks: int = 0
    uptime_seconds: float = 0
    current_task: str | None = None
    runtime_state: str | None = None
    agent_card: Any = None
    loaded_mcp_tools: Any = None
    presence_only: bool = False


class UpdateCardBody(Struct):
    """A new card of an agent."""

    workspace_id: str
    agent_card: Any


class AccessCheckBody(Struct):
    """Two workspaces, to check whether they may talk."""

    caller_id: str
    target_id: str


class PeerRow(Struct):
    """A workspace as its peers see it. `limited_until`: a vendor's limit keeps its agent from working until then."""

    id: str
    name: str
    role: str | None
    tier: int
    status: str
    url: str | None
    parent_id: str | None
    active_tasks: int
    limited_until: str | None
    agent_card: Raw | None


class RegistryRoutes:
    """Routes under /registry."""

    def __init__(
        self,
        writer: OrgWriter,
        org: OrgReader,
        authenticator: Authenticator,
        fetcher: Fetcher,
        instruction_builder: InstructionBuilder | None,
        *,
        clock: Clock,
        limits: Limits,
    ) -> None:
        self._instruction_builder = instruction_builder
        self._last_tools: dict[str, tuple[str | None, list[Any]]] = {}
        """The tools that each agent reported last, with the card that lists them."""
        self._fetcher = fetcher
        self._writer = writer
        self._org = org
        self._authenticator = authenticator
        self._clock = clock
        self._limits = limits

    def routes(self) -> list[Route]:
        """Return the routes."""
        talk = AccessPolicy(ALL_CREDENTIALS, WorkspaceScope.TALK, Role.VIEWER)
        own = AccessPolicy(ALL_CREDENTIALS, WorkspaceScope.OWN, Role.VIEWER)
        name_query = query_params(string_param("q", "Only peers with this text in their name or role."))
        return [
            Route("POST", "/registry/register", self.register_agent, _AGENT_ACCESS, "Register an agent", RegisterBody),
            Route(
                "POST",
                "/registry/heartbeat",
                self.record_heartbeat,
                _AGENT_ACCESS,
                "Send a heartbeat",
                HeartbeatBody,
            ),
            Route(
                "POST", "/registry/update-card", self.update_card, _AGENT_ACCESS, "Set the agent card", UpdateCardBody
            ),
            Route(
                "GET",
                "/registry/{id}/peers",
                self.list_peers,
                own,
                "List the peers of a workspace",
                None,
                list[PeerRow],
                query=name_query,
            ),
            Route("GET", "/registry/discover/{id}", self.discover_peer, talk, "Look up a peer"),
            Route(
                "POST",
                "/registry/check-access",
                self.check_access,
                AccessPolicy(ALL_CREDENTIALS),
                "Check whether two workspaces may talk",
                AccessCheckBody,
            ),
        ]

    def _own_workspace(self, request: Request, workspace_id: str) -> Workspace:
        """Return the workspace that the body names: the caller's own, or any for the admin.

        Raises TokenOfOtherWorkspace for any other id, known or not: agents of the original Molecule end on 401 and 403
        here, and report for ever on 404. Raises NotFound, WorkspaceRemoved."""
        if request.caller.kind is CredentialKind.WORKSPACE and request.caller.id != workspace_id:
            raise TokenOfOtherWorkspace
        return self._authenticator.workspace_in_scope(request.caller, workspace_id, WorkspaceScope.OWN)

    async def register_agent(self, request: Request) -> Response:
        """Register an agent at its workspace. Never creates a workspace or issues a token.

        `agent_card` changes the members that it names; what was described before stays.
        """
        body = request.parse_body(RegisterBody)
        workspace = self._own_workspace(request, body.id)
        if body.url and (body.delivery_mode or workspace.delivery_mode) != DeliveryMode.POLL:
            await self._fetcher.check_url(body.url)  # control: registered-url-check
        card_locked = await self._is_card_locked(request)
        mode, url = body.delivery_mode or None, body.url or None
        workspace = await self._writer.register_agent(workspace.id, body.agent_card, mode, url, card_locked=card_locked)
        if self._instruction_builder is not None:
            await self._instruction_builder.reset(workspace.id)
        return json_response({"status": "registered", "delivery_mode": workspace.delivery_mode})

    async def record_heartbeat(self, request: Request) -> Response:
        """Record that an agent is alive, and its state. `agent_card` changes the members that it names."""
        body = request.parse_body(HeartbeatBody)
        workspace = self._own_workspace(request, body.workspace_id)
        if body.presence_only:
            tools = body.loaded_mcp_tools if isinstance(body.loaded_mcp_tools, list) else None
            await self._writer.record_presence(workspace.id, tools)
            return json_response({"status": "ok"})
        if not 0 <= body.error_rate <= 1 or body.active_tasks < 0 or body.uptime_seconds < 0:
            raise InvalidField(
                reason="the heartbeat has a number that is out of range. "
                "Use an error_rate from 0 to 1, and no negative numbers."
            )
        if max(body.active_tasks, body.uptime_seconds) > 1 << 53:
            raise InvalidField(reason="active_tasks or uptime_seconds is too large. Send the actual number.")
        limit = self._limits.short_text_length
        heartbeat = Heartbeat(
            heard_at=self._clock.now(),
            active_tasks=body.active_tasks,
            error_rate=body.error_rate,
            sample_error=None if body.sample_error is None else truncate_line(body.sample_error, limit),
            uptime_seconds=int(body.uptime_seconds),
            current_task=None if body.current_task is None else truncate_line(body.current_task, limit),
        )
        await self._writer.handle_heartbeat(workspace.id, heartbeat, runtime_state=body.runtime_state)
        if body.agent_card is not None:
            card_locked = await self._is_card_locked(request)
            await self._writer.merge_card(workspace.id, body.agent_card, card_locked=card_locked)
        if self._instruction_builder is not None:
            await self._update_tools(self._instruction_builder, body)
        return json_response({"status": "ok"})

    async def _is_card_locked(self, request: Request) -> bool:
        """Return whether a rule locks the card.

        Registration and heartbeats are not rejected for that, which would keep the agent offline: the card stays
        unchanged.
        """
        return await self._authenticator.approval_gate.requires_approval(request, _CARD_TOOL)

    async def _update_tools(self, instruction_builder: InstructionBuilder, body: HeartbeatBody) -> None:
        """Store an agent's current tools in its card, and repeat its instructions after a compaction.

        Most heartbeats equal the previous one, which costs a comparison.
        """
        if body.runtime_state == COMPACTED:
            await instruction_builder.reset(body.workspace_id)
        text = self._org.active_workspace(body.workspace_id).agent_card
        reported = (text, body.loaded_mcp_tools)
        if not isinstance(body.loaded_mcp_tools, list) or self._last_tools.get(body.workspace_id) == reported:
            return
        await self._writer.update_tools(body.workspace_id, body.loaded_mcp_tools)
        self._last_tools[body.workspace_id] = (
            self._org.active_workspace(body.workspace_id).agent_card,
            body.loaded_mcp_tools,
        )

    async def update_card(self, request: Request) -> Response:
        """Set an agent's card."""
        card = request.parse_body(UpdateCardBody)
        await self._writer.update_card(self._own_workspace(request, card.workspace_id).id, card.agent_card)
        return json_response({"status": "updated"})

    async def list_peers(self, request: Request) -> Response:
        """List siblings, then children, then the parent; `q`: only those with this text in their name or role."""
        search_text = request.query_params().get("q", "").strip().casefold()
        found = [
            each
            for each in rules.peers(self._org, request.workspace)
            if search_text in each.name.casefold() or search_text in (each.role or "").casefold()
        ]
        return json_response([self._peer_row(each) for each in found])

    def _peer_row(self, workspace: Workspace) -> PeerRow:
        card = None if workspace.agent_card is None else Raw(workspace.agent_card.encode())
        return PeerRow(
            id=workspace.id,
            name=workspace.name,
            role=workspace.role,
            tier=workspace.tier,
            status=workspace.status.value,
            url=workspace.url,
            parent_id=workspace.parent_id,
            active_tasks=self._org.last_heartbeat(workspace.id).active_tasks,
            limited_until=to_optional_rfc3339(workspace.limited_until),
            agent_card=card,
        )

    async def discover_peer(self, request: Request) -> Response:
        """Return a peer's name, and where its messages are sent."""
        self._check_may_talk(request)
        peer = request.workspace
        card = None if peer.agent_card is None else Raw(peer.agent_card.encode())
        return json_response(
            {"id": peer.id, "url": peer.url, "name": peer.name, "status": peer.status.value, "agent_card": card}
        )

    def _check_may_talk(self, request: Request) -> None:
        own = self._org.workspace(request.caller.id) if request.caller.kind is CredentialKind.WORKSPACE else None
        if own is not None and not rules.may_talk(self._org, own, request.workspace):
            raise CommunicationDenied

    async def check_access(self, request: Request) -> Response:
        """Return whether two workspaces may talk; false for any id outside the caller's organisation."""
        body = request.parse_body(AccessCheckBody)
        ids = (body.caller_id, body.target_id)
        one, other = (self._org.workspace(each) for each in ids)
        own_org = request.caller.kind is CredentialKind.ADMIN or (
            one is not None and one.org_id == request.caller.org_id
        )
        allowed = one is not None and other is not None and own_org and rules.may_talk(self._org, one, other)
        return json_response({"allowed": allowed})
