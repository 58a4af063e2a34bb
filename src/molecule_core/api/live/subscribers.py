"""Subscribers of an org's events: their access, their journal cursor and the transport of their frames."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

import msgspec

from molecule_core.access.model import Caller, CredentialKind
from molecule_core.live_turns.model import TurnKey
from molecule_core.org.reader import OrgReader
from molecule_core.org.rules import are_related
from molecule_core.views.feed import Audience, EncodedEvent

ChannelWork = Coroutine[Any, Any, None]
SharedFrames = dict[tuple[object, int, object], bytes]
"""Encodings of one event by encoding, number of the event before it, and what a rewriter adds."""


class EventRewriter(Protocol):
    """Changes events for some subscribers."""

    @property
    def key(self) -> object:
        """Return what the result depends on besides the event. Rewriters of equal `key` give equal results."""

    def rewrite(self, event: EncodedEvent) -> EncodedEvent:
        """Return the event for these subscribers."""


class EventTransport(Protocol):
    """Connection that encodes and sends a subscriber's frames."""

    kind: str
    """Label of the subscriber metric."""
    can_resubscribe: bool
    """Whether the client handles `snapshot_required`."""
    has_snapshot: bool
    """Whether the client can load a snapshot instead of the missed events."""
    encoding: object
    """Transports of equal `encoding` encode an event alike."""

    def encode_event(self, prev: int, event: EncodedEvent) -> bytes:
        """Encode an event. The result is shared by all transports of the `encoding` whose last event was `prev`."""

    def encode_control(self, frame: msgspec.Struct, at: int) -> bytes:
        """Encode a control frame, after which the client is at journal number `at`."""

    def encode_ping(self, sent: int) -> bytes:
        """Encode a keepalive with the number of the last sent event."""

    def write(self, data: bytes) -> None:
        """Send bytes; they are buffered until the client reads."""

    def unread_bytes(self) -> int:
        """Return the number of bytes that the client has not read yet."""

    def delivered_bytes(self) -> int:
        """Return the number of bytes that the client has read."""

    async def wait_drained(self) -> None:
        """Wait until the client has read nearly everything."""

    def replace_work(self, work: Callable[[], ChannelWork]) -> None:
        """Cancel the current work of this channel and run this instead."""

    def disconnect(self, code: int, reason: str) -> None:
        """Close the channel."""


class AuthorizedChannel(Protocol):
    """Open channel with the credential that authorized it."""

    @property
    def caller(self) -> Caller:
        """Return the caller."""

    @property
    def credential(self) -> str:
        """Return the hash of the credential."""

    @property
    def workspace_id(self) -> str | None:
        """Return the workspace whose removal ends the channel."""


class SiblingChannels(Protocol):
    """All channels of one credential."""

    page_reads: asyncio.Semaphore
    """Held while a page of events is read and sent."""

    def count_written(self, size: int) -> None:
        """Count bytes that were written to one of the channels."""

    def has_room(self) -> bool:
        """Return whether the unread bytes of all channels together are within the limit."""

    def find_slowest(self) -> "LiveSubscriber":
        """Return the channel with the most unread bytes."""

    def remove(self, subscriber: "LiveSubscriber") -> None:
        """Remove a channel."""


class SubscriberSet(Protocol):
    """Set of the subscribers of an org."""

    def remove(self, subscriber: "LiveSubscriber") -> None:
        """Remove a subscriber."""


class LiveSubscriber:
    """Cursor of one channel in the journal of an org.

    `cursor`: all visible events up to here were sent. `last_sent`: number of the last event that was sent. `is_live`:
    the subscriber has caught up and receives events as they are published. `turn_revs`: the version of each live turn
    that was sent last."""

    __slots__ = (
        "about_workspace_id",
        "caller",
        "channel",
        "credential",
        "cursor",
        "idle_checks",
        "is_live",
        "last_delivered",
        "last_sent",
        "org_id",
        "rewriter",
        "siblings",
        "transport",
        "turn_revs",
        "workspace_id",
    )

    def __init__(
        self,
        caller: Caller,
        org_id: str,
        transport: EventTransport,
        credential: str,
        about_workspace_id: str | None = None,
        rewriter: EventRewriter | None = None,
    ) -> None:
        """Create a subscriber. `rewriter` changes events about messages for it."""
        self.rewriter = rewriter
        self.caller = caller
        self.org_id = org_id
        self.transport = transport
        self.credential = credential
        self.about_workspace_id = about_workspace_id
        self.workspace_id = about_workspace_id or (caller.id if caller.kind is CredentialKind.WORKSPACE else None)
        self.channel: SubscriberSet | None = None
        self.siblings: SiblingChannels
        self.cursor = 0
        self.last_sent = 0
        self.is_live = False
        self.last_delivered = -1
        self.idle_checks = 0
        self.turn_revs: dict[TurnKey, int] = {}

    def audience(self, org: OrgReader) -> Audience:
        """Return which journal events the subscriber may see at present."""
        is_about_workspace = self.about_workspace_id is not None
        return audience_of(org, self.org_id, self.workspace_id, is_about_workspace=is_about_workspace)

    def send_event(self, event: EncodedEvent, frames: SharedFrames) -> None:
        """Send an event. `frames` holds encodings that subscribers share."""
        rewriter = self.rewriter if event.message_row is not None else None
        key = (self.transport.encoding, self.last_sent, None if rewriter is None else rewriter.key)
        data = frames.get(key)
        if data is None:
            shown = event if rewriter is None else rewriter.rewrite(event)
            data = frames[key] = self.transport.encode_event(self.last_sent, shown)
        self.siblings.count_written(len(data))
        self.transport.write(data)
        if event.seq:
            self.cursor = self.last_sent = event.seq

    def send_frame(self, frame: msgspec.Struct, at: int) -> None:
        """Send a control frame."""
        self.transport.write(self.transport.encode_control(frame, at))

    def is_stuck(self) -> bool:
        """Return whether data is unread and nothing was read during the last three checks.

        Two checks would be too strict: the kernel reports progress only when a third of its buffer is free again."""
        previous, self.last_delivered = self.last_delivered, self.transport.delivered_bytes()
        self.idle_checks = (
            self.idle_checks + 1 if self.transport.unread_bytes() > 0 and previous == self.last_delivered else 0
        )
        return self.idle_checks >= 2  # control: idle-listener


def audience_of(org: OrgReader, org_id: str, workspace_id: str | None, *, is_about_workspace: bool = False) -> Audience:
    """Return which journal events of an organisation are visible at present: all, or those for one workspace.

    `is_about_workspace`: only events about the workspace itself."""
    if workspace_id is None:
        return Audience(org_id)
    own = org.workspace(workspace_id)
    if own is None or is_about_workspace:
        return Audience(org_id, workspace_id)
    peers = ",".join(each.id for each in org.all_with_removed(org_id) if are_related(org, own, each))
    return Audience(org_id, own.id, f",{peers},", own.parent_id or "", include_subtrees=True)
