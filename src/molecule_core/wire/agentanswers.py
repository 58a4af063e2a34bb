"""What an A2A agent says with its answer to `message/send`, wrapped by JSON-RPC, by A2A 0.3 or 1.0, or by nothing.

Above: `messages/turns.py`, which judges it; the verbs, which show it.
"""

from typing import Any

import msgspec

from molecule_core.ground.text import plain_line

_SHOWN = 200
# Members of a message or a task of its own, each an object or a list. (`"status": "ok"` is a word beside the message.)
_SPEAKING = ("parts", "status", "artifacts")
_CONTENT: dict[str, type | tuple[type, ...]] = {"text": str, "data": (dict, list), "file": dict}


def result_of(value: Any) -> Any:
    """What JSON-RPC wraps, and what A2A 1.0 wraps in that again."""
    result = member(value, "result", value)
    if any(isinstance(member(result, name), dict | list) for name in _SPEAKING):
        return result
    inner = [member(result, name) for name in ("task", "message")]
    return next((each for each in inner if isinstance(each, dict)), result)


def state_of(result: Any) -> str | None:
    """The state of the task that it is, as A2A 0.3 spells it; None if it is none."""
    state = member(member(result, "status"), "state")
    if not isinstance(state, str):
        return None
    plain = state.lower().removeprefix("task_state_").replace("_", "-")
    return "canceled" if plain == "cancelled" else plain


def parts_of(result: Any) -> list[dict[str, Any]]:
    """All that it says, as parts of messages of Molecule: a message, what a task says, what it made."""
    holders = [result, member(member(result, "status"), "message"), *_list(member(result, "artifacts"))]
    return [part for holder in holders for part in _parts(holder)]


def _parts(holder: Any) -> list[dict[str, Any]]:
    """Its parts as messages of Molecule have them; what is none is left out."""
    found = []
    for part in _list(member(holder, "parts")):
        named = [each for each in (member(part, "kind"), member(part, "type")) if each is not None]
        if not all(isinstance(each, str) for each in named):
            continue
        # A word of another protocol ("output_text") says less than what the part holds.
        kind = next((each for each in (*named, *(n for n in _CONTENT if member(part, n))) if each in _CONTENT), None)
        if kind is not None and isinstance(member(part, kind), _CONTENT[kind]) and part[kind]:
            found.append({"kind": kind, **{name: held for name, held in part.items() if name not in ("kind", "type")}})
    return found


def words_of(part: dict[str, Any]) -> str:
    """A part, where only text can be shown: data as JSON, a file by its name or else where it is."""
    if part["kind"] == "text":
        return str(part["text"])
    if part["kind"] == "data":
        return msgspec.json.encode(part["data"]).decode()
    named = [part["file"].get(name) for name in ("name", "uri")]
    found = next((each for each in named if isinstance(each, str)), "without a name")
    return f"[file {plain_line(found, _SHOWN)}]"


def member(value: Any, name: str, default: Any = None) -> Any:
    """A member of an object; the default for everything else."""
    return value.get(name, default) if isinstance(value, dict) else default


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
