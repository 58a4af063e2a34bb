"""All edges of threads as one: for clients, for engines, for agents that work together, for app-servers' clients.

Above: the server, which wires it. Below: the four edges.
"""

from molecule_core.edges.agents import AgentEdge
from molecule_core.edges.appserver import AppServerEdge
from molecule_core.edges.appserver_calls import Asks
from molecule_core.edges.auth import Guards
from molecule_core.edges.engines import EngineEdge
from molecule_core.edges.live import Live
from molecule_core.edges.routes import Route
from molecule_core.edges.threads import ThreadEdge
from molecule_core.ground.limits import Limits
from molecule_core.org.reader import OrgReader
from molecule_core.prompts.reader import PromptReader
from molecule_core.threads.reader import ThreadReader
from molecule_core.threads.spawning import AgentWriter
from molecule_core.threads.turning import EngineWriter
from molecule_core.threads.waiting import Waits
from molecule_core.threads.writer import ThreadWriter

Hands = tuple[ThreadWriter, EngineWriter, AgentWriter, Waits]
"""Who changes threads: for clients, for engines, for agents, and who waits."""
Line = tuple[Live, Guards, Asks]
"""What the dialect of app-servers stands on: live channels, who is let in, and who answers requests."""


class ThreadEdges:
    """Every route about a thread."""

    def __init__(
        self, hands: Hands, line: Line, reader: ThreadReader, prompts: PromptReader, org: OrgReader, *, limits: Limits
    ) -> None:
        (writer, engines, agents, waits), (live, guards, asks) = hands, line
        self._edges = (
            ThreadEdge(writer, reader, prompts, org, limits=limits),
            EngineEdge(engines, reader, org, limits=limits),
            AgentEdge(agents, waits, reader, org, limits=limits),
            AppServerEdge(asks, live, guards, reader, org),
        )

    def routes(self) -> list[Route]:
        """The rows for the table."""
        return [route for edge in self._edges for route in edge.routes()]
