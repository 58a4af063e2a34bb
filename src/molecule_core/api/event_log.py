"""Routes of the activity of an organisation: pages, counts by time, export. Texts of events are data.

Who may read an event is as on the live channel (`api/live/subscribers.py`): people all of their organisation, an agent
its own and what its place in the tree lets it see.
"""

from collections.abc import Sequence
from typing import TypeVar

from molecule_core.access.model import CredentialKind
from molecule_core.api.auth import Authenticator
from molecule_core.api.event_export import EventExport, OpenExports
from molecule_core.api.http.response import EventStream, Response
from molecule_core.api.live.hub import LiveHub
from molecule_core.api.live.subscribers import audience_of
from molecule_core.api.query_parameters import (
    LIMIT,
    WAIT,
    QueryParameter,
    bool_param,
    csv_param,
    enum_param,
    int_param,
    parse_time,
    query_params,
    read_int_param,
    read_state_param,
    read_text_param,
    string_param,
    time_param,
)
from molecule_core.api.routing import ALL_CREDENTIALS, AccessPolicy, Request, Route, json_response
from molecule_core.api.search import readable_kinds
from molecule_core.common.errors import CapacityExceeded, InvalidField, NotFound
from molecule_core.common.limits import Limits
from molecule_core.org.model import Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.org.rules import are_related
from molecule_core.search.errors import EmptySearch
from molecule_core.search.model import SearchRequest
from molecule_core.search.rules import AFTER_NEWEST, parse_query
from molecule_core.views.event_filter import EventQuery
from molecule_core.views.event_log import EventLogReader
from molecule_core.views.feed import Audience
from molecule_core.wire.schemas.event_log import (
    EVENT_DIRECTIONS,
    EVENT_KINDS,
    EVENT_STATES,
    ActivityHistogram,
    ActivityPage,
    EventDirection,
)
from molecule_core.wire.schemas.events import EVENTS

T = TypeVar("T", bound=str)
_MAX_BUCKETS, _BUCKETS = 200, 48
_JOURNALED = [name for name, definition in EVENTS.items() if definition.journaled]
_FILTERS: tuple[QueryParameter, ...] = (
    string_param("workspace", "Only events about this workspace (an id)."),
    bool_param("subtree", "Whether events about workspaces below it count too."),
    csv_param("kind", "Only these kinds of events.", EVENT_KINDS),
    csv_param("event", "Only events of these names.", _JOURNALED),
    enum_param("state", "Only events that say this about the work.", EVENT_STATES),
    enum_param(
        "direction",
        "Only messages, tasks and results that came into the workspace of their event, or went out of it. With "
        "`workspace`, `out` has also the events of others that say what they received from it.",
        EVENT_DIRECTIONS,
    ),
    time_param("since", "Only from this time on."),
    time_param("until", "Only before this time."),
    string_param("delegation", "Only events of this delegation (an id)."),
    string_param("thread", "Only events of this thread (an id)."),
    string_param("item", "Only events about the message, approval or other item with this id."),
    string_param(
        "q",
        "Only events about messages, delegations, items of threads and memories that a search for these words finds; "
        "not for agents.",
    ),
)


