"""What calls of tools are called: in the log of a thread, and by the model that made them. Pure.

Ids of models come again: there are providers that number the calls of each answer, and after a compaction a model does
not see those that it has used. But what has the id of a call is done once. So in the log there is a mark behind it,
which no other answer of the thread has; providers get back what they have said. (Ids without a mark are those of older
versions and of other engines.) Above: sampling, encoding. Below: nothing.
"""

import re

# No id that is taken from a model has a colon.
_MARKED = re.compile(r"(.+):[0-9]+")


def to_log_id(name: str, last_ordinal: int) -> str:
    """The id for the log of a call in an answer. `last_ordinal`: of what the model was shown, to which the log has
    grown by at least a line before the next answer."""
    return f"{name}:{last_ordinal}"


def to_model_id(call_id: str) -> str:
    """What its model calls a call."""
    found = _MARKED.fullmatch(call_id)
    return call_id if found is None else found[1]
