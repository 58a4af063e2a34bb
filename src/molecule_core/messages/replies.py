"""Replies: what is answered by its handle, declined, or answered outside and kept as a draft.

One command each: the answer goes out, the obligation ends and the message is handled in one transaction, or nothing of
it happens. Above: the edges. Below: the writer, settling, obligations. docs/obligations.md.
"""

from collections.abc import Callable, Generator
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from molecule_core.ground.clock import Clock
from molecule_core.ground.errors import (
    ChainEnded,
    ChainFrozen,
    HandleOfAnother,
    InboxFull,
    MayNotTalk,
    NoDraft,
    NotFound,
    UnknownHandle,
    WorkspaceRemoved,
)
from molecule_core.ground.ids import Ids
from molecule_core.ground.refusals import DecideInstead
from molecule_core.ground.text import shorten
from molecule_core.messages import attachments, rules
from molecule_core.messages.answers import Out, draft_of, first_of, out_of, receipt_of, stale, with_answer
from molecule_core.messages.asking import approval_of
from molecule_core.messages.facts import Answer
from molecule_core.messages.handles import parse
from molecule_core.messages.model import (
    ANSWERED,
    DECLINED,
    KIND_ASKED,
    KIND_DECIDED,
    KIND_DELEGATION,
    KIND_PEER,
    SEND,
    SUMMARY_LENGTH,
    Activity,
    Draft,
    Line,
    Receipt,
)
from molecule_core.messages.obligations import (
    Answers,
    Asked,
    Facts,
    Obligation,
    drafted,
    dropped,
    joined,
    obligation_at,
    owes_key,
    unopened,
)
from molecule_core.messages.owing import Owing
from molecule_core.messages.results import answered
from molecule_core.messages.settling import Settling, inbox_keys, standing
from molecule_core.messages.writer import MessageWriter
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Command, Decision, Event, Step, Store, T, Take, WriteSet
from molecule_core.store.journal import log_key, org_key
from molecule_core.wire.a2a import SEND as METHOD_SEND

LATE = "late"
"""How a message stands whose delegation had ended when it was answered: what was said is kept, and changes nothing."""
# Why a peer cannot be told any more.
_OUT_OF_REACH = (NotFound, WorkspaceRemoved, MayNotTalk, InboxFull, ChainFrozen, ChainEnded)


class Replied(Struct, frozen=True):
    """What came of an answer: the row that it is (none: nothing was said), the message that it answers, how that one
    stands now, and whether it is handled."""

    receipt: Receipt | None
    asked: Asked
    state: str
    acknowledged: bool


