"""JSON from strangers: our fast reader takes exactly what a slow, obviously right one takes, and reads it alike."""

import codecs
import json
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_core.common.errors import InvalidJson, JsonTooDeep
from molecule_core.wire.protocols.strict_json import decode
from testing.step_counts import examples
from tests.requirements import requirement

DEPTH = 5
# Python's own bound of a whole number's text; longer ones take quadratic time.
_LONGEST_NUMBER = 4300


class Refused(Exception):
    """The reference does not take it."""


def reference(body: bytes, max_depth: int) -> Any:
    """The slow reader: the standard library's, told to refuse, then a walk for each thing that it lets through."""
    try:
        value = json.loads(
            body.removeprefix(codecs.BOM_UTF8).decode("utf-8"),
            object_pairs_hook=_pairs,
            parse_constant=_refuse,
            parse_float=_finite,
            parse_int=_bounded,
        )
    except (ValueError, RecursionError) as error:
        raise Refused(str(error)) from None
    _walk(value, max_depth)
    return value


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) < len(pairs):
        raise Refused("a key stands twice")
    return dict(pairs)


def _refuse(word: str) -> Any:
    raise Refused(word)


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise Refused(text)
    return value


def _bounded(text: str) -> int:
    if len(text) > _LONGEST_NUMBER:
        raise Refused("a number of too many digits")
    return int(text)


def _walk(value: Any, levels: int) -> None:
    if isinstance(value, str):
        if any(character == "\x00" or "\ud800" <= character <= "\udfff" for character in value):
            raise Refused("a NUL or a lone surrogate")
    elif isinstance(value, list | dict):
        if not levels:
            raise Refused("too deep")
        for inner in value if isinstance(value, list) else [*value.keys(), *value.values()]:
            _walk(inner, levels - 1)


def check_alike(body: bytes, max_depth: int = DEPTH) -> bool:
    """Both take it and read the same, or neither takes it; says whether they did."""
    try:
        expected = reference(body, max_depth)
    except Refused as refusal:
        with pytest.raises((InvalidJson, JsonTooDeep)):
            pytest.fail(f"took {body!r} ({refusal}): {decode(body, max_depth=max_depth)!r}")
        return False
    # repr tells 1 from 1.0 and True, 0.0 from -0.0, and one order of keys from another.
    assert repr(decode(body, max_depth=max_depth)) == repr(expected)
    return True


# -- random texts ------------------------------------------------------------------------------------------------------

CHARACTERS = st.one_of(
    st.sampled_from('aab:"\\/{}[],\n\t\x00\x7fé€😀\u2028\ufeff'), st.characters(exclude_categories=["Cs"])
)
SPACES = st.sampled_from(["", "", "", " ", "\n", "\t\r\n "])
NUMBERS = st.one_of(
    st.integers().map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(
        "0 -0 -0.0 1E5 1e+5 1e-400 0.1 1e308 1.7976931348623157e308 18446744073709551616 4.35 9007199254740993".split()
    ),
)


@st.composite
def strings(draw: st.DrawFn) -> str:
    """A JSON string whose characters are written in one of the ways that JSON has for them."""
    return '"' + "".join(draw(spellings(character)) for character in draw(st.text(CHARACTERS, max_size=4))) + '"'


def spellings(character: str) -> st.SearchStrategy[str]:
    """All ways to write a character."""
    units = character.encode("utf-16-be")
    escaped = "".join(f"\\u{units[place]:02x}{units[place + 1]:02x}" for place in range(0, len(units), 2))
    short = json.dumps(character, ensure_ascii=False)[1:-1]
    return st.sampled_from([short, short, escaped, escaped.upper().replace("\\U", "\\u")])


@st.composite
def objects(draw: st.DrawFn, inner: st.SearchStrategy[str]) -> str:
    """An object; its few keys, written in many ways, often stand twice."""
    keys = st.one_of(st.sampled_from(['"a"', '"\\u0061"', '"a:b"', '"b"', '""', '"\\u00e9"', '"é"']), strings())
    pairs = draw(st.lists(st.tuples(keys, SPACES, inner, SPACES), max_size=3))
    return "{" + ",".join(f"{space}{key}{space}:{after}{value}" for key, space, value, after in pairs) + "}"


@st.composite
def arrays(draw: st.DrawFn, inner: st.SearchStrategy[str]) -> str:
    """An array."""
    return "[" + ",".join(space + value for value, space in draw(st.lists(st.tuples(inner, SPACES), max_size=3))) + "]"


VALUES = st.recursive(
    st.one_of(st.sampled_from(["null", "true", "false"]), NUMBERS, strings()),
    lambda inner: st.one_of(arrays(inner), objects(inner)),
    max_leaves=8,
)
TEXTS = st.builds(lambda before, value, after: before + value + after, SPACES, VALUES, SPACES).map(str.encode)

