"""Fixtures of the app-server dialect."""

from tests.threads.conftest import house

__all__ = ["house"]
