"""`expect` of Playwright that looks each 0.1 s, so that a page is not waited for after it is as wanted.

Playwright looks again after 20, 50, 100, 100 and then each 500 ms: what takes 0.3 s is noticed after 0.8 s. It leaves
out pauses longer than a fifth of the bound, so that with a bound below 2.5 s it looks each 100 ms.
"""

import functools
import time
from collections.abc import Awaitable, Callable
from typing import Any, cast

from playwright.async_api import Expect, Locator, Page
from playwright.async_api import expect as _expect

from testing.waits import IN_PROCESS_SECONDS

_SHORT_MS = 2_400


class _Repeated:
    """Assertions about a locator or a page, each made again with a short bound until its own bound."""

    def __init__(self, actual: Locator | Page) -> None:
        self._assertions = _expect(actual)

    def __getattr__(self, name: str) -> Callable[..., Awaitable[None]]:
        return functools.partial(_repeat, getattr(self._assertions, name))


async def _repeat(
    assertion: Callable[..., Awaitable[None]], *wanted: Any, timeout: float = IN_PROCESS_SECONDS * 1000, **more: Any
) -> None:
    """Make an assertion until it holds, for `timeout` milliseconds at most."""
    end = time.monotonic() + timeout / 1000
    while (left := (end - time.monotonic()) * 1000) > _SHORT_MS:
        try:
            return await assertion(*wanted, timeout=_SHORT_MS, **more)
        except AssertionError:
            continue
    await assertion(*wanted, timeout=max(left, 1), **more)


expect = cast(Expect, _Repeated)
