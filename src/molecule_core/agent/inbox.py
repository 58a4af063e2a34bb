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
    def is_known(self) -> bool:
        """Whether the model may have seen it."""
        return self.shown or self.pushes > 0

    @property
    def key(self) -> Key:
        """What tells it from all others."""
        return (self.message.arrival_workspace_id, self.message.activity_id)

    @property
    def origin(self) -> Origin:
        """Where an answer to it goes."""
        return Origin(self.message.arrival_workspace_id, self.message.peer_id)


class Inbox:
    """Messages in the order of their arrival. A repeat renews the attempt and is not shown as news; a reminder is."""

    def __init__(self) -> None:
        self._entries: dict[Key, Entry] = {}
        self._handled: OrderedDict[Key, Origin] = OrderedDict()
        self._reminded: OrderedDict[Key, None] = OrderedDict()
        """Those whose reminder has come."""
        self._counts: dict[str, int] = {}
        self._handles: OrderedDict[Key, str] = OrderedDict()
        """Workspace and reply handle: the message that it names, also after it was handled."""
        self._changed: set[asyncio.Future[None]] = set()

    # -- filled by the readers -----------------------------------------------------------------------------------------

    def add(self, message: InboxMessage) -> bool:
        """Takes a message in; False if it is here already, or was handled. A first reminder of it is news again."""
        key = (message.arrival_workspace_id, message.activity_id)
        self._name(message)
        first = message.reminder and not self.was_reminded(message)
        if first:
            self._handled.pop(key, None)
            self._reminded[key] = None
            if len(self._reminded) > _MOST_HANDLED:
                self._reminded.popitem(last=False)
        if key in self._handled:
            return False
        if (known := self._entries.get(key)) is not None:
            if not first:
                known.message = replace(known.message, attempt=message.attempt)  # control: repeat-no-news
                return False
            known.message, known.shown, known.pushes, known.push_at = message, False, 0, 0.0
            self._ring()
            return True
        self._entries[key] = Entry(message)
        self._counts[key[0]] = self.count(key[0]) + 1
        self._ring()
        return True

    def _name(self, message: InboxMessage) -> None:
        if message.reply_handle:
            self._handles[message.arrival_workspace_id, _spelled(message.reply_handle)] = message.activity_id
        if len(self._handles) > _MOST_HANDLED:
            self._handles.popitem(last=False)

    def was_reminded(self, message: InboxMessage) -> bool:
        """Whether the reminder of a message has come here before: it comes once, so this is the same one again."""
        return (message.arrival_workspace_id, message.activity_id) in self._reminded

    def count(self, workspace_id: str) -> int:
        """How many messages of a workspace wait here."""
        return self._counts.get(workspace_id, 0)

    def forget(self, workspace_id: str) -> None:
        """Lets go of all that came to a workspace, handled or not: another process reads it now, or it begins anew."""
        for key in [key for key in self._entries if key[0] == workspace_id]:
            del self._entries[key]
        for key in [key for key in self._handled if key[0] == workspace_id]:
            del self._handled[key]
        for key in [key for key in self._reminded if key[0] == workspace_id]:
            del self._reminded[key]
        for key in [key for key in self._handles if key[0] == workspace_id]:
            del self._handles[key]
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

    def named(self, handle: str) -> dict[str, str]:
        """The messages that a reply handle names: workspace -> activity id; more than one only by a rare chance."""
        return {seat: id_ for (seat, each), id_ in self._handles.items() if each == _spelled(handle)}

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


def _spelled(handle: str) -> str:
    """A handle as models copy it, with blanks or in capitals, names the same: so it is with the server."""
    return handle.strip().lower()


def _fits(entry: Entry, workspace_id: str) -> bool:
    return workspace_id in ("", entry.message.arrival_workspace_id)
