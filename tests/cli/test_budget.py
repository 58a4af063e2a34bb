"""`molecule budget`: budgets are listed, set, changed and deleted, and what a turn leases is set."""

from pathlib import Path

from testing.ports import free_port
from testing.processes import MOLECULE, client, environment, serving, started
from tests.requirements import requirement


async def budget(state: Path, port: int, *args: str) -> tuple[int, str, str]:
    """What the command prints: exit code, standard output, standard error."""
    async with started(MOLECULE, "budget", *args, env=environment(state, port)) as process:
        code = await process.ended()
        return code, (await process.output()).strip(), process.said.strip()


@requirement("B2")
async def test_a_budget_is_set_changed_listed_and_deleted(tmp_path: Path) -> None:
    state, port = tmp_path / "state", free_port()
    async with serving(state, port), client(port) as admin:
        await admin.post("/workspaces", {"name": "Ops"})
        assert await budget(state, port, "list") == (0, "no budgets", "")
        _, created, _ = await budget(state, port, "set", "--team", "Ops", "--money", "12.5", "--per", "day")
        budget_id = created.removeprefix("created ")
        line = f"{budget_id}  subtree Ops: 0.00 spent, 0.00 leased of 12.50 per day  ok"
        assert await budget(state, port, "list") == (0, line, "")
        _, changed, _ = await budget(state, port, "set", "--team", "Ops", "--money", "20", "--per", "day")
        assert changed == f"changed {budget_id}"
        _, lease, _ = await budget(state, port, "lease", "Ops", "--money", "0.5", "--tokens", "1000")
        assert lease == "a turn leases 0.50 or 1,000 tokens"
        code, _, error = await budget(state, port, "set", "--team", "Ops", "--money", "much")
        assert (code, "'much' is not an amount" in error) == (2, True)
        assert await budget(state, port, "delete", budget_id) == (0, f"deleted {budget_id}", "")
