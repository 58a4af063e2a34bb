"""`molecule connect` as a person meets it: a seat, a token in a file of its own, a configuration, and the agent."""

import contextlib
import hashlib
import json
import os
import shlex
import stat
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from molecule_core.client.host_config_edit import add_workspace
from molecule_core.tools.host_config import HOSTS, HostWorkspace, find_host
from testing.connect_home import Home
from testing.ports import free_port
from testing.processes import client, serving
from testing.waits import PROCESS_START_SECONDS
from tests.requirements import requirement

FILES = {
    "claude-code": "project/.mcp.json",
    "codex": ".codex/config.toml",
    "cursor": ".cursor/mcp.json",
    "gemini": ".gemini/settings.json",
    "opencode": ".config/opencode/opencode.json",
    "cline": ".cline/data/settings/cline_mcp_settings.json",
}


@pytest.fixture
def port() -> int:
    """A port for a server."""
    return free_port()


@pytest.fixture
def home(tmp_path: Path, port: int) -> Home:
    """A person on the machine of that server."""
    return Home(tmp_path, tmp_path / "state", port)


def check_one_line(said: tuple[int, str, str], *words: str) -> None:
    """A refusal as a person should see it."""
    code, out, err = said
    assert (code, out) == (2, ""), said
    assert err.startswith("molecule: the command failed: ")
    assert len(err.splitlines()) == 1
    assert [word for word in words if word not in err] == [], err


# -- printed -----------------------------------------------------------------------------------------------------------


@requirement("G24", "O3")
async def test_for_every_host_the_configuration_alone_is_printed_and_the_token_is_in_its_file(
    home: Home, port: int
) -> None:
    async with serving(home.state, port), client(port) as admin:
        for host in HOSTS:
            said = await home.connect(host.name, "--workspace", "Ops", "--create")
            assert said.code == 0, said
            assert "mol_" not in said.out + said.err
            if host.name == "codex":
                entry = tomllib.loads(said.out)["mcp_servers"]["molecule"]
                assert (entry["command"], entry["args"]) == (str(home.launcher), ["mcp"])
            elif host.name == "claude-code":
                words = shlex.split(said.err.split("command: ")[1].splitlines()[0])
                assert words[:4] == ["claude", "mcp", "add-json", "molecule"]
                assert json.loads(words[4]) == json.loads(said.out)["mcpServers"]["molecule"]
            elif host.entry_path:
                assert "molecule" in json.loads(said.out)[host.entry_path[0]]
        (seat,) = await admin.get("/workspaces")
        assert (seat["name"], seat["runtime"]) == ("Ops", "claude-code")
        assert home.files() == {}
        for host in HOSTS:
            file = home.agents / f"{seat['id']}.{host.name}.token"
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
            async with client(port, file.read_text().strip()) as agent:
                assert (await agent.get(f"/workspaces/{seat['id']}"))["name"] == "Ops"
        assert stat.S_IMODE(home.agents.stat().st_mode) == 0o700
        assert len(await admin.get(f"/workspaces/{seat['id']}/tokens")) == len(HOSTS)


@requirement("G24")
async def test_the_environment_of_an_agent_is_printed_for_a_shell(home: Home, port: int) -> None:
    async with serving(home.state, port), client(port) as admin:
        said = await home.connect("env", "--workspace", "Ops", "--create")
        assert said.code == 0, said
        words = [shlex.split(line) for line in said.out.splitlines()]
        assert [word for word, _ in words] == ["export"] * 3
        variables = dict(each.split("=", 1) for _, each in words)
        (workspace,) = await admin.get("/workspaces")
        assert (variables["WORKSPACE_ID"], workspace["runtime"]) == (workspace["id"], "generic-mcp")
        assert variables["PLATFORM_URL"] == f"http://127.0.0.1:{port}"
        async with client(port, Path(variables["MOLECULE_WORKSPACE_TOKEN_FILE"]).read_text().strip()) as agent:
            assert (await agent.get(f"/workspaces/{workspace['id']}"))["name"] == "Ops"
        check_one_line(await home.connect("env", "--workspace", "Ops", "--apply"), "--apply")


