"""Runs the registry's tools over the public API, without a mailbox: by plain claims and acks.

For hosts that keep no state between two calls. Called by cli and langchain; calls `tools/runners/`.
"""

import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from molecule_core.client.api import ApiError, NoAnswerError
from molecule_core.client.claims import ActingWorkspace, MessageClaims
from molecule_core.common.clock import Clock
from molecule_core.common.ids import IdGenerator
from molecule_core.tools.runners import (
    approval_tools,
    collaboration_tools,
    delegation_tools,
    file_tools,
    message_tools,
)
from molecule_core.tools.runners.file_tools import LocalFiles
from molecule_core.tools.runners.requester import with_approval
from molecule_core.tools.schemas import messages as types
from molecule_core.tools.schemas import replies
from molecule_core.tools.spec import NO_ANSWER_CODE, LocalCall, ToolError, ToolSpec
from molecule_core.wire.schemas.inbox import InboxMessage


class ToolRunner:
    """Runs tools as one of several workspaces. `runtime` and `version` are reported by get_runtime_identity."""

    def __init__(
        self,
        workspaces: Sequence[ActingWorkspace],
        *,
        clock: Clock,
        ids: IdGenerator,
        runtime: str,
        version: str,
        lease: int = 300,
        files: LocalFiles | None = None,
    ) -> None:
        self._files = files
        self._workspaces = {workspace.id: workspace for workspace in workspaces}
        self._clock = clock
        self._ids = ids
        self._runtime = runtime
        self._version = version
        self._claims = MessageClaims(workspaces, clock=clock, lease=lease)
        self._shown_messages: dict[str, InboxMessage] = {}
        """Messages shown so far, by id, with their workspace and attempt."""
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
            **dict.fromkeys(file_tools.TOOL_NAMES, self._run_file_tool),
        }

    @property
    def local_names(self) -> Iterable[str]:
        """Return the names of the tools without a route that can run here."""
        return self._local_calls.keys()

    async def call(
        self,
        spec: ToolSpec,
        arguments: Struct,
        *,
        key: str = "",
        progress: message_tools.ProgressCallback | None = None,
    ) -> dict[str, Any]:
        """Run a tool and return its result. A call repeated with the same `key` acts once. Raises ToolError."""
        if isinstance(spec.call, LocalCall):
            return await self._local_calls[spec.call.name](arguments, key, progress)
        if (
            isinstance(arguments, types.ListPeersArguments)
            and not arguments.via_workspace
            and len(self._workspaces) > 1
        ):
            return await self._list_all_peers(spec, arguments)
        workspace = self._resolve_workspace(spec, arguments)
        request = spec.to_request(workspace.id, arguments)
        headers = message_tools.idempotency_headers(key or self._ids.new()) if spec.call.keyed else None
        requester = with_approval(workspace.requester, arguments, read_only=True)
        response = await requester.call(
            request.method, request.path, body=request.body, query=request.query or None, headers=headers
        )
        result = spec.convert_result(workspace.id, response)
        if spec.result_type is types.SendMessageToUserResult:
            await self._ack_unnamed(workspace, result)
        return result

    async def _list_all_peers(self, spec: ToolSpec, arguments: types.ListPeersArguments) -> dict[str, Any]:
        """List the peers of every workspace, each marked by the workspace through which it may be messaged."""
        pages, errors = [], []
        for id_ in self._workspaces:
            try:
                pages.append(await self.call(spec, msgspec.structs.replace(arguments, via_workspace=id_)))
            except ToolError as error:
                errors.append(error)
        if errors and not pages:
            raise errors[0]
        peers = [{**peer, "via_workspace": page["workspace_id"]} for page in pages for peer in page["peers"]]
        return {"workspace_id": "", "peers": peers, "note": " ".join(error.text for error in errors)}

    async def _ack_unnamed(self, workspace: ActingWorkspace, result: dict[str, Any]) -> None:
        """Acknowledge what a call answered without naming it, if it was shown here."""
        seen = self._shown_messages.get(result["answers"])
        if seen is not None and not result.get("acknowledged"):
            await message_tools.ack_unnamed(workspace.requester, workspace.id, result, seen.attempt)
            self._shown_messages.pop(seen.activity_id, None)

    async def close(self) -> None:
        """Release the messages that were claimed and not shown."""
        await self._claims.close()

    # -- as whom -------------------------------------------------------------------------------------------------------

    def _resolve_workspace(self, spec: ToolSpec, arguments: Struct) -> ActingWorkspace:
        return self._workspace_named(spec.caller_workspace(arguments), spec.identity_argument or "")

    def _workspace_named(self, workspace_id: str, argument: str) -> ActingWorkspace:
        """Return the workspace of this id, or the only one. Raises ToolError."""
        choices = ", ".join(self._workspaces)
        if workspace_id:
            found = self._workspaces.get(workspace_id)
            if found is None:
                raise ToolError(
                    f"you are not connected as workspace {workspace_id}. Use one of: {choices}.", "unknown_workspace"
                )
            return found
        if len(self._workspaces) > 1:
            raise ToolError(
                f"you are connected as several workspaces. Choose one with {argument}: {choices}.",
                "ambiguous_workspace",
            )
        return next(iter(self._workspaces.values()))

    async def _workspace_holding(self, activity_id: str) -> ActingWorkspace:
        """Return the workspace whose inbox holds a message. Raises ToolError."""
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
            f"message {activity_id} is in none of your inboxes. Call inbox_peek to list waiting messages.",
            "unknown_message",
        )

    def _known_attempt(self, activity_id: str, explicit: int) -> int:
        seen = self._shown_messages.get(activity_id)
        return explicit or (seen.attempt if seen is not None else 0)

    # -- verbs ---------------------------------------------------------------------------------------------------------

    async def _reply_to_workspace(
        self, arguments: Any, key: str, progress: message_tools.ProgressCallback | None
    ) -> dict[str, Any]:
        request, handle_matches = self._match_handle(arguments)
        if request.workspace_id or not request.activity_id:
            workspace = self._workspace_named(request.workspace_id, "workspace_id")
        else:
            workspace = await self._workspace_holding(request.activity_id)
        attempt = self._known_attempt(request.activity_id, request.attempt)
        request = msgspec.structs.replace(request, attempt=attempt)
        result = await message_tools.reply_to_workspace(
            workspace.requester, workspace.id, request, key or self._ids.new(), handle_matches=handle_matches
        )
        if result["acknowledged"] and (
            handle_matches or not request.reply_handle
        ):  # else the handle names a message that was not shown here
            self._shown_messages.pop(request.activity_id, None)
        await self._ack_unnamed(workspace, result)
        return result

    def _match_handle(self, request: types.ReplyToWorkspaceArguments) -> tuple[types.ReplyToWorkspaceArguments, bool]:
        """Fill in the message of a shown handle; return whether it is known.

        Raises ToolError if the call also names another message."""
        if not request.reply_handle:
            return request, False
        shown = [each for each in self._shown_messages.values() if each.reply_handle == request.reply_handle]
        matches = {each.arrival_workspace_id: each.activity_id for each in shown}
        named_message = self._shown_messages.get(request.activity_id)
        if request.activity_id and (matches or (named_message is not None and named_message.reply_handle)):
            if request.activity_id not in matches.values():
                raise message_tools.two_messages_error(request.activity_id, request.reply_handle)
            return request, True
        if len(matches) == 1 and request.workspace_id in ("", *matches):
            message = shown[0]
            known = {"workspace_id": message.arrival_workspace_id, "activity_id": message.activity_id}
            return msgspec.structs.replace(request, **known, peer_id=request.peer_id or message.peer_id), True
        return request, False

    async def _reply_by_handle(
        self, arguments: Any, key: str, progress: message_tools.ProgressCallback | None
    ) -> dict[str, Any]:
        request: replies.ReplyByHandleArguments = arguments
        workspace, attempt = self._workspace_of_handle(request.handle, request.via_workspace)
        result = await message_tools.reply_by_handle(
            workspace.requester, workspace.id, request, key or self._ids.new(), attempt
        )
        return self._forget_acknowledged(result)

    async def _decline(
        self, arguments: Any, key: str, progress: message_tools.ProgressCallback | None
    ) -> dict[str, Any]:
        request: replies.DeclineArguments = arguments
        workspace, attempt = self._workspace_of_handle(request.handle, request.via_workspace)
        result = await message_tools.decline_by_handle(
            workspace.requester, workspace.id, request, key or self._ids.new(), attempt
        )
        return self._forget_acknowledged(result)

    def _workspace_of_handle(self, handle: str, named: str) -> tuple[ActingWorkspace, int]:
        """Return the workspace of a shown handle, and its attempt; else the named workspace, or the only one.

        Raises ToolError."""
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
        request: types.WaitForMessageArguments = arguments
        message = await self._claims.next_message(request.timeout_secs, progress)
        note = "" if message else "No message arrived in this time. Call wait_for_message again to keep waiting."
        waited = types.WaitForMessageResult(
            message=None if message is None else self._mark_shown(message),
            waiting=0 if message is None else await self._count_others(),
            note=note,
        )
        result: dict[str, Any] = msgspec.to_builtins(waited)
        return result

    async def _count_others(self) -> int:
        """Return the number of open messages beside the claimed one. An error must not lose that one."""
        count = 0
        for workspace in self._workspaces.values():
            with contextlib.suppress(ToolError):
                count += len(
                    await message_tools.peek_messages(workspace.requester, workspace.id, types.MAX_PEEKED_MESSAGES)
                )
        return max(count - 1, self._claims.waiting_count)

    async def _inbox_peek(
        self, arguments: Any, key: str, progress: message_tools.ProgressCallback | None
    ) -> dict[str, Any]:
        request: types.InboxPeekArguments = arguments
        several = len(self._workspaces) > 1
        pages = [
            await message_tools.peek_messages(workspace.requester, workspace.id, request.limit, has_several=several)
            for workspace in self._workspaces.values()
        ]
        found = sorted((message for page in pages for message in page), key=lambda message: message.created_at)
        shown = [self._mark_shown(message) for message in found[: request.limit]]
        result: dict[str, Any] = msgspec.to_builtins(types.InboxPeekResult(messages=shown))
        return result

    def _mark_shown(self, message: InboxMessage) -> InboxMessage:
        self._shown_messages[message.activity_id] = message
        return message

    async def _inbox_pop(
        self, arguments: Any, key: str, progress: message_tools.ProgressCallback | None
    ) -> dict[str, Any]:
        request: types.InboxPopArguments = arguments
        named = request.workspace_id
        workspace = (
            self._workspace_named(named, "workspace_id")
            if named
            else await self._workspace_holding(request.activity_id)
        )
        attempt = self._known_attempt(request.activity_id, request.attempt)
        result = await message_tools.ack_message(
            workspace.requester, workspace.id, msgspec.structs.replace(request, attempt=attempt)
        )
        self._shown_messages.pop(request.activity_id, None)
        return result

    async def _chat_history(
        self, arguments: Any, key: str, progress: message_tools.ProgressCallback | None
    ) -> dict[str, Any]:
        request: types.ChatHistoryArguments = arguments
        workspace = self._workspace_named(request.via_workspace, "via_workspace")
        return await message_tools.chat_history(workspace.requester, workspace.id, request)

    async def _run_delegation_tool(
        self, arguments: Any, key: str, progress: message_tools.ProgressCallback | None
    ) -> dict[str, Any]:
        """Run a delegation tool. No key is generated: one that is new with each call would identify nothing."""
        workspaces = [(workspace.id, workspace.requester) for workspace in self._workspaces.values()]
        return await delegation_tools.run(workspaces, arguments, key, clock=self._clock, progress=progress)

    async def _run_approval_tool(
        self, arguments: Any, key: str, progress: message_tools.ProgressCallback | None
    ) -> dict[str, Any]:
        """Run an approval tool."""
        workspaces = [(workspace.id, workspace.requester) for workspace in self._workspaces.values()]
        shown = approval_tools.versions_shown(self._shown_messages.values(), arguments)
        return await approval_tools.run(
            workspaces, arguments, key, clock=self._clock, progress=progress, shown_versions=shown
        )

    async def _run_file_tool(
        self, arguments: Any, key: str, progress: message_tools.ProgressCallback | None
    ) -> dict[str, Any]:
        """Run a tool about files."""
        workspace = self._workspace_named(arguments.via_workspace, "via_workspace")
        if workspace.transfer is None:
            raise ToolError("files cannot be transferred here.", "no_files")
        try:
            found = await file_tools.run(workspace.transfer, workspace.id, arguments, self._files, workspace.url)
        except ApiError as error:
            raise ToolError(str(error.problem.get("error", error)), error.code or "tool_failed") from None
        except NoAnswerError as error:
            raise ToolError(f"the server did not answer ({error}). Call the tool again.", NO_ANSWER_CODE) from None
        return found.structured

    async def _run_collaboration_tool(
        self, arguments: Any, key: str, progress: message_tools.ProgressCallback | None
    ) -> dict[str, Any]:
        """Run a collaboration tool."""
        workspaces = [(workspace.id, workspace.requester) for workspace in self._workspaces.values()]
        call = key or self._ids.new()
        return await collaboration_tools.run(workspaces, arguments, call, clock=self._clock, progress=progress)


_LocalHandler = Callable[[Any, str, message_tools.ProgressCallback | None], Awaitable[dict[str, Any]]]
