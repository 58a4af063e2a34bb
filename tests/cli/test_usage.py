"""`molecule usage` as an operator meets it."""

from pathlib import Path

import msgspec

from molecule_core.client.api import ApiClient
from testing.ports import free_port
from testing.processes import MOLECULE, client, environment, serving, started
from tests.requirements import requirement


async def usage(state: Path, port: int, *args: str) -> tuple[int, str, str]:
    """What the command says: exit code, standard output, standard error."""
    async with started(MOLECULE, "usage", *args, env=environment(state, port)) as process:
        code = await process.ended()
        return code, (await process.output()).strip(), process.said.strip()


@requirement("US3")
async def test_an_operator_sets_a_price_and_sees_what_agents_cost(tmp_path: Path) -> None:
    state, port = tmp_path / "state", free_port()
    async with serving(state, port), client(port) as admin:
        answer = await admin.post("/workspaces", {"name": "Ops"})
        code, out, _ = await usage(state, port, "set-price", "small*", "--input", "1.25", "--output", "10")
        assert (code, out) == (0, "small*  input 1.25  cached 0.00  output 10.00  USD per million tokens")
        async with ApiClient(f"http://127.0.0.1:{port}", answer["connection"]["auth_token"]) as agent:
            body = {"key": "turn-1", "input_tokens": 1000, "output_tokens": 100, "model": "small-1"}
            await agent.post(f"/workspaces/{answer['id']}/usage", body)
            await agent.post(f"/workspaces/{answer['id']}/usage", {"key": "turn-2", "output_tokens": 1})
        code, out, _ = await usage(state, port)
        lines = [line.split() for line in out.splitlines()]
        assert (code, lines[2], lines[3]) == (
            0,
            ["Ops", "2", "1000", "0", "101", "0.00225"],
            ["total", "2", "1000", "0", "101", "0.00225"],
        )
        assert lines[4][:5] == ["The", "cost", "of", "1", "turns"]
        code, out, _ = await usage(state, port, "--by", "model", "--workspace", "Ops", "--json")
        assert [row["key"] for row in msgspec.json.decode(out)["rows"]] == ["small-1", ""]
        assert (await usage(state, port, "remove-price", "small*"))[1] == "no prices"
        code, _, said = await usage(state, port, "remove-price", "small*")
        assert (code, "there is no price of small*" in said) == (1, True)
        code, _, said = await usage(state, port, "set-price", "m", "--input", "0.0000001", "--output", "1")
        assert (code, "up to six decimals" in said) == (2, True)
