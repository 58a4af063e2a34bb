"""Pages for agents, under the `docs_url` of their instructions: public, since whoever asks is a model that was given a
link, and nothing in them is anybody's secret. Markdown, never HTML."""

from collections.abc import Callable
from functools import cache

from molecule_core.api.http.routing import PUBLIC, Handler, Request, Response, Route
from molecule_core.tools import agent_docs

_MARKDOWN = "text/markdown"


class AgentDocsRoutes:
    """The routes of the pages."""

    def __init__(self, *, public_url: str) -> None:
        self._public_url = public_url

    def routes(self) -> list[Route]:
        """The rows for the table."""
        return [
            self._page_route(agent_docs.INDEX_PATH, agent_docs.render_index, "What agents can read here"),
            self._page_route(agent_docs.REPLIES_PATH, agent_docs.render_replies, "How an agent answers a message"),
        ]

    def _page_route(self, path: str, text: Callable[[str], str], summary: str) -> Route:
        return Route("GET", path, self._page_handler(text), PUBLIC, summary, media_type=_MARKDOWN)

    def _page_handler(self, text: Callable[[str], str]) -> Handler:
        @cache
        def body() -> bytes:
            return text(self._public_url).encode()

        def answer(_request: Request) -> Response:
            """A page in Markdown, for agents: no HTML, no credential."""
            return Response(body(), content_type=f"{_MARKDOWN}; charset=utf-8".encode())

        return answer
