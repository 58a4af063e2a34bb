"""Live channels: who listens, and what each is told.

One task an organisation reads the journal behind the last number it told and hands each notice, encoded once, to all
who may see it. Who comes late or comes back reads the journal from its own cursor until it has caught up. Nobody polls.

Above: the WebSocket (`edges/websocket.py`) and the event stream (`edges/stream.py`). Below: `views/feed.py`.
"""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator
from functools import partial
from typing import Any

from molecule_core.access.model import Kind
from molecule_core.edges.beats import Beats, pause
from molecule_core.edges.listeners import Admitted, Listener, scope_of
from molecule_core.ground.clock import Clock, others_first, rfc3339
from molecule_core.ground.errors import StoreUnavailable
from molecule_core.ground.limits import Limits
from molecule_core.org.model import Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.org.rules import neighbours, related
from molecule_core.views.feed import Feed, Notice
from molecule_core.views.snapshot import user_of
from molecule_core.wire.live import PROTOCOL, Current, Hello, Resumed, SnapshotRequired

# Notices read at once by who catches up: a person's message may be large, so few of them.
_PAGE = 32
# So many are told, or looked at, without a second thought.
_FEW = 50
# A listener that left too much unread has this long to take some of it.
_PATIENCE_SECONDS = 1.0
# A store that does not answer is asked again after so long.
_STORE_SECONDS = 1.0
SESSION_ENDED, TOO_SLOW, INTERNAL = 4001, 4008, 1011
"""Close codes of the WebSocket: log in again; read faster, and resume; just resume."""
_log = logging.getLogger("molecule.live")


class Live:
    """All listeners of this process, by organisation."""

    def __init__(self, feed: Feed, org: OrgReader, *, clock: Clock, limits: Limits) -> None:
        self._feed = feed
        self._org = org
        self._clock = clock
        self._limits = limits
        self._channels: dict[str, _Channel] = {}
        self._ends: dict[str, int] = {}
        self._pinging: asyncio.Task[None] | None = None
        self.cuts = Counter[str]()
        self.when_ended: Callable[[], None] = lambda: None
        """Called when something that lets callers in has ended, or will: others keep channels open too."""

    def kinds(self) -> Counter[str]:
        """How many listen, by the kind of their channel."""
        return Counter(each.sink.kind for channel in self._channels.values() for each in channel.listeners())

    async def open(self, listener: Listener) -> None:
        """A channel begins: it is told what happens from now on."""
        (await self._channel_of(listener.org_id)).add(listener)  # from here on it can be ended
        head = await self._feed.head(listener.org_id)
        listener.say(self._hello(listener, head, await self._feed.oldest(listener.org_id)), head)
        await self._go_on(listener, head)

    def _hello(self, listener: Listener, head: int, oldest: int) -> Hello:
        return Hello(
            protocol=PROTOCOL,
            epoch=self._feed.epoch(),
            org_id=listener.org_id,
            head=head,
            oldest=oldest,
            user=user_of(listener.caller),
            heartbeat_s=self._limits.live_seconds,
            server_time=rfc3339(self._clock.now()),
        )

    async def resume(self, listener: Listener, after: int | None, epoch: str | None) -> None:
        """A channel goes on behind a number, or is told that it needs a snapshot first."""
        listener.live = False
        head = await self._feed.head(listener.org_id)
        after = head if after is None else after
        reason = self._why_not(listener, after, epoch, head)
        if not reason and after + 1 < await self._feed.oldest(listener.org_id):
            reason = "pruned"
        if reason:
            listener.say(SnapshotRequired(reason), head)
            if listener.sink.resubscribes:
                return
            after = head
        elif after == head:
            listener.say(Current(after), after)
        else:
            count = await self._feed.count(scope_of(self._org, listener), after, head)
            listener.say(Resumed(after, head, count), after)
        await self._go_on(listener, after)  # control: catch-up-cursor

    def _why_not(self, listener: Listener, after: int, epoch: str | None, head: int) -> str:
        if epoch is not None and epoch != self._feed.epoch():
            return "epoch_changed"
        if after > head:
            return "ahead"
        # A workspace has no snapshot to load instead, nor have clients of some channels.
        may_load = listener.sink.has_snapshot and listener.caller.kind is not Kind.WORKSPACE
        return "too_many" if may_load and head - after > self._limits.resume_events else ""

    async def _go_on(self, listener: Listener, after: int) -> None:
        listener.cursor = listener.sent = after
        channel = await self._channel_of(listener.org_id)
        channel.add(listener)
        if self.has_ended(listener):  # that was told before it was here to be told
            listener.sink.cut(SESSION_ENDED, "the credential has ended, or the workspace was removed")
            return
        if self._pinging is None or self._pinging.done():
            self._pinging = asyncio.create_task(self._ping())
        await channel.catch_up(listener)

    async def _channel_of(self, org_id: str) -> "_Channel":
        if org_id not in self._channels:
            told = await self._feed.settled(org_id)
            if org_id not in self._channels:  # another may have come meanwhile
                limit = self._limits.subscriber_bytes
                channel = _Channel(self._feed, self._org, self._clock, org_id, told, limit, self._forget)
                self._channels[org_id] = channel
        return self._channels[org_id]

    def has_ended(self, listener: Admitted) -> bool:
        """Whether who was let in once would not be let in any more."""
        workspace = None if listener.workspace_id is None else self._org.workspace(listener.workspace_id)
        return self._is_over(listener) or (workspace is not None and workspace.removed)

    def _is_over(self, listener: Admitted) -> bool:
        """Whether what let it in lets nobody in any more."""
        now = self._clock.now()
        own = listener.caller.expires_at
        ends = (own, self._ends.get(listener.credential), self._ends.get(listener.caller.id))
        return any(end is not None and end <= now for end in ends)

    def _forget(self, channel: "_Channel") -> None:
        """A channel tells nobody any more; who comes next gets a new one."""
        if self._channels.get(channel.org_id) is channel:
            del self._channels[channel.org_id]

    def leave(self, listener: Listener) -> None:
        """A channel has ended."""
        listener.live = False
        if listener.channel is not None:
            listener.channel.remove(listener)

    def end(self, names: Iterable[str], why: str, at: int = 0) -> None:
        """Credentials, by their hashes, or all of a person, by its id, are good for nothing from a time on: their
        channels end, also one that is being opened. (What ends later is noticed with the next sign of life.)"""
        self._ends.update(dict.fromkeys(names, at))
        self.when_ended()
        for listener in self._listeners():
            if self._is_over(listener):
                listener.sink.cut(SESSION_ENDED, why)

    def renew(self, person_id: str) -> None:
        """What a person may do has changed: their channels end, and the next ones know it."""
        for listener in self._listeners():
            if listener.caller.id == person_id:
                listener.sink.cut(INTERNAL, "your role has changed; resume")

    def _listeners(self) -> list[Listener]:
        return [listener for channel in self._channels.values() for listener in channel.listeners()]

    async def _ping(self) -> None:
        """One clock for all channels: a sign of life, the end of expired sessions and of readers that are stuck."""
        while self._channels:
            await pause(self._clock, self._limits.live_seconds)
            for listener in self._listeners():
                if self._is_over(listener):
                    listener.sink.cut(SESSION_ENDED, "the credential has expired")
                elif listener.is_stuck():
                    listener.sink.cut(TOO_SLOW, "nothing was read for a while; resume")
                else:
                    listener.sink.write(listener.sink.ping(listener.sent))

    def count(self) -> int:
        """How many listen."""
        return len(self._listeners())

    async def close(self) -> None:
        """The server stops."""
        for channel in list(self._channels.values()):
            channel.stop()
        if self._pinging is not None:
            self._pinging.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._pinging


