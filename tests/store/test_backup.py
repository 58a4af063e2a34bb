"""Copies of a store: taken while it is in use, put back while it is not, and never at the price of what was there."""

import asyncio
import random
import shutil
import stat
from pathlib import Path
from typing import Any

import apsw
import pytest

from molecule_core.common.errors import BackupFailed, StateInUse
from molecule_core.common.ids import IdGenerator
from molecule_core.store.database import SCHEMA_VERSION
from molecule_core.store.sqlite.backup import back_up_sqlite, integrity_error, is_in_use, restore_sqlite
from molecule_core.store.sqlite.store import DATABASE_FILE
from testing.clocks import FakeClock, SeededRandomness
from testing.waits import IN_PROCESS_SECONDS
from tests.requirements import requirement
from tests.store.instrumented_store import Bench, bench_on, event, note, numbered, seen_from_outside, write

TOO_NEW = note("so that it is not empty"), ("set_meta", {"name": "schema", "value": str(SCHEMA_VERSION + 1)})


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """The state folder of a server."""
    folder = tmp_path / "state"
    folder.mkdir()
    return folder


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Where a copy is to go."""
    return tmp_path / "copy.db"


def _place(state: Path) -> str:
    return str(state / DATABASE_FILE)


def _restore(copy: Path, state: Path, clock: FakeClock | None = None) -> Path | None:
    clock = clock or FakeClock()
    return restore_sqlite(copy, state, clock=clock, ids=IdGenerator(clock, SeededRandomness(77)))


async def _store_with(state: Path, *statements: Any) -> str:
    """Makes a store with these rows and closes it; its epoch."""
    async with bench_on("sqlite", _place(state)) as bench:
        await bench.run(write(*statements))
        return str(bench.store.epoch)


async def _notes(path: Path) -> dict[str, str]:
    rows = await seen_from_outside("sqlite", str(path), "SELECT name, value FROM meta WHERE name LIKE 'note %'")
    return dict(rows)


def _files(folder: Path) -> dict[str, bytes]:
    """What a folder holds; the lock file says nothing."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".lock"}


# -- taking a copy -----------------------------------------------------------------------------------------------------


