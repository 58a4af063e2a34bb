"""Who listens to an organisation's events, where in its journal they stand, and where their frames go.

Above: `api/live/hub.py`. Below: `views/feed.py`.
"""

from collections.abc import Callable, Coroutine
from typing import Any, Protocol

import msgspec

from molecule_core.access.model import Caller, CredentialKind
from molecule_core.org.reader import OrgReader
from molecule_core.org.rules import are_related
from molecule_core.views.feed import Audience, EncodedEvent

ChannelWork = Coroutine[Any, Any, None]


class EventTransport(Protocol):
    """Where a listener's frames go."""

    kind: str
    """What operators call it."""
    can_resubscribe: bool
    """Whether its client knows what to do when it is told to load a snapshot."""
    has_snapshot: bool
    """Whether there is one to load instead of all that it missed."""

    def encode_event(self, prev: int, event: EncodedEvent) -> bytes:
        """A notice as this kind of channel tells it; the same for all of the kind whose last event was `prev`."""

    def encode_control(self, frame: msgspec.Struct, at: int) -> bytes:
        """A frame that is no event; the client then is at this number."""

    def encode_ping(self, sent: int) -> bytes:
        """A sign of life, with the number of the last event sent."""

    def write(self, data: bytes) -> None:
        """Sends bytes, or keeps them until the client has read."""

    def unread_bytes(self) -> int:
        """Bytes that the client has not taken yet."""

    def delivered_bytes(self) -> int:
        """Bytes that it has taken."""

    async def wait_drained(self) -> None:
        """Returns once the client has taken nearly all."""

    def replace_work(self, work: Callable[[], ChannelWork]) -> None:
        """Does something for this channel, in place of what is being done for it."""

    def disconnect(self, code: int, reason: str) -> None:
        """Ends the channel."""


class AuthorizedChannel(Protocol):
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


class SubscriberSet(Protocol):
    """Where a listener is kept."""

    def remove(self, subscriber: "LiveSubscriber") -> None:
        """Lets it go."""


class LiveSubscriber:
    """One channel's place in an organisation's journal.

    `cursor`: it has been told all that it may see up to here. `sent`: the number of the last event it got. `live`: it
    has caught up, and is told what comes as it comes."""

    __slots__ = (
        "about_workspace_id",
        "caller",
        "channel",
        "credential",
        "cursor",
        "idle_checks",
        "is_live",
        "org_id",
        "rewrite",
        "last_sent",
        "transport",
        "last_delivered",
        "workspace_id",
    )

    def __init__(
        self,
        caller: Caller,
        org_id: str,
        transport: EventTransport,
        credential: str,
        about_workspace_id: str | None = None,
        rewrite: Callable[[EncodedEvent], EncodedEvent] | None = None,
    ) -> None:
        """`retold`: a notice as this one alone is told it."""
        self.rewrite = rewrite
        self.caller = caller
        self.org_id = org_id
        self.transport = transport
        self.credential = credential
        self.about_workspace_id = about_workspace_id
        self.workspace_id = about_workspace_id or (caller.id if caller.kind is CredentialKind.WORKSPACE else None)
        self.channel: SubscriberSet | None = None
        self.cursor = 0
        self.last_sent = 0
        self.is_live = False
        self.last_delivered = -1
        self.idle_checks = 0

    def send_event(self, event: EncodedEvent, frames: dict[tuple[type, int], bytes]) -> None:
        """Sends a notice; its bytes are made once for all listeners who can share them."""
        if self.rewrite is not None and event.message_row is not None:
            event, frames = self.rewrite(event), {}
        key = (type(self.transport), self.last_sent)
        data = frames.get(key)
        if data is None:
            data = frames[key] = self.transport.encode_event(self.last_sent, event)
        self.transport.write(data)
        if event.seq:
            self.cursor = self.last_sent = event.seq

    def send_frame(self, frame: msgspec.Struct, at: int) -> None:
        """Sends a frame that is no event."""
        self.transport.write(self.transport.encode_control(frame, at))

    def is_stuck(self) -> bool:
        """Whether it has left something unread, and taken nothing between the last three times that this was asked.

        Twice would be too strict: the kernel tells only when a third of its own large buffer is free again."""
        previous, self.last_delivered = self.last_delivered, self.transport.delivered_bytes()
        self.idle_checks = (
            self.idle_checks + 1 if self.transport.unread_bytes() > 0 and previous == self.last_delivered else 0
        )
        return self.idle_checks >= 2  # control: idle-listener


def audience_of(org: OrgReader, subscriber: LiveSubscriber) -> Audience:
    """Which facts of the journal a listener may see, as things stand now."""
    if subscriber.workspace_id is None:
        return Audience(subscriber.org_id)
    own = org.workspace(subscriber.workspace_id)
    if own is None or subscriber.about_workspace_id is not None:
        return Audience(subscriber.org_id, subscriber.workspace_id)
    peers = ",".join(each.id for each in org.all_with_removed(subscriber.org_id) if are_related(org, own, each))
    return Audience(subscriber.org_id, own.id, f",{peers},", own.parent_id or "", include_subtrees=True)
