"""Negative controls: the product with one named line replaced, put in the way of the product."""

import shutil
from pathlib import Path

from msgspec import Struct

import molecule_core

PACKAGE = Path(molecule_core.__file__).parent


class Control(Struct, frozen=True, kw_only=True):
    """One mistake that the proof must see: in `file`, `line` is replaced `by` another, and `breaks` is then not zero.

    `line` is given without its indentation, which stays."""

    name: str
    file: str
    line: str
    by: str
    breaks: str
    serial: bool = False
    """Cursors on PostgreSQL: the database numbers the journal by a sequence, as a plain serial column does."""
    only: str = ""
    """State: the one machine that can see it, and is played then; empty: all of them."""


def plant(control: Control, folder: Path) -> Path:
    """A copy of the package with the line replaced; put the returned folder first on PYTHONPATH.

    Raises ValueError if the line is not there exactly once: the control would prove nothing."""
    shutil.copytree(PACKAGE, folder / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
    path = folder / PACKAGE.name / control.file
    path.write_text(replaced(control, path.read_text(encoding="utf-8")), encoding="utf-8")
    return folder


def replaced(control: Control, text: str) -> str:
    """The text of a control's file with its line replaced. Raises ValueError as `plant` does."""
    lines = text.split("\n")
    places = [place for place, line in enumerate(lines) if line.strip() == control.line]
    if len(places) != 1:
        raise ValueError(f"control {control.name!r}: its line stands {len(places)} times in {control.file}, not once")
    (place,) = places
    indent = lines[place][: len(lines[place]) - len(lines[place].lstrip())]
    lines[place] = indent + control.by
    return "\n".join(lines)
