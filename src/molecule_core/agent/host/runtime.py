"""Runs the agent behind its host: workspaces, inbox, tools, channel.

Called by `main` after the first response to the host, since it loads the HTTP client.
"""

import logging
import os
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct

from molecule_core.agent.client.connections import ServerConnections
from molecule_core.agent.client.retry import to_tool_error, unreachable_error
from molecule_core.agent.client.tokens import TokenRegistry
from molecule_core.agent.config import Configuration, relay_workspace
from molecule_core.agent.host.channel import HostChannel, ReadySignal
from molecule_core.agent.host.codex_session import CodexSession, codex_socket
from molecule_core.agent.host.detection import has_hooks, runtime_of, shows_channel, wants_channel
from molecule_core.agent.host.hook_permissions import HookPermissions
from molecule_core.agent.host.hook_server import HookServer
from molecule_core.agent.host.host_approvals import HostApprovals
from molecule_core.agent.host.host_process import command_line
from molecule_core.agent.host.opencode_session import OpencodeSession, find_command
from molecule_core.agent.host.permission_relay import PendingPermissions, PermissionRelay
from molecule_core.agent.host.session_push import HostSession, SessionPush
from molecule_core.agent.host.tool_scopes import ToolScopes
from molecule_core.agent.mailbox.changes import download_file, follow_changes
from molecule_core.agent.mailbox.cursors import CursorFile
from molecule_core.agent.mailbox.inbox import MergedInbox
from molecule_core.agent.mailbox.leader import LeaderLock
from molecule_core.agent.mailbox.membership import Membership, MembershipContext
from molecule_core.agent.mailbox.memberships import Memberships
from molecule_core.agent.sanitize import sanitize_line
from molecule_core.agent.tools.inbox_tools import InboxTools
from molecule_core.client.api import ApiError, NoAnswerError
from molecule_core.client.host_context_file import HostContextFile
from molecule_core.client.host_hook import read_ancestors
from molecule_core.client.host_socket import host_socket_path
from molecule_core.common.clock import Clock
from molecule_core.common.ids import IdGenerator, SystemRandomness
from molecule_core.tools.mcp_dispatcher import CallContext, ToolResult
from molecule_core.tools.mcp_features import CallerWorkspace
from molecule_core.tools.runners import (
    approval_tools,
    collaboration_tools,
    delegation_tools,
    file_tools,
    message_tools,
)
from molecule_core.tools.runners.requester import Requester, with_approval
from molecule_core.tools.schemas.messages import SendMessageToUserResult
from molecule_core.tools.spec import RouteCall, ToolSpec
from molecule_core.wire.schemas.agent_cards import ALL_TOOL_NAMES
from molecule_core.wire.schemas.runtimes import Runtime

_log = logging.getLogger("molecule.agent")
# Metadata of hosts about the caller: one process serves all threads of a session, or one is started for each of them.
_CALLER_FIELDS = ("threadId", "parentThreadId", "sessionId", "claudecode/toolUseId")
_STOP_SECONDS = 2.0
LocalTool = Callable[[Any, CallContext], Awaitable[dict[str, Any] | ToolResult]]


