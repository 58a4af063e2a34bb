"""Decides which addresses the server may connect to for a url from outside.

The tables are our own: what `ipaddress` calls global differs between Python versions and has gaps (NAT64, 6to4,
IPv4-compatible, multicast).
"""

import ipaddress
from collections.abc import Iterable

from msgspec import Struct

from molecule_core.common.errors import BadSettings

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# Reserved by IANA's registry of special addresses; a comment names any further reason.
_RESERVED_IPV4 = tuple(
    ipaddress.IPv4Network(text)
    for text in (
        "0.0.0.0/8",  # Linux connects 0.0.0.0 to itself
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",  # clouds serve credentials at 169.254.169.254
        "172.16.0.0/12",
        "192.0.0.0/24",  # two addresses of it are global, but run no agents
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

# All of IPv6 allocated to single hosts; everything outside is rejected.
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
# The embedded IPv4 address is the real target, and resolvers of IPv6-only networks return these.
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")

# A wider network would include more than the operator's own machines, such as the cloud's credential service.
_MIN_PREFIX_LENGTH = {4: 8, 6: 7}


class NetPolicy(Struct, frozen=True):
    """Networks that the operator allows besides public addresses."""

    networks: tuple[Network, ...] = ()

    @classmethod
    def from_networks(cls, networks: Iterable[str]) -> "NetPolicy":
        """Parse the setting push_networks. Raises BadSettings, which names the invalid network."""
        return cls(tuple(_parse_network(text) for text in networks))

    def is_listed(self, address: Address) -> bool:
        """Return whether one of the operator's networks contains the address."""
        unwrapped_address = unwrap_mapped_ipv4(address)
        return any(unwrapped_address in network for network in self.networks)

    def allows(self, address: Address) -> bool:
        """Return whether a url may lead to the address."""
        return is_public(address) or self.is_listed(address)


def _parse_network(text: str) -> Network:
    try:
        network = ipaddress.ip_network(text)
    except ValueError as error:
        raise BadSettings(reason=f"push_networks: {error}. Write a network as 10.20.0.0/16.") from None
    if network.prefixlen < _MIN_PREFIX_LENGTH[network.version]:
        raise BadSettings(reason=f"push_networks: {text} is too wide. List only the networks that your agents are in.")
    return network


def unwrap_mapped_ipv4(address: Address) -> Address:
    """Return the IPv4 address of a mapped one (::ffff:127.0.0.1), else the address itself."""
    return getattr(address, "ipv4_mapped", None) or address


def is_public(address: Address) -> bool:
    """Return whether an address is public and unicast; the same on every Python."""
    unwrapped_address = unwrap_mapped_ipv4(address)
    if isinstance(unwrapped_address, ipaddress.IPv4Address):
        return not any(unwrapped_address in network for network in _RESERVED_IPV4)
    if unwrapped_address in _NAT64:
        return is_public(ipaddress.IPv4Address(int(unwrapped_address) & 0xFFFF_FFFF))  # control: nat64-address
    return unwrapped_address in _UNICAST_IPV6 and not any(unwrapped_address in network for network in _RESERVED_IPV6)