class _Writing:
    """Groups of commands, one after the other, until told to stop. All of a command is in a copy, or nothing of it."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.rounds = 0
        self.stopping = False
        self.task = asyncio.create_task(self._work())

    async def _work(self) -> None:
        while not self.stopping:
            value = str(self.rounds + 1)
            await self.bench.together(
                write(note("one", value), note("other", value), events=[event()]), *(numbered("w") for _ in range(5))
            )
            self.rounds += 1

    async def stop(self) -> None:
        """Lets the round end that runs."""
        self.stopping = True
        async with asyncio.timeout(IN_PROCESS_SECONDS):
            await self.task


@requirement("O1")
async def test_a_copy_that_is_taken_while_the_server_writes_is_whole(state: Path, tmp_path: Path) -> None:
    async with bench_on("sqlite", _place(state)) as bench:
        for batch in range(30):
            await bench.together(*(write(note(f"ballast {batch} {part}", "x" * 5000)) for part in range(10)))
        writing = _Writing(bench)
        written_meanwhile = []
        for number in range(8):
            before = writing.rounds
            copy = tmp_path / f"copy {number}.db"
            size = await asyncio.to_thread(back_up_sqlite, state, copy)
            after = writing.rounds
            written_meanwhile.append(after - before)
            found = await _counts(copy)
            assert size == copy.stat().st_size
            assert integrity_error(copy) == ""
            assert found["one"] == found["other"]
            # Up to one round may be committed that its callers have not heard of yet.
            assert before <= found["one"] <= after + 1
            assert (found["rows"], found["highest row"]) == (5 * found["one"], 5 * found["one"])
            assert (found["events"], found["highest event"]) == (found["one"], found["one"])
        await writing.stop()
    assert sum(written_meanwhile) > 0  # the copies were really taken while it wrote


async def _counts(copy: Path) -> dict[str, int]:
    queries = {
        "one": "SELECT coalesce(max(value + 0), 0) FROM meta WHERE name = 'note one'",
        "other": "SELECT coalesce(max(value + 0), 0) FROM meta WHERE name = 'note other'",
        "rows": "SELECT count(*) FROM activities",
        "highest row": "SELECT coalesce(max(seq), 0) FROM activities",
        "events": "SELECT count(*) FROM events",
        "highest event": "SELECT coalesce(max(seq), 0) FROM events",
    }
    return {name: int((await seen_from_outside("sqlite", str(copy), sql))[0][0]) for name, sql in queries.items()}


async def test_a_copy_is_for_its_owner_alone_and_one_file(state: Path, copy: Path) -> None:
    await _store_with(state, note("a", "1"))
    assert back_up_sqlite(state, copy) == copy.stat().st_size > 0
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert sorted(path.name for path in copy.parent.iterdir()) == ["copy.db", "state"]
    assert await _notes(copy) == {"note a": "1"}


async def test_a_copy_never_overwrites(state: Path, copy: Path) -> None:
    await _store_with(state, note("a", "1"))
    copy.write_bytes(b"something dear")
    with pytest.raises(BackupFailed, match=r"already exists\. Choose a new file"):
        back_up_sqlite(state, copy)
    assert copy.read_bytes() == b"something dear"


async def test_what_an_interrupted_copy_left_behind_is_no_hindrance(state: Path, copy: Path) -> None:
    await _store_with(state, note("a", "1"))
    copy.with_name("copy.db.part").write_bytes(b"half of it")
    back_up_sqlite(state, copy)
    assert await _notes(copy) == {"note a": "1"}
    assert not copy.with_name("copy.db.part").exists()


def test_a_folder_without_a_store_has_nothing_to_copy(state: Path, copy: Path) -> None:
    with pytest.raises(BackupFailed, match="has no store"):
        back_up_sqlite(state, copy)
    assert list(state.iterdir()) == []
    assert not copy.exists()


async def test_a_copy_into_a_folder_that_does_not_exist_says_so(state: Path, tmp_path: Path) -> None:
    await _store_with(state, note("a"))
    with pytest.raises(BackupFailed, match="No such file or directory"):
        back_up_sqlite(state, tmp_path / "nowhere" / "copy.db")


async def test_a_store_that_is_damaged_gives_no_copy_and_no_half_of_one(state: Path, copy: Path) -> None:
    await _store_with(state, note("a", "x" * 50_000))
    _zero(state / DATABASE_FILE, 2)
    with pytest.raises(BackupFailed):
        back_up_sqlite(state, copy)
    assert [path.name for path in copy.parent.iterdir()] == ["state"]


# -- putting it back ---------------------------------------------------------------------------------------------------


@requirement("O1")
async def test_a_copy_takes_the_place_of_the_store_which_is_put_aside(
    state: Path, copy: Path, clock: FakeClock
) -> None:
    epoch = await _store_with(state, note("a", "then"))
    back_up_sqlite(state, copy)
    await _store_with(state, note("a", "now"), note("b", "now"))

    aside = _restore(copy, state, clock)

    assert aside == state / f"molecule.before-restore-{clock.now()}.db"
    assert await _notes(aside) == {"note a": "now", "note b": "now"}
    async with bench_on("sqlite", _place(state)) as bench:
        assert await bench.notes() == {"note a": "then"}
        assert bench.store.epoch not in ("", epoch)
    assert await seen_from_outside("sqlite", str(copy), "SELECT value FROM meta WHERE name = 'epoch'") == [(epoch,)]
    assert stat.S_IMODE((state / DATABASE_FILE).stat().st_mode) == 0o600
    assert not list(state.glob("*.incoming"))


async def test_two_restores_of_one_copy_have_epochs_of_their_own(state: Path, copy: Path) -> None:
    await _store_with(state, note("a"))
    back_up_sqlite(state, copy)
    clock, epochs = FakeClock(), set()
    ids = IdGenerator(clock, SeededRandomness(5))
    for _ in range(2):
        await clock.advance(1)
        restore_sqlite(copy, state, clock=clock, ids=ids)
        async with bench_on("sqlite", _place(state)) as bench:
            epochs.add(bench.store.epoch)
    assert len(epochs) == 2
    assert len(list(state.glob("molecule.before-restore-*.db"))) == 2


async def test_a_copy_fills_an_empty_folder_and_one_that_is_not_there_yet(
    state: Path, copy: Path, tmp_path: Path
) -> None:
    await _store_with(state, note("a", "1"))
    back_up_sqlite(state, copy)
    for folder in (tmp_path / "empty", tmp_path / "deep" / "new"):
        if folder.name == "empty":
            folder.mkdir()
        assert _restore(copy, folder) is None
        assert await _notes(folder / DATABASE_FILE) == {"note a": "1"}
    assert stat.S_IMODE((tmp_path / "deep" / "new").stat().st_mode) == 0o700


async def test_the_store_that_a_crash_left_is_put_aside_whole(state: Path, copy: Path, tmp_path: Path) -> None:
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    async with bench_on("sqlite", _place(state)) as bench:
        await bench.run(write(note("a", "then")))
        back_up_sqlite(state, copy)
        await bench.run(write(note("b", "only in the write-ahead log")))
        for name in (DATABASE_FILE, f"{DATABASE_FILE}-wal"):
            shutil.copy(state / name, crashed / name)
    assert (crashed / f"{DATABASE_FILE}-wal").stat().st_size > 0

    aside = _restore(copy, crashed)

    assert aside is not None
    assert await _notes(aside) == {"note a": "then", "note b": "only in the write-ahead log"}
    assert await _notes(crashed / DATABASE_FILE) == {"note a": "then"}


async def test_a_store_that_is_damaged_beyond_reading_can_be_replaced(state: Path, copy: Path) -> None:
    """This is what copies are for."""
    await _store_with(state, note("a", "1"))
    back_up_sqlite(state, copy)
    (state / DATABASE_FILE).write_bytes(b"the disk has eaten the store " * 500)
    aside = _restore(copy, state)
    assert aside is not None
    assert aside.read_bytes() == b"the disk has eaten the store " * 500
    assert await _notes(state / DATABASE_FILE) == {"note a": "1"}


@requirement("O1")
async def test_a_restore_is_refused_while_a_server_holds_the_store(state: Path, copy: Path) -> None:
    await _store_with(state, note("a", "then"))
    back_up_sqlite(state, copy)
    async with bench_on("sqlite", _place(state)) as bench:
        await bench.run(write(note("a", "now")))
        assert is_in_use(state)
        with pytest.raises(StateInUse):
            _restore(copy, state)
        await bench.run(write(note("b", "now")))
        assert await bench.notes() == {"note a": "now", "note b": "now"}
    assert not is_in_use(state)
    assert not list(state.glob("*restore*")) + list(state.glob("*.incoming"))


def _zero(path: Path, page: int) -> None:
    """Loses one page of a database."""
    body = bytearray(path.read_bytes())
    body[page * 4096 : (page + 1) * 4096] = bytes(4096)
    path.write_bytes(body)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _foreign(*statements: str) -> Any:
    def write_it(path: Path) -> None:
        path.unlink()
        connection = apsw.Connection(str(path))
        for sql in statements:
            connection.execute(sql)
        connection.close()

    return write_it


META = "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT)"
NO_COPIES = {
    "is not there": Path.unlink,
    "is empty": lambda path: path.write_bytes(b""),
    "is a text": lambda path: path.write_bytes(b"Dear diary, " * 1000),
    "has lost its end": _cut,
    "has lost its first page": lambda path: _zero(path, 0),
    "has lost a page": lambda path: _zero(path, 3),
    "belongs to another program": _foreign("CREATE TABLE songs (title TEXT)"),
    "has a table of that name": _foreign(META, "INSERT INTO meta VALUES ('schema', 'none')"),
    "has a table of that name without a schema": _foreign(META),
    "belongs to another program that counts its schemas too": _foreign(
        META, "INSERT INTO meta VALUES ('schema', '1'), ('epoch', 'e')", "CREATE TABLE songs (title TEXT)"
    ),
    "comes from a newer Molecule": lambda path: (
        apsw.Connection(str(path)).execute("UPDATE meta SET value = '99' WHERE name = 'schema'").connection.close()
    ),
}


@requirement("O1")
@pytest.mark.parametrize("fault", NO_COPIES)
async def test_what_is_no_sound_copy_is_refused_and_the_store_stays_as_it_was(
    state: Path, copy: Path, fault: str
) -> None:
    await _store_with(state, *(note(f"{number}", "x" * 2000) for number in range(20)))
    back_up_sqlite(state, copy)
    NO_COPIES[fault](copy)
    before = _files(state)
    with pytest.raises(BackupFailed, match="cannot be restored"):
        _restore(copy, state)
    assert _files(state) == before
    assert not is_in_use(state)


@pytest.mark.parametrize("seed", range(12))
async def test_a_copy_that_lost_pages_is_never_put_in_place(state: Path, copy: Path, seed: int) -> None:
    """Pages of the tree. (What lies inside a long text has no checksum: SQLite cannot tell that it was changed.)"""
    await _store_with(state, *(note(f"{number}", "x" * 300) for number in range(400)))
    back_up_sqlite(state, copy)
    chance = random.Random(seed)
    pages = copy.stat().st_size // 4096
    for page in chance.sample(range(pages), chance.randint(1, 3)):
        _zero(copy, page)
    before = _files(state)
    with pytest.raises(BackupFailed):
        _restore(copy, state)
    assert _files(state) == before


async def test_a_sound_store_has_no_fault_and_stays_untouched_by_the_question(state: Path, copy: Path) -> None:
    await _store_with(state, note("a"))
    before = (state / DATABASE_FILE).read_bytes()
    assert integrity_error(state / DATABASE_FILE) == ""
    assert (state / DATABASE_FILE).read_bytes() == before
    back_up_sqlite(state, copy)
    NO_COPIES["comes from a newer Molecule"](copy)
    assert "newer Molecule" in integrity_error(copy)
