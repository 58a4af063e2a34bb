"""Pages for agents, linked by the `docs_url` of their instructions. Markdown, never HTML.

Public: the reader is a model that follows a link without a credential, and the pages contain no secrets.
"""

from collections.abc import Callable
from functools import cache

from molecule_core.api.http.response import Response
from molecule_core.api.routing import PUBLIC, Handler, Request, Route
from molecule_core.tools import agent_docs

_MARKDOWN = "text/markdown"


class AgentDocsRoutes:
    """Routes of the pages for agents."""

    def __init__(self, *, public_url: str) -> None:
        self._public_url = public_url

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            self._page_route(agent_docs.INDEX_PATH, agent_docs.render_index, "Get the index of the docs for agents"),
            self._page_route(
                agent_docs.REPLIES_PATH, agent_docs.render_replies, "Get the docs on how agents answer messages"
            ),
        ]

    def _page_route(self, path: str, text: Callable[[str], str], summary: str) -> Route:
        return Route("GET", path, self._page_handler(text), PUBLIC, summary, media_type=_MARKDOWN)

    def _page_handler(self, text: Callable[[str], str]) -> Handler:
        @cache
        def body() -> bytes:
            return text(self._public_url).encode()

        def answer(_request: Request) -> Response:
            """Return a page in Markdown, for agents. No HTML, no credential."""
            return Response(body(), content_type=f"{_MARKDOWN}; charset=utf-8".encode())

        return answer
