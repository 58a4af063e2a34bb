"""Live channels: delivers journal events to subscribers.

One task per org reads the journal from its cursor and sends each event, encoded once, to all subscribers that may see
it. A new or resuming subscriber reads the journal from its own cursor until it has caught up. Nothing polls.

Called by `api/live/websocket.py` and `api/live/sse.py`; calls `views/feed.py`.
"""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from molecule_core.access.model import CredentialKind
from molecule_core.api.live.credential_channels import CredentialChannels
from molecule_core.api.live.subscribers import AuthorizedChannel, LiveSubscriber, SharedFrames
from molecule_core.api.live.transient_events import TransientEvents, clock_sleep
from molecule_core.api.live.turn_publisher import TurnPublisher
from molecule_core.common.clock import Clock, to_rfc3339, yield_to_others
from molecule_core.common.errors import CapacityExceeded, StoreUnavailable
from molecule_core.common.limits import Limits
from molecule_core.org.model import Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.org.rules import are_related, neighbours
from molecule_core.views.feed import EncodedEvent, Feed
from molecule_core.views.snapshot import snapshot_user
from molecule_core.views.turn_feed import TurnFeed
from molecule_core.wire.schemas.live import (
    PROTOCOL_VERSION,
    CurrentFrame,
    HelloFrame,
    ResumedFrame,
    SnapshotRequiredFrame,
)

# Events per read while catching up. Few, since an event may contain a large message.
_CATCH_UP_PAGE = 32
# Subscribers handled before the publisher yields to other tasks.
_YIELD_THRESHOLD = 50
# A subscriber with too many unread bytes must read some of them within this time.
_DRAIN_SECONDS = 1.0
# Delay before an unavailable store is read again.
_STORE_RETRY_SECONDS = 1.0
# 50 ms: between two checks of whether the channels of a credential have read enough.
_ROOM_CHECK_SECONDS = 0.05
CLOSE_SESSION_ENDED, CLOSE_TOO_SLOW, CLOSE_LIMIT = 4001, 4008, 4029
"""WebSocket close codes: log in again; read faster and resume; send or open fewer, then resume."""
CLOSE_INTERNAL, CLOSE_RESTARTING = 1011, 1012
"""WebSocket close codes: resume; resume, the server stops (service restart)."""
DISCONNECT_REASONS = {
    CLOSE_SESSION_ENDED: "session ended",
    CLOSE_TOO_SLOW: "too slow",
    CLOSE_LIMIT: "limit",
    CLOSE_INTERNAL: "trouble",
    CLOSE_RESTARTING: "restart",
}
"""Labels of the disconnect metric."""
_log = logging.getLogger("molecule.live")


