"""`molecule org` as a person meets it: plan, apply and export beside a server that runs."""

import stat
import tomllib
from pathlib import Path

import pytest

from molecule_core.client.org_file import parse_org_file
from testing.ports import free_port
from testing.processes import MOLECULE, client, environment, serving, started
from tests.requirements import requirement

COMPANY = """
name = "Acme"

[[seat]]
name = "Lead"
key = "lead"
role = "leads"

[[seat.seat]]
name = "Dev"
runtime = "codex"
tier = 2
broadcast_enabled = true

[[seat]]
name = "Desk"
"""


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state folder that is not there yet."""
    return tmp_path / "state"


@pytest.fixture
def port() -> int:
    """A port for a server."""
    return free_port()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A company as a file."""
    path = tmp_path / "company.toml"
    path.write_text(COMPANY)
    return path


async def org(state: Path, port: int, *args: str | Path, **env: str) -> tuple[int, str, str]:
    """What the command says: exit code, standard output, standard error."""
    async with started(MOLECULE, "org", *map(str, args), env=environment(state, port, **env)) as process:
        code = await process.ended()
        return code, await process.output(), process.said


@requirement("M6", "O1")
async def test_a_file_is_planned_applied_and_written_down_again(
    state: Path, port: int, file: Path, tmp_path: Path
) -> None:
    tokens = tmp_path / "tokens"
    async with serving(state, port), client(port) as admin:
        code, out, _ = await org(state, port, "plan", file)
        assert (code, out.splitlines()[0], out.splitlines()[-1]) == (
            2,
            "+ organisation Acme",
            "3 to create, 0 to change, 0 to move, 0 to remove",
        )
        assert [each["name"] for each in await admin.get("/orgs")] == ["Default"]

        code, out, err = await org(state, port, "apply", file, "--tokens-dir", tokens)
        assert (code, err) == (0, "")
        assert out.endswith("The organisation matches the file.\n")
        assert "mol_ws_" not in out
        assert (await org(state, port, "plan", file))[:2] == (0, "No changes.\n")
        code, out, _ = await org(state, port, "apply", file)
        assert (code, out) == (0, "The organisation matches the file.\n")

        acme = next(each for each in await admin.get("/orgs") if each["name"] == "Acme")
        rows = {row["name"]: row for row in await admin.get("/workspaces", org_id=acme["id"])}
        assert stat.S_IMODE(tokens.stat().st_mode) == 0o700
        assert {each.name for each in tokens.iterdir()} == {f"{row['id']}.token" for row in rows.values()}
        kept = tokens / f"{rows['Dev']['id']}.token"
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        async with client(port, kept.read_text().strip()) as agent:
            assert (await agent.get(f"/workspaces/{rows['Dev']['id']}"))["broadcast_enabled"] is True

        code, exported, _ = await org(state, port, "export", "--org", "Acme")
        assert (code, parse_org_file(exported)) == (0, parse_org_file(COMPANY))
        assert "mol_" not in exported
        assert tomllib.loads(exported)["seat"][0]["key"] == "lead"


@requirement("M6", "O3")
async def test_without_a_folder_a_token_is_shown_this_once(state: Path, port: int, file: Path) -> None:
    async with serving(state, port) as server:
        _, out, _ = await org(state, port, "apply", file)
        shown = [line.split(": ")[1] for line in out.splitlines() if line.startswith("  token of ")]
        assert len(shown) == 3
        assert "token of Lead / Dev, shown only once" in out
        async with client(port, shown[0]) as agent:
            assert (await agent.get("/openapi.json"))["openapi"]
        assert not any(token in server.said for token in shown)


@requirement("M6")
async def test_removals_need_a_yes_where_nobody_can_be_asked(state: Path, port: int, file: Path) -> None:
    async with serving(state, port), client(port) as admin:
        await org(state, port, "apply", file)
        file.write_text('name = "Acme"\n[[seat]]\nname = "Boss"\nkey = "lead"\nrole = "leads"\n')
        code, out, _ = await org(state, port, "plan", file)
        assert code == 2
        assert out.splitlines() == [
            "~ Lead: name 'Lead' -> 'Boss'",
            "- Lead / Dev",
            "- Desk",
            "0 to create, 1 to change, 0 to move, 2 to remove",
        ]
        code, _, err = await org(state, port, "apply", file)
        assert (code, err) == (
            1,
            "molecule: the command failed: 2 workspaces would be removed. To confirm, run this again with --yes.\n",
        )
        acme = next(each for each in await admin.get("/orgs") if each["name"] == "Acme")
        assert len(await admin.get("/workspaces", org_id=acme["id"])) == 3
        code, out, _ = await org(state, port, "apply", file, "--yes")
        assert code == 0
        assert [row["name"] for row in await admin.get("/workspaces", org_id=acme["id"])] == ["Boss"]


