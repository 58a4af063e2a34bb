"""The rows that a delegation leaves among messages: what its caller did, and the result in the caller's inbox.

An answer to a message that carries a delegation becomes no message of its own: it closes the obligation, and rises as
the fact `Answered`; who follows it has the result written. Above: the hands through which answers come, and the slice
of delegations. Below: entering, owing.
"""

from collections.abc import Generator, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from molecule_core.ground.clock import SECOND, Clock
from molecule_core.ground.ids import Ids
from molecule_core.ground.text import shorten
from molecule_core.messages import attachments
from molecule_core.messages.entering import logged, with_its_delivery
from molecule_core.messages.facts import Answer, Answered
from molecule_core.messages.model import (
    ACKED,
    DEAD,
    DELEGATE,
    DELEGATE_RESULT,
    DELEGATION,
    DISCARDED,
    INFORM,
    KIND_RESULT,
    KIND_SYSTEM,
    RECEIVE,
    SEND,
    SUMMARY_LENGTH,
    Activity,
    Handout,
    Inbox,
    Place,
    Receipt,
)
from molecule_core.messages.obligations import Facts, Obligation, asked_by, given_up, joined, obligation_at
from molecule_core.messages.owing import Owing
from molecule_core.messages.settling import handout, settle, standing
from molecule_core.messages.ticks import Statement, ticked_one
from molecule_core.org.model import PUSH, Workspace
from molecule_core.store.database import Step, Take, WriteSet
from molecule_core.store.journal import PUSHES, log_key, org_key
from molecule_core.wire.a2a import SEND as METHOD_SEND

# A caller that waits has this much longer to take the result than it waits.
HOLD_MARGIN_SECONDS = 10
COMPLETED = "completed"


class Logged(NamedTuple):
    """A row that enters a log: its id, its number there, and what is written and told with it."""

    id: str
    seq: int
    facts: Facts


class ResultOf(Struct, frozen=True, kw_only=True):
    """What a delegation has come to, as its result says it. `id`: of the row. `status`: completed, failed or cancelled;
    `text`: all that the caller reads; `chain_id`, `hop`, `cause_id`: where it stands among messages."""

    id: str
    delegation_id: str
    target_id: str
    parts: list[dict[str, Any]]
    text: str
    status: str
    reason: str | None = None
    error: str | None = None
    dedupe_key: str | None = None
    content_hash: str | None = None
    context_id: str | None = None
    cause_id: str | None = None
    chain_id: str | None = None
    hop: int = 0


