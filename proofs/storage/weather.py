"""A disk that fails when it is told to: a layer between SQLite and its files that counts its calls.

Above: rounds.py. Below: SQLite's own files.
"""

from collections import Counter
from typing import Any

import apsw

_DISK = "unix"


class Weather:
    """Which call fails. Calls are counted from `storm` on; in fair weather none is."""

    def __init__(self) -> None:
        self.failed: Counter[str] = Counter()
        """Failed calls, by what they wanted."""
        self.connections: list[apsw.Connection] = []
        """All that were opened on this disk."""
        self._at: int | None = None
        self._lasting = False
        self._only: str | None = None
        self._calls = 0
        self._struck = False

    @property
    def struck(self) -> bool:
        """Whether a call has failed since `storm`."""
        return self._struck

    def storm(self, at: int, *, lasting: bool, only: str | None = None) -> None:
        """The call of this number fails, from 1; `lasting`: and each after it; `only`: of those that want this."""
        self._at, self._lasting, self._only, self._calls, self._struck = at, lasting, only, 0, False

    def clear(self) -> None:
        """Everything works again."""
        self._at = None

    def pass_by(self, what: str) -> None:
        """One call. Raises apsw.IOError."""
        if self._at is None or self._only not in (None, what):
            return
        self._calls += 1
        if self._calls == self._at or (self._lasting and self._calls > self._at):
            self._struck = True
            self.failed[what] += 1
            raise apsw.IOError(f"the disk fails at its {what}")


class _File(apsw.VFSFile):
    def __init__(self, weather: Weather, name: Any, flags: list[int]) -> None:
        super().__init__(_DISK, name, flags)
        self._weather = weather

    def xRead(self, amount: int, offset: int) -> bytes:
        self._weather.pass_by("read")
        return super().xRead(amount, offset)

    def xWrite(self, data: Any, offset: int) -> None:
        self._weather.pass_by("write")
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        self._weather.pass_by("sync")
        super().xSync(flags)

    def xTruncate(self, newsize: int) -> None:
        self._weather.pass_by("truncate")
        super().xTruncate(newsize)


class Disk(apsw.VFS):
    """The disk of this process, from now on. Keep it as long as there are connections."""

    def __init__(self, weather: Weather) -> None:
        self._weather = weather
        apsw.connection_hooks.append(weather.connections.append)
        super().__init__("weather", _DISK, makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> _File:
        return _File(self._weather, name, flags)
