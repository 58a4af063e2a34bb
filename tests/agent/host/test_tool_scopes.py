"""Whether a tool of a host may be used, as the server says it, and what counts while it says nothing."""

import asyncio
from typing import Any

import pytest

from molecule_core.agent.host.tool_scopes import ToolScopes
from molecule_core.client.api import ApiError, NoAnswerError
from testing.clocks import FakeClock, SeededRandomness, settle
from tests.requirements import requirement

DENIED = {"allowed": False, "reason": "the tool Bash is outside what this work may do", "may": {"tools": ["Read"]}}
READING = {"allowed": True, "delegations": ["d-1"], "may": {"tools": ["Read"]}}


class Platform:
    """A server with answers of the test's choice, or none."""

    def __init__(self, answer: dict[str, Any] | Exception) -> None:
        self.answer = answer
        self.asked: list[dict[str, Any]] = []

    async def call(self, method: str, path: str, *, query: Any = None, **_: Any) -> Any:
        """One request."""
        assert (method, path) == ("GET", "/workspaces/w-1/scope")
        self.asked.append(query)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Bench:
    """The scopes of a workspace, whose time the test moves."""

    def __init__(self, answer: dict[str, Any] | Exception) -> None:
        self.clock = FakeClock()
        self.platform = Platform(answer)
        self.scopes = ToolScopes("w-1", self.platform, clock=self.clock, randomness=SeededRandomness())

    async def find_denial(self, tool: str, task: str = "", seconds: float = 0) -> str:
        """The answer, which may come only after some time."""
        asking = asyncio.create_task(self.scopes.find_denial(tool, task))
        await settle()
        if seconds:
            assert not asking.done()
            await self.clock.advance(seconds)
            await settle()
        assert asking.done()
        return asking.result()


@requirement("AU4")
async def test_a_tool_is_denied_with_the_servers_reason_and_asked_for_each_time() -> None:
    bench = Bench(DENIED)
    assert await bench.find_denial("Bash", "d-1") == DENIED["reason"]
    bench.platform.answer = READING
    assert await bench.find_denial("Read", "d-1") == ""
    bench.platform.answer = DENIED
    assert await bench.find_denial("Read", "d-1") == DENIED["reason"], "the task has ended"
    assert bench.platform.asked[0] == {"tool": "Bash", "delegation_id": "d-1"}


@requirement("AU4")
async def test_a_task_without_a_scope_is_asked_about_once() -> None:
    bench = Bench({})
    for tool in ("Bash", "Read"):
        assert await bench.find_denial(tool, "d-1") == ""
    assert len(bench.platform.asked) == 1
    await bench.find_denial("Bash")
    await bench.find_denial("Bash")
    assert len(bench.platform.asked) == 3, "other work may become restricted at any time"


@requirement("AU4")
async def test_the_servers_own_tools_are_left_to_the_server() -> None:
    bench = Bench(DENIED)
    assert await bench.find_denial("mcp__molecule__reply", "d-1") == ""
    assert await bench.find_denial("mcp__other__reply", "d-1") == DENIED["reason"]


AWAY = [NoAnswerError("gone"), ApiError(503, {}), ApiError(429, {})]


@requirement("AU4")
@pytest.mark.parametrize("error", AWAY, ids=str)
async def test_without_an_answer_a_tasks_tool_is_denied_and_other_work_goes_on(error: Exception) -> None:
    bench = Bench(error)
    assert "does not say whether the tool Bash may be used" in await bench.find_denial("Bash", "d-1", 30)
    assert await bench.find_denial("Bash", "", 3) == ""
    assert await bench.find_denial("Read") == "", "and is not held up again at once"
    await bench.clock.advance(30)
    bench.platform.answer = DENIED
    assert await bench.find_denial("Bash") == DENIED["reason"]


@requirement("AU4")
async def test_a_server_that_rejects_the_question_denies_a_task_and_nothing_else() -> None:
    bench = Bench(ApiError(404, {"error": "this server has no such path"}))
    assert "no such path" in await bench.find_denial("Bash", "d-1")
    assert await bench.find_denial("Bash") == ""
