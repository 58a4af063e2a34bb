"""Whether what comes under a key that was used before is the same again. Pure: it compares with what stands in logs.

What is left out is not compared, for it has another meaning later: base instructions are then the prompt of the moment,
a position the end of the moment. Nor is what an engine gives anew with each of its lives (layers, model, effort, tools,
permissions, names). Above: writer. Below: model.
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
"""How many lines one command may begin a thread with: created, base, developer, context, turn accepted."""
_SESSION_KEY = "session"
"""The key of a session thread, and how those of the others begin: they are asked for with the base instructions of the
moment, which may be others after a restart."""


class ThreadRequest(NamedTuple):
    """What a new thread is asked for with. `base`: None if it is not given; `texts`: its first input; `source`: of a
    fork, the thread that it is to go on from; `position`: None if it is not given."""

    base: str | None = None
    texts: Sequence[TextInput] = ()
    source: Thread | None = None
    position: int | None = None


def matches_request(request: ThreadRequest, key: str, entries: Sequence[ThreadEntry]) -> bool:
    """Whether a thread that begins with these lines is what is asked for under its key again."""
    created, remaining = entries[0], list(entries[1:])
    assert isinstance(created, ThreadCreatedEntry)  # the first line of every log
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
    """Whether a key is one of those under which sessions ask for their threads."""
    return key == _SESSION_KEY or key.startswith(f"{_SESSION_KEY}:")


def input_entry_key(key: str, number: int) -> str:
    """Under which key a text of an input stands in the log of the turn that it has joined. No caller's own key has a
    space in it."""
    return f"input:{key} {number}" if number else f"input:{key}"
