"""Paths, methods and sizes that are not served: each refusal says what is."""

import itertools
from pathlib import Path

from molecule_core.common.limits import Limits
from testing.callers import UNKNOWN
from testing.engines import Engine
from testing.raw_http import ask, chunk, request, wire
from testing.running_server import ADMIN_TOKEN, Running, running
from tests.api.http.rejection_checks import check_refusal
from tests.requirements import requirement


@requirement("S14")
async def test_numbers_in_a_query_are_plain_digits(server: Running) -> None:
    seat = await server.seat("Ops")

    async with wire(server.port) as connection:
        for number in ("1_0", "%D9%A1", "+5", "%205", "5%20", "%2B5", "%EF%BC%95"):
            reply = await connection.ask("GET", f"/workspaces/{seat.id}/activity?limit={number}", token=seat.token)
            assert "limit" in check_refusal(reply, 422).error, number


@requirement("S14")
async def test_unknown_paths_are_told_where_the_known_ones_are_listed(server: Running) -> None:
    unknown = [
        "//",
        "/nowhere",
        "/workspaces/",
        "//workspaces",
        "/health/",
        "/Health",
        "/workspaces/x/y/z",
        "/..",
        "/%",
    ]

    async with wire(server.port) as connection:
        for path, token in itertools.product(unknown, (None, ADMIN_TOKEN)):
            reply = check_refusal(await connection.ask("GET", path, token=token), 404)
            assert "/openapi.json" in reply.error, path


@requirement("S14")
async def test_a_wrong_method_is_told_the_right_ones(server: Running) -> None:
    table: dict[str, set[str]] = {}
    for route in server.server.routes.routes:
        table.setdefault(route.path, set()).add(route.method)

    async with wire(server.port) as connection:
        for path, methods in table.items():
            place = path.replace("{id}", UNKNOWN).replace("{org_id}", UNKNOWN)
            for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "MKCOL"} - methods:
                reply = check_refusal(await connection.ask(method, place), 405)
                assert set(reply.headers["allow"].split(", ")) == methods
                assert all(each in reply.error for each in methods)


@requirement("S14")
async def test_a_body_one_byte_too_large_is_refused_and_one_at_the_limit_is_not(
    engine: Engine, place: str, tmp_path: Path
) -> None:
    async with running(engine, place, tmp_path, limits=Limits(body_bytes=2000)) as server:
        seat = await server.seat("Ops")
        path = f"/workspaces/{seat.id}/notify"
        frame = len(b'{"message":""}')
        exact, over = (b'{"message":"%b"}' % (b"x" * (size - frame)) for size in (2000, 2001))

        fits_whole = await ask(server.port, "POST", path, exact, token=seat.token)
        too_large = await ask(server.port, "POST", path, over, token=seat.token)
        async with wire(server.port) as connection:
            head = request("POST", path, b"", token=seat.token, headers={"Transfer-Encoding": "chunked"})
            await connection.send(head + b"".join(chunk(exact[at : at + 7]) for at in range(0, 2000, 7)) + chunk(b""))
            fits_in_chunks = await connection.reply()
            await connection.send(head + b"".join(chunk(over[at : at + 7]) for at in range(0, 2001, 7)) + chunk(b""))
            too_large_in_chunks = await connection.reply()

        assert (fits_whole.status, fits_in_chunks.status) == (200, 200)
        for reply in (too_large, too_large_in_chunks):
            assert "2000" in check_refusal(reply, 413).error


@requirement("S14")
async def test_what_a_refusal_repeats_of_the_request_is_short(server: Running) -> None:
    seat = await server.seat("Ops")
    long = "x" * 50_000

    async with wire(server.port) as connection:
        for reply in (
            await connection.ask("POST", f"/workspaces/{seat.id}/a2a", {"method": long}, token=ADMIN_TOKEN),
            await connection.ask("GET", "/health", headers={"Host": long}),
            await connection.ask(
                "POST", "/orgs", b'{"%b": 1, "%b": 2}' % (long.encode(), long.encode()), token=ADMIN_TOKEN
            ),
            await connection.ask("PATCH", f"/workspaces/{seat.id}", {long: 1}, token=ADMIN_TOKEN),
            await connection.ask("GET", f"/workspaces/{seat.id}/activity?since_id={long}", token=ADMIN_TOKEN),
            await connection.ask(
                "POST",
                f"/workspaces/{seat.id}/a2a",
                {"params": {"message": {"content": "hi"}}},
                token=ADMIN_TOKEN,
                headers={"A2A-Version": long},
            ),
        ):
            assert reply.status < 500
            assert len(reply.body) < 4000, reply.body[:100]