class Replies:
    """Answers messages, by handle or from what was kept."""

    def __init__(
        self,
        store: Store,
        org: OrgReader,
        writer: MessageWriter,
        settling: Settling,
        owing: Owing,
        *,
        clock: Clock,
        ids: Ids,
    ) -> None:
        self._store = store
        self._org = org
        self._writer = writer
        self._settling = settling
        self._owing = owing
        self._clock = clock
        self._ids = ids

    # -- by handle -----------------------------------------------------------------------------------------------------

    async def asked(self, workspace_id: str, handle: str) -> Asked:
        """The message that a handle names in the inbox of a workspace. Raises UnknownHandle: of other inboxes, and of
        none, it says the same."""
        place = parse(handle)
        rows = await self._store.rows("asked", {"workspace_id": workspace_id, "seq": place.seq}) if place else []
        asked = Asked(*rows[0]) if rows else None
        if asked is None or place is None or asked.handle != f"m{place.seq}-{place.check}":
            raise UnknownHandle
        return asked

    async def reply(
        self, workspace_id: str, handle: str, parts: list[dict[str, Any]], *, progress: bool = False, key: str | None
    ) -> Replied:
        """Answers a message, wherever it came from; with `progress` only says that it is being worked on. (`key` tells
        repetitions of the latter; an answer is told by its handle: a second one is the first one.)

        Raises UnknownHandle, StaleHandle, and what sending and notifying raise."""
        asked = await self.asked(workspace_id, handle)
        metadata = {"in_reply_to": asked.id, **({"progress": True} if progress else {})}
        return await self.answer(asked, out_of(asked, parts, metadata, key), progress=progress, own_row=True)

    async def answer(self, asked: Asked, out: Out, *, progress: bool, own_row: bool = False) -> Replied:
        """Sends what answers a message by its handle; `own_row`: and notes it in the sender's own log, if it goes to a
        peer. Raises HandleOfAnother, DecideInstead, and as `reply`."""
        if not progress:
            _check_text_answers(asked)
        key = out.dedupe_key if progress else f"reply:{asked.handle}"
        return await self._run(asked, replace(out, dedupe_key=key), partial(self._answering, asked, progress, own_row))

    def check_goes_to(self, asked: Asked, target_id: str | None) -> None:
        """An answer goes to whom its handle names. Raises HandleOfAnother."""
        if asked.source_id != target_id:
            raise HandleOfAnother(whom="the user" if asked.source_id is None else f"workspace {asked.source_id}")

    def _answering(self, asked: Asked, progress: bool, own_row: bool, out: Out) -> Decision[Replied]:
        first = None if progress else (yield from first_of(asked, out))
        owed, opens = yield from self._owed(asked, ends=not progress)
        state = LATE if _is_late(asked, owed) else ANSWERED
        if first is not None:
            return WriteSet(Replied(first, asked, state, acknowledged=True))
        if owed is not None and not owed.is_open and (progress or state != LATE):
            raise (yield from stale(asked, owed))
        answers = Answers(asked.id, owed, progress, by_handle=True, opens=opens)
        handled = WriteSet(0) if progress else (yield from self._handling(asked))
        written = yield from self._saying(asked, out, answers)
        if written.refusal is not None:
            return with_answer(written, Replied(None, asked, "", acknowledged=False))
        told = Replied(written.answer, asked, "open" if progress else state, acknowledged=not progress)
        done = with_answer(written, told)
        if own_row and isinstance(out, Draft) and asked.kind != KIND_DECIDED:
            joined(done, (yield from self._own_row(asked, out)))
        return joined(done, Facts(handled.writes, handled.events, handled.rings))

    def _handling(self, asked: Asked) -> Decision[int]:
        return (yield from self._settling.answering(asked.workspace_id, asked.seq, asked.inbound_no))

    async def decline(self, workspace_id: str, handle: str, reason: str) -> Replied:
        """Says that there will be no answer, and why. A peer that asked is told so; a person sees it at the message.

        Raises UnknownHandle, StaleHandle, and what sending raises."""
        asked = await self.asked(workspace_id, handle)
        _check_text_answers(asked)
        if asked.kind == KIND_DECIDED:  # who wants leave and says nothing more has said that
            return await self.reply(workspace_id, handle, [{"kind": "text", "text": reason}], key=None)
        metadata = {"in_reply_to": asked.id, "declined": True}
        out = out_of(asked, [{"kind": "text", "text": reason}], metadata, f"decline:{asked.handle}")
        return await self._run(asked, out, partial(self._declining, asked, reason))

    def _declining(self, asked: Asked, reason: str, out: Out) -> Decision[Replied]:
        owed, opens = yield from self._owed(asked, ends=True)
        if owed is not None and not owed.is_open:
            if _is_late(asked, owed) and isinstance(out, Draft):
                return (yield from self._declining_late(asked, out, owed))
            if not owed.by_handle:
                raise (yield from stale(asked, owed))
            return WriteSet(Replied(receipt_of(owed), asked, owed.state, acknowledged=True))
        handled = yield from self._handling(asked)
        written: WriteSet[Receipt | None] = WriteSet(None, [], [], (org_key(asked.org_id),))
        if owed is not None and asked.kind == KIND_DELEGATION and isinstance(out, Draft):
            answers = Answers(asked.id, owed, by_handle=True, opens=opens)
            ended = yield from self._ending(asked, out, answers, "reply", declined=True)
            told = Replied(ended.answer, asked, DECLINED, acknowledged=True)
            return joined(with_answer(ended, told), Facts(handled.writes, handled.events, handled.rings))
        if isinstance(out, Draft):
            written = yield from self._telling_peer(asked, out)
        receipt = written.answer
        done = joined(with_answer(written, Replied(receipt, asked, DECLINED, acknowledged=True)), opens)
        if owed is not None:
            answer_id = None if receipt is None else receipt.activity_id
            joined(done, self._owing.declined(owed, self._clock.now(), reason, answer_id=answer_id, by_handle=True))
        return joined(done, Facts(handled.writes, handled.events, handled.rings))

    def _declining_late(self, asked: Asked, out: Draft, owed: Obligation) -> Decision[Replied]:
        first = yield from first_of(asked, out)
        if first is not None:
            return WriteSet(Replied(first, asked, LATE, acknowledged=True))
        answers = Answers(asked.id, owed, by_handle=True)
        noted = yield from self._ending(asked, out, answers, "reply", declined=True)
        return with_answer(noted, Replied(noted.answer, asked, LATE, acknowledged=True))

    def _telling_peer(self, asked: Asked, out: Draft) -> Decision[Receipt | None]:
        """Who asked is told, if it can be reached still; that there will be no answer holds either way."""
        self._org.living(asked.workspace_id)
        unsaid: WriteSet[Receipt | None] = WriteSet(None, [], [], (org_key(asked.org_id),))
        try:
            written = yield from self._sending(asked, out, Answers(asked.id))
        except _OUT_OF_REACH:
            return unsaid
        if written.refusal is None:
            return with_answer(written, written.answer)
        return joined(unsaid, Facts(written.writes, written.events, written.rings))

    # -- drafts --------------------------------------------------------------------------------------------------------

    async def keep_draft(self, workspace_id: str, activity_id: str, text: str) -> str:
        """An agent has said this in answer to a message, and called nothing that sends it. It is kept, or sent if the
        workspace is set so; returns how the message stands now, empty if it wants no answer. The same text again
        changes nothing.

        Raises NotFound, WorkspaceRemoved, and what sending and notifying raise."""
        asked = await self._message(workspace_id, activity_id)
        return await self._run(asked, draft_of(asked, text), partial(self._keeping, asked, text))

    def _keeping(self, asked: Asked, text: str, out: Out) -> Decision[str]:
        sends = self._org.living(asked.workspace_id).send_drafts
        owed, opens = yield from self._owed(asked, ends=sends)
        if owed is None or asked.kind == KIND_ASKED or (opens.writes and (yield from self._is_over(asked))):
            return WriteSet("")
        if not owed.is_open or owed.draft == text:
            return WriteSet(owed.standing)
        if sends:
            sent = yield from self._sending_draft(asked, out, Answers(asked.id, owed, opens=opens), owed)
            return with_answer(sent, ANSWERED)
        kept = replace(owed, outside_at=owed.outside_at or self._clock.now())
        facts = self._owing.kept_outside(owed, text, self._clock.now())
        told: WriteSet[str] = WriteSet(kept.standing, [], [], (org_key(asked.org_id),))
        return joined(joined(told, opens), facts)

    def _is_over(self, asked: Asked) -> Generator[Step, Any, bool]:
        """Whether a delegation had ended before anybody had its message: nothing is owed for it any more."""
        _, _, is_handled = yield from standing(asked.workspace_id, asked.seq)
        return is_handled and asked.kind == KIND_DELEGATION

    async def send_draft(self, workspace_id: str, activity_id: str, text: str | None) -> Receipt:
        """A person sends what an agent has said, perhaps in other words, as the workspace. Asking again gives the first
        answer. Raises NotFound, NoDraft, WorkspaceRemoved, and what sending and notifying raise."""
        asked = await self._message(workspace_id, activity_id)
        rows = await self._store.rows("obligation", {"workspace_id": workspace_id, "seq": asked.seq})
        said = text or (Obligation(*rows[0]).draft if rows else None) or ""
        return await self._run(asked, draft_of(asked, said), partial(self._sending_kept, asked, text is None, said))

    def _sending_kept(self, asked: Asked, as_kept: bool, said: str, out: Out) -> Decision[Receipt]:
        first = yield from first_of(asked, out)
        if first is not None:
            return WriteSet(first)
        owed = yield from obligation_at(asked.workspace_id, asked.seq)
        if owed is None or not owed.is_open or owed.draft is None:
            raise NoDraft(state="not waiting for an answer" if owed is None else owed.standing)
        if as_kept and owed.draft != said:  # the agent has said something else since it was read
            raise NoDraft(state="answered outside anew; look at what the draft says now")
        return (yield from self._sending_draft(asked, out, Answers(asked.id, owed), owed))

    def _sending_draft(self, asked: Asked, out: Out, answers: Answers, owed: Obligation) -> Decision[Receipt]:
        written = yield from self._saying(asked, out, answers, via="draft")
        if written.refusal is not None:
            return written
        if isinstance(out, Draft) and asked.kind != KIND_DECIDED:  # what explains has its row in the own log already
            joined(written, (yield from self._own_row(asked, out)))
        return joined(written, Facts([], [drafted(owed, "sent")]))

    async def discard_draft(self, workspace_id: str, activity_id: str) -> str:
        """A person does not want it sent; returns how the message stands then. Asking again changes nothing.

        Raises NotFound, WorkspaceRemoved."""
        asked = await self._message(workspace_id, activity_id)

        def decide() -> Decision[str]:
            self._org.living(workspace_id)
            owed = yield from obligation_at(workspace_id, asked.seq)
            if owed is None or not owed.is_open or owed.outside_at is None:
                return WriteSet("" if owed is None else owed.standing)
            facts = dropped(owed)
            stands = replace(owed, outside_at=None).standing
            return WriteSet(stands, facts.writes, facts.events, (org_key(asked.org_id),))

        return await self._store.run(Command(asked.org_id, (owes_key(workspace_id, asked.source_id),), decide))

    # -- steps ---------------------------------------------------------------------------------------------------------

    async def _message(self, workspace_id: str, activity_id: str) -> Asked:
        """A message of the inbox of a workspace. Raises NotFound."""
        places = await self._store.rows("place_of_activity", {"id": activity_id, "workspace_id": workspace_id})
        rows = await self._store.rows("asked", {"workspace_id": workspace_id, "seq": places[0][0] if places else 0})
        if not rows:
            raise NotFound(what="message")
        return Asked(*rows[0])

    async def _run(self, asked: Asked, out: Out, decide: Callable[[Out], Decision[T]]) -> T:
        """One command that may send, change what is owed, and settle."""
        self._org.living(asked.workspace_id)
        if isinstance(out, Line):
            keys = self._writer.keys_of_noticing(asked.workspace_id, out)
        else:
            keys = self._writer.keys_of_sending(asked.source_id or "", out)
        every = (*inbox_keys(asked.workspace_id), *keys)
        # An explanation is followed far: were it not alone, its whole group would be decided twice.
        alone = asked.kind == KIND_DECIDED
        return await self._store.run(Command(asked.org_id, every, partial(decide, out), alone=alone))

    def _sending(self, asked: Asked, out: Out, answers: Answers) -> Decision[Receipt]:
        if isinstance(out, Line):
            return (yield from self._writer.noticing(asked.workspace_id, out, answers))
        return (yield from self._writer.sending(asked.source_id or "", out, answers))

    def _saying(self, asked: Asked, out: Out, answers: Answers, *, via: str = "reply") -> Decision[Receipt]:
        """An answer as a message; or, if what is answered carries a delegation, as what ends that; or, if it is a
        question about an approval, as what its workspace says to that."""
        owed = None if answers.progress else answers.owed
        if asked.kind == KIND_DECIDED and owed is not None and isinstance(out, Draft):
            return (yield from self._writer.explaining(asked.source_id or "", out, answers, owed))
        is_end = asked.kind == KIND_DELEGATION and answers.owed is not None and not answers.progress
        if not is_end or not isinstance(out, Draft):
            return (yield from self._sending(asked, out, answers))
        return (yield from self._ending(asked, out, answers, via))

    def _ending(
        self, asked: Asked, out: Draft, answers: Answers, via: str, *, declined: bool = False
    ) -> Decision[Receipt]:
        """What ends a delegation, in the words of who has it."""
        sent = yield from attachments.looked_up(out.message["parts"], asked.org_id, asked.workspace_id)
        hashed = rules.content_hash(asked.source_id or "", out)
        said = Answer(
            self._ids.new(), out.sender.key, sent.parts, out.text, out.dedupe_key, hashed, out.context_id or asked.id
        )
        owed, now = answers.owed or unopened(asked, self._clock.now()), self._clock.now()
        handled, opens = via == "reply", answers.opens
        return answered(self._owing, owed, said, via, now, handled=handled, declined=declined, opens=opens)

    def _owed(self, asked: Asked, *, ends: bool) -> Generator[Step, Any, tuple[Obligation | None, Facts]]:
        return (yield from self._owing.owed_for(self._org.living(asked.workspace_id), asked, ends=ends))

    def _own_row(self, asked: Asked, out: Draft) -> Generator[Step, Any, Facts]:
        """What a workspace says to a peer stands in its own log too, or its own history would know only half."""
        activity_id, now = self._ids.new(), self._clock.now()
        body = rules.stored_body(out, KIND_PEER, activity_id)
        row = Activity(
            id=activity_id,
            org_id=asked.org_id,
            workspace_id=asked.workspace_id,
            seq=(yield Take("last_seq", asked.workspace_id)),
            size=len(body),
            activity_type=SEND,
            method=METHOD_SEND,
            source_id=asked.workspace_id,
            target_id=asked.source_id,
            sender=out.sender.key,
            context_id=out.context_id,
            created_at=now,
            summary=shorten(out.text, SUMMARY_LENGTH),
            request_body=body.decode(),
        )
        event = Event("ACTIVITY_LOGGED", asked.workspace_id, "activity", activity_id, at=now)
        return Facts([("insert_activity", row)], [event], (log_key(asked.workspace_id),))


def _check_text_answers(asked: Asked) -> None:
    """Raises DecideInstead for what asks for a decision: no text is one."""
    if asked.kind == KIND_ASKED:
        raise DecideInstead(approval_id=approval_of(asked.id))


def _is_late(asked: Asked, owed: Obligation | None) -> bool:
    """Whether a delegation had ended otherwise when its answer came. That is kept, and changes nothing."""
    if owed is None or owed.is_open or asked.kind != KIND_DELEGATION:
        return False
    return owed.answer_id is None and not owed.by_handle
