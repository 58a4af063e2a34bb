"""Copies of a store at work, put back into an empty place, and what they hold: what `prove backup` starts."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from molecule_core.common.clock import SystemClock
from molecule_core.common.errors import BackupFailed
from molecule_core.common.ids import IdGenerator, SystemRandomness
from molecule_core.store.postgres import backup as postgres_backup
from molecule_core.store.sqlite import backup as sqlite_backup
from proofs.harness.children import as_a_child
from proofs.harness.ledger import read_tables
from proofs.harness.office import LIMITS, Office
from proofs.harness.settings import Setting
from proofs.harness.verdicts import Verdict
from proofs.workload.busy_writers import MOMENT, TABLES, Book, Busy, Seat, judge_moment, spoken
from testing.clocks import FakeClock
from testing.engines import Engine, drop_databases, new_database, server_of
from testing.running_server import Running, running

_PRELOADED = 1_500
# A copy is killed after so many acts of those who write meanwhile: early on, half-way, or when it has just ended.
_LATEST = (2, 8, 30, 120)
_KILLED, _OTHER_ENGINE = 0.4, 0.4
_MOST_NOTES = 5
# A frame or the end of a copy: in this process, on a busy machine.
_SECONDS = 60.0
_BEHIND = 5
BELIEVED = "old cursors believed"
SKIPPED = "skipped or seen twice behind the snapshot"
CREDENTIALS = "credentials lost"
HALF = "half copies in their place"
FAULTY = "integrity faults"
BROKE = "copies that failed"
ZEROS = (*MOMENT, BELIEVED, SKIPPED, CREDENTIALS, HALF, FAULTY, BROKE)

# Makes a copy as the command does, and says when it begins: it is killed on the way.
_COPIES = """
import asyncio, sys
from pathlib import Path
from molecule_core.store.postgres.backup import back_up_postgres
from molecule_core.store.sqlite.backup import back_up_sqlite
kind, place, copy = sys.argv[1:]
print("begins", flush=True)
if kind == "postgres":
    asyncio.run(back_up_postgres(place, Path(copy)))
else:
    back_up_sqlite(Path(place), Path(copy))
