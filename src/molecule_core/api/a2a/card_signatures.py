"""Signs A2A cards: a JSON Web Signature over the canonical JSON of the card (RFC 7515, RFC 8785).

The library is optional: it is loaded if an operator names a key.
"""

import importlib
import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

_ALGORITHM = "ES256"
_KEY_ID_LENGTH = 16


def load_signer(key_file: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return what signs cards with the private key of a file (PEM, EC P-256).

    Raises OSError, ValueError, and ImportError without the extra `signing`."""
    jws = importlib.import_module("jwt.api_jws")
    key = Path(key_file).expanduser().read_bytes()
    header = {"typ": "JOSE", "kid": sha256(key).hexdigest()[:_KEY_ID_LENGTH]}
    jws.encode(b"", key, algorithm=_ALGORITHM)  # an unusable key must stop the start, not a request

    def sign(card: dict[str, Any]) -> dict[str, Any]:
        token: str = jws.encode(canonical_card(card), key, algorithm=_ALGORITHM, headers=header)
        protected, _, signature = token.split(".")
        return {**card, "signatures": [{"protected": protected, "signature": signature}]}

    return sign


def canonical_card(card: dict[str, Any]) -> bytes:
    """Return a card in canonical JSON, without signatures and without members that are empty.

    A card has texts, booleans, lists and objects only, for which sorted keys and short escapes are RFC 8785."""
    content = {name: value for name, value in card.items() if name != "signatures"}
    return json.dumps(_without_empty(content), sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {name: _without_empty(each) for name, each in value.items()}
        return {name: each for name, each in kept.items() if each not in (None, "", [], {}, False)}
    return [_without_empty(each) for each in value] if isinstance(value, list) else value
