"""Rules of OAuth: redirect addresses, proof keys, scopes. Pure functions."""

import base64
import hashlib
import hmac
import re
from collections.abc import Iterable
from urllib.parse import SplitResult, urlsplit

READ_SCOPE, ACT_SCOPE = "molecule:read", "molecule:act"
"""What a grant may hold: to read as the workspace, and to act as it too. To act includes to read."""
SCOPES = (READ_SCOPE, ACT_SCOPE)
MAX_REDIRECT_LENGTH = 1000
_LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1")
# Schemes that run or show something instead of opening an app, and those of files.
_FORBIDDEN_SCHEMES = frozenset(
    ("javascript", "data", "vbscript", "file", "blob", "about", "filesystem", "view-source", "ftp", "ws", "wss")
)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*")
# Nothing that could end a directive of the content security policy, in which the page for consent names the host.
_HOST = re.compile(r"([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?")
_PRINTABLE = re.compile(r"[\x21-\x7e]+")
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
_VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")
_UNSAFE_CHARACTERS = frozenset("\"'<>\\^`{|}")


class GrantRefused(Exception):
    """Request of an OAuth client that is refused with an error code of the protocol, and a reason for developers."""

    def __init__(self, error: str, reason: str) -> None:
        self.error = error
        self.reason = reason
        super().__init__(reason)


def is_valid_redirect(uri: str) -> bool:
    """Return whether a client may register an address: https, http of its own machine, or a scheme of an app."""
    if len(uri) > MAX_REDIRECT_LENGTH or not _PRINTABLE.fullmatch(uri) or "#" in uri or _UNSAFE_CHARACTERS & set(uri):
        return False
    parts = _split(uri)
    if parts is None or parts.username is not None or parts.password is not None:
        return False
    if parts.scheme in ("https", "http"):
        is_host = _HOST.fullmatch(parts.netloc) is not None
        return is_host and (parts.scheme == "https" or is_loopback(uri))
    return _SCHEME.fullmatch(parts.scheme) is not None and parts.scheme not in _FORBIDDEN_SCHEMES


def is_loopback(uri: str) -> bool:
    """Return whether an address is of a program on the machine of the browser."""
    parts = _split(uri)
    return parts is not None and parts.scheme == "http" and parts.hostname in _LOOPBACK_HOSTS


def is_registered_redirect(uri: str, registered: Iterable[str]) -> bool:
    """Return whether an address is one of those registered, character by character.

    The port of a program on the machine of the browser may differ, since it is free only while it waits (RFC 8252)."""
    return is_valid_redirect(uri) and any(
        each == uri or (is_loopback(uri) and is_loopback(each) and _without_port(each) == _without_port(uri))
        for each in registered
    )


def _split(uri: str) -> SplitResult | None:
    try:
        parts = urlsplit(uri)
        return parts if parts.port is None or parts.port else None
    except ValueError:
        return None


def _without_port(uri: str) -> tuple[str, str | None, str, str]:
    parts = urlsplit(uri)
    return parts.scheme, parts.hostname, parts.path, parts.query


def is_valid_challenge(challenge: str) -> bool:
    """Return whether a text can be a challenge of the method S256."""
    return _CHALLENGE.fullmatch(challenge) is not None


def is_proven(challenge: str, verifier: str) -> bool:
    """Return whether a verifier proves that its client made the request with this challenge (RFC 7636, S256)."""
    if _VERIFIER.fullmatch(verifier) is None:
        return False
    digest = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
    return hmac.compare_digest(digest, challenge)


def requested_scope(text: str) -> str:
    """Return the known scopes of a request; all of them if it names none. Raises GrantRefused for unknown ones only."""
    named = text.split()
    if not named or ACT_SCOPE in named:
        return " ".join(SCOPES)
    if READ_SCOPE in named:
        return READ_SCOPE
    raise GrantRefused("invalid_scope", f"the server knows only these scopes: {', '.join(SCOPES)}")
