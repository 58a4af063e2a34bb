"""Reads an A2A agent's response to `message/send`: wrapped by JSON-RPC, by A2A 0.3 or 1.0, or bare.

Called by `messages/delivery/push_policy.py`, which classifies the response, and by the tool runners, which show it.
"""

from typing import Any

import msgspec

from molecule_core.common.text import single_line

_MAX_FILE_NAME_LENGTH = 200
# Members of a bare message or task, each an object or a list. (In `"status": "ok"` the value is a string next to the
# message.)
_MESSAGE_MEMBERS = ("parts", "status", "artifacts")
_AGENT_ROLES = ("agent", "ROLE_AGENT")
# A2A 1.0 has no kinds: the member names the content, and a file's members are those of its part.
_FILE_MEMBERS = {"raw": "bytes", "url": "uri", "filename": "name", "mediaType": "mimeType"}
_CONTENT_TYPES: dict[str, type | tuple[type, ...]] = {"text": str, "data": (dict, list), "file": dict}


def unwrap_result(value: Any) -> Any:
    """Return the result inside the JSON-RPC response and inside A2A 1.0's wrapper, if there is one."""
    result = get_member(value, "result", value)
    if any(isinstance(get_member(result, name), dict | list) for name in _MESSAGE_MEMBERS):
        return result
    inner = [get_member(result, name) for name in ("task", "message")]
    return next((each for each in inner if isinstance(each, dict)), result)


def task_state_of(result: Any) -> str | None:
    """Return the task's state as A2A 0.3 spells it, or None if the result is not a task."""
    state = get_member(get_member(result, "status"), "state")
    if not isinstance(state, str):
        return None
    plain = state.lower().removeprefix("task_state_").replace("_", "-")
    return "canceled" if plain == "cancelled" else plain


def message_parts(result: Any) -> list[dict[str, Any]]:
    """Return all content as Molecule message parts: of the message, the task's status message and its artifacts.

    A status message often repeats an artifact: such parts are returned once. Without any content, that of the agent's
    last message in the task's history is returned."""
    artifacts = [part for each in _as_list(get_member(result, "artifacts")) for part in _valid_parts(each)]
    status = _valid_parts(get_member(get_member(result, "status"), "message"))
    found = [*_valid_parts(result), *(part for part in status if part not in artifacts), *artifacts]
    return found or _valid_parts(_last_agent_message(result))


def has_parts(result: Any) -> bool:
    """Return whether an answer has parts at all, also such that are not understood."""
    holders = [result, get_member(get_member(result, "status"), "message"), *_as_list(get_member(result, "artifacts"))]
    return any(_as_list(get_member(holder, "parts")) for holder in holders)


def _last_agent_message(result: Any) -> Any:
    messages = reversed(_as_list(get_member(result, "history")))
    return next((each for each in messages if get_member(each, "role") in _AGENT_ROLES), None)


def _valid_parts(holder: Any) -> list[dict[str, Any]]:
    """Return the holder's parts as Molecule message parts, without invalid ones."""
    found = []
    for each in _as_list(get_member(holder, "parts")):
        part = normalize_part_shape(each)
        kinds = [each for each in (get_member(part, "kind"), get_member(part, "type")) if each is not None]
        if not all(isinstance(each, str) for each in kinds):
            continue
        # A kind of another protocol ("output_text") is less reliable than the member that the part has.
        kind = next(
            (each for each in (*kinds, *(n for n in _CONTENT_TYPES if get_member(part, n))) if each in _CONTENT_TYPES),
            None,
        )
        if kind is not None and isinstance(get_member(part, kind), _CONTENT_TYPES[kind]) and part[kind]:
            found.append({"kind": kind, **{name: item for name, item in part.items() if name not in ("kind", "type")}})
    return found


def normalize_part_shape(part: Any) -> Any:
    """Return a file part of A2A 1.0 (`raw` or `url`) in the shape of A2A 0.3, and any other value unchanged."""
    if not isinstance(part, dict) or "kind" in part or not any(isinstance(part.get(n), str) for n in ("raw", "url")):
        return part
    file = {name: part[each] for each, name in _FILE_MEMBERS.items() if isinstance(part.get(each), str) and part[each]}
    return {"kind": "file", "file": file, **{name: each for name, each in part.items() if name not in _FILE_MEMBERS}}


def text_of_parts(parts: list[dict[str, Any]]) -> str:
    """Return what a reader of text gets of a message: its texts, and data as JSON."""
    return "\n".join(part_as_text(part) for part in parts if part["kind"] != "file")


def part_as_text(part: dict[str, Any]) -> str:
    """Return a part as plain text: data as JSON, a file as its name or else its address."""
    if part["kind"] == "text":
        return str(part["text"])
    if part["kind"] == "data":
        return msgspec.json.encode(part["data"]).decode()
    candidates = [part["file"].get(name) for name in ("name", "uri")]
    label = next((each for each in candidates if isinstance(each, str)), "without a name")
    return f"[file {single_line(label, _MAX_FILE_NAME_LENGTH)}]"


def get_member(value: Any, name: str, default: Any = None) -> Any:
    """Return the member of an object, or the default for any other value."""
    return value.get(name, default) if isinstance(value, dict) else default


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
