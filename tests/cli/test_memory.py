"""`molecule memory` as a person meets it."""

from pathlib import Path

import pytest

from molecule_core.client.api import ApiClient
from testing.ports import free_port
from testing.processes import MOLECULE, client, environment, serving, started
from tests.requirements import requirement


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state folder that is not there yet."""
    return tmp_path / "state"


@pytest.fixture
def port() -> int:
    """A port for a server."""
    return free_port()


async def memory(state: Path, port: int, *args: str) -> tuple[int, str, str]:
    """What the command says: exit code, standard output, standard error."""
    async with started(MOLECULE, "memory", *args, env=environment(state, port)) as process:
        code = await process.ended()
        return code, (await process.output()).strip(), process.said.strip()


@requirement("M36")
async def test_a_person_lists_searches_and_has_forgotten_what_an_agent_remembers(state: Path, port: int) -> None:
    async with serving(state, port), client(port) as admin:
        answer = await admin.post("/workspaces", {"name": "Ops"})
        path = f"/workspaces/{answer['id']}"
        async with ApiClient(f"http://127.0.0.1:{port}", answer["connection"]["auth_token"]) as agent:
            first = await agent.post(f"{path}/memories", {"content": "The kiwi\nis \x1b[31m ripe", "scope": "TEAM"})
            await agent.post(f"{path}/memories", {"content": "the plum is not", "namespace": "garden"})
            await agent.post(f"{path}/memory", {"key": "turn", "value": {"of": "Ada"}, "ttl_seconds": 60})

        code, out, _ = await memory(state, port, "list", "Ops")
        lines = out.splitlines()
        assert (code, len(lines)) == (0, 2)
        assert lines[0].endswith("LOCAL   garden  Ops: the plum is not")
        assert lines[1].startswith(first["id"]) and lines[1].endswith("TEAM    general  Ops: The kiwi is ripe")
        assert (await memory(state, port, "list", "Ops", "--scope", "team"))[1] == lines[1]
        assert (await memory(state, port, "list", "Ops", "--namespace", "garden"))[1] == lines[0]
        assert (await memory(state, port, "search", answer["id"], "ripe", "KIW"))[1] == lines[1]
        assert (await memory(state, port, "search", "Ops", "cellar"))[1] == "no memories"
        _, keys, _ = await memory(state, port, "keys", "Ops")
        assert keys.startswith("turn  version 1, expires ") and keys.endswith('  {"of":"Ada"}')
        assert (await memory(state, port, "forget", "Ops", first["id"]))[:2] == (0, "deleted")
        assert (await memory(state, port, "list", "Ops"))[1] == lines[0]

        code, _, said = await memory(state, port, "forget", "Ops", first["id"])
        assert (code, "memory not found" in said) == (2, True)
        code, _, said = await memory(state, port, "list", "Nobody")
        assert (code, "workspace 'Nobody' does not exist" in said) == (2, True)
        other = await admin.post("/orgs", {"name": "Elsewhere"})
        await admin.post("/workspaces", {"name": "Ops", "org_id": other["id"]})
        code, _, said = await memory(state, port, "list", "Ops")
        assert (code, "2 workspaces are named 'Ops'. Use an id" in said) == (2, True)
    code, _, said = await memory(state, port, "list", "Ops")
    assert (code, "no server responds" in said) == (2, True)
