"""Which browser of the machine the browser tests take; `scripts/browser` gets one where there is none."""

import os
import shutil
import subprocess

# The headless shell comes first: a new page costs it 0.15 s of CPU, and the others 0.55 s, since they open a window.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ANSWER_S = 60  # the bound on starting a process, here as in every test


def runs(program: str) -> bool:
    """A name on PATH may lead to a stub that only says how to install a browser."""
    try:
        done = subprocess.run([program, "--version"], capture_output=True, timeout=ANSWER_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def find_browser() -> str | None:
    """The path of a Chromium that starts: what MOLECULE_BROWSER names, and nothing else if it does; else from PATH."""
    asked = os.environ.get("MOLECULE_BROWSER")
    found = (shutil.which(name) for name in ([asked] if asked else NAMES))
    return next((path for path in found if path and runs(path)), None)
