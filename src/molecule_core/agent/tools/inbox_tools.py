"""Runs the tools that an agent's process handles itself: the merged inbox, and answers that need routing."""

import asyncio
import hashlib
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from molecule_core.agent.client.auth_failures import is_caller_rejected
from molecule_core.agent.client.retry import BoundedRetry
from molecule_core.agent.config import AgentSettings
from molecule_core.agent.mailbox.cursors import LeaderFenced
from molecule_core.agent.mailbox.inbox import InboxEntry, MergedInbox
from molecule_core.agent.mailbox.membership import Membership, MembershipState
from molecule_core.agent.mailbox.memberships import Memberships
from molecule_core.agent.sanitize import sanitize_line
from molecule_core.agent.tools import reply_routing
from molecule_core.client.api import ApiError, NoAnswerError
from molecule_core.common.clock import Clock
from molecule_core.common.ids import IdGenerator, Randomness
from molecule_core.tools.mcp_dispatcher import CallContext
from molecule_core.tools.runners import approval_tools, collaboration_tools, delegation_tools, message_tools
from molecule_core.tools.runners.requester import Requester, RetryingRequester
from molecule_core.tools.schemas.approvals import DecideApprovalArguments
from molecule_core.tools.schemas.messages import (
    ChatHistoryArguments,
    InboxPeekArguments,
    InboxPopArguments,
    ReplyToWorkspaceArguments,
    WaitForMessageArguments,
)
from molecule_core.tools.schemas.replies import DeclineArguments, ReplyByHandleArguments
from molecule_core.tools.spec import NO_ANSWER_CODE, ToolError
from molecule_core.wire.schemas.activity import Intent, MessageKind

# 10 s: hosts end a silent call after a minute at the earliest; progress well before that keeps it alive.
_PROGRESS_SECONDS = 10.0


