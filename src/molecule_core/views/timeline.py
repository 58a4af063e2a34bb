"""What a workspace and its users said, and what it delegated meanwhile, in the order of its log.

Above: `api/delegations/delegations.py`. Below: the readers of messages and of delegations.
"""

from collections.abc import Sequence

import msgspec
from msgspec.structs import asdict

from molecule_core.delegations.model import Delegation, take_until_bytes
from molecule_core.delegations.reader import DelegationReader
from molecule_core.messages.reader import MessageReader
from molecule_core.wire.schemas.delegations import TimelineDelegation, TimelineMessage, TimelinePage


class TimelineReader:
    """Makes pages of it."""

    def __init__(self, messages: MessageReader, delegations: DelegationReader) -> None:
        self._messages = messages
        self._delegations = delegations

    async def read_page(self, workspace_id: str, before_seq: int | None, count: int) -> TimelinePage:
        """The newest lines before a number of the log, oldest first. Both kinds have their numbers from one log, so
        each number is one line; a page ends where the first of the two reads ended, else a line could be left out, and
        where its bytes are full."""
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
        """The number from which on nothing that was delegated is missing; 0: nothing older is there."""
        if len(rows) > count:
            return rows[count - 1].seq
        return rows[-1].seq if rows and await self._delegations.has_more_sent(rows) else 0


def _encoded_size(entry: TimelineMessage | TimelineDelegation) -> int:
    return len(msgspec.json.encode(entry))
