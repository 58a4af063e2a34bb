"""What an agent's own calls may do while it works on a delegation, and after it has answered it."""

from pathlib import Path
from typing import Any

import pytest

from testing.running_server import Running
from tests.agent.agent_runs import Watcher, home, living, long
from tests.agent.model_endpoint import Asked, Reply, endpoint
from tests.requirements import requirement

pytestmark = pytest.mark.parametrize("engine", ["sqlite"])
NOTE = {"key": "k", "value": "v", "scope": "LOCAL", "content": "a fact"}
OUTSIDE = "is outside what this work may do"


def _outputs(asked: Asked) -> list[str]:
    """What the tools of a request gave, oldest first."""
    found = [str(each["content"]) for each in asked.body["messages"] if each["role"] == "tool"]
    return [each for each in found if not each.startswith("<peer_message ")]


@requirement("AU1", "AR2")
async def test_calls_of_a_task_are_held_to_it_also_after_its_answer(server: Running, tmp_path: Path) -> None:
    lead, seat = await server.seat("Lead"), await server.seat("Ops")

    async with endpoint() as at:
        task = await _delegate(lead, seat.id, "now", may={"tools": ["recall_memory"]})
        answer = {"peer_id": lead.id, "activity_id": task, "text": "done"}
        at.answers = [
            Reply("", (("c1", "commit_memory", NOTE),)),
            Reply("", (("c2", "reply_to_workspace", answer),)),
            Reply("", (("c3", "recall_memory", {}), ("c4", "commit_memory", NOTE))),
            Reply("Over."),
        ]
        async with living(server, seat, home(tmp_path / "ops", at)):
            await Watcher(seat).rests()
            detail = await long(lambda: lead.api.get(f"/delegations/{task}"), lambda found: found["result"])
    first, *_, denied, again = _outputs(at.asked[-1])
    assert OUTSIDE in first, first
    assert detail["result"] == "done"
    assert "has ended" in denied and "has ended" in again, (denied, again)


async def _delegate(lead: Any, target_id: str, task: str, **more: Any) -> str:
    begun = await lead.api.post(f"/workspaces/{lead.id}/delegate", {"target_id": target_id, "task": task, **more})
    return str(begun["delegation_id"])
