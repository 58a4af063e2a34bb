"""The `molecule` command as a person meets it: real processes, their words and their exit codes."""

import json
import signal
import sqlite3
import stat
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from molecule_core.cli import COMMANDS
from testing.ports import free_port
from testing.processes import LISTENS, MOLECULE, client, environment, serving, started
from testing.raw_http import ask
from testing.running_server import ADMIN_TOKEN
from tests.requirements import requirement

LONG_TOKEN = "an-operators-own-passphrase"


class Outcome(NamedTuple):
    """What a command said, and its exit code."""

    code: int
    out: str
    err: str


Run = Callable[..., Awaitable[Outcome]]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state folder that is not there yet."""
    return tmp_path / "state"


@pytest.fixture
def port() -> int:
    """A port for a server."""
    return free_port()


@pytest.fixture
def run(state: Path, port: int) -> Run:
    """Runs `molecule` to its end; a server that begins to serve is a failure. Keywords are environment, None to take
    a variable away."""

    async def run(*args: str, **env: str | None) -> Outcome:
        told = environment(state, port)
        for name, value in env.items():
            told.pop(name, None) if value is None else told.update({name: value})
        async with started(MOLECULE, *args, env=told) as process:
            code = await process.refused()
            return Outcome(code, await process.output(), process.said)

    return run


def check_refused_in_one_line(outcome: Outcome, *words: str) -> None:
    """A refusal as a person should see it."""
    assert outcome.code == 2, outcome
    (line,) = outcome.err.strip().splitlines()
    assert line.startswith("molecule: ")
    assert all(word in line for word in words), line


# -- help --------------------------------------------------------------------------------------------------------------


@requirement("O1")
async def test_help_names_every_verb_and_loads_none_of_them(state: Path, port: int) -> None:
    heavy = ("uvloop", "httptools", "apsw", "asyncpg", "httpx2", "msgspec")
    program = (
        "import sys\n"
        "from molecule_core.cli import main\n"
        "try:\n"
        "    main(['--help'])\n"
        "except SystemExit as end:\n"
        "    assert end.code == 0\n"
        f"print('loaded', [name for name in {heavy!r} if name in sys.modules])\n"
    )
    async with started(sys.executable, "-c", program, env=environment(state, port)) as process:
        code = await process.ended()
        said = await process.output()

    assert code == 0, process.said
    assert all(f"  {verb} " in said for verb in COMMANDS)
    assert "loaded []" in said


@requirement("O1")
async def test_a_server_that_starts_loads_nothing_that_only_some_clients_want(state: Path, port: int) -> None:
    some = ("asyncpg", "email", "httpx2", "multipart", "nats", "opentelemetry", "tomllib", "uvicorn", "websockets")
    program = (
        "import sys\n"
        "import molecule_core.cli.serve, molecule_core.server.listener\n"
        f"print('loaded', [name for name in {some!r} if name in sys.modules])\n"
    )
    async with started(sys.executable, "-c", program, env=environment(state, port)) as process:
        code = await process.ended()
        said = await process.output()

    assert code == 0, process.said
    assert "loaded []" in said


@requirement("O1")
async def test_every_verb_explains_itself_with_the_flags_of_its_kind(run: Run) -> None:
    serve = ["--host", "--port", "--state-dir", "--database", "--log-level", "--log-format", "--public-url"]
    flags = {
        "serve": [*serve, "--allowed-host", "--push-network"],
        "up": [*serve, "--allowed-host", "--demo", "--lan", "--fresh", "--company", "--no-runner"],
        "org": ["plan", "apply", "export"],
        "connect": ["--workspace", "--create", "--parent", "--apply", "--undo", "--hooks", "--own-token", "--server"],
        "host-hook": ["--wait"],
        "inbox-hook": ["--config", "--seconds"],
        "login-link": ["--state-dir", "--server", "--port", "--org", "--person"],
        "ls": ["--org", "--json", "--server", "--state-dir"],
        "say": ["WORKSPACE", "[TEXT]", "--org", "--server"],
        "waiting": ["--org", "--json", "--server"],
        "workspace": ["create", "pause", "resume", "end-limit", "remove", "rotate"],
        "apps": ["list", "disconnect", "clients", "register", "remove"],
        "people": ["list", "invite", "add", "remove"],
        "settings": ["--all", "--json", "--server"],
        "dead-letters": ["list", "show", "requeue", "discard"],
        "chains": ["list", "show", "release", "end"],
        "activity": [
            *(
                "WORDS",
                "--workspace",
                "--subtree",
                "--kind",
                "--event",
                "--state",
                "--since",
                "--until",
                "--delegation",
            ),
            *("--thread", "--item", "--limit", "--all", "--follow", "--json", "--org", "--server"),
        ],
        "search": ["WORDS", "--kind", "--workspace", "--since", "--until", "--limit", "--cursor", "--org", "--server"],
        "delegate": ["WORKSPACE", "[TASK]", "--async", "--wait", "--deadline", "--approval", "--workspace"],
        "status": ["TASK_ID", "--workspace"],
        "usage": ["--by", "--from", "--to", "--workspace", "--json", "--org", "--server", "prices"],
        "budget": ["list", "set", "delete", "lease"],
        "schedule": ["list", "add", "show", "pause", "resume", "remove", "runs", "next"],
        "cancel": ["TASK_ID", "--reason", "--workspace"],
        "delegations": ["list", "show", "cancel", "retry", "stats"],
        "approvals": ["list", "show", "request", "decide", "answer", "withdraw", "use", "rules", "authority"],
        "threads": ["list", "show", "tree", "start", "say", "resume", "fork", "interrupt", "close"],
        "memory": ["list", "search", "forget", "keys"],
        "prompt": ["show", "diff", "watch"],
        "doctor": serve,
        "backup": ["--state-dir", "--database", "COPY"],
        "prune": ["--state-dir", "--port", "--dry-run"],
        "restore": ["--state-dir", "--database", "COPY"],
        "admin": ["token"],
        "mcp": ["Environment"],
        "tool": ["--json", "--workspace", "--list"],
        "peers": ["--workspace"],
        "info": ["--workspace"],
        "reply": ["HANDLE", "[TEXT]", "--workspace", "--progress"],
        "decline": ["HANDLE", "[TEXT]", "--workspace"],
        "acp": ["--workspace", "--token-file", "--wait", "--server"],
        "bridge": ["command"],
        "agent": ["run"],
        "agents": ["list", "start", "stop", "restart", "logs", "enrol", "remove"],
        "runner": ["--server", "--state", "--until-eof"],
        "instructions": ["list", "show", "set", "restore", "check", "preview", "assign", "canary", "figures"],
    }
    assert flags.keys() == COMMANDS.keys()
    for verb, wanted in flags.items():
        outcome = await run(verb, "--help")
        assert outcome.code == 0
        assert [flag for flag in wanted if flag not in outcome.out] == [], verb


@requirement("O1")
async def test_an_unknown_verb_or_flag_is_a_usage_error(run: Run) -> None:
    for args in (("fly",), ("serve", "--fast"), ("serve", "--port", "eighty"), ("backup",)):
        outcome = await run(*args)
        assert outcome.code == 2
        assert "Try 'molecule" in outcome.err
        assert "Traceback" not in outcome.err


@requirement("O1")
@pytest.mark.parametrize("cost", ["inf", "-1", "much"])
async def test_a_cost_that_is_no_amount_is_a_usage_error(run: Run, cost: str) -> None:
    """JSON knows no endless number: it would be asked for as a cost that nobody knows."""
    outcome = await run("approvals", "request", "refund", "--reason", "because", "--cost", cost)

    assert (outcome.code, "--cost" in outcome.err) == (2, True)


# -- the admin token ---------------------------------------------------------------------------------------------------


@requirement("M7", "O1")
async def test_the_first_start_makes_an_admin_token_that_only_its_owner_can_read(
    run: Run, state: Path, port: int
) -> None:
    env = {name: value for name, value in environment(state, port).items() if name != "MOLECULE_ADMIN_TOKEN"}
    async with started(MOLECULE, "serve", env=env) as server:
        await server.says(LISTENS)
    first = await run("admin", "token", MOLECULE_ADMIN_TOKEN=None)
    second = await run("admin", "token", MOLECULE_ADMIN_TOKEN=None)

    assert first.code == 0
    assert first.out.startswith("mol_ad_")
    assert len(first.out.strip()) >= 43
    assert second.out == first.out
    assert (state / "admin-token").read_text() == first.out
    assert stat.S_IMODE((state / "admin-token").stat().st_mode) == 0o600
    assert stat.S_IMODE(state.stat().st_mode) == 0o700


@requirement("O1")
@pytest.mark.parametrize("verb", [("admin", "token"), ("prune",), ("login-link",)])
async def test_where_no_server_ever_was_no_token_is_made_up(run: Run, state: Path, verb: tuple[str, ...]) -> None:
    outcome = await run(*verb, MOLECULE_ADMIN_TOKEN=None)

    check_refused_in_one_line(outcome, "there is no admin token in", "--state-dir")
    assert not state.exists()


@requirement("O1")
async def test_who_runs_only_the_demo_is_told_where_its_token_is(run: Run, state: Path) -> None:
    demo = state / "demo"
    demo.mkdir(parents=True)
    (demo / "admin-token").write_text(LONG_TOKEN)

    outcome = await run("admin", "token", MOLECULE_ADMIN_TOKEN=None)

    check_refused_in_one_line(outcome, f"--state-dir {demo}")
    told = await run("admin", "token", "--state-dir", str(demo), MOLECULE_ADMIN_TOKEN=None)
    assert told.out.strip() == LONG_TOKEN


@requirement("O1", "M7")
async def test_a_folder_above_the_state_is_made_for_its_owner_alone_too(tmp_path: Path, port: int) -> None:
    above = tmp_path / "above"
    async with started(MOLECULE, "serve", env=environment(above / "state", port)) as server:
        await server.says(LISTENS)

    assert stat.S_IMODE(above.stat().st_mode) == 0o700


@requirement("O1")
@pytest.mark.parametrize("variable", ["MOLECULE_ADMIN_TOKEN", "ADMIN_TOKEN"])
async def test_an_operators_own_token_counts_and_is_never_written_down(run: Run, state: Path, variable: str) -> None:
    outcome = await run("admin", "token", **{"MOLECULE_ADMIN_TOKEN": None, variable: LONG_TOKEN})

    assert (outcome.code, outcome.out.strip()) == (0, LONG_TOKEN)
    assert not (state / "admin-token").exists()


@requirement("P6")
@pytest.mark.parametrize("variable", ["MOLECULE_ADMIN_TOKEN", "ADMIN_TOKEN"])
async def test_an_own_token_that_is_too_short_is_refused_and_not_repeated(run: Run, variable: str) -> None:
    for verb in (("admin", "token"), ("serve",)):
        outcome = await run(*verb, **{"MOLECULE_ADMIN_TOKEN": None, variable: "hunter2"})
        check_refused_in_one_line(outcome, "ADMIN_TOKEN", "24 characters")
        assert "hunter2" not in outcome.err


@requirement("P6")
@pytest.mark.parametrize("content", ["", "\n", "   \n", "short\n"])
async def test_an_admin_token_file_without_a_token_is_no_way_in(run: Run, state: Path, content: str) -> None:
    """A crash or a full disk can leave the file empty: an empty secret must not become the admin's."""
    state.mkdir(mode=0o700)
    (state / "admin-token").write_text(content)

    outcome = await run("admin", "token", MOLECULE_ADMIN_TOKEN=None)

    assert outcome.code == 2 or len(outcome.out.strip()) >= 43, outcome
    assert "Traceback" not in outcome.err


