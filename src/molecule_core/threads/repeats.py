"""Whether what comes under a key that was used before is the same again. Pure: it compares with what stands in logs.

What is left out is not compared, for it has another meaning later: base instructions are then the prompt of the moment,
a position the end of the moment. Nor is what an engine gives anew with each of its lives (layers, model, effort, tools,
permissions, names). Above: writer. Below: model.
"""

from collections.abc import Sequence
from typing import NamedTuple

from molecule_core.threads.model import Thread
from molecule_core.wire.prompts import hash_of
from molecule_core.wire.threadlog import BaseSet, Created, Entry, Layer, TextInput, TurnAccepted

FIRST_LINES = 5
"""How many lines one command may begin a thread with: created, base, developer, context, turn accepted."""
_SESSION = "session"
"""The key of a session thread, and how those of the others begin: they are asked for with the base instructions of the
moment, which may be others after a restart."""


class Asked(NamedTuple):
    """What a new thread is asked for with. `base`: None if it is not given; `texts`: its first input; `source`: of a
    fork, the thread that it is to go on from; `position`: None if it is not given."""

    base: str | None = None
    texts: Sequence[TextInput] = ()
    source: Thread | None = None
    position: int | None = None


def is_same_thread(asked: Asked, key: str, lines: Sequence[Entry]) -> bool:
    """Whether a thread that begins with these lines is what is asked for under its key again."""
    born, follows = lines[0], list(lines[1:])
    assert isinstance(born, Created)  # the first line of every log
    origin = born.forked_from
    if (None if asked.source is None else asked.source.thread_id) != (None if origin is None else origin.thread_id):
        return False
    if asked.position is not None and origin is not None and asked.position != origin.position:
        return False
    base = follows.pop(0) if follows and isinstance(follows[0], BaseSet) else None
    kept = base.sha256 if isinstance(base, BaseSet) else None
    if asked.base is not None and not is_session(key) and kept != hash_of(asked.base):
        return False
    first = next((each for each in follows if not isinstance(each, Layer)), None)
    return not asked.texts or (isinstance(first, TurnAccepted) and first.input == list(asked.texts))


def is_session(key: str) -> bool:
    """Whether a key is one of those under which sessions ask for their threads."""
    return key == _SESSION or key.startswith(f"{_SESSION}:")


def line_key(key: str, number: int) -> str:
    """Under which key a text of an input stands in the log of the turn that it has joined. No caller's own key has a
    space in it."""
    return f"input:{key} {number}" if number else f"input:{key}"
