"""What an A2A agent says with its answer to `message/send`, wrapped by JSON-RPC, by A2A 0.3 or 1.0, or by nothing.

Above: `messages/delivery/push_policy.py`, which judges it; the verbs, which show it.
"""

from typing import Any

import msgspec

from molecule_core.common.text import single_line

_MAX_FILE_NAME_LENGTH = 200
# Members of a message or a task of its own, each an object or a list. (`"status": "ok"` is a word beside the message.)
_MESSAGE_MEMBERS = ("parts", "status", "artifacts")
_CONTENT_TYPES: dict[str, type | tuple[type, ...]] = {"text": str, "data": (dict, list), "file": dict}


def unwrap_result(value: Any) -> Any:
    """What JSON-RPC wraps, and what A2A 1.0 wraps in that again."""
    result = get_member(value, "result", value)
    if any(isinstance(get_member(result, name), dict | list) for name in _MESSAGE_MEMBERS):
        return result
    inner = [get_member(result, name) for name in ("task", "message")]
    return next((each for each in inner if isinstance(each, dict)), result)


def task_state_of(result: Any) -> str | None:
    """The state of the task that it is, as A2A 0.3 spells it; None if it is none."""
    state = get_member(get_member(result, "status"), "state")
    if not isinstance(state, str):
        return None
    plain = state.lower().removeprefix("task_state_").replace("_", "-")
    return "canceled" if plain == "cancelled" else plain


def message_parts(result: Any) -> list[dict[str, Any]]:
    """All that it says, as parts of messages of Molecule: a message, what a task says, what it made."""
    holders = [result, get_member(get_member(result, "status"), "message"), *_as_list(get_member(result, "artifacts"))]
    return [part for holder in holders for part in _valid_parts(holder)]


def _valid_parts(holder: Any) -> list[dict[str, Any]]:
    """Its parts as messages of Molecule have them; what is none is left out."""
    found = []
    for part in _as_list(get_member(holder, "parts")):
        named = [each for each in (get_member(part, "kind"), get_member(part, "type")) if each is not None]
        if not all(isinstance(each, str) for each in named):
            continue
        # A word of another protocol ("output_text") says less than what the part holds.
        kind = next(
            (each for each in (*named, *(n for n in _CONTENT_TYPES if get_member(part, n))) if each in _CONTENT_TYPES),
            None,
        )
        if kind is not None and isinstance(get_member(part, kind), _CONTENT_TYPES[kind]) and part[kind]:
            found.append({"kind": kind, **{name: held for name, held in part.items() if name not in ("kind", "type")}})
    return found


def part_as_text(part: dict[str, Any]) -> str:
    """A part, where only text can be shown: data as JSON, a file by its name or else where it is."""
    if part["kind"] == "text":
        return str(part["text"])
    if part["kind"] == "data":
        return msgspec.json.encode(part["data"]).decode()
    named = [part["file"].get(name) for name in ("name", "uri")]
    found = next((each for each in named if isinstance(each, str)), "without a name")
    return f"[file {single_line(found, _MAX_FILE_NAME_LENGTH)}]"


def get_member(value: Any, name: str, default: Any = None) -> Any:
    """A member of an object; the default for everything else."""
    return value.get(name, default) if isinstance(value, dict) else default


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