@requirement("P6", "O1")
@pytest.mark.parametrize("verb", ["serve", "up"])
async def test_an_empty_admin_token_is_refused_and_not_replaced_by_one_of_this_process(run: Run, verb: str) -> None:
    check_refused_in_one_line(await run(verb, MOLECULE_ADMIN_TOKEN=""), "MOLECULE_ADMIN_TOKEN is empty")


# -- settings ----------------------------------------------------------------------------------------------------------


@requirement("O1", "P6")
@pytest.mark.parametrize("verb", [("serve",), ("doctor",), ("backup", "copy.db")])
@pytest.mark.parametrize(
    "address",
    [
        "mysql://u:sekret@127.0.0.1/x",
        "sekret",
        "postgresql://u:sekret@h:sekret/x",
        "postgresql://u:sek/ret@h/x",
        "postgresql://u:sek#ret@h/x",
        "postgresql://u:sek?ret@h/x",
        "postgresql://u:sekret@[h/x",
    ],
)
async def test_an_address_that_is_none_is_refused_without_a_piece_of_its_password(
    run: Run, verb: tuple[str, ...], address: str
) -> None:
    outcome = await run(*verb, MOLECULE_DATABASE=address)

    check_refused_in_one_line(outcome, "postgresql://user@host", "%XX")
    assert [piece for piece in ("sek", "ret") if piece in outcome.err] == []


