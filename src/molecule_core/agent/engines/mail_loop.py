"""Moves messages from the inbox to threads: each message is a turn of its conversation, whose end is reported.

A message is acknowledged only after its outcome was reported. All requests for it have keys derived from the message's
id, so after a kill at any moment the message is delivered again and finds its turn.
"""

import asyncio
import logging
from collections import OrderedDict
from typing import Any

from molecule_core.agent.engines import texts
from molecule_core.agent.engines.approval_cache import DecisionCache
from molecule_core.agent.engines.conversations import Conversations, awaited_id_of, conversation_name
from molecule_core.agent.engines.retry import PersistentRetry, is_budget_spent
from molecule_core.agent.engines.turn_driver import REMINDER_SUFFIX
from molecule_core.agent.engines.turn_planner import EndStep
from molecule_core.agent.mailbox.cursors import LeaderFenced
from molecule_core.agent.mailbox.drafts import SILENT_TEXT, DraftReporter, is_answered, is_waiting_for_approval
from molecule_core.agent.mailbox.inbox import EntryKey, InboxEntry, MergedInbox
from molecule_core.agent.mailbox.membership import Membership
from molecule_core.agent.message_format import message_fields, plain_text
from molecule_core.agent.sanitize import sanitize_line, strip_invisible
from molecule_core.client.api import ApiError, expect_member
from molecule_core.client.threads import EngineThread, ThreadsClient
from molecule_core.common.clock import yield_to_others
from molecule_core.wire.schemas import xml
from molecule_core.wire.schemas.activity import Intent, MessageKind
from molecule_core.wire.schemas.inbox import InboxMessage
from molecule_core.wire.schemas.threads import TurnResponse

_log = logging.getLogger("molecule.engine")
_FIRST_POLL_SECONDS, _POLL_SECONDS = 0.5, 20.0
_MAX_ROUNDS, _MAX_KNOWN_ENDS = 100, 1000
_MAX_NAME = 100
STEER = "steer"
_CLOSED, _ID_REUSED = "thread_closed", "message_id_reused"


