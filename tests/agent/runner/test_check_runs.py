"""Commands that check answers, on the machine of a runner: what they may be, what they find, and who gives it."""

import asyncio
import hashlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from molecule_core.agent.bridges.program_input import public_environment
from molecule_core.agent.config import ConfigurationError
from molecule_core.agent.runner.agent_files import RunnerAgentRecord
from molecule_core.agent.runner.check_runs import CheckRuns
from molecule_core.agent.runner.configuration import (
    CONFIGURATION_FILE,
    CheckCommand,
    RunnerConfiguration,
    load_runner_configuration,
)
from molecule_core.agent.runner.machine_runner import MachineRunner, RunnerOptions
from molecule_core.agent.runner.policy import AgentStart
from molecule_core.agent.runner.settings import RunnerSettings
from molecule_core.common.clock import SystemClock
from molecule_core.common.ids import SystemRandomness
from testing.running_server import running
from testing.waits import bounded, eventually
from tests.agent.bridges.bridge_process import bridging
from tests.requirements import requirement

SECONDS = 60
# Its first answer says done and delivers nothing; the second one does the work.
WORKER = r"""
import os, pathlib, sys
text = sys.stdin.read()
if "Needs work" in text and "total.txt is missing" in text:
    pathlib.Path("total.txt").write_text("42")
print("done")
"""
CHECK = "import pathlib, sys; sys.exit(0 if pathlib.Path('total.txt').exists() else 'total.txt is missing')"


def python(program: str, **more: Any) -> CheckCommand:
    """A command that runs a Python program."""
    return CheckCommand(argv=(sys.executable, "-c", program), **more)


def runs_of(place: Path, max_bytes: int = 1000, **checks: CheckCommand) -> CheckRuns:
    """The commands of a machine with one workspace, whose folder is `work`."""
    for name in ("state", "work"):
        (place / name).mkdir(exist_ok=True)
    configuration = RunnerConfiguration(checks=checks, check_folders={"shop": str(place / "work")})
    environment = public_environment(
        {**os.environ, "MOLECULE_RUNNER_TOKEN": "mol_ru_secret", "MOLECULE_WORKSPACE_TOKEN": "b"}
    )
    return CheckRuns(place / "state", configuration, environment, SystemClock(), max_bytes)


@requirement("D23")
async def test_an_exit_code_is_found_with_the_end_of_the_output_and_the_hash_of_all(tmp_path: Path) -> None:
    program = "import sys; print('x' * 5000); print('3 failed', file=sys.stderr); sys.exit(3)"
    found = (await bounded(runs_of(tmp_path, tests=python(program)).run("shop", "tests"))).check
    assert found is not None
    whole = b"x" * 5000 + b"\n3 failed\n"
    assert (found.exit_code, found.size, found.sha256) == (3, len(whole), hashlib.sha256(whole).hexdigest())
    assert found.output.endswith("3 failed\n")
    assert len(found.output) <= 1000


@requirement("D23")
async def test_a_command_runs_in_the_folder_of_the_agent_without_credentials(tmp_path: Path) -> None:
    program = "import json, os; print(json.dumps([os.getcwd(), sorted(os.environ)]))"
    found = (await bounded(runs_of(tmp_path, 100_000, tests=python(program)).run("shop", "tests"))).check
    assert found is not None
    folder, names = json.loads(found.output)
    assert folder == str(tmp_path / "work")
    assert not any(name.endswith("_TOKEN") for name in names)


@requirement("D23")
async def test_a_command_that_takes_too_long_is_killed_with_its_children(tmp_path: Path) -> None:
    program = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(600)'])"
    found = (await bounded(runs_of(tmp_path, tests=python(program, timeout=1)).run("shop", "tests"))).check
    assert found is not None
    assert found.exit_code != 0
    assert "ended after 1 seconds" in found.output


@requirement("D23")
@pytest.mark.parametrize(
    ("workspace", "name", "why"),
    [("shop", "build", "has no check 'build'"), ("other", "tests", "has no folder for this workspace")],
)
async def test_what_is_not_configured_is_not_run(tmp_path: Path, workspace: str, name: str, why: str) -> None:
    outcome = await runs_of(tmp_path, tests=python("")).run(workspace, name)
    assert (outcome.status, outcome.check) == ("failed", None)
    assert why in outcome.text


@requirement("D23")
async def test_a_program_that_does_not_exist_fails_with_the_reason(tmp_path: Path) -> None:
    outcome = await runs_of(tmp_path, tests=CheckCommand(argv=("/no/such/program",))).run("shop", "tests")
    assert (outcome.status, outcome.check) == ("failed", None)
    assert "/no/such/program" in outcome.text


def edit(tests: Path) -> None:
    """Edit a test."""
    (tests / "test_total.py").write_text("pass")


def remove(tests: Path) -> None:
    """Remove a test."""
    (tests / "test_total.py").unlink()


def add(tests: Path) -> None:
    """Add a file that changes how tests run."""
    (tests / "conftest.py").write_text("import os; os._exit(0)")


def replace_by_link(tests: Path) -> None:
    """Replace a test by a link to another file."""
    (tests / "test_total.py").unlink()
    (tests / "test_total.py").symlink_to("/dev/null")


