"""`molecule doctor`: every line by making it really fail, one advice for each, and nothing changed by looking."""

import asyncio
import os
import socket
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from molecule_core.cli import _doctor_checks
from molecule_core.common.clock import DAY, SECOND
from molecule_core.common.limits import Limits
from molecule_core.common.settings import Settings
from molecule_core.common.state_files import BACKUP_STAMP
from molecule_core.store.database import SCHEMA_VERSION
from molecule_core.store.sqlite.backup import StoreInfo, read_store_info
from testing.clocks import FakeClock, ShiftedClock
from testing.engines import new_database
from testing.ports import free_port
from testing.processes import MOLECULE, environment, serving, started
from testing.released_stores.stores import rows_of, write_release
from tests.other_servers import other_server
from tests.requirements import requirement
from tests.store.instrumented_store import bench_on, write

LINES = [
    *("python", "sqlite", "state folder", "disk", "clock", "open files", "public url", "canvas", "store", "backup"),
    "server",
]


class Report(NamedTuple):
    """What the doctor said: its exit code, which lines fail, all words."""

    code: int
    failing: list[str]
    words: str


async def doctor(state: Path, port: int, *args: str, **env: str) -> Report:
    """Calls it."""
    async with started(MOLECULE, "doctor", *args, env=environment(state, port, **env)) as process:
        code, out = await process.ended(), await process.output()
        assert process.said == ""
    lines = out.splitlines()
    findings = [line for line in lines if not line.strip().startswith("->")]
    # Only a server that responds says whether it adds instructions.
    assert [line[6:19].strip() for line in findings] in (LINES, [*LINES, "instructions"]), out
    failing = [line[6:19].strip() for line in findings if line.startswith("FAIL")]
    assert len(lines) - len(findings) == len(failing)
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        assert line.startswith("FAIL") == following.strip().startswith("->")
    assert code == (1 if failing else 0)
    return Report(code, failing, out)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state folder that is not there yet."""
    return tmp_path / "state"


@requirement("O1", "O8")
async def test_doctor_finds_nothing_wrong_with_a_server_that_runs(state: Path) -> None:
    port = free_port()
    async with serving(state, port):
        report = await doctor(state, port)
    assert report.failing == []
    assert "in use by a server" in report.words
    assert f"ready at http://127.0.0.1:{port}" in report.words


@requirement("O1", "O8")
async def test_doctor_gives_one_advice_for_each_thing_that_is_wrong(state: Path) -> None:
    port = free_port()
    assert (await doctor(state, port)).failing == ["state folder", "server"]
    state.mkdir(mode=0o755)
    (state / "molecule.db").write_bytes(b"no database" * 1000)
    ruined = await doctor(state, port, "--public-url", "http://molecule.example", MOLECULE_LIMIT_CONNECTIONS="90000000")
    assert ruined.failing == ["state folder", "open files", "public url", "store", "server"]
    for words in (f"chmod 700 {state}", "molecule restore", f"molecule serve --port {port}", "LimitNOFILE=", "TLS"):
        assert words in ruined.words


@requirement("O1", "O8")
async def test_doctor_looks_and_changes_nothing(state: Path) -> None:
    port = free_port()
    await doctor(state, port)
    assert not state.exists()
    async with serving(state, port) as server:
        await server.kill()
    before = _contents(state)
    await doctor(state, port)
    assert _contents(state) == before


def _contents(state: Path) -> dict[Path, bytes | None]:
    """All files, and folders as None; but for what SQLite shares between processes."""
    every = (path for path in state.rglob("*") if not path.name.endswith("-shm"))
    return {path: path.read_bytes() if path.is_file() else None for path in every}


@requirement("O8", "O3")
async def test_doctor_shows_no_password_of_a_database(state: Path) -> None:
    state.mkdir(mode=0o700)
    dsn = "postgresql://ada:canary-password@127.0.0.1:1/molecule?sslpassword=canary-two&password=canary-three"
    report = await doctor(state, free_port(), MOLECULE_DATABASE=dsn)
    assert report.failing == ["store", "server"]
    assert "canary" not in report.words


@requirement("O8")
@pytest.mark.parametrize("status", ["200 OK", "301 Moved Permanently"])
async def test_doctor_knows_another_web_server_at_the_port_for_what_it_is(state: Path, status: str) -> None:
    async with other_server(status, "Location: https://other.example/") as other:
        report = await doctor(state, int(other.url.rpartition(":")[2]))
    assert f"another program responds at {other.url}/ready" in report.words


# -- line by line ------------------------------------------------------------------------------------------------------


@requirement("O8")
def test_an_old_python_and_an_old_sqlite_are_seen() -> None:
    assert [_doctor_checks.check_python(each).advice != "" for each in ((3, 10, 9), (3, 11, 0), (4, 0, 0))] == [
        True,
        False,
        False,
    ]
    assert not _doctor_checks.check_python().advice
    assert [_doctor_checks.check_sqlite(each).advice != "" for each in ("3.40.1", "3.51.2", "3.51.3", "3.54.0")] == [
        *(True, True, False, False),
    ]
    assert not _doctor_checks.check_sqlite().advice


@requirement("O8")
def test_a_full_disk_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not _doctor_checks.check_disk(tmp_path / "not" / "yet").advice
    full = os.statvfs_result([4096, 4096, 10, 10, 10, 0, 0, 0, 0, 255])
    monkeypatch.setattr("shutil.os.statvfs", lambda _path: full)
    found = _doctor_checks.check_disk(tmp_path)
    assert (found.observed, found.advice != "") == ("0 MiB free", True)


@requirement("O8")
def test_a_clock_that_went_back_is_seen(tmp_path: Path) -> None:
    clock, file = FakeClock(), tmp_path / "molecule.db"
    file.touch()
    os.utime(file, (clock.now() // SECOND, clock.now() // SECOND))
    assert not _doctor_checks.check_clock(Settings(state_dir=str(tmp_path)), clock).advice
    clock.at -= 3600 * SECOND
    late = _doctor_checks.check_clock(Settings(state_dir=str(tmp_path)), clock)
    assert "3,600 s behind" in late.observed
    assert late.advice
    clock.at = 0
    assert _doctor_checks.check_clock(Settings(state_dir=str(tmp_path)), clock).advice
    assert not _doctor_checks.check_clock(Settings(state_dir=str(tmp_path / "nowhere")), FakeClock()).advice


@requirement("O8", "O2")
def test_too_few_open_files_are_seen() -> None:
    usual, many = Settings(), Settings(limits=Limits(connections=50_000))
    assert [_doctor_checks.check_files(usual, most).advice != "" for most in (256, 1024, 4096, 1 << 20)] == [
        *(True, True, False, False),
    ]
    advice = _doctor_checks.check_files(many, 20_000).advice
    assert "LimitNOFILE=50256" in advice
    assert "MOLECULE_LIMIT_CONNECTIONS=19744" in advice


@requirement("O8")
@pytest.mark.parametrize(
    ("url", "good"),
    [
        ("", True),
        ("https://molecule.example", True),
        ("https://molecule.example:8443/base/", True),
        ("http://localhost:8080", True),
        ("http://[::1]:8080", True),
        ("http://molecule.example", False),
        ("molecule.example", False),
        ("ftp://molecule.example", False),
        ("https://", False),
        ("https://ada:secret@molecule.example", False),
        ("https://molecule.example/?token=x", False),
        ("https://molecule.example:port", False),
        ("https://[::1", False),
    ],
)
def test_an_address_that_cannot_be_one_is_seen(url: str, good: bool) -> None:
    found = _doctor_checks.check_url(Settings(public_url=url))
    assert (found.advice == "") is good, found
    assert "secret" not in found.observed


@requirement("O1", "O8")
def test_a_page_that_is_not_built_is_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert _doctor_checks.check_canvas() == ("canvas", "built", "")
    monkeypatch.setattr("molecule_core.cli._doctor_checks.resources.files", lambda _: tmp_path)
    assert "scripts/canvas build" in _doctor_checks.check_canvas().advice


@requirement("O8", "O6")
async def test_a_store_that_will_be_brought_forward_is_told_and_a_newer_one_is_wrong(tmp_path: Path) -> None:
    settings = Settings(state_dir=str(tmp_path))
    assert _doctor_checks.check_store(settings)[0].advice == ""
    await write_release("sqlite", str(tmp_path / "molecule.db"), 1, rows_of(1, 100))
    found, facts = _doctor_checks.check_store(settings)
    assert (found.advice, facts) == ("", StoreInfo(1, 1))
    assert f"upgrades it to {SCHEMA_VERSION}" in found.observed
    async with bench_on("sqlite", str(tmp_path / "molecule.db")) as bench:
        await bench.run(write(("set_meta", {"name": "schema", "value": str(SCHEMA_VERSION + 1)})))
    assert "newer Molecule" in _doctor_checks.check_store(settings)[0].observed
    assert read_store_info(tmp_path / "molecule.db").schema == SCHEMA_VERSION + 1


@requirement("O8")
def test_a_database_is_looked_at_by_what_it_says(postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place = asyncio.run(new_database(postgres))
    settings = Settings(database=place)
    found, facts = _doctor_checks.check_store(settings)
    assert (found.advice, facts) == ("", None)
    assert "empty" in found.observed
    asyncio.run(write_release("postgres", place, 2, rows_of(2, 100)))
    found, facts = _doctor_checks.check_store(settings)
    assert (found.advice, facts) == ("", StoreInfo(2, 1))
    with monkeypatch.context() as patch:
        patch.setattr(_doctor_checks, "_MIN_POSTGRES", 99)
        assert "upgrade PostgreSQL to 99" in _doctor_checks.check_store(settings)[0].advice
    with monkeypatch.context() as patch:
        patch.setattr(_doctor_checks, "_MIN_CONNECTIONS", 10_000)
        assert "max_connections" in _doctor_checks.check_store(settings)[0].advice
    with monkeypatch.context() as patch:
        patch.setattr(_doctor_checks, "SCHEMA_VERSION", 1)
        newer = _doctor_checks.check_store(settings)[0]
        assert "newer Molecule" in newer.observed
        assert "molecule restore" in newer.advice
    gone = _doctor_checks.check_store(Settings(database="postgresql://127.0.0.1:1/nothing"))[0]
    assert "does not respond" in gone.observed


@requirement("O8")
@pytest.mark.parametrize(("ahead", "observed"), [(0, "correct"), (60, "60 s ahead of"), (-60, "60 s behind")])
def test_a_clock_that_differs_from_the_databases_is_seen(
    postgres: str, tmp_path: Path, ahead: int, observed: str
) -> None:
    settings = Settings(database=asyncio.run(new_database(postgres)), state_dir=str(tmp_path))
    found = _doctor_checks.check_clock(settings, ShiftedClock(ahead))
    assert observed in found.observed
    assert bool(found.advice) == bool(ahead)


@requirement("O8", "O5")
def test_a_store_without_a_recent_backup_is_seen(tmp_path: Path) -> None:
    clock, settings = FakeClock(), Settings(state_dir=str(tmp_path))
    young, old = StoreInfo(3, clock.now() - 2 * DAY), StoreInfo(3, clock.now() - 20 * DAY)
    looks = [_doctor_checks.check_backup(settings, facts, clock).advice != "" for facts in (None, young, old)]
    assert looks == [False, False, True]
    stamp = tmp_path / BACKUP_STAMP
    stamp.touch()
    for days, late in ((0, False), (7, False), (9, True)):
        at = clock.now() // SECOND - days * 86_400
        os.utime(stamp, (at, at))
        assert (_doctor_checks.check_backup(settings, old, clock).advice != "") is late, days


@requirement("O8")
async def test_a_port_that_somebody_else_has_is_told_from_a_server_that_is_down(state: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        quiet = msgspec.structs.replace(Settings(), port=port)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_doctor_checks, "_TIMEOUT_SECONDS", 0.2)
            found = await asyncio.to_thread(_doctor_checks.check_server, quiet)
    assert "is in use" in found.observed
    assert str(port) in found.advice
    free = await asyncio.to_thread(_doctor_checks.check_server, Settings(port=free_port()))
    assert "molecule serve" in free.advice
