"""Routes of collaboration: what the thread of the path does to other agents of its tree."""

from collections.abc import Awaitable, Callable, Sequence

from msgspec.structs import replace

from molecule_core.access.model import Role
from molecule_core.api.http.response import Response
from molecule_core.api.query_parameters import query_params, read_text_param, string_param
from molecule_core.api.rate_limits import SEND_RATE
from molecule_core.api.routing import ALL_CREDENTIALS, AccessPolicy, Request, Route, json_response
from molecule_core.api.threads.threads import ThreadAccess
from molecule_core.common.errors import InvalidField
from molecule_core.common.limits import Limits
from molecule_core.common.text import ID_ALPHABET, is_valid_client_id, validate_line
from molecule_core.org.reader import OrgReader
from molecule_core.threads import rules
from molecule_core.threads.agent_writer import AgentWriter
from molecule_core.threads.model import ROOT_PATH, Thread
from molecule_core.threads.reader import ThreadReader
from molecule_core.threads.waits import AgentWaits
from molecule_core.wire.schemas.thread_log import CollabCallEntry
from molecule_core.wire.schemas.threads import AgentCallBody, AgentCallResponse, AgentList

# A message waits for a turn, even if its recipient has none scheduled.
_SEND_TOOL = "send"
CollabAction = Callable[[Thread, AgentCallBody], Awaitable[CollabCallEntry]]


class CollaborationRoutes:
    """Routes of collaboration."""

    def __init__(
        self, writer: AgentWriter, waits: AgentWaits, reader: ThreadReader, org: OrgReader, *, limits: Limits
    ) -> None:
        self._writer = writer
        self._waits = waits
        self._reader = reader
        self._access = ThreadAccess(reader, org)
        self._limits = limits

    def routes(self) -> list[Route]:
        """Return the routes."""
        every = "/threads/{thread_id}/agents"
        drive, see, writer = (
            AccessPolicy(ALL_CREDENTIALS, role=Role.OPERATOR),
            AccessPolicy(ALL_CREDENTIALS),
            self._writer,
        )
        actions = (
            ("spawn", "Spawn an agent", writer.spawn, 201),
            ("send", "Send a message to an agent, for its next turn", writer.send_message, 200),
            ("followup", "Send a further request to an agent", writer.send_followup, 200),
            ("interrupt", "Stop the running turn of an agent", writer.interrupt, 200),
            ("close", "Close an agent", writer.close, 200),
            ("resume", "Resume an agent", writer.resume, 200),
        )
        found = query_params(
            string_param("prefix", "Only agents whose path starts with this, relative to the thread or absolute.")
        )
        return [
            Route(
                "GET", every, self.list_agents, see, "List the agents of a thread's tree", None, AgentList, query=found
            ),
            Route(
                "POST",
                f"{every}/wait",
                self.wait_for_agents,
                drive,
                "Wait for other agents",
                AgentCallBody,
                AgentCallResponse,
                long_poll=True,
            ),
            *(self._action_route(f"{every}/{verb}", about, action, status) for verb, about, action, status in actions),
        ]

    def _action_route(self, path: str, about: str, action: CollabAction, status: int) -> Route:
        """Build the route of one action. The same `call_id` again returns the same response and does nothing."""

        async def handle(request: Request) -> Response:
            agent_call, thread = self._parse_agent_call(request), await self._access.find_drivable(request)
            return json_response(
                await self._with_undriven(AgentCallResponse(call=await action(thread, agent_call))), status
            )

        handle.__doc__ = f"{about}, as the thread. The same call_id again returns the same result."
        drive = AccessPolicy(ALL_CREDENTIALS, role=Role.OPERATOR)
        return Route("POST", path, handle, drive, about, AgentCallBody, AgentCallResponse, status, rate_class=SEND_RATE)

    async def wait_for_agents(self, request: Request) -> Response:
        """Wait for other agents, at most as long as a request may be held.

        If `call.status` is still inProgress, repeat the same call.
        """
        agent_call, thread = self._parse_agent_call(request), await self._access.find_drivable(request)
        return json_response(await self._with_undriven(await self._waits.wait_for_agents(thread, agent_call)))

    async def _with_undriven(self, result: AgentCallResponse) -> AgentCallResponse:
        """Add the recipients that no engine runs: the call reaches them, but has no effect."""
        rows = await self._reader.find_threads(result.call.receiver_thread_ids)
        undriven = await self._undriven_fields([each for each in rows if each.open or result.call.tool == _SEND_TOOL])
        return replace(result, **undriven)

    async def _undriven_fields(self, threads: Sequence[Thread]) -> dict[str, list[str]]:
        found = await self._reader.without_engine([each for each in threads if not each.closed])
        undriven = list(dict.fromkeys(each.workspace_id for each in found))
        return {"undriven": [each.path for each in found], "quiet": undriven}

    async def list_agents(self, request: Request) -> Response:
        """List the agents of the tree whose paths begin with `prefix`: relative to the thread, or absolute.

        Messages of threads that the caller may not read and that are below none of its own are left out.
        """
        thread, prefix = await self._access.find_readable(request), read_text_param(request.query_params(), "prefix")
        path = ROOT_PATH if prefix is None else rules.resolve_path(thread.path, prefix)
        tree = await self._reader.load_tree(thread.root_id)
        found = [each for each in tree if path and (each.path == path or rules.is_below(each.path, path))]
        undriven = await self._undriven_fields([each for each in found if each.open])
        readable = rules.readable_by(await self._access.readable_workspace(request, thread), tree)
        return json_response(
            AgentList(rules.redact_messages([rules.agent_state(each) for each in found], readable), **undriven)
        )

    def _parse_agent_call(self, request: Request) -> AgentCallBody:
        agent_call, limits = request.parse_body(AgentCallBody), self._limits
        if not is_valid_client_id(agent_call.call_id, limits.id_length):
            raise InvalidField(
                reason=f"call_id is not valid. Use at most {limits.id_length} characters of {ID_ALPHABET}."
            )
        for name in ("nickname", "role", "model", "effort"):
            validate_line(getattr(agent_call, name) or "", limits.name_length, name)
        return agent_call
