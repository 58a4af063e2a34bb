"""Runners as the server sees them: enrolled, asked, claimed and confirmed; shown as gone; their tokens end."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from molecule_core.client.api import ApiClient, ApiError
from molecule_core.common.limits import Limits
from testing.clocks import FakeClock
from testing.engines import Engine
from testing.running_server import Running, Seat, running
from testing.waits import bounded

INSTALLED = [
    {"kind": "claude", "title": "Claude Code", "version": "2.1.332", "modes": ["manual", "plan"]},
    {"kind": "codex", "title": "Codex", "version": "0.171.0", "modes": []},
]
LIMITS = Limits(requests_per_minute=10**6, runners=3, runner_requests=4, runner_log_bytes=10)


class Laptop:
    """A runner of a test: its operator's client, and its own."""

    def __init__(self, server: Running, org_id: str, view: dict[str, Any]) -> None:
        self.id: str = view["id"]
        self.own: ApiClient = server.api(view["token"])
        self.place = f"/orgs/{org_id}/runners/{self.id}"
        self._admin = server.admin
        self._list = f"/orgs/{org_id}/runners"

    async def view(self) -> dict[str, Any]:
        return next(each for each in await self._admin.get(self._list) if each["id"] == self.id)

    async def report(self, *agents: dict[str, Any]) -> None:
        await self.own.post(
            "/runner/report",
            {
                "machine": "laptop",
                "version": "1.0",
                "installed": INSTALLED,
                "folders": ["/srv"],
                "agents": list(agents),
            },
        )

    async def ask(self, action: str, seat: Seat, **more: str) -> dict[str, Any]:
        body = {"action": action, "workspace_id": seat.id, **more}
        return dict(await self._admin.post(f"{self.place}/requests", body))

    async def start(self, seat: Seat) -> dict[str, Any]:
        return await self.ask("start", seat, kind="claude", folder="/srv/shop", mode="plan")

    async def claim(self, wait: int = 0) -> list[dict[str, Any]]:
        return list((await self.own.post("/runner/claim", {"wait": wait}))["requests"])

    async def confirm(self, request: dict[str, Any], status: str = "done", **more: str) -> None:
        await self.own.post(f"/runner/requests/{request['id']}/confirm", {"status": status, **more})

    async def outcome(self, request: dict[str, Any], wait: int = 0) -> dict[str, Any]:
        return dict(await self._admin.get(f"{self.place}/requests/{request['id']}", wait=str(wait)))


