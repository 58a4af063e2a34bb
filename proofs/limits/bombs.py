"""Requests just over a limit, far over it, and just within it, with the answer that each must have.

Above: the scene (proof.py). The figures are the limits' defaults; docs/reference/limits.md lists them.
"""

import json
from collections.abc import Callable
from random import Random

from msgspec import Struct

from molecule_core.common.limits import Limits
from proofs.workload.company import Seat
from testing.raw_http import chunk, request

_DEFAULTS = Limits()
_FAR, _FEW_DIGITS = 100_000, 400
WITHIN = "within"
"""The code of an answer that is no refusal."""


class Bomb(Struct, frozen=True):
    """One request and the code that its answer must carry; `name` says what it is too much of.

    `is_fair`: it is within the limits and nobody's burden, so no bomb at all."""

    name: str
    data: bytes
    code: str
    is_fair: bool = False


class Maker:
    """Makes bombs for one sender and one inbox."""

    def __init__(self, sender: Seat, inbox: Seat, dice: Random, line: int) -> None:
        self._line = line
        self._token = sender.token
        self._path = f"/workspaces/{inbox.id}/a2a"
        self._dice = dice
        self._number = 0
        self._kinds: tuple[Callable[[], Bomb], ...] = (
            self._deep,
            self._deep_within,
            self._digits,
            self._no_number,
            self._doubled,
            self._torn_text,
            self._long_text,
            self._text_within,
            self._parts,
            self._long_id,
            self._head,
            self._heads,
            self._target,
            self._chunks,
            self._patience,
        )

    def next(self) -> Bomb:
        """Any of them."""
        return self._dice.choice(self._kinds)()

    # -- what a body may be --------------------------------------------------------------------------------------------

    def _deep(self) -> Bomb:
        levels = self._dice.choice((33, 34, 64, 500, 5_000, _FAR))
        opens, shuts = self._dice.choice((("[", "]"), ('{"a":', "}")))
        body = f'{{"method": "message/send", "params": {opens * levels}1{shuts * levels}}}'.encode()
        return Bomb("depth", self._posted(body), "json_too_deep")

    def _deep_within(self) -> Bomb:
        """So many brackets that somebody has to count, none of them too deep."""
        levels = self._dice.randint(1, 20)
        wide = ", ".join(["[" * levels + "]" * levels] * self._dice.randint(2, 200))
        metadata = {"intent": "inform", "wide": json.loads(f"[{wide}]")}
        return Bomb("depth", self._said(metadata=metadata), WITHIN, is_fair=True)

    def _digits(self) -> Bomb:
        digits = self._dice.choice((_FEW_DIGITS, 4_301, 50_000, 900_000))
        kind = self._dice.choice(("{}", "-{}", "{}e9999", "0.{}", "1e{}"))
        body = b'{"id": %b, "method": 1}' % kind.format("9" * digits).encode()
        # What readers of JSON take for a number after all is refused for the method beside it.
        is_number = kind == "0.{}" or (digits == _FEW_DIGITS and kind in ("{}", "-{}"))
        return Bomb("digits", self._posted(body), "unknown_method" if is_number else "invalid_json")

    def _no_number(self) -> Bomb:
        word = self._dice.choice((b"NaN", b"Infinity", b"-Infinity", b"1e999999", b"0x10", b"01", b"+1", b".5", b"1."))
        return Bomb("numbers", self._posted(b'{"id": %b}' % word), "invalid_json")

    def _doubled(self) -> Bomb:
        key = self._dice.choice(('"method"', '"m\\u0065thod"'))
        return Bomb("keys", self._posted(b'{"method": "message/send", %b: "x"}' % key.encode()), "invalid_json")

    def _torn_text(self) -> Bomb:
        torn = self._dice.choice(
            (rb"\ud800", rb"\udfff", rb"a\u0000b", rb"\ud83d\u0041", b"\xff", b"\xc3", b"\xed\xa0\x80")
        )
        return Bomb("texts", self._posted(b'{"method": "%b"}' % torn), "invalid_json")

    def _long_text(self) -> Bomb:
        more = self._dice.choice((1, 2, 1_000, 400_000))
        letter = self._dice.choice(("x", "\u00e4"))
        return Bomb(
            "text",
            self._said("x" + letter * ((_DEFAULTS.text_bytes + more) // len(letter.encode()))),
            "invalid_message",
        )

    def _text_within(self) -> Bomb:
        return Bomb("text", self._said("x" * (_DEFAULTS.text_bytes - self._dice.randint(0, 3))), WITHIN, is_fair=True)

    def _parts(self) -> Bomb:
        count = self._dice.choice((_DEFAULTS.parts + 1, 1_000, 10_000))
        return Bomb("parts", self._said(parts=[{"kind": "text", "text": "x"}] * count), "invalid_message")

    def _long_id(self) -> Bomb:
        length = self._dice.choice((_DEFAULTS.id_length + 1, 1_000, _FAR))
        return Bomb("ids", self._said(id_="i" * length), "invalid_message")

    # -- what a head may be --------------------------------------------------------------------------------------------

    def _head(self) -> Bomb:
        size = _DEFAULTS.header_bytes + self._dice.choice((1, 1_000, 300_000))
        return Bomb("head", self._asked({"x-large": "a" * size}), "headers_too_large")

    def _heads(self) -> Bomb:
        count = self._dice.choice((7_000, 20_000))
        return Bomb("heads", self._asked({f"x-{n}": "a" * 8 for n in range(count)}), "headers_too_large")

    def _target(self) -> Bomb:
        size = _DEFAULTS.header_bytes + self._dice.choice((1, 10_000))
        return Bomb("target", request("GET", "/" + "a" * size, token=self._token), "headers_too_large")

    def _chunks(self) -> Bomb:
        """A body that nobody has announced, in pieces."""
        pieces = chunk(b" " * 65_536) * self._dice.choice((17, 24, 64))
        head = request("POST", self._path, token=self._token, headers={"Transfer-Encoding": "chunked"})
        return Bomb("chunks", head + pieces, "body_too_large")

    def _patience(self) -> Bomb:
        """Words that a careless pattern would try in all ways."""
        word = self._dice.choice(
            ("a" * 30_000 + "!", "<" * 20_000, "@a" * 20_000, " \t" * 20_000 + "x", "[x](" * 9_000)
        )
        return Bomb("patterns", self._said(word), WITHIN)

    # -- how it is said ------------------------------------------------------------------------------------------------

    def _said(self, text: str = "x", *, id_: str = "", **more: object) -> bytes:
        self._number += 1
        message = {
            "role": "user",
            "messageId": id_ or f"b-{self._line}-{self._number}",
            "parts": [{"kind": "text", "text": text}],
            "metadata": {"intent": "inform"},
            **more,
        }
        body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}}
        return self._posted(json.dumps(body, ensure_ascii=False).encode())

    def _posted(self, body: bytes) -> bytes:
        return request("POST", self._path, body, token=self._token, headers={"X-Timeout": "0"})

    def _asked(self, headers: dict[str, str]) -> bytes:
        return request("GET", "/health", token=self._token, headers=headers)
