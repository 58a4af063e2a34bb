"""The tools about delegations as LangChain and the plain caller have them: made from the registry, with no state of
their own. What the walks do is shown in test_delegating.py."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool

from molecule_core.agent.client.retry import BoundedRetry
from molecule_core.api.application import InternalRequest
from molecule_core.api.http.response import Response
from molecule_core.api.mcp.tool_host import InProcessRequester
from molecule_core.api.routing import Request
from molecule_core.client.api import ApiClient
from molecule_core.client.claims import ActingWorkspace
from molecule_core.client.tool_runner import ToolRunner
from molecule_core.common.ids import IdGenerator
from molecule_core.langchain import Toolkit
from molecule_core.tools.registry import find_tool
from molecule_core.tools.runners import delegation_tools
from molecule_core.tools.runners.requester import RetryingRequester
from molecule_core.tools.spec import ToolError
from testing.clocks import FakeClock, SeededRandomness
from testing.waits import IN_PROCESS_SECONDS, bounded
from tests.requirements import requirement
from tests.tools.delegation_board import TASK, Board
from tests.tools.delegation_board_server import behind_a_socket


@pytest.fixture
def board() -> Board:
    """A server on which `own` gives `peer` a task."""
    return Board(FakeClock())


# -- LangChain ---------------------------------------------------------------------------------------------------------


async def called(tool: BaseTool, **given: Any) -> ToolMessage:
    """What a model gets for its call."""
    call = {"type": "tool_call", "id": "call_1", "name": tool.name, "args": given}
    async with asyncio.timeout(IN_PROCESS_SECONDS):
        message: ToolMessage = await tool.ainvoke(call)
    return message


@requirement("G1", "D10")
async def test_langchain_has_the_five_tools_and_they_keep_nothing_between_calls(board: Board, tmp_path: Path) -> None:
    async with behind_a_socket(board) as url:
        own = {"WORKSPACE_ID": "own", "MOLECULE_WORKSPACE_TOKEN": "t", "PLATFORM_URL": url}
        environ = {**own, "CONFIGS_DIR": str(tmp_path)}
        with Toolkit(environ) as kit:
            tools = {tool.name: tool for tool in kit.tools}
            assert set(delegation_tools.TOOL_NAMES) <= set(tools)
            begun = await called(tools["delegate_task_async"], workspace_id="peer", task="Make tea")
            assert begun.artifact["task_id"] == TASK
        with Toolkit(environ) as kit:  # of another process, after a restart
            tools = {tool.name: tool for tool in kit.tools}
            assert (await called(tools["check_task_status"], task_id=TASK)).artifact["status"] == "queued"
            board.move("completed", "ended", result="Two cups.", delivered="here")
            assert (await called(tools["check_task_status"], task_id=TASK)).artifact["result"] == "Two cups."
            done = await called(tools["delegate_task"], workspace_id="peer", task="Make tea")
            assert (done.status, done.artifact["result"]) == ("success", "Two cups.")
            board.refuses["cancel"] = ToolError("there is no such delegation", "not_found")
            refused = await called(tools["cancel_task"], task_id=TASK)
            assert (refused.status, str(refused.content)) == ("error", "there is no such delegation")


# -- the plain caller --------------------------------------------------------------------------------------------------


@requirement("D9", "G1")
async def test_a_caller_sends_the_key_that_it_is_given_and_makes_none_up(board: Board) -> None:
    clock, dice = FakeClock(), SeededRandomness()
    seats = [ActingWorkspace("own", "", board)]
    caller = ToolRunner(seats, clock=clock, ids=IdGenerator(clock, dice), runtime="test", version="0")
    spec = find_tool("delegate_task_async")
    assert spec is not None
    arguments = spec.parse_arguments({"workspace_id": "peer", "task": "Make tea"})
    for key in ("", "call-1"):
        await bounded(caller.call(spec, arguments, key=key))
    assert [headers for *_, headers in board.asked] == [{}, {"idempotency-key": "own:call-1"}]


@requirement("D9")
async def test_a_task_whose_answer_is_lost_is_not_given_twice_by_the_caller_itself(board: Board) -> None:
    clock, dice = FakeClock(), SeededRandomness()
    async with ApiClient("http://127.0.0.1:9", "t", seconds=IN_PROCESS_SECONDS) as api:
        seats = [ActingWorkspace("own", "", RetryingRequester(api, BoundedRetry(clock=clock, randomness=dice)))]
        caller = ToolRunner(seats, clock=clock, ids=IdGenerator(clock, dice), runtime="test", version="0")
        spec = find_tool("delegate_task")
        assert spec is not None
        with pytest.raises(ToolError, match="did not answer") as lost:
            await bounded(caller.call(spec, spec.parse_arguments({"workspace_id": "peer", "task": "Make tea"})))
        assert (lost.value.code, clock.sleepers) == ("no_answer", 0)


# -- the server itself -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("closing", "settled"), [(True, False), (True, True), (False, False)])
async def test_a_wait_that_a_server_lets_go_because_it_ends_is_said_to_be_so(closing: bool, settled: bool) -> None:
    """Else a call that waits would go on asking a server that wants to end."""

    async def ask(_origin: Request, _wish: InternalRequest) -> Response:
        return Response(msgspec.json.encode({"settled": settled}))

    inside = InProcessRequester(ask, None, lambda: closing)  # type: ignore[arg-type]
    call = inside.call("POST", f"/workspaces/own/delegations/{TASK}/wait", body={"wait": 20})
    if closing and not settled:
        with pytest.raises(ToolError, match="restarting"):
            await bounded(call)
    else:
        assert await bounded(call) == {"settled": settled}
    # What was begun is never lost over it.
    assert await bounded(inside.call("POST", "/workspaces/own/delegate", body={"wait": 20})) == {"settled": settled}
