"""Route of the A2A agent of a workspace: how it is reached, and whether its card was found. No credential is shown."""

from msgspec import Struct

from molecule_core.a2a_agents.model import A2AAgent, TaskUpdates
from molecule_core.a2a_agents.reader import A2AAgentReader
from molecule_core.a2a_agents.writer import TaskNotifications
from molecule_core.access.model import Role
from molecule_core.api.http.response import Response
from molecule_core.api.routing import PERSON_OR_ADMIN, AccessPolicy, Request, Route, WorkspaceScope, json_response
from molecule_core.common.clock import to_rfc3339
from molecule_core.common.errors import NotFound


class A2AAgentResponse(Struct, frozen=True):
    """The A2A agent of a workspace.

    `updates`: how the server learns of changes of a task: `stream`, `push` or `poll`. `push_offered`: the agent offers
    push notifications, for which the server needs a public address; they are not used where the agent streams.
    `credential`: the kind of the stored credential, or null. `origins`: the only ones that get it. `accepts`: the kinds
    of credentials that the card describes. `error`: why the last check of the card failed.
    `signature` of the card: `verified`, `not_checked` (no key was named) or `none`. `card_keys`: `pem`, the address of
    the key set that the card must be signed with, or null."""

    card_url: str
    interface_url: str
    binding: str
    version: str
    streaming: bool
    updates: str
    push_offered: bool
    credential: str | None
    origins: tuple[str, ...]
    accepts: tuple[str, ...]
    signature: str
    card_keys: str | None
    checked_at: str | None
    error: str | None


class RemoteAgentRoutes:
    """Route of the A2A agent of a workspace."""

    def __init__(self, reader: A2AAgentReader, notifications: TaskNotifications) -> None:
        self._reader = reader
        self._notifications = notifications

    def routes(self) -> list[Route]:
        """Return the routes."""
        viewer_of = AccessPolicy(PERSON_OR_ADMIN, WorkspaceScope.OWN, Role.VIEWER)
        about = "Get the A2A agent of a workspace"
        path = "/workspaces/{id}/a2a-agent"
        return [Route("GET", path, self.get_agent, viewer_of, about, None, A2AAgentResponse)]

    async def get_agent(self, request: Request) -> Response:
        """Return how the A2A agent of a workspace is reached; 404 if its agent is another one."""
        agent = await self._reader.agent(request.workspace.id)
        if agent is None:
            raise NotFound(what="A2A agent of this workspace")
        return json_response(_agent_response(agent, self._notifications.updates_of(agent)))


def _agent_response(agent: A2AAgent, updates: TaskUpdates) -> A2AAgentResponse:
    card, credential, keys = agent.parsed_card(), agent.parsed_credential(), agent.parsed_card_keys()
    return A2AAgentResponse(
        card_url=agent.card_url,
        interface_url=card.interface.url,
        binding=card.interface.binding.value,
        version=card.interface.line.value,
        streaming=card.streaming,
        updates=updates.value,
        push_offered=card.push_notifications,
        credential=None if credential is None else credential.kind.value,
        origins=() if credential is None else credential.origins,
        accepts=card.schemes,
        signature=agent.signature,
        card_keys=None if keys is None else keys.jwks_url or "pem",
        checked_at=to_rfc3339(agent.checked_at) if agent.checked_at else None,
        error=agent.error,
    )
