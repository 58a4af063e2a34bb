"""Conversations of two workspaces as people read them."""

from typing import Any

from msgspec import Struct

from molecule_core.wire.schemas.activity import ChatObligation
from molecule_core.wire.schemas.delegations import TimelineDelegation


class PeerMessage(Struct, tag_field="kind", tag="message", omit_defaults=True):
    """A message from one workspace to another.

    `seq`: its number in the log of `target_id`. `message_kind`: what it is (peer_agent, broadcast, system and others);
    `approval_id`: the approval that it belongs to. `delivery`, `trouble`, `obligation`: as in a chat."""

    id: str
    source_id: str
    target_id: str
    message_kind: str
    content: str
    timestamp: str
    seq: int
    attachments: list[dict[str, Any]] = []
    delivery: str | None = None
    trouble: str | None = None
    obligation: ChatObligation | None = None
    approval_id: str | None = None


class ConversationPage(Struct, frozen=True):
    """The messages of two workspaces to each other, oldest first.

    A delegation and its result are one item. `reached_end`: there are no more items in the requested direction."""

    items: list[PeerMessage | TimelineDelegation]
    reached_end: bool


class LastPeerMessage(Struct, frozen=True):
    """The last message of a conversation; `summary` is its beginning."""

    id: str
    source_id: str
    message_kind: str
    summary: str
    timestamp: str


class ConversationPeer(Struct, frozen=True):
    """A workspace that exchanged messages with another one.

    `messages` counts both directions; `more`: there are more than were counted."""

    workspace_id: str
    name: str | None
    messages: int
    more: bool
    last: LastPeerMessage


class ConversationPeers(Struct, frozen=True):
    """The peers of a workspace, last message first. `reached_end`: there are no older ones."""

    peers: list[ConversationPeer]
    reached_end: bool