class MailLoop:
    """Message loop of one workspace.

    `settings`: used to start its threads. `max_tokens`: a thread that has used this many is followed by another one.
    """

    def __init__(
        self,
        membership: Membership,
        inbox: MergedInbox,
        threads: ThreadsClient,
        conversations: Conversations,
        decisions: DecisionCache,
        *,
        retry: PersistentRetry,
        settings: dict[str, Any],
        max_tokens: int | None,
    ) -> None:
        self._membership = membership
        self._inbox = inbox
        self._threads = threads
        self._conversations = conversations
        self._decisions = decisions
        self._retry = retry
        self._settings = settings
        self._max_tokens = max_tokens
        self._drafts = DraftReporter(membership)
        self._busy: dict[EntryKey, asyncio.Task[None]] = {}
        self._end_waiters: dict[str, asyncio.Future[EndStep]] = {}
        self._known_ends: OrderedDict[str, EndStep] = OrderedDict()
        self._turn_lock = asyncio.Lock()

    @property
    def is_idle(self) -> bool:
        """Return whether no message waits or is in work."""
        return not self._busy and not len(self._inbox)

    def record_end(self, turn_id: str, end: EndStep) -> None:
        """Record that a turn has ended in this process."""
        self._known_ends[turn_id] = end
        if len(self._known_ends) > _MAX_KNOWN_ENDS:
            self._known_ends.popitem(last=False)
        if (waiter := self._end_waiters.get(turn_id)) is not None and not waiter.done():
            waiter.set_result(end)

    async def run(self) -> None:
        """Handle messages until cancelled. Raises unexpected errors of a message's task."""
        try:
            while True:
                change = asyncio.ensure_future(self._inbox.wait_for_change())
                # the waiter must be registered before the entries are read, or changes in between are missed
                await yield_to_others()
                for entry in list(self._inbox.entries()):
                    if entry.key not in self._busy:
                        self._start_entry(entry)
                await asyncio.wait([change, *self._busy.values()], return_when=asyncio.FIRST_COMPLETED)
                change.cancel()
                for task in [each for each in self._busy.values() if each.done()]:
                    task.result()
                self._busy = {key: task for key, task in self._busy.items() if not task.done()}
        finally:
            for task in self._busy.values():
                task.cancel()
            await asyncio.gather(*self._busy.values(), return_exceptions=True)

    def _start_entry(self, entry: InboxEntry) -> None:
        self._inbox.mark_shown(entry)  # the heartbeat counts it as an active task
        self._busy[entry.key] = asyncio.create_task(self._handle_entry(entry))

    # -- one message ---------------------------------------------------------------------------------------------------

    async def _handle_entry(self, entry: InboxEntry) -> None:
        message = entry.message
        if message.intent == Intent.ACK or await self._is_known_decision(message):
            await self._ack_entry(entry)
            return
        try:
            async with self._turn_lock:  # turns start in the order of the inbox
                thread_id, accepted = await self._accept_message(message)
            if message.attempt > 1 or message.redelivered:  # its turn may have ended in an earlier process
                known = await self._find_end(thread_id, accepted.turn_id)
            else:
                known = None
            end = known or await self._wait_for_end(thread_id, accepted.turn_id)
            await self._report_end(entry, end, await self._answered_id(message, thread_id, accepted.turn_id))
        except ApiError as error:
            _log.error("message %s cannot be processed: %s", message.activity_id, sanitize_line(str(error), 300))
            await self._report_failure(
                message, f"the message could not be assigned to a thread: {sanitize_line(str(error), 300)}"
            )
        await self._ack_entry(entry)

    async def _is_known_decision(self, message: InboxMessage) -> bool:
        """Return whether a message only carries a decision that the waiting call has received.

        Messages with intent `ack` start no turn either: two agents would thank each other forever.
        """
        is_decision = message.kind == MessageKind.APPROVAL_DECISION and not message.wants_answer
        return is_decision and await self._decisions.was_delivered(message.approval_id)

    async def _accept_message(self, message: InboxMessage) -> tuple[str, TurnResponse]:
        """Return the turn of a message, created now or at an earlier delivery. Raises ApiError."""
        awaiting_thread = self._conversations.thread_for(awaited_id_of(message)) if awaited_id_of(message) else None
        if awaiting_thread is not None:
            try:
                return awaiting_thread, await self._ensure_turn(awaiting_thread, message)
            except ApiError as error:
                _log.info(
                    "thread %s rejected the result that it waited for: %s",
                    awaiting_thread,
                    sanitize_line(str(error), 300),
                )
        conversation = conversation_name(message)
        for _ in range(_MAX_ROUNDS):
            key = self._conversations.thread_key(conversation)
            thread = await self._retry.retry_call(
                lambda: self._threads.start(key, developer=texts.ENGINE_INSTRUCTIONS, **self._settings)  # noqa: B023
            )
            self._conversations.assign_task(thread.thread_id, conversation)
            try:
                if not thread.closed and not self._is_spent(thread):
                    return thread.thread_id, await self._ensure_turn(thread.thread_id, message)
            except ApiError as error:
                if error.code != _CLOSED and not is_budget_spent(error):
                    raise
            self._conversations.start_next_round(conversation)
        raise AssertionError(f"{_MAX_ROUNDS} threads of one conversation are closed")

    def _is_spent(self, thread: EngineThread) -> bool:
        return self._max_tokens is not None and thread.tokens_used >= self._max_tokens

    async def _ensure_turn(self, thread_id: str, message: InboxMessage) -> TurnResponse:
        """Start a turn of its own for a message, which has its own answer, unless a person wants it to be read now."""
        return await self._retry.retry_call(lambda: ensure_turn(self._threads, thread_id, message))

    async def _wait_for_end(self, thread_id: str, turn_id: str) -> EndStep:
        """Wait for the end of a turn, in whatever process it ends."""
        if (known := self._known_ends.get(turn_id)) is not None:  # the turn ended before this call
            return known
        end_waiter = self._end_waiters.setdefault(turn_id, asyncio.get_running_loop().create_future())
        try:
            while not await self._retry.completes_within(end_waiter, _POLL_SECONDS):
                if (known := await self._find_end(thread_id, turn_id)) is not None:
                    return known
            return end_waiter.result()
        finally:
            self._end_waiters.pop(turn_id, None)

    async def _find_end(self, thread_id: str, turn_id: str) -> EndStep | None:
        return await self._retry.retry_call(lambda: find_turn_end(self._threads, thread_id, turn_id))

    # -- reports to the server -----------------------------------------------------------------------------------------

    async def _answered_id(self, message: InboxMessage, thread_id: str, turn_id: str) -> str:
        """Return the message that a turn answers: of a message that joined a running turn, the one that began it."""
        if message.when != STEER:
            return message.activity_id
        key = await self._retry.retry_call(lambda: _find_key_of_turn(self._threads, thread_id, turn_id))
        return message.activity_id if key is None else key.removesuffix(REMINDER_SUFFIX)

    async def _report_end(self, entry: InboxEntry, end: EndStep, answered_id: str) -> None:
        """Report the final text as the answer, or a failure in the agent's own log. Raises ApiError.

        The server decides whether an answer is due. `answered_id`: the message that the text answers; the entry's own
        message is answered with it.
        """
        message = entry.message
        if end.status != "completed":
            await self._report_failure(message, end.error or "the turn was interrupted")
        elif end.final and end.final.strip() and message.wants_answer:
            try:
                covers = [message.activity_id] if answered_id != message.activity_id else []
                await self._post_draft(answered_id, strip_invisible(end.final).strip(), covers)
            except ApiError as error:
                await self._report_failure(message, f"the answer was rejected: {sanitize_line(str(error), 300)}")
        elif message.wants_answer and not await self._retry.retry_call(
            lambda: is_answered(self._membership, message.activity_id)
        ):
            await self._report_failure(message, SILENT_TEXT)

    async def _post_draft(self, activity_id: str, text: str, covers: list[str]) -> None:
        """Post an answer; while an approval rule blocks it, retry until the decision. Raises ApiError."""
        seconds = _FIRST_POLL_SECONDS
        while True:
            try:
                await self._retry.retry_call(lambda: self._drafts.post_draft(activity_id, text, covers))
                return
            except ApiError as error:
                if not is_waiting_for_approval(error):
                    raise
            await self._retry.sleep(seconds)
            seconds = min(2 * seconds, _POLL_SECONDS)

    async def _report_failure(self, message: InboxMessage, reason: str) -> None:
        entry = {
            "activity_type": "error",
            "method": "thread",
            "status": "error",
            "summary": f"A turn failed: {reason}",
            "error_detail": reason,
            "request_body": {"activity_id": message.activity_id},
        }
        try:
            path = f"/workspaces/{self._membership.id}/activity"
            await self._retry.retry_call(lambda: self._post_log_entry(path, entry))
        except ApiError as error:
            _log.warning(
                "the server rejected the outcome of %s: %s", message.activity_id, sanitize_line(str(error), 300)
            )

    async def _post_log_entry(self, path: str, entry: dict[str, Any]) -> None:
        """Post an entry to the agent's own log. Raises ApiError, NoAnswerError."""
        expect_member(await self._membership.api().post(path, entry), "status", str)

    async def _ack_entry(self, entry: InboxEntry) -> None:
        """Acknowledge the message; the membership retries if the server is unreachable."""
        id_ = entry.message.activity_id
        attempts = [each.message.attempt for each in self._inbox.find_entries(id_, self._membership.id)]
        try:
            await self._membership.ack_message(id_, max([entry.message.attempt, *attempts]))
        except LeaderFenced:
            _log.warning("message %s may be delivered again: another process is the leader now", id_)


