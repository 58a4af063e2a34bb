"""Workspaces that have asked something: what a push agent answers goes to them where they wait for it, and into their
inbox when they do not; and who wanted an answer is told that its message was given up.

That somebody waits is written with the message (`patience`); who takes a receipt or hangs up waits no more. Above:
`outcomes` and `letters`, the edge that waits. Below: patience, results, answers, entering. docs/delivery.md.
"""

from collections.abc import Callable, Generator
from functools import partial
from typing import Any, NamedTuple

from molecule_core.ground.clock import SECOND, Clock
from molecule_core.ground.errors import ServerBusy, StoreUnavailable
from molecule_core.ground.ids import Ids
from molecule_core.ground.limits import Limits
from molecule_core.ground.text import shorten
from molecule_core.messages import attachments, rules, turns
from molecule_core.messages.answers import draft_to
from molecule_core.messages.entering import logged, with_its_delivery
from molecule_core.messages.lineage import BEGINS, Cause
from molecule_core.messages.model import (
    KIND_PEER,
    RECEIVE,
    REQUEST,
    SUMMARY_LENGTH,
    Activity,
    Receipt,
)
from molecule_core.messages.obligations import Asked, Facts, Obligation, asked_by, joined, obligation_at
from molecule_core.messages.patience import forgotten, waited_for_until
from molecule_core.messages.pushed import Heard, MessageState, Said
from molecule_core.messages.results import Results
from molecule_core.messages.settling import inbox_keys, state_of
from molecule_core.org.model import Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Command, Decision, Read, Step, Store, T, Take, WriteSet
from molecule_core.store.journal import answer_key
from molecule_core.store.wakeups import Look, Wakeups
from molecule_core.wire.a2a import SEND as METHOD_SEND

_NOTHING = Facts([], [])
_AGAIN_SECONDS = 1.0


class Letter(NamedTuple):
    """An answer in the inbox of who asked: the id of its row, and what is written with it."""

    id: str
    facts: Facts


