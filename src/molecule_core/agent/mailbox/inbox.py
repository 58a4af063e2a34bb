"""Holds the merged inbox of an agent: unhandled messages of all workspaces.

In memory only; the server stores the messages.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from molecule_core.wire.schemas.inbox import InboxMessage

EntryKey = tuple[str, str]
"""Workspace and activity id: servers of two workspaces may use the same activity id."""
# Handled messages remembered to recognize duplicates and to route a second answer.
_MAX_HANDLED = 10_000


class MessageOrigin(Struct, frozen=True):
    """Workspace that received a message, and the peer that wrote it (empty: a person)."""

    workspace_id: str
    peer_id: str


class InboxEntry(Struct):
    """A waiting message and its progress."""

    message: InboxMessage
    is_shown: bool = False
    """Whether it was the result of a tool call or the input of a turn, so that the model has seen it."""
    is_reported: bool = False
    """Whether the server knows that the model has seen it."""
    is_announced: bool = False
    """Whether the host was woken for it, so that this session will read it."""
    is_urged: bool = False
    """Whether the agent was asked at the end of a turn to answer it."""
    has_progress: bool = False
    """Whether the agent reported progress on it."""
    push_count: int = 0
    push_at: float = 0.0

    @property
    def is_known(self) -> bool:
        """Return whether the model may have seen it."""
        return self.is_shown or self.push_count > 0

    @property
    def key(self) -> EntryKey:
        """Return the key that identifies the message among all workspaces."""
        return (self.message.arrival_workspace_id, self.message.activity_id)

    @property
    def origin(self) -> MessageOrigin:
        """Return where an answer goes."""
        return MessageOrigin(self.message.arrival_workspace_id, self.message.peer_id)


class MergedInbox:
    """Messages in order of arrival.

    A duplicate renews the attempt and is not new; a reminder is.
    """

    def __init__(self) -> None:
        self._entries: dict[EntryKey, InboxEntry] = {}
        self._handled: OrderedDict[EntryKey, MessageOrigin] = OrderedDict()
        self._reminded: OrderedDict[EntryKey, None] = OrderedDict()
        """Messages whose reminder has arrived."""
        self._counts: dict[str, int] = {}
        self._handles: OrderedDict[EntryKey, str] = OrderedDict()
        """Workspace and reply handle -> activity id; kept after the message was handled."""
        self._waiters: set[asyncio.Future[None]] = set()

    # -- filled by the readers -----------------------------------------------------------------------------------------

    def add_message(self, message: InboxMessage) -> bool:
        """Add a message; return False if it is a duplicate. The first reminder of a message counts as new."""
        key = (message.arrival_workspace_id, message.activity_id)
        self._index_handle(message)
        is_first_reminder = message.reminder and not self.was_reminded(message)
        if is_first_reminder:
            self._handled.pop(key, None)
            self._reminded[key] = None
            if len(self._reminded) > _MAX_HANDLED:
                self._reminded.popitem(last=False)
        if key in self._handled:
            return False
        if (known := self._entries.get(key)) is not None:
            if not is_first_reminder:
                known.message = replace(known.message, attempt=message.attempt)  # control: repeat-no-news
                return False
            self._entries[key] = InboxEntry(message)
            self._notify()
            return True
        self._entries[key] = InboxEntry(message)
        self._counts[key[0]] = self.count_waiting(key[0]) + 1
        self._notify()
        return True

    def _index_handle(self, message: InboxMessage) -> None:
        if message.reply_handle:
            self._handles[message.arrival_workspace_id, _normalize_handle(message.reply_handle)] = message.activity_id
        if len(self._handles) > _MAX_HANDLED:
            self._handles.popitem(last=False)

    def was_reminded(self, message: InboxMessage) -> bool:
        """Return whether the reminder of a message has arrived before; it is sent once, so this one is a redelivery."""
        return (message.arrival_workspace_id, message.activity_id) in self._reminded

    def count_waiting(self, workspace_id: str) -> int:
        """Return how many messages of a workspace wait."""
        return self._counts.get(workspace_id, 0)

    def drop_workspace(self, workspace_id: str) -> None:
        """Remove everything of a workspace, handled or not: another process reads it now, or its cursor was reset."""
        for key in [key for key in self._entries if key[0] == workspace_id]:
            del self._entries[key]
        for key in [key for key in self._handled if key[0] == workspace_id]:
            del self._handled[key]
        for key in [key for key in self._reminded if key[0] == workspace_id]:
            del self._reminded[key]
        for key in [key for key in self._handles if key[0] == workspace_id]:
            del self._handles[key]
        self._counts.pop(workspace_id, None)
        self._notify()

    # -- used by the tools ---------------------------------------------------------------------------------------------

    def entries(self) -> Iterable[InboxEntry]:
        """Return all waiting messages, oldest arrival first."""
        return self._entries.values()

    def __len__(self) -> int:
        return len(self._entries)

    def find_entries(self, activity_id: str, workspace_id: str = "") -> list[InboxEntry]:
        """Return the messages with an id: several only if workspaces of different servers share it."""
        return [
            entry
            for (_, id_), entry in self._entries.items()
            if id_ == activity_id and _is_for_workspace(entry, workspace_id)
        ]

    def handled_origins(self, activity_id: str, workspace_id: str = "") -> list[MessageOrigin]:
        """Return the origins of recently handled messages with an id."""
        return [
            origin
            for (arrival_id, id_), origin in self._handled.items()
            if id_ == activity_id and workspace_id in ("", arrival_id)
        ]

    def find_by_handle(self, handle: str) -> dict[str, str]:
        """Return the messages that a reply handle names: workspace -> activity id; rarely more than one."""
        return {
            arrival_id: id_ for (arrival_id, each), id_ in self._handles.items() if each == _normalize_handle(handle)
        }

    def find_unknown(self, workspace_id: str, count: int) -> list[InboxEntry]:
        """Return the oldest messages of a workspace that the model has not seen and the host was not woken for."""
        own = (each for each in self._entries.values() if each.key[0] == workspace_id)
        found = (each for each in own if not (each.is_known or each.is_announced))
        return list(islice(found, count))

    def mark_shown(self, entry: InboxEntry) -> None:
        """Mark a message as shown to the model."""
        entry.is_shown = True
        self._notify()

    def take_message(self, key: EntryKey) -> None:
        """Remove a message that another process has now; it may come back."""
        if self._entries.pop(key, None) is not None:
            self._counts[key[0]] -= 1
            self._notify()

    def mark_handled(self, key: EntryKey) -> InboxEntry | None:
        """Mark a message as handled; return its entry if it was waiting."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._counts[key[0]] -= 1
        if key not in self._handled:
            self._handled[key] = MessageOrigin(key[0], entry.message.peer_id if entry is not None else "")
        if len(self._handled) > _MAX_HANDLED:
            self._handled.popitem(last=False)
        self._notify()
        return entry

    # -- waiting -------------------------------------------------------------------------------------------------------

    async def wait_for_change(self) -> None:
        """Wait until a message is added, shown or removed."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            await waiter
        finally:
            self._waiters.discard(waiter)

    def _notify(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)


def _normalize_handle(handle: str) -> str:
    """Normalize a handle as the server does: models copy it with blanks or in capitals."""
    return handle.strip().lower()


def _is_for_workspace(entry: InboxEntry, workspace_id: str) -> bool:
    return workspace_id in ("", entry.message.arrival_workspace_id)
