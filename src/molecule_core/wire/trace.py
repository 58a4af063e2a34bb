"""W3C trace context: the one line by which a message says of which trace it is part."""

import re

_SHAPE = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.DOTALL)
# A trace may be longer in versions to come; what we do not know is not read, so it need not be long either.
_LONGEST = 256
_NOBODY = {"0" * 32, "0" * 16}


def trace_parent(text: object) -> str | None:
    """A `traceparent` in the form that this version knows; None for whatever is none.

    The standard's rule for a line that is wrong is to go on as if there were none, and never to refuse the request.
    A line of a later version is read as far as it is known."""
    if not isinstance(text, str) or len(text) > _LONGEST:
        return None
    found = _SHAPE.fullmatch(text)
    if found is None:
        return None
    version, trace, parent, flags, rest = found.groups()
    if version == "ff" or (version == "00" and rest is not None) or not _NOBODY.isdisjoint((trace, parent)):
        return None
    return f"00-{trace}-{parent}-{flags}"
