"""Which tests a usual run leaves out."""

import subprocess
import sys

import pytest

from tests.system.setup.support import PROCESS_S, ROOT

LONG, SHORT = "tests/system/proofs/test_wait.py", "tests/system/proofs/test_delegation_model.py"


@pytest.mark.parametrize(("flags", "files"), [((), {SHORT}), (("--all",), {LONG, SHORT})])
def test_long_tests_are_left_out_unless_all_are_asked_for(flags: tuple[str, ...], files: set[str]) -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", "--quiet", "-p", "no:cacheprovider", *flags]
    said = subprocess.run(
        [*command, LONG, SHORT],
        cwd=ROOT, capture_output=True, text=True, timeout=PROCESS_S, check=True,
    )  # fmt: skip
    assert {line.partition("::")[0] for line in said.stdout.splitlines() if "::" in line} == files
