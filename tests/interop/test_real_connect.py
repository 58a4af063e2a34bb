"""`molecule connect` and real hosts: what it writes is all that a host needs, and can be taken back."""

import pytest

from molecule_core.tools.registry import TOOLS
from tests.interop.hosts import CLAUDE
from tests.interop.scene import Scene, answer_to, answers, waits
from tests.requirements import requirement

QUESTION = "Which river flows through Ulm?"


@requirement("X1", "G24")
async def test_a_real_host_that_was_connected_is_seen_answers_and_is_disconnected_again(scene: Scene) -> None:
    await scene.ops.writes(QUESTION)
    before = scene.home.read(scene.told.file)

    async with scene.connecting("--workspace", "Ops", "--apply") as connecting:
        await connecting.says(f"Start {scene.host.title} now")
        visit = await scene.run(waits, answers)
        assert visit.went_well, visit.told
        await connecting.says(f"connected, {len(TOOLS)} tools")
        assert await connecting.ended() == 0
    assert await scene.ops.chat() == [("user", QUESTION), ("agent", answer_to(QUESTION))], visit.told

    async with scene.connecting("--undo") as undoing:
        assert await undoing.ended() == 0, undoing.said
    assert scene.home.read(scene.told.file) == before
    later = await scene.run()
    assert later.went_well, later.told
    assert scene.offered(later.mind.asked[0]) == set()


@requirement("X1", "G15")
@pytest.mark.parametrize("host", [CLAUDE], ids=[CLAUDE.name], indirect=True)
async def test_the_hooks_name_waiting_mail_to_a_real_host_before_its_first_turn(scene: Scene) -> None:
    await scene.ops.writes(QUESTION)
    async with scene.connecting("--workspace", "Ops", "--apply", "--hooks", "--wait", "0") as connecting:
        assert await connecting.ended() == 0, connecting.said

    visit = await scene.run()

    said = visit.mind.asked[0].said
    assert "1 message waits" in said, visit.told
    assert f"{scene.host.prefix}inbox_peek" in said
    assert QUESTION not in said
    assert await scene.ops.chat() == [("user", QUESTION)]
