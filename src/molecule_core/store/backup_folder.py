"""Backups: a folder with a copy of the store, the uploaded files that it names, and a manifest.

A file is written once and never changed, and its name is an id of its own. So a backup on the same disk links files
instead of copying them, and a restore leaves the files in place that the restored store names.

Called by cli.
"""

import errno
import hashlib
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from molecule_core.common.clock import Clock, to_rfc3339
from molecule_core.common.errors import BackupFailed
from molecule_core.common.state_files import match_owner
from molecule_core.common.version import VERSION
from molecule_core.store.blob_store import REMOVED_FOLDER
from molecule_core.store.sqlite.backup import FileEntry, list_stored_files, read_store_info, sync_file
from molecule_core.store.sqlite.store import DATABASE_FILE

MANIFEST_FILE = "manifest.json"
FILES_FOLDER = "files"
_ASIDE_PREFIX = "before-restore-"
_HASH_BYTES = 1 << 20
# Errors of a disk on which the two folders cannot share a file; the file is copied then.
_LINK_ERRORS = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS, errno.EACCES)


class Manifest(Struct, frozen=True, kw_only=True):
    """What a backup holds. `missing_files`: ids that the store names and whose bytes were not in the files folder."""

    molecule: str
    created_at: str
    schema: int
    store_bytes: int
    store_sha256: str
    files: int
    file_bytes: int
    missing_files: list[str]

    def summary(self) -> str:
        """Return the contents in words."""
        files = "1 file" if self.files == 1 else f"{self.files:,} files"
        return f"the store ({self.store_bytes:,} bytes) and {files} ({self.file_bytes:,} bytes)"


class BackupSource(NamedTuple):
    """A backup to restore. `files`, `manifest`: None for a copy of the store alone, as a migration makes it."""

    store: Path
    files: Path | None
    manifest: Manifest | None


class RestoredFiles(NamedTuple):
    """Numbers of files that a restore copied from the backup, moved to `aside`, and found nowhere."""

    copied: int
    moved: int
    missing: int
    aside: Path


def write_backup(
    copy: Path, files_folder: Path, owner_folder: Path, *, clock: Clock, copy_store: Callable[[Path], object]
) -> Manifest:
    """Write a backup to a new folder, complete or not at all.

    `copy_store` writes one consistent copy of the store to a new file. The files come after it, so that every file that
    the copy names was there. Everything gets the owner of `owner_folder`. Raises BackupFailed."""
    if copy.exists() or copy.is_symlink():
        raise BackupFailed(reason=f"{copy} already exists. Choose a new folder.")
    unfinished = copy.with_name(f"{copy.name}.part")
    try:
        _remove_unfinished(unfinished)
        unfinished.mkdir(mode=0o700)
        match_owner(unfinished, owner_folder)
        copy_store(unfinished / DATABASE_FILE)
        match_owner(unfinished / DATABASE_FILE, owner_folder)
        manifest = _copy_files(unfinished, files_folder, owner_folder, clock)
        _write_manifest(unfinished / MANIFEST_FILE, manifest, owner_folder)
        sync_file(unfinished)
        unfinished.rename(copy)
    except PermissionError:
        raise
    except OSError as error:
        raise BackupFailed(
            reason=f"the backup cannot be written: {error.strerror} ({error.filename}). Choose another folder."
        ) from None
    finally:
        with suppress(OSError):
            _remove_unfinished(unfinished)
    return manifest


def _remove_unfinished(unfinished: Path) -> None:
    """Remove what an interrupted backup left."""
    if unfinished.is_dir() and not unfinished.is_symlink():
        shutil.rmtree(unfinished)
    else:
        unfinished.unlink(missing_ok=True)


def _copy_files(backup: Path, files_folder: Path, owner_folder: Path, clock: Clock) -> Manifest:
    """Link or copy the files that the copy of the store names."""
    store, target = backup / DATABASE_FILE, backup / FILES_FOLDER
    target.mkdir(mode=0o700)
    match_owner(target, owner_folder)
    count, total, missing = 0, 0, []
    for file in list_stored_files(store):
        if not _has_content(files_folder / file.id, file.size):
            missing.append(file.id)
            continue
        _link_or_copy(files_folder / file.id, target / file.id, owner_folder)
        count, total = count + 1, total + file.size
    sync_file(target)
    return Manifest(
        molecule=VERSION,
        created_at=to_rfc3339(clock.now()),
        schema=read_store_info(store).schema,
        store_bytes=store.stat().st_size,
        store_sha256=_sha256_of(store),
        files=count,
        file_bytes=total,
        missing_files=missing,
    )


