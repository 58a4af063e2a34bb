"""Standard input as lines that nothing in them can end, standard output as whole lines.

Above: main. Below: the pipes.
"""

import asyncio
import contextlib
import logging
import os
import stat
import sys
from collections.abc import AsyncIterator
from typing import Any, Protocol

import msgspec

_log = logging.getLogger("molecule.agent")
_CHUNK = 64 << 10
# Of one kind of bad input the first is told, then every thousandth.
_LOG_EVERY = 1000


class LineSplitter:
    """Cuts bytes into lines. One that is too long is passed over up to its end, however long that is."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._parts: list[bytes] = []
        self._size = 0
        self.too_long_count = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that these bytes complete."""
        *ends, rest = data.split(b"\n")
        lines = [line for line in map(self._finish_line, ends) if line is not None]
        self._append_part(rest)
        return lines

    def take_rest(self) -> bytes:
        """What came behind the last line, when nothing comes any more."""
        return self._finish_line(b"") or b""

    def _append_part(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._max_bytes:
            self._parts.clear()
        elif part:
            self._parts.append(part)

    def _finish_line(self, part: bytes) -> bytes | None:
        self._append_part(part)
        line = b"".join(self._parts) if self._size <= self._max_bytes else None
        self._parts, self._size = [], 0
        if line is None:
            self.too_long_count += 1
        return line


class ByteOutput(Protocol):
    """Where bytes go."""

    async def write(self, data: bytes) -> None:
        """Writes all of them. Raises OSError."""

    async def close(self) -> None:
        """Returns when all of them are out."""


class Stdio:
    """The two streams of this process. `spoke` is set when something was written for the first time."""

    def __init__(self, reader: asyncio.StreamReader | None, output: ByteOutput, max_bytes: int) -> None:
        self.has_written = asyncio.Event()
        self._reader = reader
        self._output = output
        self._lines = LineSplitter(max_bytes)
        self._logged_count = 0

    @classmethod
    async def open(cls, max_bytes: int) -> "Stdio":
        """Takes both streams for itself: what else is printed in this process goes to standard error."""
        stdout_copy = os.dup(sys.stdout.fileno())
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        return cls(await _open_reader(sys.stdin.fileno()), await _open_output(stdout_copy), max_bytes)

    async def lines(self) -> AsyncIterator[bytes]:
        """Each line, until the other side closes."""
        while data := await self._read():
            for line in self._lines.feed(data):
                yield line
            self._log_too_long()
        if rest := self._lines.take_rest():
            yield rest

    async def _read(self) -> bytes:
        if self._reader is None:
            return os.read(sys.stdin.fileno(), _CHUNK)  # a file, which never makes one wait
        with contextlib.suppress(OSError):  # the other side is gone in a worse way
            return await self._reader.read(_CHUNK)
        return b""

    def _log_too_long(self) -> None:
        if self._lines.too_long_count // _LOG_EVERY > self._logged_count // _LOG_EVERY or (
            self._lines.too_long_count and not self._logged_count
        ):
            _log.warning("%s lines of standard input were too long and were left out", self._lines.too_long_count)
        self._logged_count = self._lines.too_long_count

    async def close(self) -> None:
        """Returns when all that was sent has been taken. The streams are as they were: others may go on using them."""
        await self._output.close()
        for handle in (sys.stdin.fileno(), sys.stdout.fileno()):
            os.set_blocking(handle, True)

    async def send(self, message: dict[str, Any]) -> None:
        """One message as one line. Raises OSError."""
        await self._output.write(msgspec.json.encode(message) + b"\n")
        self.has_written.set()


async def _open_reader(handle: int) -> asyncio.StreamReader | None:
    """A reader of a pipe, a socket or a terminal; None for a file."""
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return None
    reader = asyncio.StreamReader(limit=_CHUNK)
    protocol = asyncio.StreamReaderProtocol(reader)
    try:
        await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, os.fdopen(handle, "rb", 0, closefd=False))
    except (PermissionError, ValueError):  # /dev/null cannot be watched
        return None
    return reader


class _PipeOutput(asyncio.Protocol):
    """Output to a pipe: whoever writes waits while the other side does not read."""

    def __init__(self) -> None:
        self._transport: asyncio.WriteTransport | None = None
        self._is_writable = asyncio.Event()
        self._is_closed = asyncio.Event()
        self._lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport
        self._is_writable.set()

    def connection_lost(self, _error: Exception | None) -> None:
        self._lost = True
        self._is_writable.set()
        self._is_closed.set()

    def pause_writing(self) -> None:
        self._is_writable.clear()

    def resume_writing(self) -> None:
        self._is_writable.set()

    async def write(self, data: bytes) -> None:
        """Writes all of it in one piece. Raises BrokenPipeError."""
        await self._is_writable.wait()
        if self._lost or self._transport is None:
            raise BrokenPipeError
        self._transport.write(data)
        await self._is_writable.wait()

    async def close(self) -> None:
        """Returns when all is out, or nobody is there."""
        if self._transport is not None:
            self._transport.close()
            await self._is_closed.wait()


class _FileOutput:
    """Output to a file, which never makes one wait."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    async def write(self, data: bytes) -> None:
        """Writes all of it. Raises OSError."""
        while data:
            data = data[os.write(self._handle, data) :]

    async def close(self) -> None:
        """Nothing is on its way."""


async def _open_output(handle: int) -> ByteOutput:
    pipe = _PipeOutput()
    try:
        await asyncio.get_running_loop().connect_write_pipe(lambda: pipe, os.fdopen(handle, "wb", 0))
    except (PermissionError, ValueError):
        return _FileOutput(handle)
    return pipe
