"""The routes of what is live: snapshot, WebSocket, event streams."""

from collections.abc import Callable

from molecule_core.access.model import Caller, Kind
from molecule_core.edges.auth import Guards
from molecule_core.edges.listeners import Listener
from molecule_core.edges.live import Live
from molecule_core.edges.projecting import Projection
from molecule_core.edges.query import ORG, asks, plain_text, words
from molecule_core.edges.routes import EVERYBODY, PEOPLE, Answer, Call, Reach, Route, Who, json_answer
from molecule_core.edges.stream import OlderStream, Stream
from molecule_core.edges.websocket import Socket
from molecule_core.ground.errors import InvalidField, NotFound
from molecule_core.org.reader import OrgReader
from molecule_core.views.feed import Feed, Notice
from molecule_core.views.snapshot import SnapshotReader
from molecule_core.wire.envelope import INCLUDES
from molecule_core.wire.live import Snapshot

_INCLUDE = words("include", "What is told beside an agent's own mail.", INCLUDES)


class EventEdge:
    """Opens live channels, and gives the snapshot that they go on from."""

    def __init__(
        self,
        live: Live,
        feed: Feed,
        snapshots: SnapshotReader,
        org: OrgReader,
        guards: Guards,
        projection: Projection,
    ) -> None:
        self._projection = projection
        self._guards = guards
        self._live = live
        self._feed = feed
        self._snapshots = snapshots
        self._org = org

    def routes(self) -> list[Route]:
        """The rows for the table."""
        own = Who(EVERYBODY, Reach.OWN)
        snapshot, stream = "/orgs/{org_id}/snapshot", "text/event-stream"
        told = asks(ORG, _INCLUDE)
        told_own = asks(_INCLUDE)
        return [
            Route("GET", snapshot, self.snapshot, Who(PEOPLE), "All that the canvas shows", None, Snapshot),
            Route(
                "GET",
                "/ws",
                self.socket,
                Who(EVERYBODY),
                "Live events over a WebSocket",
                status=101,
                upgrades=True,
                query=told,
            ),
            Route(
                "GET",
                "/events/stream",
                self.stream,
                Who(EVERYBODY),
                "Live events as server-sent events",
                media=stream,
                query=told,
            ),
            Route(
                "GET",
                "/workspaces/{id}/events/stream",
                self.older,
                own,
                "The same, of one workspace, older shape",
                media=stream,
                query=told_own,
            ),
        ]

    async def snapshot(self, call: Call) -> Answer:
        """An organisation as of one place in its journal; live channels go on from there."""
        return json_answer(await self._snapshots.of(call.params["org_id"], call.by))

    async def socket(self, call: Call) -> Answer:
        """Frames of JSON, as docs/events.md has them. The admin names an organisation with `org_id`."""
        credential = self._guards.credential_hash(call.headers)
        return Socket(self._live, call, org_of(call, self._org), credential, self._retold(call)).answer()

    async def stream(self, call: Call) -> Answer:
        """One event frame in each `data`; `Last-Event-ID` resumes. The admin names an organisation with `org_id`."""
        return self._streamed(call, Stream(self._live, self._feed.epoch()), org_of(call, self._org), None)

    async def older(self, call: Call) -> Answer:
        """What happens to one workspace, as `{type, timestamp, data}`."""
        workspace = call.target
        return self._streamed(call, OlderStream(self._live, self._feed.epoch()), workspace.org_id, workspace.id)

    def _streamed(self, call: Call, stream: Stream, org_id: str, about: str | None) -> Answer:
        credential = self._guards.credential_hash(call.headers)
        listener = Listener(call.by, org_id, stream, credential, about, self._retold(call))
        last = call.header(b"last-event-id")
        if last is None:
            return stream.answer(listener, lambda: self._live.open(listener))
        epoch, _, seq = last.partition(":")
        if not (seq.isascii() and seq.isdigit() and len(seq) < 20):
            raise InvalidField(reason="Last-Event-ID must be the id of an event; leave it out to start from now")
        return stream.answer(listener, lambda: self._live.resume(listener, int(seq), epoch))

    def _retold(self, call: Call) -> Callable[[Notice], Notice] | None:
        """How an agent is told of its own mail that asks for instructions (`include=instructions`)."""
        own = self._org.workspace(call.by.id) if call.by.kind is Kind.WORKSPACE else None
        wish = self._projection.wish(own, call.query(), only_if_asked=True)
        if own is None or wish is None:
            return None
        own_id = own.id

        def retold(notice: Notice) -> Notice:
            now = self._org.workspace(own_id)
            return notice if now is None else self._projection.notice(now, wish, notice)

        return retold


def org_of(call: Call, org: OrgReader) -> str:
    """Whose events: the caller's own organisation; the admin, who has none, names one. Raises WorkspaceRemoved."""
    caller: Caller = call.by
    if caller.kind is Kind.WORKSPACE:
        return org.living(caller.id).org_id
    if caller.kind is Kind.PERSON:
        return caller.org_id
    named = plain_text(call.query(), "org_id")
    if named is None:
        return org.orgs()[0].id
    if org.find_org(named) is None:
        raise NotFound(what="organisation")
    return named