"""


class Copying:
    """One run: one server at work, copied again and again."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._dice = setting.dice("copies")
        self._book = Book()
        self._ids = IdGenerator(SystemClock(), SystemRandomness())
        self.verdict = Verdict(dict.fromkeys(("whole copies", "killed on the way", "into the other engine"), 0))
        self.verdict.zeros = dict.fromkeys(ZEROS, 0)

    async def run(self) -> Verdict:
        """`setting.size` copies."""
        office = Office(self._setting, FakeClock(), LIMITS)
        await office.server.open()
        try:
            busy = Busy(office, self._book, self._setting.dice("busy"))
            await busy.found()
            await self._preload(office, busy)
            for number in range(self._setting.size):
                await self._round(number, office, busy)
        finally:
            await office.server.close()
        self.verdict.figures |= self._book.acts()
        return self.verdict

    async def _preload(self, office: Office, busy: Busy) -> None:
        """So that a copy takes its time."""
        seat, inbox = busy.senders[0], busy.inboxes[0]
        for number in range(_PRELOADED):
            body = spoken(f"p-{number + 1} {'y' * 1_000}", number)
            await office.tell(seat.token, "POST", f"/workspaces/{inbox.id}/a2a", body)

    async def _round(self, number: int, office: Office, busy: Busy) -> None:
        copy = self._setting.folder / f"copy-{number}.db"
        working = Busy(office, self._book, self._setting.dice("busy", number))
        working.inboxes, working.senders, working.org_id = busy.inboxes, busy.senders, busy.org_id
        epoch = office.server.store.epoch
        before, handled = self._book.so_far()
        working.begin()
        try:
            if self._dice.random() < _KILLED:
                await self._kill_one(copy)
            else:
                await self._copy(copy)
        finally:
            await working.end()
        if copy.exists() and (fault := sqlite_backup.integrity_error(copy)):
            self._fault(HALF, fault)
            copy.unlink()
        if copy.exists():
            self.verdict.figures["whole copies"] += 1  # type: ignore[operator]
            await self._judge(copy, before, handled, working, epoch)
            copy.unlink()

    # -- copies --------------------------------------------------------------------------------------------------------

    async def _copy(self, copy: Path) -> None:
        try:
            if self._setting.engine == "postgres":
                await postgres_backup.back_up_postgres(self._setting.database, copy)
            else:
                await asyncio.to_thread(sqlite_backup.back_up_sqlite, self._setting.folder, copy)
        except BackupFailed as error:
            self._fault(BROKE, str(error))

    async def _kill_one(self, copy: Path) -> None:
        """A copy in a process of its own, which dies on the way, or has just ended."""
        engine = self._setting.engine
        place = self._setting.database if engine == "postgres" else str(self._setting.folder)
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", _COPIES, engine, place, str(copy)),
            env={**os.environ, "PYTHONPATH": self._setting.python_path()},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert child.stdout is not None
        async with asyncio.timeout(_SECONDS):
            await child.stdout.readline()
            await self._book.progress.after("done", self._dice.randint(1, self._dice.choice(_LATEST)), seconds=_SECONDS)
            if child.returncode is None:
                child.kill()
                self.verdict.figures["killed on the way"] += 1  # type: ignore[operator]
            _, said = await child.communicate()
        if child.returncode not in (0, -signal.SIGKILL):
            self._fault(BROKE, said.decode(errors="replace")[-200:])

    # -- what they hold ------------------------------------------------------------------------------------------------

    async def _judge(self, copy: Path, before: dict[str, int], handled: dict[str, int], busy: Busy, epoch: str) -> None:
        engine: Engine = self._setting.engine
        if self._setting.database and self._dice.random() < _OTHER_ENGINE:
            engine = "sqlite"
            self.verdict.figures["into the other engine"] += 1  # type: ignore[operator]
        folder = copy.with_suffix("")
        folder.mkdir()
        database = await new_database(server_of(self._setting.database)) if engine == "postgres" else ""
        restored = replace(self._setting, engine=engine, folder=folder, database=database)
        try:
            if engine == "postgres":
                await postgres_backup.restore_postgres(copy, database, ids=self._ids)
            else:
                sqlite_backup.restore_sqlite(copy, folder, clock=SystemClock(), ids=self._ids)
            tables, faults = await read_tables(restored, TABLES)
            for what, count in judge_moment(tables, self._book, before, handled).items():
                self._fault(what, "see the figures", count)
            for fault in faults or []:
                self._fault(FAULTY, fault)
            await self._goes_on(restored, tables, busy, epoch)
        finally:
            if database:
                await drop_databases([database])

    async def _goes_on(self, restored: Setting, tables: list[list[tuple[Any, ...]]], busy: Busy, epoch: str) -> None:
        """The store that was put back is served: who comes with an old place is sent away, and who starts from a
        snapshot misses nothing."""
        place = restored.database or str(restored.folder / "molecule.db")
        async with running(restored.engine, place, restored.folder, clock=FakeClock()) as server:
            events, kept = tables[-1], {row[2] for row in tables[-2]}
            upto = max((seq for org, seq, *_ in events if org == busy.org_id), default=0)
            first = await self._first_frame(server, busy.inboxes[0], f"{epoch}:{self._dice.randint(1, upto)}")
            if "snapshot_required" not in first:
                self._fault(BELIEVED, first)
            for seat in busy.inboxes:
                row = self._book.last_rows.get(seat.id, "")
                status = await _status(server, seat, f"/workspaces/{seat.id}/activity?since_id={row}&wait=0")
                if status != (200 if row in kept else 410):
                    self._fault(CREDENTIALS if status in (401, 403) else BELIEVED, f"since_id: {status}")
            await self._follows(server, busy)

    async def _follows(self, server: Running, busy: Busy) -> None:
        shown = await server.admin.get(f"/orgs/{busy.org_id}/snapshot")
        sender, inbox = server.api(busy.senders[0].token), busy.inboxes[0]
        sent = []
        for number in range(_BEHIND):
            done = await sender.post(f"/workspaces/{inbox.id}/a2a", spoken(f"behind-{number} so", number))
            sent.append(done["activity_id"])
        reader, writer = await _stream(server, inbox.token, f"{shown['epoch']}:{shown['as_of']}")
        seen = list[str]()
        try:
            async with asyncio.timeout(_SECONDS):
                while len(seen) < _BEHIND:
                    line = (await reader.readline()).decode()
                    if line.startswith("data: ") and '"activity"' in line:
                        event = msgspec.json.decode(line[6:])
                        seen += [event["entity"]["id"]] if event.get("event") == "ACTIVITY_LOGGED" else []
        except TimeoutError:
            pass
        finally:
            writer.close()
        if seen != sent:
            self._fault(SKIPPED, f"{seen} for {sent}")

    async def _first_frame(self, server: Running, seat: Seat, last: str) -> str:
        """What an event stream says first to who comes with an old place."""
        reader, writer = await _stream(server, seat.token, last)
        try:
            async with asyncio.timeout(_SECONDS):
                for _ in range(20):
                    line = (await reader.readline()).decode()
                    if line.startswith("event: ") and "hello" not in line:
                        return line.strip()
                    if line.startswith("data: ") and '"seq"' in line:
                        return line[:80]
        except TimeoutError:
            return "nothing"
        finally:
            writer.close()
        return "nothing but other frames"

    def _fault(self, what: str, note: str, count: int = 1) -> None:
        self.verdict.zeros[what] += count
        if count and len(self.verdict.notes) < _MOST_NOTES:
            self.verdict.notes.append(f"{what}: {note[:200]}")


async def _stream(server: Running, token: str, last: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    head = f"GET /events/stream HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nAuthorization: Bearer {token}\r\n"
    writer.write(f"{head}Last-Event-ID: {last}\r\n\r\n".encode())
    return reader, writer


async def _status(server: Running, seat: Seat, path: str) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nAuthorization: Bearer {seat.token}\r\n"
    writer.write(f"{head}Connection: close\r\n\r\n".encode())
    async with asyncio.timeout(_SECONDS):
        line = await reader.readline()
    writer.close()
    return int(line.split()[1])


async def run(setting: Setting) -> Verdict:
    """One run."""
    return await Copying(setting).run()


if __name__ == "__main__":
    as_a_child(run)