class AgentRuntime:
    """Everything that works for one agent.

    `on_refused`: called if the token of an only workspace is rejected at the start. `on_lost`: called if a workspace is
    lost for good, by processes that cannot work without it. `tools`: names of the tools that its model is offered.
    `keeps_context`: whether the surroundings of the workspaces are kept for the next start of a host.
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
        keeps_context: bool = False,
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
            files=config.state.absolute() / file_tools.FILES_FOLDER,
            is_multi_workspace=not config.single,
            tools=tools,
            context_file=(lambda each: HostContextFile.of_workspace(each.id, each.token_file, config.state))
            if keeps_context
            else None,
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
        self._hooks: HookServer | None = None
        self._thread_id = ""
        """The thread of Codex that calls tools of this process."""
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
            **dict.fromkeys(file_tools.TOOL_NAMES, self._run_file_tool),
        }
        self._local_files = file_tools.local_files(config.state)

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
            is_replaced=lambda: self._hooks is not None and self._hooks.wakes_host,
        )
        await channel.run()

    async def serve_hooks(self, ready: ReadySignal) -> None:
        """Answer the hooks of the host, if it has such, until cancelled."""
        await ready.wait()
        if not has_hooks(self._client()):
            return
        host = os.getppid()
        decided = self._permission_decisions()
        self._hooks = HookServer(
            Path(host_socket_path(host)),
            self._inbox,
            self.memberships,
            permissions=None if decided is None else HookPermissions(*decided, self._ids),
            announces=not shows_channel(command_line(host)),
            clock=self._clock,
            follow_seconds=self._config.settings.follow_seconds,
        )
        await self._hooks.run()

    async def push_prompts(self, ready: ReadySignal) -> None:
        """Send incoming messages to the host's session, if it accepts prompts of other programs, until cancelled."""
        await ready.wait()
        runtime = runtime_of(self._client())
        session = None if self._config.settings.channel == "off" else self._host_session(runtime)
        if session is None:
            return
        push = SessionPush(
            session, runtime, self._inbox, self.memberships, clock=self._clock, randomness=self._randomness
        )
        await push.run()

    def _host_session(self, runtime: Runtime) -> HostSession | None:
        """Return the session of a host that accepts prompts of other programs; None for other hosts."""
        if runtime is Runtime.CODEX:
            return CodexSession(codex_socket(os.environ), Path.cwd(), lambda: self._thread_id)
        if runtime is Runtime.OPENCODE:
            command = find_command(read_ancestors(os.getppid()), command_line)
            return None if command is None else OpencodeSession(command, Path.cwd(), os.environ, self._clock)
        return None

    async def relay_permissions(
        self, permissions: PendingPermissions, notify: Callable[[str, dict[str, Any]], Awaitable[None]]
    ) -> None:
        """Relay the host's permission requests to the platform, until cancelled."""
        decided = self._permission_decisions()
        if decided is None:
            return
        self._permission_relay = PermissionRelay(
            *decided,
            notify,
            process_key=self._ids.new(),
            is_replaced=lambda: self._hooks is not None and self._hooks.relays_permissions,
        )
        await self._permission_relay.run(permissions)

    def _permission_decisions(self) -> tuple[HostApprovals, ToolScopes] | None:
        """Return what decides about the host's permission prompts; None if they are not relayed."""
        config = relay_workspace(self._config)
        if config is None:
            return None
        workspace = self.memberships.get_membership(config.id)
        requester = self._inbox_tools.requester_for(workspace)
        approvals = HostApprovals(workspace.id, requester, clock=self._clock, randomness=self._randomness)
        scopes = ToolScopes(workspace.id, workspace.requester, clock=self._clock, randomness=self._randomness)
        return approvals, scopes

    async def stop(self) -> None:
        """Stop the relays and all memberships, and close the connections."""
        if self._permission_relay is not None:
            await self._permission_relay.stop(_STOP_SECONDS)
        if self._hooks is not None:
            await self._hooks.stop(_STOP_SECONDS)
        await self.memberships.stop_all(_STOP_SECONDS)
        await self._servers.close()

    # -- tools ---------------------------------------------------------------------------------------------------------

    async def call(self, spec: ToolSpec, arguments: Struct, context: CallContext) -> ToolResult:
        """Run a tool as the workspace that the call names. Raises ToolError."""
        caller_fields = {
            name: sanitize_line(str(context.meta[name]), 128) for name in _CALLER_FIELDS if name in context.meta
        }
        if "parentThreadId" not in caller_fields:
            self._thread_id = caller_fields.get("threadId", self._thread_id)
        if caller_fields:
            _log.info("call %s %s", spec.name, " ".join(f"{name}={value}" for name, value in caller_fields.items()))
        try:
            if isinstance(spec.call, RouteCall):
                return ToolResult(await self._run_tool(spec, spec.call, arguments, context))
            found = await self._local_tools[spec.call.name](arguments, context)
            return found if isinstance(found, ToolResult) else ToolResult(found)
        except ApiError as error:
            raise to_tool_error(error) from None
        except NoAnswerError as error:
            raise unreachable_error(error) from None

    def caller_workspaces(self) -> tuple[CallerWorkspace, ...]:
        """Return the workspaces of the agent."""
        return tuple(
            CallerWorkspace(
                each.id,
                self._inbox_tools.requester_for(each),
                partial(download_file, each),
                partial(follow_changes, each, self._clock, self._randomness),
            )
            for each in self.memberships
        )

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
        result = spec.convert_result(workspace.id, response)
        if spec.result_type is SendMessageToUserResult:
            await self._inbox_tools.ack_unnamed(workspace.id, result["answers"])
        return result

    async def _run_file_tool(self, arguments: Any, _context: CallContext) -> ToolResult:
        workspace = self.memberships.resolve_membership(arguments.via_workspace, "via_workspace")
        return await file_tools.run(workspace.api(), workspace.id, arguments, self._local_files)

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
