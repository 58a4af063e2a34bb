"""Routes of live turns: agents report what they do now, people stop it."""

from molecule_core.access.model import Role
from molecule_core.api.http.response import Response
from molecule_core.api.query_parameters import WAIT, query_params, read_int_param, read_text_param, string_param
from molecule_core.api.routing import (
    PERSON_OR_ADMIN,
    WORKSPACE,
    AccessPolicy,
    Request,
    Route,
    WorkspaceScope,
    json_response,
)
from molecule_core.common.errors import InvalidField, NotFound
from molecule_core.common.limits import Limits
from molecule_core.common.text import ID_ALPHABET, is_valid_client_id
from molecule_core.live_turns.model import NO_THREAD, TurnThread
from molecule_core.live_turns.writer import LiveTurnWriter
from molecule_core.threads.reader import ThreadReader
from molecule_core.wire.schemas.live_turns import (
    ReportTurnBody,
    StopTurnBody,
    StopTurnResponse,
    TurnControls,
)


class LiveTurnRoutes:
    """Routes of live turns."""

    def __init__(self, writer: LiveTurnWriter, threads: ThreadReader, *, limits: Limits) -> None:
        self._writer = writer
        self._threads = threads
        self._limits = limits

    def routes(self) -> list[Route]:
        """Return the routes."""
        one = "/workspaces/{id}/live"
        own = AccessPolicy(frozenset((WORKSPACE,)), WorkspaceScope.OWN)
        return [
            Route("POST", one, self.report_turn, own, "Report what happens in a turn", ReportTurnBody, TurnControls),
            Route(
                "GET",
                f"{one}/controls",
                self.get_controls,
                own,
                "Wait for requests to stop turns",
                None,
                TurnControls,
                query=query_params(WAIT, string_param("activity_id", "Only of this turn.")),
            ),
            Route(
                "POST",
                f"{one}/stop",
                self.stop_turn,
                AccessPolicy(PERSON_OR_ADMIN, WorkspaceScope.OWN, Role.OPERATOR),
                "Stop the running turn of an agent",
                StopTurnBody,
                StopTurnResponse,
            ),
        ]

    async def report_turn(self, request: Request) -> Response:
        """Report text, tool calls and the status of a turn, in order. They are sent to live channels and not stored.

        The first report begins the turn; a status `ended`, `failed` or `stopped` ends it. Returns what people want.
        """
        body, workspace = request.parse_body(ReportTurnBody), request.workspace
        self._check_id(body.activity_id)
        thread = await self._find_thread(workspace.id, body.thread_id) if body.thread_id else NO_THREAD
        return json_response(TurnControls(await self._writer.report(workspace, body.activity_id, thread, body.events)))

    def _check_id(self, activity_id: str) -> None:
        if not is_valid_client_id(activity_id, self._limits.id_length):
            raise InvalidField(
                reason=f"activity_id is not valid. Use 1 to {self._limits.id_length} characters of {ID_ALPHABET}."
            )

    async def _find_thread(self, workspace_id: str, thread_id: str) -> TurnThread:
        thread = await self._threads.find_thread(thread_id.replace("\x00", ""))
        if thread is None or thread.workspace_id != workspace_id:
            raise NotFound(what="thread")
        root = thread if thread.root_id == thread.thread_id else await self._threads.find_thread(thread.root_id)
        is_elsewhere = root is not None and root.workspace_id != workspace_id
        return TurnThread(thread.thread_id, root.workspace_id if root is not None and is_elsewhere else "")

    async def get_controls(self, request: Request) -> Response:
        """Return requests of people to stop turns of the workspace, or of one turn. `wait` (seconds) waits for one.

        A request that the turn does not follow is returned again after some seconds.
        """
        query = request.query_params()
        wait = read_int_param(query, "wait", minimum=0, maximum=self._limits.wait_seconds) or 0
        activity_id = read_text_param(query, "activity_id")
        return json_response(TurnControls(await self._writer.wait_for_controls(request.workspace, activity_id, wait)))

    async def stop_turn(self, request: Request) -> Response:
        """Request that a running turn stops. Its agent gets the request at once; the turn ends with `stopped`."""
        body = request.parse_body(StopTurnBody)
        self._check_id(body.activity_id)
        await self._writer.request_stop(request.workspace, body.activity_id, request.caller.name)
        return json_response(StopTurnResponse("stop_requested"))
