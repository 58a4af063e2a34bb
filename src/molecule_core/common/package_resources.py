"""Where this package lies: with its statements and its page, as files beside the code."""

from pathlib import Path

PACKAGE_FOLDER = Path(__file__).resolve().parent.parent
"""The folder of `molecule_core`. (By `importlib.resources`, which also knows archives, a start would take longer.)"""
