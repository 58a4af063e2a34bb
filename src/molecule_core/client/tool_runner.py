"""Runs the registry's tools over the public API: routes as they are declared, and the other verbs without an inbox of
one's own, by plain claims and acks. For hosts that keep nothing between two calls: the command line, LangChain.

Above: cli, langchain. Below: whoever makes the requests, and the walks of `tools/runners/message_tools.py`.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from molecule_core.client.claims import ActingWorkspace, MessageClaims
from molecule_core.common.clock import Clock
from molecule_core.common.ids import IdGenerator
from molecule_core.tools.runners import approval_tools, collaboration_tools, delegation_tools, message_tools
from molecule_core.tools.runners.requester import with_approval
from molecule_core.tools.schemas import messages as types
from molecule_core.tools.schemas import replies
from molecule_core.tools.spec import LocalCall, ToolError, ToolSpec
from molecule_core.wire.schemas.inbox import InboxMessage


class ToolRunner:
    """Runs tools as one of several seats. `runtime` and `version` are what get_runtime_identity tells."""

    def __init__(
        self,
        workspaces: Sequence[ActingWorkspace],
        *,
        clock: Clock,
        ids: IdGenerator,
        runtime: str,
        version: str,
        lease: int = 300,
    ) -> None:
        self._workspaces = {workspace.id: workspace for workspace in workspaces}
        self._clock = clock
        self._ids = ids
        self._runtime = runtime
        self._version = version
        self._claims = MessageClaims(workspaces, clock=clock, lease=lease)
        self._shown_messages: dict[str, InboxMessage] = {}
        """What was shown, by id: where it came to, and under which attempt."""
        self._local_calls: Mapping[str, _LocalHandler] = {
            "reply": self._reply_by_handle,
            "decline": self._decline,
            "reply_to_workspace": self._reply_to_workspace,
            "get_runtime_identity": self._runtime_identity,
            "wait_for_message": self._wait_for_message,
            "inbox_peek": self._inbox_peek,
            "inbox_pop": self._inbox_pop,
            "chat_history": self._chat_history,
            **dict.fromkeys(delegation_tools.TOOL_NAMES, self._run_delegation_tool),
            **dict.fromkeys(approval_tools.TOOL_NAMES, self._run_approval_tool),
            **dict.fromkeys(collaboration_tools.TOOL_NAMES, self._run_collaboration_tool),
        }

    @property
    def local_names(self) -> Iterable[str]:
        """The verbs that are no routes, as far as they can be run here."""
        return self._local_calls.keys()

    async def call(
        self,
        spec: ToolSpec,
        arguments: Struct,
        *,
        key: str = "",
        progress: message_tools.ProgressCallback | None = None,
    ) -> dict[str, Any]:
        """What a tool gives, in the shape that it promises. A call that is repeated with its `key` acts once. Raises
        ToolError."""
        if isinstance(spec.call, LocalCall):
            return await self._local_calls[spec.call.name](arguments, key, progress)
        workspace = self._resolve_workspace(spec, arguments)
        request = spec.to_request(workspace.id, arguments)
        headers = message_tools.idempotency_headers(key or self._ids.new()) if spec.call.keyed else None
        requester = with_approval(workspace.requester, arguments, read_only=True)
        answer = await requester.call(
            request.method, request.path, body=request.body, query=request.query or None, headers=headers
        )
        return spec.convert_result(workspace.id, answer)

    async def close(self) -> None:
        """Gives back what was taken and shown to nobody."""
        await self._claims.close()

    # -- as whom -------------------------------------------------------------------------------------------------------

    def _resolve_workspace(self, spec: ToolSpec, arguments: Struct) -> ActingWorkspace:
        return self._workspace_named(spec.caller_workspace(arguments), spec.identity_argument or "")

    def _workspace_named(self, workspace_id: str, argument: str) -> ActingWorkspace:
        """The seat of this id, or the only one. Never another one. Raises ToolError."""
        choices = ", ".join(self._workspaces)
        if workspace_id:
            found = self._workspaces.get(workspace_id)
            if found is None:
                raise ToolError(f"workspace {workspace_id} is none of yours; yours: {choices}", "unknown_workspace")
            return found
        if len(self._workspaces) > 1:
            raise ToolError(
                f"you sit in several workspaces; say as which one you act with {argument}: {choices}",
                "ambiguous_workspace",
            )
        return next(iter(self._workspaces.values()))

    async def _workspace_holding(self, activity_id: str) -> ActingWorkspace:
        """The seat whose inbox holds a message. Raises ToolError."""
        seen = self._shown_messages.get(activity_id)
        if seen is not None:
            return self._workspaces[seen.arrival_workspace_id]
        for workspace in self._workspaces.values():
            try:
                await message_tools.fetch_sender(workspace.requester, workspace.id, activity_id)
            except ToolError as error:
                if error.code != "wrong_workspace":
                    raise
            else:
                return workspace
        raise ToolError(
            f"none of your workspaces has a message {activity_id}; inbox_peek shows what waits", "unknown_message"
        )

    def _known_attempt(self, activity_id: str, explicit: int) -> int:
        seen = self._shown_messages.get(activity_id)
        return explicit or (seen.attempt if seen is not None else 0)

    # -- verbs ---------------------------------------------------------------------------------------------------------

    async def _reply_to_workspace(
        self, arguments: Any, key: str, progress: message_tools.ProgressCallback | None
    ) -> dict[str, Any]:
        given, handle_matches = self._match_handle(arguments)
        if given.workspace_id or not given.activity_id:
            workspace = self._workspace_named(given.workspace_id, "workspace_id")
        else:
            workspace = await self._workspace_holding(given.activity_id)
        attempt = self._known_attempt(given.activity_id, given.attempt)
        given = msgspec.structs.replace(given, attempt=attempt)
        result = await message_tools.reply_to_workspace(
            workspace.requester, workspace.id, given, key or self._ids.new(), handle_matches=handle_matches
        )
        if result["acknowledged"] and (
            handle_matches or not given.reply_handle
        ):  # else the handle named a message unseen here
            self._shown_messages.pop(given.activity_id, None)
        return result

    def _match_handle(self, given: types.ReplyToWorkspaceArguments) -> tuple[types.ReplyToWorkspaceArguments, bool]:
        """The message of a handle that was shown; whether it is known which one. Raises ToolError if the call names
        another message beside it."""
        if not given.reply_handle:
            return given, False
        shown = [each for each in self._shown_messages.values() if each.reply_handle == given.reply_handle]
        matches = {each.arrival_workspace_id: each.activity_id for each in shown}
        named_message = self._shown_messages.get(given.activity_id)
        if given.activity_id and (matches or (named_message is not None and named_message.reply_handle)):
            if given.activity_id not in matches.values():
                raise message_tools.two_messages_error(given.activity_id, given.reply_handle)
            return given, True
        if len(matches) == 1 and given.workspace_id in ("", *matches):
            ((seat_id, activity_id),) = matches.items()
            return msgspec.structs.replace(given, workspace_id=seat_id, activity_id=activity_id), True
        return given, False

    async def _reply_by_handle(
        self, arguments: Any, key: str, progress: message_tools.ProgressCallback | None
    ) -> dict[str, Any]:
        given: replies.ReplyByHandleArguments = arguments
        workspace, attempt = self._workspace_of_handle(given.handle, given.via_workspace)
        result = await message_tools.reply_by_handle(
            workspace.requester, workspace.id, given, key or self._ids.new(), attempt
        )
        return self._forget_acknowledged(result)

    async def _decline(
        self, arguments: Any, key: str, progress: message_tools.ProgressCallback | None
    ) -> dict[str, Any]:
        given: replies.DeclineArguments = arguments
        workspace, attempt = self._workspace_of_handle(given.handle, given.via_workspace)
        result = await message_tools.decline_by_handle(
            workspace.requester, workspace.id, given, key or self._ids.new(), attempt
        )
        return self._forget_acknowledged(result)

    def _workspace_of_handle(self, handle: str, named: str) -> tuple[ActingWorkspace, int]:
        """The seat of a message that was shown with this handle, and under which attempt; else the seat that is named,
        or the only one. Raises ToolError."""
        shown = [each for each in self._shown_messages.values() if each.reply_handle == handle]
        matches = {each.arrival_workspace_id for each in shown}
        workspace = self._workspace_named(named or (matches.pop() if len(matches) == 1 else ""), "via_workspace")
        return workspace, max((each.attempt for each in shown if each.arrival_workspace_id == workspace.id), default=0)

    def _forget_acknowledged(self, result: dict[str, Any]) -> dict[str, Any]:
        if result["acknowledged"]:
            self._shown_messages.pop(result["answers"], None)
        return result

    async def _runtime_identity(
        self, arguments: Any, key: str, progress: message_tools.ProgressCallback | None
    ) -> dict[str, Any]:
        workspaces = [await self._describe_workspace(workspace) for workspace in self._workspaces.values()]
        result: dict[str, Any] = msgspec.to_builtins(
            types.RuntimeIdentityResult(runtime=self._runtime, version=self._version, workspaces=workspaces)
        )
        return result

    async def _describe_workspace(self, workspace: ActingWorkspace) -> types.ConnectedWorkspace:
        try:
            info = await workspace.requester.call("GET", f"/workspaces/{workspace.id}")
        except ToolError as error:
            return types.ConnectedWorkspace(workspace_id=workspace.id, platform_url=workspace.url, status=error.text)
        return types.ConnectedWorkspace(
            workspace_id=workspace.id, platform_url=workspace.url, name=info["name"], status=info["status"]
        )

    async def _wait_for_message(
        self, arguments: Any, key: str, progress: message_tools.ProgressCallback | None
    ) -> dict[str, Any]:
        given: types.WaitForMessageArguments = arguments
        message = await self._claims.next_message(given.timeout_secs, progress)
        note = "" if message else "no message came in this time; call again to go on waiting"
        waited = types.WaitForMessageResult(
            message=None if message is None else self._mark_shown(message),
            waiting=self._claims.waiting_count,
            note=note,
        )
        result: dict[str, Any] = msgspec.to_builtins(waited)
        return result

    async def _inbox_peek(
        self, arguments: Any, key: str, progress: message_tools.ProgressCallback | None
    ) -> dict[str, Any]:
        given: types.InboxPeekArguments = arguments
        several = len(self._workspaces) > 1
        pages = [
            await message_tools.peek_messages(workspace.requester, workspace.id, given.limit, has_several=several)
            for workspace in self._workspaces.values()
        ]
        found = sorted((message for page in pages for message in page), key=lambda message: message.created_at)
        shown = [self._mark_shown(message) for message in found[: given.limit]]
        result: dict[str, Any] = msgspec.to_builtins(types.InboxPeekResult(messages=shown))
        return result

    def _mark_shown(self, message: InboxMessage) -> InboxMessage:
        self._shown_messages[message.activity_id] = message
        return message

    async def _inbox_pop(
        self, arguments: Any, key: str, progress: message_tools.ProgressCallback | None
    ) -> dict[str, Any]:
        given: types.InboxPopArguments = arguments
        named = given.workspace_id
        workspace = (
            self._workspace_named(named, "workspace_id") if named else await self._workspace_holding(given.activity_id)
        )
        attempt = self._known_attempt(given.activity_id, given.attempt)
        result = await message_tools.ack_message(
            workspace.requester, workspace.id, msgspec.structs.replace(given, attempt=attempt)
        )
        self._shown_messages.pop(given.activity_id, None)
        return result

    async def _chat_history(
        self, arguments: Any, key: str, progress: message_tools.ProgressCallback | None
    ) -> dict[str, Any]:
        given: types.ChatHistoryArguments = arguments
        workspace = self._workspace_named(given.via_workspace, "via_workspace")
        return await message_tools.chat_history(workspace.requester, workspace.id, given)

    async def _run_delegation_tool(
        self, arguments: Any, key: str, progress: message_tools.ProgressCallback | None
    ) -> dict[str, Any]:
        """The tools about delegations. Without a key of the caller's own none is sent: a new one with each call would
        name nothing."""
        workspaces = [(workspace.id, workspace.requester) for workspace in self._workspaces.values()]
        return await delegation_tools.run(workspaces, arguments, key, clock=self._clock, progress=progress)

    async def _run_approval_tool(
        self, arguments: Any, key: str, progress: message_tools.ProgressCallback | None
    ) -> dict[str, Any]:
        """The tools about approvals."""
        workspaces = [(workspace.id, workspace.requester) for workspace in self._workspaces.values()]
        shown = approval_tools.versions_shown(self._shown_messages.values(), arguments)
        return await approval_tools.run(
            workspaces, arguments, key, clock=self._clock, progress=progress, shown_versions=shown
        )

    async def _run_collaboration_tool(
        self, arguments: Any, key: str, progress: message_tools.ProgressCallback | None
    ) -> dict[str, Any]:
        """The tools about agents in threads."""
        workspaces = [(workspace.id, workspace.requester) for workspace in self._workspaces.values()]
        call = key or self._ids.new()
        return await collaboration_tools.run(workspaces, arguments, call, clock=self._clock, progress=progress)


_LocalHandler = Callable[[Any, str, message_tools.ProgressCallback | None], Awaitable[dict[str, Any]]]
