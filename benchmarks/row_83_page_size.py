"""Row 83: what the page weighs: its first script and style, what it loads when it is needed, what it adds to the wheel.

The files are those that the build made and `molecule serve` hands out, gzipped as the server gzips them; a kB is 1,000
bytes. First is what index.html names; every other script is one that is loaded later. What the wheel grows by are all
files of the page with their Brotli forms, deflated as a wheel deflates. Nothing here depends on the machine.
"""

import gzip
import re
import zlib
from pathlib import Path

from msgspec import Struct

from benchmarks.figures import Failed, Figure, Options, Say
from benchmarks.machine import ROOT
from hatch_build import Canvas

_NAMED = re.compile(r'(?:src|href)="/app/(assets/[^"]+)"')
_PACKED = ".br"
_LEAST_BYTES = 1024  # the server sends smaller files as they are
_NOT_ASKED_FOR = ("build.json",)
_ENTRY_BYTES = 150  # around each file of a zip: two heads, its name twice


class Sizes(Struct, frozen=True):
    """The gzipped sizes of the page's files in kB, by their paths."""

    each: dict[str, float]
    first: frozenset[str]

    def of_first(self, kind: str) -> float:
        """All files of a kind that index.html names."""
        return sum(size for name, size in self.each.items() if name in self.first and name.endswith(kind))

    @property
    def later(self) -> dict[str, float]:
        """Scripts that are loaded when they are needed."""
        return {name: size for name, size in self.each.items() if name.endswith(".js") and name not in self.first}


def measure(options: Options, say: Say) -> list[Figure]:
    """The row's figures."""
    canvas = Canvas(ROOT)
    if not canvas.is_current():
        raise Failed("the page was not compiled from the sources as they are; scripts/canvas build does it")
    sizes = _sizes(canvas.assets)
    for name, size in sizes.each.items():
        say(f"  {name}: {size:.1f} kB")
    return _figures(sizes, _wheel_bytes(canvas.assets) / 1e6)


def _sizes(assets: Path) -> Sizes:
    named = _NAMED.findall((assets / "index.html").read_text(encoding="utf-8"))
    files = [path for path in sorted(assets.rglob("*")) if path.is_file() and path.suffix != _PACKED]
    return Sizes(
        {str(path.relative_to(assets)): _gzipped(path) / 1000 for path in files if path.name not in _NOT_ASKED_FOR},
        frozenset(named),
    )


def _gzipped(path: Path) -> int:
    """The bytes that travel."""
    content = path.read_bytes()
    return len(content) if len(content) < _LEAST_BYTES else len(gzip.compress(content))


def _wheel_bytes(assets: Path) -> int:
    files = [path for path in assets.rglob("*") if path.is_file()]
    return sum(len(zlib.compress(path.read_bytes(), wbits=-15)) + _ENTRY_BYTES for path in files)


def _figures(sizes: Sizes, wheel_megabytes: float) -> list[Figure]:
    later = sizes.later
    largest = max(later, key=later.__getitem__, default="none")
    return [
        Figure(row=83, name="first script of the page", value=sizes.of_first(".js"), unit="kB", must=130),
        Figure(row=83, name="first style of the page", value=sizes.of_first(".css"), unit="kB", must=15),
        Figure(
            row=83,
            name="largest part that is loaded later",
            value=later.get(largest, 0.0),
            unit="kB",
            must=80,
            beside=f"{Path(largest).name.partition('-')[0]}, of {len(later)} parts",
        ),
        Figure(
            row=83,
            name="everything the page may load",
            value=sum(sizes.each.values()),
            unit="kB",
            must=450,
            beside=f"{len(sizes.each)} files, with the licences",
        ),
        Figure(
            row=83,
            name="what the wheel grows by",
            value=wheel_megabytes,
            unit="MB",
            must=0.8,
            beside="the page plain and in Brotli",
        ),
    ]
