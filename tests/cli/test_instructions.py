"""`molecule instructions` as a person meets it."""

import json
from pathlib import Path

import pytest

from molecule_core.instructions.builtin_templates import BUILT_IN_VERSION
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


async def instructions(state: Path, port: int, *args: str) -> tuple[int, str, str]:
    """What the command says: exit code, standard output, standard error."""
    async with started(MOLECULE, "instructions", *args, env=environment(state, port)) as process:
        code = await process.ended()
        return code, (await process.output()).strip(), process.said.strip()


@requirement("I5", "I7", "I8")
async def test_a_person_lists_writes_tries_and_chooses_templates(state: Path, port: int, tmp_path: Path) -> None:
    draft, broken = tmp_path / "draft.txt", tmp_path / "broken.txt"
    draft.write_text("{{ kind }}: be brief, {kind}.\n")
    broken.write_text("fine\n{{ kind.upper }}\n")
    async with serving(state, port), client(port) as admin:
        await admin.post("/workspaces", {"name": "Ops", "runtime": "codex"})

        code, out, _ = await instructions(state, port, "list")
        assert code == 0
        assert out.splitlines()[1] == f"codex-default  version {BUILT_IN_VERSION}  built in  chosen by 0, default for 1"

        code, out, said = await instructions(state, port, "check", str(draft))
        assert (code, "valid; the instructions" in out) == (0, True)
        assert "warning: lines[0], line 1: {kind} is plain text" in said
        code, _, said = await instructions(state, port, "check", str(broken))
        assert (code, "lines[0], line 2: '.upper ' is not part of the language" in said) == (2, True)

        code, out, _ = await instructions(state, port, "set", "terse", str(draft), "--note", "shorter")
        assert (code, out) == (0, "terse version 1 is active")
        assert (await instructions(state, port, "set", "terse", str(draft), "--later"))[1] == "terse version 2 is saved"
        assert (await instructions(state, port, "restore", "terse", "2"))[1] == "terse version 2 is active"
        code, out, _ = await instructions(state, port, "show", "terse", "--versions")
        assert [line.split()[0] for line in out.splitlines()] == ["2", "1"] and out.endswith("shorter")

        code, out, _ = await instructions(state, port, "show", "terse")
        shown = json.loads(out)
        assert shown["parts"] == {"lines": ["{{ kind }}: be brief, {kind}."]}
        again = tmp_path / "again.json"
        again.write_text(out)
        assert (await instructions(state, port, "set", "terse", str(again)))[1] == "terse version 3 is active"

        assert (await instructions(state, port, "assign", "Ops", "terse"))[1] == "Ops uses terse version 3"
        code, out, said = await instructions(state, port, "preview", "Ops", "--kind", "peer_agent")
        assert code == 0 and "\npeer_agent: be brief, {kind}.\n" in out and "mcp__molecule.reply_to_workspace" in out
        assert said.startswith("(terse@3, full, about ")
        told = await instructions(state, port, "assign", "Ops", "--file", str(draft))
        assert "Ops uses workspace:" in told[1]
        assert (await instructions(state, port, "assign", "Ops", "--none"))[
            1
        ] == f"Ops uses codex-default version {BUILT_IN_VERSION}"

        code, _, said = await instructions(state, port, "assign", "Ops")
        assert (code, "exactly one of TEMPLATE_ID, --file and --none is required" in said) == (2, True)
        code, _, said = await instructions(state, port, "preview", "Nobody")
        assert (code, "workspace 'Nobody' does not exist" in said) == (2, True)
        code, _, said = await instructions(state, port, "list", "--org", "Nobody")
        assert (code, "organisation 'Nobody' does not exist" in said) == (2, True)
    code, _, said = await instructions(state, port, "list")
    assert (code, "no server responds at" in said) == (2, True)
