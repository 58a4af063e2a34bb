"""The bytes of files: one folder, generated names, nothing else.

A name is an id that the server has made, so no name is a path. The folder is held open, and everything in it is reached
through that handle; links are never followed. What is being received is called `<id>.part`, and takes its own name only
when all of it is on the disk. Everything here happens in threads of its own: a disk that hangs holds up no loop.
"""

import asyncio
import contextlib
import hashlib
import logging
import os
import re
import stat
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from errno import EDQUOT, EFBIG, ENOSPC
from pathlib import Path
from typing import TypeVar

from molecule_core.common.errors import BadSettings, DiskFull, FilesUnavailable, MoleculeError, NotFound

T = TypeVar("T")
_PART_SUFFIX = ".part"
_NAME = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# What comes in small pieces is gathered up to here: who is slow on purpose must not cost a thread for each byte.
_BUFFER_BYTES = 64 << 10
# Some disks serve several at once; more would only hold memory.
_THREADS = 4
_log = logging.getLogger("molecule.files")


class BlobStore:
    """The folder. `reserve` bytes of its disk stay free for everything else."""

    def __init__(self, folder: Path, *, reserve: int) -> None:
        self._folder = folder
        self._reserve = reserve
        self._handle = -1
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="molecule-files")

    def open(self) -> None:
        """Makes the folder if there is none, for its owner alone. Raises BadSettings."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._handle = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise BadSettings(reason=f"the folder of files {self._folder} does not work: {error.strerror}") from None

    def close(self) -> None:
        """Finishes what was begun."""
        self._threads.shutdown()
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    async def open_writer(self, name: str) -> "BlobWriter":
        """Begins a new file. Raises NoRoom, FilesUnavailable."""
        writer = BlobWriter(self, _validate_id(name))
        await self.run_in_thread(writer.create)
        return writer

    async def open_reader(self, name: str, size: int) -> "BlobReader":
        """A file that is there whole. Raises NotFound: it is not, or something else lies in its place."""
        return await self.run_in_thread(lambda: self._open_file(_validate_id(name), size))

    def _open_file(self, name: str, size: int) -> "BlobReader":
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # control: stored-file-no-link
        try:
            handle = os.open(name, flags, dir_fd=self._handle)
        except OSError as error:
            _log.error("the bytes of a file cannot be read (%s)", error.strerror, extra={"file": name})
            raise NotFound(what="file") from None
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_size != size:
            os.close(handle)
            _log.error("the bytes of a file are not what was written", extra={"file": name})
            raise NotFound(what="file")
        return BlobReader(self, handle, size)

    async def remove(self, name: str) -> None:
        """No such file any more."""
        await self.run_in_thread(lambda: self.unlink_file(_validate_id(name)))

    async def list_ids(self) -> list[str]:
        """The ids of all that lies in the folder, received or half so, in the order in which they were made."""
        return await self.run_in_thread(lambda: sorted(self._scan_ids()))

    def _scan_ids(self) -> set[str]:
        with os.scandir(self._handle) as entries:
            found = {entry.name.removesuffix(_PART_SUFFIX) for entry in entries}
        return {each for each in found if _NAME.fullmatch(each)}

    # -- in a thread ---------------------------------------------------------------------------------------------------

    def run_in_thread(self, action: Callable[[], T]) -> "asyncio.Future[T]":
        """Does something in a thread. Trouble with the disk becomes a refusal."""
        return asyncio.get_running_loop().run_in_executor(self._threads, _translate_errors, action)

    def submit(self, action: Callable[[], None]) -> None:
        """The same, for nobody to wait for."""
        with contextlib.suppress(RuntimeError):  # the folder is closed: handles end with the process, the rest is swept
            self._threads.submit(action)

    def create_file(self, name: str) -> int:
        """A new file, open for writing."""
        disk_stats = os.fstatvfs(self._handle)
        if disk_stats.f_bavail * disk_stats.f_frsize < self._reserve:
            raise DiskFull
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(name + _PART_SUFFIX, flags, 0o600, dir_fd=self._handle)

    def finalize_file(self, name: str) -> None:
        """A file that has been written takes its name; both are on the disk then."""
        os.rename(name + _PART_SUFFIX, name, src_dir_fd=self._handle, dst_dir_fd=self._handle)
        os.fsync(self._handle)

    def unlink_file(self, name: str) -> None:
        """A file and what there is of it half received are gone."""
        for each in (name + _PART_SUFFIX, name):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(each, dir_fd=self._handle)


class BlobWriter:
    """A file that is being received: written, and then kept or dropped. A lock keeps what its caller gave up in the
    middle of a step from closing the file under that step."""

    def __init__(self, store: BlobStore, name: str) -> None:
        self.size = 0
        self._store = store
        self._name = name
        self._hasher = hashlib.sha256()
        self._buffer = bytearray()
        self._handle = -1
        self._discarded = False
        self._lock = threading.Lock()

    @property
    def sha256(self) -> str:
        """The sum of all of it, once it is kept."""
        return self._hasher.hexdigest()

    def create(self) -> None:
        """In a thread."""
        with self._lock:
            self._handle = self._store.create_file(self._name)

    async def write(self, data: bytes) -> None:
        """More of it; what is little is written with what comes next. Raises NoRoom, FilesUnavailable."""
        self.size += len(data)
        self._buffer += data
        if len(self._buffer) >= _BUFFER_BYTES:
            buffered, self._buffer = self._buffer, bytearray()
            await self._store.run_in_thread(lambda: self._write(buffered))

    def _write(self, data: bytearray) -> None:
        with self._lock:
            if self._discarded:
                return
            self._hasher.update(data)
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._handle, rest) :]

    async def commit(self) -> None:
        """All of it is on the disk, under its name. Raises NoRoom, FilesUnavailable."""
        await self._store.run_in_thread(self._commit)

    def _commit(self) -> None:
        self._write(self._buffer)
        with self._lock:
            if not self._discarded:
                os.fsync(self._handle)
                self._close()
                self._store.finalize_file(self._name)

    def discard(self) -> "asyncio.Future[None]":
        """Nothing of it stays, whether or not somebody waits for that."""
        return self._store.run_in_thread(self._discard)

    def _discard(self) -> None:
        with self._lock:
            self._discarded = True
            self._close()
            self._store.unlink_file(self._name)

    def _close(self) -> None:
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)


class BlobReader:
    """A file that is being read."""

    def __init__(self, store: BlobStore, handle: int, size: int) -> None:
        self.size = size
        self._store = store
        self._handle = handle
        self._lock = threading.Lock()

    async def read(self, count: int) -> bytes:
        """At most so many bytes more; none at the end."""
        return await self._store.run_in_thread(lambda: self._read(count))

    def _read(self, count: int) -> bytes:
        with self._lock:
            return os.read(self._handle, count) if self._handle >= 0 else b""

    async def peek(self, count: int) -> bytes:
        """The first bytes."""
        return await self._store.run_in_thread(lambda: os.pread(self._handle, count, 0))

    def close(self) -> None:
        """Nothing more is read."""
        self._store.submit(self._close)

    def _close(self) -> None:
        with self._lock:
            handle, self._handle = self._handle, -1
            if handle >= 0:
                os.close(handle)

    def __del__(self) -> None:
        """Who wanted it may have gone while it was being opened, or before a byte of it was sent."""
        self._close()


def _validate_id(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise NotFound(what="file")
    return name


def _translate_errors(action: Callable[[], T]) -> T:
    """Does it, and says in our words what a disk says by number."""
    try:
        return action()
    except MoleculeError:
        raise
    except OSError as error:
        if error.errno in (ENOSPC, EDQUOT, EFBIG):
            raise DiskFull from None
        _log.error("the folder of files does not work (%s)", error.strerror)
        raise FilesUnavailable from None
