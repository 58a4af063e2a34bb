"""What is bent in a request that was good: its head, its target, its framing, its body; in JSON, one place of it."""

import json
from collections.abc import Callable
from random import Random
from typing import Any

_METHODS: tuple[bytes, ...] = (
    b"BREW",
    b"get",
    b"OPTIONS",
    b"TRACE",
    b"CONNECT",
    b"PRI",
    b"G\x00T",
    b"M" * 5000,
    b"",
    b"HEAD",
    b"PATCH",
)
_TARGETS: tuple[bytes, ...] = (
    b"//",
    b"*",
    b"/../../etc/passwd",
    b"/%",
    b"/%zz",
    b"/%00",
    b"/%ff%fe",
    b"/\xff",
    b"/" * 500,
    b"/\x01",
)
_TARGETS += (b"http://evil.example/health", b"/health#x", b"/health?a=%", b"/?" + b"a=1&" * 60, b"/a" * 9000, b"health")
_VERSIONS = (b"HTTP/1.0", b"HTTP/0.9", b"HTTP/2.0", b"HTTP/1.1 x", b"HTTQ/1.1", b"", b"HTTP/9.9")
_HEADERS = (
    *(b"Host: evil.example", b"Host:", b"Host: a b", b"X-Workspace-ID: nobody", b"Cookie: a=\xff; =; molecule=1"),
    *(b"Authorization: Bearer", b"Authorization: Basic eDp5", b"Authorization: Bearer mol_ws_" + b"A" * 51),
    *(b"Content-Length: 7", b"Content-Length: -1", b"Content-Length: 0x10", b"Content-Length: 9"),
    *(b"Transfer-Encoding: gzip, chunked", b"Transfer-Encoding: identity", b"Transfer-Encoding: chunked, chunked"),
    *(
        b"No colon at all",
        b"Name : blank",
        b": no name",
        b" folded",
        b"X: \x00",
        b"X: \r",
        b"\xff\xfe: x",
        b"X: \xff\xfe",
    ),
    *(b"Expect: 100-continue", b"Expect: nonsense", b"Upgrade: h2c\r\nConnection: Upgrade", b"Connection: close, x"),
    *(b"Origin: https://evil.example", b"Content-Type: text/xml", b"Content-Type: multipart/form-data; boundary="),
    *(b"Content-Encoding: gzip", b"Accept: \x7f", b"X-Big: " + b"x" * 70_000, b"\r\n".join([b"X: y"] * 300)),
    *(
        b"Range: bytes=9-1",
        b"If-None-Match: \xff",
        b"A2A-Version: 9",
        b"Last-Event-ID: -1",
        b"Idempotency-Key: " + b"k" * 999,
    ),
    *(b"MCP-Protocol-Version: 1", b"Mcp-Session-Id: \xe9", b"Accept-Encoding: \xff, br;q=x", b"Sec-WebSocket-Key: x"),
)
_SIZES: tuple[bytes, ...] = (
    b"5\r\nhello\r\n0\r\n\r\n",
    b"zz\r\nx\r\n0\r\n\r\n",
    b"-1\r\n\r\n",
    b"ffffffffffffffffff\r\nx\r\n",
    b"0\r\nX: y\r\n\r\n",
)
_SIZES += (
    b"3;a=b\r\n{} \r\n0\r\n\r\n",
    b"2\r\n{}0\r\n\r\n",
    b"2\n{}\n0\n\n",
    b"\r\n\r\n",
    b"1\r\n{\r\n1\r\n}\r\n0\r\n\r\n",
)
_DEEP = 40
_VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 1.5, 2**31, 2**63, 2**64, 10**30, -(10**20), 1e308, "", " ", "\x7f", "\u202e", "\U0010ffff"),
    *("\ud800", "\x00", "x" * 5000, "../..", "%00", "'; --", "{{ 7*7 }}", "</body>", "9" * 400, "NaN", "☃" * 300),
    *([], {}, [[]], {"": ""}, [None] * 300, {"a": {"b": {"c": [1, {"d": None}]}}}, ["\udfff"], {"\ud800": 1}),
)
_TEXTS: tuple[bytes, ...] = (
    b"",
    b"{",
    b"nul",
    b"\xff\xfe",
    b"\xef\xbb\xbf{}",
    b"NaN",
    b"1e999",
    b'{"a":1,"a":2}',
    b"[" * 5000,
    b'{"a":' * 4000,
    b"[[" * 9000,
    b"[1,]",
    b"{}{}",
)
_TEXTS += (
    b'"\\ud800"',
    b'{"a":"\\udc00"}',
    b'{"a\\u0000":1}',
    b"-",
    b"01",
    b"1" * 5000,
    b"'a'",
    b"\x00",
    b"[" * 33 + b"]" * 33,
)


