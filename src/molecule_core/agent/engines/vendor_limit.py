"""A vendor's limit of one workspace: nothing is asked of the model before it ends, and the server knows until when.

The server delivers no messages meanwhile. A person may end the limit there, so its state is read while it lasts.
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime
from typing import Any, Literal, Protocol

from msgspec import Struct
from msgspec.structs import replace

from molecule_core.agent.engines.retry import PersistentRetry
from molecule_core.agent.mailbox.membership import Membership
from molecule_core.agent.sanitize import sanitize_line
from molecule_core.client.api import ApiError
from molecule_core.common.clock import Clock, to_rfc3339

_log = logging.getLogger("molecule.agent")
_MILLISECOND = 1000
"""In microseconds."""
# 5 s: the end of a limit by a person is noticed after this time at most.
_LOOK_SECONDS = 5.0
_MAX_REASON = 300


class StoredLimit(Struct, frozen=True):
    """A limit. `until`: Unix milliseconds; 0: there is none.

    `state`: `new` until it is reported, `recorded` if the server has it, and `local` if it does not take it.
    """

    until: int = 0
    reason: str = ""
    state: Literal["new", "recorded", "local"] = "new"


NO_LIMIT = StoredLimit()


class LimitStore(Protocol):
    """Where the limit is kept."""

    @property
    def limit(self) -> StoredLimit:
        """Return the limit that was stored last."""

    def set_limit(self, limit: StoredLimit) -> None:
        """Store the limit. Raises OSError."""


class LimitMemory:
    """A store in memory, for processes that read their limit from the server when they start."""

    def __init__(self) -> None:
        self.limit = NO_LIMIT

    def set_limit(self, limit: StoredLimit) -> None:
        """Keep the limit."""
        self.limit = limit


class VendorLimit:
    """The limit of one workspace. `on_change` is called when it begins, changes or ends."""

    def __init__(
        self,
        membership: Membership,
        store: LimitStore,
        retry: PersistentRetry,
        clock: Clock,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._membership = membership
        self._store = store
        self._retry = retry
        self._clock = clock
        self.on_change = on_change
        self._changed = asyncio.Event()
        """Set at the next change, and then replaced."""
        self._is_known = asyncio.Event()
        """Set once a limit that an earlier process has reported is known."""

    def seconds_left(self) -> float:
        """Return for how long the model must not be asked; 0: it may be. Raises OSError."""
        until = self._store.limit.until
        if not until:
            return 0.0
        seconds = (until * _MILLISECOND - self._clock.now()) / 1e6
        if seconds > 0:
            return seconds
        self._set(NO_LIMIT)
        return 0.0

    def begin(self, until: int, reason: str) -> None:
        """Store a limit that ends at a time (Unix milliseconds); it is reported soon. Raises OSError."""
        self._set(StoredLimit(until, sanitize_line(reason, _MAX_REASON)))

    async def wait_until_over(self) -> None:
        """Return when the model may be asked."""
        await self._is_known.wait()
        while (left := self.seconds_left()) > 0:
            await self._wait_for_change(left)

    async def run(self) -> None:
        """Report limits and notice when they end before their time, until cancelled. Raises OSError."""
        if not self._store.limit.until:
            await self._read_limit()
        self._is_known.set()
        while True:
            left, limit = self.seconds_left(), self._store.limit
            if left and limit.state == "new":
                await self._report(limit)
            elif left and limit.state == "recorded":
                await self._wait_for_change(min(left, _LOOK_SECONDS))
                await self._read_limit()
            else:
                await self._wait_for_change(left or None)

    async def _wait_for_change(self, seconds: float | None) -> None:
        changed = self._changed
        if seconds is None:
            await changed.wait()
        else:
            await self._clock.wait(changed.wait(), seconds)

    async def _report(self, limit: StoredLimit) -> None:
        """Report a limit. What the server shortens or does not take stays a limit of this process."""
        body = {"until": to_rfc3339(limit.until * _MILLISECOND), "reason": limit.reason}
        path = f"/workspaces/{self._membership.id}/limit"
        try:
            answer = await self._retry.retry_call(lambda: self._membership.api().post(path, body))
        except ApiError as error:
            _log.warning("the server does not record the limit: %s", sanitize_line(str(error), _MAX_REASON))
            answer = None
        if self._store.limit is limit:
            # A server whose clock is ahead may not take it: to ask the model again at once would change nothing.
            self._set(_limit_of(answer) or replace(limit, state="local"))

    async def _read_limit(self) -> None:
        """Read the limit from the server. One that it does not have has ended."""
        known, path = self._store.limit, f"/workspaces/{self._membership.id}/state"
        try:
            answer = await self._retry.retry_call(lambda: self._membership.api().get(path))
        except ApiError as error:
            _log.info("the limit cannot be read: %s", sanitize_line(str(error), _MAX_REASON))
            return
        if self._store.limit is known:
            self._set(_limit_of(answer) or NO_LIMIT)

    def _set(self, limit: StoredLimit) -> None:
        before = self._store.limit
        if limit == before:
            return
        self._store.set_limit(limit)
        if limit.until and limit.until != before.until:
            seconds = (limit.until * _MILLISECOND - self._clock.now()) / 1e6
            _log.warning("a limit of the vendor was reached; work continues in %d seconds", max(0, seconds))
        elif not limit.until:
            _log.info("the vendor's limit is over")
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        self.on_change()


def _limit_of(answer: Any) -> StoredLimit | None:
    """Return the limit that the server has recorded; None if there is none."""
    until = answer.get("limited_until") if isinstance(answer, dict) else None
    if not isinstance(until, str):
        return None
    try:
        at = datetime.fromisoformat(until)
    except ValueError:
        return None
    return StoredLimit(round(at.timestamp() * 1000), str(answer.get("limit_reason") or ""), "recorded")
