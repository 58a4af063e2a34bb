"""What an agent's process does in its own way when a tool is called: the merged inbox, and answers that go where they
belong.

Above: engine. Below: seats, replies, inbox; the walks that all hosts of the tools have in common.
"""

import hashlib
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from molecule_core.agent.client.auth_failures import is_caller_rejected
from molecule_core.agent.client.requester import RetryingRequester
from molecule_core.agent.config import AgentSettings
from molecule_core.agent.mailbox.cursors import LeaderFenced
from molecule_core.agent.mailbox.inbox import InboxEntry, MergedInbox
from molecule_core.agent.mailbox.membership import Membership
from molecule_core.agent.mailbox.memberships import Memberships
from molecule_core.agent.sanitize import sanitize_line
from molecule_core.agent.tools import reply_routing
from molecule_core.client.api import ApiError, NoAnswerError
from molecule_core.common.clock import Clock
from molecule_core.common.ids import IdGenerator, Randomness
from molecule_core.tools.mcp_dispatcher import CallContext
from molecule_core.tools.runners import approval_tools, collaboration_tools, delegation_tools, message_tools
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

# Hosts that end a silent call do so after a minute at the earliest; a progress note well before it keeps it alive.
_PROGRESS_SECONDS = 10.0


class InboxTools:
    """The inbox tools, those that answer, and `chat_history`."""

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

    def requester_for(self, membership: Membership) -> RetryingRequester:
        """Requests as one seat."""
        about = membership.requester  # control: requests-of-seat
        return RetryingRequester(
            about, clock=self._clock, randomness=self._randomness, is_token_renewable=about.is_token_renewable
        )

    # -- reading -------------------------------------------------------------------------------------------------------

    async def wait_for_message(self, arguments: WaitForMessageArguments, context: CallContext) -> dict[str, Any]:
        """The next message that was not shown yet, as soon as there is one. When time is up: the oldest that was shown
        and is still open, if there is one."""
        began = self._clock.monotonic()
        if arguments.timeout_secs < self._settings.first_look_seconds:
            await self._memberships.wait_first_poll(self._clock, self._settings.first_look_seconds)
        while True:
            self.apply_notes()
            entry = next((each for each in self._inbox.entries() if not each.is_shown), None)
            spent = self._clock.monotonic() - began
            if entry is not None or spent >= arguments.timeout_secs:
                return self._wait_result(entry)
            has_changed = await self._clock.wait(
                self._inbox.wait_for_change(), min(arguments.timeout_secs - spent, _PROGRESS_SECONDS)
            )
            if not has_changed:
                spent = min(self._clock.monotonic() - began, arguments.timeout_secs)
                await context.progress(spent, arguments.timeout_secs, "no message yet")

    def _wait_result(self, entry: InboxEntry | None) -> dict[str, Any]:
        notes = [self._memberships.problems_note()]
        if entry is None:
            entry = next(iter(self._inbox.entries()), None)
            if entry is not None:
                notes.append("nothing new; this one was shown before and is still open: answer or acknowledge it")
        shown = None if entry is None else self._show_entry(entry)
        waiting = sum(not each.is_shown for each in self._inbox.entries())
        return {"message": shown, "waiting": waiting, "note": _join_notes(notes)}

    async def peek_messages(self, arguments: InboxPeekArguments) -> dict[str, Any]:
        """The oldest messages that wait."""
        await self._memberships.wait_first_poll(self._clock, self._settings.first_look_seconds)
        self.apply_notes()
        shown = [self._show_entry(entry) for entry in list(self._inbox.entries())[: arguments.limit]]
        rest = len(self._inbox) - len(shown)
        more = f"{rest} more wait" if rest else ""
        return {"messages": shown, "note": _join_notes([more, self._memberships.problems_note()])}

    def apply_notes(self) -> None:
        """What other processes of this agent have handled does not wait any more."""
        for each in self._memberships:
            each.apply_notes()

    def _show_entry(self, entry: InboxEntry) -> dict[str, Any]:
        """A message as a result; in single mode without the seat that it came to, which goes without saying."""
        entry.is_shown = True
        entry.push_at = max(entry.push_at, self._clock.monotonic() + self._settings.repush_most_seconds)
        message = replace(entry.message, arrival_workspace_id="") if self._memberships.is_single else entry.message
        shown: dict[str, Any] = msgspec.to_builtins(message)
        return shown

    async def chat_history(self, arguments: ChatHistoryArguments) -> dict[str, Any]:
        """What was said before. Raises ToolError."""
        membership = self._memberships.resolve_membership(arguments.via_workspace, "via_workspace")
        return await message_tools.chat_history(self.requester_for(membership), membership.id, arguments)

    # -- work that is given to peers -----------------------------------------------------------------------------------

    async def run_delegation_tool(self, arguments: Struct, context: CallContext) -> dict[str, Any]:
        """The tools about delegations. What waits for nobody any more comes into the merged inbox. Raises ToolError."""
        memberships = [(each.id, self.requester_for(each)) for each in self._memberships]
        result = delegation_tools.requested_progress(context.progress, context.meta)
        call = message_tools.host_call_id(context.meta)
        return await delegation_tools.run(memberships, arguments, call, clock=self._clock, progress=result)

    # -- agents in threads ---------------------------------------------------------------------------------------------

    async def run_collaboration_tool(self, arguments: Struct, context: CallContext) -> dict[str, Any]:
        """The tools about agents in threads, from the session thread of this agent. Raises ToolError."""
        memberships = [(each.id, self.requester_for(each)) for each in self._memberships]
        result = delegation_tools.requested_progress(context.progress, context.meta)
        call, session = (
            message_tools.host_call_id(context.meta) or self._ids.new(),
            collaboration_tools.host_session(context.meta),
        )
        return await collaboration_tools.run(
            memberships, arguments, call, clock=self._clock, session=session, progress=result
        )

    # -- approvals -----------------------------------------------------------------------------------------------------

    async def run_approval_tool(self, arguments: Struct, context: CallContext) -> dict[str, Any]:
        """The tools about approvals. Who is asked decides about what it was shown here. Raises ToolError."""
        self.apply_notes()
        memberships = [(each.id, self.requester_for(each)) for each in self._memberships]
        result = delegation_tools.requested_progress(context.progress, context.meta)
        seen = [each.message for each in self._inbox.entries() if each.is_known]
        call, shown = message_tools.host_call_id(context.meta), approval_tools.versions_shown(seen, arguments)
        try:
            thread = message_tools.engine_thread_id(context.meta)
            found = await approval_tools.run(
                memberships, arguments, call, clock=self._clock, progress=result, shown_versions=shown, thread_id=thread
            )
        except ToolError as error:
            if isinstance(arguments, DecideApprovalArguments) and approval_tools.is_moot(error):
                self._drop_decided(arguments.approval_id, arguments.via_workspace)
            raise
        if isinstance(arguments, DecideApprovalArguments):
            self._drop_decided(arguments.approval_id, found["workspace_id"])
        return found

    def _drop_decided(self, approval_id: str, workspace_id: str) -> None:
        """What asked for a decision does not wait here any more; the server knows it already."""
        for message in [each.message for each in self._inbox.entries()]:
            is_it = message.kind == approval_tools.REQUEST_KIND and message.approval_id == approval_id
            if is_it and workspace_id in ("", message.arrival_workspace_id):
                self._memberships.get_membership(message.arrival_workspace_id).mark_handled(message.activity_id)

    # -- settling ------------------------------------------------------------------------------------------------------

    async def pop_message(self, arguments: InboxPopArguments) -> dict[str, Any]:
        """A message is handled. Raises ToolError."""
        if arguments.workspace_id:
            self._memberships.get_membership(arguments.workspace_id)
        entries = self._inbox.find_entries(arguments.activity_id, arguments.workspace_id)
        if len(entries) > 1:
            shown = ", ".join(each.message.arrival_workspace_id for each in entries)
            raise ToolError(
                f"several workspaces have a message of this id: {shown}. Name workspace_id too.", "ambiguous_message"
            )
        if entries:
            membership = self._memberships.get_membership(entries[0].message.arrival_workspace_id)
            result = await self._ack_entry(membership, entries[0])
            return _pop_result(arguments.activity_id, membership.id, removed=True, note=_unsure_note(result))
        if origins := self._inbox.handled_origins(arguments.activity_id, arguments.workspace_id):
            return _pop_result(
                arguments.activity_id, origins[0].workspace_id, removed=False, note="it was handled before"
            )
        return await self._pop_at_leader(arguments)

    async def _pop_at_leader(self, arguments: InboxPopArguments) -> dict[str, Any]:
        """A message that waits in the process that reads the inbox."""
        for membership in self._memberships:
            if membership.state == "following" and arguments.workspace_id in ("", membership.id):
                try:
                    await membership.ack_for_leader(arguments.activity_id, arguments.attempt)
                except ApiError as error:
                    if error.is_transient or is_caller_rejected(error):
                        raise
                    continue
                except NoAnswerError as error:
                    raise ToolError(
                        f"the server did not answer ({sanitize_line(str(error))}); call again", NO_ANSWER_CODE
                    ) from None
                return _pop_result(arguments.activity_id, membership.id, removed=True)
        raise ToolError(
            f"no message {sanitize_line(arguments.activity_id, 64)} waits for you. inbox_peek shows those that do.",
            "unknown_message",
        )

    async def _ack_entry(self, membership: Membership, entry: InboxEntry) -> bool:
        """Whether the server knows it too. Raises ToolError."""
        try:
            return await membership.ack_message(entry.message.activity_id, entry.message.attempt)
        except LeaderFenced:
            raise ToolError(
                "it is handled, but that could not be kept (another process leads now): it may come once more",
                "not_kept",
            ) from None

    # -- answering -----------------------------------------------------------------------------------------------------

    async def reply_to_workspace(self, arguments: ReplyToWorkspaceArguments, context: CallContext) -> dict[str, Any]:
        """Answers a message from the seat that it came to, and acknowledges it. Raises ToolError."""
        self.apply_notes()
        if arguments.workspace_id:
            self._memberships.get_membership(arguments.workspace_id)
        arguments, fits = self._resolve_handle(arguments)
        if arguments.reply_handle and not fits:
            return await self._reply_unseen(arguments, context)
        target = reply_routing.resolve_target(
            self._inbox,
            workspace_id=arguments.workspace_id,
            peer_id=arguments.peer_id,
            activity_id=arguments.activity_id,
            single=self._memberships.is_single,
        )
        membership = self._memberships.resolve_membership(target.workspace_id, "workspace_id")
        open_ones = [
            each
            for each in self._inbox.entries()
            if each.origin == reply_routing.make_origin(membership.id, target.peer_id)
        ]
        entry = target.entry
        if entry is None and not arguments.activity_id and len(open_ones) == 1 and open_ones[0].is_known:
            entry = open_ones[0]  # the only one that this can be the answer to
        completed = self._complete_arguments(arguments, membership, target, entry)  # control: answer-by-its-seat
        result = await message_tools.reply_to_workspace(
            self.requester_for(membership),
            membership.id,
            completed,
            self._idempotency_key(completed, context),
            handle_matches=fits,
        )
        await self._ack_answered(membership, entry, completed, result)
        if not completed.activity_id and open_ones and not completed.progress:
            ids = ", ".join(each.message.activity_id for each in open_ones)
            result["note"] = f"sent; still open there, and not acknowledged: {ids}"
        return result

    def _resolve_handle(self, arguments: ReplyToWorkspaceArguments) -> tuple[ReplyToWorkspaceArguments, bool]:
        """A handle names the message too; whether it is known here which one. Raises ToolError if the call names
        another message beside it."""
        known = self._inbox.find_by_handle(arguments.reply_handle) if arguments.reply_handle else {}
        if arguments.activity_id:
            matching = {membership: id_ for membership, id_ in known.items() if id_ == arguments.activity_id}
            beside = any(
                each.message.reply_handle
                for each in self._inbox.find_entries(arguments.activity_id, arguments.workspace_id)
            )
            if not matching and (known or (arguments.reply_handle and beside)):
                raise message_tools.two_messages_error(arguments.activity_id, arguments.reply_handle)
            known = matching
        if not known:
            return arguments, False
        seat_id = reply_routing.workspace_of_handle(arguments.reply_handle, known, arguments.workspace_id)
        return replace(arguments, workspace_id=seat_id, activity_id=known[seat_id]), True

    async def _reply_unseen(self, arguments: ReplyToWorkspaceArguments, context: CallContext) -> dict[str, Any]:
        """The handle of a message that was not seen here: what it names is the server's to say, and to settle. Nothing
        that waits here is meant by it. Raises ToolError."""
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
        """What is answered does not wait here any more; what the server could not be told is told later."""
        if completed.progress:
            return
        if entry is not None and result["acknowledged"]:
            membership.mark_handled(completed.activity_id)
        elif entry is not None:
            if await self._ack_entry(membership, entry):
                result.update(acknowledged=True, note="")
        elif completed.activity_id and result["acknowledged"] and not membership.is_leading:
            membership.note_for_leader(completed.activity_id, completed.attempt)

    def _idempotency_key(self, completed: ReplyToWorkspaceArguments, context: CallContext) -> str:
        """The same answer to the same message is sent once, however often it is tried; so is the same call."""
        about = message_tools.host_call_id(context.meta)
        if not completed.progress:  # which may be told in the same words as often as it is true
            about = completed.activity_id or completed.reply_handle or about
        if not about:
            return self._ids.new()
        return _digest(completed.workspace_id, about, completed.text)

    # -- answering by handle -----------------------------------------------------------------------------------------

    async def answer_by_handle(self, arguments: ReplyByHandleArguments, context: CallContext) -> dict[str, Any]:
        """Answers the message of a handle from the seat that it came to. Raises ToolError."""
        membership, entry = self._find_by_handle(arguments.handle, arguments.via_workspace)
        # Progress is told as often as it is told; an answer once, however often it is tried.
        key = self._ids.new() if arguments.progress else _digest(membership.id, arguments.handle, arguments.text)
        result = await message_tools.reply_by_handle(
            self.requester_for(membership), membership.id, arguments, key, _attempt_of(entry)
        )
        return await self._ack_closed(membership, entry, result)

    async def decline_by_handle(self, arguments: DeclineArguments, context: CallContext) -> dict[str, Any]:
        """Says that the message of a handle will not be answered. Raises ToolError."""
        membership, entry = self._find_by_handle(arguments.handle, arguments.via_workspace)
        key = _digest(membership.id, arguments.handle, arguments.reason)
        result = await message_tools.decline_by_handle(
            self.requester_for(membership), membership.id, arguments, key, _attempt_of(entry)
        )
        return await self._ack_closed(membership, entry, result)

    def _find_by_handle(self, handle: str, named: str) -> tuple[Membership, InboxEntry | None]:
        """The seat that a handle belongs to, and its message if that waits here. Raises ToolError."""
        self.apply_notes()
        known = self._inbox.find_by_handle(handle)
        seat_id = reply_routing.workspace_of_handle(handle, known, named)
        membership = self._memberships.resolve_membership(seat_id, "via_workspace")
        return membership, next(iter(self._inbox.find_entries(known.get(membership.id, ""), membership.id)), None)

    async def _ack_closed(
        self, membership: Membership, entry: InboxEntry | None, result: dict[str, Any]
    ) -> dict[str, Any]:
        """What is answered does not wait here any more."""
        answers = result["answers"]
        if result["state"] == "open":
            return result
        if result["acknowledged"] and membership.is_leading:
            membership.mark_handled(answers)
        elif result["acknowledged"]:
            membership.note_for_leader(answers, _attempt_of(entry))
        elif entry is not None and await self._ack_entry(membership, entry):
            result.update(acknowledged=True, note="")
        return result


def _attempt_of(entry: InboxEntry | None) -> int:
    return 0 if entry is None else entry.message.attempt


def _digest(*result: str) -> str:
    return hashlib.blake2b("\n".join(result).encode(errors="replace"), digest_size=16).hexdigest()


def _pop_result(activity_id: str, workspace_id: str, *, removed: bool, note: str = "") -> dict[str, Any]:
    return {"activity_id": activity_id, "workspace_id": workspace_id, "removed": removed, "note": note}


def _unsure_note(result: bool) -> str:
    return "" if result else "kept here; the server could not be told yet and will be"


def _join_notes(notes: Iterable[str]) -> str:
    return "; ".join(note for note in notes if note)
