"""What the tests of the scripts share: the checkout, its scripts as modules, bounded runs of them."""

import os
import select
import subprocess
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Self

ROOT = Path(__file__).resolve().parents[3]
PROCESS_S = 60  # the bound on anything that starts a process


def load(name: str) -> ModuleType:
    """One of scripts/ as a module; they have no suffix, so the import statement does not find them."""
    loader = SourceFileLoader(f"scripts_{name}", str(ROOT / "scripts" / name))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


def wait_for_input(handle: int) -> None:
    """Return when something can be read, or fail when the bound is over."""
    assert select.select([handle], [], [], PROCESS_S)[0], f"nothing came for {PROCESS_S} s"


class Running:
    """A process that is running: wait for words of it, kill it, or see it through to its end."""

    def __init__(self, command: list[str], env: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        assert self._process.stdout is not None
        self._output = self._process.stdout
        self.said = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._output.close()

    def until(self, words: str) -> None:
        while words not in self.said:
            wait_for_input(self._output.fileno())
            more = os.read(self._output.fileno(), 65536)
            assert more, f"ended without {words!r}: {self.said}"
            self.said += more.decode()

    def end(self) -> int:
        self.said += self._process.communicate(timeout=PROCESS_S)[0].decode()
        return self._process.returncode

    def kill(self) -> None:
        """As by a machine that loses patience: only this process, and without a chance to tidy up."""
        self._process.kill()
        self._process.wait(PROCESS_S)
