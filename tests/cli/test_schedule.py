"""`molecule schedule`: schedules are added, listed, shown, paused, resumed and removed."""

from pathlib import Path

from testing.ports import free_port
from testing.processes import MOLECULE, client, environment, serving, started
from tests.requirements import requirement


async def schedule(state: Path, port: int, *args: str) -> tuple[int, str, str]:
    """What the command prints: exit code, standard output, standard error."""
    async with started(MOLECULE, "schedule", *args, env=environment(state, port)) as process:
        code = await process.ended()
        return code, (await process.output()).strip(), process.said.strip()


@requirement("SC5")
async def test_a_schedule_is_added_listed_shown_paused_resumed_and_removed(tmp_path: Path) -> None:
    state, port = tmp_path / "state", free_port()
    async with serving(state, port), client(port) as admin:
        lead = await admin.post("/workspaces", {"name": "Lead"})
        await admin.post("/workspaces", {"name": "Ops", "parent_id": lead["id"]})
        assert await schedule(state, port, "list") == (0, "no schedules", "")
        when = ("--cron", "0 0 1 1 *", "--time-zone", "Europe/Berlin")
        task = ("--from", "Lead", "--to", "Ops", "--text", "Report.", "--delegate", "--deadline", "600")
        _, added, _ = await schedule(state, port, "add", "Yearly", *when, *task)
        schedule_id, first = added.splitlines()[0].removeprefix("created "), added.splitlines()[1]
        assert first.endswith("-01-01T00:00:00+01:00")
        _, listed, _ = await schedule(state, port, "list")
        assert listed.startswith(f"{schedule_id}  Yearly  delegate to Ops  0 0 1 1 * Europe/Berlin  next ")
        _, shown, _ = await schedule(state, port, "show", "Yearly")
        assert "acts for  Lead" in shown
        assert await schedule(state, port, "runs", "Yearly") == (0, "no runs", "")
        assert await schedule(state, port, "pause", "Yearly") == (0, f"paused {schedule_id}", "")
        assert await schedule(state, port, "next", "Yearly") == (0, "none: it is paused", "")
        code, resumed, _ = await schedule(state, port, "resume", "Yearly")
        assert (code, resumed.splitlines()[0]) == (0, f"resumed {schedule_id}")
        _, times, _ = await schedule(state, port, "next", "Yearly", "--count", "3")
        assert len(times.splitlines()) == 3
        code, _, error = await schedule(state, port, "add", "Bad", "--cron", "61 * * * *", "--to", "Ops", "--text", "x")
        assert (code, "cron is not a valid expression" in error) == (2, True)
        assert await schedule(state, port, "remove", schedule_id) == (0, f"removed {schedule_id}", "")
