"""Stores the bytes of attached files in one folder, under generated names.

A name is an id made by the server, never a path. The folder is kept open and everything in it is accessed relative to
that descriptor; links are not followed. A file being received is called `<id>.part` and gets its own name only when all
of it is on disk. All file access runs in threads of its own, so that a hanging disk does not block the event loop.
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
from errno import EFBIG
from pathlib import Path
from typing import TypeVar

from molecule_core.common.errors import BadSettings, DiskFull, FilesUnavailable, MoleculeError, NotFound
from molecule_core.common.state_files import (
    FULL_DISK_ERRORS,
    create_private_folder,
    disk_full_error,
    match_handle_owner,
    match_owner,
)

T = TypeVar("T")
REMOVED_FOLDER = "removed"
"""Folder of files that no row names, inside the files folder, until they are deleted."""
_PART_SUFFIX = ".part"
_NAME = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# Small pieces are buffered up to this size: a client that sends slowly must not cost a thread for each byte.
_BUFFER_BYTES = 64 << 10
# Some disks serve several requests at once; more threads would only use memory.
_THREADS = 4
_log = logging.getLogger("molecule.files")


class BlobStore:
    """Folder of blobs. `reserve` bytes of its disk stay free for everything else."""

    def __init__(self, folder: Path, *, reserved_bytes: int) -> None:
        self._folder = folder
        self._reserve = reserved_bytes
        self._handle = -1
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="molecule-files")

    @property
    def removed_folder(self) -> Path:
        """Return the folder of files that no row names."""
        return self._folder / REMOVED_FOLDER

    def open(self) -> None:
        """Create the folder if needed, for its owner only, and open it. Raises BadSettings."""
        try:
            create_private_folder(self._folder)
            self._handle = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            if error.errno in FULL_DISK_ERRORS:
                raise disk_full_error(self._folder) from None
            raise BadSettings(
                reason=f"the files folder {self._folder} cannot be used: {error.strerror}. Choose another --files-dir."
            ) from None

    def close(self) -> None:
        """Finish pending work and close the folder."""
        self._threads.shutdown()
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    async def open_writer(self, name: str) -> "BlobWriter":
        """Begin a new file. Raises DiskFull, FilesUnavailable."""
        writer = BlobWriter(self, _validate_id(name))
        await self.run_in_thread(writer.create)
        return writer

    async def open_reader(self, name: str, size: int) -> "BlobReader":
        """Open a complete file. Raises NotFound if it is missing, has another size, or is not a regular file."""
        return await self.run_in_thread(lambda: self._open_file(_validate_id(name), size))

    def _open_file(self, name: str, size: int) -> "BlobReader":
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # control: stored-file-no-link
        try:
            handle = os.open(name, flags, dir_fd=self._handle)
        except OSError as error:
            _log.error("the content of a file cannot be read (%s)", error.strerror, extra={"file": name})
            raise NotFound(what="file") from None
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_size != size:
            os.close(handle)
            _log.error("the content of a file differs from what was written", extra={"file": name})
            raise NotFound(what="file")
        return BlobReader(self, handle, size)

    async def remove(self, name: str) -> None:
        """Delete a file, complete or partial; a missing one is ignored."""
        await self.run_in_thread(lambda: self.unlink_file(_validate_id(name)))

    async def set_aside(self, name: str, at: int) -> bool:
        """Move a file, complete or partial, into the folder of removed files; return whether there was one.

        Its modification time becomes `at` (microseconds): `delete_removed` counts from there."""
        return await self.run_in_thread(lambda: self._set_aside(_validate_id(name), at))

    async def delete_removed(self, before: int) -> int:
        """Delete the files that were set aside before a time (microseconds); return their number."""
        return await self.run_in_thread(lambda: self._delete_removed(before))

    async def list_ids(self) -> list[str]:
        """Return the ids of all complete and partial files, oldest first."""
        return await self.run_in_thread(lambda: sorted(self._scan_ids()))

    def _scan_ids(self) -> set[str]:
        with os.scandir(self._handle) as entries:
            found = {entry.name.removesuffix(_PART_SUFFIX) for entry in entries}
        return {each for each in found if _NAME.fullmatch(each)}

    def _set_aside(self, name: str, at: int) -> bool:
        with contextlib.suppress(FileExistsError):
            os.mkdir(REMOVED_FOLDER, 0o700, dir_fd=self._handle)
            match_owner(self.removed_folder, self._folder)
        is_moved = False
        for each in (name + _PART_SUFFIX, name):
            with contextlib.suppress(FileNotFoundError):
                os.utime(each, ns=(at * 1000, at * 1000), dir_fd=self._handle, follow_symlinks=False)
                os.rename(each, f"{REMOVED_FOLDER}/{each}", src_dir_fd=self._handle, dst_dir_fd=self._handle)
                is_moved = True
        return is_moved

    def _delete_removed(self, before: int) -> int:
        count = 0
        try:
            folder = os.open(
                REMOVED_FOLDER, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._handle
            )
        except FileNotFoundError:
            return 0
        try:
            with os.scandir(folder) as entries:
                old = [each.name for each in entries if each.stat(follow_symlinks=False).st_mtime_ns // 1000 < before]
            for each in old:
                if _NAME.fullmatch(each.removesuffix(_PART_SUFFIX)):
                    os.unlink(each, dir_fd=folder)
                    count += 1
        finally:
            os.close(folder)
        return count

    # -- in a thread ---------------------------------------------------------------------------------------------------

    def run_in_thread(self, action: Callable[[], T]) -> "asyncio.Future[T]":
        """Run an action in a thread. Errors of the disk become DiskFull or FilesUnavailable."""
        return asyncio.get_running_loop().run_in_executor(self._threads, _translate_errors, action)

    def submit(self, action: Callable[[], None]) -> None:
        """Run an action in a thread without waiting for it."""
        with contextlib.suppress(RuntimeError):  # the store is closed; the next start deletes leftovers
            self._threads.submit(action)

    def create_file(self, name: str) -> int:
        """Create a file and open it for writing. Raises DiskFull."""
        disk_stats = os.fstatvfs(self._handle)
        if disk_stats.f_bavail * disk_stats.f_frsize < self._reserve:
            raise DiskFull
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(name + _PART_SUFFIX, flags, 0o600, dir_fd=self._handle)
        match_handle_owner(handle, self._folder)
        return handle

    def finalize_file(self, name: str) -> None:
        """Rename a written file to its final name, durably."""
        os.rename(name + _PART_SUFFIX, name, src_dir_fd=self._handle, dst_dir_fd=self._handle)
        os.fsync(self._handle)

    def unlink_file(self, name: str) -> None:
        """Delete a file and its partial form."""
        for each in (name + _PART_SUFFIX, name):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(each, dir_fd=self._handle)


class BlobWriter:
    """A file being received: written, then committed or discarded.

    The lock prevents a caller that was cancelled in the middle of a step from closing the file under that step."""

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
        """Return the SHA-256 of the content, once it is committed."""
        return self._hasher.hexdigest()

    def create(self) -> None:
        """Create the partial file; runs in a thread."""
        with self._lock:
            self._handle = self._store.create_file(self._name)

    async def write(self, data: bytes) -> None:
        """Append data; small pieces are buffered. Raises DiskFull, FilesUnavailable."""
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
        """Write the rest to disk and give the file its final name. Raises DiskFull, FilesUnavailable."""
        await self._store.run_in_thread(self._commit)

    def _commit(self) -> None:
        self._write(self._buffer)
        with self._lock:
            if not self._discarded:
                os.fsync(self._handle)
                self._close()
                self._store.finalize_file(self._name)

    def discard(self) -> "asyncio.Future[None]":
        """Delete the file, whether or not the caller waits for the result."""
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
    """A file being read."""

    def __init__(self, store: BlobStore, handle: int, size: int) -> None:
        self.size = size
        self._store = store
        self._handle = handle
        self._lock = threading.Lock()

    async def read(self, count: int) -> bytes:
        """Return at most `count` bytes more; empty at the end."""
        return await self._store.run_in_thread(lambda: self._read(count))

    def _read(self, count: int) -> bytes:
        with self._lock:
            return os.read(self._handle, count) if self._handle >= 0 else b""

    async def peek(self, count: int) -> bytes:
        """Return the first bytes without moving the position."""
        return await self._store.run_in_thread(lambda: os.pread(self._handle, count, 0))

    def close(self) -> None:
        """Close the file without waiting."""
        self._store.submit(self._close)

    def _close(self) -> None:
        with self._lock:
            handle, self._handle = self._handle, -1
            if handle >= 0:
                os.close(handle)

    def __del__(self) -> None:
        """Close a reader that was abandoned, e.g. because its request was cancelled during `open_reader`."""
        self._close()


def _validate_id(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise NotFound(what="file")
    return name


def _translate_errors(action: Callable[[], T]) -> T:
    """Run an action and translate an OSError into DiskFull or FilesUnavailable."""
    try:
        return action()
    except MoleculeError:
        raise
    except OSError as error:
        if error.errno in (*FULL_DISK_ERRORS, EFBIG):
            raise DiskFull from None
        _log.error("the files folder cannot be used (%s)", error.strerror)
        raise FilesUnavailable from None