def bent(good: bytes, dice: Random) -> bytes:
    """A good request with one to three things bent."""
    head, _, body = good.partition(b"\r\n\r\n")
    for _ in range(dice.choice((1, 1, 2, 3))):
        head, body = dice.choice(_WAYS)(head, body, dice)
    return head + b"\r\n\r\n" + body


def bent_json(value: Any, dice: Random) -> bytes:
    """A JSON value with one place changed, or its text broken."""
    if dice.random() < 0.2:
        return dice.choice(_TEXTS)
    changed = _changed(value, dice)
    for _ in range(dice.randrange(3)):
        changed = _changed(changed, dice)
    text = json.dumps(changed).encode()
    if dice.random() < 0.25:
        place = dice.randrange(len(text) + 1)
        text = dice.choice(
            (text[:place], text[:place] + dice.randbytes(3) + text[place:], text + text, text.decode().encode("utf-16"))
        )
    return text


def _changed(value: Any, dice: Random) -> Any:
    """A copy in which one place is another value, is gone, stands twice or is new."""
    if dice.random() < 0.3 or not isinstance(value, dict | list) or not value:
        return _nested(dice) if dice.random() < 0.05 else dice.choice(_VALUES)
    if isinstance(value, list):
        place = dice.randrange(len(value))
        return [*value[:place], _changed(value[place], dice), *value[place + dice.randrange(2) :]]
    name = dice.choice(list(value))
    kept = {each: inner for each, inner in value.items() if each != name}
    way = dice.random()
    if way < 0.15:
        return kept
    if way < 0.3:
        return {**value, dice.choice(("", "id", "__proto__", name + "x", "\ud800")): dice.choice(_VALUES)}
    return {**kept, name: _changed(value[name], dice)}


def _nested(dice: Random) -> Any:
    value: Any = 1
    for _ in range(dice.choice((_DEEP, 900))):
        value = dice.choice(([value], {"a": value}))
    return value


Way = Callable[[bytes, bytes, Random], tuple[bytes, bytes]]


def _first_line(head: bytes, body: bytes, dice: Random) -> tuple[bytes, bytes]:
    line, _, rest = head.partition(b"\r\n")
    words = line.split(b" ")
    way = dice.randrange(5)
    if way == 0:
        words[0] = dice.choice(_METHODS)
    elif way == 1 and len(words) > 1:
        words[1] = dice.choice(_TARGETS)
    elif way == 2 and len(words) > 1:
        place = dice.randrange(len(words[1]) + 1)
        words[1] = (
            words[1][:place] + dice.choice((b"%", b"%00", b"\xff", b"..", b"/", b"?", b"&limit=x")) + words[1][place:]
        )
    elif way == 3:
        words[-1] = dice.choice(_VERSIONS)
    else:
        return dice.choice((b"\r\n", b"\n", b"\x00", b" ")) + head, body
    return b" ".join(words) + b"\r\n" + rest, body


def _header(head: bytes, body: bytes, dice: Random) -> tuple[bytes, bytes]:
    lines = head.split(b"\r\n")
    place = dice.randrange(1, len(lines) + 1)
    way = dice.randrange(4)
    if way == 0 and place < len(lines):
        lines.insert(place, lines[place])
    elif way == 1 and place < len(lines):
        at = dice.randrange(len(lines[place]) + 1)
        lines[place] = lines[place][:at] + dice.randbytes(dice.randrange(1, 4)) + lines[place][at:]
    else:
        lines.insert(place, dice.choice(_HEADERS))
    return b"\r\n".join(lines), body


def _dropped(head: bytes, body: bytes, dice: Random) -> tuple[bytes, bytes]:
    lines = head.split(b"\r\n")
    if len(lines) > 1:
        del lines[dice.randrange(1, len(lines))]
    return b"\r\n".join(lines), body


def _chunked(head: bytes, body: bytes, dice: Random) -> tuple[bytes, bytes]:
    lines = [line for line in head.split(b"\r\n") if dice.random() < 0.1 or not line.lower().startswith(b"content-le")]
    pieces = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if body else b"0\r\n\r\n"
    return b"\r\n".join([*lines, b"Transfer-Encoding: chunked"]), dice.choice((pieces, *_SIZES))


def _content(head: bytes, body: bytes, dice: Random) -> tuple[bytes, bytes]:
    """Another body, of the length that is said."""
    try:
        text = bent_json(json.loads(body), dice)
    except (ValueError, RecursionError):
        text = dice.choice(_TEXTS)
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"content-length")]
    return b"\r\n".join([*lines, b"Content-Length: %d" % len(text)]), text


def _noise(head: bytes, body: bytes, dice: Random) -> tuple[bytes, bytes]:
    data = bytearray(head)
    for _ in range(dice.randrange(1, 6)):
        data[dice.randrange(len(data))] = dice.randrange(256)
    return bytes(data), body


_WAYS: tuple[Way, ...] = (_first_line, _header, _header, _dropped, _chunked, _content, _content, _content, _noise)
