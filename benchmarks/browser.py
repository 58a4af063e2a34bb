"""A real Chromium that paints in software, and a person who is logged in there."""

import asyncio
import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from msgspec import Struct
from playwright.async_api import Browser, BrowserContext, async_playwright

from benchmarks.figures import Failed
from benchmarks.machine import WORK, cpu_of, family_of
from benchmarks.servers import START_SECONDS, STOP_SECONDS, Place, Server
from molecule_core.client.api import ApiClient
from testing.canvas.browser_binary import find_browser

_FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --font-render-hinting=none --force-color-profile=srgb "
    "--disable-dev-shm-usage --remote-debugging-port=0 about:blank"
)
_LOOK_EVERY_SECONDS = 0.05
_WINDOW = {"width": 1440, "height": 900}


class Chromium(Struct, frozen=True):
    """A browser that runs; `address` is where it takes orders."""

    pid: int
    address: str

    def cpu(self) -> "Spent":
        """What its processes have used so far."""
        return Spent({pid: cpu_of(pid) for pid in family_of(self.pid)})


class Spent(Struct, frozen=True):
    """CPU seconds of each process of a browser."""

    each: dict[int, float]

    def since(self, before: "Spent") -> float:
        """CPU milliseconds from then until now. Processes that have ended since are not counted."""
        return sum(spent - before.each.get(pid, 0.0) for pid, spent in self.each.items()) * 1000


@contextmanager
def chromium() -> Iterator[Chromium]:
    """A browser with an empty profile. Raises Failed."""
    program = find_browser()
    if program is None:
        raise Failed("there is no browser on this machine; scripts/browser gets one")
    WORK.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="profile-", dir=WORK, ignore_cleanup_errors=True) as profile:
        said = Path(profile, "said")
        with said.open("wb") as log:
            process = subprocess.Popen(
                [program, f"--user-data-dir={profile}", *_FLAGS.split()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,
            )
        try:
            yield Chromium(process.pid, _address(process, said))
        finally:
            # The whole group: the program may be a shell script that starts the browser.
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(STOP_SECONDS)


def _address(process: "subprocess.Popen[bytes]", said: Path) -> str:
    start = time.monotonic()
    while time.monotonic() - start < START_SECONDS and process.poll() is None:
        if found := re.search(r"DevTools listening on (ws://\S+)", said.read_text(errors="replace")):
            return found[1]
        time.sleep(_LOOK_EVERY_SECONDS)
    raise Failed(f"the browser did not start: {said.read_text(errors='replace')[-2000:]}")


class Person:
    """The owner of the organisation, logged in with a one-time link; each context of a browser has a cache of its
    own."""

    def __init__(self, driver: Browser, server: Server, place: Place) -> None:
        self._driver = driver
        self._server = server
        self._place = place
        self._log_in: BrowserContext | None = None

    @property
    def url(self) -> str:
        """Where the pages are."""
        return f"http://127.0.0.1:{self._server.port}/app"

    async def enter(self) -> None:
        """Opens the link."""
        async with ApiClient(f"http://127.0.0.1:{self._server.port}", self._place.admin_token()) as api:
            org_id = (await api.get("/orgs"))[0]["id"]
            link = (await api.post(f"/orgs/{org_id}/login-links", {"person_id": None}))["url"]
        self._log_in = await self._driver.new_context()
        page = await self._log_in.new_page()
        await page.goto(str(link))
        await page.get_by_role("navigation").first.wait_for()
        await page.close()

    async def context(self, script: str = "") -> BrowserContext:
        """A context that has loaded nothing, where the person is logged in; the script runs before each page's own."""
        assert self._log_in is not None
        context = await self._driver.new_context(
            viewport=_WINDOW,  # type: ignore[arg-type]
            locale="en-GB",
            timezone_id="Europe/Berlin",
            storage_state=await self._log_in.storage_state(),
        )
        if script:
            await context.add_init_script(script)
        return context


@asynccontextmanager
async def person_at(browser: Chromium, server: Server, place: Place) -> AsyncIterator[Person]:
    """Somebody logged in."""
    async with async_playwright() as driver:
        connected = await driver.chromium.connect_over_cdp(browser.address)
        person = Person(connected, server, place)
        async with asyncio.timeout(START_SECONDS):
            await person.enter()
        yield person
