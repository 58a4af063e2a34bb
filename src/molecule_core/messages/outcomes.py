"""What came of a push, as it is written down: the answer, the next try, the end; and for delegations what others hear.

Above: `pushing`. Below: askers, letters, settling, turns. Nothing here touches the network. docs/delivery.md,
docs/delegations.md.
"""

from collections.abc import Generator
from typing import Any

from molecule_core.ground.clock import SECOND, Clock
from molecule_core.ground.ids import Ids, Randomness
from molecule_core.ground.limits import Limits
from molecule_core.ground.text import shorten
from molecule_core.messages import attachments, rules, turns
from molecule_core.messages.askers import Askers, Letter
from molecule_core.messages.entering import logged
from molecule_core.messages.facts import Accepted, Answer, Answered, Delayed, Explained, GivenUp, Unsure
from molecule_core.messages.letters import Letters
from molecule_core.messages.model import (
    ACKED,
    DEAD,
    EXPIRED,
    KIND_ASKED,
    KIND_DECIDED,
    KIND_PEER,
    KIND_USER,
    NOTIFY,
    REFUSED,
    SEND,
    UNREACHABLE,
    Activity,
    Inbox,
    Place,
)
from molecule_core.messages.obligations import Facts, Obligation, joined, not_taken, obligation_at
from molecule_core.messages.owing import Owing
from molecule_core.messages.pushed import AGENT_ERROR, UNSURE, Heard, MessageState, Push, Said, Verdict
from molecule_core.messages.settling import handled_letters, handout, inbox_of, settle, state_of
from molecule_core.messages.ticks import Statement, ticked
from molecule_core.org.model import PUSH
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Decision, Step, Take, WriteSet
from molecule_core.store.journal import PUSHES, answer_key, log_key, org_key
from molecule_core.wire.agentanswers import words_of

_SUMMARY_LENGTH = 80
# Of an agent that says nothing, or has answered by its tools.
_NOTHING = Heard(Said.TAKEN)


