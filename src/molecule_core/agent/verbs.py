"""What an agent's process does itself when a tool is called: the merged inbox, and answers that go where they belong.

Above: engine. Below: seats, replies, inbox, client.
"""

import hashlib
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

import msgspec


from molecule_core.agent import replies
from molecule_core.agent.backoff import BackOff
from molecule_core.agent.config import Wishes
from molecule_core.agent.cursors import Fenced
from molecule_core.agent.inbox import Entry, Inbox
from molecule_core.agent.membership import Membership
from molecule_core.agent.neutral import line
from molecule_core.agent.seats import Seats
from molecule_core.agent.waiting import pause
from molecule_core.client.api import ApiError, NoAnswer
from molecule_core.ground.clock import Clock
from molecule_core.ground.ids import Ids, Randomness
from molecule_core.wire.mcp import Calling
from molecule_core.wire.tooltypes import PeekArguments, PopArguments, ReplyArguments, WaitArguments
from molecule_core.wire.toolspec import ToolError

T = TypeVar("T")
# Hosts that end a silent call do so after a minute at the earliest; a progress note well before it keeps it alive.
_PROGRESS_SECONDS = 10.0
_TRIES, _FIRST_WAIT, _LONGEST_WAIT = 4, 0.2, 2.0
_TOO_MANY, _BUSY = 429, 503


class Verbs:
    """The inbox tools and `reply_to_workspace`."""

    def __init__(
        self, seats: Seats, inbox: Inbox, *, clock: Clock, ids: Ids, randomness: Randomness, wishes: Wishes
    ) -> None:
        self._seats = seats
        self._inbox = inbox
        self._clock = clock
        self._ids = ids
        self._randomness = randomness
        self._wishes = wishes

    # -- reading -------------------------------------------------------------------------------------------------------

    async def wait(self, asked: WaitArguments, calling: Calling) -> dict[str, Any]:
        """The next message that was not shown yet, as soon as there is one. When time is up: the oldest that was shown
        and is still open, if there is one."""
        began = self._clock.monotonic()
        while True:
            self.look()
            entry = next((each for each in self._inbox.entries() if not each.shown), None)
            spent = self._clock.monotonic() - began
            if entry is not None or spent >= asked.timeout_secs:
                break
            await self._clock.wait(self._inbox.change(), min(asked.timeout_secs - spent, _PROGRESS_SECONDS))
            spent = min(self._clock.monotonic() - began, asked.timeout_secs)
            await calling.progress(spent, asked.timeout_secs, "waiting for a message")
        return self._waited(entry)

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
        shown: dict[str, Any] = msgspec.to_builtins(entry.message)
        if self._seats.single:
            del shown["arrival_workspace_id"]
        return shown

    # -- settling ------------------------------------------------------------------------------------------------------

    async def pop(self, asked: PopArguments) -> dict[str, Any]:
        """A message is handled. Raises ToolError."""
        named = getattr(asked, "workspace_id", "")
        if named:
            self._seats.named(named)
        entries = self._inbox.find(asked.activity_id, named)
        if len(entries) > 1:
            shown = ", ".join(each.message.arrival_workspace_id for each in entries)
            raise ToolError(f"several workspaces have a message of this id: {shown}. Name workspace_id too.", "two")
        if entries:
            seat = self._seats.named(entries[0].message.arrival_workspace_id)
            told = await self._handled(seat, asked.activity_id, entries[0].message.attempt)
            return _popped(asked.activity_id, seat.id, removed=True, note=_unsure(told))
        if origins := self._inbox.handled(asked.activity_id, named):
            note = "it was handled before"
            return _popped(asked.activity_id, origins[0].workspace_id, removed=False, note=note)
        return await self._pop_elsewhere(asked, named)

    async def _pop_elsewhere(self, asked: PopArguments, named: str) -> dict[str, Any]:
        """A message that waits in the process that reads the inbox."""
        following = [each for each in self._seats if each.state == "following" and named in ("", each.id)]
        for seat in following:
            try:
                await self._insist(lambda seat=seat: seat.handle_for_leader(asked.activity_id, asked.attempt))
            except ApiError:
                continue
            return _popped(asked.activity_id, seat.id, removed=True)
        raise ToolError(
            f"no message {line(asked.activity_id, 64)} waits for you. inbox_peek shows those that do.", "unknown_message"
        )

    async def _handled(self, seat: Membership, activity_id: str, attempt: int) -> bool:
        try:
            return await seat.handle(activity_id, attempt)
        except (Fenced, OSError) as error:
            raise ToolError(
                f"the message is handled, but that could not be kept ({error or 'another process took the inbox over'});"
                " it may come once more.",
                "not_kept",
            ) from None

    # -- answering -----------------------------------------------------------------------------------------------------

    async def reply(self, asked: ReplyArguments, calling: Calling) -> dict[str, Any]:
        """Answers a message from the seat that it came to, and acknowledges it. Raises ToolError."""
        self.look()
        if asked.workspace_id:
            self._seats.named(asked.workspace_id)
        target = replies.target_of(
            self._inbox,
            workspace_id=asked.workspace_id,
            peer_id=asked.peer_id,
            activity_id=asked.activity_id,
            single=self._seats.single,
        )
        seat = self._seats.meant(target.workspace_id, "workspace_id")
        open_ones = self._open(seat.id, target.peer_id)
        entry = target.entry
        if entry is None and not asked.activity_id and len(open_ones) == 1:
            entry = open_ones[0]  # the only one that this can be the answer to
        answered = asked.activity_id or (entry.message.activity_id if entry is not None else "")
        sent = await self._send(seat, target.peer_id, asked, answered, calling)
        note, acknowledged = await self._settle(seat, entry, asked, target, open_ones)
        return {
            "status": "sent",
            "workspace_id": seat.id,
            "peer_id": target.peer_id,
            "activity_id": sent,
            "acknowledged": acknowledged,
            "note": note,
        }

    def _open(self, workspace_id: str, peer_id: str) -> list[Entry]:
        origin = (workspace_id, peer_id)
        return [each for each in self._inbox.entries() if (each.origin.workspace_id, each.origin.peer_id) == origin]

    async def _settle(
        self, seat: Membership, entry: Entry | None, asked: ReplyArguments, target: replies.Target, opened: list[Entry]
    ) -> tuple[str, bool]:
        if entry is not None:
            told = await self._handled(seat, entry.message.activity_id, entry.message.attempt)
            return _unsure(told), True
        if asked.activity_id and not target.again:
            try:
                await self._insist(lambda: seat.handle_for_leader(asked.activity_id, asked.attempt))
            except ToolError:
                raise
            except ApiError as error:
                return f"sent, but no message {line(asked.activity_id, 64)} could be acknowledged ({error})", False
            return "", True
        if target.again:
            return "sent once more: this message was handled before", True
        ids = ", ".join(each.message.activity_id for each in opened)
        return (f"sent; still open there, and not acknowledged: {ids}" if opened else ""), False

    async def _send(
        self, seat: Membership, peer_id: str, asked: ReplyArguments, answered: str, calling: Calling
    ) -> str:
        """The id of the answer on its way. The same answer to the same message is sent once, however often it is
        tried."""
        message_id = self._message_id(answered, asked.text, calling)
        if peer_id:
            path, body, headers = f"/workspaces/{peer_id}/a2a", _envelope(message_id, answered, asked), {}
        else:
            path, headers = f"/workspaces/{seat.id}/notify", {"idempotency-key": message_id}
            body = {"message": asked.text, **({"in_reply_to": answered} if answered else {})}
        try:
            answer = await self._insist(lambda: seat.api().call("POST", path, body=body, headers=headers))
        except ApiError as error:
            raise refusal(error) from None
        found = answer.get("activity_id") if isinstance(answer, dict) else None
        return found if isinstance(found, str) else message_id

    def _message_id(self, answered: str, text: str, calling: Calling) -> str:
        if answered:
            return hashlib.blake2b(f"{answered}\n{text}".encode(), digest_size=16).hexdigest()
        given = calling.meta.get("claudecode/toolUseId")
        if isinstance(given, str) and given:
            return hashlib.blake2b(f"{given}\n{text}".encode(), digest_size=16).hexdigest()
        return self._ids.new()

    async def _insist(self, call: Callable[[], Awaitable[T]]) -> T:
        """Asks again if the server is away or busy for a moment. Raises ApiError, ToolError."""
        back_off = BackOff(_FIRST_WAIT, _LONGEST_WAIT, self._randomness)
        for _ in range(_TRIES - 1):
            try:
                return await call()
            except NoAnswer:
                wait = back_off.next()
            except ApiError as error:
                if error.status not in (_TOO_MANY, _BUSY):
                    raise
                wait = back_off.next()
            await pause(self._clock, wait)
        try:
            return await call()
        except NoAnswer as error:
            raise unreachable(error) from None


