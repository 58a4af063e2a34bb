"""The TypeScript of the canvas: its types hold, and its own unit tests pass. Both run on the Node of .venv."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.requirements import requirement

ROOT = Path(__file__).resolve().parents[2]
COMPILING_S = 300  # both take seconds; a machine that does other things too must not fail here

pytestmark = pytest.mark.skipif(
    os.environ.get("MOLECULE_UI") == "skip", reason="MOLECULE_UI=skip leaves the canvas out"
)


def outcome(command: str) -> tuple[int, str]:
    """Exit code and last words of a tool of the canvas."""
    done = subprocess.run(
        [sys.executable, "-I", str(ROOT / "scripts" / "canvas"), command],
        env={**os.environ, "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=COMPILING_S,
        check=False,
    )
    return done.returncode, "" if done.returncode == 0 else done.stdout


def test_the_types_of_the_canvas_hold() -> None:
    assert outcome("check") == (0, "")


@pytest.mark.long  # 20 s of CPU; who works on the page runs `scripts/canvas test`
@requirement("C23", "C31w", "C35")
def test_the_unit_tests_of_the_canvas_pass() -> None:
    assert outcome("test") == (0, "")