@requirement("G24")
async def test_a_seat_is_found_by_name_or_id_and_made_below_another_one(home: Home, port: int) -> None:
    async with serving(home.state, port), client(port) as admin:
        lead = await admin.post("/workspaces", {"name": "Lead"})
        made = await home.connect("codex", "--workspace", "Dev", "--create", "--parent", "Lead")
        assert made.code == 0, made
        dev = next(each for each in await admin.get("/workspaces") if each["name"] == "Dev")
        assert (dev["parent_id"], dev["runtime"], dev["external"]) == (lead["id"], "codex", True)
        assert (await home.connect("codex", "--workspace", dev["id"])).out == made.out
        assert len(await admin.get("/workspaces")) == 2

        check_one_line(await home.connect("codex", "--workspace", "Nobody"), "'Nobody'", "Dev, Lead", "--create")
        check_one_line(await home.connect("codex"), "--workspace")
        await admin.post("/workspaces", {"name": "Dev"})
        check_one_line(await home.connect("codex", "--workspace", "Dev"), "Lead / Dev is " + dev["id"])
        check_one_line(await home.connect("codex", "--workspace", "New", "--create", "--parent", "Boss"), "'Boss'")
        check_one_line(await home.connect("codex", "--workspace", "Dev", "--org", "None"), "'None'", "Default")


@requirement("G24")
async def test_two_workspaces_go_into_one_entry_of_the_host(home: Home, port: int) -> None:
    async with serving(home.state, port):
        for name in ("One", "Two"):
            assert (await home.connect("cursor", "--workspace", name, "--create", "--apply")).code == 0
        (entry,) = home.read(FILES["cursor"])["mcpServers"].values()
        listed = json.loads(entry["env"]["MOLECULE_WORKSPACES"])
        assert [set(each) for each in listed] == [{"id", "token_file", "platform_url"}] * 2
        assert all(os.access(each["token_file"], os.R_OK) for each in listed)
        printed = await home.connect("cursor", "--workspace", "Three", "--create")
        assert len(json.loads(json.loads(printed.out)["mcpServers"]["molecule"]["env"]["MOLECULE_WORKSPACES"])) == 3
        assert len(json.loads(entry["env"]["MOLECULE_WORKSPACES"])) == 2


# -- applied, and back -------------------------------------------------------------------------------------------------


SETTINGS = "project/.claude/settings.local.json"
OWN = {
    "claude-code": '{\n  "mcpServers": {"files": {"command": "f"}}\n}\n',
    "codex": '# mine\nmodel = "x" # dear\n\n[mcp_servers.files]\ncommand = "f"\n',
    "cursor": '{"mcpServers":{}}',
    "gemini": '{\r\n\t"theme": "dark"\r\n}',
    "opencode": '// mine\n{\n    "model": "x", // dear\n}\n',
    "cline": "",
}


@requirement("G24")
async def test_what_was_applied_once_or_twice_is_undone_to_the_byte_and_its_token_ends(home: Home, port: int) -> None:
    async with serving(home.state, port), client(port) as admin:
        seat = await admin.post("/workspaces", {"name": "Ops"})
        for host, text in OWN.items():
            file = home.folder / FILES[host]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text.encode())
            file.chmod(0o640)
        before = home.files()
        for host in OWN:
            args = (host, "--workspace", "Ops", "--apply")
            once = await home.connect(*args)
            assert once.code == 0, once
            file = home.folder / FILES[host]
            applied = file.read_bytes()
            assert b"mol_ws_" not in applied
            assert stat.S_IMODE(file.stat().st_mode) == 0o640
            twice = await home.connect(*args)
            assert "the host is configured already" in twice.err
            assert file.read_bytes() == applied
            (copy,) = file.parent.glob(f"{file.name}.before-molecule-*")
            assert (copy.read_bytes(), stat.S_IMODE(copy.stat().st_mode)) == (before[FILES[host]], 0o640)
        assert len(await admin.get(f"/workspaces/{seat['id']}/tokens")) == 1 + len(OWN)
        for host in OWN:
            said = await home.connect(host, "--undo")
            assert (said.code, "restored" in said.err, "revoked" in said.err) == (0, True, True), said
        assert home.files() == before
        assert list(home.agents.iterdir()) == []
        assert len(await admin.get(f"/workspaces/{seat['id']}/tokens")) == 1
        check_one_line(await home.connect("codex", "--undo"), "nothing", "undo")


