"""One message to everybody: a copy in each inbox of the organisation, all in one transaction.

Above: the writer. Below: chains, attachments, entering and rules.
"""

from collections.abc import Generator, Sequence
from functools import partial
from typing import Any

import msgspec

from molecule_core.ground.clock import Clock
from molecule_core.ground.errors import BroadcastDisabled, BroadcastTooWide
from molecule_core.ground.ids import Ids
from molecule_core.ground.limits import Limits
from molecule_core.ground.text import shorten
from molecule_core.messages import attachments, rules
from molecule_core.messages.chains import Chains
from molecule_core.messages.entering import mentions, with_its_delivery
from molecule_core.messages.lineage import BEGINS, Link
from molecule_core.messages.model import (
    BROADCAST,
    BROADCAST_SENT,
    INFORM,
    KIND_BROADCAST,
    RECEIVE,
    SEND,
    SUMMARY_LENGTH,
    Activity,
    Announced,
    Announcement,
    Draft,
    Inbox,
)
from molecule_core.org.model import Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Command, Decision, Event, Peek, Read, Several, Step, Store, Take, WriteSet
from molecule_core.store.journal import log_key, org_key


class Broadcasts:
    """Sends what a workspace says to all others."""

    def __init__(self, store: Store, org: OrgReader, chains: Chains, *, clock: Clock, ids: Ids, limits: Limits) -> None:
        self._store = store
        self._org = org
        self._chains = chains
        self._clock = clock
        self._ids = ids
        self._limits = limits

    def reach(self, workspace_id: str) -> list[Workspace]:
        """Whom a broadcast of this workspace goes to. Raises BroadcastDisabled, BroadcastTooWide, NotFound,
        WorkspaceRemoved."""
        own = self._org.living(workspace_id)
        if not own.broadcast_enabled:
            raise BroadcastDisabled
        others = [each for each in self._org.workspaces(own.org_id) if each.id != workspace_id]
        if len(others) > self._limits.broadcast_most:
            raise BroadcastTooWide(count=len(others), limit=self._limits.broadcast_most)
        return others

    async def send(self, workspace_id: str, said: Announcement) -> Announced:
        """A copy for each living workspace that has room; the others are named.

        Raises MessageIdReused, ChainFrozen, ChainEnded, InvalidMessage and what `reach` raises."""
        key = () if said.dedupe_key is None else (("message", said.sender.key, said.dedupe_key),)
        keys = (*key, *attachments.keys_of(said.parts))
        org_id = self._org.living(workspace_id).org_id
        return await self._store.run(Command(org_id, keys, partial(self._sending, workspace_id, said)))

    def _sending(self, workspace_id: str, said: Announcement) -> Decision[Announced]:
        others, own_id = self.reach(workspace_id), self._ids.new()
        org_id = self._org.living(workspace_id).org_id
        hashed = rules.hash_of_parts(workspace_id, said.parts)
        if said.dedupe_key is not None:
            twins = yield Read("find_twin", {"sender": said.sender.key, "dedupe_key": said.dedupe_key})
            if twins:
                receipt = rules.repeated(twins[0], hashed=hashed, message_id=said.dedupe_key)
                kept = yield Read("response_of", {"id": receipt.activity_id})
                return WriteSet(msgspec.json.decode(kept[0][0], type=Announced))
        link = yield from self._link(org_id, workspace_id, said, len(others))
        if isinstance(link, WriteSet):
            return link
        sent = yield from attachments.looked_up(said.parts, org_id, said.sender.workspace_id)
        said = msgspec.structs.replace(said, parts=sent.parts)
        takers, skipped = yield from self._takers(others)
        copies_link = link
        if link.root_id is None:  # this message begins the chain, and the copies are the first that follow
            copies_link = Link(own_id, 0, own_id, numbers=tuple(range(1, len(others) + 1)))
        seqs = yield Several([Take("last_seq", id_) for id_ in (workspace_id, *(each.id for each, _ in takers))])
        answer = Announced(own_id, len(takers), skipped)
        common = _common(org_id, workspace_id, said, own_id, self._clock.now())
        own = _own_row(common, said, link, hashed, answer, seqs[0])
        copies = [
            (each, _copy(common, copies_link, self._ids.new(), each.id, inbound_no, chain_no, seq))
            for (each, inbound_no), chain_no, seq in zip(takers, copies_link.numbers, seqs[1:], strict=False)
        ]
        return _announced(answer, own, copies, sent.file_ids)

    def _link(
        self, org_id: str, workspace_id: str, said: Announcement, count: int
    ) -> Generator[Step, Any, Link | WriteSet[Any]]:
        if said.sender.workspace_id is None:
            return BEGINS
        return (yield from self._chains.place(org_id, workspace_id, said.cause_id, count=count))

    def _takers(self, others: list[Workspace]) -> Generator[Step, Any, tuple[list[tuple[Workspace, int]], list[str]]]:
        """Who has room, each with the inbound number of its copy; and the names of those who have none."""
        limit = self._limits.inbox_unhandled
        heads = yield Several([Peek("last_inbound", each.id) for each in others])
        crowded = [
            each.id for each, head in zip(others, heads, strict=True) if head + self._limits.group_commands >= limit
        ]
        rows = yield Several([Read("inbox_state", {"workspace_id": id_}) for id_ in crowded])
        inboxes = {id_: Inbox(*found[0]) for id_, found in zip(crowded, rows, strict=True) if found}
        mosts = [rules.most_inbound(inboxes.get(each.id, Inbox()), limit) for each in others]
        numbers = yield Several([Take("last_inbound", each.id, most) for each, most in zip(others, mosts, strict=True)])
        found = list(zip(others, numbers, strict=True))
        takers = [(each, number) for each, number in found if number is not None]
        return takers, [each.name for each, number in found if number is None]


