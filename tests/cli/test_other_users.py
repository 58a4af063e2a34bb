"""Commands that root or another user runs on the state folder of the server's user: what they leave and print."""

import shutil
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from testing.other_users import IS_ROOT, OTHER_USER, SERVER_USER, make_state_folder, public_folder, run_as, started_as
from testing.ports import free_port
from testing.processes import LISTENS
from tests.requirements import requirement

ROOT_USER = 0
pytestmark = pytest.mark.skipif(not IS_ROOT, reason="only root can act as other users")


@pytest.fixture
def port() -> int:
    """A port for a server."""
    return free_port()


@pytest.fixture
async def state(port: int) -> AsyncIterator[Path]:
    """The state folder of the server's user, in which a server has run."""
    with public_folder() as folder:
        state = make_state_folder(folder)
        await start_and_stop(state, port)
        yield state


async def start_and_stop(state: Path, port: int, user: int = SERVER_USER) -> None:
    """Start a server as a user, until it listens."""
    async with started_as(user, state, port, "serve") as server:
        await server.says(LISTENS)


def owners(state: Path) -> set[int]:
    """Return the owners of a folder and all in it."""
    return {each.lstat().st_uid for each in (state, *state.rglob("*"))}


def modes(state: Path) -> set[int]:
    """Return the modes of all files in a folder."""
    return {stat.S_IMODE(each.lstat().st_mode) for each in state.rglob("*") if each.is_file()}


@requirement("O1", "P6")
async def test_what_root_writes_into_the_state_folder_belongs_to_the_servers_user(state: Path, port: int) -> None:
    backups = state / "backups"
    backups.mkdir()
    shutil.chown(backups, SERVER_USER, SERVER_USER)
    made = await run_as(ROOT_USER, state, port, "backup", str(backups / "one"))
    restored = await run_as(ROOT_USER, state, port, "restore", str(backups / "one"))
    checked = await run_as(ROOT_USER, state, port, "doctor")
    await start_and_stop(state, port, ROOT_USER)
    again = await run_as(SERVER_USER, state, port, "backup", str(backups / "two"))
    async with started_as(SERVER_USER, state, port, "serve") as server:
        await server.says(LISTENS)
        link = await run_as(SERVER_USER, state, port, "login-link")

    assert [each.code for each in (made, restored, again, link)] == [0, 0, 0, 0], (made, restored, again, link)
    assert "does not belong to" not in checked.out
    assert owners(state) == {SERVER_USER}


@requirement("O1")
async def test_a_state_folder_with_files_of_another_user_is_found_by_doctor(state: Path, port: int) -> None:
    shutil.chown(state / "molecule.db", ROOT_USER, ROOT_USER)
    said = await run_as(ROOT_USER, state, port, "doctor")

    assert f"{state}/molecule.db does not belong to #{SERVER_USER}" in said.out
    assert f"-> run chown -R #{SERVER_USER} {state}" in said.out


@requirement("O1")
@pytest.mark.parametrize(
    "verb",
    [
        ("doctor",),
        ("backup", "COPY"),
        ("restore", "COPY"),
        ("login-link",),
        ("org", "export"),
        ("org", "apply", "ORG_FILE"),
        ("admin", "token"),
        ("prune",),
        ("dead-letters", "list"),
        ("approvals", "list"),
        ("serve",),
        ("up",),
        ("connect", "codex", "--workspace", "Ops"),
    ],
    ids=" ".join,
)
async def test_a_command_of_another_user_says_as_which_user_to_run_it(
    state: Path, port: int, verb: tuple[str, ...]
) -> None:
    copy, org_file = state.parent / "copy.db", state.parent / "org.toml"
    shutil.copy(state / "molecule.db", copy)
    copy.chmod(0o644)
    org_file.write_text('name = "Default"\n')
    places = {"COPY": str(copy if verb[0] == "restore" else state.parent / "new"), "ORG_FILE": str(org_file)}
    said = await run_as(OTHER_USER, state, port, *(places.get(each, each) for each in verb))

    assert said.code in (1, 2)
    lines = (said.out + said.err).strip().splitlines()
    assert any(f"sudo -u #{SERVER_USER}" in line for line in lines), said
    assert "Traceback" not in said.out + said.err
    assert verb == ("doctor",) or len(lines) == 1, said


@requirement("O1", "P6")
async def test_the_files_of_a_store_are_for_its_owner_alone_also_in_an_open_folder(port: int) -> None:
    with public_folder() as folder:
        state = make_state_folder(folder)
        state.chmod(0o755)
        async with started_as(SERVER_USER, state, port, "serve") as server:
            await server.says(LISTENS)
            while_running = modes(state)
        (state / "molecule.db").chmod(0o644)
        await start_and_stop(state, port)
        after_a_start = modes(state)

    assert while_running == {0o600}
    assert after_a_start == {0o600}
