"""`molecule backup` and `molecule restore` as an operator meets them: the store and the uploaded files together."""

import shutil
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from molecule_core.client.api import ApiClient
from testing.engines import new_database
from testing.ports import free_port
from testing.processes import MOLECULE, client, environment, serving, started
from testing.raw_http import ask
from testing.running_server import ADMIN_TOKEN
from testing.upload_forms import FORM, form, place_of
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
def run(state: Path, port: int) -> Run:
    """Runs `molecule` to its end; its exit code and all that it printed."""

    async def run(*args: str, **env: str) -> tuple[int, str]:
        async with started(MOLECULE, *args, env=environment(state, port, **env)) as process:
            code = await process.ended()
            return code, await process.output() + process.said

    return run


async def upload(port: int, seat: str, name: str, content: bytes) -> str:
    """Upload a file to a workspace and mention it in a message, so that it is kept; return its path."""
    path = f"/workspaces/{seat}/chat/uploads"
    reply = await ask(port, "POST", path, form((name, content)), token=ADMIN_TOKEN, headers=FORM)
    assert reply.status == 200, reply
    (file,) = reply.json["files"]
    message = {"role": "user", "parts": [{"kind": "file", "file": {"uri": file["uri"]}}]}
    async with client(port) as admin:
        await admin.post(f"/workspaces/{seat}/a2a", {"method": "message/send", "params": {"message": message}})
    return place_of(file)


async def download(port: int, path: str) -> tuple[int, bytes]:
    """Read a file as the admin."""
    reply = await ask(port, "GET", path, token=ADMIN_TOKEN)
    return reply.status, reply.body


async def make_workspace(admin: ApiClient) -> str:
    """Make a workspace; return its id."""
    return str((await admin.post("/workspaces", {"name": "Ops"}))["id"])


def read_manifest(backup: Path) -> dict[str, Any]:
    """Return what a backup says of itself."""
    found: dict[str, Any] = msgspec.json.decode((backup / "manifest.json").read_bytes())
    return found


def all_files(folder: Path) -> set[str]:
    """Return the names of all files in a folder and below."""
    return {each.name for each in folder.rglob("*") if each.is_file()}


@requirement("O1", "P1", "O5")
async def test_a_backup_holds_store_and_files_and_says_so(run: Run, state: Path, port: int, tmp_path: Path) -> None:
    backup = tmp_path / "copy"
    async with serving(state, port) as server, client(port) as admin:
        seat = await make_workspace(admin)
        kept = (await admin.send(seat, "before"))["activity_id"]
        file = await upload(port, seat, "report.txt", b"the report")
        code, said = await run("backup", str(backup))
        lost = (await admin.send(seat, "after"))["activity_id"]
        refused = await run("restore", str(backup))
        await server.kill()
    again = await run("backup", str(backup))
    manifest = read_manifest(backup)
    shutil.rmtree(state)  # the disk is lost
    restored = await run("restore", str(backup))
    async with serving(state, port), client(port) as admin:
        rows = await admin.get(f"/workspaces/{seat}/activity")
        read = await download(port, file)

    assert code == 0, said
    assert f"Wrote {backup}: the store (" in said
    assert "and 1 file (10 bytes)" in said
    assert (manifest["files"], manifest["file_bytes"], manifest["missing_files"]) == (1, 10, [])
    assert manifest["store_bytes"] == (backup / "molecule.db").stat().st_size
    assert stat.S_IMODE(backup.stat().st_mode) == 0o700
    assert {stat.S_IMODE(each.stat().st_mode) for each in backup.rglob("*") if each.is_file()} == {0o600}
    assert (refused[0], "another Molecule server" in refused[1]) == (2, True), refused
    assert (again[0], "already exists" in again[1]) == (2, True), again
    assert restored[0] == 0, restored
    assert read == (200, b"the report")
    assert kept in str(rows)
    assert lost not in str(rows)


