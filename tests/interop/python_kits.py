"""SDKs of others from PyPI whose agents the tests run: each pinned by hashes, in an environment of its own.

`scripts/interop install` makes the environments. An SDK is not a dependency of Molecule, and two versions of one SDK
cannot be in one environment.
"""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.interop.npm_packages import cellar

KITS = Path(__file__).resolve().parent / "kits"
_ROOT = Path(__file__).resolve().parents[2]


class Kit(NamedTuple):
    """An SDK and the agent that is written with it: `kits/NAME.txt` and `kits/NAME.py`."""

    name: str

    @property
    def requirements(self) -> Path:
        """The pinned packages."""
        return KITS / f"{self.name}.txt"

    @property
    def program(self) -> Path:
        """The agent; its argument is the port."""
        return KITS / f"{self.name}.py"

    @property
    def folder(self) -> Path:
        """Its environment; other pins have another one."""
        digest = hashlib.blake2b(self.requirements.read_bytes(), digest_size=4).hexdigest()
        return cellar() / f"{self.name}-{digest}"

    @property
    def python(self) -> Path:
        """The interpreter of that environment."""
        return self.folder / "bin" / "python"

    def install(self) -> int:
        """Make the environment; return the exit code."""
        uv = shutil.which("uv") or str(_ROOT / ".venv" / "bin" / "uv")
        pip = [uv, "pip", "install", "--quiet", "--python", str(self.python), "--require-hashes"]
        for command in ([uv, "venv", "--quiet", str(self.folder)], [*pip, "-r", str(self.requirements)]):
            if code := subprocess.call(command):
                shutil.rmtree(self.folder, ignore_errors=True)
                return code
        return 0

    def require(self) -> "Kit":
        """Skip the test, or fail it where that is wanted, if the SDK is not installed."""
        if not self.python.exists():
            missing = f"{self.name} is not installed: scripts/interop install {self.name}"
            if os.environ.get("MOLECULE_INTEROP") == "required":
                pytest.fail(missing)
            pytest.skip(missing)
        return self


A2A_KITS = (Kit("a2a_0_3"), Kit("a2a_1"))
