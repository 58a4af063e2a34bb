"""Long chats, written through the product's own writer in groups: thousands of messages in a second or two."""

import asyncio

from molecule_core.common.clock import SystemClock
from molecule_core.common.ids import IdGenerator, SystemRandomness
from molecule_core.messages.model import UserNotice
from molecule_core.messages.writer import MessageWriter
from molecule_core.org.reader import OrgReader
from testing.canvas.company import Stage

_AT_ONCE = 500


async def say_many(stage: Stage, name: str, texts: list[str]) -> None:
    """The agent of a seat writes all of this to its user, in this order."""
    server, clock = stage.server.server, SystemClock()
    ids, limits = IdGenerator(clock, SystemRandomness()), server.settings.limits
    writer = MessageWriter(server.store, OrgReader(server.registry), clock=clock, ids=ids, limits=limits)
    seat = stage.seats[name].id
    for start in range(0, len(texts), _AT_ONCE):
        some = texts[start : start + _AT_ONCE]
        await asyncio.gather(*(writer.notify_user(seat, UserNotice([{"kind": "text", "text": text}])) for text in some))
