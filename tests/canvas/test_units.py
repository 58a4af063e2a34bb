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


@pytest.mark.long
def test_the_types_of_the_canvas_hold() -> None:
    assert outcome("check") == (0, "")


SHOWN_BY_UNITS = (
    ("core/state/apply.test.ts", "events in any batches, cut anywhere and repeated, give what they give once"),  # C2
    ("core/state/apply.test.ts", "what is unknown or has another shape is counted and never thrown"),  # C7
    (
        "features/attention/agentStatus.test.ts",
        "every status and load has a standing, and every standing a word",
    ),  # C11
    ("features/chat/delegations.test.ts", "work in the hands of an agent that %s"),  # C14
    (
        "map/layout.test.ts",
        "boxes are a gutter apart, and children are inside the frame of their team below its title",
    ),  # C49
    ("ui/style/tokens.test.ts", "both schemes have the same tokens"),  # C66
)


@requirement("C2", "C7", "C11", "C14", "C49", "C66")
@pytest.mark.parametrize(("file", "title"), SHOWN_BY_UNITS)
def test_a_promise_that_needs_no_browser_has_its_unit_test(file: str, title: str) -> None:
    assert f'"{title}' in (ROOT / "canvas" / "src" / file).read_text(encoding="utf-8")


@pytest.mark.long  # 20 s of CPU; who works on the page runs `scripts/canvas test`
@requirement("C23", "C31w", "C35")
def test_the_unit_tests_of_the_canvas_pass() -> None:
    assert outcome("test") == (0, "")
