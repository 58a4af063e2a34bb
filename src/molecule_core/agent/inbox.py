"""The one merged inbox of an agent: what every workspace's reader brought and nobody has handled yet. In memory; the
server keeps the mail itself.

Above: verbs, channel, membership (which fills it). Below: the shape of a message.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from molecule_core.wire.inbox import InboxMessage

Key = tuple[str, str]
"""Workspace and activity: the servers of two workspaces may use one id."""
# What was handled is known so long, to tell a repeat from news and to send a second answer to the right place.
_MOST_HANDLED = 10_000


class Origin(Struct, frozen=True):
    """Where a message came from: the seat that got it, and the peer that wrote it (empty: a person)."""

    workspace_id: str
    peer_id: str


class Entry(Struct):
    """A message that waits, and how far it has got."""

    message: InboxMessage
    shown: bool = False
    """It was the result of a tool call: the model has seen it."""
    pushes: int = 0
    push_at: float = 0.0

    @property
    def key(self) -> Key:
        """What tells it from all others."""
        return (self.message.arrival_workspace_id, self.message.activity_id)

    @property
    def origin(self) -> Origin:
        """Where an answer to it goes."""
        return Origin(self.message.arrival_workspace_id, self.message.peer_id)


class Inbox:
    """Messages in the order of their arrival. A repeat renews the attempt and is not shown as news."""

    def __init__(self) -> None:
        self._entries: dict[Key, Entry] = {}
        self._handled: OrderedDict[Key, Origin] = OrderedDict()
        self._counts: dict[str, int] = {}
        self._changed: set[asyncio.Future[None]] = set()

    # -- filled by the readers -----------------------------------------------------------------------------------------

    def add(self, message: InboxMessage) -> bool:
        """Takes a message in; False if it is here already, or was handled."""
        key = (message.arrival_workspace_id, message.activity_id)
        if key in self._handled:
            return False
        if (known := self._entries.get(key)) is not None:
            known.message = replace(known.message, attempt=message.attempt)
            return False
        self._entries[key] = Entry(message)
        self._counts[key[0]] = self.count(key[0]) + 1
        self._ring()
        return True

    def count(self, workspace_id: str) -> int:
        """How many messages of a workspace wait here."""
        return self._counts.get(workspace_id, 0)

    def forget(self, workspace_id: str) -> None:
        """Lets go of all that came to a workspace, handled or not: another process reads it now, or it begins anew."""
        for key in [key for key in self._entries if key[0] == workspace_id]:
            del self._entries[key]
        for key in [key for key in self._handled if key[0] == workspace_id]:
            del self._handled[key]
        self._counts.pop(workspace_id, None)
        self._ring()

    # -- used by the tools ---------------------------------------------------------------------------------------------

    def entries(self) -> Iterable[Entry]:
        """All that waits, oldest arrival first."""
        return self._entries.values()

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, activity_id: str, workspace_id: str = "") -> list[Entry]:
        """The messages of an id: more than one only if two workspaces have got one each."""
        return [entry for (_, id_), entry in self._entries.items() if id_ == activity_id and _fits(entry, workspace_id)]

    def handled(self, activity_id: str, workspace_id: str = "") -> list[Origin]:
        """Where messages of an id came from that were handled not long ago."""
        return [
            origin for (seat, id_), origin in self._handled.items() if id_ == activity_id and workspace_id in ("", seat)
        ]

    def settle(self, key: Key) -> Entry | None:
        """A message is handled; what it was, if it waited here."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._counts[key[0]] -= 1
        if key not in self._handled:
            self._handled[key] = Origin(key[0], entry.message.peer_id if entry is not None else "")
        if len(self._handled) > _MOST_HANDLED:
            self._handled.popitem(last=False)
        self._ring()
        return entry

    # -- waiting -------------------------------------------------------------------------------------------------------

    async def change(self) -> None:
        """Ends when something has come or gone."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._changed.add(waiting)
        try:
            await waiting
        finally:
            self._changed.discard(waiting)

    def _ring(self) -> None:
        for waiting in self._changed:
            if not waiting.done():
                waiting.set_result(None)


def _fits(entry: Entry, workspace_id: str) -> bool:
    return workspace_id in ("", entry.message.arrival_workspace_id)
