"""Clients of the Agent Client Protocol, as the lock in `editors/` has them: acpx and the official TypeScript SDK.

The first test that wants them installs them into a folder that checkouts share; another lock is another folder.
"""

import os
from pathlib import Path

import pytest

from tests.interop.npm_packages import fetch, folder_of

SOURCES = Path(__file__).resolve().parent / "editors"
ACPX = "node_modules/acpx/dist/cli.js"
SDK_CLIENT = "sdk-client.mjs"


def require_programs() -> Path:
    """The folder of the programs; without them the test is skipped and says so, or fails where they are required."""
    folder, trouble = folder_of(SOURCES, SOURCES.name), ""
    if not folder.exists():
        try:
            code = fetch(SOURCES, folder).code
            trouble = f"npm ci ended with {code}" if code else ""
        except OSError as error:
            trouble = str(error)
    if trouble:
        missing = f"ACPX AND THE ACP SDK WERE NOT RUN: {trouble}. They come from npm."
        if os.environ.get("MOLECULE_INTEROP") == "required":
            pytest.fail(missing)
        pytest.skip(missing)
    # The script of this checkout, whatever the folder of the lock has.
    (folder / SDK_CLIENT).write_bytes((SOURCES / SDK_CLIENT).read_bytes())
    return folder
