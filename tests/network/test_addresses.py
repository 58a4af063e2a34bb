"""Which addresses are public, by tables of our own: the same on every Python."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_core.common.errors import BadSettings
from molecule_core.common.net.ip_policy import NetPolicy, is_public, unwrap_mapped_ipv4
from tests.requirements import requirement

NOT_PUBLIC = """
0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.127.255.255 127.0.0.1 127.255.255.255 169.254.169.254
172.16.0.0 172.31.255.255 192.0.0.1 192.0.0.8 192.0.0.9 192.0.0.170 192.0.2.1 192.88.99.1 192.168.0.1 198.18.0.1
198.19.255.255 198.51.100.7 203.0.113.255 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255
:: ::1 ::127.0.0.1 ::8.8.8.8 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:0:8.8.8.8 64:ff9b::127.0.0.1 64:ff9b::10.0.0.1
64:ff9b::a9fe:a9fe 64:ff9b:1::8.8.8.8 64:ff9b:1:808:8:800:: 100::1 100:0:0:1::1 2001::1
2001:0:4136:e378:8000:63bf:80ff:fffe 2001:2::1 2001:10::1 2001:20::1 2001:1::1 2001:db8::1 2002:7f00:1::
2002:808:808:: 2620:4f:8000::1 3fff::1 4000::1 5f00::1 fc00::1 fd00:ec2::254 fe80::1 fe80::1%eth0 fec0::1 ff02::1
ff0e::1
""".split()

PUBLIC = """
1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 93.184.216.34 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0
169.253.255.255 172.15.255.255 172.32.0.0 192.167.255.255 192.169.0.0 198.17.255.255 198.20.0.0 223.255.255.255
::ffff:8.8.8.8 64:ff9b::8.8.8.8 2001:200::1 2001:4860:4860::8888 2003::1 2606:2800:220:1::1946 2a00:1450::1
""".split()


@requirement("S6")
@pytest.mark.parametrize("text", NOT_PUBLIC)
def test_an_address_that_is_set_aside_is_not_public(text: str) -> None:
    assert not is_public(ipaddress.ip_address(text))


@pytest.mark.parametrize("text", PUBLIC)
def test_an_address_of_a_host_on_the_internet_is_public(text: str) -> None:
    assert is_public(ipaddress.ip_address(text))


@requirement("S6")
@given(st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)))
def test_what_we_call_public_no_python_calls_private(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    if is_public(address):
        plain = unwrap_mapped_ipv4(address)
        assert plain.is_global and not plain.is_multicast


@requirement("S6")
@given(st.ip_addresses(v=4))
def test_an_ipv4_address_within_ipv6_is_never_more_public_than_by_itself(inner: ipaddress.IPv4Address) -> None:
    number, alone = int(inner), is_public(inner)
    for prefix, shift in (("::ffff:0:0", 0), ("64:ff9b::", 0)):
        assert is_public(ipaddress.IPv6Address(int(ipaddress.IPv6Address(prefix)) | number << shift)) == alone
    for prefix, shift in (("::", 0), ("::ffff:0:0:0", 0), ("64:ff9b:1::", 0), ("2002::", 80), ("2001::", 64)):
        assert not is_public(ipaddress.IPv6Address(int(ipaddress.IPv6Address(prefix)) | number << shift))


def test_the_operator_lists_networks_and_only_those_are_allowed_beside_public_ones() -> None:
    policy = NetPolicy.from_networks(["10.1.0.0/16", "fd00:1::/32", "127.0.0.1/32"])
    allowed = ("10.1.2.3", "::ffff:10.1.2.3", "fd00:1::5", "127.0.0.1", "8.8.8.8")
    refused = ("10.2.0.1", "fd00:2::5", "127.0.0.2", "::1", "::127.0.0.1", "64:ff9b::10.1.2.3", "2002:a01:203::")
    assert all(policy.allows(ipaddress.ip_address(text)) for text in allowed)
    assert not any(policy.allows(ipaddress.ip_address(text)) for text in refused)
    assert not NetPolicy.from_networks(["::ffff:0:0/96"]).allows(ipaddress.ip_address("::ffff:127.0.0.1"))


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("10.0.0.1/8", "10.0.0.1/8 has host bits set"),
        ("example.org", "'example.org' does not appear to be"),
        ("0.0.0.0/0", "0.0.0.0/0 is too wide"),
        ("128.0.0.0/1", "too wide"),
        ("::/0", "::/0 is too wide"),
        ("", "Write a network as"),
    ],
)
def test_a_network_that_is_none_or_too_wide_is_refused_and_named(text: str, named: str) -> None:
    with pytest.raises(BadSettings, match=f"push_networks: .*{named}|push_networks: {named}"):
        NetPolicy.from_networks([text])
