"""Credentials of workspaces and persons: listed, issued, revoked and rotated; what has ended is out at once."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from molecule_core.common.limits import Limits
from molecule_core.common.tokens import hash_token
from testing.clocks import FakeClock
from testing.engines import Engine
from testing.live_clients import all_live, channel, check_shape, journal_of, streaming
from testing.push_agents import PushNetwork
from testing.running_server import Running, Seat, running
from testing.waits import bounded, refused, until_waiting
from tests.requirements import requirement


async def tokens_of(server: Running, seat: Seat) -> list[dict[str, Any]]:
    """The live tokens of a seat, as people see them."""
    found: list[dict[str, Any]] = await server.admin.get(f"/workspaces/{seat.id}/tokens")
    return found


async def rotate(server: Running, seat: Seat, **body: Any) -> Any:
    """A new token instead of all others."""
    return await server.admin.post(f"/workspaces/{seat.id}/external/rotate", body)


async def status(server: Running, seat: Seat, token: str) -> int:
    """What a token finds at its own seat: 200 or the refusal."""
    api = server.api(token)
    try:
        await api.get(f"/workspaces/{seat.id}/state")
    except Exception as error:
        return int(getattr(error, "status", 0))
    return 200


# -- workspaces --------------------------------------------------------------------------------------------------------


@requirement("M7", "O3")
async def test_tokens_are_listed_by_their_beginning_and_never_shown_again(server: Running) -> None:
    seat = await server.seat("Ops")
    new = await server.admin.post(f"/workspaces/{seat.id}/tokens")
    found = await tokens_of(server, seat)
    assert [each["hint"] for each in found] == [seat.token[:15], new["hint"]]
    assert new["auth_token"].startswith(new["hint"])
    assert all(set(each) == {"id", "hint", "created_at"} for each in found)
    for token in (seat.token, new["auth_token"]):
        assert await status(server, seat, token) == 200
        assert token not in str(found)
        assert hash_token(token) not in str(found)
        assert token not in str(await journal_of(server))


@requirement("M7")
async def test_a_revoked_token_opens_nothing_from_that_moment_on(server: Running) -> None:
    seat = await server.seat("Ops")
    new = await server.admin.post(f"/workspaces/{seat.id}/tokens")
    assert await status(server, seat, seat.token) == 200  # it is remembered from here on
    first = (await tokens_of(server, seat))[0]
    await server.admin.call("DELETE", f"/workspaces/{seat.id}/tokens/{first['id']}")
    assert await status(server, seat, seat.token) == 401
    assert await status(server, seat, new["auth_token"]) == 200
    assert [each["id"] for each in await tokens_of(server, seat)] == [new["id"]]
    again = await refused(server.admin.call("DELETE", f"/workspaces/{seat.id}/tokens/{first['id']}"))
    assert again.status == 404


@requirement("M7", "S8")
async def test_a_token_is_revoked_by_the_path_of_its_own_seat_only(server: Running) -> None:
    seat, other = await server.seat("Ops"), await server.seat("Other")
    (own,) = await tokens_of(server, seat)
    error = await refused(server.admin.call("DELETE", f"/workspaces/{other.id}/tokens/{own['id']}"))
    assert error.status == 404
    assert await status(server, seat, seat.token) == 200


@requirement("M7", "M24")
async def test_revoking_cuts_the_live_channels_of_that_token_and_no_others(server: Running) -> None:
    seat = await server.seat("Ops")
    new = await server.admin.post(f"/workspaces/{seat.id}/tokens")
    async with channel(server, seat.token) as old, channel(server, new["auth_token"]) as kept:
        async with streaming(server, token=seat.token) as stream:
            await all_live(server)
            first = (await tokens_of(server, seat))[0]
            await server.admin.call("DELETE", f"/workspaces/{seat.id}/tokens/{first['id']}")
            assert (await old.bye()).code == 4001
            while await bounded(stream._reader.read(1000)):
                pass
        await server.admin.call("PATCH", f"/workspaces/{seat.id}", body={"role": "x"})
        assert (await kept.event("WORKSPACE_UPDATED"))["workspace_id"] == seat.id


@requirement("M7")
async def test_a_look_up_that_was_on_its_way_does_not_revive_a_revoked_token(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    seat = await server.seat("Ops")
    started, gate, rows = asyncio.Event(), asyncio.Event(), server.server.store.rows

    async def held(name: str, params: Any) -> Any:
        found = await rows(name, params)
        if name == "workspace_by_token" and not started.is_set():
            started.set()
            await bounded(gate.wait())
        return found

    (token,) = await tokens_of(server, seat)
    monkeypatch.setattr(server.server.store, "rows", held)
    late = asyncio.create_task(status(server, seat, seat.token))
    await bounded(started.wait())
    await server.admin.call("DELETE", f"/workspaces/{seat.id}/tokens/{token['id']}")
    gate.set()
    assert await bounded(late) == 401
    assert await status(server, seat, seat.token) == 401


@requirement("M7", "P6")
async def test_a_long_poll_that_is_held_for_a_revoked_token_gets_nothing_of_what_comes_then(server: Running) -> None:
    seat = await server.seat("Ops")
    new = await server.admin.post(f"/workspaces/{seat.id}/tokens")
    polls = [
        asyncio.create_task(refused(seat.api.claim(seat.id, wait=25))),
        asyncio.create_task(refused(seat.api.get(f"/workspaces/{seat.id}/activity", wait=25))),
    ]
    await until_waiting(server.server, 2)
    (first, _) = await tokens_of(server, seat)
    await server.admin.call("DELETE", f"/workspaces/{seat.id}/tokens/{first['id']}")
    await server.admin.send(seat.id, "a secret of tomorrow")
    for error in await bounded(asyncio.gather(*polls)):
        assert (error.status, error.code) == (401, "invalid_credential")
    # Its lease goes by, and the message comes to who may have it.
    assert len(await server.api(new["auth_token"]).get(f"/workspaces/{seat.id}/activity")) == 1


@requirement("M7")
async def test_a_long_poll_goes_on_when_other_credentials_end(server: Running) -> None:
    seat, other = await server.seat("Ops"), await server.seat("Other")
    poll = asyncio.create_task(seat.api.claim(seat.id, wait=25))
    await until_waiting(server.server, 1)
    await rotate(server, other)
    await rotate(server, seat, grace_seconds=60)
    await server.admin.send(seat.id, "hello")
    assert len(await bounded(poll)) == 1


@requirement("M7")
async def test_rotating_ends_all_others_at_once_and_says_so_without_secrets(server: Running) -> None:
    seat = await server.seat("Ops")
    second = (await server.admin.post(f"/workspaces/{seat.id}/tokens"))["auth_token"]
    async with channel(server, second) as opened:
        await all_live(server)
        answer = await rotate(server, seat)
        assert (await opened.bye()).code == 4001
    new = answer["connection"]["auth_token"]
    assert (answer["status"], answer["ended"]) == ("rotated", 2)
    assert [await status(server, seat, token) for token in (seat.token, second, new)] == [401, 401, 200]
    told = (await journal_of(server))[-1]
    check_shape(told)
    assert (told["event"], told["workspace_id"]) == ("EXTERNAL_CREDENTIALS_ROTATED", seat.id)
    assert told["payload"] == {"issued": 1, "ended": 2, "ends_at": answer["ends_at"]}
    assert "mol_ws" not in str(told)


@requirement("M7", "O2")
async def test_with_a_grace_the_old_token_and_its_channel_live_until_its_end(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock
) -> None:
    limits = Limits(sweep_seconds=10_000_000, grace_seconds=120)
    async with running(engine, place, tmp_path, clock=clock, limits=limits) as server:
        seat = await server.seat("Ops")
        for grace in (-1, 121):
            assert (await refused(rotate(server, seat, grace_seconds=grace))).code == "invalid_field"
        async with channel(server, seat.token) as opened:
            await all_live(server)
            new = (await rotate(server, seat, grace_seconds=60))["connection"]["auth_token"]
            await clock.advance(59)
            assert [await status(server, seat, token) for token in (seat.token, new)] == [200, 200]
            assert sorted("expires_at" in each for each in await tokens_of(server, seat)) == [False, True]
            await clock.advance(2)
            assert [await status(server, seat, token) for token in (seat.token, new)] == [401, 200]
            await clock.advance(server.server.settings.limits.live_seconds)
            assert (await opened.bye()).code == 4001
        # A later rotation without grace does not make an ended token live again, and shortens what still lives.
        newer = (await rotate(server, seat, grace_seconds=100))["connection"]["auth_token"]
        await rotate(server, seat)
        assert [await status(server, seat, token) for token in (seat.token, new, newer)] == [401, 401, 401]


@requirement("M7", "O2")
async def test_a_seat_has_only_so_many_live_tokens(engine: Engine, place: str, tmp_path: Path) -> None:
    async with running(engine, place, tmp_path, limits=Limits(live_tokens=3)) as server:
        seat = await server.seat("Ops")
        made = await asyncio.gather(
            *(server.admin.post(f"/workspaces/{seat.id}/tokens") for _ in range(5)), return_exceptions=True
        )
        assert sorted(getattr(each, "code", "made") for each in made) == ["made"] * 2 + ["too_many_tokens"] * 3
        assert (await refused(rotate(server, seat, grace_seconds=5))).code == "too_many_tokens"
        await rotate(server, seat)
        assert len(await tokens_of(server, seat)) == 1


@requirement("M7", "O3")
async def test_the_connection_is_shown_again_but_for_the_token(server: Running) -> None:
    answer = await server.admin.post("/workspaces", {"name": "Ops"})
    again = (await server.admin.get(f"/workspaces/{answer['id']}/external/connection"))["connection"]
    token = answer["connection"].pop("auth_token")
    assert again == {name: value.replace(token, "YOUR-TOKEN") for name, value in answer["connection"].items()}


@requirement("M7", "O3")
async def test_a_push_agent_that_registers_as_it_is_told_after_a_rotation_is_still_pushed_to_at_its_url(
    engine: Engine, place: str, tmp_path: Path
) -> None:
    async with running(engine, place, tmp_path, fetcher=PushNetwork()) as server:
        seat = await server.seat("Ops", delivery_mode="push", url="https://agent.example/a2a")
        shown = (await server.admin.get(f"/workspaces/{seat.id}/external/connection"))["connection"]
        told = (await rotate(server, seat))["connection"]
        token = told["auth_token"]
        (line,) = [each for each in told["curl"].splitlines() if "/registry/register" in each]
        await server.api(token).post("/registry/register", json.loads(line.partition("-d ")[2].strip("'")))
        found = await server.admin.get(f"/workspaces/{seat.id}")
        assert (found["delivery_mode"], found["url"]) == ("push", "https://agent.example/a2a")
        assert shown["curl"] == told["curl"].replace(token, "YOUR-TOKEN")


# -- persons -----------------------------------------------------------------------------------------------------------


async def person_of(server: Running, role: str) -> tuple[str, str, Any]:
    """(path of the tokens, own token, client) of a new person."""
    org_id = (await server.admin.get("/orgs"))[0]["id"]
    made = await server.admin.post(f"/orgs/{org_id}/people", {"name": f"A {role}", "role": role})
    return f"/orgs/{org_id}/people/{made['id']}/tokens", made["auth_token"], server.api(made["auth_token"])


@requirement("M7")
async def test_everybody_has_their_own_tokens_in_hand_and_owners_those_of_others(server: Running) -> None:
    path, first, viewer = await person_of(server, "viewer")
    _, _, operator = await person_of(server, "operator")
    _, _, owner = await person_of(server, "owner")
    new = await viewer.post(path)
    found = await viewer.get(path)
    assert [each["hint"] for each in found] == [first[:15], new["hint"]]
    assert all("expires_at" in each and "auth_token" not in each for each in found)
    assert await owner.get(path) == await server.admin.get(path) == found
    for method, target in (("GET", path), ("POST", path), ("DELETE", f"{path}/{new['id']}")):
        assert (await refused(operator.call(method, target))).code == "role_too_low"
    second = server.api(new["auth_token"])
    assert (await second.get("/session"))["user"]["role"] == "viewer"
    async with channel(server, new["auth_token"]) as opened:
        await all_live(server)
        await owner.call("DELETE", f"{path}/{new['id']}")
        assert (await opened.bye()).code == 4001
    assert (await refused(second.get("/session"))).status == 401
    await viewer.call("DELETE", f"{path}/{found[0]['id']}")
    assert (await refused(viewer.get("/session"))).status == 401


@requirement("M7", "O2")
async def test_a_person_has_only_so_many_live_tokens(engine: Engine, place: str, tmp_path: Path) -> None:
    async with running(engine, place, tmp_path, limits=Limits(live_tokens=2)) as server:
        path, _, viewer = await person_of(server, "viewer")
        await viewer.post(path)
        assert (await refused(viewer.post(path))).code == "too_many_tokens"
