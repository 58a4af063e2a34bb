"""The generated pages of docs/ match the code."""

import subprocess
import sys
from pathlib import Path

from testing.waits import PROCESS_START_SECONDS
from tests.requirements import requirement

ROOT = Path(__file__).resolve().parent.parent.parent


@requirement("A3", "O2")
def test_generated_pages_match_the_code() -> None:
    result = subprocess.run(
        [sys.executable, "-I", str(ROOT / "scripts" / "docs"), "--check"],
        capture_output=True,
        text=True,
        timeout=PROCESS_START_SECONDS,
        check=False,
    )
    assert (result.returncode, result.stdout + result.stderr) == (0, "")