class _Channel:
    """The listeners of one organisation, and the tasks that tell them."""

    def __init__(
        self,
        feed: Feed,
        org: OrgReader,
        clock: Clock,
        org_id: str,
        told: int,
        limit: int,
        ended: "Callable[[_Channel], None]",
    ) -> None:
        self.org_id = org_id
        self._feed = feed
        self._org = org
        self._clock = clock
        self._told = told
        self._limit = limit
        self._ended = ended
        self._everything: set[Listener] = set()
        self._by_workspace: dict[str, set[Listener]] = {}
        self._beats = beats = Beats(feed, org, org_id, self._tell_all, clock=clock)
        works = (self._tell_facts, beats.tell_beats, beats.tell_progress)
        self._work = [asyncio.create_task(self._keep_at(work)) for work in works]

    # -- who listens ---------------------------------------------------------------------------------------------------

    def add(self, listener: Listener) -> None:
        """Takes a listener in; no harm if it is in."""
        listener.channel = self
        if listener.workspace_id is None:
            self._everything.add(listener)
        else:
            self._by_workspace.setdefault(listener.workspace_id, set()).add(listener)

    def remove(self, listener: Listener) -> None:
        """Lets a listener go; with the last one, the tasks end."""
        self._everything.discard(listener)
        if listener.workspace_id is not None:
            others = self._by_workspace.get(listener.workspace_id, set())
            others.discard(listener)
            if not others:
                self._by_workspace.pop(listener.workspace_id, None)
        if not self._everything and not self._by_workspace:
            self.stop()

    def listeners(self) -> Iterator[Listener]:
        """All of them."""
        yield from self._everything
        for some in self._by_workspace.values():
            yield from some

    def stop(self) -> None:
        """Nobody is told any more."""
        self._ended(self)
        for task in self._work:
            task.cancel()

    def _audience(self, notice: Notice) -> Iterator[Listener]:
        """Who may see a notice: the same rule by which `events_after_for` reads."""
        yield from self._everything
        if not self._by_workspace:
            return
        yield from self._by_workspace.get(notice.workspace_id, ())  # control: own-rows-notice
        about = self._org.workspace(notice.workspace_id)
        if notice.audience == "peers" and about is not None:  # control: peers-audience
            for workspace_id in self._listening_neighbours(about):
                yield from (each for each in self._by_workspace[workspace_id] if each.about is None)
        if notice.above:
            yield from (each for each in self._by_workspace.get(notice.above, ()) if each.about is None)
        if notice.audience == "children" and about is not None:
            for child in self._org.children(about):
                yield from (each for each in self._by_workspace.get(child.id, ()) if each.about is None)

    def _listening_neighbours(self, workspace: Workspace) -> list[str]:
        """Looks at the listeners or at the neighbours, whichever are fewer as far as one can tell beforehand."""
        if len(self._by_workspace) > _FEW:
            return [each.id for each in neighbours(self._org, workspace) if each.id in self._by_workspace]
        return [each for each in self._by_workspace if each != workspace.id and self._is_related(each, workspace)]

    def _is_related(self, workspace_id: str, other: Workspace) -> bool:
        one = self._org.workspace(workspace_id)
        return one is not None and related(self._org, one, other)

    # -- what they are told --------------------------------------------------------------------------------------------

    async def catch_up(self, listener: Listener) -> None:
        """Reads from the listener's own cursor until there is nothing that the others were told and it was not."""
        began = listener.cursor
        while listener.cursor < self._told:
            page = await self._feed.after(scope_of(self._org, listener), listener.cursor, _PAGE, self._told)
            for notice in page.notices:
                listener.tell(notice, {})
                if listener.sink.unread() > self._limit // 2:
                    await listener.sink.drained()
            listener.cursor = max(listener.cursor, page.upto)
            await others_first()  # an engine that answers at once must not keep the others waiting
            if listener.cursor >= self._told and began + 1 < await self._feed.oldest(self.org_id):
                # Retention went by while it read: some of what it was to be told may be gone.
                listener.say(SnapshotRequired("pruned"), listener.cursor)
                if listener.sink.resubscribes:
                    return
                began = listener.cursor
        listener.live = True
        for notice in await self._beats.of_late():
            if listener.workspace_id in (None, notice.workspace_id):
                listener.tell(notice, {})

    async def _recover(self, listener: Listener) -> None:
        """A listener that left too much unread is told no more until it has read; one that does not read is cut."""
        while listener.sink.unread() > self._limit // 2:
            taken = listener.sink.taken()
            await self._clock.wait(listener.sink.drained(), _PATIENCE_SECONDS)
            if listener.sink.taken() == taken:
                listener.sink.cut(TOO_SLOW, "too many events are unread; resume")
                return
        await self.catch_up(listener)  # control: catch-up-after-nod

    async def _keep_at(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """A store that does not answer is asked again; a mistake of ours ends the channels, which then resume."""
        while not self._feed.closing:
            try:
                await work()
            except StoreUnavailable:
                await pause(self._clock, _STORE_SECONDS)
            except Exception:
                _log.exception(
                    "live events of an organisation have stopped; its channels are closed to start over",
                    extra={"org": self.org_id},
                )
                for listener in list(self.listeners()):
                    listener.live = False
                    listener.sink.cut(INTERNAL, "the server made a mistake; resume")
                self.stop()
                return

    async def _tell_facts(self) -> None:
        while not self._feed.closing:
            page = await self._feed.wait(self.org_id, self._told, _PAGE)
            for notice in page.notices:
                self._told = notice.seq
                if self._tell_all(notice) > _FEW:
                    await others_first()  # a crowd must not keep everybody else waiting for a whole page
                if notice.name == "WORKSPACE_REMOVED":
                    self._end(notice.workspace_id)
            self._told = max(self._told, page.upto)

    def _tell_all(self, notice: Notice) -> int:
        return self._tell(notice, self._audience(notice))

    def _tell(self, notice: Notice, listeners: Iterable[Listener]) -> int:
        """Tells all of them that are live; returns how many that were."""
        frames: dict[tuple[type, int], bytes] = {}
        slow, told = [], 0
        for listener in listeners:
            if listener.live and not 0 < notice.seq <= listener.cursor:
                listener.tell(notice, frames)
                told += 1
                if listener.sink.unread() > self._limit:
                    slow.append(listener)
        for listener in slow:
            listener.live = False
            listener.sink.serve(partial(self._recover, listener))
        return told

    def _end(self, workspace_id: str) -> None:
        for listener in list(self._by_workspace.get(workspace_id, ())):
            listener.sink.cut(SESSION_ENDED, "workspace removed")