def _common(org_id: str, workspace_id: str, said: Announcement, own_id: str, now: int) -> dict[str, Any]:
    """What all rows of a broadcast share. The body is made once."""
    message = {"kind": "message", "role": "agent", "parts": said.parts, "metadata": {}}
    draft = Draft(said.sender, {"metadata": {}}, message, None, said.text, INFORM, None, own_id)
    return {
        "org_id": org_id,
        "source_id": workspace_id,
        "kind": KIND_BROADCAST,
        "intent": INFORM,
        "user_id": said.sender.user_id,
        "sender": said.sender.key,
        "context_id": own_id,
        "created_at": now,
        "summary": shorten(said.text, SUMMARY_LENGTH),
        "request_body": rules.stored_body(draft, KIND_BROADCAST, own_id).decode(),
    }


def _own_row(
    common: dict[str, Any], said: Announcement, link: Link, hashed: str, answer: Announced, seq: int
) -> Activity:
    outcome = msgspec.json.encode(answer)
    return Activity(
        **common,
        id=answer.activity_id,
        workspace_id=common["source_id"],
        seq=seq,
        size=len(common["request_body"].encode()) + len(outcome),
        activity_type=SEND,
        method=BROADCAST_SENT,
        dedupe_key=said.dedupe_key,
        content_hash=hashed,
        response_body=outcome.decode(),
        root_id=link.root_id,
        hop=link.hop,
        cause_id=link.cause_id,
    )


def _copy(
    common: dict[str, Any], link: Link, id_: str, target_id: str, inbound_no: int, chain_no: int | None, seq: int
) -> Activity:
    return Activity(
        **common,
        id=id_,
        workspace_id=target_id,
        target_id=target_id,
        seq=seq,
        inbound_no=inbound_no,
        size=len(common["request_body"].encode()),
        activity_type=RECEIVE,
        method=BROADCAST,
        root_id=link.root_id,
        hop=link.hop,
        cause_id=link.cause_id,
        chain_no=chain_no,
    )


def _announced(
    answer: Announced, own: Activity, copies: Sequence[tuple[Workspace, Activity]], file_ids: Sequence[str]
) -> WriteSet[Announced]:
    rows = (own, *(row for _, row in copies))
    written = WriteSet(
        answer,
        [
            *(("insert_activity", row) for row in rows),
            *(mention for row in rows for mention in mentions(row, file_ids)),
        ],
        [
            Event(
                "BROADCAST_MESSAGE" if row is own else "ACTIVITY_LOGGED",
                row.workspace_id,
                "activity",
                row.id,
                at=row.created_at,
            )
            for row in rows
        ],
        (*(log_key(row.workspace_id) for row in rows), org_key(own.org_id)),
    )
    for target, row in copies:  # behind all rows, which are written together
        with_its_delivery(written, target, row)
    return written