@requirement("O1")
async def test_a_database_that_does_not_answer_ends_the_start_with_a_line_for_who_started_it(run: Run) -> None:
    outcome = await run("serve", MOLECULE_DATABASE=f"postgresql://u:sekret@127.0.0.1:{free_port()}/x")

    check_refused_in_one_line(outcome, "the store cannot be opened", "molecule doctor")
    assert "messageId" not in outcome.err
    assert "sekret" not in outcome.err


@requirement("O1", "O2")
@pytest.mark.parametrize(
    ("name", "value", "word"),
    [
        ("MOLECULE_PORT", "eighty", "port"),
        ("MOLECULE_PORT", "99999", "port"),
        ("MOLECULE_PORT", "-1", "port"),
        ("MOLECULE_LIMIT_BODY_BYTES", "-1", "body_bytes"),
        ("MOLECULE_LIMIT_BODY_BYTES", "0", "body_bytes"),
        ("MOLECULE_LIMIT_BODY_BYTES", "much", "body_bytes"),
        ("MOLECULE_LOG_LEVEL", "loud", "log_level"),
        ("MOLECULE_PUSH_NETWORKS", "10.0.0.0/8,everywhere", "everywhere"),
        ("MOLECULE_LOG_FORMAT", "xml", "log_format"),
        ("MOLECULE_CONFIG", "/nowhere/molecule.toml", "/nowhere/molecule.toml"),
        ("MOLECULE_CONFIG", "/proc", "cannot be read"),
    ],
)
async def test_a_bad_setting_of_the_environment_is_named_in_one_line(
    run: Run, name: str, value: str, word: str
) -> None:
    check_refused_in_one_line(await run("serve", **{name: value}), "invalid setting", word)