def _envelope(message_id: str, answered: str, asked: ReplyArguments) -> dict[str, Any]:
    metadata = {"intent": asked.intent or "inform", **({"in_reply_to": answered} if answered else {})}
    parts = [{"kind": "text", "text": asked.text}]
    message = {"role": "agent", "messageId": message_id, "parts": parts, "metadata": metadata}
    return {"jsonrpc": "2.0", "id": message_id, "method": "message/send", "params": {"message": message}}


def refusal(error: ApiError) -> ToolError:
    """What the server refused, for a model."""
    hint = error.problem.get("hint")
    said = line(str(error.problem.get("error", error)), 500)
    return ToolError(f"{said}{f' ({line(hint, 300)})' if isinstance(hint, str) else ''}", error.code or "refused")


def unreachable(error: NoAnswer) -> ToolError:
    """The server did not answer, for a model."""
    return ToolError(
        f"the server did not answer ({line(str(error))}); whether it did what you asked is not known. Call again with "
        "the same arguments in a moment: nothing is done twice.",
        "no_answer",
    )


def _popped(activity_id: str, workspace_id: str, *, removed: bool, note: str = "") -> dict[str, Any]:
    return {"activity_id": activity_id, "workspace_id": workspace_id, "removed": removed, "note": note}


def _unsure(told: bool) -> str:
    return "" if told else "kept here; the server could not be told yet and will be"


def _joined(notes: Iterable[str]) -> str:
    return "; ".join(note for note in notes if note)


