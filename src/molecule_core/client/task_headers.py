"""The delegation for which the current task makes its calls.

A host that knows what its model works on names it, so that the server need not assume it, and holds the calls to what
that delegation may do, also after its end. Set around calls of tools; read by the HTTP client.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

DELEGATION_HEADER = "x-molecule-delegation"
_current = ContextVar("delegation", default="")


@contextmanager
def acting_for(delegation_id: str) -> Iterator[None]:
    """Name a delegation in all requests of the block, and of tasks that begin in it. Empty: none is named."""
    token = _current.set(delegation_id)
    try:
        yield
    finally:
        _current.reset(token)


def delegation_headers() -> Mapping[str, str]:
    """Return the header that names the delegation; none if no delegation is named."""
    delegation_id = _current.get()
    return {DELEGATION_HEADER: delegation_id} if delegation_id else {}