SPLINTERS = [
    *(each.encode() for each in "NaN Infinity -Infinity 1e999 -1e999 1e400 01 1. .5 + - 1e nul tru".split()),
    *(b'"\\ud800"', b'"\\udc00"', b'"\\udc00\\ud800"', b'"\\ud83d\\ude00"', b'"\\ud83d\\u0041"', b'"\\uD83D"'),
    *(b'"\\u0000"', b'"\x00"', b"\x00", b'"\\x00"', b'"\\', b'"\\u12"', b'"\\u+041"', b'"\n"', b'"\x1f"', b'"\x7f"'),
    *(b"\xff", b"\xed\xa0\x80", b'"\xed\xa0\x80"', b"\xc0\x80", b"\xf4\x90\x80\x80", b"\xef\xbb\xbf", b"\xe2\x82"),
    *(b"[", b"]", b"{", b"}", b",", b":", b'"', b"'a'", b"//", b"/**/", b"[[[[[[", b"]]]]]]", b'{"a":', b",}", b",]"),
    *(b'{"a":1,"a":2}', b'{"a":1,"\\u0061":2}', b'{"a":":","a":"::"}', b'{"":0,"":0}', b'"a":1,', b'"\\u003a"'),
    *(b"\x0b", b"\x0c", b"\xa0", b"\xe2\x80\xa8", b" ", b"1" * 4300, b"-" + b"1" * 4300, b"1" * 4301, b"9" * 400),
]


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A text after a few blows: splinters driven in, pieces cut out, doubled or swapped, bytes changed."""
    body = bytearray(draw(TEXTS))
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(body)))
        end = min(len(body), start + draw(st.integers(0, 6)))
        blow = draw(st.sampled_from(["drive in", "replace", "cut out", "double", "change"]))
        if blow == "drive in":
            body[start:start] = draw(st.sampled_from(SPLINTERS))
        elif blow == "replace":
            body[start:end] = draw(st.sampled_from(SPLINTERS))
        elif blow == "cut out":
            del body[start:end]
        elif blow == "double":
            body[start:start] = body[start:end] * draw(st.integers(1, 3))
        elif start < len(body):
            body[start] = draw(st.integers(0, 255))
    return bytes(body)


@examples(400)
@given(TEXTS)
def test_every_regular_text_is_read_as_the_reference_reads_it(body: bytes) -> None:
    check_alike(body)


@requirement("M15", "S14")
@examples(800)
@given(mutated())
def test_a_text_after_hostile_changes_is_taken_or_refused_as_the_reference_does(body: bytes) -> None:
    check_alike(body)


def test_the_random_texts_are_of_both_kinds() -> None:
    """The control of the two tests above: a reader that took all, or nothing, would be found out."""
    taken = {True: 0, False: 0}

    @examples(300)
    @given(st.one_of(TEXTS, mutated()))
    def count(body: bytes) -> None:
        taken[check_alike(body)] += 1

    count()
    assert min(taken.values()) > 30


@requirement("M15", "S14")
@pytest.mark.parametrize("splinter", SPLINTERS)
@pytest.mark.parametrize("frame", [b"%s", b"[%s]", b'{"k":%s}', b'["x",%s,"y"]', b'{"%s":1}', b'{"k":"%s"}', b" %s "])
def test_each_hostile_piece_in_each_place_is_judged_as_by_the_reference(frame: bytes, splinter: bytes) -> None:
    check_alike(frame.replace(b"%s", splinter))


@requirement("M15")
@pytest.mark.parametrize(
    "twins",
    [
        b'{"a":1,"a":1}',
        b'{"a":1,"b":2,"a":3}',
        b'{"a":1,"\\u0061":2}',
        b'{"\\u0061":1,"a":2}',
        b'[{"x":{"k":[],"k":[]}}]',
        b'{"k":{"a:b":1},"k":0}',
        b'{"":1,"":2}',
        b'{"a:":":","a:":":"}',
        b'{"\\u00e9":1,"\xc3\xa9":2}',
        b'{"a":"\\u003a","a":""}',
        b'{"a":1,"a":"::::"}',
    ],
)
def test_a_key_that_stands_twice_is_refused_however_it_is_written(twins: bytes) -> None:
    with pytest.raises(InvalidJson, match="occurs twice in one object") as refusal:
        decode(twins, max_depth=32)
    assert refusal.value.text.startswith("the body is not valid JSON: ")


@pytest.mark.parametrize(
    "body", [b'{"a":"a:a::"}', b'{"a:b":{"a":1},"a":{"a":1}}', b'[":",":"]', b'{"a":{"a":{"a":1}}}']
)
def test_colons_and_equal_keys_in_different_objects_are_no_doubles(body: bytes) -> None:
    assert decode(body, max_depth=32) == json.loads(body)


@pytest.mark.parametrize("body", [b'"\\u0000"', b'["a\\u0000b"]', b'{"\\u0000":1}', b'{"a":{"b\\u0000":"x"}}'])
def test_a_nul_character_is_refused_in_values_and_keys(body: bytes) -> None:
    with pytest.raises(InvalidJson, match="NUL"):
        decode(body, max_depth=32)


def _nested(kind: str, depth: int) -> bytes:
    opening, closing = {"array": (b"[", b"]"), "object": (b'{"k":', b"}"), "mixed": (b'[{"k":', b"}]")}[kind]
    times = depth // 2 if kind == "mixed" else depth
    inner = b"" if kind == "array" else b"1"
    return opening * times + inner + closing * times


@requirement("M15", "S14")
@pytest.mark.parametrize("kind", ["array", "object", "mixed"])
@pytest.mark.parametrize("limit", [2, 32, 64])
def test_nesting_is_taken_up_to_the_limit_and_refused_beyond_it(kind: str, limit: int) -> None:
    assert check_alike(_nested(kind, limit), limit)
    assert decode(_nested(kind, limit), max_depth=limit) == json.loads(_nested(kind, limit))
    for depth in (limit + 2, limit * 10, 100_000):
        with pytest.raises(JsonTooDeep, match=f"deeper than the limit of {limit} levels"):
            decode(_nested(kind, depth), max_depth=limit)


def test_brackets_inside_texts_and_side_by_side_are_no_depth() -> None:
    assert decode(b'["' + b"[" * 1000 + b'"]', max_depth=1) == ["[" * 1000]
    assert decode(b"[" + b"[]," * 1000 + b"[]]", max_depth=2) == [[]] * 1001
    assert decode(b"1", max_depth=1) == 1


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "it is empty"),
        (b"{", "it ends too early"),
        (b"{} {}", "trailing characters"),
        (b"\xff", "not UTF-8|invalid character"),
        (b'"\xff"', "it is not UTF-8"),
        (b"NaN", "invalid character"),
        (b"1e999", "out of range"),
        (b'"\\ud800"', "a lone surrogate"),
        (b'{"name":"\\uD800"}', "a lone surrogate"),
        (b'["\\udc00"]', "a lone surrogate"),
        (b'["\\ud83d\\ude00"', "it ends too early"),
    ],
)
def test_a_refusal_says_what_is_wrong(body: bytes, reason: str) -> None:
    with pytest.raises(InvalidJson, match=f"the body is not valid JSON: .*({reason}).*Send one JSON object in UTF-8"):
        decode(body, max_depth=32)


# -- cost --------------------------------------------------------------------------------------------------------------

BIG: dict[str, Callable[[int], bytes]] = {
    "flat objects": lambda n: b"[" + b",".join(b'{"a":%d,"b":"x"}' % number for number in range(n)) + b"]",
    "one wide object": lambda n: b"{" + b",".join(b'"k%d":1' % number for number in range(n)) + b"}",
    "one wide object with escapes": lambda n: b"{" + b",".join(b'"\\u006b%d":1' % number for number in range(n)) + b"}",
    "a double at the end": lambda n: b"{" + b",".join(b'"k%d":1' % number for number in range(n)) + b',"k0":2}',
    "many doubles": lambda n: b"{" + b",".join(b'"k%d":1' % (number // 2) for number in range(n)) + b"}",
    "empty arrays": lambda n: b"[" + b",".join([b"[]"] * n) + b"]",
    "deep combs": lambda n: b"[" + b",".join([_nested("array", 30)] * (n // 30)) + b"]",
    "escapes in texts": lambda n: b"[" + b",".join([b'"\\u0041:"'] * n) + b"]",
    "colons in one text": lambda n: b'["' + b":" * n + b'"]',
    "unclosed brackets": lambda n: b"[" * n,
    "long numbers": lambda n: b"[" + b",".join([b"1" * 100] * (n // 100)) + b"]",
}


def _calls(body: bytes) -> int:
    """How many calls a reading takes, of Python's functions and of C's."""
    count = 0

    def note(_frame: FrameType, kind: str, _argument: object) -> None:
        nonlocal count
        count += kind in ("call", "c_call")

    sys.setprofile(note)
    try:
        decode(body, max_depth=32)
    except (InvalidJson, JsonTooDeep):
        pass
    finally:
        sys.setprofile(None)
    return count


@requirement("S14")
@pytest.mark.parametrize("shape", BIG)
def test_a_body_that_is_ten_times_as_big_takes_at_most_about_ten_times_as_much(shape: str) -> None:
    small, big = BIG[shape](3_000), BIG[shape](30_000)
    assert len(big) > 9 * len(small)
    assert _calls(big) <= 12 * _calls(small) + 100