class Outcomes:
    """Writes down what came of pushes."""

    def __init__(
        self,
        org: OrgReader,
        letters: Letters,
        askers: Askers,
        owing: Owing,
        *,
        clock: Clock,
        ids: Ids,
        randomness: Randomness,
        limits: Limits,
    ) -> None:
        self._org = org
        self._letters = letters
        self._askers = askers
        self._owing = owing
        self._clock = clock
        self._ids = ids
        self._randomness = randomness
        self._limits = limits

    def held(self, push: Push) -> Generator[Step, Any, MessageState | None]:
        """How a message stands, if this push still holds it: its lease may have ended, somebody else may have it."""
        state = yield from state_of(push.activity_id)
        seat = self._org.workspace(push.workspace_id)
        if state is None or seat is None or seat.removed:
            return None
        return state if state.acked_at is None and state.attempt == push.attempt else None

    def of_message(self, push: Push, verdict: Verdict, heard: Heard | None, counts: bool) -> Decision[None]:
        """What came of the push of a message, if this push still holds it. `heard`: its agent's answer, read; `counts`:
        whether a failure does."""
        state = yield from self.held(push)
        if state is None:
            return WriteSet(None)
        inbox = yield from inbox_of(push.workspace_id)
        owed = yield from obligation_at(push.workspace_id, push.seq)
        # By its tools, before the push failed.
        is_answered = owed is not None and not owed.is_open
        if verdict.answer is not None or is_answered:
            return (yield from self._answered(push, state, inbox, owed, verdict.answer or "{}", heard or _NOTHING))
        now = self._clock.now()
        failures = state.failures + int(turns.is_counted(state.kind, verdict, counts=counts))
        if state.expires_at is not None and state.expires_at <= now and not state.requeued:
            return (yield from self._letters.dying(inbox, state, EXPIRED, verdict.error))
        if failures >= turns.tries_of(state.kind, verdict, self._limits):
            reason = REFUSED if verdict.refused else UNREACHABLE
            return (yield from self._letters.dying(inbox, state, reason, verdict.error))
        return self._put_off(push, state, verdict, failures, now, counts=counts)[0]

    def _put_off(
        self, push: Push, state: MessageState, verdict: Verdict, failures: int, now: int, *, counts: bool
    ) -> tuple[WriteSet[None], int]:
        """The message is pushed again, at the time that is returned too."""
        # control: jitter-source
        tries, bits = failures if counts else push.attempt, self._randomness.bits(turns.jitter_bits())
        next_at = now + round(turns.pause_of(state.kind, tries, verdict, bits, self._limits, counts=counts) * SECOND)
        is_busy = turns.has_no_time(state.kind, verdict)
        noted = {"failures": failures, "next_at": next_at, "busy": int(is_busy), "noted_at": now}
        said = {"last_error": verdict.error, "answer": None, "answered_at": None}
        writes: list[Statement] = [
            handout(push.workspace_id, push.seq, push.attempt, now, None),
            ("save_push", {"workspace_id": push.workspace_id, "seq": push.seq, **noted, **said}),
            ("wake_target", {"workspace_id": push.workspace_id, "due": next_at}),
            *not_taken(push.workspace_id, push.seq),
        ]
        return WriteSet(None, writes, rings=(answer_key(push.activity_id), PUSHES)), next_at

    def _answered(
        self,
        push: Push,
        state: MessageState,
        inbox: Inbox,
        owed: Obligation | None,
        answer: str,
        heard: Heard = _NOTHING,
    ) -> Decision[None]:
        now = self._clock.now()
        written = yield from self._settled(push, state, inbox, now, ACKED, answer=answer)
        row: Letter | None = None
        if state.kind == KIND_USER and heard.parts:
            row = yield from self._line_for_the_user(state, heard, now)
        elif owed is not None and owed.is_open and owed.kind == KIND_PEER:
            row = yield from self._askers.answered(owed, heard)
        if row is not None:
            joined(written, row.facts)
        return joined(written, self._closed_by(owed, heard, None if row is None else row.id, now))

    def _settled(
        self,
        push: Push,
        state: MessageState,
        inbox: Inbox,
        now: int,
        tick: str | None,
        *,
        answer: str | None = None,
        error: str | None = None,
        reason: str | None = None,
    ) -> Decision[None]:
        """The message is not pushed any more: with what its agent answered, or why not."""
        workspace_id, place = push.workspace_id, Place(state.seq, state.attempt, state.no)
        plain, again = ([], [place]) if state.requeued else ([place], [])
        _, writes = yield from settle(workspace_id, inbox, plain, again, now)
        noted, told = ([], []) if tick is None else ticked(workspace_id, tick, rules.spans([place]), now, reason)
        kept = {"failures": state.failures, "next_at": 0, "busy": 0, "noted_at": now}
        said = {"last_error": error or state.last_error, "answer": answer, "answered_at": answer and now}
        row = {"workspace_id": workspace_id, "seq": push.seq, **kept, **said}
        writes += [*handled_letters(workspace_id, again), *noted, ("save_push", row)]
        writes.append(("wake_target", {"workspace_id": workspace_id, "due": now}))
        rings = (answer_key(state.id), log_key(workspace_id), org_key(self._org.living(workspace_id).org_id), PUSHES)
        return WriteSet(None, writes, told if tick == ACKED else [], rings)

    def _closed_by(self, owed: Obligation | None, heard: Heard, row_id: str | None, now: int) -> Facts:
        """What an agent's answer to a push does to what it owes: words, data and files answer it, an error or the word
        that it will not declines it, and nothing leaves it open: such an agent has only said that it has the message.
        `row_id`: where the answer stands, if it has a row."""
        if owed is None or not owed.is_open or heard.said is Said.TAKEN:
            return Facts([], [])
        if owed.kind == KIND_ASKED:  # no text is a decision; the time for it goes on
            return Facts([], [])
        if owed.kind == KIND_DECIDED and heard.parts:
            if not heard.text:  # only words explain
                return Facts([], [])
            risen = (Explained(owed.activity_id, owed.seq, heard.text, now),)
            return self._owing.answered(owed, now, None)._replace(risen=risen)
        if heard.said is Said.WORDS:
            return self._owing.answered(owed, now, row_id)
        return self._owing.declined(owed, now, heard.text, answer_id=row_id)

    # -- delegations ---------------------------------------------------------------------------------------------------

    def of_delegation(self, push: Push, verdict: Verdict, heard: Heard | None, counts: bool) -> Decision[None]:
        """The same of a message that carries a delegation: it never dies, but others hear what came of it. `heard`: its
        agent's answer, read."""
        state = yield from self.held(push)
        if state is None:
            return WriteSet(None)
        inbox = yield from inbox_of(push.workspace_id)
        owed = yield from obligation_at(push.workspace_id, push.seq)
        if owed is not None and not owed.is_open and (heard is None or owed.answer_id is not None):
            # It has ended, or the agent has answered by its tools: what it says besides, or that it failed, is nothing.
            return (yield from self._answered(push, state, inbox, owed, verdict.answer or "{}"))
        now, error = self._clock.now(), turns.why(verdict)
        if heard is not None:
            written = yield from self._settled(push, state, inbox, now, ACKED, answer=verdict.answer)
            seat = self._org.living(push.workspace_id)
            parts = yield from attachments.sendable(heard.parts, seat.org_id, seat.id)
            return joined(written, self._told_by(push, state, owed, heard, parts, now))
        if verdict.code == UNSURE:
            written = yield from self._settled(push, state, inbox, now, None, error=error)
            written.facts.append(Unsure(state.id, error, now))
            return written
        is_counted = turns.is_counted(state.kind, verdict, counts=counts)
        failures = state.failures + int(is_counted)
        if is_counted and failures >= turns.tries_of(state.kind, verdict, self._limits):
            written = yield from self._settled(push, state, inbox, now, DEAD, error=error, reason=verdict.code)
            written.facts.append(GivenUp(state.id, verdict.code, error, now))
            return written
        written, next_at = self._put_off(push, state, verdict, failures, now, counts=counts)
        is_waiting = turns.has_no_time(state.kind, verdict) or not counts
        written.facts.append(Delayed(state.id, is_waiting, error, next_at, now))
        return written

    def _told_by(
        self,
        push: Push,
        state: MessageState,
        owed: Obligation | None,
        heard: Heard,
        parts: list[dict[str, Any]],
        now: int,
    ) -> Facts:
        """What an agent's answer says of a delegation, and what it does to what the agent owes."""
        if heard.said is Said.TAKEN:
            return Facts([], [], risen=(Accepted(state.id, now),))
        is_open = owed is not None and owed.is_open
        if heard.said is Said.ERROR:
            closed = self._owing.declined(owed, now, heard.text) if owed is not None and is_open else Facts([], [])
            return closed._replace(risen=(GivenUp(state.id, AGENT_ERROR, heard.text, now),))
        answer = Answer(
            id=self._ids.new(),
            sender=f"workspace:{push.workspace_id}",
            parts=parts,
            text=heard.text,
            dedupe_key=None,
            content_hash=None,
            context_id=state.context_id,
        )
        is_no = heard.said is Said.NO
        fact = Answered(state.id, answer, PUSH, declined=is_no, handled=True, at=now)
        if owed is None or not is_open:
            return Facts([], [], risen=(fact,))
        if is_no:
            return self._owing.declined(owed, now, heard.text, answer_id=answer.id)._replace(risen=(fact,))
        return self._owing.answered(owed, now, answer.id)._replace(risen=(fact,))

    def _line_for_the_user(self, state: MessageState, heard: Heard, now: int) -> Generator[Step, Any, Letter]:
        """What an agent answers to a person belongs into their chat, as if the agent had written it there."""
        seat, activity_id = self._org.living(state.workspace_id), self._ids.new()
        shown = (_in_words(part) if part["kind"] == "data" else part for part in heard.parts)
        parts = yield from attachments.sendable(shown, seat.org_id, seat.id)
        sent = yield from attachments.looked_up(parts, seat.org_id, seat.id)
        body = rules.notice_body(activity_id, sent.parts)
        row = Activity(
            id=activity_id,
            org_id=seat.org_id,
            workspace_id=seat.id,
            seq=(yield Take("last_seq", seat.id)),
            chat=1,
            size=len(body),
            activity_type=SEND,
            method=NOTIFY,
            source_id=seat.id,
            sender=f"workspace:{seat.id}",
            context_id=state.context_id or activity_id,
            created_at=now,
            summary=shorten(rules.text_of(parts), _SUMMARY_LENGTH),
            request_body=body.decode(),
            root_id=state.id,
            cause_id=state.id,
        )
        written = logged(None, row, "AGENT_MESSAGE", sent.file_ids)
        return Letter(row.id, Facts(written.writes, written.events, written.rings))


def _in_words(part: dict[str, Any]) -> dict[str, Any]:
    """Data, as a chat can show it."""
    return {"kind": "text", "text": words_of(part)}