class LiveHub:
    """All live subscribers of this process, by org."""

    def __init__(
        self, feed: Feed, turn_feed: Callable[[str], TurnFeed], org: OrgReader, *, clock: Clock, limits: Limits
    ) -> None:
        self._feed = feed
        self._turn_feed = turn_feed
        self._org = org
        self._clock = clock
        self._limits = limits
        self._channels: dict[str, _OrgChannel] = {}
        self._by_credential: dict[str, CredentialChannels] = {}
        self._credential_ends: dict[str, int] = {}
        self._ping_task: asyncio.Task[None] | None = None
        self.disconnects = Counter(dict.fromkeys(DISCONNECT_REASONS.values(), 0))
        self.on_credential_ended: Callable[[], None] = lambda: None
        """Called when a credential has ended or will end; the MCP endpoint closes its streams then."""

    def is_closing(self) -> bool:
        """Return whether the server is stopping."""
        return self._feed.closing

    async def wait_closing(self) -> None:
        """Wait until the server is stopping, for subscribers without a connection that it closes."""
        await self._feed.wait_closing()

    def count_by_kind(self) -> Counter[str]:
        """Return the number of subscribers by kind of channel."""
        return Counter(each.transport.kind for channel in self._channels.values() for each in channel.subscribers())

    def check_limit(self, credential: str) -> None:
        """Check that a credential may open one more channel. Raises CapacityExceeded."""
        maximum = self._limits.live_channels
        if len(self._by_credential.get(credential, ())) >= maximum:
            raise CapacityExceeded(what="live channels of one credential", most=maximum)

    def count_channel(self, subscriber: LiveSubscriber) -> bool:
        """Count an opened channel for its credential. Return whether that is within the limit.

        Several requests may have passed `check_limit` before the first of them was counted."""
        channels = self._by_credential.get(subscriber.credential)
        if channels is None:
            channels = CredentialChannels(self._limits.credential_unread_bytes)
            self._by_credential[subscriber.credential] = channels
        subscriber.siblings = channels
        if len(channels) >= self._limits.live_channels:
            return False
        channels.add(subscriber)
        return True

    async def open(self, subscriber: LiveSubscriber) -> None:
        """Start a channel that receives events from now on."""
        # Registered first, so that an ending credential closes it from here on.
        (await self._channel_of(subscriber.org_id)).add(subscriber)
        head = await self._feed.head(subscriber.org_id)
        subscriber.send_frame(self._hello_frame(subscriber, head, await self._feed.oldest(subscriber.org_id)), head)
        await self._start_from(subscriber, head)

    def _hello_frame(self, subscriber: LiveSubscriber, head: int, oldest: int) -> HelloFrame:
        return HelloFrame(
            protocol=PROTOCOL_VERSION,
            epoch=self._feed.epoch(),
            org_id=subscriber.org_id,
            head=head,
            oldest=oldest,
            user=snapshot_user(subscriber.caller),
            heartbeat_s=self._limits.live_seconds,
            server_time=to_rfc3339(self._clock.now()),
        )

    async def resume(self, subscriber: LiveSubscriber, after: int | None, epoch: str | None) -> None:
        """Resume a channel after an event number, or send `snapshot_required`."""
        subscriber.is_live = False
        head = await self._feed.head(subscriber.org_id)
        after = head if after is None else after
        reason = self._snapshot_reason(subscriber, after, epoch, head)
        if not reason and after + 1 < await self._feed.oldest(subscriber.org_id):
            reason = "pruned"
        if reason:
            subscriber.send_frame(SnapshotRequiredFrame(reason), head)
            if subscriber.transport.can_resubscribe:
                return
            after = head
        elif after == head:
            subscriber.send_frame(CurrentFrame(after), after)
        else:
            count = await self._feed.count_between(subscriber.audience(self._org), after, head)
            subscriber.send_frame(ResumedFrame(after, head, count), after)
        await self._start_from(subscriber, after)  # control: catch-up-cursor

    def _snapshot_reason(self, subscriber: LiveSubscriber, after: int, epoch: str | None, head: int) -> str:
        if epoch is not None and epoch != self._feed.epoch():
            return "epoch_changed"
        if after > head:
            return "ahead"
        # Workspaces have no snapshot to load instead, nor have clients of some channels.
        may_load = subscriber.transport.has_snapshot and subscriber.caller.kind is not CredentialKind.WORKSPACE
        return "too_many" if may_load and head - after > self._limits.resume_events else ""

    async def _start_from(self, subscriber: LiveSubscriber, after: int) -> None:
        subscriber.cursor = subscriber.last_sent = after
        channel = await self._channel_of(subscriber.org_id)
        channel.add(subscriber)
        if self.has_lost_access(subscriber):  # ended before the subscriber was registered
            subscriber.transport.disconnect(
                CLOSE_SESSION_ENDED, "the credential has ended, or the workspace was removed"
            )
            return
        if self._ping_task is None or self._ping_task.done():
            self._ping_task = asyncio.create_task(self._ping_loop())
        await channel.catch_up(subscriber)

    async def _channel_of(self, org_id: str) -> "_OrgChannel":
        if org_id not in self._channels:
            sent = await self._feed.applied_head(org_id)
            if org_id not in self._channels:  # another task may have created it meanwhile
                turns = self._turn_feed(org_id)
                channel = _OrgChannel(
                    self._feed, turns, self._org, self._clock, org_id, sent, self._limits, self._drop_channel
                )
                self._channels[org_id] = channel
        return self._channels[org_id]

    def has_lost_access(self, subscriber: AuthorizedChannel) -> bool:
        """Return whether the credential has ended or the workspace was removed."""
        workspace = None if subscriber.workspace_id is None else self._org.workspace(subscriber.workspace_id)
        return self._is_credential_over(subscriber) or (workspace is not None and workspace.removed)

    def _is_credential_over(self, subscriber: AuthorizedChannel) -> bool:
        """Return whether the credential has ended."""
        now = self._clock.now()
        own = subscriber.caller.expires_at
        end_times = (
            own,
            self._credential_ends.get(subscriber.credential),
            self._credential_ends.get(subscriber.caller.id),
        )
        return any(end is not None and end <= now for end in end_times)

    def _drop_channel(self, channel: "_OrgChannel") -> None:
        """Forget a stopped channel; the next subscriber gets a new one."""
        if self._channels.get(channel.org_id) is channel:
            del self._channels[channel.org_id]

    def remove_subscriber(self, subscriber: LiveSubscriber) -> None:
        """Remove a subscriber whose channel has ended."""
        subscriber.is_live = False
        if subscriber.channel is not None:
            subscriber.channel.remove(subscriber)
        channels = self._by_credential.get(subscriber.credential)
        if channels is not None:
            channels.remove(subscriber)
            if not len(channels):
                del self._by_credential[subscriber.credential]

    def end_credentials(self, names: Iterable[str], reason: str, at: int = 0) -> None:
        """End credentials at a time (microseconds; 0: now) and close their channels, also those being opened.

        `names`: hashes of credentials, or a person id for all of theirs. Future ends are checked on each ping."""
        self._credential_ends.update(dict.fromkeys(names, at))
        self.on_credential_ended()
        for subscriber in self._subscribers():
            if self._is_credential_over(subscriber):
                subscriber.transport.disconnect(CLOSE_SESSION_ENDED, reason)

    def disconnect_person(self, person_id: str) -> None:
        """Close the channels of a person whose role has changed; they resume with the new role."""
        for subscriber in self._subscribers():
            if subscriber.caller.id == person_id:
                subscriber.transport.disconnect(CLOSE_INTERNAL, "your role has changed; resume")

    def _subscribers(self) -> list[LiveSubscriber]:
        return [subscriber for channel in self._channels.values() for subscriber in channel.subscribers()]

    async def _ping_loop(self) -> None:
        """Ping all channels; close those whose credential has expired or whose client reads nothing."""
        while self._channels:
            await clock_sleep(self._clock, self._limits.live_seconds)
            for subscriber in self._subscribers():
                if self._is_credential_over(subscriber):
                    subscriber.transport.disconnect(CLOSE_SESSION_ENDED, "the credential has expired")
                elif subscriber.is_stuck():
                    subscriber.transport.disconnect(CLOSE_TOO_SLOW, "nothing was read for a while; resume")
                else:
                    subscriber.transport.write(subscriber.transport.encode_ping(subscriber.last_sent))

    def count_subscribers(self) -> int:
        """Return the number of subscribers."""
        return len(self._subscribers())

    async def close(self) -> None:
        """Stop all tasks."""
        for channel in list(self._channels.values()):
            channel.stop()
        if self._ping_task is not None:
            self._ping_task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._ping_task


