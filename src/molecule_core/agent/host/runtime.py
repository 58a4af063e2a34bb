"""Runs the agent behind its host: workspaces, inbox, tools, channel.

Called by `main` after the first response to the host, since it loads the HTTP client.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct

from molecule_core.agent.client.connections import ServerConnections
from molecule_core.agent.client.retry import to_tool_error, unreachable_error
from molecule_core.agent.client.tokens import TokenRegistry
from molecule_core.agent.config import Configuration, relay_workspace
from molecule_core.agent.host.channel import HostChannel, ReadySignal
from molecule_core.agent.host.detection import runtime_of, wants_channel
from molecule_core.agent.host.permission_relay import PendingPermissions, PermissionRelay
from molecule_core.agent.mailbox.cursors import CursorFile
from molecule_core.agent.mailbox.inbox import MergedInbox
from molecule_core.agent.mailbox.leader import LeaderLock
from molecule_core.agent.mailbox.membership import Membership, MembershipContext
from molecule_core.agent.mailbox.memberships import Memberships
from molecule_core.agent.sanitize import sanitize_line
from molecule_core.agent.tools.inbox_tools import InboxTools
from molecule_core.client.api import ApiError, NoAnswerError
from molecule_core.common.clock import Clock
from molecule_core.common.ids import IdGenerator, SystemRandomness
from molecule_core.tools.agent_cards import ALL_TOOL_NAMES
from molecule_core.tools.mcp_dispatcher import CallContext, ToolResult
from molecule_core.tools.runners import approval_tools, collaboration_tools, delegation_tools, message_tools
from molecule_core.tools.runners.requester import Requester, with_approval
from molecule_core.tools.spec import RouteCall, ToolSpec

_log = logging.getLogger("molecule.agent")
# Metadata of hosts about the caller: one process serves all threads of a session, or one is started for each of them.
_CALLER_FIELDS = ("threadId", "parentThreadId", "sessionId", "claudecode/toolUseId")
_STOP_SECONDS = 2.0
LocalTool = Callable[[Any, CallContext], Awaitable[dict[str, Any]]]


class AgentRuntime:
    """Everything that works for one agent.

    `on_refused`: called if the token of an only workspace is rejected at the start. `on_lost`: called if a workspace is
    lost for good, by processes that cannot work without it. `tools`: names of the tools that its model is offered.
    """

    def __init__(
        self,
        config: Configuration,
        *,
        clock: Clock,
        card: Callable[[], dict[str, Any]],
        client: Callable[[], dict[str, Any]],
        on_refused: Callable[[str], None] | None = None,
        on_lost: Callable[[str], None] | None = None,
        tools: tuple[str, ...] = ALL_TOOL_NAMES,
    ) -> None:
        tokens, randomness = TokenRegistry(), SystemRandomness()
        for workspace in config.workspaces:
            tokens.register(workspace.id, workspace.token)
        self._config = config
        self._clock = clock
        self._client = client
        self._servers = ServerConnections(tokens)
        self._inbox = MergedInbox()
        membership_context = MembershipContext(
            clock=clock,
            randomness=randomness,
            settings=config.settings,
            tokens=tokens,
            servers=self._servers,
            inbox=self._inbox,
            card=card,
            on_refused=on_refused if config.single else None,
            on_lost=on_lost,
            is_multi_workspace=not config.single,
            tools=tools,
        )
        self.memberships = Memberships(
            [
                Membership(
                    workspace,
                    CursorFile(config.state, workspace.id, single=config.single),
                    LeaderLock(config.state, workspace.id),
                    membership_context,
                )
                for workspace in config.workspaces
            ],
            single=config.single,
        )
        self._ids = ids = IdGenerator(clock, randomness)
        self._randomness = randomness
        self._permission_relay: PermissionRelay | None = None
        self._inbox_tools = InboxTools(
            self.memberships, self._inbox, clock=clock, ids=ids, randomness=randomness, settings=config.settings
        )
        self._local_tools: dict[str, LocalTool] = {
            "wait_for_message": self._inbox_tools.wait_for_message,
            "inbox_peek": lambda arguments, _: self._inbox_tools.peek_messages(arguments),
            "inbox_pop": lambda arguments, _: self._inbox_tools.pop_message(arguments),
            "reply": self._inbox_tools.answer_by_handle,
            "decline": self._inbox_tools.decline_by_handle,
            "reply_to_workspace": self._inbox_tools.reply_to_workspace,
            "get_runtime_identity": lambda _, __: self._runtime_identity(),
            "chat_history": lambda arguments, _: self._inbox_tools.chat_history(arguments),
            **dict.fromkeys(delegation_tools.TOOL_NAMES, self._inbox_tools.run_delegation_tool),
            **dict.fromkeys(approval_tools.TOOL_NAMES, self._inbox_tools.run_approval_tool),
            **dict.fromkeys(collaboration_tools.TOOL_NAMES, self._inbox_tools.run_collaboration_tool),
        }

    @property
    def inbox(self) -> MergedInbox:
        """Return the merged inbox, for an agent that reads it directly."""
        return self._inbox

    async def push_messages(self, notify: Callable[[str, dict[str, Any]], Awaitable[None]], ready: ReadySignal) -> None:
        """Push incoming messages into the host, if it displays them, until cancelled."""
        await ready.wait()
        if not wants_channel(self._config.settings.channel, self._client()):
            return
        channel = HostChannel(
            self._inbox,
            notify,
            clock=self._clock,
            settings=self._config.settings,
            single=self._config.single,
            apply_notes=self._inbox_tools.apply_notes,
        )
        await channel.run()

    async def relay_permissions(
        self, permissions: PendingPermissions, notify: Callable[[str, dict[str, Any]], Awaitable[None]]
    ) -> None:
        """Relay the host's permission requests to the platform, until cancelled."""
        config = relay_workspace(self._config)
        if config is None:
            return
        workspace = self.memberships.get_membership(config.id)
        self._permission_relay = PermissionRelay(
            workspace.id,
            self._inbox_tools.requester_for(workspace),
            notify,
            process_key=self._ids.new(),
            clock=self._clock,
            randomness=self._randomness,
        )
        await self._permission_relay.run(permissions)

    async def stop(self) -> None:
        """Stop the relay and all memberships, and close the connections."""
        if self._permission_relay is not None:
            await self._permission_relay.stop(_STOP_SECONDS)
        await self.memberships.stop_all(_STOP_SECONDS)
        await self._servers.close()

    # -- tools ---------------------------------------------------------------------------------------------------------

    async def call(self, spec: ToolSpec, arguments: Struct, context: CallContext) -> ToolResult:
        """Run a tool as the workspace that the call names. Raises ToolError."""
        caller_fields = {
            name: sanitize_line(str(context.meta[name]), 128) for name in _CALLER_FIELDS if name in context.meta
        }
        if caller_fields:
            _log.info("call %s %s", spec.name, " ".join(f"{name}={value}" for name, value in caller_fields.items()))
        try:
            if isinstance(spec.call, RouteCall):
                return ToolResult(await self._run_tool(spec, spec.call, arguments, context))
            return ToolResult(await self._local_tools[spec.call.name](arguments, context))
        except ApiError as error:
            raise to_tool_error(error) from None
        except NoAnswerError as error:
            raise unreachable_error(error) from None

    async def _run_tool(
        self, spec: ToolSpec, route: RouteCall, arguments: Struct, context: CallContext
    ) -> dict[str, Any]:
        workspace = self.memberships.resolve_membership(
            spec.caller_workspace(arguments), spec.identity_argument or "via_workspace"
        )
        request = spec.to_request(workspace.id, arguments)
        # A call that the host repeats under the same id is executed once.
        call_name = message_tools.host_call_id(context.meta)
        headers = message_tools.idempotency_headers(call_name or self._ids.new()) if route.keyed else None
        is_retriable = request.method == "GET" or headers
        base_requester: Requester = self._inbox_tools.requester_for(workspace) if is_retriable else workspace.api()
        requester = with_approval(base_requester, arguments, read_only=True)
        response = await requester.call(
            request.method, request.path, body=request.body, query=request.query, headers=headers
        )
        if spec.name == "update_agent_card" and request.body is not None:
            workspace.set_card(request.body["agent_card"])
        return spec.convert_result(workspace.id, response)

    async def _runtime_identity(self) -> dict[str, Any]:
        details = self._client()
        runtime = runtime_of(details).name.lower()
        workspaces = [await self._describe_workspace(workspace) for workspace in self.memberships]
        name, version = (
            sanitize_line(str(details.get("name") or runtime)),
            sanitize_line(str(details.get("version", ""))),
        )
        return {"runtime": name, "version": version, "workspaces": workspaces}

    async def _describe_workspace(self, workspace: Membership) -> dict[str, Any]:
        details = {"workspace_id": workspace.id, "platform_url": workspace.url, "name": "", "status": workspace.state}
        try:
            row = await workspace.api().get(f"/workspaces/{workspace.id}")
        except (ApiError, NoAnswerError):
            return details
        return {**details, "name": str(row.get("name", "")), "status": str(row.get("status", ""))}
