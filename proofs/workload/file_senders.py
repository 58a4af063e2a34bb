"""Agents that send files to their users and read them again. What was taken is there, byte for byte, for good.

An upload has no key: who was cut off sends it again, and what came of the first call is nobody's. Above: the proofs
that disturb the server. Below: the people's way of asking (company.py), a look into the store and the folder of files.
"""

import asyncio
import hashlib
from pathlib import Path
from random import Random

from msgspec import Struct

from proofs.harness.caller import Caller, Refused
from proofs.harness.ledger import Ledger, read_tables
from proofs.harness.serving import ADMIN_TOKEN, Place
from proofs.harness.settings import Setting
from proofs.harness.verdicts import Figure
from proofs.workload.company import Company, Seat
from proofs.workload.observations import Book

MISSING, ALTERED, HOLLOW = "files missing", "files altered", "rows of files without their bytes"
_TABLE = "SELECT id, workspace_id, size, sha256 FROM files"
_SEATS = 2
# Below what is written together to the disk, and above it.
_BYTES = (1, 700, 20_000, 150_000)
_READS = 0.7
_BOUNDARY = "molecule"


class File(Struct, frozen=True):
    """A file that was taken."""

    workspace_id: str
    sha256: str


class Files:
    """Everything that was answered about files; finds contradictions."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self.taken: dict[str, File] = {}
        """By the id that was told."""

    def read(self, file_id: str, found: bytes | None) -> None:
        """Somebody asked for a file that was taken before; None: it is not there."""
        self._book.figures["files read"] += 1
        if found is None:
            self._book.fault(MISSING, file_id)
        elif _sum(found) != self.taken[file_id].sha256:
            self._book.fault(ALTERED, f"{file_id}: {len(found)} bytes")

    def judge(self, rows: dict[str, tuple[str, int, str]], folder: Path) -> dict[str, int]:
        """What was answered against what the store and the folder hold in the end. `rows`: workspace, size and sum by
        the ids of files."""
        zeros = {MISSING: self._book.faults[MISSING], ALTERED: self._book.faults[ALTERED], HOLLOW: 0}
        for id_, file in self.taken.items():
            if id_ not in rows or not (folder / id_).is_file():
                zeros[MISSING] += 1
            elif rows[id_][::2] != (file.workspace_id, file.sha256) or _sum_of(folder / id_) != file.sha256:
                zeros[ALTERED] += 1
        for id_, (_, size, _) in rows.items():
            path = folder / id_
            zeros[HOLLOW] += not path.is_file() or path.stat().st_size != size
        return zeros


class Filers:
    """Workspaces that send files, one agent in each."""

    def __init__(self, setting: Setting, server: Place, company: Company, book: Book) -> None:
        self._setting = setting
        self._server = server
        self._company = company
        self._book = book
        self._seats: list[Seat] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._lives = 0
        self.files = Files(book)

    async def found(self) -> None:
        """Makes the seats."""
        async with Caller(self._server.port, ADMIN_TOKEN) as admin:
            self._seats = [Seat(await admin.post("/workspaces", {"name": f"Filer {n}"})) for n in range(_SEATS)]

    def begin(self) -> None:
        """Everybody goes to work."""
        self._tasks = [asyncio.create_task(self._work(n, 0)) for n in range(_SEATS)]

    async def kill_one(self, throw: int) -> None:
        """One of them dies in the middle of what it does, and another takes its seat, knowing nothing."""
        place = throw % len(self._tasks)
        self._lives += 1
        await self._company.kill(self._tasks[place])
        self._tasks[place] = asyncio.create_task(self._work(place, self._lives))

    async def finish(self, seconds: float) -> None:
        """They end their last call (the book says `stopping`)."""
        await self._company.end(self._tasks, seconds)

    def figures(self) -> dict[str, Figure]:
        """How much of it there was."""
        return {"files": len(self.files.taken), "files read": self._book.figures["files read"]}

    async def judge(self, ledger: Ledger) -> dict[str, int]:
        """What they saw against what the store and the folder hold."""
        (rows,), _ = await read_tables(self._setting, (_TABLE,))
        return self.files.judge({id_: tuple(rest) for id_, *rest in rows}, self._setting.folder / "files")

    # -- what they do --------------------------------------------------------------------------------------------------

    async def _work(self, place: int, life: int) -> None:
        dice, seat, mine = self._setting.dice("filer", place, life), self._seats[place], list[str]()
        async with Caller(self._server.port, seat.token) as api:
            while not self._book.stopping.is_set():
                await self._company.let_others()
                await self._send(api, seat, mine, dice)
                if mine and dice.random() < _READS:
                    await self._read(api, seat, dice.choice(mine))

    async def _send(self, api: Caller, seat: Seat, mine: list[str], dice: Random) -> None:
        content = dice.randbytes(dice.choice(_BYTES))
        head = f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="files"; filename="f"\r\n\r\n'
        body = head.encode() + content + f"\r\n--{_BOUNDARY}--\r\n".encode()
        kind = {"content-type": f"multipart/form-data; boundary={_BOUNDARY}"}
        try:
            told = await self._company.insist(
                lambda: api.call("POST", f"/workspaces/{seat.id}/chat/uploads", body, kind)
            )
        except Refused as error:
            self._company.refused(error, "send a file")
            return
        file_id = str(told["files"][0]["uri"]).rpartition("/")[2]
        self.files.taken[file_id] = File(seat.id, _sum(content))
        mine.append(file_id)
        self._book.progress.note("accepted")

    async def _read(self, api: Caller, seat: Seat, file_id: str) -> None:
        path = f"/workspaces/{seat.id}/files/{file_id}"
        try:
            self.files.read(file_id, await self._company.insist(lambda: api.fetch(path)))
        except Refused as error:
            if error.status == 404:
                self.files.read(file_id, None)
            else:
                self._company.refused(error, f"read {file_id}")


def _sum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _sum_of(path: Path) -> str:
    return _sum(path.read_bytes())
