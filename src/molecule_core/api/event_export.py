"""Streams the activity of an organisation, one JSON object per line, as fast as the client reads.

Handler of a stream of the server (`api/http/response.py`); one page of events is in memory at a time.
"""

import asyncio
import logging
from collections.abc import Callable

import msgspec

from molecule_core.access.model import Caller, CredentialKind
from molecule_core.api.http.response import Channel
from molecule_core.api.live.subscribers import AuthorizedChannel
from molecule_core.common.errors import StoreUnavailable
from molecule_core.common.limits import Limits
from molecule_core.views.event_filter import EventQuery
from molecule_core.views.event_log import EventLogReader
from molecule_core.views.feed import Audience
from molecule_core.wire.schemas.event_log import ExportEnd, ExportTotals

_log = logging.getLogger("molecule.http")


class OpenExports(set["EventExport"]):
    """All exports of this process that are being sent."""


class EventExport:
    """One export, and the channel whose credential must stay valid."""

    def __init__(
        self,
        reader: EventLogReader,
        audience: Audience,
        query: EventQuery,
        exports: OpenExports,
        has_lost_access: Callable[[AuthorizedChannel], bool],
        *,
        caller: Caller,
        credential: str,
        limits: Limits,
    ) -> None:
        self._reader = reader
        self._audience = audience
        self._query = query
        self._exports = exports
        self._has_lost_access = has_lost_access
        self._limits = limits
        self.caller = caller
        self.credential = credential
        self.workspace_id = caller.id if caller.kind is CredentialKind.WORKSPACE else None

    def on_open(self, channel: Channel) -> None:
        """Start to send."""
        self._exports.add(self)
        self._channel = channel
        self._task = asyncio.get_running_loop().create_task(self._send())

    def on_lost(self) -> None:
        """Stop to send."""
        self._exports.discard(self)
        self._task.cancel()

    def on_shutdown(self) -> None:
        """Cut the export short; its last line is missing then."""
        self._channel.abort()

    async def _send(self) -> None:
        try:
            if await self._send_pages():
                self._channel.finish()
            else:
                self._channel.abort()
        except asyncio.CancelledError:
            return  # re-raised, the exception would keep the page alive, and this object keeps the task
        except StoreUnavailable:
            self._channel.abort()
        except Exception:
            _log.exception("an export failed and is cut short")
            self._channel.abort()
        finally:
            self._exports.discard(self)

    async def _send_pages(self) -> bool:
        """Send all pages. Return whether the client read them and may still read them."""
        cursor: int | None = None
        count, is_text_complete = 0, True
        while True:
            page = await self._reader.read_page(
                self._audience, self._query, before=cursor, limit=self._limits.activity_events
            )
            if self._has_lost_access(self):
                return False
            count += len(page.events)
            is_text_complete = is_text_complete and page.is_text_complete
            if page.events:
                self._channel.write(b"".join(msgspec.json.encode(each) + b"\n" for each in page.events))
            if page.next_cursor is None:
                totals = ExportTotals(events=count, kept_since=page.kept_since, is_text_complete=is_text_complete)
                self._channel.write(msgspec.json.encode(ExportEnd(totals)) + b"\n")
            if not await self._wait_drained():
                return False
            if page.next_cursor is None:
                return True
            cursor = int(page.next_cursor)

    async def _wait_drained(self) -> bool:
        """Wait until the client has read nearly all. False if it reads nothing for `unread_seconds`."""
        while True:
            delivered = self._channel.delivered_bytes()
            try:
                async with asyncio.timeout(self._limits.unread_seconds):
                    await self._channel.wait_drained()
                return not self._channel.is_closing()
            except TimeoutError:
                if self._channel.delivered_bytes() == delivered:
                    return False