def turn_key(message: InboxMessage) -> str:
    """Return the key of a message's turn. A reminder has another one: the first turn did not answer the message."""
    return f"{message.activity_id}{REMINDER_SUFFIX}" if message.reminder else message.activity_id


def turn_input(message: InboxMessage) -> list[dict[str, Any]]:
    """Return a message as the input of a turn.

    A person's text is user input, another agent's never is. Instructions on how to answer come from the platform.
    """
    instructions = message.instructions
    if not message.peer_id and instructions is None:
        return [_text_part(plain_text(message))]
    if not message.peer_id and instructions is not None:
        return [
            _text_part(
                xml.format_channel(
                    message_fields(message), strip_invisible(instructions.text), strip_invisible(message.text)
                )
            )
        ]
    peer = sanitize_line(
        f"{message.peer_name} ({message.peer_id})" if message.peer_name else message.peer_id, _MAX_NAME
    )
    instruction_parts = [] if instructions is None else [_text_part(strip_invisible(instructions.text))]
    return [*instruction_parts, {**_text_part(plain_text(message)), "peer": peer}]


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


async def find_turn_end(threads: ThreadsClient, thread_id: str, turn_id: str) -> EndStep | None:
    """Return how a turn has ended according to the log; None if it has not. Raises ApiError, NoAnswerError."""
    after = 0
    while log_entries := await threads.list_entries(thread_id, after=after):
        for each in log_entries:
            if each.type == "turn_ended" and each.entry.get("turn_id") == turn_id:
                return EndStep(each.entry.get("status", "failed"), each.entry.get("final"), each.entry.get("error"))
        after = log_entries[-1].ordinal
    return None


async def ensure_turn(threads: ThreadsClient, thread_id: str, message: InboxMessage) -> TurnResponse:
    """Start the turn of a message, or return the existing one. Raises ApiError, NoAnswerError.

    A redelivered message may have another text, because its sender was renamed or its instructions changed; the key
    identifies its turn.
    """
    key = turn_key(message)
    try:
        mode = "auto" if message.when == STEER else "queue"
        return await threads.start_turn(thread_id, turn_input(message), key=key, mode=mode)
    except ApiError as error:
        known = await _find_turn_by_key(threads, thread_id, key) if error.code == _ID_REUSED else None
        if known is None:
            raise
        return known


async def _find_key_of_turn(threads: ThreadsClient, thread_id: str, turn_id: str) -> str | None:
    """Return the key of the input that began a turn; None if it had none, or is no longer kept."""
    after = 0
    while log_entries := await threads.list_entries(thread_id, after=after):
        for each in log_entries:
            if each.type == "turn_accepted" and each.entry.get("turn_id") == turn_id:
                key = each.entry.get("key")
                return key if isinstance(key, str) else None
        after = log_entries[-1].ordinal
    return None


async def _find_turn_by_key(threads: ThreadsClient, thread_id: str, key: str) -> TurnResponse | None:
    after = 0
    while log_entries := await threads.list_entries(thread_id, after=after):
        for each in log_entries:
            if each.type == "turn_accepted" and each.entry.get("key") == key:
                return TurnResponse(str(each.entry["turn_id"]), joined=False)
        after = log_entries[-1].ordinal
    return None
