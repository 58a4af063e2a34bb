"""`molecule search` as an operator meets it."""

from pathlib import Path

from molecule_core.client.api import ApiClient
from testing.ports import free_port
from testing.processes import MOLECULE, client, environment, serving, started
from testing.waits import eventually
from tests.requirements import requirement


async def search(state: Path, port: int, *args: str) -> tuple[int, str, str]:
    """What the command says: exit code, standard output, standard error."""
    async with started(MOLECULE, "search", *args, env=environment(state, port)) as process:
        code = await process.ended()
        return code, (await process.output()).strip(), process.said.strip()


@requirement("SE1")
async def test_an_operator_searches_all_texts_from_the_command_line(tmp_path: Path) -> None:
    state, port = tmp_path / "state", free_port()
    async with serving(state, port), client(port) as admin:
        answer = await admin.post("/workspaces", {"name": "Ops"})
        async with ApiClient(f"http://127.0.0.1:{port}", answer["connection"]["auth_token"]) as agent:
            await agent.post(f"/workspaces/{answer['id']}/notify", {"message": "the kiwi\nis \x1b[31m ripe"})
            await agent.post(f"/workspaces/{answer['id']}/memories", {"content": "a kiwi is green"})
        (org,) = await admin.get("/orgs")
        await eventually(
            lambda: admin.get(f"/orgs/{org['id']}/search", q="kiwi"), lambda page: len(page["results"]) == 2
        )
        code, out, _ = await search(state, port, "kiwi", "is")
        lines = out.splitlines()
        assert (code, [line.strip() for line in lines[1::2]]) == (0, ["a kiwi is green", "the kiwi is [31m ripe"])
        assert "  memory  " in lines[0] and lines[0].endswith("  Ops") and "  message  " in lines[2]
        assert (await search(state, port, "kiwi", "--kind", "memory", "--workspace", "Ops"))[1].endswith("green")
        _, first, _ = await search(state, port, "kiwi", "--limit", "1")
        cursor = first.splitlines()[-1].removeprefix("... older results: --cursor ")
        assert (await search(state, port, "kiwi", "--cursor", cursor))[1].splitlines() == lines[2:]
        assert (await search(state, port, "cellar"))[1] == "no results"
        code, _, said = await search(state, port, "!?")
        assert (code, "Write a word or a number into q" in said) == (2, True)
