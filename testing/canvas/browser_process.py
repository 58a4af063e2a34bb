"""A Chromium of one's own, which takes orders at an address."""

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

from testing.waits import PROCESS_START_SECONDS

_FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --font-render-hinting=none --force-color-profile=srgb "
    # Every tab paints, also one that another tab hides: to its page it looks like the one in front.
    "--disable-renderer-backgrounding --disable-backgrounding-occluded-windows --disable-background-timer-throttling "
    "--hide-scrollbars --disable-dev-shm-usage --remote-debugging-port=0 about:blank"
)


@contextlib.contextmanager
def browsing(program: str, profile: Path) -> Iterator[str]:
    """The address at which it takes orders, until the block ends. `profile` is an empty folder."""
    command = [program, f"--user-data-dir={profile}", *_FLAGS.split()]
    said = (profile / "said").open("wb")
    # Its own group: some systems install a shell script that starts the browser, and ending the script ends no browser.
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, process_group=0)
    try:
        yield _address(process, profile / "said")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(PROCESS_START_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
        said.close()


def _address(process: "subprocess.Popen[bytes]", said: Path) -> str:
    """What the browser says of itself once it listens."""
    looks = int(PROCESS_START_SECONDS * 20)
    for _ in range(looks):
        if found := re.search(r"DevTools listening on (ws://\S+)", said.read_text(errors="replace")):
            return found[1]
        try:
            process.wait(1 / 20)
        except subprocess.TimeoutExpired:
            continue
        break
    raise AssertionError(f"the browser did not start: {said.read_text(errors='replace')[-2000:]}")
