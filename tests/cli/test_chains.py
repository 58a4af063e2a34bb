"""`molecule chains` as a person meets it: what is frozen, what is in it, and the way on."""

from pathlib import Path

import pytest

from molecule_core.client.api import ApiClient, ApiError
from testing.message_chains import loop
from testing.ports import free_port
from testing.processes import MOLECULE, client, environment, serving, started
from testing.running_server import Seat
from tests.requirements import requirement


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state folder that is not there yet."""
    return tmp_path / "state"


@pytest.fixture
def port() -> int:
    """A port for a server."""
    return free_port()


async def chains(state: Path, port: int, *args: str, **env: str) -> tuple[int, str, str]:
    """What the command says: exit code, standard output, standard error."""
    async with started(MOLECULE, "chains", *args, env=environment(state, port, **env)) as process:
        code = await process.ended()
        return code, (await process.output()).strip(), process.said.strip()


async def seat(admin: ApiClient, port: int, name: str) -> Seat:
    """A new workspace with its own client."""
    answer = await admin.post("/workspaces", {"name": name})
    return Seat(answer, ApiClient(f"http://127.0.0.1:{port}", answer["connection"]["auth_token"]))


@requirement("M30")
async def test_a_frozen_chain_is_listed_shown_released_and_ended(state: Path, port: int) -> None:
    async with serving(state, port, MOLECULE_LIMIT_CHAIN_HOPS="3"), client(port) as admin:
        assert await chains(state, port, "list") == (0, "no frozen chains", "")
        one, other = await seat(admin, port, "One"), await seat(admin, port, "Other")
        async with one.api, other.api:
            await admin.send(one.id, "begin")
            refusal = (await loop(one, other, 9)).refusal
            assert refusal is not None
            root_id = refusal["root_id"]

            code, out, _ = await chains(state, port, "list")
            assert (code, out.startswith(f"{root_id}  frozen  hops  3 messages, 3 hops  stopped at Other")) == (0, True)
            _, shown, _ = await chains(state, port, "show", root_id)
            assert [line.split(": ")[-1] for line in shown.splitlines()[1:]] == [
                "begin",
                *(f"your turn, number {number}" for number in range(3)),
            ]
            assert "a person -> One" in shown and "One -> Other" in shown
            _, released, _ = await chains(state, port, "release", root_id, "--messages", "1")
            assert released.startswith(f"{root_id}  released")
            assert (await chains(state, port, "list"))[1] == "no frozen chains"
            _, ended, _ = await chains(state, port, "end", root_id)
            assert ended.startswith(f"{root_id}  ended")
            assert (await chains(state, port, "list", "--all"))[1].startswith(f"{root_id}  ended")
            with pytest.raises(ApiError, match="409: a person has ended this chain"):
                await one.api.post(f"/workspaces/{one.id}/notify", {"message": "hello"})


@requirement("M30", "O1")
async def test_what_cannot_be_done_is_said_in_one_line(state: Path, port: int) -> None:
    for words, args in (
        (["no server responds", str(port)], ["list"]),
        (["no admin token"], ["list", "--state-dir", str(state / "nowhere")]),
    ):
        env = {"MOLECULE_ADMIN_TOKEN": ""} if "--state-dir" in args else {}
        code, out, err = await chains(state, port, *args, **env)
        assert (code, out, len(err.splitlines())) == (2, "", 1)
        assert all(word in err for word in words), err
    async with serving(state, port):
        for words, args in (
            (["chain not found"], ["release", "nobody"]),
            (["organisation 'Else' does not exist", "Default"], ["list", "--org", "Else"]),
        ):
            code, _, err = await chains(state, port, *args)
            assert (code, len(err.splitlines())) == (2, 1)
            assert all(word in err for word in words), err
