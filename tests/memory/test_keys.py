"""Values under keys over the wire: compare-and-set, ends, pages, limits, and keys of every shape."""

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from molecule_core.client.api import ApiError
from molecule_core.common.clock import to_rfc3339
from molecule_core.common.limits import Limits
from testing.clocks import FakeClock
from testing.engines import Engine
from testing.running_server import Running, Seat, running
from testing.waits import eventually, refused
from tests.messages.test_retention import Ground
from tests.requirements import requirement


async def put(seat: Seat, key: str, value: Any, **more: Any) -> Any:
    """An agent keeps a value."""
    return await seat.api.post(f"/workspaces/{seat.id}/memory", {"key": key, "value": value, **more})


async def get(seat: Seat, key: str) -> Any:
    """An agent reads it."""
    return await seat.api.get(f"/workspaces/{seat.id}/memory/{quote(key)}")


async def delete(seat: Seat, key: str, **query: Any) -> Any:
    """An agent removes it."""
    return await seat.api.call("DELETE", f"/workspaces/{seat.id}/memory/{quote(key)}", query=query)


@requirement("M36", "W1")
async def test_a_value_is_given_back_as_it_was_put(server: Running) -> None:
    seat = await server.seat("Ops")
    for number, value in enumerate((None, 0, "é\n'\"", [1, {"a": [None, 1.5]}], {"": ""}, "ghp_" + "a1B2" * 9), 1):
        saved = await put(seat, "k", value)
        assert saved == {
            "key": "k",
            "version": number,
            "expires_at": None,
            "updated_at": saved["updated_at"],
            "status": "ok",
        }
        assert await get(seat, "k") == {
            "key": "k",
            "value": value,
            "version": number,
            "expires_at": None,
            "updated_at": saved["updated_at"],
        }
    assert await delete(seat, "k") == {"status": "deleted"}
    assert (await refused(get(seat, "k"))).code == (await refused(delete(seat, "k"))).code == "not_found"


@requirement("M36")
async def test_who_compares_wins_once_and_the_loser_is_told_the_current_version(server: Running) -> None:
    seat = await server.seat("Ops")
    first = await put(seat, "turn", "nobody", if_match_version=0)
    tries = [put(seat, "turn", number, if_match_version=first["version"]) for number in range(8)]
    answers = await asyncio.gather(*tries, return_exceptions=True)
    won = [each for each in answers if not isinstance(each, BaseException)]
    lost = [each for each in answers if isinstance(each, ApiError)]
    assert (len(won), len(lost)) == (1, 7)
    assert {(each.status, each.code) for each in lost} == {(409, "version_mismatch")}
    assert {(each.problem["expected_version"], each.problem["current_version"]) for each in lost} == {(1, 2)}
    assert (await refused(put(seat, "turn", 1, if_match_version=0))).problem["current_version"] == 2
    assert (await refused(put(seat, "new", 1, if_match_version=5))).problem["current_version"] == 0
    assert (await refused(delete(seat, "turn", if_match_version=1))).code == "version_mismatch"
    assert await delete(seat, "turn", if_match_version=2) == {"status": "deleted"}


@requirement("M36")
async def test_a_lock_that_expired_and_was_taken_by_another_is_not_renewed_by_the_first(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock
) -> None:
    async with running(engine, place, tmp_path, clock=clock) as server:
        seat = await server.seat("Ops")
        mine = await put(seat, "lock", "first", ttl_seconds=10, if_match_version=0)
        assert mine["expires_at"] == to_rfc3339(clock.now() + 10_000_000)
        assert (await refused(put(seat, "lock", "second", ttl_seconds=10, if_match_version=0))).status == 409
        clock.at += 10_000_000
        other = await put(seat, "lock", "second", ttl_seconds=10, if_match_version=0)
        denied = await refused(put(seat, "lock", "first", ttl_seconds=10, if_match_version=mine["version"]))
        assert denied.problem["current_version"] == other["version"] > mine["version"]
        await delete(seat, "lock")
        again = await put(seat, "lock", "third", if_match_version=0)
        assert again["version"] > other["version"]


@requirement("M36")
async def test_what_has_ended_is_gone_at_once_and_soon_from_the_store_too(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock
) -> None:
    async with running(
        engine, place, tmp_path, clock=clock, limits=Limits(retention_batch=2, retention_days=0)
    ) as server:
        ground, seat = Ground(server, clock, engine, place), await server.seat("Ops")
        for number in range(9):
            await put(seat, f"k{number}", number, **({"ttl_seconds": 10 + number % 2 * 10} if number else {}))
        await put(seat, "k1", "stays", ttl_seconds=10)
        await put(seat, "k1", "stays")
        clock.at += 10_000_000
        listed = await seat.api.get(f"/workspaces/{seat.id}/memory")
        assert [each["key"] for each in listed] == ["k0", "k1", "k3", "k5", "k7"]
        assert (await refused(get(seat, "k2"))).code == "not_found"

        async def kept() -> list[str]:
            await clock.advance(0.1)
            return [row[0] for row in await ground.seen("SELECT key FROM memory_keys ORDER BY key")]

        await eventually(kept, lambda keys: keys == ["k0", "k1", "k3", "k5", "k7"])
        await clock.advance(10)
        await eventually(kept, lambda keys: keys == ["k0", "k1"])

        async def timers() -> int:
            await clock.advance(0.1)
            return int((await ground.seen("SELECT count(*) FROM timers WHERE kind = 'memory_expiry'"))[0][0])

        await eventually(timers, lambda count: count == 0)


