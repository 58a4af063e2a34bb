"""How a turn of an ACP agent ended, from the reason of the stop or the error. Pure."""

import re
from typing import Any

from molecule_core.agent.bridges.sessions import TurnUsage

_STOP_REASONS = {
    "max_tokens": "the answer reached the model's limit of tokens. Ask for a shorter answer, or in parts",
    "max_turn_requests": "the turn reached the program's limit of model requests. Ask to go on, or raise that limit",
    "refusal": "the model refused to answer. Put the message in other words",
    "cancelled": "the program ended the turn as cancelled, although it was not stopped. Send the message again",
}
_LIMIT = re.compile(
    r"\b429\b|rate.?limit|too many requests|quota|resource.?exhausted|usage limit|credit balance|insufficient.?credits",
    re.IGNORECASE,
)
_WAIT = re.compile(
    r"(?:retry|try again|reset)[^0-9]{0,24}(\d+(?:\.\d+)?)\s*"
    r"(ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hours?)\b",
    re.IGNORECASE,
)
_TOO_MANY_REQUESTS = 429
_MAX_WAIT_MS = 31 * 24 * 3600 * 1000
_MAX_MESSAGE = 500


def stop_failure(reason: object) -> str:
    """Return why a turn with this `stopReason` has failed; empty if it has not."""
    if reason == "end_turn":
        return ""
    known = _STOP_REASONS.get(str(reason))
    return known or f"the program ended the turn for an unknown reason ({str(reason)[:60]!r}). Read its log"


def is_limit(code: int, message: str, data: object) -> bool:
    """Return whether an error is a vendor's limit, which ends by itself."""
    if code == _TOO_MANY_REQUESTS or _LIMIT.search(message):
        return True
    if isinstance(data, dict) and _TOO_MANY_REQUESTS in map(data.get, ("status", "code", "statusCode", "httpStatus")):
        return True
    return any(_LIMIT.search(text) for text in _texts(data))


def limit_end(message: str, data: object, now_ms: int) -> int | None:
    """Return when a limit ends, in Unix milliseconds, as far as the error says so."""
    found = _WAIT.search(" ".join([message, *_texts(data)]))
    if found is None:
        return None
    number, unit = float(found[1]), found[2].lower()
    factor = 1 if unit.startswith("mil") or unit == "ms" else {"s": 1000, "m": 60_000, "h": 3_600_000}[unit[0]]
    return now_ms + min(int(number * factor), _MAX_WAIT_MS)


def error_reason(title: str, code: int, message: str, data: object) -> str:
    """Return what happened in a failed turn, and what to do about it."""
    details = next((text for text in _texts(data) if text and text not in message), "")
    whole = f"{message}: {details}" if details else message
    return (
        f"{title} reports error {code}: {whole[:_MAX_MESSAGE].rstrip('.')}. Read its log on the machine of the bridge"
    )


def read_usage(result: dict[str, Any]) -> TurnUsage | None:
    """Return the tokens that a response to a prompt names, in the standard's form or in Gemini's."""
    usage = result.get("usage")
    if isinstance(usage, dict):
        return TurnUsage(
            input_tokens=_count(usage.get("inputTokens")),
            output_tokens=_count(usage.get("outputTokens")),
            cached_tokens=_count(usage.get("cachedReadTokens")),
        )
    meta = result.get("_meta")
    quota = meta.get("quota") if isinstance(meta, dict) else None
    count = quota.get("token_count") if isinstance(quota, dict) else None
    if not isinstance(count, dict):
        return None
    return TurnUsage(input_tokens=_count(count.get("input_tokens")), output_tokens=_count(count.get("output_tokens")))


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def _texts(data: object) -> list[str]:
    if isinstance(data, str):
        return [data]
    return [value for value in data.values() if isinstance(value, str)] if isinstance(data, dict) else []
