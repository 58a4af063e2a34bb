"""From the inbox to threads and back: each message is a turn of its conversation, and its end is told to the server.

A message is acknowledged only when the server knows what became of it. All that is done for it has a key made from the
message's id: whatever is killed when, the message comes again and finds its turn. Above: running. Below: the inbox of
the agent's membership, the routes of threads.
"""

import asyncio
import logging
from collections import OrderedDict
from typing import Any

from molecule_core.agent.cursors import Fenced
from molecule_core.agent.drafts import Drafts, waits
from molecule_core.agent.engines import words
from molecule_core.agent.engines.conversations import DECIDED, Conversations, conversation_of, errand_of
from molecule_core.agent.engines.decisions import Decisions
from molecule_core.agent.engines.patience import Patience, is_spent
from molecule_core.agent.engines.turning import End
from molecule_core.agent.inbox import Entry, Inbox, Key
from molecule_core.agent.membership import Membership
from molecule_core.agent.neutral import line, visible
from molecule_core.agent.words import facts_of, said
from molecule_core.client.api import ApiError, member
from molecule_core.client.threads import Thread, Threads
from molecule_core.ground.clock import others_first
from molecule_core.wire import markup
from molecule_core.wire.inbox import InboxMessage
from molecule_core.wire.threads import TurnTaken

_log = logging.getLogger("molecule.engine")
_FIRST_LOOK_SECONDS, _LOOK_SECONDS = 0.5, 20.0
_MOST_ROUNDS, _MOST_KNOWN = 100, 1000
_MOST_NAME = 100
_CLOSED, _OTHERWISE = "thread_closed", "message_id_reused"


