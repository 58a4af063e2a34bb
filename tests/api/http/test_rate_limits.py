"""Floods over real HTTP: who asks too often is refused alone, and told when to come again."""

import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from molecule_core.client.api import ApiError
from molecule_core.common.limits import Limits
from molecule_core.common.tokens import WORKSPACE_PREFIX, new_token
from testing.clocks import FakeClock, SeededRandomness
from testing.live_clients import hand_made
from testing.raw_http import Reply, ask, wire
from testing.running_server import ADMIN_TOKEN, Running, running
from tests.requirements import requirement

TIGHT = Limits(
    requests_per_minute=40,
    sends_per_minute=5,
    org_sends_per_minute=12,
    anonymous_per_minute=8,
    logins_per_minute=3,
)
RATE = ("x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset")
HELLO = {"params": {"message": {"content": "hello"}}}


@pytest.fixture
async def tight(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Running]:
    """A server with small limits, whose time stands still. Rates live in memory, so one engine is enough."""
    place = str(tmp_path / "molecule.db")
    async with running("sqlite", place, tmp_path, clock=clock, limits=TIGHT) as server:
        yield server


def rate_of(reply: Reply) -> tuple[int, ...]:
    """Limit, what is left, and the seconds until all is back."""
    return tuple(int(reply.headers[name]) for name in RATE)


async def send(server: Running, token: str, target_id: str) -> Reply:
    """One message."""
    return await ask(server.port, "POST", f"/workspaces/{target_id}/a2a", HELLO, token=token)


def check_refused(reply: Reply, seconds: int, limit: int) -> None:
    """429 as clients of the original read it, with all that says when to come again."""
    assert reply.status == 429
    assert (reply.json["error"], reply.json["retry_after"]) == ("rate limit exceeded", seconds)
    assert reply.headers["retry-after"] == str(seconds)
    assert rate_of(reply)[:2] == (limit, 0)


@requirement("S22", "W1")
async def test_a_workspace_that_floods_is_refused_alone_and_let_in_again(tight: Running, clock: FakeClock) -> None:
    flood, calm = await tight.seat("Flood"), await tight.seat("Calm")
    person = await tight.person()

    replies = [await send(tight, flood.token, calm.id) for _ in range(9)]

    assert [reply.status for reply in replies] == [200] * 5 + [429] * 4
    check_refused(replies[-1], 12, 5)
    assert (await send(tight, calm.token, flood.id)).status == 200
    await person.send(flood.id, "stop that")
    await clock.advance(12)
    assert [(await send(tight, flood.token, calm.id)).status for _ in range(2)] == [200, 429]
    assert len(await tight.admin.get(f"/workspaces/{calm.id}/activity", type="a2a_receive")) == 6


@requirement("S22", "M26")
async def test_what_an_agent_says_outside_counts_as_what_it_sends(tight: Running) -> None:
    """A workspace may be set so that its drafts are sent."""
    ops = await tight.seat("Ops")
    await (await tight.person()).send(ops.id, "please")
    (row,) = await ops.api.get(f"/workspaces/{ops.id}/activity", type="a2a_receive")
    path = f"/workspaces/{ops.id}/messages/{row['id']}/draft"
    replies = [await ask(tight.port, "POST", path, {"text": f"{no}"}, token=ops.token) for no in range(6)]
    assert [reply.status for reply in replies] == [200] * 5 + [429]
    check_refused(replies[-1], 12, 5)


@requirement("S22")
async def test_with_the_limit_lifted_the_same_flood_gets_through(tmp_path: Path, clock: FakeClock) -> None:
    """The negative control."""
    async with running("sqlite", str(tmp_path / "molecule.db"), tmp_path, clock=clock) as server:
        flood, calm = await server.seat("Flood"), await server.seat("Calm")
        assert {(await send(server, flood.token, calm.id)).status for _ in range(50)} == {200}


@requirement("S22")
async def test_many_floods_of_one_organisation_leave_the_others_alone(tight: Running) -> None:
    elsewhere = await tight.org("Elsewhere")
    flood = [await tight.seat(f"Flood {number}") for number in range(4)]
    calm = [await tight.seat(f"Calm {number}", org_id=elsewhere) for number in range(2)]

    through = [[(await send(tight, seat.token, seat.id)).status for _ in range(5)].count(200) for seat in flood]

    assert through == [5, 5, 2, 0]
    assert [(await send(tight, seat.token, seat.id)).status for seat in calm] == [200, 200]
    await (await tight.person()).send(flood[0].id, "persons are counted apart")


