"""Which token speaks for which workspace."""

import threading
from pathlib import Path
from typing import Any

import pytest

from molecule_core.agent.client.connections import ServerConnections, WorkspaceRequester
from molecule_core.agent.client.retry import BoundedRetry
from molecule_core.agent.client.tokens import TokenRegistry, UnknownWorkspace
from molecule_core.agent.config import WorkspaceConfig
from molecule_core.agent.prompt.loader import PromptLoader
from molecule_core.client.api import ApiError
from molecule_core.common.clock import SystemClock
from molecule_core.tools.runners.requester import RetryingRequester
from molecule_core.tools.spec import ToolError
from testing.clocks import FakeClock, SeededRandomness
from tests.agent.inbox_server import StandIn, StandIns
from tests.requirements import requirement


@requirement("G8")
def test_tokens_are_registered_rotated_and_cleared() -> None:
    tokens = TokenRegistry()
    tokens.register("a", "t-1")
    tokens.register("a", "t-1")
    tokens.register("b", "t-2")
    tokens.rotate("a", "t-3")
    assert (tokens.token("a"), tokens.token("b")) == ("t-3", "t-2")
    with pytest.raises(ValueError, match="already has a token"):
        tokens.register("b", "t-4")

    tokens.clear("a")
    assert ("a" in tokens, "b" in tokens) == (False, True)
    tokens.clear()
    assert "b" not in tokens


@requirement("G8")
def test_an_unknown_workspace_has_no_token_and_gets_none_by_rotation() -> None:
    tokens = TokenRegistry()
    tokens.register("019c1f0e-0000-7000-8000-000000000001", "t-1")
    for other in ("", "019c1f0e", "019c1f0e-0000-7000-8000-000000000002"):
        with pytest.raises(UnknownWorkspace):
            tokens.token(other)
        with pytest.raises(UnknownWorkspace):
            tokens.rotate(other, "t-2")


@requirement("G8")
def test_threads_that_write_at_once_lose_no_token_and_readers_see_whole_tables() -> None:
    tokens, count, begin = TokenRegistry(), 200, threading.Barrier(9)
    broken: list[int] = []
    tokens.register("steady", "t")

    def write(part: int) -> None:
        begin.wait()
        for number in range(count):
            tokens.register(f"{part}-{number}", f"t-{part}-{number}")
            tokens.rotate(f"{part}-{number}", f"r-{part}-{number}")

    def read() -> None:
        begin.wait()
        broken.extend(1 for _ in range(count * 8) if tokens.token("steady") != "t")

    threads = [threading.Thread(target=write, args=(part,)) for part in range(8)] + [threading.Thread(target=read)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert broken == []
    wanted = [(f"{part}-{number}", f"r-{part}-{number}") for part in range(8) for number in range(count)]
    assert [(name, tokens.token(name)) for name, _ in wanted] == wanted


@requirement("G8")
async def test_a_client_carries_the_token_that_counts_now_and_shares_connections() -> None:
    tokens = TokenRegistry()
    tokens.register("a", "t-1")
    tokens.register("b", "t-2")
    servers = ServerConnections(tokens)
    first, other = servers.api("a", "http://one.example"), servers.api("b", "http://one.example")

    assert servers.api("a", "http://one.example") is first
    assert first._http is other._http
    tokens.rotate("a", "t-3")
    second = servers.api("a", "http://one.example")
    assert second is not first and second._headers["authorization"] == "Bearer t-3"
    with pytest.raises(UnknownWorkspace):
        servers.api("c", "http://one.example")
    await servers.close()


@requirement("G6", "G8")
async def test_whoever_keeps_a_seat_speaks_with_its_token_of_the_moment_also_when_the_file_is_newer(
    tmp_path: Path,
) -> None:
    tokens, file, server = TokenRegistry(), tmp_path / "token", Picky("t-2")
    file.write_text("t-2")
    tokens.register("a", "t-1")
    seat = WorkspaceConfig(id="a", url="http://server", token="t-1", token_file=file)
    seated = WorkspaceRequester(seat, StandIns(tokens, {"a": server}), tokens)
    dice = SeededRandomness()
    kept = (
        RetryingRequester(seated, BoundedRetry(clock=FakeClock(), randomness=dice)),
        PromptLoader(seated, "a", clock=SystemClock()),
    )

    assert await kept[0].call("POST", "/workspaces/a/notify", body={}) == {"status": "ok"}
    assert server.tokens == ["t-1", "t-2"], "what was refused was not done, and is asked once more"
    tokens.rotate("a", server.takes("t-3"))
    assert await kept[0].call("GET", "/workspaces/a") == await kept[1].reported_prompt() == {"status": "ok"}
    assert server.tokens[2:] == ["t-3", "t-3"]
    server.takes("t-4")
    with pytest.raises(ToolError, match="not its token"):
        await kept[0].call("GET", "/workspaces/a")
    assert len(server.tokens) <= 6, "a token that stays refused is not asked with again and again"


class Picky(StandIn):
    """A server that takes one token."""

    def __init__(self, token: str) -> None:
        super().__init__(FakeClock(), "a")
        self._takes = token

    def takes(self, token: str) -> str:
        """From now on another one."""
        self._takes = token
        return token

    async def serve(self, token: str, *request: Any) -> Any:
        if token != self._takes:
            self.tokens.append(token)
            raise ApiError(401, {"error": "not its token", "code": "invalid_credential"})
        return await super().serve(token, *request)
