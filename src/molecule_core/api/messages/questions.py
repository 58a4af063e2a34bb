"""Routes of open questions: what agents wait for people to choose."""

from molecule_core.api.http.response import Response
from molecule_core.api.query_parameters import AFTER, LIMIT, query_params, read_int_param, read_text_param
from molecule_core.api.routing import PERSON_OR_ADMIN, AccessPolicy, Request, Route, json_response
from molecule_core.common.limits import Limits
from molecule_core.messages.reader import QuestionReader
from molecule_core.wire.schemas.questions import QuestionPage

_DEFAULT_PAGE = 100


class QuestionRoutes:
    """Routes of open questions."""

    def __init__(self, reader: QuestionReader, *, limits: Limits) -> None:
        self._reader = reader
        self._limits = limits

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route(
                "GET",
                "/orgs/{org_id}/questions",
                self.list_open,
                AccessPolicy(PERSON_OR_ADMIN),
                "List the open questions of an organisation",
                None,
                QuestionPage,
                query=query_params(LIMIT, AFTER),
            )
        ]

    async def list_open(self, request: Request) -> Response:
        """List questions with options that no person has answered, oldest first.

        A question is closed when a person chooses one of its options, or writes to its agent after it."""
        query = request.query_params()
        maximum = self._limits.page_rows
        count = read_int_param(query, "limit", minimum=1, maximum=maximum) or min(_DEFAULT_PAGE, maximum)
        after = read_text_param(query, "after")
        return json_response(await self._reader.list_open(request.path_params["org_id"], count, after))
