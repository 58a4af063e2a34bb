"""Strict parser of urls from outside: one spelling for each target, everything else is rejected.

Libraries disagree about unusual urls; a url rejected here reaches none of them.
"""

import ipaddress
import re
from typing import NoReturn

from msgspec import Struct

from molecule_core.common.errors import UnsafeUrl
from molecule_core.common.net.ip_policy import Address

_DEFAULT_PORTS = {"http": 80, "https": 443}
# One label of a name. The underscore is outside the standard, but container networks use it.
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMERIC_LABEL = re.compile(r"[0-9]+|0x[0-9a-f]*")
_REQUEST_TARGET = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/?\[\]-]|%[0-9A-Fa-f]{2})*")
_MAX_HOST_LENGTH = 253


class ParsedUrl(Struct, frozen=True):
    """Target of a url. `host` is a name in lower case, or an address without brackets."""

    scheme: str
    host: str
    port: int
    path: str
    """With its query, as in the request line."""
    address: Address | None
    """None if the host is a name."""

    @property
    def is_https(self) -> bool:
        """Return whether the connection is encrypted and the server authenticated."""
        return self.scheme == "https"

    @property
    def authority(self) -> str:
        """Return the value of the header Host."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"


def parse_url(url: str, max_length: int) -> ParsedUrl:
    """Parse a url of at most `max_length` characters.

    Raises UnsafeUrl, whose text repeats no part of the url but the host."""
    if len(url) > max_length:
        _reject(f"it has {len(url)} characters", f"Use at most {max_length}.")
    if not (url.isascii() and url.isprintable()) or " " in url:
        _reject(
            "it has a space, a control character or a character outside ASCII", "Encode names as xn--…, the rest as %…."
        )
    scheme, found, rest = url.partition("://")
    scheme = scheme.lower()
    if not found or scheme not in _DEFAULT_PORTS:
        _reject("it must begin with https:// or http://", "Add the scheme.")
    authority = re.split("[/?#]", rest, maxsplit=1)[0]
    host, port = _split_host_and_port(authority, _DEFAULT_PORTS[scheme])
    name, address = _parse_host(host)
    return ParsedUrl(scheme, name, port, _parse_path(rest[len(authority) :]), address)


def _reject(reason: str, advice: str) -> NoReturn:
    raise UnsafeUrl(reason=reason, advice=advice)


def _split_host_and_port(authority: str, default: int) -> tuple[str, int]:
    if "@" in authority:
        _reject("it has a user name or password (before an @)", "Remove them.")
    parts = re.fullmatch(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::([0-9]{1,5}))?", authority)
    if parts is None:
        _reject("its host and port are not valid", "Write them as host:8080 or [2001:…]:8080.")
    port = int(parts[2]) if parts[2] else default
    if not 1 <= port <= 65535:
        _reject(f"its port cannot be {port}", "Use a port from 1 to 65535.")
    return parts[1].lower(), port


def _parse_host(host: str) -> tuple[str, Address | None]:
    if host.startswith("["):
        address = _parse_ipv6(host[1:-1])
        return str(address), address
    labels = host.split(".")
    if _NUMERIC_LABEL.fullmatch(labels[-1]):  # the URL standard of browsers parses it as an address
        address_4 = _parse_ipv4(host)
        return host, address_4
    if len(host) > _MAX_HOST_LENGTH or not all(map(_LABEL.fullmatch, labels)):
        _reject("its host is neither a valid name nor an address", "Write a name without a dot at the end.")
    return host, None


def _parse_ipv4(host: str) -> ipaddress.IPv4Address:
    try:
        return ipaddress.IPv4Address(host)
    except ValueError:
        _reject("its host is a number, but not an IPv4 address", "Write four decimal numbers as 192.0.2.1.")


def _parse_ipv6(text: str) -> ipaddress.IPv6Address:
    try:
        if "%" in text:  # a zone is valid on one machine only
            raise ValueError
        return ipaddress.IPv6Address(text)
    except ValueError:
        _reject("its host in brackets is not an IPv6 address", "Write the address without a zone.")


def _parse_path(text: str) -> str:
    if "#" in text:
        _reject("it has a fragment (after a #)", "Remove the fragment.")
    if not _REQUEST_TARGET.fullmatch(text):
        _reject("its path or query has a character that is not allowed", "Encode the character as %….")
    return text if text.startswith("/") else "/" + text
