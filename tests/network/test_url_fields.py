"""Whatever url somebody writes wherever: the server comes to no loopback listener by it."""

import asyncio

import pytest

from testing.forbidden_urls import spelled
from testing.loopback_internet import canary
from testing.running_server import Running
from testing.url_fields import PUSHED, STORED, without_names
from testing.waits import IN_PROCESS_SECONDS
from tests.requirements import requirement


@requirement("S6")
@pytest.mark.parametrize("sink", PUSHED)
async def test_no_spelled_url_is_taken_where_the_server_would_call_it(server: Running, sink: str) -> None:
    async with canary() as bird:
        seat = await server.seat()
        for url in without_names(spelled(bird.port)):
            reply = await PUSHED[sink](server, seat, url)
            assert 400 <= reply.status < 500, (url, reply.status, reply.body)
        assert bird.hits == 0


@requirement("S6")
@pytest.mark.parametrize("sink", STORED)
async def test_a_url_that_is_only_kept_is_never_followed(server: Running, sink: str) -> None:
    async with canary() as bird:
        seat = await server.seat()
        urls = [f"http://{host}:{bird.port}/x" for host in ("127.0.0.1", "[::1]", "localhost")]
        replies = [await STORED[sink](server, seat, url) for url in [*urls, *without_names(spelled(bird.port))]]
        assert all(reply.status < 300 for reply in replies[: len(urls)]), replies[0].body
        assert all(reply.status < 500 for reply in replies)
        await server.admin.get(f"/workspaces/{seat.id}/activity", limit=50)
        await seat.api.claim(seat.id, lease=60, wait=0)
        assert bird.hits == 0


async def test_the_canary_counts_whoever_comes_on_both_families() -> None:
    async with canary() as bird, asyncio.timeout(IN_PROCESS_SECONDS):
        for host in ("127.0.0.1", "::1"):
            reader, writer = await asyncio.open_connection(host, bird.port)
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            assert (await reader.read()).startswith(b"HTTP/1.1 200")
            writer.close()
        assert bird.hits == 2