class InboxTools:
    """Inbox tools, answering tools, and `chat_history`."""

    def __init__(
        self,
        memberships: Memberships,
        inbox: MergedInbox,
        *,
        clock: Clock,
        ids: IdGenerator,
        randomness: Randomness,
        settings: AgentSettings,
    ) -> None:
        self._memberships = memberships
        self._inbox = inbox
        self._clock = clock
        self._ids = ids
        self._randomness = randomness
        self._settings = settings

    def requester_for(self, membership: Membership) -> Requester:
        """Return a requester that acts as one workspace."""
        requester = membership.requester  # control: requests-of-seat
        policy = BoundedRetry(
            clock=self._clock, randomness=self._randomness, is_token_renewable=requester.is_token_renewable
        )
        return RetryingRequester(requester, policy)

    # -- reading -------------------------------------------------------------------------------------------------------

    async def wait_for_message(self, arguments: WaitForMessageArguments, context: CallContext) -> dict[str, Any]:
        """Return the next message not shown yet, as soon as there is one.

        After the timeout: the oldest one that was shown and is still open, if any.
        """
        started = self._clock.monotonic()
        if arguments.timeout_secs < self._settings.first_look_seconds:
            await self._memberships.wait_first_poll(self._clock, self._settings.first_look_seconds)
        while True:
            self.apply_notes()
            if not any(not each.is_shown for each in self._inbox.entries()):
                await self._fetch_mail(1)
            entry = next((each for each in self._inbox.entries() if not each.is_shown), None)
            elapsed = self._clock.monotonic() - started
            if entry is not None or elapsed >= arguments.timeout_secs:
                result = self._wait_result(entry)
                self._return_unseen()
                return result
            has_changed = await self._clock.wait(
                self._wait_for_change(), min(arguments.timeout_secs - elapsed, _PROGRESS_SECONDS)
            )
            if not has_changed:
                elapsed = min(self._clock.monotonic() - started, arguments.timeout_secs)
                await context.progress(elapsed, arguments.timeout_secs, "no message yet")

    async def _wait_for_change(self) -> None:
        """Wait for a change of the inbox, also by messages of the processes that lead."""
        fetching = asyncio.create_task(self._memberships.wait_for_mail())
        try:
            await self._inbox.wait_for_change()
        finally:
            fetching.cancel()
            await asyncio.gather(fetching, return_exceptions=True)

    async def _fetch_mail(self, count: int) -> None:
        """Take messages that other processes of this agent have claimed and not shown."""
        for each in self._memberships:
            await each.fetch_mail(count, self._settings.first_look_seconds)

    def _return_unseen(self) -> None:
        for each in self._memberships:
            each.return_unseen()

    def _wait_result(self, entry: InboxEntry | None) -> dict[str, Any]:
        notes = [self._memberships.problems_note()]
        if entry is None:
            entry = next(iter(self._inbox.entries()), None)
            if entry is not None:
                notes.append("no new message; this one was shown before and is still open: answer or acknowledge it")
        message = None if entry is None else self._show_entry(entry)
        waiting = sum(not each.is_shown for each in self._inbox.entries())
        waiting += sum(each.leader_waiting_count for each in self._memberships)
        return {"message": message, "waiting": waiting, "note": _join_notes(notes)}

    async def peek_messages(self, arguments: InboxPeekArguments) -> dict[str, Any]:
        """Return the oldest waiting messages."""
        await self._memberships.wait_first_poll(self._clock, self._settings.first_look_seconds)
        self.apply_notes()
        await self._fetch_mail(arguments.limit)
        messages = [self._show_entry(entry) for entry in list(self._inbox.entries())[: arguments.limit]]
        self._return_unseen()
        rest = len(self._inbox) - len(messages)
        more = f"{rest} more messages are open" if rest else ""
        return {"messages": messages, "note": _join_notes([more, self._memberships.problems_note()])}

    def apply_notes(self) -> None:
        """Remove messages that other processes of this agent have handled."""
        for each in self._memberships:
            each.apply_notes()

    def _show_entry(self, entry: InboxEntry) -> dict[str, Any]:
        """Return a message as a result, and mark it as shown; in single mode without its workspace, which is known."""
        self._inbox.mark_shown(entry)
        entry.push_at = max(entry.push_at, self._clock.monotonic() + self._settings.repush_most_seconds)
        message = replace(entry.message, arrival_workspace_id="") if self._memberships.is_single else entry.message
        fields: dict[str, Any] = msgspec.to_builtins(message)
        return fields

    async def chat_history(self, arguments: ChatHistoryArguments) -> dict[str, Any]:
        """Return earlier messages. Raises ToolError."""
        membership = self._memberships.resolve_membership(arguments.via_workspace, "via_workspace")
        return await message_tools.chat_history(self.requester_for(membership), membership.id, arguments)

    # -- delegations ---------------------------------------------------------------------------------------------------

    async def run_delegation_tool(self, arguments: Struct, context: CallContext) -> dict[str, Any]:
        """Run a delegation tool. Raises ToolError.

        Results that no call waits for any more arrive in the merged inbox.
        """
        memberships = [(each.id, self.requester_for(each)) for each in self._memberships]
        progress = delegation_tools.requested_progress(context.progress, context.meta)
        call = message_tools.host_call_id(context.meta)
        return await delegation_tools.run(memberships, arguments, call, clock=self._clock, progress=progress)

    # -- collaboration -------------------------------------------------------------------------------------------------

    async def run_collaboration_tool(self, arguments: Struct, context: CallContext) -> dict[str, Any]:
        """Run a tool about agents in threads, from the session thread of this agent. Raises ToolError."""
        memberships = [(each.id, self.requester_for(each)) for each in self._memberships]
        progress = delegation_tools.requested_progress(context.progress, context.meta)
        call, session = (
            message_tools.host_call_id(context.meta) or self._ids.new(),
            collaboration_tools.host_session(context.meta),
        )
        return await collaboration_tools.run(
            memberships, arguments, call, clock=self._clock, session=session, progress=progress
        )

    # -- approvals -----------------------------------------------------------------------------------------------------

    async def run_approval_tool(self, arguments: Struct, context: CallContext) -> dict[str, Any]:
        """Run an approval tool; a decision refers to the version shown here. Raises ToolError."""
        self.apply_notes()
        memberships = [(each.id, self.requester_for(each)) for each in self._memberships]
        progress = delegation_tools.requested_progress(context.progress, context.meta)
        seen = [each.message for each in self._inbox.entries() if each.is_known]
        call, shown_versions = message_tools.host_call_id(context.meta), approval_tools.versions_shown(seen, arguments)
        try:
            thread = message_tools.engine_thread_id(context.meta)
            found = await approval_tools.run(
                memberships,
                arguments,
                call,
                clock=self._clock,
                progress=progress,
                shown_versions=shown_versions,
                thread_id=thread,
            )
        except ToolError as error:
            if isinstance(arguments, DecideApprovalArguments) and approval_tools.is_moot(error):
                self._drop_decided(arguments.approval_id, arguments.via_workspace)
            raise
        if isinstance(arguments, DecideApprovalArguments):
            self._drop_decided(arguments.approval_id, found["workspace_id"])
        return found

    def _drop_decided(self, approval_id: str, workspace_id: str) -> None:
        """Remove the request for a decided approval; the server knows it already."""
        for message in [each.message for each in self._inbox.entries()]:
            is_match = message.kind == MessageKind.APPROVAL_REQUEST and message.approval_id == approval_id
            if is_match and workspace_id in ("", message.arrival_workspace_id):
                self._memberships.get_membership(message.arrival_workspace_id).mark_handled(message.activity_id)

    # -- acks ----------------------------------------------------------------------------------------------------------

    async def pop_message(self, arguments: InboxPopArguments) -> dict[str, Any]:
        """Acknowledge a message. Raises ToolError."""
        if arguments.workspace_id:
            self._memberships.get_membership(arguments.workspace_id)
        entries = self._inbox.find_entries(arguments.activity_id, arguments.workspace_id)
        if len(entries) > 1:
            workspace_ids = ", ".join(each.message.arrival_workspace_id for each in entries)
            raise ToolError(
                f"several workspaces have a message with this id: {workspace_ids}. Set workspace_id.",
                "ambiguous_message",
            )
        if entries:
            membership = self._memberships.get_membership(entries[0].message.arrival_workspace_id)
            is_confirmed = await self._ack_entry(membership, entries[0])
            return _pop_result(arguments.activity_id, membership.id, removed=True, note=_unsure_note(is_confirmed))
        if origins := self._inbox.handled_origins(arguments.activity_id, arguments.workspace_id):
            return _pop_result(
                arguments.activity_id, origins[0].workspace_id, removed=False, note="the message was already handled"
            )
        return await self._pop_at_leader(arguments)

    async def _pop_at_leader(self, arguments: InboxPopArguments) -> dict[str, Any]:
        """Acknowledge a message that waits in the process that reads the inbox."""
        for membership in self._memberships:
            if membership.state == MembershipState.FOLLOWING and arguments.workspace_id in ("", membership.id):
                try:
                    await membership.ack_for_leader(arguments.activity_id, arguments.attempt)
                except ApiError as error:
                    if error.is_transient or is_caller_rejected(error):
                        raise
                    continue
                except NoAnswerError as error:
                    raise ToolError(
                        f"the server did not answer ({sanitize_line(str(error))}). Call the tool again.", NO_ANSWER_CODE
                    ) from None
                return _pop_result(arguments.activity_id, membership.id, removed=True)
        raise ToolError(
            f"message {sanitize_line(arguments.activity_id, 64)} not found among your open messages. inbox_peek "
            "lists them.",
            "unknown_message",
        )

    async def _ack_entry(self, membership: Membership, entry: InboxEntry) -> bool:
        """Acknowledge a message; return whether the server confirmed it. Raises ToolError."""
        try:
            return await membership.ack_message(entry.message.activity_id, entry.message.attempt)
        except LeaderFenced:
            raise ToolError(
                "the message is handled, but that could not be stored (another process is the leader now): it may be "
                "delivered again",
                "not_kept",
            ) from None

    # -- answering -----------------------------------------------------------------------------------------------------

    async def reply_to_workspace(self, arguments: ReplyToWorkspaceArguments, context: CallContext) -> dict[str, Any]:
        """Answer a message from the workspace that received it, and acknowledge it. Raises ToolError."""
        self.apply_notes()
        if arguments.workspace_id:
            self._memberships.get_membership(arguments.workspace_id)
        arguments, handle_matches = self._resolve_handle(arguments)
        if arguments.reply_handle and not handle_matches:
            return await self._reply_unseen(arguments, context)
        target = reply_routing.resolve_target(
            self._inbox,
            workspace_id=arguments.workspace_id,
            peer_id=arguments.peer_id,
            activity_id=arguments.activity_id,
            single=self._memberships.is_single,
        )
        membership = self._memberships.resolve_membership(target.workspace_id, "workspace_id")
        open_entries = [
            each
            for each in self._inbox.entries()
            if each.origin == reply_routing.make_origin(membership.id, target.peer_id)
        ]
        entry = target.entry
        requests = [each for each in open_entries if each.message.intent == Intent.REQUEST] or open_entries
        if entry is None and not arguments.activity_id and len(requests) == 1 and requests[0].is_known:
            entry = requests[0]  # the only message that this can answer
        completed = self._complete_arguments(arguments, membership, target, entry)  # control: answer-by-its-seat
        result = await message_tools.reply_to_workspace(
            self.requester_for(membership),
            membership.id,
            completed,
            self._idempotency_key(completed, context),
            handle_matches=handle_matches,
        )
        await self._ack_answered(membership, entry, completed, result)
        if not completed.activity_id and not completed.progress:
            if await self.ack_unnamed(membership.id, result["answers"]):
                result["acknowledged"] = True
            ids = [each.message.activity_id for each in open_entries if each.message.activity_id != result["answers"]]
            if ids:
                result["note"] = f"sent; still open from this sender and not acknowledged: {', '.join(ids)}"
        return result

    async def ack_unnamed(self, workspace_id: str, activity_id: str) -> bool:
        """Acknowledge a message that a call answered without naming it, if the model was shown it.

        Returns whether the server confirmed that. Raises ToolError."""
        entries = self._inbox.find_entries(activity_id, workspace_id) if activity_id else []
        shown = next((each for each in entries if each.is_known), None)
        return shown is not None and await self._ack_entry(self._memberships.get_membership(workspace_id), shown)

    def _resolve_handle(self, arguments: ReplyToWorkspaceArguments) -> tuple[ReplyToWorkspaceArguments, bool]:
        """Complete the arguments from the handle; return whether its message is known here.

        Raises ToolError if the call also names a different message.
        """
        known = self._inbox.find_by_handle(arguments.reply_handle) if arguments.reply_handle else {}
        if arguments.activity_id:
            matching = {workspace_id: id_ for workspace_id, id_ in known.items() if id_ == arguments.activity_id}
            has_other_handle = any(
                each.message.reply_handle
                for each in self._inbox.find_entries(arguments.activity_id, arguments.workspace_id)
            )
            if not matching and (known or (arguments.reply_handle and has_other_handle)):
                raise message_tools.two_messages_error(arguments.activity_id, arguments.reply_handle)
            known = matching
        if not known:
            return arguments, False
        workspace_id = reply_routing.workspace_of_handle(arguments.reply_handle, known, arguments.workspace_id)
        return replace(arguments, workspace_id=workspace_id, activity_id=known[workspace_id]), True

    async def _reply_unseen(self, arguments: ReplyToWorkspaceArguments, context: CallContext) -> dict[str, Any]:
        """Answer a handle whose message was not seen here; the server resolves and acknowledges it. Raises ToolError.

        No message waiting here is affected.
        """
        membership = self._memberships.resolve_membership(arguments.workspace_id, "workspace_id")
        completed = replace(arguments, workspace_id=membership.id)
        return await message_tools.reply_to_workspace(
            self.requester_for(membership), membership.id, completed, self._idempotency_key(completed, context)
        )

    def _complete_arguments(
        self,
        arguments: ReplyToWorkspaceArguments,
        membership: Membership,
        target: reply_routing.ReplyTarget,
        entry: InboxEntry | None,
    ) -> ReplyToWorkspaceArguments:
        activity_id, attempt = arguments.activity_id, arguments.attempt
        if entry is not None:
            activity_id, attempt = entry.message.activity_id, entry.message.attempt
        elif activity_id:
            attempt = attempt or membership.attempt_of(activity_id)
        return replace(
            arguments, workspace_id=membership.id, peer_id=target.peer_id, activity_id=activity_id, attempt=attempt
        )

    async def _ack_answered(
        self,
        membership: Membership,
        entry: InboxEntry | None,
        completed: ReplyToWorkspaceArguments,
        result: dict[str, Any],
    ) -> None:
        """Remove an answered message; an ack that did not reach the server is sent again later."""
        if completed.progress:
            if entry is not None:
                entry.has_progress = True
            return
        if entry is not None and result["acknowledged"]:
            membership.mark_handled(completed.activity_id)
        elif entry is not None:
            if await self._ack_entry(membership, entry):
                result.update(acknowledged=True, note="")
        elif completed.activity_id and result["acknowledged"] and not membership.is_leading:
            membership.note_for_leader(completed.activity_id, completed.attempt)

    def _idempotency_key(self, completed: ReplyToWorkspaceArguments, context: CallContext) -> str:
        """Return a key under which the same answer to a message, or the same call, is sent only once."""
        key_source = message_tools.host_call_id(context.meta)
        if not completed.progress:  # progress with the same text may be reported repeatedly
            key_source = completed.activity_id or completed.reply_handle or key_source
        if not key_source:
            return self._ids.new()
        return _digest(completed.workspace_id, key_source, completed.text)

    # -- answering by handle -----------------------------------------------------------------------------------------

    async def answer_by_handle(self, arguments: ReplyByHandleArguments, context: CallContext) -> dict[str, Any]:
        """Answer the message of a handle from the workspace that received it. Raises ToolError."""
        membership, entry = self._find_by_handle(arguments.handle, arguments.via_workspace)
        # Each progress report is sent; an answer is sent once, however often it is tried.
        content = [arguments.text, *(msgspec.json.encode(each, order="sorted").decode() for each in arguments.data)]
        key = self._ids.new() if arguments.progress else _digest(membership.id, arguments.handle, *content)
        result = await message_tools.reply_by_handle(
            self.requester_for(membership), membership.id, arguments, key, _attempt_of(entry)
        )
        if entry is not None and arguments.progress:
            entry.has_progress = True
        return await self._ack_closed(membership, entry, result)

    async def decline_by_handle(self, arguments: DeclineArguments, context: CallContext) -> dict[str, Any]:
        """Decline the message of a handle. Raises ToolError."""
        membership, entry = self._find_by_handle(arguments.handle, arguments.via_workspace)
        key = _digest(membership.id, arguments.handle, arguments.reason)
        result = await message_tools.decline_by_handle(
            self.requester_for(membership), membership.id, arguments, key, _attempt_of(entry)
        )
        return await self._ack_closed(membership, entry, result)

    def _find_by_handle(self, handle: str, named_workspace: str) -> tuple[Membership, InboxEntry | None]:
        """Return the workspace of a handle, and its message if that waits here. Raises ToolError."""
        self.apply_notes()
        known = self._inbox.find_by_handle(handle)
        workspace_id = reply_routing.workspace_of_handle(handle, known, named_workspace)
        membership = self._memberships.resolve_membership(workspace_id, "via_workspace")
        return membership, next(iter(self._inbox.find_entries(known.get(membership.id, ""), membership.id)), None)

    async def _ack_closed(
        self, membership: Membership, entry: InboxEntry | None, result: dict[str, Any]
    ) -> dict[str, Any]:
        """Remove the answered message."""
        answers = result["answers"]
        if result["state"] == "open":
            return result
        if result["acknowledged"]:
            membership.mark_handled(answers)
        elif entry is not None and await self._ack_entry(membership, entry):
            result.update(acknowledged=True, note="")
        return result


def _attempt_of(entry: InboxEntry | None) -> int:
    return 0 if entry is None else entry.message.attempt


def _digest(*parts: str) -> str:
    return hashlib.blake2b("\n".join(parts).encode(errors="replace"), digest_size=16).hexdigest()


def _pop_result(activity_id: str, workspace_id: str, *, removed: bool, note: str = "") -> dict[str, Any]:
    return {"activity_id": activity_id, "workspace_id": workspace_id, "removed": removed, "note": note}


def _unsure_note(is_confirmed: bool) -> str:
    return "" if is_confirmed else "stored locally; the server could not be reached yet, and is notified later"


def _join_notes(notes: Iterable[str]) -> str:
    return "; ".join(note for note in notes if note)
