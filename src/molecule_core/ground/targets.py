"""A url that somebody else wrote, read strictly: one spelling for each place, and everything else is refused.

Libraries disagree about odd urls; what is refused here reaches none of them.
"""

import ipaddress
import re
from typing import NoReturn

from msgspec import Struct

from molecule_core.ground.addresses import Address
from molecule_core.ground.errors import UnsafeUrl

_DEFAULT_PORTS = {"http": 80, "https": 443}
# One label of a name. The underscore is no letter of the standard, but networks of containers use it.
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_TARGET = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/?\[\]-]|%[0-9A-Fa-f]{2})*")
_LONGEST_NAME = 253


class Target(Struct, frozen=True):
    """Where a url leads. `host` is a name in lower case, or an address as it is written without brackets."""

    scheme: str
    host: str
    port: int
    path: str
    """With its query, as it stands in the first line of a request."""
    address: Address | None
    """Set if the host is an address and no name."""

    @property
    def is_https(self) -> bool:
        """Whether the connection is encrypted and the other side proves its name."""
        return self.scheme == "https"

    @property
    def authority(self) -> str:
        """The value of the header Host."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"


def read_url(url: str, most: int) -> Target:
    """The parts of a url of at most so many characters. Raises UnsafeUrl, which repeats nothing of it but the host."""
    if len(url) > most:
        _refuse(f"it has {len(url)} characters; at most {most} are taken")
    if not (url.isascii() and url.isprintable()) or " " in url:
        _refuse("it holds a space, a control character or one outside ASCII; write names as xn--…, the rest as %…")
    scheme, found, rest = url.partition("://")
    scheme = scheme.lower()
    if not found or scheme not in _DEFAULT_PORTS:
        _refuse("it must begin with https:// or http://")
    authority = re.split("[/?#]", rest, maxsplit=1)[0]
    host, port = _host_and_port(authority, _DEFAULT_PORTS[scheme])
    name, address = _host(host)
    return Target(scheme, name, port, _path(rest[len(authority) :]), address)


def _refuse(reason: str) -> NoReturn:
    raise UnsafeUrl(reason=reason)


def _host_and_port(authority: str, default: int) -> tuple[str, int]:
    if "@" in authority:
        _refuse("it holds a user name or password (before an @); leave them out")
    parts = re.fullmatch(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::([0-9]{1,5}))?", authority)
    if parts is None:
        _refuse("its host and port cannot be understood; write them as host:8080 or [2001:…]:8080")
    port = int(parts[2]) if parts[2] else default
    if not 1 <= port <= 65535:
        _refuse("its port must be a number from 1 to 65535")
    return parts[1].lower(), port


def _host(host: str) -> tuple[str, Address | None]:
    if host.startswith("["):
        address = _address_6(host[1:-1])
        return str(address), address
    labels = host.split(".")
    if _NUMBER.fullmatch(labels[-1]):  # an address then, by the standard of browsers, and not the name of anything
        address_4 = _address_4(host)
        return host, address_4
    if len(host) > _LONGEST_NAME or not all(map(_LABEL.fullmatch, labels)):
        _refuse("its host is neither a plain name nor an address; a name ends without a dot")
    return host, None


def _address_4(host: str) -> ipaddress.IPv4Address:
    try:
        return ipaddress.IPv4Address(host)
    except ValueError:
        _refuse("its host is a number, but no IPv4 address; write four decimal numbers as 192.0.2.1")


def _address_6(text: str) -> ipaddress.IPv6Address:
    try:
        if "%" in text:  # a zone is of this machine alone
            raise ValueError
        return ipaddress.IPv6Address(text)
    except ValueError:
        _refuse("what stands in brackets is no IPv6 address; write it without a zone")


def _path(text: str) -> str:
    if "#" in text:
        _refuse("it holds a fragment (behind a #); leave it out")
    if not _TARGET.fullmatch(text):
        _refuse("its path or query holds a character that must be percent-encoded")
    return text if text.startswith("/") else "/" + text
