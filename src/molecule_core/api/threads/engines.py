"""Routes of threads for engines: claim a thread, begin and end its turns, append to its log."""

import msgspec

from molecule_core.access.model import Role
from molecule_core.api.http.response import Response
from molecule_core.api.query_parameters import (
    WAIT,
    int_param,
    query_params,
    read_int_param,
    read_text_param,
    string_param,
)
from molecule_core.api.routing import (
    ALL_CREDENTIALS,
    WORKSPACE,
    AccessPolicy,
    Request,
    Route,
    WorkspaceScope,
    json_response,
)
from molecule_core.api.threads.threads import ThreadAccess, thread_idempotency_key
from molecule_core.common.errors import InvalidField
from molecule_core.common.limits import Limits
from molecule_core.common.text import validate_line
from molecule_core.org.reader import OrgReader
from molecule_core.threads.engine_writer import EngineWriter
from molecule_core.threads.reader import ThreadReader
from molecule_core.wire.schemas.thread_log import UsageEntry
from molecule_core.wire.schemas.threads import (
    AppendEntriesBody,
    AppendEntriesResponse,
    BeginTurnBody,
    ClaimThreadBody,
    EndTurnBody,
    ModelContext,
    ReleaseThreadBody,
    ThreadClaim,
    ThreadItem,
    WorkList,
)


class EngineRoutes:
    """Routes of threads for engines."""

    def __init__(self, writer: EngineWriter, reader: ThreadReader, org: OrgReader, *, limits: Limits) -> None:
        self._writer = writer
        self._reader = reader
        self._access = ThreadAccess(reader, org)
        self._limits = limits

    def routes(self) -> list[Route]:
        """Return the routes."""
        one, turn = "/threads/{thread_id}", "/threads/{thread_id}/turns/{turn_id}"
        agent, own = (
            AccessPolicy(ALL_CREDENTIALS, role=Role.OPERATOR),
            AccessPolicy(frozenset((WORKSPACE,)), WorkspaceScope.OWN),
        )
        work_query = query_params(
            WAIT,
            string_param("owner", "Name of the engine; includes threads it has claimed."),
            int_param("own_too", "1: also threads in which it had started a turn before a crash."),
        )
        return [
            Route(
                "GET",
                "/workspaces/{id}/threads/work",
                self.list_work,
                own,
                "List threads that an engine can claim",
                None,
                WorkList,
                query=work_query,
            ),
            Route("POST", f"{one}/claim", self.claim_thread, agent, "Claim a thread", ClaimThreadBody, ThreadClaim),
            Route(
                "POST", f"{one}/release", self.release_thread, agent, "Release a thread", ReleaseThreadBody, ThreadItem
            ),
            Route(
                "POST",
                f"{one}/entries",
                self.append_entries,
                agent,
                "Append entries to the log of a thread",
                AppendEntriesBody,
                AppendEntriesResponse,
            ),
            Route("POST", f"{turn}/begin", self.begin_turn, agent, "Start a turn", BeginTurnBody, ModelContext),
            Route("POST", f"{turn}/end", self.end_turn, agent, "End a turn", EndTurnBody, ThreadItem),
        ]

    async def list_work(self, request: Request) -> Response:
        """List threads with a turn to begin, or whose engine has stopped responding.

        `wait` (seconds) waits for one; `owner`: include those that this engine holds; `own_too=1`: include those where
        it had begun a turn before it died.
        """
        query = request.query_params()
        wait = read_int_param(query, "wait", minimum=0, maximum=self._limits.wait_seconds) or 0
        own_too = bool(read_int_param(query, "own_too", minimum=0))
        owner = read_text_param(query, "owner")
        await self._writer.record_poll(request.workspace)
        return json_response(await self._reader.wait_for_work(request.workspace.id, owner, wait, include_own=own_too))

    async def claim_thread(self, request: Request) -> Response:
        """Claim a thread for an engine. Older claims cannot write any more."""
        body, thread = request.parse_body(ClaimThreadBody), await self._access.find_drivable(request)
        owner = validate_line(body.owner, self._limits.name_length, "owner")
        if not owner:
            raise InvalidField(reason="owner cannot be empty. Use the name of the engine.")
        return json_response(await self._writer.claim(thread, owner))

    async def release_thread(self, request: Request) -> Response:
        """Release a thread. Another engine can claim it at once."""
        body, thread = request.parse_body(ReleaseThreadBody), await self._access.find_drivable(request)
        await self._writer.release(thread, body.generation)
        return json_response(await self._reader.to_item(await self._reader.get_thread(thread.thread_id)))

    async def begin_turn(self, request: Request) -> Response:
        """Begin or continue a turn, and return the context for the model."""
        body, thread = request.parse_body(BeginTurnBody), await self._access.find_drivable(request)
        stop = await self._writer.begin_turn(
            thread, request.path_params["turn_id"].replace("\x00", ""), body.generation
        )
        return json_response(
            await self._reader.build_model_context(await self._reader.get_thread(thread.thread_id), stop_reason=stop)
        )

    async def append_entries(self, request: Request) -> Response:
        """Append entries to the log before the model sees them. Without entries: renew the claim, check for news."""
        body, thread = request.parse_body(AppendEntriesBody), await self._access.find_drivable(request)
        thread_idempotency_key(request, body.key, self._limits)
        if len(body.entries) > self._limits.thread_entries:
            raise InvalidField(
                reason=f"a request cannot have more than {self._limits.thread_entries} entries. "
                "Send the rest in another request."
            )
        for each in body.entries:
            if len(msgspec.json.encode(each)) > self._limits.thread_entry_bytes:
                raise InvalidField(
                    reason=f"an entry is larger than the limit of {self._limits.thread_entry_bytes} bytes. Shorten it."
                )
            if isinstance(each, UsageEntry) and len(each.record_key) > self._limits.id_length:
                raise InvalidField(reason=f"record_key is too long. Use at most {self._limits.id_length} characters.")
            if isinstance(each, UsageEntry) and each.model is not None:
                validate_line(each.model, self._limits.name_length, "model")
        return json_response(await self._writer.append_entries(thread, body))

    async def end_turn(self, request: Request) -> Response:
        """End a turn and notify the party that requested it."""
        body, thread = request.parse_body(EndTurnBody), await self._access.find_drivable(request)
        ended = await self._writer.end_turn(thread, request.path_params["turn_id"].replace("\x00", ""), body)
        return json_response(await self._reader.to_item(ended))