@requirement("G24")
async def test_files_and_folders_that_were_not_there_are_gone_again(home: Home, port: int) -> None:
    async with serving(home.state, port):
        for host in FILES:
            assert (await home.connect(host, "--workspace", "Ops", "--create", "--apply")).code == 0
        backup = next(name for name in home.files() if "before-molecule" in name)
        assert sorted(home.files()) == sorted([*FILES.values(), SETTINGS, backup])
        settings = home.read(SETTINGS)
        assert settings["permissions"] == {"allow": ["mcp__molecule"]}
        assert settings["enabledMcpjsonServers"] == ["molecule"]
        assert set(settings["hooks"]) == {
            "SessionStart",
            "UserPromptSubmit",
            "PermissionRequest",
            "PostToolUse",
            "Stop",
        }
        for host in FILES:
            assert (await home.connect(host, "--undo")).code == 0
        assert home.files() == {}
        assert [each.name for each in home.folder.iterdir() if each.is_dir()] == ["project"]


@requirement("G24")
async def test_each_file_is_reported_once_and_the_folder_to_start_in_is_named(home: Home, port: int) -> None:
    async with serving(home.state, port):
        args = ("claude-code", "--workspace", "Ops", "--create", "--apply", "--hooks")
        applied = await home.run("connect", *args, "--wait", "1", PATH="/usr/bin:/bin")
        undone = await home.connect("claude-code", "--undo")
    entry, settings = home.project / ".mcp.json", home.folder / SETTINGS
    lines = applied.err.splitlines()
    what = "the permission to use the tools of Molecule and the Molecule hooks"
    assert f"{entry}: added the Molecule server (the file is new)" in lines
    assert [line for line in lines if line.startswith(str(settings))] == [f"{settings}: added {what} (the file is new)"]
    assert f"Start Claude Code in {home.project}." in lines
    assert any(line.startswith("There is no `claude` on the PATH of this shell.") for line in lines)
    deleted = "deleted, since it did not exist before"
    assert sorted(undone.err.splitlines())[:2] == [f"{settings}: {deleted}", f"{entry}: {deleted}"]
    assert len(undone.err.splitlines()) == 3


@requirement("G24")
async def test_hooks_can_be_left_out(home: Home, port: int) -> None:
    async with serving(home.state, port):
        args = ("claude-code", "--workspace", "Ops", "--create", "--apply", "--no-hooks")
        assert (await home.connect(*args)).code == 0
        assert set(home.read(SETTINGS)) == {"permissions", "enabledMcpjsonServers"}
        assert (await home.connect("codex", "--workspace", "Ops", "--no-hooks")).code == 0


@requirement("G24")
async def test_what_somebody_changed_since_stays_and_only_ours_is_taken_out(home: Home, port: int) -> None:
    file = home.project / ".mcp.json"
    async with serving(home.state, port):
        for name in ("One", "Two"):
            assert (await home.connect("claude-code", "--workspace", name, "--create", "--apply", "--hooks")).code == 0
        text = file.read_text().replace('{\n  "mcpServers"', '{\n  "other": true,\n  "mcpServers"')
        file.write_text(text)
        said = await home.connect("claude-code", "--undo")
        assert "only the Molecule server was removed" in said.err
        left = home.read("project/.mcp.json")
        assert (left["other"], "WORKSPACE_ID" in left["mcpServers"]["molecule"]["env"]) == (True, True)
        said = await home.connect("claude-code", "--undo")
        assert said.code == 0
        assert home.read("project/.mcp.json") == {"other": True, "mcpServers": {}}
        assert list(home.files()) == ["project/.mcp.json"]


