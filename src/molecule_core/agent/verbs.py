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

from molecule_core.agent import replies
from molecule_core.agent.config import Wishes
from molecule_core.agent.cursors import Fenced
from molecule_core.agent.inbox import Entry, Inbox
from molecule_core.agent.membership import Membership
from molecule_core.agent.neutral import line
from molecule_core.agent.refusals import is_about_caller
from molecule_core.agent.seats import Seats
from molecule_core.agent.speaking import Speaker
from molecule_core.client.api import ApiError, NoAnswer
from molecule_core.ground.clock import Clock
from molecule_core.ground.ids import Ids, Randomness
from molecule_core.wire import approving, collaborating, delegating, verbs
from molecule_core.wire.approvaltypes import DecideArguments
from molecule_core.wire.mcp import Calling
from molecule_core.wire.replytypes import AnswerArguments, DeclineArguments
from molecule_core.wire.toolspec import NO_ANSWER, ToolError
from molecule_core.wire.tooltypes import HistoryArguments, PeekArguments, PopArguments, ReplyArguments, WaitArguments

# Hosts that end a silent call do so after a minute at the earliest; a progress note well before it keeps it alive.
_PROGRESS_SECONDS = 10.0


class Verbs:
    """The inbox tools, those that answer, and `chat_history`."""

    def __init__(
        self, seats: Seats, inbox: Inbox, *, clock: Clock, ids: Ids, randomness: Randomness, wishes: Wishes
    ) -> None:
        self._seats = seats
        self._inbox = inbox
        self._clock = clock
        self._ids = ids
        self._randomness = randomness
        self._wishes = wishes

    def speaker(self, seat: Membership) -> Speaker:
        """Requests as one seat."""
        about = seat.requests  # control: requests-of-seat
        return Speaker(about, clock=self._clock, randomness=self._randomness, renews=about.renews)

    # -- reading -------------------------------------------------------------------------------------------------------

    async def wait(self, asked: WaitArguments, calling: Calling) -> dict[str, Any]:
        """The next message that was not shown yet, as soon as there is one. When time is up: the oldest that was shown
        and is still open, if there is one."""
        began = self._clock.monotonic()
        if asked.timeout_secs < self._wishes.first_look_seconds:
            await self._seats.looked(self._clock, self._wishes.first_look_seconds)
        while True:
            self.look()
            entry = next((each for each in self._inbox.entries() if not each.shown), None)
            spent = self._clock.monotonic() - began
            if entry is not None or spent >= asked.timeout_secs:
                return self._waited(entry)
            came = await self._clock.wait(self._inbox.change(), min(asked.timeout_secs - spent, _PROGRESS_SECONDS))
            if not came:
                spent = min(self._clock.monotonic() - began, asked.timeout_secs)
                await calling.progress(spent, asked.timeout_secs, "no message yet")

    def _waited(self, entry: Entry | None) -> dict[str, Any]:
        notes = [self._seats.note()]
        if entry is None:
            entry = next(iter(self._inbox.entries()), None)
            if entry is not None:
                notes.append("nothing new; this one was shown before and is still open: answer or acknowledge it")
        shown = None if entry is None else self._show(entry)
        waiting = sum(not each.shown for each in self._inbox.entries())
        return {"message": shown, "waiting": waiting, "note": _joined(notes)}

    async def peek(self, asked: PeekArguments) -> dict[str, Any]:
        """The oldest messages that wait."""
        await self._seats.looked(self._clock, self._wishes.first_look_seconds)
        self.look()
        shown = [self._show(entry) for entry in list(self._inbox.entries())[: asked.limit]]
        rest = len(self._inbox) - len(shown)
        more = f"{rest} more wait" if rest else ""
        return {"messages": shown, "note": _joined([more, self._seats.note()])}

    def look(self) -> None:
        """What other processes of this agent have handled does not wait any more."""
        for each in self._seats:
            each.take_notes()

    def _show(self, entry: Entry) -> dict[str, Any]:
        """A message as a result; in single mode without the seat that it came to, which goes without saying."""
        entry.shown = True
        entry.push_at = max(entry.push_at, self._clock.monotonic() + self._wishes.repush_most_seconds)
        message = replace(entry.message, arrival_workspace_id="") if self._seats.single else entry.message
        shown: dict[str, Any] = msgspec.to_builtins(message)
        return shown

    async def history(self, asked: HistoryArguments) -> dict[str, Any]:
        """What was said before. Raises ToolError."""
        seat = self._seats.meant(asked.via_workspace, "via_workspace")
        return await verbs.history(self.speaker(seat), seat.id, asked)

    # -- work that is given to peers -----------------------------------------------------------------------------------

    async def delegating(self, asked: Struct, calling: Calling) -> dict[str, Any]:
        """The tools about delegations. What waits for nobody any more comes into the merged inbox. Raises ToolError."""
        seats = [(each.id, self.speaker(each)) for each in self._seats]
        told = delegating.progress_of(calling.progress, calling.meta)
        call = verbs.call_name(calling.meta)
        return await delegating.run(seats, asked, call, clock=self._clock, progress=told)

    # -- agents in threads ---------------------------------------------------------------------------------------------

    async def collaborating(self, asked: Struct, calling: Calling) -> dict[str, Any]:
        """The tools about agents in threads, from the session thread of this agent. Raises ToolError."""
        seats = [(each.id, self.speaker(each)) for each in self._seats]
        told = delegating.progress_of(calling.progress, calling.meta)
        call, session = verbs.call_name(calling.meta) or self._ids.new(), collaborating.session_in(calling.meta)
        return await collaborating.run(seats, asked, call, clock=self._clock, session=session, progress=told)

    # -- approvals -----------------------------------------------------------------------------------------------------

    async def approving(self, asked: Struct, calling: Calling) -> dict[str, Any]:
        """The tools about approvals. Who is asked decides about what it was shown here. Raises ToolError."""
        self.look()
        seats = [(each.id, self.speaker(each)) for each in self._seats]
        told = delegating.progress_of(calling.progress, calling.meta)
        seen = [each.message for each in self._inbox.entries() if each.is_known]
        call, shown = verbs.call_name(calling.meta), approving.shown_in(seen, asked)
        try:
            thread = verbs.thread_name(calling.meta)
            found = await approving.run(
                seats, asked, call, clock=self._clock, progress=told, shown=shown, thread_id=thread
            )
        except ToolError as error:
            if isinstance(asked, DecideArguments) and approving.over(error):
                self._decided(asked.approval_id, asked.via_workspace)
            raise
        if isinstance(asked, DecideArguments):
            self._decided(asked.approval_id, found["workspace_id"])
        return found

    def _decided(self, approval_id: str, workspace_id: str) -> None:
        """What asked for a decision does not wait here any more; the server knows it already."""
        for message in [each.message for each in self._inbox.entries()]:
            is_it = message.kind == approving.KIND and message.approval_id == approval_id
            if is_it and workspace_id in ("", message.arrival_workspace_id):
                self._seats.named(message.arrival_workspace_id).settled(message.activity_id)

    # -- settling ------------------------------------------------------------------------------------------------------

    async def pop(self, asked: PopArguments) -> dict[str, Any]:
        """A message is handled. Raises ToolError."""
        if asked.workspace_id:
            self._seats.named(asked.workspace_id)
        entries = self._inbox.find(asked.activity_id, asked.workspace_id)
        if len(entries) > 1:
            shown = ", ".join(each.message.arrival_workspace_id for each in entries)
            raise ToolError(
                f"several workspaces have a message of this id: {shown}. Name workspace_id too.", "ambiguous_message"
            )
        if entries:
            seat = self._seats.named(entries[0].message.arrival_workspace_id)
            told = await self._handled(seat, entries[0])
            return _popped(asked.activity_id, seat.id, removed=True, note=_unsure(told))
        if origins := self._inbox.handled(asked.activity_id, asked.workspace_id):
            return _popped(asked.activity_id, origins[0].workspace_id, removed=False, note="it was handled before")
        return await self._pop_elsewhere(asked)

    async def _pop_elsewhere(self, asked: PopArguments) -> dict[str, Any]:
        """A message that waits in the process that reads the inbox."""
        for seat in self._seats:
            if seat.state == "following" and asked.workspace_id in ("", seat.id):
                try:
                    await seat.handle_for_leader(asked.activity_id, asked.attempt)
                except ApiError as error:
                    if error.passes or is_about_caller(error):
                        raise
                    continue
                except NoAnswer as error:
                    raise ToolError(f"the server did not answer ({line(str(error))}); call again", NO_ANSWER) from None
                return _popped(asked.activity_id, seat.id, removed=True)
        raise ToolError(
            f"no message {line(asked.activity_id, 64)} waits for you. inbox_peek shows those that do.",
            "unknown_message",
        )

    async def _handled(self, seat: Membership, entry: Entry) -> bool:
        """Whether the server knows it too. Raises ToolError."""
        try:
            return await seat.handle(entry.message.activity_id, entry.message.attempt)
        except Fenced:
            raise ToolError(
                "it is handled, but that could not be kept (another process leads now): it may come once more",
                "not_kept",
            ) from None

    # -- answering -----------------------------------------------------------------------------------------------------

    async def reply(self, asked: ReplyArguments, calling: Calling) -> dict[str, Any]:
        """Answers a message from the seat that it came to, and acknowledges it. Raises ToolError."""
        self.look()
        if asked.workspace_id:
            self._seats.named(asked.workspace_id)
        asked, fits = self._by_handle(asked)
        if asked.reply_handle and not fits:
            return await self._reply_unseen(asked, calling)
        target = replies.target_of(
            self._inbox,
            workspace_id=asked.workspace_id,
            peer_id=asked.peer_id,
            activity_id=asked.activity_id,
            single=self._seats.single,
        )
        seat = self._seats.meant(target.workspace_id, "workspace_id")
        open_ones = [each for each in self._inbox.entries() if each.origin == replies.origin(seat.id, target.peer_id)]
        entry = target.entry
        if entry is None and not asked.activity_id and len(open_ones) == 1 and open_ones[0].is_known:
            entry = open_ones[0]  # the only one that this can be the answer to
        given = self._completed(asked, seat, target, entry)  # control: answer-by-its-seat
        told = await verbs.reply(self.speaker(seat), seat.id, given, self._key(given, calling), fits=fits)
        await self._settle(seat, entry, given, told)
        if not given.activity_id and open_ones and not given.progress:
            ids = ", ".join(each.message.activity_id for each in open_ones)
            told["note"] = f"sent; still open there, and not acknowledged: {ids}"
        return told

    def _by_handle(self, asked: ReplyArguments) -> tuple[ReplyArguments, bool]:
        """A handle names the message too; whether it is known here which one. Raises ToolError if the call names
        another message beside it."""
        known = self._inbox.named(asked.reply_handle) if asked.reply_handle else {}
        if asked.activity_id:
            fitting = {seat: id_ for seat, id_ in known.items() if id_ == asked.activity_id}
            beside = any(each.message.reply_handle for each in self._inbox.find(asked.activity_id, asked.workspace_id))
            if not fitting and (known or (asked.reply_handle and beside)):
                raise verbs.refuse_two_messages(asked.activity_id, asked.reply_handle)
            known = fitting
        if not known:
            return asked, False
        seat_id = replies.seat_of(asked.reply_handle, known, asked.workspace_id)
        return replace(asked, workspace_id=seat_id, activity_id=known[seat_id]), True

    async def _reply_unseen(self, asked: ReplyArguments, calling: Calling) -> dict[str, Any]:
        """The handle of a message that was not seen here: what it names is the server's to say, and to settle. Nothing
        that waits here is meant by it. Raises ToolError."""
        seat = self._seats.meant(asked.workspace_id, "workspace_id")
        given = replace(asked, workspace_id=seat.id)
        return await verbs.reply(self.speaker(seat), seat.id, given, self._key(given, calling))

    def _completed(
        self, asked: ReplyArguments, seat: Membership, target: replies.Target, entry: Entry | None
    ) -> ReplyArguments:
        activity_id, attempt = asked.activity_id, asked.attempt
        if entry is not None:
            activity_id, attempt = entry.message.activity_id, entry.message.attempt
        elif activity_id:
            attempt = attempt or seat.attempt_of(activity_id)
        return replace(asked, workspace_id=seat.id, peer_id=target.peer_id, activity_id=activity_id, attempt=attempt)

    async def _settle(self, seat: Membership, entry: Entry | None, given: ReplyArguments, told: dict[str, Any]) -> None:
        """What is answered does not wait here any more; what the server could not be told is told later."""
        if given.progress:
            return
        if entry is not None and told["acknowledged"]:
            seat.settled(given.activity_id)
        elif entry is not None:
            if await self._handled(seat, entry):
                told.update(acknowledged=True, note="")
        elif given.activity_id and told["acknowledged"] and not seat.leads:
            seat.note_for_leader(given.activity_id, given.attempt)

    def _key(self, given: ReplyArguments, calling: Calling) -> str:
        """The same answer to the same message is sent once, however often it is tried; so is the same call."""
        about = verbs.call_name(calling.meta)
        if not given.progress:  # which may be told in the same words as often as it is true
            about = given.activity_id or given.reply_handle or about
        if not about:
            return self._ids.new()
        return _digest(given.workspace_id, about, given.text)

    # -- answering by handle -----------------------------------------------------------------------------------------

    async def answer(self, asked: AnswerArguments, calling: Calling) -> dict[str, Any]:
        """Answers the message of a handle from the seat that it came to. Raises ToolError."""
        seat, entry = self._of_handle(asked.handle, asked.via_workspace)
        # Progress is told as often as it is told; an answer once, however often it is tried.
        key = self._ids.new() if asked.progress else _digest(seat.id, asked.handle, asked.text)
        told = await verbs.answer(self.speaker(seat), seat.id, asked, key, _attempt(entry))
        return await self._closed(seat, entry, told)

    async def decline(self, asked: DeclineArguments, calling: Calling) -> dict[str, Any]:
        """Says that the message of a handle will not be answered. Raises ToolError."""
        seat, entry = self._of_handle(asked.handle, asked.via_workspace)
        key = _digest(seat.id, asked.handle, asked.reason)
        told = await verbs.decline(self.speaker(seat), seat.id, asked, key, _attempt(entry))
        return await self._closed(seat, entry, told)

    def _of_handle(self, handle: str, named: str) -> tuple[Membership, Entry | None]:
        """The seat that a handle belongs to, and its message if that waits here. Raises ToolError."""
        self.look()
        known = self._inbox.named(handle)
        seat_id = replies.seat_of(handle, known, named)
        seat = self._seats.meant(seat_id, "via_workspace")
        return seat, next(iter(self._inbox.find(known.get(seat.id, ""), seat.id)), None)

    async def _closed(self, seat: Membership, entry: Entry | None, told: dict[str, Any]) -> dict[str, Any]:
        """What is answered does not wait here any more."""
        answers = told["answers"]
        if told["state"] == "open":
            return told
        if told["acknowledged"] and seat.leads:
            seat.settled(answers)
        elif told["acknowledged"]:
            seat.note_for_leader(answers, _attempt(entry))
        elif entry is not None and await self._handled(seat, entry):
            told.update(acknowledged=True, note="")
        return told


def _attempt(entry: Entry | None) -> int:
    return 0 if entry is None else entry.message.attempt


def _digest(*told: str) -> str:
    return hashlib.blake2b("\n".join(told).encode(errors="replace"), digest_size=16).hexdigest()


def _popped(activity_id: str, workspace_id: str, *, removed: bool, note: str = "") -> dict[str, Any]:
    return {"activity_id": activity_id, "workspace_id": workspace_id, "removed": removed, "note": note}


def _unsure(told: bool) -> str:
    return "" if told else "kept here; the server could not be told yet and will be"


def _joined(notes: Iterable[str]) -> str:
    return "; ".join(note for note in notes if note)
