"""Route of the trace of a request. People read what one message has caused."""

from molecule_core.api.http.response import Response
from molecule_core.api.routing import PERSON_OR_ADMIN, AccessPolicy, Request, Route, json_response
from molecule_core.common.errors import NotFound
from molecule_core.views.traces import RequestTraceReader
from molecule_core.wire.schemas.traces import TraceDetail


class TraceRoutes:
    """Route of traces."""

    def __init__(self, reader: RequestTraceReader) -> None:
        self._reader = reader

    def routes(self) -> list[Route]:
        """Return the route."""
        return [
            Route(
                "GET",
                "/orgs/{org_id}/traces/{activity_id}",
                self.get_trace,
                AccessPolicy(PERSON_OR_ADMIN),
                "Get the trace of a request",
                None,
                TraceDetail,
            )
        ]

    async def get_trace(self, request: Request) -> Response:
        """Return all messages, delegations, approvals and turns that one request caused.

        `activity_id`: of any message of the request, or of a delegation in it. Lists are cut at `page_rows` items.
        """
        activity_id = request.path_param("activity_id", "message")
        found = await self._reader.find_trace(request.path_params["org_id"], activity_id)
        if found is None:
            raise NotFound(what="message")
        return json_response(found)
