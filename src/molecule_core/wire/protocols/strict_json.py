"""Decodes untrusted JSON: one UTF-8 value that both databases can store and every reader parses alike.

Rejected beside malformed JSON: NaN and infinities, duplicate keys, lone surrogates, NUL characters, deep nesting.
"""

import codecs
import json
import re
from collections.abc import Iterable
from typing import Any

import msgspec

from molecule_core.common.errors import InvalidJson, JsonTooDeep

# An escaped pair, half of one, NUL, another escape; and half of a pair as bytes, which is no UTF-8.
_ESCAPES = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|(\\u0000)|\\."
    rb"|(\xed[\xa0-\xbf][\x80-\xbf])",
    re.DOTALL,
)
_REPLACEMENT = b"\\ufffd"


def repair_text(body: bytes, *, with_nul: bool = False) -> bytes:
    """Return a JSON text with U+FFFD for each half of a surrogate pair, and with `with_nul` for each NUL character.

    A text must not be lost for one character that its writer has cut."""
    if b"\\u" not in body and b"\xed" not in body:
        return body

    def replace_unstorable(found: re.Match[bytes]) -> bytes:
        half, nul, half_bytes = found.groups()
        return _REPLACEMENT if half or half_bytes or (nul and with_nul) else found[0]

    return _ESCAPES.sub(replace_unstorable, body)


def read_member(body: bytes, name: str) -> Any:
    """Return a member of an object that `decode` rejects; None if it cannot be read without doubt."""
    found: list[Any] = []

    def collect(pairs: list[tuple[str, Any]]) -> list[Any]:
        found[:] = [value for key, value in pairs if key == name]  # the outermost object is the last
        return []

    try:
        is_object = json.loads(body.decode("utf-8", "replace"), object_pairs_hook=collect, strict=False) == []
    except (ValueError, RecursionError):
        return None
    return found[0] if is_object and len(found) == 1 else None


def decode(body: bytes, *, max_depth: int) -> Any:
    """Decode a JSON text, with or without a byte order mark. Raises InvalidJson or JsonTooDeep.

    Most bodies cost one decode and one encode: without a `\\u` escape in the source, only a duplicate key makes a
    colon disappear between the two."""
    body = body.removeprefix(codecs.BOM_UTF8)
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
    if not body.strip():
        return "it is empty"
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8"
    if b"\\ud" in body.lower() and _has_lone_surrogate(body):
        return "it contains a lone surrogate (half of an escaped pair), which is not text"
    text = str(error).removeprefix("JSON is malformed: ")
    return "it ends too early" if text == "Input data was truncated" else text


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
                raise InvalidJson(reason="it contains a NUL character")
            if isinstance(each, dict) and any("\x00" in key for key in each):
                raise InvalidJson(reason="a key contains a NUL character")
        level = [inner for each in level for inner in _children(each)]


def _reject_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        duplicate = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise InvalidJson(reason=f"the key {duplicate[:100]!r} occurs twice in one object")
    return value
