"""The client's address, as the header of a trusted proxy names it."""

import pytest

from molecule_core.common.errors import BadSettings
from molecule_core.common.net.trusted_proxies import TrustedProxies
from tests.requirements import requirement

PROXIES = TrustedProxies.from_networks(("127.0.0.0/8", "::1", "10.0.0.0/8"))


@requirement("S22")
@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("127.0.0.1", "203.0.113.9", "203.0.113.9"),
        ("127.0.0.1", "1.1.1.1, 203.0.113.9", "203.0.113.9"),
        ("127.0.0.1", "1.1.1.1, 203.0.113.9, 10.1.1.1", "203.0.113.9"),
        ("::ffff:127.0.0.1", "203.0.113.9", "203.0.113.9"),
        ("127.0.0.1", "203.0.113.9:4711", "203.0.113.9"),
        ("::1", "[2001:db8::1]:4711", "2001:db8::1"),
        ("127.0.0.1", "10.1.1.1", "10.1.1.1"),
        ("127.0.0.1", "", "127.0.0.1"),
        ("127.0.0.1", "unknown", "127.0.0.1"),
        ("127.0.0.1", "1.1.1.1, nonsense", "127.0.0.1"),
        ("127.0.0.1", "nonsense, 10.1.1.1", "10.1.1.1"),
        ("203.0.113.1", "203.0.113.9", "203.0.113.1"),
        ("", "203.0.113.9", ""),
    ],
)
def test_the_last_address_that_no_trusted_proxy_has_is_the_client(peer: str, forwarded: str, client: str) -> None:
    assert PROXIES.find_client(peer, forwarded) == client


@pytest.mark.parametrize("network", ["localhost", "10.0.0.0/33", "10.0.0.1/8", ""])
def test_a_network_that_is_none_is_named(network: str) -> None:
    with pytest.raises(BadSettings, match="trusted_proxies"):
        TrustedProxies.from_networks((network,))
