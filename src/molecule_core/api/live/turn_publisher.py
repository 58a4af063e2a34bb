"""Sends the live turns of one org to its subscribers, a few times a second.

A subscriber that reads slowly misses updates, and later gets the whole turn instead. It delays no other subscriber, and
is not disconnected for it.
"""

from collections.abc import Callable, Iterable

from molecule_core.api.live.subscribers import LiveSubscriber, SharedFrames
from molecule_core.api.live.transient_events import clock_sleep
from molecule_core.common.clock import Clock
from molecule_core.common.limits import Limits
from molecule_core.live_turns.model import LiveTurn
from molecule_core.views.feed import EncodedEvent
from molecule_core.views.turn_feed import TurnFeed, TurnUpdate

# Part of the unread bytes of a subscriber that live turns may use; the rest is for journaled events.
_SHARE_OF_UNREAD = 8
# Pause before a slow subscriber is checked again.
_LATE_CHECK_SECONDS = 0.25


class TurnPublisher:
    """Publisher of the live turns of one org. `audience_of`: returns the subscribers that may see an event."""

    def __init__(
        self,
        turns: TurnFeed,
        audience_of: Callable[[EncodedEvent], Iterable[LiveSubscriber]],
        *,
        clock: Clock,
        limits: Limits,
    ) -> None:
        self._turns = turns
        self._audience_of = audience_of
        self._clock = clock
        self._interval = 1 / limits.live_updates
        self._max_unread = limits.subscriber_bytes // _SHARE_OF_UNREAD
        self._has_late = False

    async def publish(self) -> None:
        """Publish updates until the server stops."""
        while not self._turns.closing:
            updates = await self._turns.wait_for_updates(_LATE_CHECK_SECONDS if self._has_late else None)
            for update in updates:
                self._send_update(update)
            if self._has_late:
                self._send_to_late()
            await clock_sleep(self._clock, self._interval)

    def send_current(self, subscriber: LiveSubscriber) -> None:
        """Send the running turns to a subscriber that has caught up with the journal."""
        for turn in self._turns.turns.values():
            whole = self._turns.whole_event(turn)
            if subscriber in self._audience_of(whole):
                self._send_to(subscriber, turn, whole, {})

    def _send_update(self, update: TurnUpdate) -> None:
        frames, whole_frames, whole = SharedFrames(), SharedFrames(), list[EncodedEvent]()
        for subscriber in self._audience_of(update.event):
            if not subscriber.is_live:  # it gets the running turns when it has caught up
                continue
            known_rev = subscriber.turn_revs.get(update.key)
            if update.turn is None:
                subscriber.turn_revs.pop(update.key, None)
                subscriber.send_event(update.event, frames)
            elif update.known is not None and known_rev == update.known.rev:
                self._send_to(subscriber, update.turn, update.event, frames)
            else:
                whole = whole or [self._turns.whole_event(update.turn)]
                self._send_to(subscriber, update.turn, whole[0], whole_frames)

    def _send_to(self, subscriber: LiveSubscriber, turn: LiveTurn, event: EncodedEvent, frames: SharedFrames) -> None:
        """Send an event about a turn, unless the subscriber reads too slowly for it."""
        if subscriber.transport.unread_bytes() > self._max_unread or not subscriber.siblings.has_room():
            self._has_late = True
            return
        subscriber.turn_revs[turn.key] = turn.rev
        subscriber.send_event(event, frames)

    def _send_to_late(self) -> None:
        """Send whole turns to subscribers that missed an update and have read since."""
        self._has_late = False
        for turn in self._turns.turns.values():
            whole, frames = self._turns.whole_event(turn), SharedFrames()
            for subscriber in self._audience_of(whole):
                if subscriber.is_live and subscriber.turn_revs.get(turn.key) != turn.rev:
                    self._send_to(subscriber, turn, whole, frames)
