"""JSON from strangers at the edges: exact depth, other encodings, bodies as large as a body may be."""

import json
import sys
from collections.abc import Callable

import pytest

from molecule_core.common.errors import InvalidJson, JsonTooDeep
from molecule_core.common.limits import Limits
from molecule_core.wire.protocols.strict_json import decode
from tests.requirements import requirement

SHAPES = {"lists": (b"[", b"]"), "objects": (b'{"a":', b"}"), "escaped": (b'{"\\u0061":', b"}")}


def nested(shape: str, levels: int) -> bytes:
    """A body of exactly so many levels."""
    opening, closing = SHAPES[shape]
    return opening * (levels - 1) + b"[]" + closing * (levels - 1)


@requirement("M15", "S14")
@pytest.mark.parametrize("limit", [1, 31, 32, 33])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_body_may_nest_exactly_as_deep_as_allowed(shape: str, limit: int) -> None:
    assert decode(nested(shape, limit), max_depth=limit) == json.loads(nested(shape, limit))
    for levels in (limit + 1, limit + 2):
        with pytest.raises(JsonTooDeep, match=f"deeper than the limit of {limit} levels"):
            decode(nested(shape, levels), max_depth=limit)


@requirement("M15")
def test_the_depth_that_servers_take_is_thirty_two() -> None:
    assert Limits().json_depth == 32


@requirement("M15", "S14")
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le"])
def test_json_in_another_encoding_is_refused(encoding: str) -> None:
    body = '{"a":"ü"}'.encode(encoding)
    with pytest.raises(InvalidJson):
        decode(body, max_depth=32)


FULL = 1 << 20
# How a body of n bytes is made, and whether it is JSON at all.
HEAVY: dict[str, tuple[Callable[[int], bytes], bool]] = {
    "escaped quotes": (lambda n: b'"' + b'\\"' * (n // 2 - 1) + b'"', True),
    "escaped backslashes": (lambda n: b'"' + b"\\\\" * (n // 2 - 1) + b'"', True),
    "backslashes that look like a NUL": (lambda n: b'["' + b"\\\\u0000" * (n // 7 - 1) + b'"]', True),
    "escaped colons": (lambda n: b'"' + b"\\u003a" * (n // 6 - 1) + b'"', True),
    "brackets in a text": (lambda n: b'["' + b"[{" * (n // 2 - 2) + b'"]', True),
    "keys with escapes": (
        lambda n: b"{" + b",".join(b'"%06d":"\\u003a"' % number for number in range(n // 19)) + b"}",
        True,
    ),
    "one key over and over": (lambda n: b"{" + b",".join([b'"a":1'] * (n // 6 - 1)) + b"}", False),
    "quotes": (lambda n: b'"' * n, False),
    "backslashes": (lambda n: b"\\" * n, False),
    "a text of backslashes that never ends": (lambda n: b'"' + b"\\" * (n - 1), False),
    "closing brackets": (lambda n: b"]" * n, False),
}


def calls_for(body: bytes) -> int:
    """How many calls a reading takes: a measure of work that does not hang on the machine."""
    count = 0

    def note(_frame: object, _event: str, _argument: object) -> None:
        nonlocal count
        count += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        decode(body, max_depth=32)
    except (InvalidJson, JsonTooDeep):
        pass
    finally:
        sys.setprofile(before)
    return count


@requirement("S14")
@pytest.mark.parametrize("shape", HEAVY)
def test_a_body_of_twice_the_size_takes_at_most_twice_the_work(shape: str) -> None:
    make, _ = HEAVY[shape]
    assert calls_for(make(1 << 17)) <= 2.2 * calls_for(make(1 << 16)) + 100


@requirement("S14")
@pytest.mark.parametrize("shape", HEAVY)
def test_a_full_sized_body_of_tricks_is_read_to_its_end(shape: str) -> None:
    make, is_json = HEAVY[shape]
    body = make(FULL)
    assert FULL * 0.9 < len(body) <= FULL
    if is_json:
        assert decode(body, max_depth=32) == json.loads(body)
    else:
        with pytest.raises(InvalidJson):
            decode(body, max_depth=32)