@requirement("M6", "M7")
async def test_an_owner_uses_a_token_of_their_own(state: Path, port: int, file: Path) -> None:
    async with serving(state, port), client(port) as admin:
        acme = await admin.post("/orgs", {"name": "Acme"})
        made = await admin.post(f"/orgs/{acme['id']}/people", {"name": "Ada", "role": "owner"})
        token = {"MOLECULE_TOKEN": made["auth_token"], "MOLECULE_ADMIN_TOKEN": ""}
        address = f"http://127.0.0.1:{port}"
        assert (await org(state, port, "apply", file, "--url", address, **token))[0] == 0
        code, out, _ = await org(state, port, "export", "--url", address, **token)
        assert (code, parse_org_file(out)) == (0, parse_org_file(COMPANY))
        code, _, err = await org(state, port, "plan", file, "--org", "Default", "--url", address, **token)
        assert (code, "this token is for 'Acme', not for 'Default'" in err) == (1, True)


@requirement("M6", "O1")
async def test_what_goes_wrong_is_one_line_and_no_difference(state: Path, port: int, file: Path) -> None:
    async def line(*args: str | Path, **env: str) -> str:
        code, out, err = await org(state, port, *args, **env)
        assert (code, out, len(err.splitlines())) == (1, "", 1), (out, err)
        assert err.startswith("molecule: the command failed: ")
        return err

    assert "no server responds" in await line("plan", file)
    assert "cannot be read" in await line("plan", file.with_name("nothing.toml"))
    assert "MOLECULE_TOKEN" in await line("plan", file, MOLECULE_ADMIN_TOKEN="")
    file.write_text("name = 1")
    assert "cannot be used" in await line("apply", file)
    async with serving(state, port):
        assert "organisation 'No such' does not exist" in await line("export", "--org", "No such")
        assert "401" in await line("export", MOLECULE_ADMIN_TOKEN="x" * 40)


@requirement("SC5")
async def test_schedules_of_a_file_are_planned_applied_exported_and_removed(
    state: Path, port: int, file: Path, tmp_path: Path
) -> None:
    file.write_text(
        COMPANY
        + """
[[schedules]]
name = "Books"
from = "Lead"
to = "Lead / Dev"
cron = "0 6 1 * *"
time_zone = "Europe/Berlin"
action = "delegate"
text = "Close the \\"books\\"."
accept = [{type = "text", contains = "closed"}]
misses = "once"

[[schedules]]
name = "Launch"
to = "Desk"
once = "2090-03-01T09:00:00+01:00"
text = "Publish."
paused = true
"""
    )
    async with serving(state, port), client(port):
        code, said, error = await org(state, port, "apply", file, "--tokens-dir", tmp_path / "tokens")
        assert (code, "+ schedule Books\n+ schedule Launch\n" in said, error) == (0, True, "")
        assert (await org(state, port, "plan", file))[:2] == (0, "No changes.\n")
        code, exported, _ = await org(state, port, "export", "--org", "Acme")
        found, wanted = (parse_org_file(text).schedules or () for text in (exported, file.read_text()))
        assert found[0] == wanted[0]
        assert (found[1].once, found[1].paused) == ("2090-03-01T08:00:00+00:00", True)
        file.write_text(file.read_text().replace("Europe/Berlin", "UTC"))
        code, said, _ = await org(state, port, "plan", file)
        assert (code, said) == (2, "~ schedule Books\n")
        assert (await org(state, port, "apply", file))[0] == 0
        file.write_text(COMPANY.replace('name = "Acme"', 'name = "Acme"\nschedules = []'))
        code, _, error = await org(state, port, "apply", file)
        assert (code, "schedules would be removed: Books, Launch" in error) == (1, True)
        assert (await org(state, port, "apply", file, "--yes"))[0] == 0
        # A file without the member leaves them alone.
        file.write_text(COMPANY)
        assert (await org(state, port, "plan", file))[:2] == (0, "No changes.\n")
