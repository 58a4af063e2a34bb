"""Compares a request with what was stored under its idempotency key. Pure functions.

Omitted values are not compared, because their defaults change: the current prompt, the end of the log. Settings that an
engine sends again after each restart (layers, model, effort, tools, permissions, names) are not compared either.
"""

from collections.abc import Sequence
from typing import NamedTuple

from molecule_core.threads.model import Thread
from molecule_core.wire.schemas.prompts import hash_text
from molecule_core.wire.schemas.thread_log import (
    BaseInstructionsEntry,
    InstructionLayerEntry,
    TextInput,
    ThreadCreatedEntry,
    ThreadEntry,
    TurnAcceptedEntry,
)

MAX_FIRST_ENTRIES = 5
"""Most entries with which one command begins a thread: created, base, developer, context, turn accepted."""
_SESSION_KEY = "session"
"""The key of a session thread, and the prefix of further ones. Sessions send their current base instructions, which may
have changed after a restart."""


class ThreadRequest(NamedTuple):
    """The request for a new thread.

    `base`: None if omitted. `texts`: its first input. `source`: the thread that a fork continues. `position`: None if
    omitted."""

    base: str | None = None
    texts: Sequence[TextInput] = ()
    source: Thread | None = None
    position: int | None = None


def matches_request(request: ThreadRequest, key: str, entries: Sequence[ThreadEntry]) -> bool:
    """Return whether a thread that begins with these entries is what the request asks for."""
    created, remaining = entries[0], list(entries[1:])
    assert isinstance(created, ThreadCreatedEntry)  # the first entry of every log
    origin = created.forked_from
    if (None if request.source is None else request.source.thread_id) != (None if origin is None else origin.thread_id):
        return False
    if request.position is not None and origin is not None and request.position != origin.position:
        return False
    base = remaining.pop(0) if remaining and isinstance(remaining[0], BaseInstructionsEntry) else None
    stored_hash = base.sha256 if isinstance(base, BaseInstructionsEntry) else None
    if request.base is not None and not is_session_key(key) and stored_hash != hash_text(request.base):
        return False
    first = next((each for each in remaining if not isinstance(each, InstructionLayerEntry)), None)
    return not request.texts or (isinstance(first, TurnAcceptedEntry) and first.input == list(request.texts))


def is_session_key(key: str) -> bool:
    """Return whether sessions use this key for their threads."""
    return key == _SESSION_KEY or key.startswith(f"{_SESSION_KEY}:")


def input_entry_key(key: str, number: int) -> str:
    """Return the log key of a text that joined a running turn. No key of a client contains a space."""
    return f"input:{key} {number}" if number else f"input:{key}"
