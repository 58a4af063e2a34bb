"""Random org files applied over HTTP: afterwards nothing differs, whatever was there before, also after a cut."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from molecule_core.client.api import ApiClient, NoAnswerError
from molecule_core.client.org_apply import OrgPlanApplier, find_org, list_workspaces
from molecule_core.client.org_file import OrgFile, list_nodes, org_file_from_rows, parse_org_file, render_org_file
from molecule_core.client.org_plan import make_plan
from molecule_core.common.errors import CommandFailed
from testing.engines import Engine
from testing.running_server import Running, running
from tests.client.org_files import org_files
from tests.requirements import requirement


class Desk:
    """Applies files to one organisation."""

    def __init__(self, api: ApiClient, org_id: str) -> None:
        self.api = api
        self.org_id = org_id
        self.tokens: dict[tuple[str, ...], str] = {}

    async def apply(self, file: OrgFile, *, api: Any = None) -> None:
        def keep(_id: str, path: tuple[str, ...], token: str) -> None:
            self.tokens[path] = token

        applier = OrgPlanApplier(api or self.api, self.org_id, save_token=keep, report=lambda _: None)
        await applier.apply(list_nodes(file), lambda plan: True)

    async def differs(self, file: OrgFile) -> list[str]:
        plan = make_plan(list_nodes(file), await list_workspaces(self.api, self.org_id))
        return [] if plan.is_empty else list(plan.lines())

    async def export(self) -> OrgFile:
        return parse_org_file(
            render_org_file(org_file_from_rows("Random", await list_workspaces(self.api, self.org_id)))
        )


class Cut:
    """A client whose connection breaks after so many commands: the last one is carried out, its answer is lost."""

    def __init__(self, api: ApiClient, after: int) -> None:
        self._api = api
        self._left = after
        self.get = api.get

    async def post(self, path: str, body: Any = None, **query: Any) -> Any:
        return await self.call("POST", path, body=body, query=query)

    async def call(self, method: str, path: str, **more: Any) -> Any:
        self._left -= 1
        answer = await self._api.call(method, path, **more)
        if self._left < 0:
            raise NoAnswerError("cut")
        return answer


async def desk_of(server: Running, name: str) -> Desk:
    return Desk(server.admin, await server.org(name))


@requirement("M6")
async def test_any_file_after_any_other_leaves_nothing_that_differs(engine: Engine, place: str, tmp_path: Path) -> None:
    """Random pairs of files, each in an organisation of its own; every export is the file, and its plan is empty."""
    pairs: list[tuple[OrgFile, OrgFile]] = []

    @settings(
        max_examples=15, database=None, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
    )
    @given(org_files(), org_files())
    def gather(one: OrgFile, other: OrgFile) -> None:
        pairs.append((one, other))

    gather()
    async with running(engine, place, tmp_path) as server:
        for number, (one, other) in enumerate(pairs):
            desk = await desk_of(server, f"Org {number}")
            for file in (one, other):
                await desk.apply(file)
                assert await desk.differs(file) == []
                exported = await desk.export()
                assert await desk.differs(exported) == []
                assert {node.path for node in list_nodes(exported)} == {node.path for node in list_nodes(file)}


TURNED = """
name = "Random"
[[seat]]
name = "C"
key = "c"
[[seat.seat]]
name = "B"
key = "b"
[[seat.seat.seat]]
name = "A"
key = "a"
"""
STRAIGHT = """
name = "Random"
[[seat]]
name = "A"
key = "a"
[[seat.seat]]
name = "B"
key = "b"
[[seat.seat.seat]]
name = "C"
key = "c"
"""
SWAPPED = """
name = "Random"
[[seat]]
name = "B"
key = "a"
[[seat.seat]]
name = "C"
key = "b"
[[seat]]
name = "A"
"""


@requirement("M6", "M4")
async def test_a_tree_that_is_turned_upside_down_never_makes_a_circle_and_names_may_trade_places(
    server: Running,
) -> None:
    desk = await desk_of(server, "Turned")
    await desk.apply(parse_org_file(STRAIGHT))
    ids = {row["key"]: row["id"] for row in await list_workspaces(desk.api, desk.org_id)}
    for text in (TURNED, STRAIGHT):
        await desk.apply(parse_org_file(text))
        assert await desk.differs(parse_org_file(text)) == []
        assert {row["key"]: row["id"] for row in await list_workspaces(desk.api, desk.org_id)} == ids
    await desk.apply(parse_org_file(SWAPPED))
    assert await desk.differs(parse_org_file(SWAPPED)) == []
    assert {row["name"]: row["id"] for row in await list_workspaces(desk.api, desk.org_id)}["B"] == ids["a"]


@requirement("M6")
async def test_who_is_cut_off_goes_on_by_beginning_again(server: Running) -> None:
    cuts = 0
    for after in range(7):
        desk = await desk_of(server, f"Cut {after}")
        await desk.apply(parse_org_file(STRAIGHT.replace('key = "c"', 'key = "gone"')))
        try:
            await desk.apply(parse_org_file(SWAPPED), api=Cut(desk.api, after))
        except NoAnswerError:
            cuts += 1
        await desk.apply(parse_org_file(SWAPPED))
        assert await desk.differs(parse_org_file(SWAPPED)) == []
    assert cuts > 3


@requirement("M6")
async def test_nothing_that_somebody_put_there_meanwhile_is_removed(server: Running) -> None:
    desk = await desk_of(server, "Meanwhile")
    await desk.apply(parse_org_file(STRAIGHT))
    ids = {row["key"]: row["id"] for row in await list_workspaces(desk.api, desk.org_id)}

    class Late(Cut):
        async def call(self, method: str, path: str, **more: Any) -> Any:
            if method == "DELETE" and not more.get("query"):
                await server.seat("Late", org_id=desk.org_id, parent_id=ids["c"])
            return await super().call(method, path, **more)

    with pytest.raises(CommandFailed, match=r"new workspaces were added below 'A' \(Late\)"):
        await desk.apply(parse_org_file('name = "Random"'), api=Late(desk.api, 99))
    assert len(await list_workspaces(desk.api, desk.org_id)) == 4


@requirement("M6", "M7")
async def test_an_owners_token_does_what_the_admins_does_in_its_own_organisation(server: Running) -> None:
    org_id = await server.org("Random")
    owner = await server.person("owner", org_id)
    found = await find_org(owner, "Random")
    assert found is not None
    desk = Desk(owner, found["id"])
    await desk.apply(parse_org_file(STRAIGHT.replace('key = "c"', 'key = "c"\nbroadcast_enabled = true')))
    assert [row["broadcast_enabled"] for row in await server.admin.get("/workspaces", org_id=org_id)] == [0, 0, 1]
    with pytest.raises(CommandFailed, match="this token is for 'Random', not for 'Other'"):
        await find_org(owner, "Other")
    agent = server.api(desk.tokens["A", "B", "C"])
    assert (await agent.get("/openapi.json"))["openapi"]
