"""Where the real hosts lie that the tests of this folder run: each pinned, in a folder of its own outside the checkout.

`scripts/interop install` puts them there. They are hundreds of megabytes, so checkouts share them.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.interop.npm_packages import NODE, folder_of

PINS = Path(__file__).resolve().parent / "pins"


class Pinned(NamedTuple):
    """A host: the name of its folder of pins, and where its program lies among the installed packages."""

    name: str
    program: str

    @property
    def pins(self) -> Path:
        """Its package.json and package-lock.json."""
        return PINS / self.name

    @property
    def package(self) -> str:
        """What it is called at npm."""
        (name,) = json.loads((self.pins / "package.json").read_text(encoding="utf-8"))["dependencies"]
        return str(name)

    @property
    def version(self) -> str:
        """The one version that the tests are about."""
        (version,) = json.loads((self.pins / "package.json").read_text(encoding="utf-8"))["dependencies"].values()
        return str(version)

    @property
    def folder(self) -> Path:
        """Where it is installed, if it is."""
        return folder_of(self.pins, f"{self.name}-{self.version}")

    def found(self) -> str | None:
        """The path of its program, if it is installed."""
        return next((str(path) for path in self.folder.glob(self.program)), None)

    def command(self) -> list[str]:
        """What starts it; scripts run on the Node of this checkout."""
        program = self.found()
        assert program is not None, self.missing
        return [str(NODE), program] if program.endswith(".js") else [program]

    @property
    def missing(self) -> str:
        """What to say to whoever has not got it."""
        return f"{self.package} {self.version} is not installed: scripts/interop install {self.name}"


# The packages' own programs, without the Node scripts that only look for them.
CLAUDE_CODE = Pinned("claude-code", "node_modules/@anthropic-ai/claude-code-*/claude")
CLAUDE_CODE_OLDER = Pinned("claude-code-older", "node_modules/@anthropic-ai/claude-code-*/claude")
CODEX = Pinned("codex", "node_modules/@openai/codex-*/vendor/*/bin/codex")
GEMINI = Pinned("gemini", "node_modules/@google/gemini-cli/bundle/gemini.js")
OPENCODE = Pinned("opencode", "node_modules/opencode-linux-x64/bin/opencode")
HOSTS = (CLAUDE_CODE, CLAUDE_CODE_OLDER, CODEX, GEMINI, OPENCODE)


def named(names: list[str]) -> Iterator[Pinned]:
    """The hosts of these names, all if there are none. Raises ValueError."""
    known = {each.name: each for each in HOSTS}
    for name in names or known:
        if name not in known:
            raise ValueError(f"no host is called {name}: {', '.join(known)}")
        yield known[name]
