"""Requests sent ahead of their answers: each gets one answer, in the order they were sent."""

import asyncio

import pytest

from testing.live_clients import hand_made
from testing.raw_http import ask, request, wire
from testing.running_server import ADMIN_TOKEN, Running
from tests.requirements import requirement

HEALTH = request("GET", "/health")
NOPE = request("GET", "/nope")
LARGE = request("GET", "/openapi.json", token=ADMIN_TOKEN)


@requirement("S14")
async def test_answers_come_in_the_order_of_the_requests(server: Running) -> None:
    seat = await server.seat()
    requests = [request("POST", "/orgs", b'{"name": "Org %d"}' % n, token=ADMIN_TOKEN) for n in range(10)]
    requests[3:3] = [NOPE, HEALTH]
    requests[7:7] = [request("GET", f"/workspaces/{seat.id}", token=seat.token), request("GET", "/orgs")]
    async with wire(server.port) as connection:
        await connection.send(b"".join(requests))
        replies = [await connection.reply() for _ in requests]
    assert [reply.status for reply in replies] == [201, 201, 201, 404, 200, 201, 201, 200, 401, *[201] * 5]
    made = [reply.json["name"] for reply in replies if reply.status == 201]
    assert made == [f"Org {n}" for n in range(10)]


@requirement("S14")
async def test_a_held_request_holds_those_behind_it_and_nobody_else(server: Running) -> None:
    seat = await server.seat()
    async with wire(server.port) as connection:
        await connection.send(request("GET", f"/workspaces/{seat.id}/activity?wait=25", token=seat.token) + HEALTH)
        await server.admin.get("/orgs")
        assert not connection.answered
        await server.admin.send(seat.id, "hello")
        replies = [await connection.reply(), await connection.reply()]
    assert [reply.json for reply in replies][1]["status"] == "ok"
    assert len(replies[0].json) == 1


@requirement("S14")
@pytest.mark.parametrize("behind", [NOPE, HEALTH])
async def test_thousands_of_requests_in_one_go_are_each_answered(plain: Running, behind: bytes) -> None:
    """Behind a first one that takes a moment, so that all others wait: refusals too must not pile up on the stack."""
    first = request("POST", "/orgs", b'{"name": "First"}', token=ADMIN_TOKEN)
    async with wire(plain.port) as connection:
        sending = asyncio.create_task(connection.send(first + behind * 2000))
        try:
            statuses = [(await connection.reply()).status for _ in range(2001)]
        finally:
            sending.cancel()
    assert (statuses[0], set(statuses[1:])) == (201, {404 if behind is NOPE else 200})


@requirement("S14")
async def test_who_reads_no_answers_is_made_no_more_of_them(plain: Running) -> None:
    """One small piece of bytes may ask for hundreds of large answers: they must not pile up in memory."""
    many = 100
    async with hand_made(plain, reads=4096) as connection:
        await connection.send(LARGE * many)
        counts = [-1.0, 0.0]
        while counts[-1] != counts[-2] or not connection.answered:
            counts.append(await _answered(plain, "/openapi.json"))
        assert counts[-1] < many / 2
        replies = [await connection.reply() for _ in range(many)]
    assert {reply.status for reply in replies} == {200}


async def _answered(server: Running, route: str) -> float:
    """How many requests of a route were answered, once what is going on has had some turns."""
    for _ in range(50):
        await ask(server.port, "GET", "/health")
    figures = (await ask(server.port, "GET", "/metrics", token=ADMIN_TOKEN)).body.decode()
    lines = [line for line in figures.splitlines() if line.startswith("molecule_http_requests_total{")]
    return sum(float(line.split()[-1]) for line in lines if f'route="{route}"' in line)


@requirement("S14")
async def test_what_follows_a_broken_request_is_not_carried_out(plain: Running) -> None:
    late = request("POST", "/orgs", b'{"name": "Too late"}', token=ADMIN_TOKEN)
    async with wire(plain.port) as connection:
        await connection.send(HEALTH + b"GET  nonsense\r\n\r\n" + late)
        assert (await connection.reply()).status == 200
        assert (await connection.reply()).status == 400
        assert await connection.hung_up()
    assert len(await plain.admin.get("/orgs")) == 1


@requirement("S14")
async def test_what_follows_a_wish_to_close_is_not_carried_out(plain: Running) -> None:
    last = request("GET", "/health", headers={"Connection": "close"})
    late = request("POST", "/orgs", b'{"name": "Too late"}', token=ADMIN_TOKEN)
    async with wire(plain.port) as connection:
        await connection.send(last + late)
        assert (await connection.reply()).status == 200
        assert await connection.hung_up()
    assert len(await plain.admin.get("/orgs")) == 1


@requirement("S14")
async def test_a_request_hidden_in_a_body_is_only_a_body(plain: Running) -> None:
    hidden = request("POST", "/orgs", b'{"name": "Hidden"}', token=ADMIN_TOKEN)
    async with wire(plain.port) as connection:
        await connection.send(request("POST", "/orgs", hidden, token=ADMIN_TOKEN) + HEALTH)
        assert [(await connection.reply()).status for _ in range(2)] == [400, 200]
        await connection.send(request("POST", "/orgs", hidden) + HEALTH)  # refused before its body is read
        assert [(await connection.reply()).status for _ in range(2)] == [401, 200]
    assert len(await plain.admin.get("/orgs")) == 1
