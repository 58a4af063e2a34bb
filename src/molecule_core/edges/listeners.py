"""Who listens to an organisation's events, where in its journal they stand, and where their frames go.

Above: `edges/live.py`. Below: `views/feed.py`.
"""

from collections.abc import Callable, Coroutine
from typing import Any, Protocol

import msgspec

from molecule_core.access.model import Caller, Kind
from molecule_core.org.reader import OrgReader
from molecule_core.org.rules import related
from molecule_core.views.feed import Notice, Scope

Work = Coroutine[Any, Any, None]


class Sink(Protocol):
    """Where a listener's frames go."""

    kind: str
    """What operators call it."""
    resubscribes: bool
    """Whether its client knows what to do when it is told to load a snapshot."""
    has_snapshot: bool
    """Whether there is one to load instead of all that it missed."""

    def notice(self, prev: int, notice: Notice) -> bytes:
        """A notice as this kind of channel tells it; the same for all of the kind whose last event was `prev`."""

    def control(self, frame: msgspec.Struct, at: int) -> bytes:
        """A frame that is no event; the client then is at this number."""

    def ping(self, sent: int) -> bytes:
        """A sign of life, with the number of the last event sent."""

    def write(self, data: bytes) -> None:
        """Sends bytes, or keeps them until the client has read."""

    def unread(self) -> int:
        """Bytes that the client has not taken yet."""

    def taken(self) -> int:
        """Bytes that it has taken."""

    async def drained(self) -> None:
        """Returns once the client has taken nearly all."""

    def serve(self, work: Callable[[], Work]) -> None:
        """Does something for this channel, in place of what is being done for it."""

    def cut(self, code: int, reason: str) -> None:
        """Ends the channel."""


class Admitted(Protocol):
    """Who was let in, by what, and, if it is one workspace's, whose channel it is."""

    @property
    def caller(self) -> Caller:
        """Who."""

    @property
    def credential(self) -> str:
        """The hash of the credential."""

    @property
    def workspace_id(self) -> str | None:
        """The workspace without which it makes no sense."""


class Place(Protocol):
    """Where a listener is kept."""

    def remove(self, listener: "Listener") -> None:
        """Lets it go."""


class Listener:
    """One channel's place in an organisation's journal.

    `cursor`: it has been told all that it may see up to here. `sent`: the number of the last event it got. `live`: it
    has caught up, and is told what comes as it comes."""

    __slots__ = (
        "about",
        "caller",
        "channel",
        "credential",
        "cursor",
        "idle",
        "live",
        "org_id",
        "retold",
        "sent",
        "sink",
        "taken",
        "workspace_id",
    )

    def __init__(
        self,
        caller: Caller,
        org_id: str,
        sink: Sink,
        credential: str,
        about: str | None = None,
        retold: Callable[[Notice], Notice] | None = None,
    ) -> None:
        """`retold`: a notice as this one alone is told it."""
        self.retold = retold
        self.caller = caller
        self.org_id = org_id
        self.sink = sink
        self.credential = credential
        self.about = about
        self.workspace_id = about or (caller.id if caller.kind is Kind.WORKSPACE else None)
        self.channel: Place | None = None
        self.cursor = 0
        self.sent = 0
        self.live = False
        self.taken = -1
        self.idle = 0

    def tell(self, notice: Notice, frames: dict[tuple[type, int], bytes]) -> None:
        """Sends a notice; its bytes are made once for all listeners who can share them."""
        if self.retold is not None and notice.row is not None:
            notice, frames = self.retold(notice), {}
        key = (type(self.sink), self.sent)
        data = frames.get(key)
        if data is None:
            data = frames[key] = self.sink.notice(self.sent, notice)
        self.sink.write(data)
        if notice.seq:
            self.cursor = self.sent = notice.seq

    def say(self, frame: msgspec.Struct, at: int) -> None:
        """Sends a frame that is no event."""
        self.sink.write(self.sink.control(frame, at))

    def is_stuck(self) -> bool:
        """Whether it has left something unread, and taken nothing between the last three times that this was asked.

        Twice would be too strict: the kernel tells only when a third of its own large buffer is free again."""
        before, self.taken = self.taken, self.sink.taken()
        self.idle = self.idle + 1 if self.sink.unread() > 0 and before == self.taken else 0
        return self.idle >= 2  # control: idle-listener


def scope_of(org: OrgReader, listener: Listener) -> Scope:
    """Which facts of the journal a listener may see, as things stand now."""
    if listener.workspace_id is None:
        return Scope(listener.org_id)
    own = org.workspace(listener.workspace_id)
    if own is None or listener.about is not None:
        return Scope(listener.org_id, listener.workspace_id)
    peers = ",".join(each.id for each in org.all_ever(listener.org_id) if related(org, own, each))
    return Scope(listener.org_id, own.id, f",{peers},", own.parent_id or "", trees=True)
