"""Errors of Codex by the types that it reports: what is a vendor's limit, and what a person can do. Pure."""

from typing import Any

_LIMIT_TYPES = ("usageLimitExceeded", "rateLimitExceeded", "sessionBudgetExceeded", "policyCapacityUnavailable")
_REPEATED_HTTP = ("responseTooManyFailedAttempts", "responseStreamConnectionFailed", "httpConnectionFailed")
_TOO_MANY_REQUESTS = 429
_ADVICE = {
    "contextWindowExceeded": "Start a new conversation, or run /compact in Codex.",
    "unauthorized": "Run `codex login` on the machine of the bridge.",
    "modelNotFound": "Set a model that exists in the configuration of Codex.",
    "sandboxError": "Run `codex sandbox` on the machine of the bridge to see why its sandbox fails.",
    "serverOverloaded": "Send the message again later.",
    "badRequest": "Set another model, or a newer Codex.",
}


def error_type(info: object) -> str:
    """Return the name of a `codexErrorInfo`, which is a text or an object with one member; empty if unknown."""
    if isinstance(info, dict):
        return next((str(name) for name in info), "")
    return info if isinstance(info, str) else ""


def is_limit(info: object) -> bool:
    """Return whether an error is a vendor's limit, which ends by itself."""
    name = error_type(info)
    if name in _LIMIT_TYPES:
        return True
    details = info.get(name) if isinstance(info, dict) else None
    return name in _REPEATED_HTTP and isinstance(details, dict) and details.get("httpStatusCode") == _TOO_MANY_REQUESTS


def failure_reason(message: str, info: object) -> str:
    """Return what happened in a failed turn, and what to do about it."""
    advice = _ADVICE.get(error_type(info), "Read the log of Codex on the machine of the bridge.")
    return f"Codex reports: {message.rstrip('.') or 'an error without a text'}. {advice}"


class RateLimits:
    """The account's limits, merged from sparse updates."""

    def __init__(self) -> None:
        self._windows: dict[str, dict[str, Any]] = {}

    def update(self, snapshot: object) -> None:
        """Merge an update; a missing window keeps its last value."""
        if not isinstance(snapshot, dict):
            return
        for name in ("primary", "secondary", "individualLimit"):
            window = snapshot.get(name)
            if isinstance(window, dict):
                self._windows[name] = window

    def resets_at(self, now_ms: int) -> int | None:
        """Return when the limit that was reached ends, in Unix milliseconds; None if unknown.

        It is the latest reset among the windows that are used up, or the earliest of all if none is marked so."""
        resets = {
            name: int(window["resetsAt"]) * 1000
            for name, window in self._windows.items()
            if isinstance(window.get("resetsAt"), int) and int(window["resetsAt"]) * 1000 > now_ms
        }
        used_up = [at for name, at in resets.items() if _is_used_up(self._windows[name])]
        if used_up:
            return max(used_up)
        return min(resets.values(), default=None)


def _is_used_up(window: dict[str, Any]) -> bool:
    used, remaining = window.get("usedPercent"), window.get("remainingPercent")
    return (isinstance(used, (int, float)) and used >= 100) or (isinstance(remaining, (int, float)) and remaining <= 0)
