"""The pages of docs/ that are made from code say what the code says."""

import subprocess
import sys
from pathlib import Path

from tests.requirements import requirement
from tests.waits import PROCESS_START_SECONDS

ROOT = Path(__file__).resolve().parent.parent.parent


@requirement("A3", "O2")
def test_limits_errors_and_events_pages_are_what_the_code_says() -> None:
    said = subprocess.run(
        [sys.executable, "-I", str(ROOT / "scripts" / "docs"), "--check"],
        capture_output=True,
        text=True,
        timeout=PROCESS_START_SECONDS,
        check=False,
    )
    assert (said.returncode, said.stdout + said.stderr) == (0, "")
