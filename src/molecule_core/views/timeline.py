"""What a workspace and its users said, and what it delegated meanwhile, in the order of its log.

Above: `edges/delegations.py`. Below: the readers of messages and of delegations.
"""

from collections.abc import Sequence

import msgspec
from msgspec.structs import asdict

from molecule_core.delegations.model import Delegation, first_of
from molecule_core.delegations.reader import DelegationReader
from molecule_core.messages.reader import MessageReader
from molecule_core.wire.delegations import TimelineDelegation, TimelineMessage, TimelinePage


class TimeLine:
    """Makes pages of it."""

    def __init__(self, messages: MessageReader, delegations: DelegationReader) -> None:
        self._messages = messages
        self._delegations = delegations

    async def page(self, workspace_id: str, before_seq: int | None, count: int) -> TimelinePage:
        """The newest lines before a number of the log, oldest first. Both kinds have their numbers from one log, so
        each number is one line; a page ends where the first of the two reads ended, else a line could be left out, and
        where its bytes are full."""
        chat = await self._messages.chat(workspace_id, count=count, before_seq=before_seq)
        rows = await self._delegations.given(workspace_id, None, before_seq, count + 1)
        said_from = 0 if chat.reached_end or not chat.messages else chat.messages[0].seq
        given_from = await self._given_from(rows, count)
        floor = max(said_from, given_from)
        given = await self._delegations.items([row for row in rows if row.seq >= floor])
        lines: list[TimelineMessage | TimelineDelegation] = [
            *(TimelineMessage(**asdict(each)) for each in chat.messages if each.seq >= floor),
            *(TimelineDelegation(**asdict(each)) for each in given),
        ]
        lines.sort(key=lambda line: line.seq, reverse=True)
        shown = first_of(lines[:count], _size, self._delegations.page_bytes)
        return TimelinePage(shown[::-1], reached_end=floor == 0 and len(shown) == len(lines))

    async def _given_from(self, rows: Sequence[Delegation], count: int) -> int:
        """The number from which on nothing that was delegated is missing; 0: nothing older is there."""
        if len(rows) > count:
            return rows[count - 1].seq
        return rows[-1].seq if rows and await self._delegations.more_given(rows) else 0


def _size(line: TimelineMessage | TimelineDelegation) -> int:
    return len(msgspec.json.encode(line))
