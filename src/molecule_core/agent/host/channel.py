"""Pushes incoming messages into a host that displays them (Claude Code's channels).

Such a host acknowledges nothing and silently drops what arrives before it listens. So nothing is pushed before the host
is ready and a delay has passed. A pushed message stays in the inbox until a tool call names it, and is pushed again
after growing delays.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from molecule_core.agent import message_format
from molecule_core.agent.async_utils import sleep
from molecule_core.agent.config import AgentSettings
from molecule_core.agent.mailbox.inbox import InboxEntry, MergedInbox
from molecule_core.common.clock import Clock
from molecule_core.wire.schemas.runtimes import Runtime

_log = logging.getLogger("molecule.agent")
CHANNEL_METHOD = "notifications/claude/channel"
_MAX_WAIT_SECONDS = 86_400.0


class ReadySignal(Protocol):
    """Event that the host is ready."""

    async def wait(self) -> object:
        """Wait until the host is ready."""


class HostChannel:
    """Channel of one host. `is_replaced`: whether hooks wake the host, which then does not display the channel."""

    def __init__(
        self,
        inbox: MergedInbox,
        notify: Callable[[str, dict[str, Any]], Awaitable[None]],
        *,
        clock: Clock,
        settings: AgentSettings,
        single: bool,
        apply_notes: Callable[[], None],
        is_replaced: Callable[[], bool],
    ) -> None:
        self._inbox = inbox
        self._notify = notify
        self._clock = clock
        self._settings = settings
        self._single = single
        self._apply_notes = apply_notes
        self._is_replaced = is_replaced

    async def run(self) -> None:
        """Push until cancelled; starts a delay after the host is ready."""
        await sleep(self._clock, self._settings.channel_delay_seconds)
        while True:
            self._apply_notes()
            now = self._clock.monotonic()
            if self._is_replaced():
                await self._inbox.wait_for_change()
                continue
            for entry in [each for each in self._inbox.entries() if each.push_at <= now]:
                if self._inbox.find_entries(entry.message.activity_id, entry.message.arrival_workspace_id):
                    await self._try_push(entry)
            next_push_at = min((each.push_at for each in self._inbox.entries()), default=now + _MAX_WAIT_SECONDS)
            await self._clock.wait(self._inbox.wait_for_change(), max(0.0, next_push_at - self._clock.monotonic()))

    async def _try_push(self, entry: InboxEntry) -> None:
        """Push a message; a failure must not block the others. The message can still be fetched."""
        try:
            await self._push_entry(entry)
        except Exception:
            _log.exception("message %s could not be pushed", entry.message.activity_id)

    async def _push_entry(self, entry: InboxEntry) -> None:
        wait = min(self._settings.repush_most_seconds, self._settings.repush_seconds * 2.0 ** min(entry.push_count, 32))
        entry.push_count += 1
        entry.push_at = self._clock.monotonic() + wait
        content, meta = message_format.channel_text(entry.message, single=self._single, runtime=Runtime.CLAUDE_CODE)
        if entry.push_count > 1:
            meta["pushes"] = str(entry.push_count)
        await self._notify(CHANNEL_METHOD, {"content": content, "meta": meta})
