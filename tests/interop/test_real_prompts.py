"""Prompts of Molecule in a real Claude Code: a person types a slash command, and the model reads its text."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from testing.running_server import Running
from tests.interop.host_requirements import require
from tests.interop.hosts import CLAUDE
from tests.interop.model_scripts import Asked, Call
from tests.interop.scene import Scene, sitting, staged
from tests.requirements import requirement

_COMMAND = "/mcp__molecule__ask Night Is the shop open?"


@pytest.fixture
async def typed(server: Running, tmp_path: Path) -> AsyncIterator[Scene]:
    """A Claude Code in which a person types the command."""
    host = require(CLAUDE)
    command = ("-p", _COMMAND, *host.command[2:])
    async with staged(host._replace(command=command), tmp_path / "home", await sitting(server)) as scene:
        yield scene


@requirement("X1", "N1")
async def test_a_slash_command_delegates_the_question_to_the_workspace_that_it_names(typed: Scene) -> None:
    ops = typed.ops
    desk = await ops.server.seat("Night desk", parent_id=ops.seat.id)
    seen: list[str] = []

    def asks(asked: Asked) -> Call:
        seen.append(asked.said)
        return Call("delegate_task", {"workspace_id": desk.id, "task": "Is the shop open?", "wait": 0})

    typed.configure()
    visit = await typed.run(asks)

    assert visit.went_well, visit.told
    assert f'`mcp__molecule__delegate_task` with `workspace_id` "{desk.id}"' in seen[0]
    # The program drops all but the first word of a question, and shows its model the whole line.
    assert "Question:\nIs\n" in seen[0] and "If I typed more words" in seen[0]
    assert "<command-args>Night Is the shop open?</command-args>" in seen[0]
    (delegation,) = await ops.seat.api.get(f"/workspaces/{ops.seat.id}/delegations")
    assert delegation["target_id"] == desk.id
