"""The public conformance suite for MCP servers and the Inspector, as the lock in `endpoint/` has them.

They are 150 MB and none of the product's business, so set-up knows nothing of them. The first test that wants them
installs them (half a minute) into a folder that checkouts share; another lock is another folder. They run on the Node
of the test requirements.
"""

import asyncio
import os
from pathlib import Path
from typing import NamedTuple

import pytest

from testing.waits import PROCESS_START_SECONDS
from tests.interop.npm_packages import NODE, fetch, folder_of

SOURCES = Path(__file__).resolve().parent / "endpoint"
_SCOPE = "node_modules/@modelcontextprotocol"
CONFORMANCE = f"{_SCOPE}/conformance/dist/index.js"
INSPECTOR = f"{_SCOPE}/inspector/clients/launcher/build/index.js"


class Ended(NamedTuple):
    """How a program ended, and what it said."""

    code: int
    out: str
    err: str


def folder() -> Path:
    """Where the tools of this lock lie."""
    return folder_of(SOURCES, SOURCES.name)


def install() -> str:
    """Installs the tools if they are not there; says why that failed, or nothing."""
    if folder().exists():
        return ""
    try:
        code = fetch(SOURCES, folder()).code
    except OSError as error:
        return str(error)
    return f"npm ci ended with {code}" if code else ""


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
