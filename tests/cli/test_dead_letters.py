"""`molecule dead-letters` as an operator meets it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from molecule_core.client.api import ApiClient
from testing.ports import free_port
from testing.processes import MOLECULE, client, environment, serving, started
from testing.waits import PROCESS_START_SECONDS
from tests.requirements import requirement


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state folder that is not there yet."""
    return tmp_path / "state"


async def letters(state: Path, port: int, *args: str) -> tuple[int, str, str]:
    """What the command says: exit code, standard output, standard error."""
    async with started(MOLECULE, "dead-letters", *args, env=environment(state, port)) as process:
        code = await process.ended()
        return code, (await process.output()).strip(), process.said.strip()


async def dead(admin: ApiClient, seat: str, text: str) -> str:
    """A message whose life is over."""
    message = {"role": "user", "parts": [{"kind": "text", "text": text}]}
    body = {"method": "message/send", "params": {"message": message, "expires_in_seconds": 1}}
    receipt: dict[str, Any] = await admin.post(f"/workspaces/{seat}/a2a", body)
    found: dict[str, Any] = {}
    async with asyncio.timeout(PROCESS_START_SECONDS):
        while found.get("status") != "dropped":
            found = await admin.get(f"/workspaces/{seat}/a2a/queue/{receipt['activity_id']}")
    return str(receipt["activity_id"])


@requirement("M21", "O1")
async def test_letters_are_listed_shown_requeued_and_discarded(state: Path) -> None:
    port = free_port()
    # Looking again and again until a letter is dead is more than the limit that is shipped allows.
    async with serving(state, port, MOLECULE_LIMIT_REQUESTS_PER_MINUTE="1000000"), client(port) as admin:
        assert await letters(state, port, "list") == (0, "no dead letters", "")
        seat = (await admin.post("/workspaces", {"name": "Ops"}))["id"]
        one, other = await dead(admin, seat, "the first"), await dead(admin, seat, "the second")
        code, listed, _ = await letters(state, port, "list")
        _, shown, _ = await letters(state, port, "show", one)
        requeued = await letters(state, port, "requeue", one)
        discarded = await letters(state, port, "discard", other)
        left = await letters(state, port, "list")
        unknown = await letters(state, port, "show", "nonsense")
        waiting = await admin.get(f"/workspaces/{seat}/a2a/queue/{one}")

    assert code == 0
    assert [line.split()[0] for line in listed.splitlines()] == [other, one]
    assert "expired" in listed
    assert "Ops: the first" in listed
    assert "expired" in shown
    assert "dead" in shown.splitlines()[-1]
    assert requeued == (0, f"requeued {one} for Ops", "")
    assert discarded == (0, f"discarded {other} of Ops", "")
    assert left[1] == "no dead letters"
    assert waiting["status"] == "queued"
    assert (unknown[0], unknown[1]) == (2, "")
    assert "there is no dead letter nonsense" in unknown[2]


@requirement("O1")
async def test_without_a_server_or_a_token_one_line_says_what_to_do(state: Path) -> None:
    port = free_port()
    code, out, said = await letters(state, port, "list")
    assert (code, out) == (2, "")
    assert said.startswith("molecule: the command failed: no server responds at ")
    assert len(said.splitlines()) == 1
    env = {name: value for name, value in environment(state, port).items() if name != "MOLECULE_ADMIN_TOKEN"}
    async with started(MOLECULE, "dead-letters", "list", env=env) as process:
        assert await process.ended() == 2
        assert "there is no admin token in" in process.said