class Results:
    """Makes these rows."""

    def __init__(self, owing: Owing, *, clock: Clock, ids: Ids) -> None:
        self._owing = owing
        self._clock = clock
        self._ids = ids

    def caller_row(
        self, source: Workspace, delegation_id: str, target_id: str, task: str, sender: str
    ) -> Generator[Step, Any, Logged]:
        """What a workspace has delegated, in its own log."""
        body = msgspec.json.encode({"task": task, "delegation_id": delegation_id})
        activity = Activity(
            id=self._ids.new(),
            org_id=source.org_id,
            workspace_id=source.id,
            seq=(yield Take("last_seq", source.id)),
            size=len(body),
            activity_type=DELEGATION,
            method=DELEGATE,
            source_id=source.id,
            target_id=target_id,
            sender=sender,
            status="pending",
            created_at=self._clock.now(),
            summary=shorten(task, SUMMARY_LENGTH),
            request_body=body.decode(),
        )
        return _entered(logged(None, activity, "ACTIVITY_LOGGED"), activity)

    def result_row(self, source: Workspace, about: ResultOf, held_until: int = 0) -> Generator[Step, Any, Logged]:
        """What a delegation has come to, in the inbox of who gave it. It always has room there, and is stopped by no
        chain: the work was allowed when it began. `held_until`: its caller waits for it until then (microseconds), and
        nobody else is handed it before."""
        now = self._clock.now()
        sent = yield from attachments.looked_up(about.parts, source.org_id, about.target_id)
        request = _request_body(about, sent.parts)
        response = _response_body(about)
        activity = Activity(
            id=about.id,
            org_id=source.org_id,
            workspace_id=source.id,
            inbound_no=(yield Take("last_inbound", source.id)),
            seq=(yield Take("last_seq", source.id)),
            size=len(request) + len(response),
            activity_type=RECEIVE,
            method=DELEGATE_RESULT,
            kind=KIND_RESULT,
            intent=INFORM,
            source_id=about.target_id,
            target_id=source.id,
            sender=f"workspace:{about.target_id}",
            dedupe_key=about.dedupe_key,
            content_hash=about.content_hash,
            context_id=about.context_id or about.id,
            status=COMPLETED if about.status == COMPLETED else "failed",
            created_at=now,
            summary=shorten(about.text, SUMMARY_LENGTH),
            error_detail=about.error,
            request_body=request.decode(),
            response_body=response.decode(),
            root_id=about.chain_id,
            hop=about.hop,
            cause_id=about.cause_id,
        )
        entered = logged(None, activity, "ACTIVITY_LOGGED", sent.file_ids)
        if held_until > now:
            entered.writes.append(handout(source.id, activity.seq, 1, lease_of(held_until), None))
        return _entered(with_its_delivery(entered, source, activity), activity)

    def said(self, workspace_id: str, text: str, context_id: str | None = None) -> Answer:
        """What the server says where a workspace says nothing."""
        parts = [{"kind": "text", "text": text}]
        return Answer(self._ids.new(), f"workspace:{workspace_id}", parts, text, None, None, context_id)

    def late_row(
        self, target: Workspace, source_id: str, delegation_id: str, answer: Answer
    ) -> Generator[Step, Any, Logged]:
        """What a workspace said of a delegation that had ended already: kept in its own log, and told to nobody."""
        metadata = {"delegation_id": delegation_id, "late": True}
        message = {
            "kind": "message",
            "role": "agent",
            "messageId": answer.id,
            "parts": answer.parts,
            "metadata": metadata,
        }
        body = _rpc(message)
        activity = Activity(
            id=answer.id,
            org_id=target.org_id,
            workspace_id=target.id,
            seq=(yield Take("last_seq", target.id)),
            size=len(body),
            activity_type=SEND,
            method=DELEGATE_RESULT,
            source_id=target.id,
            target_id=source_id,
            sender=answer.sender,
            dedupe_key=answer.dedupe_key,
            content_hash=answer.content_hash,
            context_id=answer.context_id or answer.id,
            created_at=self._clock.now(),
            summary=shorten(answer.text, SUMMARY_LENGTH),
            request_body=body.decode(),
        )
        return _entered(logged(None, activity, "ACTIVITY_LOGGED"), activity)

    def told_off(
        self, target: Workspace, source_id: str, text: str, about: Mapping[str, object]
    ) -> Generator[Step, Any, Logged]:
        """Who is at work on what has ended, or waits for what will not come, is told so. `about`: what programs read of
        it. It wants no answer, and always has room."""
        activity_id = self._ids.new()
        metadata = {"kind": KIND_SYSTEM, "intent": INFORM, **about}
        parts = [{"kind": "text", "text": text}]
        message = {"kind": "message", "role": "user", "messageId": activity_id, "parts": parts, "metadata": metadata}
        body = _rpc(message)
        activity = Activity(
            id=activity_id,
            org_id=target.org_id,
            workspace_id=target.id,
            inbound_no=(yield Take("last_inbound", target.id)),
            seq=(yield Take("last_seq", target.id)),
            size=len(body),
            activity_type=RECEIVE,
            method=METHOD_SEND,
            kind=KIND_SYSTEM,
            intent=INFORM,
            source_id=source_id,
            target_id=target.id,
            sender=f"workspace:{source_id}",
            context_id=activity_id,
            created_at=self._clock.now(),
            summary=shorten(text, SUMMARY_LENGTH),
            request_body=body.decode(),
        )
        entered = logged(None, activity, "ACTIVITY_LOGGED")
        return _entered(with_its_delivery(entered, target, activity), activity)

    # -- the message that carries it -----------------------------------------------------------------------------------

    def handled(self, workspace: Workspace, seq: int) -> Generator[Step, Any, Facts]:
        """The message at a place of an inbox is answered, and nobody is handed it any more."""
        inbox, held, is_handled = yield from standing(workspace.id, seq)
        if is_handled or self._is_pushed(workspace, held):
            return Facts([], [])
        return (yield from self._settled(workspace, inbox, held, seq, None))

    def over(
        self, workspace: Workspace, seq: int, reason: str, *, by_target: bool = False
    ) -> Generator[Step, Any, tuple[bool, Facts]]:
        """The message at a place of an inbox need not be worked on any more: nobody is handed it, and no answer to it
        is owed. A push that is under way is left to its own end. `by_target`: its workspace says so itself. Returns
        whether anybody has had it."""
        inbox, held, is_handled = yield from standing(workspace.id, seq)
        owed = yield from obligation_at(workspace.id, seq)
        closed = Facts([], [])
        if owed is not None and owed.is_open:
            now, is_answer = self._clock.now(), by_target and reason == COMPLETED
            closed = self._owing.answered(owed, now, None) if is_answer else self._owing.declined(owed, now, reason)
        if is_handled or self._is_pushed(workspace, held):
            return True, closed
        withdrawn = reason if owed is None and not by_target else None
        rest = yield from self._settled(workspace, inbox, held, seq, withdrawn)
        return owed is not None, _both(closed, rest)

    def lost(self, workspace: Workspace, seq: int, reason: str) -> Generator[Step, Any, Facts]:
        """The message at a place of an inbox was never delivered, and is settled: nobody owes an answer to it. Whoever
        said something in answer outside has had it all the same: what it owed has ended."""
        owed = yield from obligation_at(workspace.id, seq)
        if owed is not None and owed.is_open and owed.outside_at is not None:
            return self._owing.declined(owed, self._clock.now(), reason)
        return Facts(given_up(workspace.id, seq), [])

    def _is_pushed(self, workspace: Workspace, held: Handout | None) -> bool:
        is_held = held is not None and held.lease_until > self._clock.now()
        return is_held and workspace.delivery_mode == PUSH

    def _settled(
        self, workspace: Workspace, inbox: Inbox, held: Handout | None, seq: int, withdrawn: str | None
    ) -> Generator[Step, Any, Facts]:
        """One row is settled: handled, or `withdrawn` for a reason before anybody had it. That is no dead letter that
        somebody must look at."""
        asked = yield from asked_by(workspace.id, seq)
        if asked is None:
            return Facts([], [])
        now = self._clock.now()
        place = Place(seq, held.attempt if held else 0, asked.inbound_no)
        plain, again = ([], [place]) if held is not None and held.requeued else ([place], [])
        passed = inbox if withdrawn is None else replace(inbox, dead=inbox.dead + 1)
        _, writes = yield from settle(workspace.id, passed, plain, again, now)
        noted, told = ticked_one(
            workspace.id, ACKED if withdrawn is None else DEAD, seq, asked.inbound_no, now, withdrawn
        )
        writes = [*writes, *noted]
        if withdrawn is not None:
            row = {"workspace_id": workspace.id, "seq": seq}
            letter = {"org_id": workspace.org_id, "activity_id": asked.id, "reason": withdrawn, "detail": None}
            writes.append(("save_dead_letter", {**row, **letter, "attempts": place.attempt, "died_at": now}))
            writes.append(("set_dead_letter", {**row, "state": DISCARDED}))
        if workspace.delivery_mode == PUSH:
            writes.append(("wake_target", {"workspace_id": workspace.id, "due": now}))
        return Facts(writes, told, (log_key(workspace.id), org_key(workspace.org_id), PUSHES))

    # -- who waits for the result --------------------------------------------------------------------------------------

    def taken(self, workspace: Workspace, seq: int, held_until: int) -> Generator[Step, Any, tuple[str, Facts]]:
        """Who waits takes the result at a place of its inbox, which is handled by that (`here`); or somebody has
        handled it before (`before`), or has it in hand (`inbox`). `held_until`: the end of the wait that it was kept
        for."""
        inbox, held, is_handled = yield from standing(workspace.id, seq)
        is_held = held is not None and held.lease_until > self._clock.now()
        if is_handled:
            return "before", Facts([], [])
        if held is not None and is_held and held.lease_until != lease_of(held_until):
            return "inbox", Facts([], [])
        return "here", (yield from self._settled(workspace, inbox, held, seq, None))  # control: taken-result

    def let_go(self, workspace: Workspace, seq: int, held_until: int) -> Generator[Step, Any, Facts]:
        """Nobody waits for the result any more: the inbox hands it out, as if it had never been kept."""
        _, held, is_handled = yield from standing(workspace.id, seq)
        if is_handled or held is None or held.lease_until != lease_of(held_until):
            return Facts([], [])
        writes: list[Statement] = [handout(workspace.id, seq, 0, 0, None)]
        if workspace.delivery_mode == PUSH:
            writes.append(("wake_target", {"workspace_id": workspace.id, "due": self._clock.now()}))
        return Facts(writes, [], (log_key(workspace.id), PUSHES))


