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

from tests.interop.npm_packages import cellar, fetch, folder_of

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

    def found(self) -> bool:
        """Return whether the environment is there."""
        return self.python.exists()

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
        _require(self.found(), self.name)
        return self


def _require(found: bool, name: str) -> None:
    missing = f"{name} is not installed: scripts/interop install {name}"
    if not found and os.environ.get("MOLECULE_INTEROP") == "required":
        pytest.fail(missing)
    if not found:
        pytest.skip(missing)


A2A_KITS = (Kit("a2a_0_3"), Kit("a2a_1"))
A2A_TCK = Kit("a2a_tck")
"""The packages that the conformance kit of A2A needs; the kit itself comes from its repository."""


class NodeKit(NamedTuple):
    """An SDK from npm, and the client that is written with it: the folder `NAME` beside this file."""

    name: str

    @property
    def sources(self) -> Path:
        """The client and the lock."""
        return Path(__file__).resolve().parent / self.name

    @property
    def folder(self) -> Path:
        """Where its packages are, if they are installed."""
        return folder_of(self.sources, self.name)

    def found(self) -> bool:
        """Return whether it is installed."""
        return self.folder.exists()

    def install(self) -> int:
        """Install it; return the exit code of npm."""
        return fetch(self.sources, self.folder).code

    def require(self) -> "NodeKit":
        """Skip the test, or fail it where that is wanted, if the SDK is not installed."""
        _require(self.found(), self.name)
        return self


A2A_JS = NodeKit("a2a_js")
ALL_KITS: tuple[Kit | NodeKit, ...] = (*A2A_KITS, A2A_TCK, A2A_JS)
"""All that `scripts/interop install` installs of them."""
