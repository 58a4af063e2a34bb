"""The hand that makes messages: what is sent, said to the user, logged, read. What becomes of them is `handing`'s."""

import asyncio
from collections.abc import Generator
from functools import partial
from typing import Any

import msgspec

from molecule_core.ground.clock import SECOND, Clock
from molecule_core.ground.errors import InboxFull, MayNotTalk, TalkToUserDisabled
from molecule_core.ground.ids import Ids
from molecule_core.ground.limits import Limits
from molecule_core.ground.refusals import DecideInstead
from molecule_core.ground.text import shorten
from molecule_core.messages import attachments, patience, rules
from molecule_core.messages.asking import approval_of, explained
from molecule_core.messages.broadcasts import Broadcasts
from molecule_core.messages.chains import Chains
from molecule_core.messages.entering import logged, with_its_delivery
from molecule_core.messages.facts import Answer, Progressed, Returned
from molecule_core.messages.lineage import BEGINS
from molecule_core.messages.model import (
    KIND_ASKED,
    KIND_DECIDED,
    KIND_DELEGATION,
    KIND_PEER,
    KIND_USER,
    NOTIFY,
    RECEIVE,
    SEND,
    SUMMARY_LENGTH,
    Activity,
    Draft,
    Handout,
    Inbox,
    Line,
    LogEntry,
    Receipt,
)
from molecule_core.messages.obligations import (
    Answers,
    Facts,
    Obligation,
    due_at,
    joined,
    not_taken,
    owes_key,
    progressed,
)
from molecule_core.messages.owing import Owing
from molecule_core.messages.results import answered
from molecule_core.messages.settling import handout, inbox_keys, inbox_of
from molecule_core.messages.ticks import Statement
from molecule_core.org.model import Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.org.rules import may_talk
from molecule_core.store.database import Command, Decision, Peek, Read, Step, Store, Take, WriteSet
from molecule_core.wire.a2a import SEND as METHOD_SEND