@requirement("O1", "O2")
@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"port = ", "not TOML"),
        (b"port = \xff", "molecule.toml"),
        (b"prot = 8080", "prot"),
        (b"port = 'x'", "port"),
        (b"limits = 5", "limits"),
        (b"[limits]\nbody_bites = 5", "body_bites"),
        (b"[limits]\nbody_bytes = 0", "body_bytes"),
    ],
)
async def test_a_bad_settings_file_is_named_in_one_line(run: Run, tmp_path: Path, content: bytes, word: str) -> None:
    config = tmp_path / "molecule.toml"
    config.write_bytes(content)

    check_refused_in_one_line(
        await run("serve", MOLECULE_CONFIG=str(config), MOLECULE_PORT=None), "invalid setting", word
    )


@requirement("O2")
async def test_flags_win_over_the_environment_and_that_over_the_file(
    run: Run, state: Path, tmp_path: Path, port: int
) -> None:
    config = tmp_path / "molecule.toml"
    config.write_text(f'port = 1\nstate_dir = "{tmp_path}/wrong"\n[limits]\nbody_bytes = 5000\npage_rows = 2\n')
    more = {
        "MOLECULE_CONFIG": str(config),
        "MOLECULE_LIMIT_BODY_BYTES": "300",
        "MOLECULE_STATE_DIR": str(tmp_path / "env"),
    }

    async with serving(state, 2, "--port", str(port), "--state-dir", str(state), **more), client(port) as admin:
        body = b'{"name": "' + b"x" * 400 + b'"}'
        reply = await ask(port, "POST", "/orgs", body, token=ADMIN_TOKEN)
        seat = await admin.post("/workspaces", {"name": "Ops"})
        for _ in range(3):
            await admin.send(seat["id"], "hi")
        page = await admin.get(f"/workspaces/{seat['id']}/activity")

    assert (reply.status, "300" in reply.error) == (413, True)
    assert len(page) == 2
    assert (state / "molecule.db").exists()
    assert not (tmp_path / "wrong").exists()
    assert not (tmp_path / "env").exists()