@requirement("G24")
async def test_entries_of_an_earlier_version_are_replaced_in_every_file_and_undo_stays_exact(
    home: Home, port: int
) -> None:
    async with serving(home.state, port):
        for host in FILES:
            assert (await home.connect(host, "--workspace", "Ops", "--create", "--apply")).code == 0
        today = home.files()
        book = home.agents / "applied.json"
        edits = json.loads(book.read_text())
        workspace = HostWorkspace(edits[0]["workspace_id"], f"http://127.0.0.1:{port}", edits[0]["token_file"])
        for edit in edits:  # as the release before wrote it
            file, known = Path(edit["file"]), find_host(edit["host"])
            assert known is not None
            text = file.read_text()
            earlier = text.replace(f"{home.launcher} ", "/opt/python -m molecule_core ")
            if edit["what"] == "our entry":
                named = msgspec.structs.replace(workspace, token_file=edit["token_file"])
                earlier = add_workspace(known, earlier, ("/opt/python", "-m", "molecule_core", "mcp"), named)
            file.write_text(earlier)
            if edit["after"] == hashlib.sha256(text.encode()).hexdigest():
                edit["after"] = hashlib.sha256(earlier.encode()).hexdigest()
        book.write_text(json.dumps(edits))
        assert str(home.launcher).encode() not in b"".join(home.files()[name] for name in (*FILES.values(), SETTINGS))

        said = await home.connect("cline", "--workspace", "Ops", "--apply")

        assert said.code == 0, said
        # Not in the file that was applied, but in that of the hooks too.
        assert said.err.count("replaced the command of an earlier version") == len(FILES)
        assert {name: shapes(text) for name, text in home.files().items() if "before-molecule" not in name} == {
            name: shapes(text) for name, text in today.items() if "before-molecule" not in name
        }
        for host in (*FILES, "cline"):
            assert (await home.connect(host, "--undo")).code == 0
        assert home.files() == {}


def shapes(text: bytes) -> Any:
    """What a configuration says, however it is written."""
    with contextlib.suppress(ValueError):
        return json.loads(text)
    return tomllib.loads(text.decode())


@requirement("G24")
async def test_a_link_of_somebodys_dotfiles_stays_a_link(home: Home, port: int) -> None:
    kept = home.folder / "dotfiles.toml"
    kept.write_text(OWN["codex"])
    link = home.folder / FILES["codex"]
    link.parent.mkdir()
    link.symlink_to(kept)
    async with serving(home.state, port):
        assert (await home.connect("codex", "--workspace", "Ops", "--create", "--apply")).code == 0
        assert link.is_symlink()
        assert "molecule" in tomllib.loads(kept.read_text())["mcp_servers"]
        assert (await home.connect("codex", "--undo")).code == 0
        assert (link.is_symlink(), kept.read_text()) == (True, OWN["codex"])


@requirement("G24")
async def test_a_file_that_cannot_be_read_is_left_alone_before_anything_is_made(home: Home, port: int) -> None:
    async with serving(home.state, port), client(port) as admin:
        (home.project / ".mcp.json").write_text('{"mcpServers": ')
        said = await home.connect("claude-code", "--workspace", "Ops", "--create", "--apply")
        check_one_line(said, ".mcp.json", "cannot be edited", "line 1")
        assert await admin.get("/workspaces") == []
        assert (home.project / ".mcp.json").read_text() == '{"mcpServers": '
        assert not home.agents.exists()


