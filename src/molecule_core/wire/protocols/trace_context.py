"""W3C trace context: the one line by which a message says of which trace it is part."""

import re

_TRACEPARENT_PATTERN = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.DOTALL)
# A trace may be longer in versions to come; what we do not know is not read, so it need not be long either.
_MAX_LENGTH = 256
_ZERO_IDS = {"0" * 32, "0" * 16}


def parse_traceparent(text: object) -> str | None:
    """A `traceparent` in the form that this version knows; None for whatever is none.

    The standard's rule for a line that is wrong is to go on as if there were none, and never to refuse the request.
    A line of a later version is read as far as it is known."""
    if not isinstance(text, str) or len(text) > _MAX_LENGTH:
        return None
    found = _TRACEPARENT_PATTERN.fullmatch(text)
    if found is None:
        return None
    version, trace, parent, flags, rest = found.groups()
    if version == "ff" or (version == "00" and rest is not None) or not _ZERO_IDS.isdisjoint((trace, parent)):
        return None
    return f"00-{trace}-{parent}-{flags}"
