"""`molecule ls`, `say`, `waiting`, `workspace`, `people` and `settings`: what an operator does from a shell."""

import json
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from molecule_core.client.api import ApiError
from testing.ports import free_port
from testing.processes import LISTENS, MOLECULE, client, environment, serving, started
from testing.running_server import ADMIN_TOKEN
from tests.requirements import requirement

Run = Callable[..., Awaitable[tuple[int, str]]]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state folder that is not there yet."""
    return tmp_path / "state"


@pytest.fixture
def port() -> int:
    """A port for a server."""
    return free_port()


@pytest.fixture
def run(state: Path) -> Run:
    """Runs `molecule` to its end, without a word about the port; its exit code and all that it printed."""

    async def run(*args: str, **env: str) -> tuple[int, str]:
        variables = environment(state, 0, **env)
        del variables["MOLECULE_PORT"]
        async with started(MOLECULE, *args, env=variables) as process:
            code = await process.ended()
            return code, (await process.output() + process.said).strip()

    return run


# -- the server of a state folder --------------------------------------------------------------------------------------


@requirement("O1")
async def test_every_command_finds_the_server_of_its_state_folder_whatever_its_port(
    run: Run, state: Path, port: int
) -> None:
    async with serving(state, port):
        listed, link, doctor = await run("ls"), await run("login-link"), await run("doctor")
        exported = await run("org", "export")
    assert listed == (0, "no workspaces")
    assert link[1].startswith(f"http://127.0.0.1:{port}/app/#login=")
    assert f"ready at http://127.0.0.1:{port}" in doctor[1]
    assert "instructions  on (both)" in doctor[1]
    assert exported[0] == 0


@requirement("O1", "C74")
async def test_commands_find_the_demo_if_only_the_demo_runs(state: Path, port: int) -> None:
    variables = environment(state, port)
    del variables["MOLECULE_ADMIN_TOKEN"]
    unnamed = {name: value for name, value in variables.items() if name != "MOLECULE_PORT"}

    async def said(*args: str) -> tuple[int, str]:
        async with started(MOLECULE, *args, env=unnamed) as process:
            return await process.ended(), await process.output() + process.said

    # The demo is a server like any other, in a folder inside that of a person's own server, which is not running.
    async with started(MOLECULE, "up", env={**variables, "MOLECULE_PORT": str(free_port())}) as own:
        await own.says(LISTENS)
        own.send(signal.SIGTERM)
        await own.ended()
    async with started(MOLECULE, "up", "--state-dir", str(state / "demo"), env=variables) as demo:
        await demo.says(LISTENS)
        link, listed, doctor = await said("login-link"), await said("ls"), await said("doctor")
    assert (link[0], link[1].startswith(f"http://127.0.0.1:{port}/app/#login=")) == (0, True), link
    assert listed == (0, "no workspaces\n")
    assert f"ready at http://127.0.0.1:{port}" in doctor[1]


@requirement("O1")
async def test_the_record_of_a_server_that_ended_is_gone(run: Run, state: Path, port: int) -> None:
    async with started(MOLECULE, "serve", env=environment(state, port)) as server:
        await server.says("listening on")
        server.send(signal.SIGTERM)
        await server.ended()
    code, said = await run("ls")
    # The default address is tried, at which another server of this machine may respond.
    assert (code, f":{port}" in said) == (2, False)


@requirement("O1")
async def test_a_second_up_says_that_it_runs_already_and_how_to_open_it(run: Run, state: Path, port: int) -> None:
    async with serving(state, port) as server:
        code, said = await run("up")
    assert code == 0
    assert f"is already running on http://127.0.0.1:{port} (process {server.pid}), open http://" in said
    assert "#login=" in said


@requirement("O1", "P6")
async def test_a_server_elsewhere_is_named_by_one_option_and_gets_no_token_of_this_machine(
    run: Run, state: Path, port: int, tmp_path: Path
) -> None:
    async with serving(state, port), client(port) as admin:
        person = await admin.post(
            f"/orgs/{(await admin.get('/orgs'))[0]['id']}/people", {"name": "Ada", "role": "owner"}
        )
        there = {"MOLECULE_STATE_DIR": str(tmp_path / "other"), "MOLECULE_TOKEN": person["auth_token"]}
        address = f"http://127.0.0.1:{port}"
        by_option = await run("ls", "--server", address, **there)
        by_variable = await run("ls", MOLECULE_URL=address, **there)
        link = await run("login-link", "--server", address, **there)
    (tmp_path / "other").mkdir(mode=0o700)
    (tmp_path / "other" / "admin-token").write_text(ADMIN_TOKEN)
    elsewhere = {**there, "MOLECULE_TOKEN": "", "MOLECULE_ADMIN_TOKEN": ""}
    foreign = await run("ls", "--server", "https://molecule.invalid", **elsewhere)
    assert (by_option, by_variable) == ((0, "no workspaces"), (0, "no workspaces"))
    assert link[0] == 0
    assert foreign[0] == 2
    assert "MOLECULE_TOKEN to the token of a person" in foreign[1]


# -- agents ------------------------------------------------------------------------------------------------------------


@requirement("O1")
async def test_agents_are_made_listed_written_to_paused_rotated_and_removed(run: Run, state: Path, port: int) -> None:
    async with serving(state, port), client(port) as admin:
        lead = await run("workspace", "create", "Lead", "--role", "leads")
        ops = await run("workspace", "create", "Ops", "--parent", "Lead")
        lead_id, ops_id = (said.partition("  ")[0] for _, said in (lead, ops))
        token = ops[1].rpartition(" ")[2]
        said = await run("say", "Lead/Ops", "hello")
        (message,) = await admin.get(f"/workspaces/{ops_id}/activity", type="a2a_receive")
        listed = (await run("ls"))[1].splitlines()
        paused = await run("workspace", "pause", "Ops")
        status = (await admin.get(f"/workspaces/{ops_id}"))["status"]
        resumed = await run("workspace", "resume", "Ops")
        until = {"until": "2999-11-28T14:05:00Z", "reason": "5-hour limit"}
        shown = (await admin.post(f"/workspaces/{ops_id}/limit", until))["limited_until"]
        limited = (await run("ls"))[1].splitlines()[2]
        ended = await run("workspace", "end-limit", "Ops")
        unlimited = (await run("ls"))[1].splitlines()[2]
        rotated = await run("workspace", "rotate", "Ops")
        async with client(port, token) as old, client(port, rotated[1].rpartition(" ")[2]) as new:
            with pytest.raises(ApiError) as refused:
                await old.get(f"/workspaces/{ops_id}/state")
            await new.get(f"/workspaces/{ops_id}/state")
        unsure = await run("workspace", "remove", "Lead")
        removed = await run("workspace", "remove", "Lead", "--yes")
        left = await run("ls")
    assert [each[0] for each in (lead, ops, said, paused, resumed, rotated, removed)] == [0] * 7
    assert said[1] == f"sent: message {message['id']}"
    assert listed[0].split() == ["WORKSPACE", "STATUS", "LAST", "HEARD", "UNREAD", "OVERDUE", "TASK"]
    assert [line.split("  ")[0] for line in listed[1:]] == ["Lead", "Lead / Ops"]
    assert (status, paused[1], resumed[1]) == ("paused", "paused", "resumed")
    assert f"limited until {shown[:19]}" in limited
    assert ended == (0, "the limit has ended") and "limited" not in unlimited
    assert refused.value.status == 401
    assert (unsure[0], "Ops" in unsure[1], "--yes" in unsure[1]) == (2, True, True)
    assert left[1] == "no workspaces"
    assert lead_id != ops_id


@requirement("O1", "M14")
async def test_a_push_agent_is_made_with_a_secret_and_the_secret_is_rotated(run: Run, state: Path, port: int) -> None:
    async with serving(state, port, MOLECULE_PUSH_NETWORKS="127.0.0.0/8"):
        made = await run("workspace", "create", "Legal", "--push-url", f"http://127.0.0.1:{port}/agent")
        rotated = await run("workspace", "rotate-push-secret", "Legal")
        at_once = await run("workspace", "rotate-push-secret", "Legal", "--grace", "0")
        too_long = await run("workspace", "rotate-push-secret", "Legal", "--grace", "86401")
        polling = await run("workspace", "create", "Ops")
    secrets = {each[1].rpartition("push secret, shown only once: ")[2] for each in (made, rotated, at_once)}
    assert len(secrets) == 3
    assert all(each.startswith("mol_ps_") and "\n" not in each for each in secrets)
    assert rotated[1].startswith("the old secret signs until ")
    assert (too_long[0], "from 0 to 86400" in too_long[1]) == (2, True)
    assert "push secret" not in polling[1]


@requirement("O1")
async def test_a_name_that_is_none_is_answered_with_near_names_and_a_wrong_org_is_an_error(
    run: Run, state: Path, port: int
) -> None:
    async with serving(state, port), client(port) as admin:
        team = (await admin.post("/workspaces", {"name": "Team"}))["id"]
        ids = [(await admin.post("/workspaces", {"name": "Ops", "parent_id": each}))["id"] for each in (None, team)]
        wrong = await run("say", "Oops", "hello")
        repeated = await run("say", "Ops", "hello")
        by_path, by_id = await run("say", "Team / Ops", "hello"), await run("say", ids[0], "hello")
        orgs = [
            await run(*verb, "--org", "Defolt")
            for verb in (
                ("ls",),
                ("waiting",),
                ("people", "list"),
                ("dead-letters", "list"),
                ("delegations", "list"),
                ("delegations", "stats"),
                ("approvals", "list"),
                ("chains", "list"),
                ("instructions", "list"),
                ("login-link",),
                ("org", "export"),
            )
        ]
        by_verb = [
            await run(*verb)
            for verb in (
                ("memory", "list", "Taem"),
                ("threads", "list", "--workspace", "Taem"),
                ("approvals", "rules", "Taem"),
                ("instructions", "preview", "Taem"),
                ("workspace", "pause", "Taem"),
            )
        ]
    assert (wrong[0], "such as: " in wrong[1], "Ops" in wrong[1]) == (2, True, True)
    assert (repeated[0], all(each in repeated[1] for each in ids)) == (2, True)
    assert (by_path[0], by_id[0]) == (0, 0)
    assert all(code != 0 and "Default" in said and "'Defolt' does not exist" in said for code, said in orgs), orgs
    assert all(code == 2 and said.endswith("such as: Team.") for code, said in by_verb), by_verb


@requirement("O1", "S20")
async def test_a_persons_token_is_enough_for_verbs_about_the_own_organisation(run: Run, state: Path, port: int) -> None:
    async with serving(state, port), client(port) as admin:
        org = (await admin.get("/orgs"))[0]
        person = await admin.post(f"/orgs/{org['id']}/people", {"name": "Ada", "role": "owner"})
        asker, target = [await admin.post("/workspaces", {"name": name}) for name in ("Asker", "Target")]
        async with client(port, asker["connection"]["auth_token"]) as agent:
            await agent.post(f"/workspaces/{asker['id']}/delegate", {"target_id": target["id"], "task": "count"})
            request = {"action": "deploy", "reason": "a release", "details": {"target_id": target["id"]}}
            asked = await agent.post(f"/workspaces/{asker['id']}/approvals", request)
        own = {"MOLECULE_TOKEN": person["auth_token"]}
        delegations = [await run("delegations", "list", *org_flag, **own) for org_flag in ((), ("--org", org["name"]))]
        by_admin = await run("delegations", "list")
        approval = await run("approvals", "show", asked["approval_id"], **own)
        exported = await run("org", "export", "--org", org["id"], **own)
        other = await run("delegations", "list", "--org", "Other", **own)
        wrong_person = await run("people", "remove", "Adda", **own)
    assert all(each == by_admin for each in delegations)
    assert (by_admin[0], "Asker -> Target: count" in by_admin[1]) == (0, True)
    assert (approval[0], "deploy" in approval[1]) == (0, True)
    assert f"  {target['id']} is Target" in approval[1].splitlines()
    assert exported[0] == 0
    assert (other[0], "'Other' does not exist" in other[1]) == (2, True)
    assert (wrong_person[0], "such as: Ada" in wrong_person[1]) == (2, True)


@requirement("O1")
async def test_mail_that_waits_is_listed(run: Run, state: Path, port: int) -> None:
    limits = {"MOLECULE_LIMIT_REPLY_SECONDS": "1", "MOLECULE_LIMIT_SWEEP_SECONDS": "1"}
    async with serving(state, port, **limits), client(port) as admin:
        nothing = await run("waiting")
        seat = await admin.post("/workspaces", {"name": "Ops"})
        await admin.send(seat["id"], "hello")
        async with client(port, seat["connection"]["auth_token"]) as agent:
            await agent.claim(seat["id"])
            said = ""
            while "answer overdue" not in said:
                said = (await run("waiting"))[1]
    assert nothing == (0, "nothing has waited for longer than 10 minutes")
    assert "  Ops: answer overdue to a person, message " in said
    assert seat["id"] not in said


# -- people and settings -----------------------------------------------------------------------------------------------


@requirement("O1", "M3")
async def test_unread_mail_of_a_removed_workspace_is_printed_whole_in_pages(run: Run, state: Path, port: int) -> None:
    async with serving(state, port, MOLECULE_LIMIT_PAGE_ROWS="2"), client(port) as admin:
        workspace = await admin.post("/workspaces", {"name": "Ops"})
        await admin.post("/workspaces", {"name": "Other"})
        for number in range(5):
            await admin.send(workspace["id"], f"message {number}")
        async with client(port, workspace["connection"]["auth_token"]) as agent:
            await agent.ack(workspace["id"], (await agent.claim(workspace["id"]))[0])
        before = await run("workspace", "unread", "Ops")
        await run("workspace", "remove", "Ops", "--yes")
        after, listed = await run("workspace", "unread", "Ops"), await run("ls", "--removed")
        unknown = await run("workspace", "unread", "Opps")
    assert before == after
    assert [json.loads(line)["summary"] for line in after[1].splitlines()] == [f"message {n}" for n in range(1, 5)]
    assert (listed[0], workspace["id"] in listed[1], "Other" in listed[1]) == (0, True, False)
    assert (unknown[0] != 0, "Ops" in unknown[1]) == (True, True)


@requirement("O1")
async def test_people_are_invited_added_and_removed(run: Run, state: Path, port: int) -> None:
    async with serving(state, port):
        invited = await run("people", "invite", "Ada", "--role", "viewer")
        added = await run("people", "add", "CI")
        listed = await run("people", "list")
        as_ci = await run("ls", MOLECULE_TOKEN=added[1].rpartition(" ")[2])
        gone = [await run("people", "remove", name) for name in ("Ada", "CI", "Ada")]
    assert f"http://127.0.0.1:{port}/app/#" in invited[1]
    assert "viewer    Ada: invited until" in listed[1]
    assert "operator  CI" in listed[1]
    assert as_ci == (0, "no workspaces")
    assert [each[0] for each in gone] == [0, 0, 2]
    assert [gone[0][1], gone[1][1]] == ["withdrawn", "removed"]


@requirement("O3")
async def test_a_further_token_of_a_person_is_printed_or_written_to_a_private_file(
    run: Run, state: Path, port: int, tmp_path: Path
) -> None:
    file = tmp_path / "ada.token"
    async with serving(state, port):
        await run("people", "add", "Ada")
        printed = await run("people", "token", "Ada")
        written = await run("people", "token", "Ada", "--file", str(file))
        token = file.read_text().strip()
        again = await run("people", "token", "Ada", "--file", str(file))
        unknown = await run("people", "token", "Ben")
        worked = [await run("ls", MOLECULE_TOKEN=each) for each in (printed[1].rpartition(" ")[2], token)]
    assert (written[0], token not in written[1], file.stat().st_mode & 0o777) == (0, True, 0o600)
    assert worked == [(0, "no workspaces")] * 2
    assert (again[0], "exists already" in again[1], file.read_text().strip()) == (2, True, token)
    assert (unknown[0], "'Ben' does not exist" in unknown[1]) == (2, True)


@requirement("O2", "P6")
async def test_the_settings_in_force_are_shown_without_secrets(run: Run, state: Path, port: int) -> None:
    secret = "a-metrics-token-of-24-characters"
    more = {"MOLECULE_METRICS_TOKEN": secret, "MOLECULE_LIMIT_REPLY_SECONDS": "7", "PUSH_INSTRUCTIONS_ENABLED": "false"}
    async with serving(state, port, **more):
        changed, every, doctor = await run("settings"), await run("settings", "--all"), await run("doctor")
    assert "* limits.reply_seconds = 7" in changed[1]
    assert "* metrics_token = (set)" in changed[1]
    assert "instruction_shape" not in changed[1]
    assert "  instruction_shape = both" in every[1]
    assert secret not in changed[1] + every[1]
    assert "instructions  off: agents get no text" in doctor[1]
