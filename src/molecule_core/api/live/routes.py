"""Routes of live channels: snapshot, WebSocket, server-sent events."""

from molecule_core.access.model import Caller, CredentialKind
from molecule_core.api.auth import Authenticator
from molecule_core.api.compression import compress
from molecule_core.api.http.response import Response
from molecule_core.api.live.hub import LiveHub
from molecule_core.api.live.sse import LegacySseConnection, SseConnection
from molecule_core.api.live.subscribers import LiveSubscriber
from molecule_core.api.live.websocket import WebSocketConnection
from molecule_core.api.messages.inbox_view import InboxPresenter
from molecule_core.api.query_parameters import ORG, csv_param, query_params, read_text_param, string_param
from molecule_core.api.rate_limits import RateLimiter
from molecule_core.api.routing import (
    ALL_CREDENTIALS,
    PERSON_OR_ADMIN,
    AccessPolicy,
    Request,
    Route,
    WorkspaceScope,
    json_response,
)
from molecule_core.common.errors import InvalidField, NotFound
from molecule_core.messages.obligations.instructions import InstructionOptions
from molecule_core.org.model import Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.views.feed import EncodedEvent, Feed
from molecule_core.views.snapshot import SnapshotReader
from molecule_core.wire.schemas.envelope import INSTRUCTION_INCLUDES
from molecule_core.wire.schemas.live import Snapshot

_INCLUDE_PARAM = csv_param("include", "What to add to an agent's own messages.", INSTRUCTION_INCLUDES)

_AFTER_PARAM = string_param("after", "Only workspaces after this one: the `next_workspace` of the page before.")


class LiveRoutes:
    """Opens live channels, and returns the snapshot from which they continue."""

    def __init__(
        self,
        live: LiveHub,
        feed: Feed,
        snapshots: SnapshotReader,
        org: OrgReader,
        authenticator: Authenticator,
        rate_limiter: RateLimiter,
        presenter: InboxPresenter,
    ) -> None:
        self._presenter = presenter
        self._rate_limiter = rate_limiter
        self._authenticator = authenticator
        self._live = live
        self._feed = feed
        self._snapshots = snapshots
        self._org = org

    def routes(self) -> list[Route]:
        """Return the routes."""
        own = AccessPolicy(ALL_CREDENTIALS, WorkspaceScope.OWN)
        snapshot, stream = "/orgs/{org_id}/snapshot", "text/event-stream"
        event_query = query_params(ORG, _INCLUDE_PARAM)
        own_event_query = query_params(_INCLUDE_PARAM)
        return [
            Route(
                "GET",
                snapshot,
                self.get_snapshot,
                AccessPolicy(PERSON_OR_ADMIN),
                "Get a snapshot of an organisation",
                None,
                Snapshot,
                query=query_params(_AFTER_PARAM),
            ),
            Route(
                "GET",
                "/ws",
                self.open_websocket,
                AccessPolicy(ALL_CREDENTIALS),
                "Stream live events over a WebSocket",
                status=101,
                upgrades=True,
                query=event_query,
            ),
            Route(
                "GET",
                "/events/stream",
                self.open_stream,
                AccessPolicy(ALL_CREDENTIALS),
                "Stream live events as server-sent events",
                media_type=stream,
                query=event_query,
            ),
            Route(
                "GET",
                "/workspaces/{id}/events/stream",
                self.open_legacy_stream,
                own,
                "Stream the events of one workspace, in an older format",
                media_type=stream,
                query=own_event_query,
            ),
        ]

    async def get_snapshot(self, request: Request) -> Response:
        """Return a snapshot of an org with its journal position. Live channels resume from there.

        With `after`: only further workspaces of a large organisation.
        """
        org_id, after = request.path_params["org_id"], read_text_param(request.query_params(), "after")
        if after is not None:
            response = json_response(await self._snapshots.read_page(org_id, request.caller, after))
        else:
            response = json_response(await self._snapshots.read_snapshot(org_id, request.caller))
        return await compress(response, request.headers.get(b"accept-encoding", b""))

    async def open_websocket(self, request: Request) -> Response:
        """Open a WebSocket of JSON frames (docs/reference/events.md). The admin selects an org with `org_id`."""
        credential = self._authenticator.credential_hash(request.headers)
        return WebSocketConnection(
            self._live,
            self._rate_limiter,
            request,
            org_id_of(request, self._org),
            credential,
            self._event_rewriter(request),
        ).to_response()

    async def open_stream(self, request: Request) -> Response:
        """Stream one event frame per `data` field. `Last-Event-ID` resumes. The admin selects an org with `org_id`."""
        return self._open_sse(
            request, SseConnection(self._live, self._feed.epoch()), org_id_of(request, self._org), None
        )

    async def open_legacy_stream(self, request: Request) -> Response:
        """Stream the events of one workspace as `{type, timestamp, data}`."""
        workspace = request.workspace
        return self._open_sse(
            request, LegacySseConnection(self._live, self._feed.epoch()), workspace.org_id, workspace.id
        )

    def _open_sse(
        self, request: Request, stream: SseConnection, org_id: str, about_workspace_id: str | None
    ) -> Response:
        credential = self._authenticator.credential_hash(request.headers)
        subscriber = LiveSubscriber(
            request.caller, org_id, stream, credential, about_workspace_id, self._event_rewriter(request)
        )
        last = request.header(b"last-event-id")
        if last is None:
            return stream.to_response(subscriber, lambda: self._live.open(subscriber))
        epoch, _, seq = last.partition(":")
        if not (seq.isascii() and seq.isdigit() and len(seq) < 20):
            raise InvalidField(
                reason="Last-Event-ID is not the id of an event. Use one from the stream, or omit it to start from now."
            )
        return stream.to_response(subscriber, lambda: self._live.resume(subscriber, int(seq), epoch))

    def _event_rewriter(self, request: Request) -> "InstructionRewriter | None":
        """Return what adds instructions to an agent's own messages; None unless `include=instructions`."""
        own = self._org.workspace(request.caller.id) if request.caller.kind is CredentialKind.WORKSPACE else None
        options = self._presenter.options_for(own, request.query_params(), only_if_requested=True)
        return None if own is None or options is None else InstructionRewriter(self._org, self._presenter, own, options)


class InstructionRewriter:
    """Adds instructions to the events about an agent's own messages."""

    def __init__(
        self, org: OrgReader, presenter: InboxPresenter, workspace: Workspace, options: InstructionOptions
    ) -> None:
        self._org = org
        self._presenter = presenter
        self._options = options
        self._workspace_id = workspace.id
        self.key: object = (workspace.id, options)

    def rewrite(self, event: EncodedEvent) -> EncodedEvent:
        """Return the event with instructions, if it is about a message to the workspace."""
        workspace = self._org.workspace(self._workspace_id)
        return event if workspace is None else self._presenter.present_event(workspace, self._options, event)


def org_id_of(request: Request, org: OrgReader) -> str:
    """Return the caller's own org; for the admin the one named by `org_id`, or the first.

    Raises NotFound, WorkspaceRemoved."""
    caller: Caller = request.caller
    if caller.kind is CredentialKind.WORKSPACE:
        return org.active_workspace(caller.id).org_id
    if caller.kind is CredentialKind.PERSON:
        return caller.org_id
    org_id = read_text_param(request.query_params(), "org_id")
    if org_id is None:
        return org.orgs()[0].id
    if org.find_org(org_id) is None:
        raise NotFound(what="organisation")
    return org_id
