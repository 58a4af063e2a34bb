"""Organisations: renamed by their owners, seen at once by all who watch; and the sample team of one."""

import asyncio
from pathlib import Path

from molecule_core.common.limits import Limits
from testing.engines import Engine
from testing.live_clients import all_live, channel, check_shape, journal_of
from testing.running_server import Running, running
from testing.waits import refused
from tests.requirements import requirement


async def org_of(server: Running) -> str:
    """The id of the first organisation."""
    return str((await server.admin.get("/orgs"))[0]["id"])


# -- names -------------------------------------------------------------------------------------------------------------


@requirement("C113")
async def test_an_owner_renames_the_organisation_and_everybody_sees_it(server: Running) -> None:
    owner, viewer, org_id = await server.person("owner"), await server.person("viewer"), await org_of(server)
    async with channel(server) as opened:
        await all_live(server)
        after = await owner.call("PATCH", f"/orgs/{org_id}", body={"name": "  Acme  Works "})
        told = await opened.event("ORG_UPDATED")
    assert (after["id"], after["name"]) == (org_id, "Acme  Works")
    check_shape(told)
    assert (told["workspace_id"], told["payload"], told["entity"]["id"]) == ("", {"name": "Acme  Works"}, org_id)
    assert (await viewer.get("/session"))["org"]["name"] == "Acme  Works"
    assert (await viewer.get(f"/orgs/{org_id}/snapshot"))["org"]["name"] == "Acme  Works"
    assert [each["name"] for each in await server.admin.get("/orgs")] == ["Acme  Works"]


@requirement("C113")
async def test_a_new_name_is_kept_over_a_restart(engine: Engine, place: str, tmp_path: Path) -> None:
    async with running(engine, place, tmp_path) as server:
        await server.admin.call("PATCH", f"/orgs/{await org_of(server)}", body={"name": "Acme"})
    async with running(engine, place, tmp_path, seed=1) as server:
        assert (await server.admin.get("/orgs"))[0]["name"] == "Acme"


@requirement("C113")
async def test_the_same_name_again_changes_nothing(server: Running) -> None:
    org_id = await org_of(server)
    for _ in range(2):
        await server.admin.call("PATCH", f"/orgs/{org_id}", body={"name": "Acme"})
    assert [each["event"] for each in await journal_of(server)].count("ORG_UPDATED") == 1


@requirement("C113", "S8")
async def test_a_name_that_is_taken_or_none_is_refused_and_changes_nothing(server: Running) -> None:
    org_id, other = await org_of(server), await server.org("Other")
    path, before = f"/orgs/{org_id}", await server.admin.get("/orgs")
    taken = await refused(server.admin.call("PATCH", path, body={"name": "Other"}))
    assert (taken.status, taken.code) == (409, "org_exists")
    long = "x" * (Limits().name_length + 1)
    for name in ("", "  ", "\u202e", "a\nb", long):
        assert (await refused(server.admin.call("PATCH", path, body={"name": name}))).code == "invalid_name"
    for body in ({}, {"name": None}, {"name": "Ok", "owner": "me"}):
        assert (await refused(server.admin.call("PATCH", path, body=body))).status == 422
    operator = await server.person("operator")
    assert (await refused(operator.call("PATCH", path, body={"name": "Mine"}))).code == "role_too_low"
    stranger = await server.person("owner", other)
    assert (await refused(stranger.call("PATCH", path, body={"name": "Mine"}))).code == "not_found"
    assert await server.admin.get("/orgs") == before


@requirement("C113")
async def test_of_two_organisations_that_want_a_name_at_once_one_gets_it(server: Running) -> None:
    ids = [await server.org("One"), await server.org("Two")]
    asked = [server.admin.call("PATCH", f"/orgs/{each}", body={"name": "Same"}) for each in ids]
    outcomes = await asyncio.gather(*asked, return_exceptions=True)
    assert sum(isinstance(each, Exception) for each in outcomes) == 1
    assert [each["name"] for each in await server.admin.get("/orgs")].count("Same") == 1


# -- the sample team ---------------------------------------------------------------------------------------------------


class FakeHost:
    """Runs sample teams without processes."""

    def __init__(self) -> None:
        self.roots: dict[str, str] = {}

    def root_of(self, org_id: str) -> str | None:
        """The workspace at the top of an organisation's team."""
        return self.roots.get(org_id)

    async def add_team(self, org_id: str) -> str:
        """Adds a team, once."""
        return self.roots.setdefault(org_id, f"root of {org_id}")


@requirement("C57")
async def test_a_sample_team_is_offered_only_where_something_runs_it(server: Running) -> None:
    path, viewer = f"/orgs/{await org_of(server)}/sample-team", await server.person("viewer")
    assert await viewer.get(path) == {"is_available": False, "workspace_id": None}
    unavailable = await refused(server.admin.post(path, {}))
    assert (unavailable.status, unavailable.code) == (422, "invalid_field")

    server.server.sample_team_host = host = FakeHost()
    assert await viewer.get(path) == {"is_available": True, "workspace_id": None}
    assert (await refused(viewer.post(path, {}))).code == "role_too_low"
    assert host.roots == {}
    operator = await server.person("operator")
    added = await operator.post(path, {})
    assert added == await operator.post(path, {}) == await viewer.get(path)
    assert added["workspace_id"] is not None


@requirement("C57", "S8")
async def test_a_sample_team_belongs_to_one_organisation(server: Running) -> None:
    server.server.sample_team_host = host = FakeHost()
    other = await server.org("Other")
    operator = await server.person("operator")
    assert (await refused(operator.post(f"/orgs/{other}/sample-team", {}))).code == "not_found"
    await operator.post(f"/orgs/{await org_of(server)}/sample-team", {})
    assert list(host.roots) == [await org_of(server)]