class _OrgChannel:
    """Subscribers of one org, and the tasks that send to them."""

    def __init__(
        self,
        feed: Feed,
        turns: TurnFeed,
        org: OrgReader,
        clock: Clock,
        org_id: str,
        sent: int,
        limits: Limits,
        on_stopped: "Callable[[_OrgChannel], None]",
    ) -> None:
        self.org_id = org_id
        self._feed = feed
        self._org = org
        self._clock = clock
        self._sent_upto = sent
        self._limit = limits.subscriber_bytes
        self._on_stopped = on_stopped
        self._org_subscribers: set[LiveSubscriber] = set()
        self._by_workspace: dict[str, set[LiveSubscriber]] = {}
        self._transient = transient = TransientEvents(feed, org, org_id, self._publish, clock=clock)
        self._turns = TurnPublisher(turns, self._audience_of, clock=clock, limits=limits)
        loops = (
            self._publish_journal,
            transient.publish_heartbeats,
            transient.publish_progress,
            self._turns.publish,
        )
        self._tasks = [asyncio.create_task(self._run_until_closing(work)) for work in loops]

    # -- subscribers ---------------------------------------------------------------------------------------------------

    def add(self, subscriber: LiveSubscriber) -> None:
        """Add a subscriber, if it is not there yet."""
        subscriber.channel = self
        if subscriber.workspace_id is None:
            self._org_subscribers.add(subscriber)
        else:
            self._by_workspace.setdefault(subscriber.workspace_id, set()).add(subscriber)

    def remove(self, subscriber: LiveSubscriber) -> None:
        """Remove a subscriber; the last one stops the tasks."""
        self._org_subscribers.discard(subscriber)
        if subscriber.workspace_id is not None:
            others = self._by_workspace.get(subscriber.workspace_id, set())
            others.discard(subscriber)
            if not others:
                self._by_workspace.pop(subscriber.workspace_id, None)
        if not self._org_subscribers and not self._by_workspace:
            self.stop()

    def subscribers(self) -> Iterator[LiveSubscriber]:
        """Iterate over all subscribers."""
        yield from self._org_subscribers
        for some in self._by_workspace.values():
            yield from some

    def stop(self) -> None:
        """Stop sending."""
        self._on_stopped(self)
        for task in self._tasks:
            task.cancel()

    def _audience_of(self, event: EncodedEvent) -> Iterator[LiveSubscriber]:
        """Yield the subscribers that may see an event, by the same rule as the query `events_after_for`."""
        yield from self._org_subscribers
        if not self._by_workspace:
            return
        yield from self._by_workspace.get(event.workspace_id, ())  # control: own-rows-notice
        about = self._org.workspace(event.workspace_id)
        if event.audience == "peers" and about is not None:  # control: peers-audience
            for workspace_id in self._subscribed_neighbours(about):
                yield from (each for each in self._by_workspace[workspace_id] if each.about_workspace_id is None)
        if event.tree_root_id:
            yield from (
                each for each in self._by_workspace.get(event.tree_root_id, ()) if each.about_workspace_id is None
            )
        if event.audience == "children" and about is not None:
            for child in self._org.children(about):
                yield from (each for each in self._by_workspace.get(child.id, ()) if each.about_workspace_id is None)

    def _subscribed_neighbours(self, workspace: Workspace) -> list[str]:
        """Return the related workspaces with subscribers, iterating over whichever is probably the smaller set."""
        if len(self._by_workspace) > _YIELD_THRESHOLD:
            return [each.id for each in neighbours(self._org, workspace) if each.id in self._by_workspace]
        return [each for each in self._by_workspace if each != workspace.id and self._is_related(each, workspace)]

    def _is_related(self, workspace_id: str, other: Workspace) -> bool:
        one = self._org.workspace(workspace_id)
        return one is not None and are_related(self._org, one, other)

    # -- sending -------------------------------------------------------------------------------------------------------

    async def catch_up(self, subscriber: LiveSubscriber) -> None:
        """Send events from the subscriber's own cursor until it has everything that the others have."""
        start_cursor, count = subscriber.cursor, _CATCH_UP_PAGE
        while subscriber.cursor < self._sent_upto:
            await self._wait_for_room(subscriber)
            async with subscriber.siblings.page_reads:
                page = await self._feed.read_after(
                    subscriber.audience(self._org), subscriber.cursor, count, self._sent_upto
                )
                sent = self._send_until_full(subscriber, page.events)
            if sent == len(page.events):
                count = min(_CATCH_UP_PAGE, count * 2)
                subscriber.cursor = max(subscriber.cursor, page.upto)
            else:
                count = max(1, sent)  # the rest is read again: a client that reads slowly holds no page of large events
            if subscriber.transport.unread_bytes() > self._limit // 2:
                await subscriber.transport.wait_drained()
            await yield_to_others()  # reads that return at once must not starve other tasks
            if subscriber.cursor >= self._sent_upto and start_cursor + 1 < await self._feed.oldest(self.org_id):
                # Retention ran during the catch-up: events that were still to be sent may be gone.
                subscriber.send_frame(SnapshotRequiredFrame("pruned"), subscriber.cursor)
                if subscriber.transport.can_resubscribe:
                    return
                start_cursor = subscriber.cursor
        subscriber.is_live = True
        for event in await self._recent_events():
            if subscriber.workspace_id in (None, event.workspace_id):
                subscriber.send_event(event, {})
        self._turns.send_current(subscriber)

    async def _recent_events(self) -> list[EncodedEvent]:
        """Return the transient events of the last minute, as soon as the store responds: no reason to disconnect."""
        while True:
            try:
                return await self._transient.recent()
            except StoreUnavailable:
                await clock_sleep(self._clock, _STORE_RETRY_SECONDS)

    def _send_until_full(self, subscriber: LiveSubscriber, events: Sequence[EncodedEvent]) -> int:
        """Send events until too much is unread, and return how many were sent."""
        for number, event in enumerate(events):
            if not subscriber.siblings.has_room():  # others may have used it since the page was requested
                return number
            subscriber.send_event(event, {})
            if subscriber.transport.unread_bytes() > self._limit // 2:
                return number + 1
        return len(events)

    async def _wait_for_room(self, subscriber: LiveSubscriber) -> None:
        """Wait until the channels of a credential have read enough; disconnect the slowest if it reads nothing."""
        siblings = subscriber.siblings
        while not siblings.has_room():
            slowest = siblings.find_slowest()
            delivered, until = slowest.transport.delivered_bytes(), self._clock.monotonic() + _DRAIN_SECONDS
            while not siblings.has_room() and self._clock.monotonic() < until:
                await clock_sleep(self._clock, _ROOM_CHECK_SECONDS)
            if slowest.transport.delivered_bytes() == delivered and not siblings.has_room():
                siblings.remove(slowest)  # not counted again, nor disconnected by another waiter
                slowest.transport.disconnect(
                    CLOSE_TOO_SLOW, "too many events are unread on the channels of this credential; resume"
                )

    async def _drain_slow_subscriber(self, subscriber: LiveSubscriber) -> None:
        """Wait until a slow subscriber has read, then catch up; disconnect it if it reads nothing."""
        while subscriber.transport.unread_bytes() > self._limit // 2:
            delivered = subscriber.transport.delivered_bytes()
            await self._clock.wait(subscriber.transport.wait_drained(), _DRAIN_SECONDS)
            if subscriber.transport.delivered_bytes() == delivered:
                subscriber.transport.disconnect(CLOSE_TOO_SLOW, "too many events are unread; resume")
                return
        await self.catch_up(subscriber)  # control: catch-up-after-nod

    async def _run_until_closing(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a task again when the store was unavailable; on an internal error, close the channels, which resume."""
        while not self._feed.closing:
            try:
                await work()
            except StoreUnavailable:
                await clock_sleep(self._clock, _STORE_RETRY_SECONDS)
            except Exception:
                _log.exception(
                    "live events of an organisation have stopped; its channels are closed",
                    extra={"org": self.org_id},
                )
                for subscriber in list(self.subscribers()):
                    subscriber.is_live = False
                    subscriber.transport.disconnect(CLOSE_INTERNAL, "the server failed; resume")
                self.stop()
                return

    async def _publish_journal(self) -> None:
        while not self._feed.closing:
            page = await self._feed.wait_for_events(self.org_id, self._sent_upto, _CATCH_UP_PAGE)
            for event in page.events:
                self._sent_upto = event.seq
                if self._publish(event) > _YIELD_THRESHOLD:
                    await yield_to_others()  # sending to many subscribers must not block other tasks for a whole page
                if event.name == "WORKSPACE_REMOVED":
                    self._end_workspace(event.workspace_id)
            self._sent_upto = max(self._sent_upto, page.upto)

    def _publish(self, event: EncodedEvent) -> int:
        return self._send_to(event, self._audience_of(event))

    def _send_to(self, event: EncodedEvent, subscribers: Iterable[LiveSubscriber]) -> int:
        """Send an event to the live ones of these subscribers and return their number."""
        frames: SharedFrames = {}
        slow, sent = [], 0
        for subscriber in subscribers:
            if subscriber.is_live and not 0 < event.seq <= subscriber.cursor:
                if not subscriber.siblings.has_room():
                    slow.append(subscriber)
                    continue
                subscriber.send_event(event, frames)
                sent += 1
                if subscriber.transport.unread_bytes() > self._limit:
                    slow.append(subscriber)
        for subscriber in slow:
            subscriber.is_live = False
            subscriber.transport.replace_work(partial(self._drain_slow_subscriber, subscriber))
        return sent

    def _end_workspace(self, workspace_id: str) -> None:
        for subscriber in list(self._by_workspace.get(workspace_id, ())):
            subscriber.transport.disconnect(CLOSE_SESSION_ENDED, "workspace removed")
