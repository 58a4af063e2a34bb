"""What the command line can do on which platform (`sys.platform`)."""

import sys

WINDOWS = "win32"
_SERVER_VERBS = ("serve", "up", "backup", "restore", "doctor")
_AGENT_VERBS = ("mcp", "bridge", "agent", "runner", "inbox-hook", "host-hook")


def current_platform() -> str:
    """Return the platform of this machine."""
    return sys.platform


def is_windows() -> bool:
    """Return whether this machine runs Windows."""
    return current_platform() == WINDOWS


def unsupported_reason(verb: str) -> str | None:
    """Return why a verb cannot run on this platform, with what to do; None if it can."""
    if not is_windows() or verb not in (*_SERVER_VERBS, *_AGENT_VERBS):
        return None
    reason = f"`molecule {verb}` cannot run on Windows: it needs file locks and signals of POSIX"
    if verb in _SERVER_VERBS:
        return f"{reason}. Run it in WSL or on another machine; other commands take its address as --server."
    return f"{reason}. Run it in WSL, or connect the host over HTTP: molecule connect HOST --server URL."
