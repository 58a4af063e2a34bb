"""Route of the search over messages, delegations, items of threads and memories. Its texts are data.

For people and the admin. Agents have their own inbox, delegations and memories, each with rules of its own.
"""

from molecule_core.access.model import Role
from molecule_core.access.rules import role_includes
from molecule_core.api.http.response import Response
from molecule_core.api.query_parameters import (
    LIMIT,
    MAX_INT,
    csv_param,
    int_param,
    parse_time,
    query_params,
    read_int_param,
    read_text_param,
    string_param,
    time_param,
)
from molecule_core.api.routing import PERSON_OR_ADMIN, AccessPolicy, Request, Route, json_response
from molecule_core.common.clock import to_rfc3339
from molecule_core.common.errors import InsufficientRole, InvalidField, NotFound
from molecule_core.common.limits import Limits
from molecule_core.org.reader import OrgReader
from molecule_core.search.errors import EmptySearch
from molecule_core.search.model import SearchHit, SearchKind, SearchRequest
from molecule_core.search.reader import SearchReader
from molecule_core.search.rules import AFTER_NEWEST, parse_query
from molecule_core.wire.schemas.search import FoundWorkspace, SearchItem, SearchResponse, SearchSnippet

# As `GET /workspaces/{id}/memories`: a viewer may not read memories.
_ROLES = {SearchKind.MEMORY: Role.OPERATOR}


class SearchRoutes:
    """Route of the search."""

    def __init__(self, reader: SearchReader, org: OrgReader, *, limits: Limits) -> None:
        self._reader = reader
        self._org = org
        self._limits = limits

    def routes(self) -> list[Route]:
        """Return the routes."""
        query = query_params(
            string_param(
                "q",
                "Words that must all be in the text; the last one may be a prefix of three to eight characters. "
                "Words in quotation marks must be adjacent.",
            ),
            csv_param("kind", "Only these kinds.", list(SearchKind)),
            string_param("workspace", "Only what this workspace (an id) takes part in."),
            time_param("since", "Only from this time on."),
            time_param("until", "Only before this time."),
            LIMIT,
            int_param("cursor", "The `next_cursor` of the page before."),
        )
        return [
            Route(
                "GET",
                "/orgs/{org_id}/search",
                self.search,
                AccessPolicy(PERSON_OR_ADMIN),
                "Search messages, delegations, threads and memories",
                None,
                SearchResponse,
                query=query,
            )
        ]

    async def search(self, request: Request) -> Response:
        """Search all texts of an organisation that the caller may read, newest first.

        Viewers find no memories, which only operators and owners may read. Accents and case make no difference.
        """
        org_id, query = request.path_param("org_id", "organisation"), request.query_params()
        workspace_id = read_text_param(query, "workspace")
        if workspace_id is not None:
            workspace = self._org.workspace(workspace_id)
            if workspace is None or workspace.org_id != org_id:
                raise NotFound(what="workspace")
        since, until = (
            parse_time(query[name], name) if query.get(name) else default
            for name, default in (("since", 0), ("until", MAX_INT))
        )
        maximum, kinds = self._limits.search_results, _read_kinds(request, query.get("kind") or "")
        limit = read_int_param(query, "limit", minimum=1, maximum=maximum) or maximum
        cursor = read_int_param(query, "cursor", minimum=0)
        terms = parse_query(query.get("q", ""), self._limits.search_query_words)
        if terms is None:
            raise EmptySearch
        page = await self._reader.search(
            org_id,
            SearchRequest(
                terms=terms,
                kinds=kinds,
                workspace_id=workspace_id,
                since=max(since, 0),
                until=max(until, 0),
                before=AFTER_NEWEST if cursor is None else cursor,
                limit=limit,
            ),
        )
        next_cursor = None if page.next_before is None else str(page.next_before)
        return json_response(SearchResponse(list(map(self._to_result, page.hits)), next_cursor, page.is_complete))

    def _to_result(self, hit: SearchHit) -> SearchItem:
        document = hit.document
        return SearchItem(
            kind=document.ref.kind.value,
            id=document.ref.id,
            ordinal=document.ref.ordinal if document.ref.kind is SearchKind.THREAD else None,
            workspace_id=document.owner_id,
            workspaces=[FoundWorkspace(each, self._name_of(each)) for each in document.workspace_ids],
            in_chat=document.in_chat,
            at=to_rfc3339(document.at),
            snippet=SearchSnippet(hit.snippet.text, [list(each) for each in hit.snippet.matches]),
        )

    def _name_of(self, workspace_id: str) -> str | None:
        workspace = self._org.workspace(workspace_id)
        return None if workspace is None else workspace.name


def readable_kinds(role: Role) -> tuple[SearchKind, ...]:
    """Return the kinds that a role may search."""
    return tuple(each for each in SearchKind if role_includes(role, _ROLES.get(each, Role.VIEWER)))


def _read_kinds(request: Request, text: str) -> tuple[SearchKind, ...]:
    """Return the kinds to search: those that are named, or all that the caller may read.

    Raises InvalidField, and InsufficientRole for a named kind that the caller may not read."""
    role = request.caller.role
    if not text:
        return readable_kinds(role)
    names = list(SearchKind)
    found = dict.fromkeys(text.split(","))
    for each in found:
        if each not in names:
            raise InvalidField(reason=f"kind has an unknown value. Use one or more of: {', '.join(names)}.")
        needed = _ROLES.get(SearchKind(each), Role.VIEWER)
        if not role_includes(role, needed):
            raise InsufficientRole(role=role.value, needed=needed.value)
    return tuple(map(SearchKind, found))