class Askers:
    """Tells those that asked."""

    def __init__(
        self,
        store: Store,
        org: OrgReader,
        wakeups: Wakeups,
        results: Results,
        *,
        clock: Clock,
        ids: Ids,
        limits: Limits,
    ) -> None:
        self._store = store
        self._org = org
        self._wakeups = wakeups
        self._results = results
        self._clock = clock
        self._ids = ids
        self._limits = limits

    # -- who waits -----------------------------------------------------------------------------------------------------

    async def leave(self, workspace_id: str, receipt: Receipt) -> MessageState | None:
        """A sender takes a receipt: how its message has come out, if it has by now; else None, and from here on the
        answer goes into the sender's inbox. Raises WorkspaceRemoved, StoreUnavailable, ServerBusy."""

        def decide() -> Decision[MessageState | None]:
            state = yield from state_of(receipt.activity_id)
            return WriteSet(state) if state is None or state.is_over else WriteSet(None, [forgotten(state.id)])

        return await self._store.run(self._on_inbox(workspace_id, decide))

    async def gone(self, workspace_id: str, receipt: Receipt) -> bool:
        """A sender has hung up, or may not have the answer any more: that goes into the inbox, also if it is there by
        now. While the store takes nothing this is tried again, as long as the sender is thought to wait and the server
        runs. Returns whether it was written. Raises WorkspaceRemoved."""
        id_ = receipt.activity_id

        async def look() -> Look[bool]:
            try:
                states = [MessageState(*row) for row in await self._store.rows("message_state", {"id": id_})]
                keys = attachments.keys_of([part for each in states for part in self._heard(each).parts])
                await self._store.run(self._on_inbox(workspace_id, partial(self._going, id_), keys))
            except (StoreUnavailable, ServerBusy):
                return Look(None, again_in=_AGAIN_SECONDS)
            return Look(True)

        left = max(0.0, (receipt.held_until - self._clock.now()) / SECOND)
        return await self._wakeups.until(answer_key(id_), look, left) is not None

    def _going(self, message_id: str) -> Decision[None]:
        state, is_held = (yield from state_of(message_id)), (yield from waited_for_until(message_id)) > 0
        if state is None or not is_held:  # who asked was told, or another request of theirs has taken a receipt
            return WriteSet(None)
        written = WriteSet(None, [forgotten(message_id)])
        return joined(written, (yield from self._too_late(state))) if state.is_over else written

    def _too_late(self, state: MessageState) -> Generator[Step, Any, Facts]:
        if state.dead:
            return (yield from self._note(state, state.dead_reason or ""))
        owed = yield from obligation_at(state.workspace_id, state.seq)
        if owed is None or owed.is_open or owed.answer_id is not None or owed.by_handle:
            return _NOTHING
        letter = yield from self._letter(state.workspace_id, state.seq, self._heard(state))
        if letter is None:
            return _NOTHING
        row = {"workspace_id": state.workspace_id, "seq": state.seq, "answer_id": letter.id}
        return letter.facts._replace(writes=[*letter.facts.writes, ("note_answer", row)])

    def _heard(self, state: MessageState) -> Heard:
        return turns.replied(state.answer or "{}", self._limits)

    def _on_inbox(
        self, workspace_id: str, decide: Callable[[], Decision[T]], keys: tuple[tuple[str, str], ...] = ()
    ) -> Command[T]:
        return Command(self._org.living(workspace_id).org_id, (*inbox_keys(workspace_id), *keys), decide)

    # -- who waits no more ---------------------------------------------------------------------------------------------

    def answered(self, owed: Obligation, heard: Heard) -> Generator[Step, Any, Letter | None]:
        """What an agent has answered to a push, into the inbox of the workspace that asked: words, data and files, or
        that there will be none. None if that waits for it, or is not there any more, or nothing was said."""
        if heard.said is Said.TAKEN or (yield from self._is_awaited(owed.activity_id)):
            return None
        return (yield from self._letter(owed.workspace_id, owed.seq, heard))

    def given_up(self, message: MessageState, reason: str) -> Generator[Step, Any, Facts]:
        """A message is given up: who wanted an answer is told that none comes, unless somebody has it delivered after
        all. (Persons have the list of dead letters; of delegations and approvals others tell.)"""
        if message.kind != KIND_PEER or (yield from self._is_awaited(message.id)):
            return _NOTHING
        return (yield from self._note(message, reason))

    def _is_awaited(self, message_id: str) -> Generator[Step, Any, bool]:
        return (yield from waited_for_until(message_id)) > self._clock.now()  # control: sender-waits

    def _note(self, message: MessageState, reason: str) -> Generator[Step, Any, Facts]:
        found = yield from self._asked(message.workspace_id, message.seq)
        owed = yield from obligation_at(message.workspace_id, message.seq)
        if found is None or (owed is not None and not owed.is_open):  # it may be answered, and only never acknowledged
            return _NOTHING
        _, source = found
        target = self._org.living(message.workspace_id)
        note = rules.not_delivered(message, target.name, reason, self._limits)
        told = (yield from self._results.told_off(source, target.id, note.text, note.about)).facts
        return told._replace(writes=[*told.writes, forgotten(message.id)])

    def _letter(self, workspace_id: str, seq: int, heard: Heard) -> Generator[Step, Any, Letter | None]:
        """A regular answer, as the agent's own tools would have sent it. It always has room, and no chain stops it:
        what it answers was let in when it was asked."""
        found = yield from self._asked(workspace_id, seq)
        if found is None:
            return None
        asked, source = found
        metadata: dict[str, Any] = {"in_reply_to": asked.id}
        if heard.said is not Said.WORDS:
            metadata["declined"] = True
        said = heard.parts or ({"kind": "text", "text": heard.text},)
        parts = yield from attachments.sendable(said, asked.org_id, workspace_id)
        sent = yield from attachments.looked_up(parts, asked.org_id, workspace_id)
        row = yield from self._row(source, asked, sent.parts, metadata)
        entered = with_its_delivery(logged(None, row, "ACTIVITY_LOGGED", sent.file_ids), source, row)
        return Letter(row.id, Facts([*entered.writes, forgotten(asked.id)], entered.events, entered.rings))

    def _asked(self, workspace_id: str, seq: int) -> Generator[Step, Any, tuple[Asked, Workspace] | None]:
        """A plain message that wants an answer, and the other workspace that has sent it."""
        asked = yield from asked_by(workspace_id, seq)
        if asked is None or asked.kind != KIND_PEER or asked.intent != REQUEST:
            return None
        source = self._org.workspace(asked.source_id or "")
        return None if source is None or source.removed or source.id == workspace_id else (asked, source)

    def _row(
        self, source: Workspace, asked: Asked, parts: list[dict[str, Any]], metadata: dict[str, Any]
    ) -> Generator[Step, Any, Activity]:
        out = draft_to(asked, parts, metadata)
        found = yield Read("cause_of", {"workspace_id": asked.workspace_id, "named": asked.id})
        link = rules.link_to(Cause(*found[0]), None, None, self._limits) if found else BEGINS
        activity_id = self._ids.new()
        body = rules.stored_body(out, KIND_PEER, activity_id)
        return Activity(
            id=activity_id,
            org_id=source.org_id,
            workspace_id=source.id,
            inbound_no=(yield Take("last_inbound", source.id)),
            seq=(yield Take("last_seq", source.id)),
            size=len(body),
            activity_type=RECEIVE,
            method=METHOD_SEND,
            kind=KIND_PEER,
            intent=out.intent,
            source_id=asked.workspace_id,
            target_id=source.id,
            sender=out.sender.key,
            context_id=out.context_id or activity_id,
            created_at=self._clock.now(),
            summary=shorten(out.text, SUMMARY_LENGTH),
            request_body=body.decode(),
            root_id=link.root_id,
            hop=link.hop,
            cause_id=link.cause_id,
        )
