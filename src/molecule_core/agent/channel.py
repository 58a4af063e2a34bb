"""Pushes what comes into a host that shows it by itself (Claude Code's channels).

Such a host acknowledges nothing, and drops in silence what comes before it listens. So nothing is pushed before the
host said that it is ready and a moment has passed; what was pushed stays in the inbox until a tool call names it, and
is pushed again, later and later.

Above: engine. Below: inbox, words.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from molecule_core.agent import words
from molecule_core.agent.config import Wishes
from molecule_core.agent.inbox import Entry, Inbox
from molecule_core.agent.waiting import pause
from molecule_core.ground.clock import Clock
from molecule_core.wire.toolspec import Runtime

_log = logging.getLogger("molecule.agent")
METHOD = "notifications/claude/channel"
_LONG = 86_400.0


class Ready(Protocol):
    """What ends when the host has said that it is ready."""

    async def wait(self) -> object:
        """Returns once it has."""


class Channel:
    """One host's channel."""

    def __init__(
        self,
        inbox: Inbox,
        notify: Callable[[str, dict[str, Any]], Awaitable[None]],
        *,
        clock: Clock,
        wishes: Wishes,
        single: bool,
        look: Callable[[], None],
    ) -> None:
        self._inbox = inbox
        self._notify = notify
        self._clock = clock
        self._wishes = wishes
        self._single = single
        self._look = look

    async def run(self) -> None:
        """Pushes until it is cancelled; begins a moment after the host said that it is ready."""
        await pause(self._clock, self._wishes.channel_delay_seconds)
        while True:
            self._look()
            now = self._clock.monotonic()
            for entry in [each for each in self._inbox.entries() if each.push_at <= now]:
                if self._inbox.find(entry.message.activity_id, entry.message.arrival_workspace_id):
                    await self._try(entry)
            ends = min((each.push_at for each in self._inbox.entries()), default=now + _LONG)
            await self._clock.wait(self._inbox.change(), max(0.0, ends - self._clock.monotonic()))

    async def _try(self, entry: Entry) -> None:
        """A message that cannot be pushed must not keep the others from it; it can still be fetched."""
        try:
            await self._push(entry)
        except Exception:
            _log.exception("message %s could not be pushed", entry.message.activity_id)

    async def _push(self, entry: Entry) -> None:
        wait = min(self._wishes.repush_most_seconds, self._wishes.repush_seconds * 2.0 ** min(entry.pushes, 32))
        entry.pushes += 1
        entry.push_at = self._clock.monotonic() + wait
        content, meta = words.pushed(entry.message, single=self._single, runtime=Runtime.CLAUDE_CODE)
        if entry.pushes > 1:
            meta["pushes"] = str(entry.pushes)
        await self._notify(METHOD, {"content": content, "meta": meta})
