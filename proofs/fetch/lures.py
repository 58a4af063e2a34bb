"""What `prove fetch` tries: every spelling at every sink, rebinding, redirects, and what must still work."""

import asyncio
import contextlib

from molecule_core.common.errors import FetchFailed, UnsafeUrl
from molecule_core.common.net.safe_fetch import FetchResult, SafeFetcher
from proofs.harness.children import as_a_child
from proofs.harness.settings import Setting
from proofs.harness.verdicts import Verdict
from testing.forbidden_urls import PUBLIC, SPELLINGS, spelled
from testing.loopback_internet import Internet, answer, canary, internet
from testing.running_server import running
from testing.url_fields import PUSHED, STORED, without_names

_SECONDS = 5.0
_MOST_BYTES = 1000
_HOPS = 10
_LISTED = tuple(f"{each}/{128 if ':' in each else 32}" for each in PUBLIC)
_EXAMPLES = 10
TAKEN = "taken by routes that would call them"


async def run(setting: Setting) -> Verdict:
    """All of it, one after the other."""
    verdict = Verdict({"spellings": len(SPELLINGS), "sinks": 3 + len(PUSHED) + len(STORED)})
    async with internet() as net:
        await _spellings(net, verdict)
        await _rebinding(net, verdict, setting.size)
        await _allowed(net, verdict)
    await _redirects(verdict)
    await _routes(setting, verdict)
    return verdict


async def _post(fetcher: SafeFetcher, url: str) -> FetchResult:
    return await fetcher.post(url, {}, b"{}", timeout_seconds=_SECONDS, max_bytes=_MOST_BYTES)


async def _spellings(net: Internet, verdict: Verdict) -> None:
    """Every spelling to each way in which the server itself uses a url."""
    fetcher, asked, twice = net.fetcher(), 0, 0
    for url in spelled(net.canary.port):
        for sink in ("post", "get", "check"):
            hits, lookups = net.canary.hits, net.lookups.total()
            with contextlib.suppress(UnsafeUrl, FetchFailed):
                await _ask(fetcher, sink, url)
            asked += 1
            twice += net.lookups.total() - lookups > 1
            if net.canary.hits > hits and len(verdict.notes) < _EXAMPLES:
                verdict.notes.append(f"{sink} {url!a} reached the canary")
    verdict.figures["fetches"] = asked
    verdict.zeros["canary hits by spellings"] = net.canary.hits
    verdict.zeros["resolved more than once"] = twice


async def _ask(fetcher: SafeFetcher, sink: str, url: str) -> None:
    if sink == "post":
        await _post(fetcher, url)
    elif sink == "get":
        await fetcher.get(url, {}, timeout_seconds=_SECONDS, max_bytes=_MOST_BYTES)
    else:
        await fetcher.check_url(url)


async def _rebinding(net: Internet, verdict: Verdict, count: int) -> None:
    """Names that are public when they are looked up first, and loopback from then on."""
    fetcher, before, answers, lookups = net.fetcher(*_LISTED), net.canary.hits, 0, 0
    for number in range(count):
        name = f"rebinding-{number}.example"
        net.turns[name] = [PUBLIC[:1], ("127.0.0.1",)]
        with contextlib.suppress(UnsafeUrl, FetchFailed):
            answers += (await _post(fetcher, f"http://{name}/")).status == 200
        lookups += net.lookups[name]
        with contextlib.suppress(UnsafeUrl, FetchFailed):
            await _post(fetcher, f"http://{name}/")
    verdict.figures.update({"names that changed": count, "look-ups by their first fetches": lookups})
    verdict.zeros["resolved more than once"] += lookups - count
    verdict.zeros["canary hits by rebinding"] = net.canary.hits - before
    verdict.zeros["public answers lost"] = count - answers


async def _allowed(net: Internet, verdict: Verdict) -> None:
    """The positive control: where the operator allows it, somebody does come."""
    before, fetcher = net.canary.hits, net.fetcher("127.0.0.0/8", "::1/128")
    places = ("127.0.0.1", "[::1]", "localhost", "loop.example", "[::ffff:127.0.0.1]")
    for place in places:
        with contextlib.suppress(UnsafeUrl, FetchFailed):
            await _post(fetcher, f"http://{place}:{net.canary.port}/")
    verdict.figures["allowed fetches"] = net.canary.hits - before
    verdict.zeros["allowed fetches lost"] = len(places) - (net.canary.hits - before)


async def _redirects(verdict: Verdict) -> None:
    """A chain of redirects, the last of which leads to loopback."""
    asked = 0

    async def redirect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        place = f"{PUBLIC[0]}/{asked}" if asked % _HOPS else f"127.0.0.1:{net.canary.port}/"
        head = f"HTTP/1.1 302 Found\r\nLocation: http://{place}\r\nContent-Length: 0\r\n\r\n"
        await answer(reader, writer, head.encode())

    taken = 0
    async with internet(redirect) as net:
        for _ in range(_HOPS):
            with contextlib.suppress(FetchFailed):
                await _post(net.fetcher(*_LISTED), f"http://{PUBLIC[0]}/")
                taken += 1
        verdict.figures["redirects"] = asked
        verdict.zeros["redirects followed"] = asked - _HOPS + net.canary.hits
        verdict.zeros["redirects taken for an answer"] = taken


async def _routes(setting: Setting, verdict: Verdict) -> None:
    """Every spelling that needs no name server to every route that takes a url."""
    place = setting.database or str(setting.folder / "molecule.db")
    asked = faults = taken = 0
    async with canary() as bird, running(setting.engine, place, setting.folder) as server:
        seat = await server.seat()
        for name, sink in {**PUSHED, **STORED}.items():
            for url in without_names(spelled(bird.port)):
                status = (await sink(server, seat, url)).status
                asked += 1
                faults += status >= 500
                # Nothing calls it before there is something to say: that it is taken is the mistake.
                taken += name in PUSHED and status < 400
        verdict.figures["requests to the server"] = asked
        verdict.zeros["canary hits by routes"] = bird.hits
        verdict.zeros[TAKEN] = taken
        verdict.zeros["answers of 5xx"] = faults


if __name__ == "__main__":
    as_a_child(run)
