"""W3C trace context: parses the `traceparent` of a message."""

import re

_TRACEPARENT_PATTERN = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.DOTALL)
# Later versions may append fields. They are not read, so a bound on the length loses nothing.
_MAX_LENGTH = 256
_ZERO_IDS = {"0" * 32, "0" * 16}


def parse_traceparent(text: object) -> str | None:
    """Return the `traceparent` in the form of version 00, or None if it is invalid.

    By the standard, an invalid value is ignored and never rejects the request. A value of a later version is read as
    far as version 00 defines it."""
    if not isinstance(text, str) or len(text) > _MAX_LENGTH:
        return None
    match = _TRACEPARENT_PATTERN.fullmatch(text)
    if match is None:
        return None
    version, trace, parent, flags, rest = match.groups()
    if version == "ff" or (version == "00" and rest is not None) or not _ZERO_IDS.isdisjoint((trace, parent)):
        return None
    return f"00-{trace}-{parent}-{flags}"
