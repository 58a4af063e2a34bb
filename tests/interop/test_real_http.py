"""Real hosts at the server's own MCP endpoint: an address and a token are all they have of us."""

import pytest

from molecule_core.tools.registry import TOOLS
from tests.interop.model_scripts import Step
from tests.interop.scene import Scene, answer_to, answers, peeks, waits
from tests.requirements import requirement

QUESTION = "Which river flows through Ulm?"


@requirement("X1")
@pytest.mark.parametrize(("path", "reads"), [("/workspaces/{id}/mcp", peeks), ("/mcp", waits)])
async def test_a_real_host_answers_a_waiting_message_over_http(scene: Scene, path: str, reads: Step) -> None:
    activity_id = await scene.ops.writes(QUESTION)
    scene.configure_http(path.format(id=scene.ops.seat.id))

    visit = await scene.run(reads, answers)

    assert visit.went_well, visit.told
    assert await scene.ops.chat() == [("user", QUESTION), ("agent", answer_to(QUESTION))], visit.told
    assert (await scene.ops.became(activity_id))[-1] == "acked"
    # Told nothing else, Claude Code defers what is not marked; what answers and reads is.
    deferred = {spec.name for spec in TOOLS if not spec.always_load} if scene.host.name == "claude-code" else set()
    assert scene.offered(visit.mind.asked[0]) == {spec.name for spec in TOOLS} - deferred
    assert scene.endpoint.strangers == []
