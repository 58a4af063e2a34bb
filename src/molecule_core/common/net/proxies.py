"""Chooses the proxy for a server's address from the environment, as curl does. Imports little: a hook uses it.

HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY, in capitals or not. Never for loopback: that is this machine.
"""

import os
from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from urllib.parse import SplitResult, urlsplit

_HTTP_SCHEMES = ("http", "https")


def proxy_for(url: str, environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the address of the proxy for requests to a URL; None for a direct connection.

    Proxies that do not speak HTTP (SOCKS) are not supported: they are passed over."""
    try:
        parts = urlsplit(url)
    except ValueError:  # no address: the request itself says so
        return None
    host = (parts.hostname or "").lower()
    if not host or _is_loopback(host) or _is_excepted(parts, host, _variable(environ, "no_proxy")):
        return None
    proxy = _variable(environ, f"{parts.scheme}_proxy") or _variable(environ, "all_proxy")
    proxy = proxy if "://" in proxy or not proxy else f"http://{proxy}"
    return proxy if urlsplit(proxy).scheme in _HTTP_SCHEMES else None


def _variable(environ: Mapping[str, str], name: str) -> str:
    return (environ.get(name) or environ.get(name.upper()) or "").strip()


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _is_excepted(parts: SplitResult, host: str, exceptions: str) -> bool:
    return any(_matches(parts, host, each.lower()) for each in exceptions.replace(",", " ").split())


def _matches(parts: SplitResult, host: str, pattern: str) -> bool:
    """Return whether a host is the pattern, below it, or in its network; a pattern may name a port."""
    if pattern == "*":
        return True
    if "/" in pattern:
        return _is_in_network(host, pattern)
    name, _, port = pattern.rpartition(":") if pattern.count(":") == 1 else (pattern, "", "")
    if port and port != str(parts.port or {"http": 80, "https": 443}.get(parts.scheme)):
        return False
    name = name.strip("[]").removeprefix("*").removeprefix(".")
    return bool(name) and (host == name or host.endswith(f".{name}"))


def _is_in_network(host: str, pattern: str) -> bool:
    try:
        return ip_address(host) in ip_network(pattern, strict=False)
    except ValueError:
        return False
