"""Urls that lead to where nobody allowed it, in every spelling we know. `{port}` is the port of the canary.

Some are plain, some are spelled so that two readers disagree about them. All are wanted to reach nobody.
"""

_PUBLIC_4 = "93.184.216.34"
PUBLIC = (_PUBLIC_4, "2606:2800:220:1::1946")
"""The addresses of honest servers in this small internet; every other address is the canary's."""

NAMES: dict[str, tuple[str, ...]] = {
    "public.example": PUBLIC,
    "localhost": ("127.0.0.1", "::1"),
    "localhost.localdomain": ("127.0.0.1",),
    "ip6-localhost": ("::1",),
    "router": ("192.168.1.1",),
    "metadata.example": ("169.254.169.254",),
    "loop.example": ("127.0.0.1",),
    "127.0.0.1.loop.example": ("127.0.0.1",),
    "six.example": ("::1",),
    "last-is-bad.example": (*PUBLIC, "127.0.0.1"),
    "first-is-bad.example": ("127.0.0.1", *PUBLIC),
    "mapped.example": ("::ffff:127.0.0.1",),
    "compatible.example": ("::127.0.0.1",),
    "nat64.example": ("64:ff9b::7f00:1",),
    "local-nat64.example": ("64:ff9b:1::7f00:1",),
    "6to4.example": ("2002:7f00:1::1",),
    "teredo.example": ("2001:0:4136:e378:8000:63bf:80ff:fffe",),
    "zone.example": ("fe80::1%lo",),
    "nothing.example": ("0.0.0.0",),
    "everybody.example": ("255.255.255.255",),
    "xn--bcher-kva.example": ("10.0.0.7",),
}
"""What the resolver knows; like a machine's own it also takes 127.1, 2130706433 and 0x7f000001 for addresses."""

_HOSTS = """
127.0.0.1 127.1 127.0.1 127.255.255.254 127.000.000.001 0177.0.0.1 0177.1 017700000001 00000177.0.0.01
0x7f000001 0x7f.1 0x7f.0.0.1 0X7F.0.0.1 0x7f.0x0.0x0.0x1 2130706433 4294967295 0 00 0x0 0.0.0.0 0.1
127.0.0.1. 127..0.0.1 .127.0.0.1 127.0.0.1.. 425.510.425.510 256.256.256.256 127.0.0.1.0 1.2.3
169.254.169.254 2852039166 0xa9fea9fe 0251.0376.0251.0376 169.254.43518
10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 100.64.0.1 192.0.0.8 192.0.0.170 192.0.2.1 192.88.99.1 198.18.0.1
198.51.100.1 203.0.113.9 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255 0.255.255.255
[::1] [0:0:0:0:0:0:0:1] [0000:0000:0000:0000:0000:0000:0000:0001] [::] [0::0] [::0.0.0.1]
[::ffff:127.0.0.1] [::ffff:7f00:1] [::FFFF:7F00:0001] [0:0:0:0:0:ffff:7f00:1] [::ffff:0.0.0.0] [::ffff:10.0.0.1]
[::127.0.0.1] [::7f00:1] [::ffff:0:127.0.0.1] [::ffff:169.254.169.254] [::a9fe:a9fe]
[64:ff9b::127.0.0.1] [64:ff9b::7f00:1] [64:ff9b::a9fe:a9fe] [64:ff9b:1::7f00:1] [64:ff9b:1:7f00:0:100::]
[2002:7f00:1::] [2002:7f00:1::1] [2002:a00:1::] [2002:5db8:d822::1]
[2001:0:7f00:1::] [2001:0:4136:e378:8000:63bf:80ff:fffe] [2001::1]
[fe80::1] [fe80::1%25lo] [fe80::1%lo] [::1%lo] [::1%25lo] [fe80::a9fe:a9fe] [fd00::1] [fd00:ec2::254] [fc00::1]
[fec0::1] [ff02::1] [ff0e::1] [100::1] [2001:db8::1] [3fff::1] [5f00::1] [4000::1]
[127.0.0.1] [::1].public.example [::1]x [[::1]] [::1 ::1 [::1%] [v1.127.0.0.1] [0x7f000001]
localhost LOCALHOST LocalHost localhost. localhost.localdomain ip6-localhost router metadata.example METADATA.example
loop.example 127.0.0.1.loop.example six.example last-is-bad.example first-is-bad.example mapped.example
compatible.example nat64.example local-nat64.example 6to4.example teredo.example zone.example nothing.example
everybody.example xn--bcher-kva.example unknown.example
public.example@127.0.0.1 public.example:80@127.0.0.1 public.example%40127.0.0.1 127.0.0.1%2f 127.0.0.1%23
%31%32%37.0.0.1 127%2e0%2e0%2e1 %6cocalhost local%68ost 127.0.0.1%00.public.example 127.0.0.1%20
public.example\\@127.0.0.1 127.0.0.1\\@public.example 127.0.0.1\\.public.example public.example#@127.0.0.1
public.example?@127.0.0.1 public.example/@127.0.0.1 @127.0.0.1 :@127.0.0.1 public.example:80:127.0.0.1
-localhost localhost- local_host* 127.0.0.1;public.example 127.0.0.1,public.example 127.0.0.1&public.example
$(localhost) `localhost` {{127.0.0.1}} <127.0.0.1> 127.0.0.1|x ^localhost 'localhost' "localhost"
""".split()

