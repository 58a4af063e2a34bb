"""What a person mistypes or forgets is one line that says what to do, with an exit code, and never a traceback."""

from pathlib import Path

import pytest

from proofs.harness.ports import free_port
from tests.elsewhere import other_server
from tests.journeys.processes import MOLECULE, environment, started
from tests.requirements import requirement

AGENT = {"WORKSPACE_ID": "w-1", "MOLECULE_WORKSPACE_TOKEN": "a-token"}
HERE = {"PLATFORM_URL": "http://127.0.0.1:9"}


async def refused(folder: Path, *args: str, **env: str) -> tuple[int, str]:
    """The exit code of a command that does nothing, and the line that it says."""
    own = environment(folder / "state", free_port(), HOME=str(folder), **env)
    async with started(MOLECULE, *args, env=own) as process:
        code = await process.ended()
        out, (line,) = await process.output(), process.said.splitlines()
    assert out == "" and line.startswith("molecule")
    return code, line


@requirement("O1")
@pytest.mark.parametrize("body", ["<p>hello</p>", '{"hello": "world"}', "[1]"])
@pytest.mark.parametrize("args", [("threads", "list"), ("approvals", "list")])
async def test_another_web_server_at_the_agents_address_is_told(tmp_path: Path, args: tuple[str, ...], body: str) -> None:
    async with other_server("200 OK", body=body) as other:
        code, line = await refused(tmp_path, *args, **AGENT, PLATFORM_URL=other.url)
    assert (code, f"{other.url} is no Molecule server" in line, "PLATFORM_URL" in line) == (2, True, True)