def _write_manifest(path: Path, manifest: Manifest, owner_folder: Path) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(manifest)) + b"\n")
    path.chmod(0o600)
    match_owner(path, owner_folder)
    sync_file(path)


# -- restore -----------------------------------------------------------------------------------------------------------


def read_backup(copy: Path) -> BackupSource:
    """Return what can be restored of a backup, or of a copy of the store alone. Raises BackupFailed."""
    if not copy.is_dir():
        return BackupSource(copy, None, None)
    store = copy / DATABASE_FILE
    try:
        manifest = msgspec.json.decode((copy / MANIFEST_FILE).read_bytes(), type=Manifest)
    except FileNotFoundError:
        raise BackupFailed(
            reason=f"{copy} is not a backup: it has no {MANIFEST_FILE}. Use a folder that `molecule backup` wrote."
        ) from None
    except msgspec.MsgspecError:
        raise _damaged_error(copy, MANIFEST_FILE) from None
    if not store.is_file() or _sha256_of(store) != manifest.store_sha256:
        raise _damaged_error(copy, DATABASE_FILE)
    return BackupSource(store, copy / FILES_FOLDER, manifest)


def _damaged_error(copy: Path, name: str) -> BackupFailed:
    return BackupFailed(reason=f"{copy} cannot be restored: its {name} is damaged. Choose another backup.")


def restore_files(source: BackupSource, files_folder: Path, owner_folder: Path, *, clock: Clock) -> RestoredFiles:
    """Copy the files that the restored store names into place, and move all others aside. Deletes nothing.

    A file that the backup does not hold is taken from what earlier restores and sweeps moved aside, so a restore of the
    previous store has its files again. Raises BackupFailed."""
    wanted = list_stored_files(source.store)
    aside = files_folder / f"{_ASIDE_PREFIX}{clock.now()}"
    try:
        if not files_folder.exists():
            files_folder.mkdir(mode=0o700, parents=True)
            match_owner(files_folder, owner_folder)
        moved = _move_others_aside(files_folder, aside, wanted, owner_folder)
        places = [*([] if source.files is None else [source.files]), *_folders_aside(files_folder)]
        copied = missing = 0
        for file in wanted:
            if _has_content(files_folder / file.id, file.size):
                continue
            found = next((each for each in places if _has_content(each / file.id, file.size)), None)
            if found is None:
                missing += 1
            else:
                _copy_durably(found / file.id, files_folder / file.id, owner_folder)
                copied += 1
        sync_file(files_folder)
    except PermissionError:
        raise
    except OSError as error:
        raise BackupFailed(
            reason=f"the files cannot be restored: {error.strerror} ({error.filename}). "
            "Correct this and run the command again."
        ) from None
    return RestoredFiles(copied, moved, missing, aside)


def _move_others_aside(files_folder: Path, aside: Path, wanted: list[FileEntry], owner_folder: Path) -> int:
    """Move all files that the restored store does not name, or that differ from what it names, to `aside`."""
    sizes = dict(wanted)
    others = [
        each
        for each in files_folder.iterdir()
        if each.is_file() and not each.is_symlink() and not _has_content(each, sizes.get(each.name, -1))
    ]
    if others:
        aside.mkdir(mode=0o700)
        match_owner(aside, owner_folder)
    for each in others:
        each.rename(aside / each.name)
    return len(others)


def _folders_aside(files_folder: Path) -> list[Path]:
    """Return the folders of files that were moved aside, newest first."""
    kept = sorted((each for each in files_folder.glob(f"{_ASIDE_PREFIX}*") if each.is_dir()), reverse=True)
    return [*kept, files_folder / REMOVED_FOLDER]


def _copy_durably(source: Path, target: Path, owner_folder: Path) -> None:
    unfinished = target.with_name(f"{target.name}.part")
    with suppress(FileNotFoundError):
        unfinished.unlink()
    shutil.copyfile(source, unfinished)
    unfinished.chmod(0o600)
    match_owner(unfinished, owner_folder)
    sync_file(unfinished)
    unfinished.rename(target)


# -- helpers -----------------------------------------------------------------------------------------------------------


def _has_content(path: Path, size: int) -> bool:
    """Return whether a path is a regular file of this size."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return False
    return path.is_file() and not path.is_symlink() and found.st_size == size


def _link_or_copy(source: Path, target: Path, owner_folder: Path) -> None:
    """Link a file, or copy it where a link is not possible."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _LINK_ERRORS:
            raise
        _copy_durably(source, target, owner_folder)


def _sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        hasher = hashlib.sha256()
        while data := file.read(_HASH_BYTES):
            hasher.update(data)
    return hasher.hexdigest()
