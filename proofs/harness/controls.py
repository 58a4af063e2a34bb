"""Negative controls: the product with one marked statement changed, put in the way of the product."""

import shutil
from pathlib import Path

from proofs.harness.mutations import PACKAGE, Mutation, mutate


class Control(Mutation, frozen=True, kw_only=True):
    """One mistake that the proof must see: with the statement changed, the count `breaks` is not zero."""

    name: str
    breaks: str
    serial: bool = False
    """Cursors on PostgreSQL: the database numbers the journal by a sequence, as a plain serial column does."""
    only: str = ""
    """State: the one machine that can see it, and is played then; empty: all of them."""


def plant(control: Control, folder: Path) -> Path:
    """Copy the package with the statement changed; put the returned folder first on PYTHONPATH.

    Raises ValueError as `mutate` does: the control would prove nothing."""
    mutated = mutate(control)
    shutil.copytree(PACKAGE, folder / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / PACKAGE.name / mutated.file).write_text(mutated.text, encoding="utf-8")
    return folder