class MessageWriter:
    """Sends and logs messages."""

    def __init__(
        self,
        store: Store,
        org: OrgReader,
        *,
        clock: Clock,
        ids: Ids,
        limits: Limits,
        owing: Owing | None = None,
    ) -> None:
        self._store = store
        self._org = org
        self._clock = clock
        self._ids = ids
        self._limits = limits
        self._owing = owing or Owing(clock, limits)
        self.chains = Chains(store, clock=clock, limits=limits)
        self.broadcasts = Broadcasts(store, org, self.chains, clock=clock, ids=ids, limits=limits)

    # -- sending -------------------------------------------------------------------------------------------------------

    def send(self, workspace_id: str, draft: Draft) -> "asyncio.Future[Receipt]":
        """A message enters an inbox, exactly once for each (sender, id). The receipt comes when it is durable.

        Raises NotFound, WorkspaceRemoved; the future MayNotTalk, MessageIdReused, ChainFrozen, ChainEnded,
        InboxFull, InvalidMessage."""
        target, sender_id = self._org.living(workspace_id), draft.sender.workspace_id

        def command(alone: bool) -> Command[Receipt]:
            keys = self.keys_of_sending(workspace_id, draft, alone=alone)
            return Command(target.org_id, keys, partial(self.sending, workspace_id, draft, alone=alone))

        if sender_id is None:
            return self._store.run(command(alone=False))
        return self._owing.run(self._store, sender_id, workspace_id, command)

    def keys_of_sending(self, workspace_id: str, draft: Draft, *, alone: bool = True) -> tuple[tuple[str, ...], ...]:
        """The keys of a command that sends a message; `alone`: and may answer one by that."""
        sender = draft.sender
        key = () if draft.dedupe_key is None else (("message", sender.key, draft.dedupe_key),)
        owes: tuple[tuple[str, ...], ...] = ()
        if alone and sender.workspace_id is not None:
            # What carries a delegation is settled in its inbox by the answer.
            owes = (owes_key(sender.workspace_id, workspace_id), *inbox_keys(sender.workspace_id))
        return (*key, *owes, *attachments.keys_of(draft.message["parts"]))

    def sending(
        self, workspace_id: str, draft: Draft, answers: Answers | None = None, *, alone: bool = True
    ) -> Decision[Receipt]:
        """The decision to send a message; `answers`: what it was found to answer. Raises NotAlone."""
        target, sender = self._org.living(workspace_id), draft.sender
        if sender.workspace_id is not None and not may_talk(self._org, self._org.living(sender.workspace_id), target):
            raise MayNotTalk
        life = rules.life_of(draft, self._limits.expires_seconds)
        hashed = None
        if draft.dedupe_key is not None:
            hashed = rules.content_hash(workspace_id, draft)
            twins = yield Read("find_twin", {"sender": sender.key, "dedupe_key": draft.dedupe_key})
            if twins:
                first = rules.repeated(twins[0], hashed=hashed, message_id=draft.dedupe_key)
                return (yield from patience.held_again(draft, target, first, self._clock.now()))
        if sender.workspace_id is not None and answers is None:
            said, own = draft.message["metadata"], self._org.living(sender.workspace_id)
            answers = yield from self._owing.answers(own, workspace_id, said, alone=alone)
            work = answers.owed
            if work is not None and work.kind == KIND_DELEGATION and rules.asks_back(said, work.activity_id):
                answers = msgspec.structs.replace(answers, progress=True)
        owed = None if answers is None or answers.progress else answers.owed
        if answers is not None and owed is not None and owed.kind == KIND_DELEGATION:
            return (yield from self._ending(target, draft, answers, owed, hashed))
        if answers is not None and owed is not None and owed.kind in (KIND_ASKED, KIND_DECIDED):
            said = Answer("", draft.sender.key, draft.message["parts"], draft.text, draft.dedupe_key, hashed, None)
            return (yield from self._explaining(target.org_id, answers, owed, said))
        most_inbound = yield from self._room_in(workspace_id)
        link = BEGINS
        if sender.workspace_id is not None and answers is not None:
            place = yield from self.chains.place(
                target.org_id,
                sender.workspace_id,
                answers.named,
                target_id=workspace_id,
                text=None if draft.kind == KIND_DELEGATION else rules.only_text(draft),
            )
            if isinstance(place, WriteSet):
                return place
            link = place
            draft = rules.with_its_intent(draft, link, answers=answers.owed is not None)
        sent = yield from attachments.looked_up(draft.message["parts"], target.org_id, sender.workspace_id)
        if sent.parts is not draft.message["parts"]:
            draft = msgspec.structs.replace(draft, message={**draft.message, "parts": sent.parts})
        inbound_no = yield from self._numbered(workspace_id, most_inbound)
        activity_id, now = draft.activity_id or self._ids.new(), self._clock.now()
        kind = draft.kind or (KIND_USER if sender.workspace_id is None else KIND_PEER)
        body = rules.stored_body(draft, kind, draft.message.get("messageId") or activity_id)
        activity = Activity(
            id=activity_id,
            org_id=target.org_id,
            workspace_id=workspace_id,
            seq=(yield Take("last_seq", workspace_id)),
            inbound_no=inbound_no,
            chat=int(kind == KIND_USER),
            size=len(body),
            activity_type=RECEIVE,
            method=METHOD_SEND,
            kind=kind,
            intent=draft.intent,
            source_id=sender.workspace_id,
            target_id=workspace_id,
            user_id=sender.user_id,
            sender=sender.key,
            dedupe_key=draft.dedupe_key,  # control: inserted-dedupe-key
            content_hash=hashed,
            context_id=draft.context_id or activity_id,
            created_at=now,
            summary=shorten(draft.text, SUMMARY_LENGTH),
            request_body=body.decode(),
            expires_at=None if life is None else now + life * SECOND,
            root_id=link.root_id,
            hop=link.hop,
            cause_id=link.cause_id,
            chain_no=link.chain_no,
            small_talk=link.small_talk,
            trace_parent=draft.trace_parent,
        )
        receipt = Receipt(activity.id, activity.context_id or activity.id, activity.created_at)
        receipt, held = patience.held(draft, target, receipt, now)
        event = "USER_MESSAGE" if kind == KIND_USER else "ACTIVITY_LOGGED"
        written = with_its_delivery(logged(receipt, activity, event, sent.file_ids), target, activity)
        written.writes += held
        return self._with_its_answer(written, answers, activity)

    def _ending(
        self, target: Workspace, draft: Draft, answers: Answers, owed: Obligation, hashed: str | None
    ) -> Decision[Receipt]:
        """A message that answers one which carries a delegation is no message of its own, but ends that. It needs no
        room, and no chain stops it. `metadata.status` may say that there will be no answer."""
        parts, metadata = draft.message["parts"], draft.message["metadata"]
        sent = yield from attachments.looked_up(parts, target.org_id, owed.workspace_id)
        context_id = draft.context_id or owed.activity_id
        said = Answer(self._ids.new(), draft.sender.key, sent.parts, draft.text, draft.dedupe_key, hashed, context_id)
        declined, now = rules.declines(metadata), self._clock.now()
        opens = answers.opens
        return answered(self._owing, owed, said, "message", now, handled=False, declined=declined, opens=opens)

    def explaining(self, target_id: str, draft: Draft, answers: Answers, owed: Obligation) -> Decision[Receipt]:
        """The decision to answer a question about an approval by its handle. That goes to the approval, wherever in the
        tree who asked stands, and also if it is not there any more."""
        hashed = rules.content_hash(target_id, draft)
        said = Answer("", draft.sender.key, draft.message["parts"], draft.text, draft.dedupe_key, hashed, None)
        return (yield from self._explaining(owed.org_id, answers, owed, said))

    def _explaining(self, org_id: str, answers: Answers, owed: Obligation, said: Answer) -> Decision[Receipt]:
        """What a workspace says to a question about an approval goes to the approval. Who is to decide on one decides,
        and answers nothing. Raises DecideInstead."""
        if owed.kind == KIND_ASKED:
            raise DecideInstead(approval_id=approval_of(owed.activity_id))
        sent = yield from attachments.looked_up(said.parts, org_id, owed.workspace_id)
        whole = msgspec.structs.replace(said, id=self._ids.new(), parts=sent.parts, context_id=owed.context_id)
        return (yield from explained(self._owing, owed, whole, self._clock.now(), opens=answers.opens))

    def _with_its_answer(
        self, written: WriteSet[Receipt], answers: Answers | None, activity: Activity
    ) -> WriteSet[Receipt]:
        """What else a message changes that answers another one, or tells that somebody is at work on it."""
        if answers is None or answers.owed is None:
            return written
        owed, now = answers.owed, activity.created_at
        joined(written, answers.opens)
        if answers.progress:
            due = due_at(self._org.living(owed.workspace_id), self._limits, now)
            rises = owed.kind == KIND_DELEGATION
            risen = (Progressed(owed.activity_id, activity.summary or "", now),) if rises else ()
            return joined(written, Facts(progressed(owed, due), [], risen=risen))
        return joined(written, self._owing.answered(owed, now, activity.id, by_handle=answers.by_handle))

    def admitted(self, workspace_id: str) -> Generator[Step, Any, int]:
        """The inbound number of a row, or InboxFull."""
        most = yield from self._room_in(workspace_id)
        return (yield from self._numbered(workspace_id, most))

    def _numbered(self, workspace_id: str, most: int) -> Generator[Step, Any, int]:
        number: int | None = yield Take("last_inbound", workspace_id, most)
        if number is None:  # others of its group were before it
            raise InboxFull(limit=self._limits.inbox_unhandled)
        return number

    def _room_in(self, workspace_id: str) -> Generator[Step, Any, int]:
        """The highest inbound number that the next message may have, or InboxFull. How much is handled is read only if
        so many ever came that the inbox could be full."""
        limit = self._limits.inbox_unhandled
        head_no = yield Peek("last_inbound", workspace_id)
        inbox = Inbox() if head_no + self._limits.group_commands < limit else (yield from inbox_of(workspace_id))
        most = rules.most_inbound(inbox, limit)
        if head_no >= most:
            raise InboxFull(limit=limit)
        return most

    async def notify(self, workspace_id: str, line: Line) -> Receipt:
        """An agent writes to its user.

        Raises TalkToUserDisabled, MessageIdReused, ChainFrozen, ChainEnded, NotFound, WorkspaceRemoved,
        InvalidMessage."""
        target = self._org.living(workspace_id)

        def command(alone: bool) -> Command[Receipt]:
            keys = self.keys_of_noticing(workspace_id, line, alone=alone)
            return Command(target.org_id, keys, partial(self.noticing, workspace_id, line, alone=alone))

        return await self._owing.run(self._store, workspace_id, None, command)

    def keys_of_noticing(self, workspace_id: str, line: Line, *, alone: bool = True) -> tuple[tuple[str, ...], ...]:
        """The keys of a command that writes to the user; `alone`: and may answer a message by that."""
        key = () if line.dedupe_key is None else (("message", f"workspace:{workspace_id}", line.dedupe_key),)
        owes = (owes_key(workspace_id, None),) if alone else ()
        return (*key, *owes, *attachments.keys_of(line.parts))

    def noticing(
        self, workspace_id: str, line: Line, answers: Answers | None = None, *, alone: bool = True
    ) -> Decision[Receipt]:
        """The decision to write to the user; `answers`: what it was found to answer. Raises NotAlone."""
        target, sender = self._org.living(workspace_id), f"workspace:{workspace_id}"
        hashed = rules.hash_of_parts(workspace_id, line.parts)
        if line.dedupe_key is not None:
            twins = yield Read("find_twin", {"sender": sender, "dedupe_key": line.dedupe_key})
            if twins:
                return WriteSet(rules.repeated(twins[0], hashed=hashed, message_id=line.dedupe_key))
        if answers is None:
            answers = yield from self._owing.answers(target, None, line.metadata, alone=alone)
        owed = None if answers.progress else answers.owed
        if owed is not None and owed.kind in (KIND_ASKED, KIND_DECIDED):
            said = Answer("", sender, line.parts, rules.text_of(line.parts), line.dedupe_key, hashed, None)
            return (yield from self._explaining(target.org_id, answers, owed, said))
        if not target.talk_to_user_enabled:
            raise TalkToUserDisabled
        link = yield from self.chains.place(target.org_id, workspace_id, answers.named)
        if isinstance(link, WriteSet):
            return link
        sent = yield from attachments.looked_up(line.parts, target.org_id, workspace_id)
        activity_id = self._ids.new()
        body = rules.notice_body(activity_id, sent.parts, line.metadata)
        activity = Activity(
            id=activity_id,
            org_id=target.org_id,
            workspace_id=workspace_id,
            seq=(yield Take("last_seq", workspace_id)),
            chat=1,
            size=len(body),
            activity_type=SEND,
            method=NOTIFY,
            source_id=workspace_id,
            sender=sender,
            dedupe_key=line.dedupe_key,
            content_hash=hashed,
            context_id=activity_id,
            created_at=self._clock.now(),
            summary=shorten(rules.text_of(line.parts), SUMMARY_LENGTH),
            request_body=body.decode(),
            root_id=link.root_id,
            hop=link.hop,
            cause_id=link.cause_id,
            chain_no=link.chain_no,
        )
        receipt = Receipt(activity.id, activity.id, activity.created_at)
        written = logged(receipt, activity, "AGENT_MESSAGE", sent.file_ids)
        return self._with_its_answer(written, answers, activity)

    async def log(self, workspace_id: str, entry: LogEntry) -> str:
        """An agent reports on its own work; returns the id of the row. Raises NotFound, WorkspaceRemoved."""
        target = self._org.living(workspace_id)
        bodies = [_json(body) for body in (entry.request_body, entry.response_body)]

        def decide() -> Decision[str]:
            self._org.living(workspace_id)
            activity = Activity(
                id=self._ids.new(),
                org_id=target.org_id,
                workspace_id=workspace_id,
                seq=(yield Take("last_seq", workspace_id)),
                size=sum(len(body) for body in bodies if body is not None),
                activity_type=entry.activity_type,
                method=entry.method,
                source_id=workspace_id,
                target_id=entry.target_id,
                sender=f"workspace:{workspace_id}",
                status=entry.status,
                created_at=self._clock.now(),
                duration_ms=entry.duration_ms,
                summary=entry.summary,
                error_detail=entry.error_detail,
                request_body=bodies[0],
                response_body=bodies[1],
            )
            return logged(activity.id, activity, "ACTIVITY_LOGGED")

        return await self._store.run(Command(target.org_id, (), decide))

    async def mark_read(self, workspace_id: str, person_id: str, seq: int) -> None:
        """A person has read a chat up to a row. Raises NotFound, WorkspaceRemoved."""
        target = self._org.living(workspace_id)

        def decide() -> Decision[None]:
            highest = yield Peek("last_seq", workspace_id)
            mark = {"person_id": person_id, "workspace_id": workspace_id, "seq": min(seq, highest)}
            return WriteSet(None, [("save_read_mark", mark)])

        await self._store.run(Command(target.org_id, (("read", person_id, workspace_id),), decide))

    async def give_back(self, workspace_id: str, claims: dict[str, int]) -> int:
        """Messages (id -> attempt) that an agent has claimed and will not handle: whoever claims next gets them. Those
        that are handled, or were handed out again since, are left alone. Returns how many could be had back. Who waits
        at this moment is not woken: that may be the last poll of the very agent that ends.

        Raises NotFound, WorkspaceRemoved."""

        def decide() -> Decision[int]:
            now, count = self._clock.now(), 0
            writes, delegations = list[Statement](), list[str]()
            for activity_id, attempt in claims.items():
                places = yield Read("place_of_activity", {"id": activity_id, "workspace_id": workspace_id})
                row = {"workspace_id": workspace_id, "seq": places[0][0] if places else 0}
                held = [Handout(*noted) for noted in (yield Read("handout", row))]
                if held and held[0].acked_at is None and held[0].attempt == attempt:
                    writes.append(handout(workspace_id, held[0].seq, attempt, now, None))
                    writes += not_taken(workspace_id, held[0].seq)
                    count += 1
                    delegations += [activity_id] if places[0][2] == KIND_DELEGATION else []
            return WriteSet(count, writes, facts=[Returned(tuple(delegations), now)] if delegations else [])

        target = self._org.living(workspace_id)
        return await self._store.run(Command(target.org_id, inbox_keys(workspace_id), decide))


def _json(body: Any) -> str | None:
    return None if body is None else msgspec.json.encode(body).decode()
