"""Kill the server at any moment: what it accepted is there, and everybody goes on where they were."""

import asyncio
import signal
import sys
from pathlib import Path
from typing import Any

import anyio.lowlevel
import pytest

from molecule_core.client.api import ApiClient, ApiError, NoAnswerError
from testing.ports import free_port
from testing.processes import MOLECULE, ROOT, client, environment, serving, started
from testing.raw_http import request, wire
from testing.waits import IN_PROCESS_SECONDS, PROCESS_START_SECONDS, bounded, eventually
from tests.requirements import requirement


@pytest.fixture
def engine() -> str:
    """These processes keep their store in SQLite; PostgreSQL has its own crash proof (scripts/prove)."""
    return "sqlite"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state folder that is not there yet."""
    return tmp_path / "state"


@pytest.fixture
def port() -> int:
    """A port that is the server's in all its lives."""
    return free_port()


class Answerer:
    """The loop of an agent that forgets nothing it has not acknowledged: claim, answer, acknowledge, and on any
    trouble with the server begin again."""

    def __init__(self, api: ApiClient, workspace_id: str) -> None:
        self._api = api
        self._id = workspace_id
        self.troubles = 0

    async def run(self) -> None:
        while True:
            try:
                for row in await self._api.claim(self._id, lease=1, wait=5):
                    await self._answer(row)
            except (NoAnswerError, ApiError):
                self.troubles += 1

    async def _answer(self, row: dict[str, Any]) -> None:
        headers = {"idempotency-key": row["id"]}
        body = {"message": f"re: {row['summary']}"}
        await self._api.call("POST", f"/workspaces/{self._id}/notify", body=body, headers=headers)
        await self._api.ack(self._id, row)


async def told(api: ApiClient, workspace_id: str, text: str, message_id: str) -> None:
    """Sends until it is accepted, as a careful client does: the same id makes it safe."""
    async with asyncio.timeout(PROCESS_START_SECONDS):
        while True:
            try:
                await api.send(workspace_id, text, message_id=message_id)
            except NoAnswerError:
                continue
            return


async def new_seat(api: ApiClient, name: str = "Ops") -> tuple[str, str]:
    """A new seat: its id and its token."""
    answer = await api.post("/workspaces", {"name": name})
    return answer["id"], answer["connection"]["auth_token"]


@requirement("P1")
async def test_what_was_accepted_before_a_kill_is_there_after_it(state: Path, port: int) -> None:
    async with serving(state, port) as server, client(port) as admin:
        ops, token = await new_seat(admin)
        burst = [asyncio.create_task(admin.send(ops, str(n), message_id=f"m-{n}")) for n in range(200)]
        await asyncio.wait(burst, return_when=asyncio.FIRST_COMPLETED, timeout=IN_PROCESS_SECONDS)
        await server.kill()  # some are answered, some are on their way
        answers = await bounded(asyncio.gather(*burst, return_exceptions=True))
    accepted = {answer["activity_id"] for answer in answers if isinstance(answer, dict)}

    async with serving(state, port), client(port) as admin, client(port, token) as agent:
        kept = await agent.get(f"/workspaces/{ops}/activity", limit=500)
        again = await asyncio.gather(*(admin.send(ops, str(n), message_id=f"m-{n}") for n in range(200)))
        after = await agent.get(f"/workspaces/{ops}/activity", limit=500)

    assert accepted
    assert accepted <= {row["id"] for row in kept}
    assert {row["id"] for row in kept} <= {answer["activity_id"] for answer in again}
    assert [row["seq"] for row in after] == list(range(200, 0, -1))


@requirement("P1", "M18")
async def test_what_was_handed_out_and_not_acked_before_a_kill_comes_again(state: Path, port: int) -> None:
    async with serving(state, port) as server, client(port) as admin:
        ops, token = await new_seat(admin)
        for number in range(3):
            await admin.send(ops, str(number))
        async with client(port, token) as agent:
            first, second, third = await agent.claim(ops, lease=1)
            await agent.ack(ops, second)
            await server.kill()

    async with serving(state, port), client(port, token) as agent:
        again: list[dict[str, Any]] = []
        while len(again) < 2:
            again += await agent.claim(ops, lease=60, wait=5)

    assert [row["id"] for row in again] == [first["id"], third["id"]]
    assert all(row["attempt"] == 2 and row["redelivered"] for row in again)