@pytest.fixture
async def server(engine: Engine, place: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[Running]:
    async with running(engine, place, tmp_path, limits=LIMITS, clock=clock) as server:
        yield server


async def _laptop(server: Running, name: str = "Laptop") -> Laptop:
    org_id = (await server.admin.get("/orgs"))[0]["id"]
    laptop = Laptop(server, org_id, await server.admin.post(f"/orgs/{org_id}/runners", {"name": name}))
    await laptop.report()
    return laptop


async def test_a_claimed_start_has_a_token_with_which_the_agent_works(server: Running) -> None:
    laptop, shop = await _laptop(server), await server.seat("Shop")
    asked = await laptop.start(shop)
    assert (await laptop.view())["agents"][0]["state"] == "requested"
    (claimed,) = await laptop.claim()
    given = {name: claimed[name] for name in ("id", "action", "kind", "folder", "mode", "workspace_name")}
    assert given == {
        "id": asked["id"],
        "action": "start",
        "kind": "claude",
        "folder": "/srv/shop",
        "mode": "plan",
        "workspace_name": "Shop",
    }
    await server.api(claimed["token"]).post("/registry/heartbeat", {"workspace_id": shop.id})
    await laptop.confirm(claimed)
    await laptop.report({"workspace_id": shop.id, "state": "running"})
    assert (await laptop.view())["agents"][0]["state"] == "running"
    assert (await laptop.outcome(asked))["status"] == "done"
    assert await laptop.claim() == []


async def test_a_waiting_runner_gets_a_request_and_the_operator_its_outcome_at_once(server: Running) -> None:
    laptop, shop = await _laptop(server), await server.seat("Shop")
    waiting = asyncio.create_task(laptop.claim(wait=25))
    asked = await laptop.start(shop)
    (claimed,) = await bounded(waiting)
    watching = asyncio.create_task(laptop.outcome(asked, wait=25))
    await laptop.confirm(claimed, "failed", text="the folder is not allowed")
    ended = await bounded(watching)
    assert (ended["status"], ended["text"]) == ("failed", "the folder is not allowed")


async def test_a_runner_that_died_with_a_request_gets_it_again_with_another_token(
    server: Running, clock: FakeClock
) -> None:
    laptop, shop = await _laptop(server), await server.seat("Shop")
    await laptop.start(shop)
    (first,) = await laptop.claim()
    assert await laptop.claim() == []
    await clock.advance(LIMITS.runner_lease_seconds + 1)
    (again,) = await laptop.claim()
    assert again["id"] == first["id"]
    assert again["token"] != first["token"]
    with pytest.raises(ApiError) as refused:
        await server.api(first["token"]).post("/registry/heartbeat", {"workspace_id": shop.id})
    assert refused.value.status == 401


async def test_a_request_that_no_runner_claims_in_time_expires(server: Running, clock: FakeClock) -> None:
    laptop, shop = await _laptop(server), await server.seat("Shop")
    asked = await laptop.start(shop)
    await clock.advance(LIMITS.runner_request_seconds + 1)
    assert (await laptop.outcome(asked))["status"] == "expired"
    assert await laptop.claim() == []
    later = await laptop.start(shop)
    assert [each["id"] for each in await laptop.claim()] == [later["id"]]


async def test_agents_of_a_runner_that_is_gone_are_unknown(server: Running, clock: FakeClock) -> None:
    laptop, shop = await _laptop(server), await server.seat("Shop")
    await laptop.start(shop)
    await laptop.claim()
    await laptop.report({"workspace_id": shop.id, "state": "running"})
    await clock.advance(LIMITS.runner_silence_seconds)
    view = await laptop.view()
    assert (view["is_gone"], view["agents"][0]["state"]) == (True, "unknown")
    await laptop.claim()
    view = await laptop.view()
    assert (view["is_gone"], view["agents"][0]["state"]) == (False, "running")


async def test_stopping_an_agent_ends_its_token_and_frees_the_workspace(server: Running) -> None:
    laptop, tower, shop = await _laptop(server), await _laptop(server, "Tower"), await server.seat("Shop")
    await laptop.start(shop)
    (claimed,) = await laptop.claim()
    await laptop.confirm(claimed)
    with pytest.raises(ApiError, match="the runner 'Laptop' has started it already") as refused:
        await tower.start(shop)
    assert refused.value.status == 409
    await laptop.ask("stop", shop)
    (stop,) = await laptop.claim()
    assert "token" not in stop
    await laptop.confirm(stop)
    assert (await laptop.view())["agents"] == []
    with pytest.raises(ApiError) as rejected:
        await server.api(claimed["token"]).post("/registry/heartbeat", {"workspace_id": shop.id})
    assert rejected.value.status == 401
    await tower.start(shop)
    assert len(await tower.claim()) == 1


async def test_a_start_that_failed_leaves_no_agent_and_no_token(server: Running) -> None:
    laptop, shop = await _laptop(server), await server.seat("Shop")
    await laptop.start(shop)
    (claimed,) = await laptop.claim()
    await laptop.confirm(claimed, "failed", text="no such folder")
    await laptop.confirm(claimed)  # a repetition changes nothing
    assert (await laptop.view())["agents"] == []
    with pytest.raises(ApiError) as rejected:
        await server.api(claimed["token"]).post("/registry/heartbeat", {"workspace_id": shop.id})
    assert rejected.value.status == 401


async def test_a_start_that_a_later_one_replaced_is_not_carried_out(server: Running) -> None:
    laptop, tower, shop = await _laptop(server), await _laptop(server, "Tower"), await server.seat("Shop")
    asked = await laptop.start(shop)
    await tower.start(shop)
    assert await laptop.claim() == []
    assert (await laptop.outcome(asked))["status"] == "failed"
    assert len(await tower.claim()) == 1


async def test_a_removed_runner_and_its_agents_are_out(server: Running) -> None:
    laptop, shop = await _laptop(server), await server.seat("Shop")
    await laptop.start(shop)
    (claimed,) = await laptop.claim()
    assert (await server.admin.call("DELETE", laptop.place)) == {"status": "removed"}
    for api, path, body in (
        (laptop.own, "/runner/claim", {}),
        (server.api(claimed["token"]), "/registry/heartbeat", {"workspace_id": shop.id}),
    ):
        with pytest.raises(ApiError) as rejected:
            await api.post(path, body)
        assert rejected.value.status == 401
    with pytest.raises(ApiError, match="runner not found"):
        await laptop.start(shop)


async def test_the_agent_of_a_removed_workspace_is_forgotten(server: Running) -> None:
    laptop, shop = await _laptop(server), await server.seat("Shop")
    await laptop.start(shop)
    await server.admin.call("DELETE", f"/workspaces/{shop.id}", query={"confirm": "true"})
    assert (await laptop.view())["agents"] == []
    assert await laptop.claim() == []


async def test_what_a_runner_did_not_report_is_refused_with_what_it_has(server: Running) -> None:
    laptop, shop = await _laptop(server), await server.seat("Shop")
    for more, reason in (
        ({"kind": "rm -rf", "folder": "/srv"}, "kind cannot be 'rm -rf'.*Use one of: claude, codex"),
        ({"kind": "claude", "folder": "/srv", "mode": "bypassPermissions"}, "Use one of: manual, plan"),
        ({"kind": "claude", "folder": " "}, "folder cannot be empty"),
        ({"kind": "claude", "folder": "/srv\n/etc"}, "hidden character"),
    ):
        with pytest.raises(ApiError, match=reason) as refused:
            await laptop.ask("start", shop, **more)
        assert refused.value.status == 422
    assert await laptop.claim() == []


async def test_only_an_agent_of_this_runner_can_be_stopped(server: Running) -> None:
    laptop, tower, shop = await _laptop(server), await _laptop(server, "Tower"), await server.seat("Shop")
    await laptop.start(shop)
    for action in ("stop", "restart", "logs"):
        with pytest.raises(ApiError, match="agent of this runner not found"):
            await tower.ask(action, shop)


async def test_the_end_of_a_long_output_is_kept(server: Running) -> None:
    laptop, shop = await _laptop(server), await server.seat("Shop")
    await laptop.start(shop)
    await laptop.claim()
    asked = await laptop.ask("logs", shop)
    (claimed,) = await laptop.claim()
    await laptop.confirm(claimed, output="the beginning and the end")
    assert (await laptop.outcome(asked))["output"] == "nd the end"


async def test_runners_and_their_open_requests_are_bounded(server: Running) -> None:
    laptop, shop = await _laptop(server), await server.seat("Shop")
    await laptop.start(shop)
    for _ in range(LIMITS.runner_requests - 1):
        await laptop.ask("logs", shop)
    with pytest.raises(ApiError, match="limit of 4 open requests to one runner"):
        await laptop.ask("logs", shop)
    await _laptop(server, "Tower")
    await _laptop(server, "Rack")
    with pytest.raises(ApiError, match="limit of 3 runners"):
        await _laptop(server, "Attic")


async def test_a_report_too_large_is_refused(server: Running) -> None:
    laptop = await _laptop(server)
    folders = [f"/srv/{'x' * 4000}/{number}" for number in range(20)]
    with pytest.raises(ApiError, match="Use at most 65536"):
        await laptop.own.post("/runner/report", {"folders": folders})


async def test_people_are_notified_of_changes_and_workspaces_are_not(server: Running) -> None:
    laptop, shop = await _laptop(server), await server.seat("Shop")
    org_id = (await server.admin.get("/orgs"))[0]["id"]
    rows = await server.server.store.rows("events_after", {"org_id": org_id, "seq": 0, "count": 100})
    before = [row[3] for row in rows if row[1] == "RUNNERS_CHANGED"]
    await laptop.report()  # the same again
    await laptop.start(shop)
    rows = await server.server.store.rows("events_after", {"org_id": org_id, "seq": 0, "count": 100})
    after = [row[3] for row in rows if row[1] == "RUNNERS_CHANGED"]
    assert len(after) == len(before) + 1
    assert set(after) == {"persons"}


async def test_old_requests_and_removed_runners_are_deleted_by_retention(server: Running, clock: FakeClock) -> None:
    laptop, shop = await _laptop(server), await server.seat("Shop")
    await laptop.start(shop)
    await server.admin.call("DELETE", laptop.place)
    assert await server.server.store.rows("spent_runner_requests", {"id": "", "before": 1 << 62, "count": 10})
    await clock.advance(400 * 86_400)
    await server.admin.post("/admin/prune", {})
    await server.server._retention.schedule_round(0)
    await clock.advance(60)

    rows, everything = server.server.store.rows, {"id": "", "before": 1 << 62, "count": 10}
    async with asyncio.timeout(20):
        while await rows("spent_runner_requests", everything) or await rows("spent_runners", everything):
            await clock.advance(1)


async def test_a_runner_that_waits_notices_its_removal_at_once(server: Running) -> None:
    laptop = await _laptop(server)
    waiting = asyncio.create_task(laptop.claim(wait=25))
    await laptop.view()
    await server.admin.call("DELETE", laptop.place)
    with pytest.raises(ApiError) as rejected:
        await bounded(waiting)
    assert rejected.value.status == 401


async def test_an_agent_to_attach_gets_a_token_that_ends_if_the_runner_refuses(server: Running) -> None:
    laptop, shop = await _laptop(server), await server.seat("Shop")
    asked = await laptop.ask("attach", shop, kind="claude", folder="/srv/shop")
    (claimed,) = await laptop.claim()
    assert (claimed["action"], claimed["mode"]) == ("attach", "attached")
    agent = server.api(claimed["token"])
    assert (await agent.get(f"/workspaces/{shop.id}/waiting"))["workspace_id"] == shop.id
    await laptop.confirm(claimed, "failed", text="it is not allowed")
    assert (await laptop.outcome(asked))["text"] == "it is not allowed"
    assert (await laptop.view())["agents"] == []
    with pytest.raises(ApiError):
        await agent.get(f"/workspaces/{shop.id}/waiting")


async def test_an_attached_agent_has_no_permission_mode(server: Running) -> None:
    laptop, shop = await _laptop(server), await server.seat("Shop")
    with pytest.raises(ApiError, match="mode cannot be set for an attached agent"):
        await laptop.ask("attach", shop, kind="claude", folder="/srv/shop", mode="plan")
