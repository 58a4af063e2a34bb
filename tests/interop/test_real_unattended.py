"""After `molecule connect`, and nothing else, a real host lists our server and its agent works without a person."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from molecule_core.client.host_launcher import render_launcher
from molecule_core.tools.registry import TOOLS
from testing.running_server import Running
from tests.interop.host_requirements import require
from tests.interop.hosts import CONNECTED_HOSTS, RealHost
from tests.interop.scene import Scene, answer_to, answers, sitting, staged, waits
from tests.requirements import requirement

QUESTION = "Which river flows through Ulm?"


@pytest.fixture(params=CONNECTED_HOSTS, ids=[each.name for each in CONNECTED_HOSTS])
def host(request: pytest.FixtureRequest) -> RealHost:
    """Each real host in turn, without flags that allow our tools."""
    return require(request.param).own_permissions


@pytest.fixture
async def scene(host: RealHost, server: Running, tmp_path: Path) -> AsyncIterator[Scene]:
    """A seat, a person, and a home whose person trusts the project's folder and has said nothing of our server."""
    async with staged(host, tmp_path / "home", await sitting(server)) as scene:
        if host.name == "claude-code":
            known = json.loads(scene.home.read("~/.claude.json"))
            known["projects"][str(scene.home.project)] = {"hasTrustDialogAccepted": True}
            scene.home.write("~/.claude.json", json.dumps(known))
        yield scene


@requirement("X1", "G24")
async def test_a_connected_host_lists_the_server_and_its_agent_answers_unattended(scene: Scene) -> None:
    await scene.ops.writes(QUESTION)
    async with scene.connecting("--workspace", "Ops", "--apply", installed=True) as connecting:
        await connecting.says(f"Start {scene.host.title} now")
        (listed,) = [line for line in connecting.said.splitlines() if " lists it: " in line]
        assert ("enabled" if scene.host.name == "codex" else "onnected") in listed
        visit = await scene.run(waits, answers)
        assert visit.went_well, visit.told
        assert await connecting.ended() == 0
    assert connecting.said.endswith(f"connected, {len(TOOLS)} tools\n")
    assert await scene.ops.chat() == [("user", QUESTION), ("agent", answer_to(QUESTION))], visit.told


@requirement("X1", "G24")
async def test_a_host_whose_molecule_is_gone_works_on_and_its_model_reads_what_to_do(scene: Scene) -> None:
    async with scene.connecting("--workspace", "Ops", "--apply", "--wait", "0") as connecting:
        assert await connecting.ended() == 0, connecting.said
    scene.launcher.write_text(render_launcher(Path("/moved/bin/python"), Path("/moved/molecule_core")))

    visit = await scene.run()

    assert visit.went_well, visit.told
    assert "Molecule cannot start: it is no longer installed at /moved/molecule_core" in visit.mind.asked[0].said
    assert scene.offered(visit.mind.asked[0]) == {"molecule_problem"}
