"""Verifies the signatures of A2A cards: JSON Web Signatures over the canonical JSON of a card (RFC 7515, RFC 8785).

Only keys that a person has named are used; an address of keys in the signature itself is not followed. The library is
optional: it is loaded when a card is verified."""

import base64
import binascii
import importlib
import itertools
import json
from collections.abc import Iterator
from typing import Any

from molecule_core.common.errors import InvalidField
from molecule_core.wire.protocols.a2a_response import get_member

_ALGORITHMS = ("ES256", "ES384", "ES512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "EdDSA")
# One for each kind of key.
_KEY_ALGORITHMS = ("ES256", "ES384", "ES512", "RS256", "EdDSA")
# Signatures of a card and keys of a set that are tried at most.
_MAX_SIGNATURES, _MAX_KEYS = 5, 50
_MISSING_LIBRARY = (
    "the server cannot verify signatures of agent cards without the extra signing. Install molecule-core[signing]."
)
# What a2a-sdk 1 adds to a signed card for clients of 0.3.
_V0_3_MEMBERS = frozenset(
    ("url", "preferredTransport", "additionalInterfaces", "protocolVersion", "supportsAuthenticatedExtendedCard")
) | {"security"}
# What a2a-sdk 0.3 leaves out of the signed text: members with the values that they have by default.
_V0_3_DEFAULTS = {"preferredTransport": "JSONRPC", "protocolVersion": "0.3.0"}


def parse_key_set(value: Any) -> list[Any]:
    """Return the usable keys of a decoded JSON Web Key Set. Raises InvalidField, also without the library."""
    jwt = _load_library()
    found = []
    listed = get_member(value, "keys")
    for each in listed[:_MAX_KEYS] if isinstance(listed, list) else []:
        try:
            found.append(jwt.PyJWK(each))
        except (jwt.PyJWTError, TypeError, ValueError, AttributeError):
            continue  # a set may have keys for other purposes
    if not found:
        raise InvalidField(reason="the key set for the agent card has no usable key. Name the address of a JWKS.")
    return found


def parse_public_key(pem: str) -> Any:
    """Return a public key. Raises InvalidField, also without the library."""
    jwt = _load_library()
    for name in _KEY_ALGORITHMS:
        try:
            key = jwt.get_algorithm_by_name(name).prepare_key(pem)
        except NotImplementedError:
            raise InvalidField(reason=_MISSING_LIBRARY) from None
        except (jwt.PyJWTError, ValueError, TypeError):
            continue
        if hasattr(key, "private_bytes"):
            raise InvalidField(
                reason="the key for the agent card is a private key. Name the public key, and keep this one secret."
            )
        return key
    raise InvalidField(
        reason="the key for the agent card is not a public key as PEM. Name the public key of its signer."
    )


def verify_card(card: dict[str, Any], keys: list[Any]) -> dict[str, Any]:
    """Return what of a card is signed by one of the keys: members that are not signed are left out.

    Raises InvalidField if the card is not signed, or by none of them."""
    jwt = _load_library()
    signatures = card.get("signatures")
    if not isinstance(signatures, list) or not signatures:
        raise InvalidField(
            reason="the agent card is not signed, and a key for it was named. Ask its operator, or remove the key."
        )
    for signature in signatures[:_MAX_SIGNATURES]:
        header = _decode_header(get_member(signature, "protected"))
        if header is None or not isinstance(signature.get("signature"), str):
            continue
        named = [key for key in keys if header.get("kid") in (None, getattr(key, "key_id", None))]
        for key, (content, payload) in itertools.product(named or keys, list(_signed_forms(card))):
            encoded = base64.urlsafe_b64encode(payload).rstrip(b"=").decode()
            try:
                jwt.api_jws.decode(
                    f"{signature['protected']}.{encoded}.{signature['signature']}", key, algorithms=_ALGORITHMS
                )
            except (jwt.PyJWTError, ValueError, TypeError):
                continue
            return {**content, "signatures": signatures}
    raise InvalidField(
        reason="the signature of the agent card is not that of the named key. Correct the key, or use another agent."
    )


def _load_library() -> Any:
    try:
        return importlib.import_module("jwt")
    except ImportError:
        raise InvalidField(reason=_MISSING_LIBRARY) from None


def _decode_header(protected: Any) -> dict[str, Any] | None:
    if not isinstance(protected, str):
        return None
    try:
        header = json.loads(base64.urlsafe_b64decode(protected + "=" * (-len(protected) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        return None
    return header if isinstance(header, dict) else None


def _signed_forms(card: dict[str, Any]) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Yield what of a card may have been signed, with its canonical text.

    SDKs differ in what they take for a default, which is not signed, and in the escapes of characters beyond ASCII."""
    content = {name: value for name, value in card.items() if name != "signatures"}
    without_0_3 = {name: value for name, value in content.items() if name not in _V0_3_MEMBERS}
    schemes = content.get("securitySchemes")
    if isinstance(schemes, dict):
        without_0_3["securitySchemes"] = {name: _new_members(each) for name, each in schemes.items()}
    defaults = {name: value for name, value in content.items() if _V0_3_DEFAULTS.get(name) != value}
    if isinstance(schemes, dict):
        defaults["securitySchemes"] = {name: _without_type(each) for name, each in schemes.items()}
    seen = set[bytes]()
    for shown, signed in ((content, content), (without_0_3, without_0_3), (content, defaults)):
        for without_defaults, is_ascii in itertools.product(_without_defaults(signed), (False, True)):
            payload = _canonical(without_defaults, is_ascii=is_ascii)
            if payload not in seen:
                seen.add(payload)
                yield shown, payload


def _without_defaults(card: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a card without empty members: with what is false, without it, and with what is false of its capabilities.

    In 1.0 the capabilities may say false, and elsewhere false is the default."""
    plain, without_false = (_without_empty(card, drops_false=each) for each in (False, True))
    capabilities = card.get("capabilities")
    members = capabilities.items() if isinstance(capabilities, dict) else ()
    stated = {name: each for name, each in members if each is False}
    kept = {**without_false, "capabilities": {**without_false.get("capabilities", {}), **stated}} if stated else {}
    return [plain, without_false, *([kept] if kept else [])]


def _new_members(scheme: Any) -> Any:
    """Return a security scheme with its members of 1.0 only."""
    if not isinstance(scheme, dict):
        return scheme
    return {name: value for name, value in scheme.items() if name.endswith("SecurityScheme")}


def _without_type(scheme: Any) -> Any:
    return {name: value for name, value in scheme.items() if name != "type"} if isinstance(scheme, dict) else scheme


def _without_empty(value: Any, *, drops_false: bool) -> Any:
    """Return a value without empty members: they are defaults, which are not signed."""
    if isinstance(value, dict):
        kept = {name: _without_empty(each, drops_false=drops_false) for name, each in value.items()}
        return {name: each for name, each in kept.items() if not _is_empty(each, drops_false=drops_false)}
    if isinstance(value, list):
        items = [_without_empty(each, drops_false=drops_false) for each in value]
        return [each for each in items if not _is_empty(each, drops_false=False)]
    return value


def _is_empty(value: Any, *, drops_false: bool) -> bool:
    return value is None or value in ("", [], {}) or (drops_false and value is False)


def _canonical(value: Any, *, is_ascii: bool) -> bytes:
    return json.dumps(_sorted(value), separators=(",", ":"), ensure_ascii=is_ascii).encode("utf-8", "replace")


def _sorted(value: Any) -> Any:
    """Return a value with sorted names and whole numbers as RFC 8785 writes them."""
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value, key=lambda each: each.encode("utf-16-be"))}
    if isinstance(value, list):
        return [_sorted(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
