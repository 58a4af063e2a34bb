"""Live channels of one credential: how many are open, and how many bytes they have not read in all.

Called by `api/live/hub.py`.
"""

import asyncio

from molecule_core.api.live.subscribers import LiveSubscriber

# Pages that the channels of a credential hold at a time while they catch up: a page may contain large events.
_CONCURRENT_PAGES = 4


class CredentialChannels:
    """Open channels of one credential, with one limit for the bytes that they have not read."""

    def __init__(self, max_unread_bytes: int) -> None:
        self._max_unread_bytes = max_unread_bytes
        self._subscribers: set[LiveSubscriber] = set()
        self._unread_estimate = 0
        """Never less than the unread bytes; computed exactly only when it reaches the limit."""
        self.page_reads = asyncio.Semaphore(_CONCURRENT_PAGES)

    def __len__(self) -> int:
        return len(self._subscribers)

    def add(self, subscriber: LiveSubscriber) -> None:
        """Add an opened channel."""
        self._subscribers.add(subscriber)

    def remove(self, subscriber: LiveSubscriber) -> None:
        """Remove a channel, if it is there."""
        self._subscribers.discard(subscriber)

    def count_written(self, size: int) -> None:
        """Count bytes that were written to one of the channels."""
        self._unread_estimate += size

    def has_room(self) -> bool:
        """Return whether the unread bytes of all channels together are within the limit."""
        if self._unread_estimate > self._max_unread_bytes:
            self._unread_estimate = sum(each.transport.unread_bytes() for each in self._subscribers)
        return self._unread_estimate <= self._max_unread_bytes

    def find_slowest(self) -> LiveSubscriber:
        """Return the channel with the most unread bytes."""
        return max(self._subscribers, key=lambda each: each.transport.unread_bytes())
