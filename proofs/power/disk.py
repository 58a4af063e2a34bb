"""A disk that forgets what was not flushed: SQLite's files as they would be found after a power cut.

Writes go to the real file, so that the store reads what it wrote; beside it each file keeps what was flushed, and the
writes since. After a cut the disk holds what was flushed and any of the others, the last of them perhaps torn. (That a
file exists, and how the index of the log lies in memory, is not forgotten: SQLite makes the latter anew.)
"""

from pathlib import Path
from random import Random
from typing import Any, Protocol

import apsw

SECTOR = 512
_REMEMBERED = 0.5
_KINDS = apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL


class Touched(Protocol):
    """Who hears of each write and each flush before it is done."""

    def __call__(self, path: str, *, is_flush: bool) -> None: ...


class Platter:
    """One file: what was flushed, and what was written since."""

    def __init__(self) -> None:
        self.flushed = bytearray()
        self.pending: list[tuple[int, bytes | None]] = []

    def flush(self) -> None:
        """Nothing of it can be forgotten any more."""
        for offset, data in self.pending:
            _apply(self.flushed, offset, data)
        self.pending.clear()

    def after_a_cut(self, dice: Random) -> bytes:
        """What is found of it."""
        image = bytearray(self.flushed)
        kept = [each for each in self.pending if dice.random() < _REMEMBERED]
        for number, (offset, data) in enumerate(kept):
            is_torn = data is not None and number == len(kept) - 1
            _apply(
                image, offset, data[: dice.randrange(len(data) // SECTOR + 1) * SECTOR] if is_torn and data else data
            )
        return bytes(image)


def _apply(image: bytearray, offset: int, data: bytes | None) -> None:
    """A write, or (None) the end of the file."""
    if data is None:
        del image[offset:]
        return
    image.extend(bytes(max(0, offset - len(image))))
    image[offset : offset + len(data)] = data


class Disk(apsw.VFS):
    """What SQLite opens in a folder from now on lies on it. `touched` is called before each write and each flush."""

    def __init__(self, folder: Path, touched: Touched) -> None:
        self._folder = folder
        self.platters: dict[str, Platter] = {}
        self.touched = touched
        self._below = apsw.vfs_names()[0]
        super().__init__("forgetful", self._below, makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> Any:
        """A file whose writes are remembered here too."""
        path = name if isinstance(name, str) else "" if name is None else name.filename()
        if not flags[0] & _KINDS or Path(path).parent != self._folder:
            return super().xOpen(name, flags)
        platter = self.platters.setdefault(path, Platter())
        return _File(self._below, name, flags, path, platter, self.touched)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        """A file goes."""
        self.platters.pop(filename, None)
        super().xDelete(filename, syncdir)


class _File(apsw.VFSFile):
    def __init__(self, below: str, name: Any, flags: list[int], path: str, platter: Platter, touched: Touched) -> None:
        self._path, self._platter, self._touched = path, platter, touched
        super().__init__(below, name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        """Some bytes."""
        self._touched(self._path, is_flush=False)
        self._platter.pending.append((offset, bytes(data)))
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:
        """The file ends here."""
        self._touched(self._path, is_flush=False)
        self._platter.pending.append((newsize, None))
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:
        """What was written is on the disk."""
        self._touched(self._path, is_flush=True)
        super().xSync(flags)
        self._platter.flush()