@requirement("G24")
async def test_claude_code_can_be_connected_for_all_of_a_persons_projects(home: Home, port: int) -> None:
    (home.folder / ".claude.json").write_text('{"numStartups": 3}')
    async with serving(home.state, port):
        args = ("claude-code", "--workspace", "Ops", "--create", "--apply", "--hooks", "--scope", "user")
        assert (await home.connect(*args)).code == 0
        assert list(home.read(".claude.json")) == ["numStartups", "mcpServers"]
        settings = home.read(".claude/settings.json")
        assert settings["permissions"] == {"allow": ["mcp__molecule"]}
        assert "enabledMcpjsonServers" not in settings
        hooks = settings["hooks"]
        assert str(home.folder / ".claude.json") in hooks["SessionStart"][0]["hooks"][0]["command"]
        assert (await home.connect("claude-code", "--undo", "--scope", "user")).code == 0
        assert home.files() == {".claude.json": b'{"numStartups": 3}'}


# -- with the seat's own token -----------------------------------------------------------------------------------------


@requirement("G24", "O3")
async def test_where_nobody_is_owner_the_seats_own_token_is_asked_for_and_never_shown(home: Home, port: int) -> None:
    async with serving(home.state, port) as server, client(port) as admin:
        seat = await admin.post("/workspaces", {"name": "Ops"})
        token = seat["connection"]["auth_token"]
        args = ("codex", "--workspace", seat["id"], "--server", f"http://127.0.0.1:{port}", "--own-token", "--apply")
        said = await home.connect(*args, told=f"{token}\n", MOLECULE_ADMIN_TOKEN="")
        assert said.code == 0, said
        assert token not in said.out + said.err + server.said
        assert (home.agents / f"{seat['id']}.codex.token").read_text().strip() == token
        check_one_line(
            await home.connect(*args, told="mol_ws_wrong\n", MOLECULE_ADMIN_TOKEN=""), "cannot be used for workspace"
        )
        check_one_line(await home.connect(*args, MOLECULE_ADMIN_TOKEN=""), "no token was given")
        owner = await home.connect("codex", "--workspace", "Ops", MOLECULE_ADMIN_TOKEN="")
        check_one_line(owner, "MOLECULE_TOKEN", "--own-token")


# -- seen --------------------------------------------------------------------------------------------------------------


@requirement("G24")
async def test_it_waits_until_the_agent_is_seen_and_says_how_many_tools_it_has(home: Home, port: int) -> None:
    wait = str(int(PROCESS_START_SECONDS))
    async with serving(home.state, port), client(port) as admin:
        args = ("connect", "curl", "--workspace", "Ops", "--create", "--wait", wait)
        async with home.running(*args) as process:
            await process.says("waiting")
            (seat,) = await admin.get("/workspaces")
            token = (home.agents / f"{seat['id']}.curl.token").read_text().strip()
            async with client(port, token) as agent:
                await agent.post("/registry/register", {"id": seat["id"], "agent_card": {"name": "C", "tools": 11}})
            assert await process.ended() == 0
            assert process.said.endswith("connected, 11 tools\n")


@requirement("G24")
async def test_a_process_of_another_host_is_not_the_one_that_was_connected(home: Home, port: int) -> None:
    async with serving(home.state, port), client(port) as admin:
        assert (await home.connect("curl", "--workspace", "Ops", "--create")).code == 0
        (ops,) = await admin.get("/workspaces")
        token = (home.agents / f"{ops['id']}.curl.token").read_text().strip()
        async with client(port, token) as other:
            await other.post("/registry/register", {"id": ops["id"], "agent_card": {"name": "Other", "tools": 31}})
            said = await home.run("connect", "codex", "--workspace", "Ops", "--apply", "--wait", "1")
            assert said.code == 3
            assert "Not yet connected: Codex has not started the server within 1 s" in said.err
            async with home.running("connect", "curl", "--workspace", "Ops", "--wait", "1") as again:
                assert await again.ended() == 3, again.said