@requirement("P1", "P2")
async def test_an_agent_answers_everything_once_over_many_kills(state: Path, port: int) -> None:
    async with serving(state, port), client(port) as admin:
        ops, token = await new_seat(admin)
    async with client(port, token) as agent, client(port) as admin:
        answerer = Answerer(agent, ops)
        working = asyncio.create_task(answerer.run())
        said: list[str] = []
        for life in range(3):
            async with serving(state, port) as server:
                await asyncio.gather(*(told(admin, ops, f"{life}/{n}", f"m-{life}-{n}") for n in range(10)))
                if life < 2:
                    await server.kill()
                    continue

                async def answers() -> list[str]:
                    page = await admin.get(f"/workspaces/{ops}/chat-history", limit=1000)
                    return [line["content"] for line in page["messages"] if line["role"] == "agent"]

                said = await eventually(answers, lambda lines: len(lines) >= 30, PROCESS_START_SECONDS)
                working.cancel()
        await asyncio.gather(working, return_exceptions=True)

    assert sorted(said) == sorted(f"re: {life}/{n}" for life in range(3) for n in range(10))
    assert answerer.troubles > 0


@requirement("P1", "O1")
async def test_the_example_agent_goes_on_after_a_kill(state: Path, port: int) -> None:
    async with serving(state, port), client(port) as admin:
        ops, token = await new_seat(admin)
    said: list[str] = []
    own = {"MOLECULE_URL": f"http://127.0.0.1:{port}", "MOLECULE_WORKSPACE_ID": ops, "MOLECULE_WORKSPACE_TOKEN": token}
    agent = str(ROOT / "examples" / "agent.py")

    async with started(sys.executable, agent, env=environment(state, port, **own)), client(port) as admin:

        async def answers() -> list[str]:
            page = await admin.get(f"/workspaces/{ops}/chat-history")
            return [line["content"] for line in page["messages"] if line["role"] == "agent"]

        for life in (1, 2):
            async with serving(state, port) as server:
                await told(admin, ops, f"hello {life}", f"m-{life}")
                async with asyncio.timeout(PROCESS_START_SECONDS):
                    while len(said := await answers()) < life:
                        pass
                await server.kill()

    assert len(said) == 2


@requirement("O1")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_ends_cleanly_although_long_polls_are_held(
    state: Path, port: int, number: signal.Signals
) -> None:
    async with serving(state, port) as server, client(port) as admin:
        ops, token = await new_seat(admin)
        async with wire(port) as reading, wire(port) as claiming, wire(port) as half:
            await reading.send(request("GET", f"/workspaces/{ops}/activity?wait=25", token=token))
            await claiming.send(request("GET", f"/workspaces/{ops}/activity?wait=25&claim=60", token=token))
            await half.send(b"POST /workspaces HTTP/1.1\r\nHost: localhost\r\n")
            await admin.get("/orgs")
            server.send(number)

            assert (await reading.reply()).json == []
            assert (await claiming.reply()).json == []
        async with asyncio.timeout(IN_PROCESS_SECONDS * 2):  # graceful shutdown gives up on anybody after 5 s
            assert await server.ended() == 0
        assert "Traceback" not in server.said

    async with serving(state, port), client(port, token) as agent:
        assert (await agent.get(f"/workspaces/{ops}"))["id"] == ops


@requirement("O1")
async def test_a_second_signal_does_not_wait_for_anybody(state: Path, port: int) -> None:
    async with serving(state, port) as server, wire(port) as half, client(port) as admin:
        await half.send(b"POST /workspaces HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n")
        await admin.get("/orgs")  # the server has what came before it: there is somebody whom an end waits for
        server.send(signal.SIGINT)
        await server.says("shutting down")
        server.send(signal.SIGINT)

        async with asyncio.timeout(IN_PROCESS_SECONDS):
            assert await server.ended() == 0
        assert "Traceback" not in server.said


@requirement("O1")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_signals_that_never_cease_do_not_spoil_a_clean_end(
    state: Path, port: int, number: signal.Signals
) -> None:
    async with serving(state, port) as server:
        async with asyncio.timeout(PROCESS_START_SECONDS):
            while not server.has_ended:
                server.send(number)
                await anyio.lowlevel.checkpoint()

        assert await server.ended() == 0, server.said


@requirement("O1")
async def test_a_second_server_on_the_same_state_is_refused_in_one_line(state: Path, port: int) -> None:
    async with serving(state, port) as first, client(port) as admin:
        async with started(MOLECULE, "serve", env=environment(state, free_port())) as second:
            code = await second.ended()

        assert code == 2
        (line,) = second.said.strip().splitlines()
        assert str(state) in line
        assert "another Molecule server" in line
        assert await admin.get("/ready") == {"status": "ready"}
        await first.kill()

    async with serving(state, port), client(port) as admin:  # a killed server leaves no lock behind
        assert await admin.get("/ready") == {"status": "ready"}
