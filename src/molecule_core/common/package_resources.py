"""The folder of the package, which holds queries and web assets beside the code."""

from pathlib import Path

PACKAGE_FOLDER = Path(__file__).resolve().parent.parent
"""The folder of `molecule_core`. (`importlib.resources` also supports archives, and would slow down every start.)"""
