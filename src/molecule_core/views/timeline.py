"""Reads a workspace's chat messages and sent delegations in the order of its log."""

from collections.abc import Sequence

import msgspec
from msgspec.structs import asdict

from molecule_core.delegations.model import Delegation, take_until_bytes
from molecule_core.delegations.reader import DelegationReader
from molecule_core.messages.reader import MessageReader
from molecule_core.wire.schemas.delegations import TimelineDelegation, TimelineMessage, TimelinePage


class TimelineReader:
    """Reader of timeline pages."""

    def __init__(self, messages: MessageReader, delegations: DelegationReader) -> None:
        self._messages = messages
        self._delegations = delegations

    async def read_page(self, workspace_id: str, before_seq: int | None, count: int) -> TimelinePage:
        """Return the newest entries before a log number, oldest first.

        Both kinds are numbered by one log, so each number is one entry. A page ends where the first of the two reads
        ended, since an entry could be missing beyond it, and at `page_bytes`.
        """
        chat = await self._messages.chat_page(workspace_id, count=count, before_seq=before_seq)
        rows = await self._delegations.sent_by(workspace_id, None, before_seq, count + 1)
        messages_from = 0 if chat.reached_end or not chat.messages else chat.messages[0].seq
        delegations_from = await self._delegations_from(rows, count)
        floor = max(messages_from, delegations_from)
        items = await self._delegations.to_items([row for row in rows if row.seq >= floor])
        entries: list[TimelineMessage | TimelineDelegation] = [
            *(TimelineMessage(**asdict(each)) for each in chat.messages if each.seq >= floor),
            *(TimelineDelegation(**asdict(each)) for each in items),
        ]
        entries.sort(key=lambda entry: entry.seq, reverse=True)
        page_entries = take_until_bytes(entries[:count], _encoded_size, self._delegations.page_bytes)
        return TimelinePage(page_entries[::-1], reached_end=floor == 0 and len(page_entries) == len(entries))

    async def _delegations_from(self, rows: Sequence[Delegation], count: int) -> int:
        """Return the number from which on no delegation is missing; 0 if there is no older one."""
        if len(rows) > count:
            return rows[count - 1].seq
        return rows[-1].seq if rows and await self._delegations.has_more_sent(rows) else 0


def _encoded_size(entry: TimelineMessage | TimelineDelegation) -> int:
    return len(msgspec.json.encode(entry))
