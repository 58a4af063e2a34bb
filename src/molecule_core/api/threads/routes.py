"""All routes of threads: for clients, engines, collaborating agents, and clients of the app-server protocol."""

from molecule_core.api.app_server.methods import InternalCall
from molecule_core.api.app_server.websocket import AppServerRoutes
from molecule_core.api.auth import Authenticator
from molecule_core.api.live.hub import LiveHub
from molecule_core.api.routing import Route
from molecule_core.api.threads.collaboration import CollaborationRoutes
from molecule_core.api.threads.engines import EngineRoutes
from molecule_core.api.threads.threads import ThreadRoutes
from molecule_core.common.limits import Limits
from molecule_core.org.reader import OrgReader
from molecule_core.prompts.reader import PromptReader
from molecule_core.threads.agent_writer import AgentWriter
from molecule_core.threads.engine_writer import EngineWriter
from molecule_core.threads.reader import ThreadReader
from molecule_core.threads.waits import AgentWaits
from molecule_core.threads.writer import ThreadWriter

ThreadWriters = tuple[ThreadWriter, EngineWriter, AgentWriter, AgentWaits]
"""Writers of threads: for clients, engines and agents, and the waits of agents."""
AppServerDependencies = tuple[LiveHub, Authenticator, InternalCall]
"""Dependencies of the app-server protocol: live channels, authentication, and internal calls."""


class ThreadRouteGroup:
    """All routes of threads."""

    def __init__(
        self,
        writers: ThreadWriters,
        app_server: AppServerDependencies,
        reader: ThreadReader,
        prompts: PromptReader,
        org: OrgReader,
        *,
        limits: Limits,
    ) -> None:
        (writer, engines, agents, waits), (live, authenticator, call_internally) = writers, app_server
        self._groups = (
            ThreadRoutes(writer, reader, prompts, org, limits=limits),
            EngineRoutes(engines, reader, org, limits=limits),
            CollaborationRoutes(agents, waits, reader, org, limits=limits),
            AppServerRoutes(call_internally, live, authenticator, reader, org),
        )

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [route for group in self._groups for route in group.routes()]