class Mailroom:
    """One seat's mail. `settings`: with what its threads are started; `most_tokens`: a thread that has used so many is
    followed by another one."""

    def __init__(
        self,
        seat: Membership,
        inbox: Inbox,
        threads: Threads,
        conversations: Conversations,
        decisions: Decisions,
        *,
        patience: Patience,
        settings: dict[str, Any],
        most_tokens: int | None,
    ) -> None:
        self._seat = seat
        self._inbox = inbox
        self._threads = threads
        self._conversations = conversations
        self._decisions = decisions
        self._patience = patience
        self._settings = settings
        self._most = most_tokens
        self._drafts = Drafts(seat)
        self._busy: dict[Key, asyncio.Task[None]] = {}
        self._ends: dict[str, asyncio.Future[End]] = {}
        self._known: OrderedDict[str, End] = OrderedDict()
        self._turn = asyncio.Lock()

    @property
    def idle(self) -> bool:
        """Whether no message waits, and none is worked on."""
        return not self._busy and not len(self._inbox)

    def ended(self, turn_id: str, end: End) -> None:
        """A turn has ended in this process."""
        self._known[turn_id] = end
        if len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)
        if (waiting := self._ends.get(turn_id)) is not None and not waiting.done():
            waiting.set_result(end)

    async def run(self) -> None:
        """Takes mail until it is cancelled. Raises what cannot be helped."""
        try:
            while True:
                change = asyncio.ensure_future(self._inbox.change())
                await others_first()  # it waits for news before anybody looks: what comes in between is not lost
                for entry in list(self._inbox.entries()):
                    if entry.key not in self._busy:
                        self._take(entry)
                await asyncio.wait([change, *self._busy.values()], return_when=asyncio.FIRST_COMPLETED)
                change.cancel()
                for task in [each for each in self._busy.values() if each.done()]:
                    task.result()
                self._busy = {key: task for key, task in self._busy.items() if not task.done()}
        finally:
            for task in self._busy.values():
                task.cancel()
            await asyncio.gather(*self._busy.values(), return_exceptions=True)

    def _take(self, entry: Entry) -> None:
        entry.shown = True  # the heartbeat says that it is being worked on
        self._busy[entry.key] = asyncio.create_task(self._handle(entry))

    # -- one message ---------------------------------------------------------------------------------------------------

    async def _handle(self, entry: Entry) -> None:
        message = entry.message
        if message.intent == "ack" or await self._is_known(message):
            await self._settle(entry)
            return
        try:
            async with self._turn:  # one after the other, in the order of the inbox
                thread_id, accepted = await self._accepted(message)
            if message.attempt > 1 or message.redelivered:  # its turn may have ended in an earlier life
                known = await self._ended_before(thread_id, accepted.turn_id)
            else:
                known = None
            end = known or await self._end_of(thread_id, accepted.turn_id)
            await self._tell(entry, end)
        except ApiError as error:
            _log.error("message %s cannot be worked on: %s", message.activity_id, line(str(error), 300))
            await self._report(message, f"it could not be given to a thread: {line(str(error), 300)}")
        await self._settle(entry)

    async def _is_known(self, message: InboxMessage) -> bool:
        """Whether a message brings only a decision that the call which waited for it has heard. (Nothing is said to an
        `ack` either: two agents would thank each other for ever.)"""
        is_decision = message.kind == DECIDED and message.intent != "request"
        return is_decision and await self._decisions.heard(message.approval_id)

    async def _accepted(self, message: InboxMessage) -> tuple[str, TurnTaken]:
        """The turn of a message: made now, or when it came before. Raises ApiError."""
        errand = self._conversations.thread_for(errand_of(message)) if errand_of(message) else None
        if errand is not None:
            try:
                return errand, await self._turn_in(errand, message)
            except ApiError as error:
                _log.info("thread %s does not take what it waited for: %s", errand, line(str(error), 300))
        conversation = conversation_of(message)
        for _ in range(_MOST_ROUNDS):
            key = self._conversations.key_of(conversation)
            thread = await self._patience.answer(
                lambda: self._threads.start(key, developer=words.LAYER, **self._settings)  # noqa: B023
            )
            try:
                if not thread.closed and not self._is_spent(thread):
                    return thread.thread_id, await self._turn_in(thread.thread_id, message)
            except ApiError as error:
                if error.code != _CLOSED and not is_spent(error):
                    raise
            self._conversations.anew(conversation)
        raise AssertionError(f"{_MOST_ROUNDS} threads of one conversation are closed")

    def _is_spent(self, thread: Thread) -> bool:
        return self._most is not None and thread.tokens_used >= self._most

    async def _turn_in(self, thread_id: str, message: InboxMessage) -> TurnTaken:
        """A second message of a conversation waits for its own turn: each has an answer of its own."""
        return await self._patience.answer(lambda: turn_of(self._threads, thread_id, message))

    async def _end_of(self, thread_id: str, turn_id: str) -> End:
        """How a turn ends, whoever ends it."""
        if (known := self._known.get(turn_id)) is not None:  # it was over before anybody asked
            return known
        ends = self._ends.setdefault(turn_id, asyncio.get_running_loop().create_future())
        try:
            while not await self._patience.within(ends, _LOOK_SECONDS):
                if (known := await self._ended_before(thread_id, turn_id)) is not None:
                    return known
            return ends.result()
        finally:
            self._ends.pop(turn_id, None)

    async def _ended_before(self, thread_id: str, turn_id: str) -> End | None:
        return await self._patience.answer(lambda: end_in(self._threads, thread_id, turn_id))

    # -- what the server is told ---------------------------------------------------------------------------------------

    async def _tell(self, entry: Entry, end: End) -> None:
        """The final text, as the draft of the answer: whether one is due, and whether it is sent at once, is the
        server's to say. A failure, in the agent's own log. Raises ApiError."""
        message = entry.message
        if end.status != "completed":
            await self._report(message, end.error or "the turn was interrupted")
        elif end.final and end.final.strip() and message.intent == "request":
            try:
                await self._draft(message.activity_id, visible(end.final).strip())
            except ApiError as error:
                await self._report(message, f"its answer was not taken: {line(str(error), 300)}")

    async def _draft(self, activity_id: str, text: str) -> None:
        """What a rule stops waits for who decides. Raises ApiError."""
        seconds = _FIRST_LOOK_SECONDS
        while True:
            try:
                await self._patience.answer(lambda: self._drafts.post(activity_id, text))
                return
            except ApiError as error:
                if not waits(error):
                    raise
            await self._patience.pause(seconds)
            seconds = min(2 * seconds, _LOOK_SECONDS)

    async def _report(self, message: InboxMessage, why: str) -> None:
        entry = {
            "activity_type": "error",
            "method": "thread",
            "status": "error",
            "summary": f"A turn failed: {why}",
            "error_detail": why,
            "request_body": {"activity_id": message.activity_id},
        }
        try:
            path = f"/workspaces/{self._seat.id}/activity"
            await self._patience.answer(lambda: self._logged(path, entry))
        except ApiError as error:
            _log.warning("the server does not take what became of %s: %s", message.activity_id, line(str(error), 300))

    async def _logged(self, path: str, entry: dict[str, Any]) -> None:
        """Raises ApiError, NoAnswer."""
        member(await self._seat.api().post(path, entry), "status", str)

    async def _settle(self, entry: Entry) -> None:
        """The message is handled; the membership tells the server, later if not now."""
        id_ = entry.message.activity_id
        held = [each.message.attempt for each in self._inbox.find(id_, self._seat.id)]
        try:
            await self._seat.handle(id_, max([entry.message.attempt, *held]))
        except Fenced:
            _log.warning("message %s may come once more: another process leads now", id_)