@requirement("O1")
async def test_a_state_folder_that_cannot_be_made_is_named_in_one_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        check_refused_in_one_line(await run("serve", "--state-dir", str(place)), str(place))


@requirement("O1")
async def test_a_damaged_store_is_refused_in_one_line_that_names_it(run: Run, state: Path) -> None:
    state.mkdir(mode=0o700)
    (state / "molecule.db").write_bytes(b"this is no database, " * 500)

    check_refused_in_one_line(await run("serve"), str(state))


@requirement("O1")
async def test_a_store_of_a_newer_version_is_refused_in_one_line(run: Run, state: Path, port: int) -> None:
    async with serving(state, port) as server:
        await server.kill()
    with sqlite3.connect(state / "molecule.db") as database:
        database.execute("UPDATE meta SET value = '999' WHERE name = 'schema'")
    database.close()

    check_refused_in_one_line(await run("serve"), "999", "newer")


@requirement("O1")
async def test_a_port_that_is_taken_is_said_and_the_state_is_free_again(run: Run, state: Path, port: int) -> None:
    async with serving(state, port):
        outcome = await run("serve", MOLECULE_STATE_DIR=str(state.parent / "other"))

    assert outcome.code not in (0, 1)
    assert "Traceback" not in outcome.err
    assert str(port) in outcome.err
    assert "in use" in outcome.err
    async with serving(state.parent / "other", port), client(port) as admin:
        assert await admin.get("/ready") == {"status": "ready"}


# -- serving -----------------------------------------------------------------------------------------------------------


@requirement("O1")
async def test_up_says_how_to_connect_and_where_the_token_is_without_showing_it(state: Path, port: int) -> None:
    env = environment(state, port)
    del env["MOLECULE_ADMIN_TOKEN"]
    async with started(MOLECULE, "up", env=env) as process:
        await process.says(LISTENS)
        token = (state / "admin-token").read_text().strip()
        reply = await ask(port, "GET", "/orgs", token=token)
        process.send(signal.SIGTERM)  # it ends once it has said what it has to say
        await process.ended()
        said = await process.output()

    assert reply.status == 200
    assert f"http://127.0.0.1:{port}" in said
    assert str(state / "admin-token") in said
    assert token not in said + process.said


@requirement("O1")
async def test_the_first_thing_that_up_says_is_its_greeting_and_no_log_line_stands_beside_it(
    state: Path, port: int
) -> None:
    env = environment(state, port)
    del env["MOLECULE_LOG_LEVEL"]
    # What it says on standard output is to be read while it runs, in order with its log.
    async with started("sh", "-c", 'exec "$@" 1>&2', "sh", MOLECULE, "up", env=env) as process:
        await process.says("Ctrl-C")
        process.send(signal.SIGTERM)
        assert await process.ended() == 0

    assert process.said.startswith("Molecule ")
    assert [line for line in process.said.splitlines() if "INFO" in line] == []