@requirement("G24")
async def test_a_server_that_starts_anew_meanwhile_does_not_end_the_waiting(home: Home, port: int) -> None:
    args = ("connect", "curl", "--workspace", "Ops", "--create", "--wait", str(int(PROCESS_START_SECONDS)))
    async with contextlib.AsyncExitStack() as stack:
        async with serving(home.state, port) as first, client(port) as admin:
            process = await stack.enter_async_context(home.running(*args))
            await process.says("waiting")
            (seat,) = await admin.get("/workspaces")
            await first.kill()
        async with serving(home.state, port):
            token = (home.agents / f"{seat['id']}.curl.token").read_text().strip()
            async with client(port, token) as agent:
                await agent.post("/registry/register", {"id": seat["id"], "agent_card": {"name": "C"}})
            assert await process.ended() == 0
    assert process.said.splitlines()[-1].startswith("connected")


@requirement("G24", "O1")
async def test_a_token_that_ends_while_it_waits_is_said_in_one_line(home: Home, port: int) -> None:
    args = ("connect", "curl", "--workspace", "Ops", "--create", "--wait", str(int(PROCESS_START_SECONDS)))
    async with serving(home.state, port), client(port) as admin, home.running(*args) as process:
        await process.says("waiting")
        (seat,) = await admin.get("/workspaces")
        await admin.post(f"/workspaces/{seat['id']}/external/rotate")
        assert await process.ended() == 2
        assert "the host is configured, but the server rejects its token" in process.said.splitlines()[-1]
        assert "Traceback" not in process.said


@requirement("G24")
async def test_who_does_not_come_in_time_is_said_with_an_exit_code_of_its_own(home: Home, port: int) -> None:
    async with serving(home.state, port):
        said = await home.run("connect", "curl", "--workspace", "Ops", "--create", "--wait", "1")
        assert said.code == 3
        assert "Not yet connected: curl has not started" in said.err


@requirement("G24", "O1")
async def test_what_does_not_fit_is_one_line(home: Home, port: int) -> None:
    check_one_line(await home.connect("codex", "--workspace", "Ops"), "no server responds", "--server")
    check_one_line(await home.connect("codex", "--workspace", "Ops", "--hooks"), "Codex", "--hooks")
    check_one_line(await home.connect("curl", "--workspace", "Ops", "--apply"), "curl", "--apply")
    async with serving(home.state, port):
        refused = await home.connect("codex", "--workspace", "Ops", MOLECULE_ADMIN_TOKEN="x" * 40)
        check_one_line(refused, "invalid")


# -- the host is asked -------------------------------------------------------------------------------------------------


async def asked(home: Home, program: str, seconds: str = "60") -> tuple[int, str]:
    """`molecule connect codex --apply` on a machine whose `codex` is this shell program."""
    folder = home.folder / "programs"
    folder.mkdir(exist_ok=True)
    (folder / "codex").write_text(f"#!/bin/sh\n{program}\n")
    (folder / "codex").chmod(0o755)
    args = ("codex", "--workspace", "Ops", "--create", "--apply", "--host-seconds", seconds)
    said = await home.connect(*args, PATH=f"{folder}:{os.environ['PATH']}")
    return said.code, said.err.splitlines()[-1]


@requirement("G24")
async def test_what_the_installed_host_says_of_the_server_is_printed(home: Home, port: int) -> None:
    lists = (
        'echo "$@" $(basename "$PWD"); printf "Name  Status\\n\\033[1m  \\342\\234\\223 molecule \\033[0m enabled\\n"'
    )
    async with serving(home.state, port):
        assert await asked(home, lists) == (0, "Codex lists it: ✓ molecule  enabled")
        for broken in ("echo 'Error: line 3: url is not supported' >&2; exit 1", "echo 'No servers: molecules'"):
            code, line = await asked(home, broken)
            assert code == 2
            assert "Codex does not list the server (codex mcp list ended with" in line
            assert "url is not supported" in line or "No servers: molecules" in line
            assert "--undo" in line
        code, line = await asked(home, "sleep 600 & wait", "1")
        assert (code, "lists it" in line) == (0, False)
