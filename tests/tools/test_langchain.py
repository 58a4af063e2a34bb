"""The tools as LangChain has them, called as LangChain calls them, against a real server."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from molecule_core.agent.config import ConfigurationError
from molecule_core.langchain import Toolkit, tools
from molecule_core.tools.registry import TOOLS
from testing.running_server import Running, Seat
from testing.waits import IN_PROCESS_SECONDS, PROCESS_START_SECONDS
from tests.requirements import requirement

pytestmark = pytest.mark.parametrize("engine", ["sqlite"])


def environ(server: Running, seat: Seat, state: Path) -> dict[str, str]:
    """Who calls."""
    own = {"WORKSPACE_ID": seat.id, "MOLECULE_WORKSPACE_TOKEN": seat.token, "PLATFORM_URL": server.url}
    return {**own, "CONFIGS_DIR": str(state)}


@contextmanager
def kit_of(server: Running, seat: Seat, state: Path) -> Iterator[dict[str, BaseTool]]:
    """The tools of a seat by name."""
    with Toolkit(environ(server, seat, state)) as kit:
        yield {tool.name: tool for tool in kit.tools}


async def called(tool: BaseTool, **given: Any) -> ToolMessage:
    """What a model gets for its call."""
    call = {"type": "tool_call", "id": "call_1", "name": tool.name, "args": given}
    async with asyncio.timeout(IN_PROCESS_SECONDS):
        message: ToolMessage = await tool.ainvoke(call)
    return message


@requirement("G1")
async def test_an_agent_of_langchain_reads_and_answers(server: Running, tmp_path: Path) -> None:
    ops, person = await server.seat("Ops"), await server.person()
    sent = (await person.send(ops.id, "where is the tea?"))["activity_id"]
    with kit_of(server, ops, tmp_path) as kit:
        got = (await called(kit["wait_for_message"], timeout_secs=1)).artifact["message"]
        assert (got["activity_id"], got["text"]) == (sent, "where is the tea?")
        told = await called(kit["reply_to_workspace"], text="on the shelf", activity_id=sent)
        assert told.artifact["acknowledged"] is True
        assert '"status":"sent"' in str(told.content)
        assert (await called(kit["inbox_peek"])).artifact["messages"] == []
    page = await server.admin.get(f"/workspaces/{ops.id}/chat-history")
    assert [line["content"] for line in page["messages"]] == ["where is the tea?", "on the shelf"]


async def test_a_refusal_is_a_result_that_the_model_reads(server: Running, tmp_path: Path) -> None:
    with kit_of(server, await server.seat("Ops"), tmp_path) as kit:
        refused = await called(kit["broadcast_message"], message="hi")
        assert (refused.status, "broadcast_disabled" in str(refused.content)) == ("error", True)
        wrong = await called(kit["send_message_to_user"], text="hi")
        assert (wrong.status, "Required: message" in str(wrong.content)) == ("error", True)


async def test_tools_are_called_from_threads_and_from_several_loops(server: Running, tmp_path: Path) -> None:
    ops = await server.seat("Ops")
    with kit_of(server, ops, tmp_path) as kit:
        info = kit["get_workspace_info"]

        def in_a_loop_of_its_own() -> Any:
            return asyncio.run(info.ainvoke({}))

        found = await asyncio.gather(
            info.ainvoke({}), asyncio.to_thread(info.invoke, {}), asyncio.to_thread(in_a_loop_of_its_own)
        )
        assert [f'"id":"{ops.id}"' in text for text in found] == [True] * 3


async def test_a_long_wait_holds_up_no_other_call_and_ends_with_the_toolkit(server: Running, tmp_path: Path) -> None:
    ops = await server.seat("Ops")
    with kit_of(server, ops, tmp_path) as kit:
        waiting = asyncio.create_task(kit["wait_for_message"].ainvoke({"timeout_secs": 300}))
        assert (await called(kit["get_workspace_info"])).artifact["id"] == ops.id
        assert not waiting.done()
    async with asyncio.timeout(IN_PROCESS_SECONDS):
        with pytest.raises(asyncio.CancelledError):
            await waiting


@requirement("G5")
async def test_a_model_is_told_the_same_as_everywhere(server: Running, tmp_path: Path) -> None:
    with kit_of(server, await server.seat("Ops"), tmp_path) as kit:
        assert list(kit) == [spec.name for spec in TOOLS]
        for spec in TOOLS:
            told = convert_to_openai_tool(kit[spec.name])["function"]
            assert (told["name"], told["description"]) == (spec.name, spec.description)
            properties = spec.input_schema["properties"]
            assert told["parameters"]["properties"].keys() == properties.keys()
            assert told["parameters"].get("required", []) == spec.input_schema.get("required", [])


def test_an_environment_that_names_nobody_is_refused(tmp_path: Path, engine: str) -> None:
    with pytest.raises(ConfigurationError, match="WORKSPACE_ID is missing"):
        tools({"CONFIGS_DIR": str(tmp_path)})


def test_nothing_else_of_molecule_loads_langchain(engine: str) -> None:
    code = (
        "import sys, molecule_core.cli.tool, molecule_core.client.tool_runner, molecule_core.tools.mcp_dispatcher\n"
        "print([name for name in ('langchain_core', 'pydantic', 'starlette') if name in sys.modules])"
    )
    said = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=PROCESS_START_SECONDS, check=True
    )
    assert said.stdout.strip() == "[]"