@requirement("S18", "O1")
async def test_serve_listens_on_loopback_alone_and_answers_for_the_names_it_was_given(state: Path, port: int) -> None:
    flags = ("--allowed-host", "agents.example", "--public-url", "https://molecule.example/base/")
    async with serving(state, port, *flags), client(port) as admin:
        seat = await admin.post("/workspaces", {"name": "Ops"})
        hosts = ("agents.example", "molecule.example", "AGENTS.example:443", "evil.example")
        answers = [(await ask(port, "GET", "/app", headers={"Host": host})).status for host in hosts]
        listening = {local for local, number in listeners() if number == port}

    assert answers == [302, 302, 302, 421]
    assert seat["connection"]["platform_url"] == "https://molecule.example/base"
    assert listening == {"0100007F"}  # 127.0.0.1 as /proc writes it


def listeners() -> list[tuple[str, int]]:
    """(address, port) of every listening TCP socket, as Linux tells."""
    found = []
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(name).read_text().splitlines()[1:]:
            local, state = line.split()[1], line.split()[3]
            if state == "0A":
                address, _, number = local.partition(":")
                found.append((address, int(number, 16)))
    return found


@requirement("O1")
async def test_logs_are_lines_of_json_if_asked_for(state: Path, port: int) -> None:
    async with serving(state, port, "--log-format", "json") as server:
        await server.kill()

    lines = server.said.strip().splitlines()
    assert lines
    assert all(line.startswith('{"time":"') and line.endswith("}") for line in lines)
    assert {type(json.loads(line)["process"]) for line in lines} == {int}


@requirement("O1", "O3")
async def test_a_start_after_a_crash_is_logged_and_one_after_a_clean_stop_is_not(state: Path, port: int) -> None:
    crashed = "did not stop cleanly"
    async with serving(state, port) as killed:
        await killed.kill()
    async with serving(state, port) as recovered:
        recovered.send(signal.SIGTERM)
        assert await recovered.ended() == 0
    async with serving(state, port) as usual:
        pass

    assert crashed not in killed.said
    assert f"the previous server (process {killed.pid}) {crashed}" in recovered.said
    assert crashed not in usual.said


# -- backup, restore, doctor -------------------------------------------------------------------------------------------


@requirement("O1")
async def test_a_copy_that_is_no_store_is_not_put_back(run: Run, state: Path, tmp_path: Path) -> None:
    junk, empty = tmp_path / "junk.db", tmp_path / "empty.db"
    junk.write_bytes(b"junk" * 1000)
    empty.write_bytes(b"")

    for copy in (junk, empty):
        check_refused_in_one_line(await run("restore", str(copy)), str(copy))
    assert not (state / "molecule.db").exists()


@requirement("O1")
async def test_backup_and_restore_without_a_store_say_what_is_missing(run: Run, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    copy.write_bytes(b"x")
    database = ("--database", "postgresql://localhost:1/molecule")

    check_refused_in_one_line(await run("backup", str(tmp_path / "new")), "has no store")
    check_refused_in_one_line(await run("backup", str(tmp_path / "new"), *database), "the command failed")
    check_refused_in_one_line(await run("restore", str(copy), *database), "cannot be read")


# -- prune -------------------------------------------------------------------------------------------------------------


@requirement("M20")
async def test_prune_says_what_would_go_and_asks_a_running_server_to_begin(run: Run, state: Path, port: int) -> None:
    nobody = await run("prune", "--dry-run")
    async with serving(state, port):
        asked, begun = await run("prune", "--dry-run"), await run("prune")
    async with serving(state, port, MOLECULE_LIMIT_RETENTION_DAYS="0"):
        for_ever = await run("prune")

    check_refused_in_one_line(nobody, "cannot prune", "no server responds")
    assert (asked.code, begun.code, for_ever.code) == (0, 0, 0)
    assert "older than" in asked.out
    assert "nothing" in asked.out
    assert "started" in begun.out
    assert "nothing is ever deleted" in for_ever.out
