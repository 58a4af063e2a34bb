"""Converts ids of tool calls between the log of a thread and the model that made them. Pure.

Models reuse ids: some providers number the calls of each answer, and after a compaction a model does not see the ids it
has used. But a call is executed once per id. So ids in the log have a suffix that is unique to the answer, and
providers get back their own ids. Ids without a suffix are from older versions and other engines.
"""

import re

# Ids accepted from a model contain no colon.
_MARKED = re.compile(r"(.+):[0-9]+")


def to_log_id(name: str, last_ordinal: int) -> str:
    """Return the log id of a call.

    `last_ordinal`: of the context that the model was shown; the log grows by at least one entry before the next answer.
    """
    return f"{name}:{last_ordinal}"


def to_model_id(call_id: str) -> str:
    """Return the id that the model used for a call."""
    found = _MARKED.fullmatch(call_id)
    return call_id if found is None else found[1]