@requirement("M36")
async def test_keys_are_listed_page_by_page_in_the_order_of_their_code_points(server: Running) -> None:
    seat = await server.seat("Ops")
    keys = ["Z", "a", "a/b", "a b", "ab", "é", "z", "日", "\U0001f600", "A-1", "A_1", "10", "9"]
    for key in keys:
        await put(seat, key, key)
    path, read, after = f"/workspaces/{seat.id}/memory", list[str](), None
    while page := await seat.api.get(path, limit=3, after=after):
        assert len(page) <= 3
        read += [each["key"] for each in page]
        after = read[-1]
    assert read == sorted(keys)


@requirement("M36", "S14")
@pytest.mark.parametrize("key", ["", " a", "a ", "a\nb", "\u202e", "/a", "a/", "a//b", ".", "..", "a/../b", "x" * 201])
async def test_a_key_that_a_path_could_not_name_is_refused(server: Running, key: str) -> None:
    seat = await server.seat("Ops")
    denied = await refused(put(seat, key, 1))
    assert (denied.status, "key" in str(denied)) == (422, True)


@requirement("M36")
@pytest.mark.parametrize(
    "key", ["a", "a/b/c", "a b", "100%", "ü?&#=", "日本", "{key}", "x" * 200, "'; DROP TABLE memory_keys"]
)
async def test_a_key_of_any_other_shape_is_found_again(server: Running, key: str) -> None:
    seat = await server.seat("Ops")
    await put(seat, key, key)
    assert (await get(seat, key))["value"] == key
    assert await delete(seat, key) == {"status": "deleted"}


@requirement("M36", "O2")
async def test_each_limit_of_keys_is_a_setting_and_is_told_with_its_number(
    engine: Engine, place: str, tmp_path: Path
) -> None:
    limits = Limits(memory_keys=2, memory_key_length=4, memory_value_bytes=10, memory_ttl_seconds=60)
    async with running(engine, place, tmp_path, limits=limits) as server:
        seat = await server.seat("Ops")
        for body, number in (
            ({"key": "12345", "value": 1}, "4"),
            ({"key": "k", "value": "x" * 9}, "10"),
            ({"key": "k", "value": 1, "ttl_seconds": 61}, "60"),
        ):
            denied = await refused(seat.api.post(f"/workspaces/{seat.id}/memory", body))
            assert (denied.status, number in str(denied)) == (422, True)
        await put(seat, "1234", "x" * 8, ttl_seconds=60)
        await put(seat, "b", 1)
        denied = await refused(put(seat, "c", 1))
        assert (denied.status, denied.code, "2 keys" in str(denied)) == (409, "too_many_kept", True)
        await put(seat, "b", 2)
        await delete(seat, "b")
        await put(seat, "c", 1)


@requirement("M36", "S14")
async def test_a_page_of_large_values_ends_early(engine: Engine, place: str, tmp_path: Path) -> None:
    async with running(engine, place, tmp_path, limits=Limits(memory_value_bytes=1000, page_bytes=3000)) as server:
        seat = await server.seat("Ops")
        for number in range(5):
            await put(seat, f"k{number}", "x" * 900)
        path = f"/workspaces/{seat.id}/memory"
        first = [each["key"] for each in await seat.api.get(path, limit=500)]
        assert first == ["k0", "k1", "k2"]
        assert [each["key"] for each in await seat.api.get(path, after="k2")] == ["k3", "k4"]


@requirement("M36", "M3", "S8")
async def test_keys_of_another_are_as_if_they_were_not_there(server: Running) -> None:
    one, other = await server.seat("One"), await server.seat("Other")
    await put(one, "k", 1)
    assert await other.api.get(f"/workspaces/{other.id}/memory") == []
    for work in (
        other.api.get(f"/workspaces/{one.id}/memory"),
        other.api.get(f"/workspaces/{one.id}/memory/k"),
        other.api.call("DELETE", f"/workspaces/{one.id}/memory/k"),
        other.api.post(f"/workspaces/{one.id}/memory", {"key": "k", "value": 2}),
    ):
        assert (await refused(work)).code == "not_found"
    assert (await get(one, "k"))["value"] == 1