def key_of(message: InboxMessage) -> str:
    """What makes a message one turn, however often it comes. Its reminder is another one: the first has not answered
    it."""
    return f"{message.activity_id}:reminder" if message.reminder else message.activity_id


def input_of(message: InboxMessage) -> list[dict[str, Any]]:
    """A message as the input of a turn: a person's words are the user's, another agent's never. How to answer it is
    the platform's to say."""
    told = message.instructions
    if not message.peer_id and told is None:
        return [_text(said(message))]
    if not message.peer_id and told is not None:
        return [_text(markup.channel(facts_of(message), visible(told.text), visible(message.text)))]
    peer = line(f"{message.peer_name} ({message.peer_id})" if message.peer_name else message.peer_id, _MOST_NAME)
    how = [] if told is None else [_text(visible(told.text))]
    return [*how, {**_text(said(message)), "peer": peer}]


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


async def end_in(threads: Threads, thread_id: str, turn_id: str) -> End | None:
    """How a turn has ended, by the log; None if it has not. Raises ApiError, NoAnswer."""
    after = 0
    while lines := await threads.items(thread_id, after=after):
        for each in lines:
            if each.type == "turn_ended" and each.entry.get("turn_id") == turn_id:
                return End(each.entry.get("status", "failed"), each.entry.get("final"), each.entry.get("error"))
        after = lines[-1].ordinal
    return None


async def turn_of(threads: Threads, thread_id: str, message: InboxMessage) -> TurnTaken:
    """The turn of a message in a thread, however often it comes. It may come again in other words, as its sender was
    renamed or how to answer it is said anew: it has its turn all the same. Raises ApiError, NoAnswer."""
    key = key_of(message)
    try:
        return await threads.turn(thread_id, input_of(message), key=key, mode="queue")
    except ApiError as error:
        known = await _turn_under(threads, thread_id, key) if error.code == _OTHERWISE else None
        if known is None:
            raise
        return known


async def _turn_under(threads: Threads, thread_id: str, key: str) -> TurnTaken | None:
    after = 0
    while lines := await threads.items(thread_id, after=after):
        for each in lines:
            if each.type == "turn_accepted" and each.entry.get("key") == key:
                return TurnTaken(str(each.entry["turn_id"]), joined=False)
        after = lines[-1].ordinal
    return None
