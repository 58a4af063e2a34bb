"""Pauses of programs without an event loop. Imports little: a hook of a host lives for hours."""

import time


def pause(seconds: float) -> None:
    """Block the thread for a time."""
    time.sleep(seconds)
