"""Reads lines from standard input and writes whole lines to standard output."""

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
# Skipped lines: the first is logged, then every thousandth.
_LOG_EVERY = 1000


class LineSplitter:
    """Splitter of bytes into lines. A line over `max_bytes` is skipped, however long it is."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._parts: list[bytes] = []
        self._size = 0
        self.too_long_count = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that these bytes complete."""
        *ends, rest = data.split(b"\n")
        lines = [line for line in map(self._finish_line, ends) if line is not None]
        self._append_part(rest)
        return lines

    def take_rest(self) -> bytes:
        """Return the incomplete last line at the end of the input."""
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
    """Asynchronous byte output."""

    async def write(self, data: bytes) -> None:
        """Write all of `data`. Raises OSError."""

    async def close(self) -> None:
        """Flush and close."""


class Stdio:
    """The two streams of this process. `has_written`: set at the first write."""

    def __init__(self, reader: asyncio.StreamReader | None, output: ByteOutput, max_bytes: int) -> None:
        self.has_written = asyncio.Event()
        self._reader = reader
        self._output = output
        self._lines = LineSplitter(max_bytes)
        self._logged_count = 0

    @classmethod
    async def open(cls, max_bytes: int) -> "Stdio":
        """Take both streams; other output of this process is redirected to standard error."""
        stdout_copy = os.dup(sys.stdout.fileno())
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        return cls(await _open_reader(sys.stdin.fileno()), await _open_output(stdout_copy), max_bytes)

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield each line until the other side closes."""
        while data := await self._read():
            for line in self._lines.feed(data):
                yield line
            self._log_too_long()
        if rest := self._lines.take_rest():
            yield rest

    async def _read(self) -> bytes:
        if self._reader is None:
            return os.read(sys.stdin.fileno(), _CHUNK)  # a file never blocks
        with contextlib.suppress(OSError):  # the other side broke the connection
            return await self._reader.read(_CHUNK)
        return b""

    def _log_too_long(self) -> None:
        if self._lines.too_long_count // _LOG_EVERY > self._logged_count // _LOG_EVERY or (
            self._lines.too_long_count and not self._logged_count
        ):
            _log.warning("%s lines of standard input were too long and were dropped", self._lines.too_long_count)
        self._logged_count = self._lines.too_long_count

    async def close(self) -> None:
        """Flush, close, and make both streams blocking again: other code may go on using them."""
        await self._output.close()
        for handle in (sys.stdin.fileno(), sys.stdout.fileno()):
            os.set_blocking(handle, True)

    async def send(self, message: dict[str, Any]) -> None:
        """Write one message as one line. Raises OSError."""
        await self._output.write(msgspec.json.encode(message) + b"\n")
        self.has_written.set()


async def _open_reader(handle: int) -> asyncio.StreamReader | None:
    """Return a reader of a pipe, socket or terminal; None for a file or a device such as /dev/null."""
    mode = os.fstat(handle).st_mode
    # The loop reports a device that cannot be watched only later, in a callback, and then nothing ends the wait.
    if stat.S_ISREG(mode) or (stat.S_ISCHR(mode) and not os.isatty(handle)):
        return None
    reader = asyncio.StreamReader(limit=_CHUNK)
    protocol = asyncio.StreamReaderProtocol(reader)
    try:
        await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, os.fdopen(handle, "rb", 0, closefd=False))
    except (PermissionError, ValueError):
        return None
    return reader


class _PipeOutput(asyncio.Protocol):
    """Output to a pipe, with back-pressure while the other side does not read."""

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
        """Write all of `data` in one piece. Raises BrokenPipeError."""
        await self._is_writable.wait()
        if self._lost or self._transport is None:
            raise BrokenPipeError
        self._transport.write(data)
        await self._is_writable.wait()

    async def close(self) -> None:
        """Flush and close; returns at once if the other side is gone."""
        if self._transport is not None:
            self._transport.close()
            await self._is_closed.wait()


class _FileOutput:
    """Output to a file, which never blocks."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    async def write(self, data: bytes) -> None:
        """Write all of `data`. Raises OSError."""
        while data:
            data = data[os.write(self._handle, data) :]

    async def close(self) -> None:
        """Do nothing: each write is complete."""


async def _open_output(handle: int) -> ByteOutput:
    pipe = _PipeOutput()
    try:
        await asyncio.get_running_loop().connect_write_pipe(lambda: pipe, os.fdopen(handle, "wb", 0))
    except (PermissionError, ValueError):
        return _FileOutput(handle)
    return pipe
