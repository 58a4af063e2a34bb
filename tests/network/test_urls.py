"""A url is read in one way or not at all."""

import pytest

from molecule_core.common.errors import UnsafeUrl
from molecule_core.common.net.parsed_url import parse_url
from tests.requirements import requirement

MOST = 2048


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("https://hook.example", ("https", "hook.example", 443, "/", "hook.example")),
        ("HTTPS://Hook.Example/", ("https", "hook.example", 443, "/", "hook.example")),
        ("http://hook.example/a/b?c=d&e=%20", ("http", "hook.example", 80, "/a/b?c=d&e=%20", "hook.example")),
        ("https://hook.example:8443/A", ("https", "hook.example", 8443, "/A", "hook.example:8443")),
        ("https://hook.example:443", ("https", "hook.example", 443, "/", "hook.example")),
        ("http://hook.example:443", ("http", "hook.example", 443, "/", "hook.example:443")),
        ("https://hook.example?q", ("https", "hook.example", 443, "/?q", "hook.example")),
        ("http://agent_1:9000/x@y", ("http", "agent_1", 9000, "/x@y", "agent_1:9000")),
        ("https://xn--bcher-kva.example/", ("https", "xn--bcher-kva.example", 443, "/", "xn--bcher-kva.example")),
        ("http://192.0.2.1:1/", ("http", "192.0.2.1", 1, "/", "192.0.2.1:1")),
        ("http://[2001:DB8:0:0::1]:65535/", ("http", "2001:db8::1", 65535, "/", "[2001:db8::1]:65535")),
        ("https://1.2.3.4.example/", ("https", "1.2.3.4.example", 443, "/", "1.2.3.4.example")),
    ],
)
def test_a_plain_url_is_read_into_its_parts(url: str, parts: tuple[str, str, int, str, str]) -> None:
    target = parse_url(url, MOST)
    assert (target.scheme, target.host, target.port, target.path, target.authority) == parts


@requirement("S6")
@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("ftp://hook.example/", "https:// or http://"),
        ("hook.example", "https:// or http://"),
        ("https:hook.example", "https:// or http://"),
        ("https://user@hook.example/", "user name or password"),
        ("https://user:secret@hook.example/", "user name or password"),
        ("https://hook.example/#part", "fragment"),
        ("https://hook.example#part", "fragment"),
        ("https://hook.example:0/", "from 1 to 65535"),
        ("https://hook.example:65536/", "from 1 to 65535"),
        ("https://hook.example:/", "host and port"),
        ("https://hook.example:+80/", "host and port"),
        ("https://hook.example:080000/", "host and port"),
        ("https://::1/", "host and port"),
        ("https://[::1/", "host and port"),
        ("https://[::1%25eth0]/", "without a zone"),
        ("https://[v7.x]/", "not an IPv6 address"),
        ("https://127.1/", "not an IPv4 address"),
        ("https://0x7f000001/", "not an IPv4 address"),
        ("https://0177.0.0.1/", "not an IPv4 address"),
        ("https://2130706433/", "not an IPv4 address"),
        ("https://hook.example./", "without a dot at the end"),
        ("https://hook..example/", "neither a valid name"),
        ("https://-hook.example/", "neither a valid name"),
        ("https://hook%2eexample/", "neither a valid name"),
        ("https://" + "a" * 64 + ".example/", "neither a valid name"),
        ("https://" + "a." * 127 + "example/", "neither a valid name"),
        ("https:///path", "neither a valid name"),
        ("https://bücher.example/", "xn--"),
        ("https://hook.example/ü", "xn--"),
        ("https://hook.example/a b", "space"),
        ("https://hook.example/\r\nX: y", "control"),
        ("https://hook.example/\\x", "Encode the character as %…"),
        ("https://hook.example/%zz", "Encode the character as %…"),
        ("https://hook.example/<x>", "Encode the character as %…"),
        ("https://hook.example/" + "a" * 2048, "at most 2048"),
    ],
)
def test_any_other_url_is_refused_with_words_that_help(url: str, word: str) -> None:
    with pytest.raises(UnsafeUrl, match="the server cannot use this url: ") as caught:
        parse_url(url, MOST)
    assert word in caught.value.text
    assert "secret" not in caught.value.text
