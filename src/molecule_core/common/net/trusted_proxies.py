"""Client addresses behind proxies: which peers may name them, and how the header X-Forwarded-For is read."""

import ipaddress
from collections.abc import Iterable
from functools import lru_cache

from molecule_core.common.errors import BadSettings

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_MAX_CACHED = 4096


class TrustedProxies:
    """Networks of proxies that are trusted to name the client of a request."""

    def __init__(self, networks: tuple[Network, ...]) -> None:
        self._networks = networks
        self.includes = lru_cache(_MAX_CACHED)(self._includes)
        """Return whether the address in a text is that of a proxy; False for any other text."""

    @classmethod
    def from_networks(cls, texts: Iterable[str]) -> "TrustedProxies":
        """Parse the setting trusted_proxies. Raises BadSettings, which names the invalid network."""
        networks: list[Network] = []
        for text in texts:
            try:
                networks.append(ipaddress.ip_network(text))
            except ValueError as error:
                raise BadSettings(reason=f"trusted_proxies: {error}. Write a network as 10.20.0.0/16.") from None
        return cls(tuple(networks))

    def _includes(self, text: str) -> bool:
        address = parse_address(text)
        return address is not None and any(address in each for each in self._networks)

    def find_client(self, peer: str, forwarded: str) -> str:
        """Return the address of the client: the last one in X-Forwarded-For that is not a trusted proxy's.

        Each proxy appends the address that it got the request from, so what is further left may be invented. `peer`,
        the address of the connection, is the client if it is no trusted proxy, or if the header has no address."""
        client = peer
        for text in reversed(forwarded.split(",")):
            if not self.includes(client):
                break
            address = parse_address(text)
            if address is None:
                break
            client = str(address)
        return client


def parse_address(text: str) -> Address | None:
    """Return the address in a text, also with a port (`1.2.3.4:5`, `[::1]:5`) or a zone; None if there is none."""
    bare = text.strip()
    if bare.startswith("["):
        bare = bare[1:].partition("]")[0]
    elif bare.count(":") == 1:
        bare = bare.partition(":")[0]
    try:
        address = ipaddress.ip_address(bare.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