@requirement("O1", "P1", "M35")
async def test_a_restore_of_an_older_copy_keeps_newer_files(run: Run, state: Path, port: int, tmp_path: Path) -> None:
    backup = tmp_path / "copy"
    async with serving(state, port), client(port) as admin:
        seat = await make_workspace(admin)
        old = await upload(port, seat, "old.txt", b"old")
        assert (await run("backup", str(backup)))[0] == 0
        new = await upload(port, seat, "new.txt", b"new")
    restored = await run("restore", str(backup))
    async with serving(state, port):
        after_restore = await download(port, old), (await download(port, new))[0]
    kept = all_files(state / "files")
    (aside,) = state.glob("molecule.before-restore-*.db")
    undone = await run("restore", str(aside))
    async with serving(state, port):
        after_undo = await download(port, old), await download(port, new)

    assert restored[0] == 0, restored
    assert f"The previous store was renamed to {aside}." in restored[1]
    assert f"Files that it does not name were moved to {state}/files/before-restore-" in restored[1]
    assert after_restore == ((200, b"old"), 404)
    assert {old.rpartition("/")[2], new.rpartition("/")[2]} <= kept
    assert undone[0] == 0, undone
    assert after_undo == ((200, b"old"), (200, b"new"))


@requirement("M35", "P1")
async def test_a_store_that_was_replaced_by_hand_loses_no_files(state: Path, port: int, tmp_path: Path) -> None:
    older = tmp_path / "older.db"
    async with serving(state, port), client(port) as admin:
        seat = await make_workspace(admin)
    shutil.copy(state / "molecule.db", older)
    async with serving(state, port):
        file = await upload(port, seat, "new.txt", b"new")
    for each in state.glob("molecule.db*"):
        each.unlink()
    shutil.copy(older, state / "molecule.db")
    async with serving(state, port) as server:
        await server.says("files that no row of the store names were moved to")
        missing = (await download(port, file))[0]

    assert missing == 404
    assert (state / "files" / "removed" / file.rpartition("/")[2]).read_bytes() == b"new"


@requirement("O1")
@pytest.mark.parametrize("fault", ["store", "manifest", "no manifest"])
async def test_a_damaged_backup_is_not_restored(run: Run, state: Path, port: int, tmp_path: Path, fault: str) -> None:
    backup = tmp_path / "copy"
    async with serving(state, port):
        assert (await run("backup", str(backup)))[0] == 0
    before = (state / "molecule.db").read_bytes()
    if fault == "store":
        (backup / "molecule.db").write_bytes((backup / "molecule.db").read_bytes()[:-1])
    elif fault == "manifest":
        (backup / "manifest.json").write_text("{}")
    else:
        (backup / "manifest.json").unlink()
    code, said = await run("restore", str(backup))

    assert code == 2
    assert len(said.strip().splitlines()) == 1, said
    assert "manifest.json" in said if "manifest" in fault else "its molecule.db is damaged" in said
    assert (state / "molecule.db").read_bytes() == before


async def test_a_backup_names_the_files_whose_bytes_are_gone(run: Run, state: Path, port: int, tmp_path: Path) -> None:
    backup = tmp_path / "copy"
    async with serving(state, port), client(port) as admin:
        seat = await make_workspace(admin)
        file = (await upload(port, seat, "lost.txt", b"lost")).rpartition("/")[2]
        (state / "files" / file).unlink()
        code, said = await run("backup", str(backup))

    assert code == 0
    assert f"that are not in {state}/files: 1." in said
    assert read_manifest(backup)["missing_files"] == [file]


@requirement("O1", "O5")
async def test_a_database_is_copied_and_restored_with_its_files(
    run: Run, state: Path, port: int, tmp_path: Path, postgres: str
) -> None:
    one, other, backup = await new_database(postgres), await new_database(postgres), tmp_path / "copy"
    async with serving(state, port, MOLECULE_DATABASE=one), client(port) as admin:
        seat = await make_workspace(admin)
        kept = (await admin.send(seat, "before"))["activity_id"]
        file = await upload(port, seat, "report.txt", b"the report")
        made = await run("backup", str(backup), MOLECULE_DATABASE=one)
    shutil.rmtree(state / "files")
    restored = await run("restore", str(backup), MOLECULE_DATABASE=other)
    again = await run("restore", str(backup), MOLECULE_DATABASE=other)
    async with serving(state, port, MOLECULE_DATABASE=other), client(port) as admin:
        rows = await admin.get(f"/workspaces/{seat}/activity")
        read = await download(port, file)

    assert (made[0], restored[0]) == (0, 0), (made, restored)
    assert (again[0], "not empty" in again[1]) == (2, True), again
    assert kept in str(rows)
    assert read == (200, b"the report")