@requirement("D23")
@pytest.mark.parametrize("lie", [edit, remove, add, replace_by_link])
async def test_files_that_must_not_change_are_compared_over_restarts(
    tmp_path: Path, lie: Callable[[Path], None]
) -> None:
    tests = tmp_path / "work" / "tests"
    tests.mkdir(parents=True)
    (tests / "test_total.py").write_text("assert total() == 42")
    check = python("", unchanged=("tests/**/*.py",))
    assert (await bounded(runs_of(tmp_path, tests=check).run("shop", "tests"))).status == "done"
    lie(tests)
    outcome = await bounded(runs_of(tmp_path, tests=check).run("shop", "tests"))  # the runner has started again
    assert (outcome.status, outcome.check) == ("failed", None)
    assert outcome.text.startswith("files that must not change have changed: tests/")


@requirement("D23")
async def test_other_files_may_change(tmp_path: Path) -> None:
    check = python("", unchanged=("tests/**/*.py",))
    runs = runs_of(tmp_path, tests=check)
    (tmp_path / "work" / "total.py").write_text("def total(): return 42")
    assert (await bounded(runs.run("shop", "tests"))).status == "done"


def test_a_damaged_baseline_is_not_taken_again_by_itself(tmp_path: Path) -> None:
    runs_of(tmp_path, tests=python("", unchanged=("*.py",)))
    (tmp_path / "state" / "checks.json").write_text("{")
    with pytest.raises(ConfigurationError, match="is damaged"):
        runs_of(tmp_path, tests=python("", unchanged=("*.py",)))


@pytest.mark.parametrize(
    "text",
    [
        "[checks.tests]\nargv = []",
        '[checks."a b"]\nargv = ["true"]',
        '[checks.tests]\nargv = ["true"]\nshell = true',
        '[check_folders]\nshop = "work"',
    ],
)
def test_a_configuration_that_is_not_valid_is_rejected(tmp_path: Path, text: str) -> None:
    (tmp_path / CONFIGURATION_FILE).write_text(text)
    with pytest.raises(ConfigurationError):
        load_runner_configuration(tmp_path)


@requirement("D23")
def test_an_agent_of_a_runner_does_not_get_the_token_that_confirms_its_checks(tmp_path: Path) -> None:
    options = RunnerOptions(
        url="http://127.0.0.1:1",
        token="mol_ru_secret",
        state=tmp_path,
        configuration=RunnerConfiguration(checks={"tests": python("")}),
        settings=RunnerSettings(),
        environment={"PATH": "/usr/bin", "MOLECULE_RUNNER_TOKEN": "mol_ru_secret"},
    )
    runner = MachineRunner(options, clock=SystemClock(), randomness=SystemRandomness())
    record = RunnerAgentRecord(
        "01a31840-7b3f-7c11-9a44-5f0d6f2d9a10", "Shop", AgentStart("claude", str(tmp_path), "manual")
    )
    assert "mol_ru_secret" not in str(runner._environment(record))
    assert "mol_ru_secret" not in str(runner._command(record.start))


@pytest.mark.long
@requirement("D23")
async def test_a_task_with_a_command_fails_once_and_completes_on_the_second_answer(tmp_path: Path) -> None:
    """A real bridge and a real runner; no one does anything after the task is given."""
    state, work = tmp_path / "state", tmp_path / "work"
    state.mkdir()
    work.mkdir()
    async with running("sqlite", str(tmp_path / "molecule.db"), tmp_path / "server") as server:
        org_id = (await server.admin.get("/orgs"))[0]["id"]
        lead = await server.seat("Lead")
        ops = await server.seat("Ops", parent_id=lead.id)
        runner = await server.admin.post(f"/orgs/{org_id}/runners", {"name": "Laptop"})
        configuration = RunnerConfiguration(checks={"tests": python(CHECK)}, check_folders={ops.id: str(work)})
        options = RunnerOptions(
            url=server.url,
            token=runner["token"],
            state=state,
            configuration=configuration,
            settings=RunnerSettings(),
            environment=public_environment(os.environ),
        )
        task = asyncio.create_task(MachineRunner(options, clock=SystemClock(), randomness=SystemRandomness()).run())
        try:
            async with bridging(server, ops, work, WORKER):

                async def offered() -> object:
                    return (await server.admin.get(f"/orgs/{org_id}/runners"))[0]["checks"]

                await eventually(offered, bool, SECONDS)
                accept = [{"type": "command", "name": "tests"}]
                body = {"target_id": ops.id, "task": "write the total", "accept": accept, "rounds": 1}
                begun = await lead.api.post(f"/workspaces/{lead.id}/delegate", body)

                async def status() -> str:
                    found = await lead.api.get(f"/delegations/{begun['delegation_id']}")
                    return str(found["delegation"]["status"])

                assert await eventually(status, lambda each: each in ("completed", "failed"), SECONDS) == "completed"
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        found = await lead.api.get(f"/delegations/{begun['delegation_id']}")
        evidence = found["acceptance"]["evidence"]
        assert [(each["outcome"], each["exit_code"], each["by"]) for each in evidence] == [
            ("failed", 1, "Laptop"),
            ("passed", 0, "Laptop"),
        ]
        assert evidence[0]["output"] == "total.txt is missing\n"
        assert (work / "total.txt").read_text() == "42"
