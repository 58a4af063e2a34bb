"""Whatever is spelled how: the server comes to no address that is not public or allowed."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from molecule_core.common.errors import FetchFailed, UnsafeUrl
from molecule_core.common.limits import Limits
from molecule_core.common.net.ip_policy import NetPolicy
from molecule_core.common.net.safe_fetch import SafeFetcher
from testing.forbidden_urls import NAMES, PUBLIC, SPELLINGS, spelled
from testing.loopback_internet import OK, Internet, answer, internet
from tests.requirements import requirement

Sink = Callable[[SafeFetcher, str], Awaitable[object]]
SINKS: dict[str, Sink] = {
    "post": lambda fetcher, url: fetcher.post(url, {}, b"{}", timeout_seconds=5, max_bytes=100),
    "get": lambda fetcher, url: fetcher.get(url, {}, timeout_seconds=5, max_bytes=100),
    "stream": lambda fetcher, url: fetcher.open_stream(url, {}, b"{}", idle_seconds=5, max_bytes=100),
    "check": lambda fetcher, url: fetcher.check_url(url),
}


async def _refusals(fetcher: SafeFetcher, sink: Sink, urls: list[str]) -> list[str]:
    """The urls that were not refused."""
    passed = []
    for url in urls:
        try:
            await sink(fetcher, url)
        except (UnsafeUrl, FetchFailed):
            continue
        passed.append(url)
    return passed


@requirement("S6")
@pytest.mark.parametrize("sink", SINKS)
async def test_no_spelling_leads_to_the_canary(net: Internet, sink: str) -> None:
    assert len(set(SPELLINGS)) >= 400
    passed = await _refusals(net.fetcher(), SINKS[sink], spelled(net.canary.port))

    assert net.canary.hits == 0
    assert set(net.reached) <= set(PUBLIC)
    # Two of them are honest: an @ behind the first / or ? belongs to the path.
    honest = [f"https://public.example{mark}@127.0.0.1:{net.canary.port}/hook" for mark in "?/"]
    assert sorted(passed) == (sorted(honest) if sink == "check" else [])


@requirement("S6")
async def test_a_spelling_is_resolved_at_most_once_and_never_if_it_is_refused_before(net: Internet) -> None:
    for url in spelled(net.canary.port):
        before = net.lookups.total()
        await _refusals(net.fetcher(), SINKS["post"], [url])
        assert net.lookups.total() - before <= 1, url
    assert net.lookups.keys() <= {*NAMES, "unknown.example"}


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "[::1]", "localhost", "[::ffff:127.0.0.1]", "mapped.example", "loop.example", "six.example"]
)
@pytest.mark.parametrize("sink", ["post", "get"])
async def test_the_canary_can_be_reached_once_the_operator_lists_loopback(net: Internet, host: str, sink: str) -> None:
    fetcher = net.fetcher("127.0.0.0/8", "::1/128")
    await SINKS["check"](fetcher, f"http://{host}:{net.canary.port}/hook")
    assert net.canary.hits == 0
    await SINKS[sink](fetcher, f"http://{host}:{net.canary.port}/hook")
    assert net.canary.hits == 1


@requirement("S6")
async def test_a_name_with_one_bad_address_is_refused_whichever_comes_first(net: Internet) -> None:
    for name in ("first-is-bad.example", "last-is-bad.example"):
        with pytest.raises(UnsafeUrl, match=f"the name {name} resolves to 127.0.0.1, which is not public"):
            await net.fetcher().check_url(f"https://{name}/")


async def test_a_name_that_does_not_resolve_is_refused_at_registration_and_a_failure_at_a_push(net: Internet) -> None:
    with pytest.raises(UnsafeUrl, match=r"the name unknown\.example does not resolve"):
        await net.fetcher().check_url("https://unknown.example/")
    with pytest.raises(FetchFailed, match=r"the name unknown\.example does not resolve"):
        await SINKS["post"](net.fetcher(), "https://unknown.example/")


async def test_a_name_that_never_resolves_is_refused_at_registration_after_its_time(net: Internet) -> None:
    async def never(*_: object) -> tuple[()]:
        await asyncio.get_running_loop().create_future()
        return ()

    net.resolver = never  # type: ignore[method-assign, assignment]
    with pytest.raises(UnsafeUrl, match="was not resolved in time"):
        await net.fetcher(limits=Limits(resolve_seconds=1)).check_url("https://public.example/")


@requirement("S6")
async def test_http_is_refused_towards_public_addresses_and_taken_towards_listed_ones(net: Internet) -> None:
    with pytest.raises(UnsafeUrl, match="Use https"):
        await net.fetcher("127.0.0.0/8").check_url("http://public.example/")
    await net.fetcher(*(f"{address}/{128 if ':' in address else 32}" for address in PUBLIC)).check_url(
        "http://public.example/"
    )
    with pytest.raises(UnsafeUrl, match="Use https"):  # one of its two addresses is not listed
        await net.fetcher(f"{PUBLIC[0]}/32").check_url("http://public.example/")


@requirement("S6")
async def test_a_name_that_is_public_once_and_loopback_then_reaches_nobody_in_200_fetches(net: Internet) -> None:
    fetcher = net.fetcher(f"{PUBLIC[0]}/32")
    for number in range(200):
        name = f"rebinding-{number}.example"
        net.turns[name] = [PUBLIC[:1], ("127.0.0.1",)]
        answer = await fetcher.post(f"http://{name}/hook", {}, b"x", timeout_seconds=5, max_bytes=100)
        assert (answer.status, net.lookups[name]) == (200, 1)
        with pytest.raises(UnsafeUrl):
            await fetcher.post(f"http://{name}/hook", {}, b"x", timeout_seconds=5, max_bytes=100)
    assert (net.canary.hits, net.reached) == (0, [PUBLIC[0]] * 200)


@requirement("S6")
@pytest.mark.parametrize("status", [300, 301, 302, 303, 304, 307, 308])
async def test_no_redirect_is_followed_and_the_reason_says_so(status: int) -> None:
    asked = 0

    async def redirect(reader, writer):  # type: ignore[no-untyped-def]
        nonlocal asked
        asked += 1
        head = f"HTTP/1.1 {status} X\r\nLocation: http://127.0.0.1:{net.canary.port}/hop\r\nContent-Length: 0\r\n\r\n"
        await answer(reader, writer, head.encode())

    async with internet(redirect) as net:
        for _ in range(10):
            with pytest.raises(FetchFailed, match=rf"it responded with a redirect \({status}\)"):
                await net.fetcher(f"{PUBLIC[0]}/32").get(f"http://{PUBLIC[0]}/", {}, timeout_seconds=5, max_bytes=10)
        assert (net.canary.hits, asked) == (0, 10)


async def test_the_machine_s_own_resolver_and_network_lead_to_a_listed_loopback(net: Internet) -> None:
    url = f"http://localhost:{net.canary.port}/"
    assert (
        await SafeFetcher(NetPolicy.from_networks(["127.0.0.0/8", "::1/128"]), Limits()).get(
            url, {}, timeout_seconds=5, max_bytes=10
        )
    ).body == OK[-2:]
    with pytest.raises(UnsafeUrl, match="which is not public"):
        await SafeFetcher(NetPolicy(), Limits()).check_url(url)
    assert net.canary.hits == 1