@requirement("S22")
async def test_requests_are_counted_for_each_caller_apart(tight: Running) -> None:
    seats = [await tight.seat(f"Seat {number}") for number in range(2)]
    path = f"/workspaces/{seats[0].id}/activity"
    replies = [await ask(tight.port, "GET", path, token=seats[0].token) for _ in range(41)]
    assert [reply.status for reply in replies] == [200] * 40 + [429]
    check_refused(replies[-1], 2, 40)
    assert [rate_of(reply)[1] for reply in replies[:3]] == [39, 38, 37]
    assert (await ask(tight.port, "GET", f"/workspaces/{seats[1].id}/activity", token=seats[1].token)).status == 200
    assert (await ask(tight.port, "GET", path, token=ADMIN_TOKEN)).status == 200


@requirement("S22")
async def test_refusals_are_counted_like_other_requests(tight: Running) -> None:
    """A caller that asks for what it may not have is as loud as any other."""
    seat = await tight.seat("Seat")
    for path in ("/orgs", "/workspaces/nobody"):
        left = rate_of(await ask(tight.port, "GET", path, token=seat.token))[1]
        reply = await ask(tight.port, "GET", path, token=seat.token)
        assert (reply.status in (403, 404), rate_of(reply)) == (True, (40, left - 1, 60 - (left - 1) * 60 // 40))


@requirement("S22", "P6")
async def test_guessing_tokens_is_slowed_by_address_and_known_callers_do_not_notice(
    tight: Running, clock: FakeClock
) -> None:
    seat = await tight.seat("Seat")
    await seat.api.get(f"/workspaces/{seat.id}/state")
    guesses = [await ask(tight.port, "GET", "/orgs", token=f"guess-{number}") for number in range(10)]
    assert [reply.status for reply in guesses] == [401] * 8 + [429] * 2
    check_refused(guesses[-1], 8, 8)
    assert (await ask(tight.port, "GET", "/app")).status == 429
    await seat.api.get(f"/workspaces/{seat.id}/state")
    await clock.advance(60)
    assert (await ask(tight.port, "GET", "/app")).status == 302


@requirement("S22", "O1")
async def test_checks_of_health_are_outside_every_allowance_and_under_any_host(tight: Running) -> None:
    for _ in range(10):
        await ask(tight.port, "GET", "/nope")
    assert (await ask(tight.port, "GET", "/app")).status == 429
    for path in ("/health", "/ready") * 10:
        assert (await ask(tight.port, "GET", path, headers={"Host": "10.1.2.3:8080"})).status == 200
    other = await ask(tight.port, "GET", "/openapi.json", token=ADMIN_TOKEN, headers={"Host": "10.1.2.3:8080"})
    assert other.status == 421


@requirement("S22", "P6")
async def test_a_request_for_an_unknown_path_is_charged_to_its_address(tight: Running) -> None:
    replies = [await ask(tight.port, "GET", f"/nope/{number}") for number in range(10)]
    assert [reply.status for reply in replies] == [404] * 8 + [429] * 2


@requirement("S22", "P6")
async def test_a_stranger_does_not_use_up_the_allowance_of_credentials_from_the_same_address(tight: Running) -> None:
    """Behind a proxy that names no client, all of them have one address."""
    seat = await tight.seat("Seat")
    for number in range(12):
        await ask(tight.port, "GET", "/orgs", token=f"guess-{number}")
    first = await ask(tight.port, "GET", f"/workspaces/{seat.id}/state", token=seat.token)
    assert first.status == 200


@requirement("S22", "P6")
async def test_an_unknown_credential_has_an_allowance_of_its_own(tight: Running) -> None:
    unknown, other = (new_token(WORKSPACE_PREFIX, SeededRandomness(seed)) for seed in (1, 2))
    replies = [await ask(tight.port, "GET", "/session", token=unknown) for _ in range(10)]
    assert [reply.status for reply in replies] == [401] * 8 + [429] * 2
    assert (await ask(tight.port, "GET", "/session", token=other)).status == 401
    assert (await ask(tight.port, "GET", "/app")).status == 302


@requirement("S22", "P6")
async def test_a_trusted_proxy_names_the_client_and_only_its_own_entry_counts(tight: Running) -> None:
    async def status(forwarded: str) -> int:
        return (await ask(tight.port, "GET", "/app", headers={"X-Forwarded-For": forwarded})).status

    stranger = [await status(f"198.51.100.{number}, 203.0.113.9") for number in range(10)]
    assert stranger == [302] * 8 + [429] * 2
    assert await status("203.0.113.10") == 302
    assert await status("203.0.113.9, 127.0.0.1") == 429  # two proxies on this machine
    assert (await ask(tight.port, "GET", "/app")).status == 302  # the proxy's own address


@requirement("S22", "P6")
async def test_a_peer_that_is_no_trusted_proxy_cannot_name_a_client(tmp_path: Path, clock: FakeClock) -> None:
    place, limits = str(tmp_path / "molecule.db"), TIGHT
    async with running(
        "sqlite", place, tmp_path, clock=clock, limits=limits, trusted_proxies=("10.0.0.0/8",)
    ) as server:
        headers = [{"X-Forwarded-For": f"203.0.113.{number}"} for number in range(10)]
        replies = [await ask(server.port, "GET", "/app", headers=each) for each in headers]
    assert [reply.status for reply in replies] == [302] * 8 + [429] * 2


@requirement("S22")
async def test_the_access_log_has_the_address_of_the_client(
    tmp_path: Path, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with running("sqlite", str(tmp_path / "molecule.db"), tmp_path, clock=clock, access_log=True) as server:
        with caplog.at_level(logging.INFO, "molecule.access"):
            await ask(server.port, "GET", "/health", headers={"X-Forwarded-For": "203.0.113.7"})
            await ask(server.port, "GET", "/health")
    assert [getattr(each, "client", None) for each in caplog.records if each.name == "molecule.access"] == [
        "203.0.113.7",
        "127.0.0.1",
    ]


@requirement("S22", "C74")
async def test_login_codes_are_guessed_even_slower(tight: Running, clock: FakeClock) -> None:
    headers = {"X-Molecule-Client": "canvas"}
    tries = [await ask(tight.port, "POST", "/login", {"code": f"{n}"}, headers=headers) for n in range(4)]
    assert [reply.status for reply in tries] == [401] * 3 + [429]
    check_refused(tries[-1], 20, 3)
    assert (await ask(tight.port, "GET", "/app")).status == 302


@requirement("W1", "S22")
async def test_every_answer_tells_what_is_left(tight: Running) -> None:
    seat = await tight.seat("Seat")
    for method, path, token in (
        ("GET", "/health", None),
        ("GET", "/app", None),
        ("GET", "/nope", None),
        ("PUT", "/orgs", ADMIN_TOKEN),
        ("GET", "/orgs", None),
        ("GET", "/orgs", ADMIN_TOKEN),
        ("GET", "/orgs", seat.token),
        ("POST", "/orgs", ADMIN_TOKEN),
        ("GET", "/events/stream", seat.token),
        ("GET", f"/workspaces/{seat.id}/events/stream", seat.token),
    ):
        reply = await ask(tight.port, method, path, token=token)
        limit, remaining, reset = rate_of(reply)
        assert (limit in (40, 8), 0 <= remaining <= limit, 0 <= reset <= 60) == (True, True, True), path
    async with wire(tight.port) as connection:
        await connection.send(b"hello\r\n\r\n")
        assert rate_of(await connection.reply())[0] == 8
    async with hand_made(tight) as socket:
        reply = await socket.handshake(seat.token)
        assert (reply.status, rate_of(reply)[0]) == (101, 40)


@requirement("M37", "S22")
async def test_a_broadcast_counts_as_often_as_it_is_delivered(tight: Running, clock: FakeClock) -> None:
    seats = [await tight.seat(f"Seat {number}") for number in range(4)]
    await tight.let_broadcast(seats[0].id)
    path, body = f"/workspaces/{seats[0].id}/broadcast", {"message": "hello"}
    first: dict[str, Any] = await seats[0].api.post(path, body)
    assert first["delivered"] == 3
    with pytest.raises(ApiError, match="429"):
        await seats[0].api.post(path, body)
    assert len(await tight.admin.get(f"/workspaces/{seats[1].id}/activity")) == 1
    await clock.advance(60)
    await seats[0].api.post(path, body)
