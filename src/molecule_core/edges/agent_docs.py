"""Pages for agents, under the `docs_url` of their instructions: public, since whoever asks is a model that was given a
link, and nothing in them is anybody's secret. Markdown, never HTML."""

from collections.abc import Callable
from functools import cache

from molecule_core.edges.routes import PUBLIC, Answer, Call, Handler, Route
from molecule_core.wire import agentdocs

_MARKDOWN = "text/markdown"


class AgentDocsEdge:
    """The routes of the pages."""

    def __init__(self, *, public_url: str) -> None:
        self._public_url = public_url

    def routes(self) -> list[Route]:
        """The rows for the table."""
        return [
            self._page(agentdocs.ROOT, agentdocs.index, "What agents can read here"),
            self._page(agentdocs.REPLIES, agentdocs.replies, "How an agent answers a message"),
        ]

    def _page(self, path: str, text: Callable[[str], str], summary: str) -> Route:
        return Route("GET", path, self._answering(text), PUBLIC, summary, media=_MARKDOWN)

    def _answering(self, text: Callable[[str], str]) -> Handler:
        @cache
        def body() -> bytes:
            return text(self._public_url).encode()

        def answer(_call: Call) -> Answer:
            """A page in Markdown, for agents: no HTML, no credential."""
            return Answer(body(), content_type=f"{_MARKDOWN}; charset=utf-8".encode())

        return answer
