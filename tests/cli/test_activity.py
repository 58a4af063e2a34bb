"""`molecule activity` as an operator meets it."""

import json
from pathlib import Path
from typing import Any

from molecule_core.client.api import ApiClient
from testing.ports import free_port
from testing.processes import MOLECULE, client, environment, serving, started
from testing.waits import eventually
from tests.requirements import requirement


async def activity(state: Path, port: int, *args: str) -> tuple[int, list[str], str]:
    """What the command says: exit code, lines of standard output, standard error."""
    async with started(MOLECULE, "activity", *args, env=environment(state, port)) as process:
        code = await process.ended()
        return code, (await process.output()).strip().splitlines(), process.said.strip()


def words(lines: list[str]) -> list[str]:
    """Lines without their times."""
    return [" ".join(line.split()[1:]) for line in lines]


async def speaks(port: int, answer: Any, text: str) -> None:
    """An agent writes to its people."""
    async with ApiClient(f"http://127.0.0.1:{port}", answer["connection"]["auth_token"]) as agent:
        await agent.post(f"/workspaces/{answer['id']}/notify", {"message": text})


@requirement("AC4")
async def test_an_operator_reads_filters_and_follows_the_activity(tmp_path: Path) -> None:
    state, port = tmp_path / "state", free_port()
    async with serving(state, port), client(port) as admin:
        ops = await admin.post("/workspaces", {"name": "Ops"})
        crew = await admin.post("/workspaces", {"name": "Crew", "parent_id": ops["id"]})
        await speaks(port, ops, "the kiwi\nis \x1b[31mripe")
        await speaks(port, crew, "a plum")
        code, lines, _ = await activity(state, port, "--kind", "messages")
        assert (code, words(lines)) == (
            0,
            ["messages Crew wrote to people: a plum", "messages Ops wrote to people: the kiwi is ripe"],
        )
        assert words((await activity(state, port, "--workspace", "Ops", "--kind", "messages"))[1]) == words(lines[1:])
        team = await activity(state, port, "--workspace", "Ops", "--subtree", "--kind", "messages")
        assert words(team[1]) == words(lines)
        _, newest, _ = await activity(state, port, "--limit", "1")
        assert len(newest) == 2 and newest[1] == "... older events: raise --limit, or use --all"
        (org,) = await admin.get("/orgs")
        path = f"/orgs/{org['id']}/activity"
        await eventually(lambda: admin.get(path, q="kiwi"), lambda page: len(page["events"]) == 1)
        _, found, _ = await activity(state, port, "kiwi", "--json")
        assert [json.loads(line)["line"]["actor"] for line in found] == ["Ops"]
        _, everything, _ = await activity(state, port, "--all", "--json")
        listed = (await admin.get(path))["events"]
        assert [json.loads(line)["seq"] for line in everything] == [each["seq"] for each in listed]
        assert (await activity(state, port, "cellar"))[1][0] == "no events"
        code, _, said = await activity(state, port, "--workspace", "Nowhere")
        assert (code, "Nowhere" in said) == (2, True)

        options = ("--follow", "--kind", "messages", "--workspace", "Ops")
        async with started(MOLECULE, "activity", *options, env=environment(state, port)) as process:
            assert "the kiwi is ripe" in await process.line()
            await speaks(port, crew, "not this")
            await speaks(port, ops, "but this")
            assert "but this" in await process.line()