class EventLogRoutes:
    """Routes of the activity."""

    def __init__(
        self, reader: EventLogReader, org: OrgReader, live: LiveHub, authenticator: Authenticator, *, limits: Limits
    ) -> None:
        self._reader = reader
        self._org = org
        self._live = live
        self._authenticator = authenticator
        self._limits = limits
        self._exports = OpenExports()

    def routes(self) -> list[Route]:
        """Return the routes."""
        path, everybody = "/orgs/{org_id}/activity", AccessPolicy(ALL_CREDENTIALS)
        cursors = (
            LIMIT,
            int_param("cursor", "The `next_cursor` of the page before."),
            int_param("after", "Only events after this number, oldest first."),
            WAIT,
        )
        return [
            Route(
                "GET",
                path,
                self.list_events,
                everybody,
                "List the events of an organisation",
                None,
                ActivityPage,
                query=query_params(*_FILTERS, *cursors),
            ),
            Route(
                "GET",
                f"{path}/histogram",
                self.count_events,
                everybody,
                "Count the events of an organisation by time",
                None,
                ActivityHistogram,
                query=query_params(*_FILTERS, int_param("buckets", "Number of bars, about.", minimum=1)),
            ),
            Route(
                "GET",
                f"{path}/export",
                self.export_events,
                everybody,
                "Export the events of an organisation",
                media_type="application/x-ndjson",
                query=query_params(*_FILTERS),
            ),
        ]

    async def list_events(self, request: Request) -> Response:
        """Return what happened in an organisation, newest first: its journal, as its live channel sends it.

        All filters must be met; with `kind` and `event`, one of the two. One request reads at most
        `activity_scan_events` events, so a page may be short or empty while `next_cursor` says that there are more.
        With `after`, events are returned oldest first, and `wait` (seconds) waits for one; go on with `newest_seq`.
        """
        query = request.query_params()
        events, audience = self._parse_filters(request, query), self._audience(request)
        limit = read_int_param(query, "limit", minimum=1, maximum=self._limits.activity_events)
        limit = limit or self._limits.activity_events
        cursor, after = read_int_param(query, "cursor", minimum=0), read_int_param(query, "after", minimum=0)
        wait = read_int_param(query, "wait", minimum=0, maximum=self._limits.wait_seconds) or 0
        if after is None:
            return json_response(await self._reader.read_page(audience, events, before=cursor, limit=limit))
        page = await self._reader.read_after(audience, events, after=after, limit=limit, wait_seconds=wait)
        return json_response(page)

    async def count_events(self, request: Request) -> Response:
        """Return the number of events that meet the filters, by time. About `buckets` bars, 48 by default.

        Counts the newest events, at most as many as one request reads; `counted_since` says from when on.
        """
        query = request.query_params()
        events = self._parse_filters(request, query)
        buckets = read_int_param(query, "buckets", minimum=1, maximum=_MAX_BUCKETS) or _BUCKETS
        return json_response(await self._reader.count_by_time(self._audience(request), events, buckets=buckets))

    async def export_events(self, request: Request) -> Response:
        """Stream all events that meet the filters, newest first, one JSON object per line, as in a page.

        The last line is `{"export": …}` with their number; a file without it is not complete. Events that are written
        meanwhile are not included.
        """
        events, audience = self._parse_filters(request, request.query_params()), self._audience(request)
        if len(self._exports) >= self._limits.activity_exports:
            raise CapacityExceeded(what="exports of activity", most=self._limits.activity_exports)
        export = EventExport(
            self._reader,
            audience,
            events,
            self._exports,
            self._live.has_lost_access,
            caller=request.caller,
            credential=self._authenticator.credential_hash(request.headers),
            limits=self._limits,
        )
        headers = (
            (b"content-disposition", b'attachment; filename="activity.ndjson"'),
            (b"cache-control", b"no-store"),
        )
        return Response(b"", headers=headers, content_type=b"application/x-ndjson", takeover=EventStream(export))

    # -- parameters ----------------------------------------------------------------------------------------------------

    def _audience(self, request: Request) -> Audience:
        """Return which events the caller may see at present, as on its live channel."""
        own_id = request.caller.id if request.caller.kind is CredentialKind.WORKSPACE else None
        return audience_of(self._org, request.path_param("org_id", "organisation"), own_id)

    def _parse_filters(self, request: Request, query: dict[str, str]) -> EventQuery:
        org_id = request.path_param("org_id", "organisation")
        since, until = (
            max(0, parse_time(query[name], name)) if query.get(name) else None for name in ("since", "until")
        )
        return EventQuery(
            workspace_ids=self._workspace_ids(request, org_id, query),
            kinds=frozenset(_read_choices(query, "kind", EVENT_KINDS)),
            names=frozenset(_read_choices(query, "event", _JOURNALED)),
            state=next((each for each in EVENT_STATES if each == read_state_param(query, EVENT_STATES)), None),
            direction=_read_direction(query),
            since=since,
            until=until,
            delegation_id=read_text_param(query, "delegation"),
            thread_id=read_text_param(query, "thread"),
            entity_id=read_text_param(query, "item"),
            text=self._parse_text(request, query),
        )

    def _workspace_ids(self, request: Request, org_id: str, query: dict[str, str]) -> frozenset[str] | None:
        wanted = read_text_param(query, "workspace")
        with_subtree = query.get("subtree") or "false"
        if with_subtree not in ("true", "false"):
            raise InvalidField(reason="subtree has an unknown value. Use true or false.")
        if wanted is None:
            return None
        workspace = self._org.workspace(wanted)
        if workspace is None or workspace.org_id != org_id or not self._may_name(request, workspace):
            raise NotFound(what="workspace")
        if with_subtree == "false":
            return frozenset((wanted,))
        return frozenset(self._ids_below(org_id, wanted))

    def _may_name(self, request: Request, workspace: Workspace) -> bool:
        if request.caller.kind is not CredentialKind.WORKSPACE:
            return True
        own = self._org.workspace(request.caller.id)
        return own is not None and (own.id == workspace.id or are_related(self._org, own, workspace))

    def _ids_below(self, org_id: str, workspace_id: str) -> set[str]:
        """Return a workspace and all below it, also removed ones."""
        members: dict[str | None, list[str]] = {}
        for each in self._org.all_with_removed(org_id):
            members.setdefault(each.parent_id, []).append(each.id)
        found, queue = {workspace_id}, [workspace_id]
        while queue:
            below = [each for each in members.get(queue.pop(), ()) if each not in found]
            found.update(below)
            queue += below
        return found

    def _parse_text(self, request: Request, query: dict[str, str]) -> SearchRequest | None:
        if read_text_param(query, "q") is None:
            return None
        if request.caller.kind is CredentialKind.WORKSPACE:
            raise InvalidField(reason="q is not for agents. Use the other filters.")
        terms = parse_query(query["q"], self._limits.search_query_words)
        if terms is None:
            raise EmptySearch
        return SearchRequest(
            terms=terms,
            kinds=readable_kinds(request.caller.role),
            workspace_id=None,
            since=0,
            until=AFTER_NEWEST,
            before=AFTER_NEWEST,
            limit=self._limits.activity_text_matches,
        )


def _read_direction(query: dict[str, str]) -> EventDirection | None:
    """Return the direction of the query. Raises InvalidField."""
    text = query.get("direction") or None
    found = next((each for each in EVENT_DIRECTIONS if each == text), None)
    if text is not None and found is None:
        raise InvalidField(reason="direction has an unknown value. Use in or out.")
    return found


def _read_choices(query: dict[str, str], name: str, allowed: Sequence[T]) -> list[T]:
    """Return the values of a comma-separated parameter. Raises InvalidField."""
    found = []
    for text in filter(None, (query.get(name) or "").split(",")):
        value = next((each for each in allowed if each == text), None)
        if value is None:
            raise InvalidField(reason=f"{name} has an unknown value. Use one or more of: {', '.join(allowed)}.")
        found.append(value)
    return found
