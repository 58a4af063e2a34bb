"""Decodes untrusted JSON: one UTF-8 value that both databases can store and every reader parses alike.

Rejected beside malformed JSON: NaN and infinities, duplicate keys, lone surrogates, NUL characters, deep nesting.
"""

import json
from collections.abc import Iterable
from typing import Any

import msgspec

from molecule_core.common.errors import InvalidJson, JsonTooDeep


def decode(body: bytes, *, max_depth: int) -> Any:
    """Decode a JSON text. Raises InvalidJson or JsonTooDeep.

    Most bodies cost one decode and one encode: without a `\\u` escape in the source, only a duplicate key makes a
    colon disappear between the two."""
    try:
        value = msgspec.json.decode(body)
    except RecursionError:  # control: deep-json
        raise JsonTooDeep(limit=max_depth) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidJson(reason=_decode_error_text(error, body)) from None
    if body.count(b"{") + body.count(b"[") > max_depth and _is_deeper_than(value, max_depth):  # control: json-depth
        raise JsonTooDeep(limit=max_depth)
    if b"\\u" in body or body.count(b":") != msgspec.json.encode(value).count(b":"):
        _check_strictly(body)
    return value


def _decode_error_text(error: Exception, body: bytes) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8"
    if b"\\ud" in body.lower() and _has_lone_surrogate(body):
        return "it holds a lone surrogate (half of an escaped pair), which is no text"
    return str(error).removeprefix("JSON is malformed: ")


def _has_lone_surrogate(body: bytes) -> bool:
    """Return whether a lone surrogate is the only error.

    The decoder reports one at the end of a text as a truncated text."""
    try:
        json.dumps(json.loads(body), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    except (ValueError, RecursionError):
        pass
    return False


def _is_deeper_than(value: Any, limit: int) -> bool:
    """Return whether the nesting exceeds the limit. Breadth first, so that deep values do not use up the stack."""
    level = [value]
    for _ in range(limit):
        level = [inner for each in level for inner in _children(each)]
        if not level:
            return False
    return any(isinstance(each, dict | list) for each in level)


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _check_strictly(body: bytes) -> None:
    """Reject duplicate keys and NUL characters. Slower and exact; only for bodies with escapes or a missing colon."""
    value = json.loads(body, object_pairs_hook=_reject_duplicate_keys)
    level = [value]
    while level:
        for each in level:
            if isinstance(each, str) and "\x00" in each:
                raise InvalidJson(reason="it holds a NUL character")
            if isinstance(each, dict) and any("\x00" in key for key in each):
                raise InvalidJson(reason="a key holds a NUL character")
        level = [inner for each in level for inner in _children(each)]


def _reject_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        duplicate = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise InvalidJson(reason=f"the key {duplicate[:100]!r} stands twice in one object")
    return value