def answered(
    owing: Owing,
    owed: Obligation,
    answer: Answer,
    via: str,
    now: int,
    *,
    handled: bool,
    declined: bool = False,
    opens: Facts | None = None,
) -> WriteSet[Receipt]:
    """The answer to a message that carries a delegation, by whatever way it came: it ends what is owed and rises.
    `handled`: the same command settles the message in the inbox. What is not owed any more rises too: it came late.
    The caller has looked for its repetition before."""
    receipt = Receipt(answer.id, answer.context_id or answer.id, now)
    fact = Answered(owed.activity_id, answer, via, declined=declined, handled=handled, at=now)
    written = WriteSet(receipt, facts=[fact])
    if opens is not None:
        joined(written, opens)
    if not owed.is_open:
        return written
    by_handle = via == "reply"
    if declined:
        return joined(written, owing.declined(owed, now, answer.text, answer_id=answer.id, by_handle=by_handle))
    return joined(written, owing.answered(owed, now, answer.id, by_handle=by_handle))


def lease_of(held_until: int) -> int:
    """Until when a result is kept for a caller that waits until then (microseconds)."""
    return held_until + HOLD_MARGIN_SECONDS * SECOND


def _both(first: Facts, second: Facts) -> Facts:
    writes, events = [*first.writes, *second.writes], [*first.events, *second.events]
    return Facts(writes, events, (*first.rings, *second.rings), (*first.risen, *second.risen))


def _rpc(message: dict[str, Any]) -> bytes:
    """A regular message, as agents read every other one."""
    params = {"message": message, "metadata": {}}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": None, "method": METHOD_SEND, "params": params})


def _entered(written: WriteSet[None], activity: Activity) -> Logged:
    return Logged(activity.id, activity.seq, Facts(written.writes, written.events, written.rings))


def _request_body(about: ResultOf, parts: list[dict[str, Any]]) -> bytes:
    said = {"kind": KIND_RESULT, "intent": INFORM, "delegation_id": about.delegation_id, "status": about.status}
    metadata = {**said, **({} if about.reason is None else {"reason": about.reason})}
    message = {"kind": "message", "role": "agent", "messageId": about.id, "parts": parts, "metadata": metadata}
    return _rpc(message)


def _response_body(about: ResultOf) -> bytes:
    """What clients of the original read: the whole text, and whose result it is."""
    known = {"text": about.text, "delegation_id": about.delegation_id, "status": about.status}
    more = {"reason": about.reason, "error": about.error}
    return msgspec.json.encode({**known, **{name: value for name, value in more.items() if value is not None}})
