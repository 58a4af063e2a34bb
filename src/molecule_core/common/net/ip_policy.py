"""Which internet addresses the server may be led to by a url that somebody else wrote.

The tables are our own: what `ipaddress` calls global differs between the Pythons we run on, and leaves holes (NAT64,
6to4, IPv4-compatible, multicast).
"""

import ipaddress
from collections.abc import Iterable

from msgspec import Struct

from molecule_core.common.errors import BadSettings

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# What is set aside in 0.0.0.0/0, by IANA's registry of special addresses; a comment where that alone is not the reason.
_RESERVED_IPV4 = tuple(
    ipaddress.IPv4Network(text)
    for text in (
        "0.0.0.0/8",  # Linux takes 0.0.0.0 as itself
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",  # clouds give credentials away at 169.254.169.254
        "172.16.0.0/12",
        "192.0.0.0/24",  # two addresses of it are global, but no agent lives there
        "192.0.2.0/24",
        "192.31.196.0/24",  # AS112 and AMT, here and below: anycast services, no agents
        "192.52.193.0/24",
        "192.88.99.0/24",  # relays of 6to4
        "192.168.0.0/16",
        "192.175.48.0/24",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
)

# All of IPv6 that has been given out for single hosts lies here; everything outside is refused unseen.
_UNICAST_IPV6 = ipaddress.IPv6Network("2000::/3")
_RESERVED_IPV6 = tuple(
    ipaddress.IPv6Network(text)
    for text in (
        "2001::/23",  # Teredo (an IPv4 address inside), ORCHID, benchmarks
        "2001:db8::/32",
        "2002::/16",  # 6to4: an IPv4 address inside
        "2620:4f:8000::/48",
        "3fff::/20",
    )
)
# The IPv4 address inside is what is really reached, and resolvers of IPv6-only networks give out just these.
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")

# A network any wider holds more than somebody's own machines, the cloud's credentials among them.
_MIN_PREFIX_LENGTH = {4: 8, 6: 7}


class NetPolicy(Struct, frozen=True):
    """What the operator allows beside public addresses."""

    networks: tuple[Network, ...] = ()

    @classmethod
    def from_networks(cls, networks: Iterable[str]) -> "NetPolicy":
        """The policy for the setting push_networks. Raises BadSettings, which names the network that is wrong."""
        return cls(tuple(_parse_network(text) for text in networks))

    def is_listed(self, address: Address) -> bool:
        """Whether the operator has listed the address, by one of its networks."""
        unwrapped_address = unwrap_mapped_ipv4(address)
        return any(unwrapped_address in network for network in self.networks)

    def allows(self, address: Address) -> bool:
        """Whether a url may lead there at all."""
        return is_public(address) or self.is_listed(address)


def _parse_network(text: str) -> Network:
    try:
        network = ipaddress.ip_network(text)
    except ValueError as error:
        raise BadSettings(reason=f"push_networks: {error}; write a network as 10.20.0.0/16") from None
    if network.prefixlen < _MIN_PREFIX_LENGTH[network.version]:
        raise BadSettings(reason=f"push_networks: {text} is too wide; list only the networks that your agents are in")
    return network


def unwrap_mapped_ipv4(address: Address) -> Address:
    """The same address as IPv4 if it is only written as IPv6 (::ffff:127.0.0.1), else itself."""
    return getattr(address, "ipv4_mapped", None) or address


def is_public(address: Address) -> bool:
    """Whether an address is public and of one host; the same on every Python."""
    unwrapped_address = unwrap_mapped_ipv4(address)
    if isinstance(unwrapped_address, ipaddress.IPv4Address):
        return not any(unwrapped_address in network for network in _RESERVED_IPV4)
    if unwrapped_address in _NAT64:
        return is_public(ipaddress.IPv4Address(int(unwrapped_address) & 0xFFFF_FFFF))  # control: nat64-address
    return unwrapped_address in _UNICAST_IPV6 and not any(unwrapped_address in network for network in _RESERVED_IPV6)
