"""A real host as a person uses it: with a screen, which is a terminal of the operating system's own making."""

import asyncio
import contextlib
import os
import pty
import re
import signal
import struct
import termios
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from fcntl import ioctl
from pathlib import Path

from testing.waits import PROCESS_START_SECONDS

_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?<>=]*[A-Za-z]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][A-Z0-9]|.)")
_ROWS, _COLUMNS = 50, 160
_CHUNK = 1 << 16
_REST_SECONDS = 2
_LOOK_SECONDS = 1


class Terminal:
    """What stands behind a host's screen: all that it has shown, and the keys that are pressed."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._shown = ""
        self._more = asyncio.Event()
        asyncio.get_running_loop().add_reader(handle, self._read)

    def _read(self) -> None:
        try:
            chunk = os.read(self._handle, _CHUNK)
        except OSError:  # the other end is closed
            chunk = b""
        if not chunk:
            asyncio.get_running_loop().remove_reader(self._handle)
        self._shown += chunk.decode(errors="replace")
        self._more.set()

    @property
    def shown(self) -> str:
        """The text so far, without blanks and without what moves the cursor: hosts draw word by word."""
        return "".join(_ESCAPES.sub("", self._shown).split())

    async def shows(self, text: str) -> None:
        """Waits until something stands there, whatever blanks are in it."""
        await self.until(lambda: "".join(text.split()) in self.shown, text)

    async def until(self, holds: Callable[[], bool], what: str) -> None:
        """Waits for something that comes with something that is shown."""
        try:
            async with asyncio.timeout(PROCESS_START_SECONDS):
                while not holds():
                    self._more.clear()
                    with contextlib.suppress(TimeoutError):  # what is waited for may come after all that is shown
                        async with asyncio.timeout(_LOOK_SECONDS):
                            await self._more.wait()
        except TimeoutError:
            raise AssertionError(f"never seen: {what}; the screen: {self.shown[-3000:]}") from None

    async def rests(self) -> None:
        """Waits until nothing new is drawn: a host draws a dialog again, and then forgets the keys before."""
        with contextlib.suppress(TimeoutError):
            while True:
                self._more.clear()
                async with asyncio.timeout(_REST_SECONDS):
                    await self._more.wait()

    def press(self, keys: str) -> None:
        """Somebody types."""
        os.write(self._handle, keys.encode())


@asynccontextmanager
async def at_a_terminal(
    command: tuple[str, ...], env: Mapping[str, str], cwd: Path, *, own_session: bool = True
) -> AsyncIterator[Terminal]:
    """A program with a screen, ended at the end of the block with all that it has started.

    `own_session`: it gets a session; otherwise the command makes its own."""
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0))
    process = await asyncio.create_subprocess_exec(
        *command, cwd=cwd, env=dict(env), stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=own_session
    )
    os.close(theirs)
    terminal = Terminal(ours)
    try:
        yield terminal
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        async with asyncio.timeout(PROCESS_START_SECONDS):
            await process.wait()
        asyncio.get_running_loop().remove_reader(ours)
        os.close(ours)
