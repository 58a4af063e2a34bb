"""All edges of threads as one: for clients, for engines, for agents that work together.

Above: the server, which wires it. Below: the three edges.
"""

from molecule_core.edges.agents import AgentEdge
from molecule_core.edges.engines import EngineEdge
from molecule_core.edges.routes import Route
from molecule_core.edges.threads import ThreadEdge
from molecule_core.ground.limits import Limits
from molecule_core.org.reader import OrgReader
from molecule_core.prompts.reader import PromptReader
from molecule_core.threads.hands import Threads


class ThreadEdges:
    """Every route about a thread."""

    def __init__(self, made: Threads, prompts: PromptReader, org: OrgReader, *, limits: Limits) -> None:
        self._edges = (
            ThreadEdge(made.writer, made.reader, prompts, org, limits=limits),
            EngineEdge(made.engines, made.reader, org, limits=limits),
            AgentEdge(made.agents, made.waits, made.reader, org, limits=limits),
        )

    def routes(self) -> list[Route]:
        """The rows for the table."""
        return [route for edge in self._edges for route in edge.routes()]