_HIDDEN = (
    *("１２７.0.0.1", "①②⑦.0.0.1", "127。0。0。1", "127．0．0．1", "127｡0｡0｡1", "ⓛocalhost", "ｌｏｃａｌｈｏｓｔ"),  # noqa: RUF001
    *("local\u00adhost", "local\u200bhost", "localhost\u2024", "loc\u0430lhost", "\u202elocalhost", "٠.0.0.0"),  # noqa: RUF001
    *("127.0.0.1\t", "\t127.0.0.1", "12\t7.0.0.1", "127.0.0.1\n", "127.0.0.1\r\nHost: x", "127.0.0.1\x00"),
    *(" 127.0.0.1", "127.0.0.1 ", "127.0.0.1\x7f", "local\x0bhost", "localhost\ud800", "bücher.example"),
)

_WHOLE = (
    *("http:127.0.0.1:{port}/", "http:/127.0.0.1:{port}/", "http:///127.0.0.1:{port}/", "//127.0.0.1:{port}/"),
    *("http:\\\\127.0.0.1:{port}\\", "http://\\127.0.0.1:{port}/", "127.0.0.1:{port}", "localhost:{port}/x", ""),
    *(
        " http://127.0.0.1:{port}/",
        "ht\ttp://127.0.0.1:{port}/",
        "http\n://127.0.0.1:{port}/",
        "http://",
        "http://:{port}",
    ),
    *("ftp://127.0.0.1:{port}/", "gopher://127.0.0.1:{port}/_x", "file:///etc/passwd", "ws://127.0.0.1:{port}/"),
    *(
        "unix:/run/docker.sock",
        "dict://127.0.0.1:{port}/",
        "javascript:alert(1)",
        "data:text/plain,x",
        "url:http://::1",
    ),
    *("http://127.0.0.1:{port}:80/", "http://127.0.0.1:0/", "http://127.0.0.1:65536/", "http://127.0.0.1:-1/"),
    *("http://127.0.0.1:{port}abc/", "http://127.0.0.1:/", "http://127.0.0.1:0000{port}/", "http://localhost:0x50/"),
    *(
        "http://public.example:\uff18\uff10/",
        "https://127.0.0.1:{port}/ok#frag",
        "http://127.0.0.1:{port}/a b",
        "http://[::1",
    ),
)

SPELLINGS: tuple[str, ...] = (
    *(f"{scheme}://{host}:{{port}}/hook" for scheme in ("http", "https") for host in (*_HOSTS, *_HIDDEN)),
    *_WHOLE,
)


def spelled(port: int) -> list[str]:
    """All of them, leading to a port."""
    return [text.replace("{port}", str(port)) for text in SPELLINGS]
