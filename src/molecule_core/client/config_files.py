"""Configuration files of MCP hosts on this machine: where they are, how to edit them, how to undo edits.

A file is replaced atomically, keeps its mode, and is copied beside itself first. `applied.json` in our own folder lists
the edits and their copies. Called by cli; calls host_config_edit.
"""

import hashlib
import os
import stat
from collections.abc import Callable, Mapping
from itertools import chain, count
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from molecule_core.client.host_config_edit import EDIT_ERRORS, configured_workspaces
from molecule_core.client.host_context_file import HostContextFile
from molecule_core.client.jsonc_edit import JsonEditError
from molecule_core.client.regular_file import read_regular_file
from molecule_core.common.clock import Clock, to_rfc3339
from molecule_core.common.errors import CommandFailed
from molecule_core.tools.host_config import Host

EDITS_FILE = "applied.json"
_PRIVATE_MODE = 0o600
PROJECT_SCOPE, USER_SCOPE = "project", "user"

Edit = Callable[[str], str]
"""Returns the new text of a configuration. Raises EDIT_ERRORS."""


class PlannedEdit(NamedTuple):
    """An edit of a file. `root`: the folder that the file belongs to, which its links must not leave."""

    file: Path
    root: Path
    edit: Edit


def config_file(host: Host, environ: Mapping[str, str], home: Path, folder: Path, scope: str) -> Path:
    """Return the path of a host's configuration, in the project (`folder`) if the host supports it, else the user's."""
    match host.name:
        case "claude-code":
            own = _folder_of(environ, "CLAUDE_CONFIG_DIR", home)
            return own / ".claude.json" if scope == USER_SCOPE else folder / ".mcp.json"
        case "codex":
            return _folder_of(environ, "CODEX_HOME", home / ".codex") / "config.toml"
        case "opencode":
            own = _folder_of(environ, "XDG_CONFIG_HOME", home / ".config") / "opencode"
            return own / ("opencode.jsonc" if (own / "opencode.jsonc").exists() else "opencode.json")
        case _:
            return Path(host.file.replace("~", str(home), 1))


def settings_file(environ: Mapping[str, str], home: Path, folder: Path, scope: str) -> Path:
    """Return the path of Claude Code's settings with hooks; in a project the file that is not shared."""
    if scope == USER_SCOPE:
        return _folder_of(environ, "CLAUDE_CONFIG_DIR", home / ".claude") / "settings.json"
    return folder / ".claude" / "settings.local.json"


def _folder_of(environ: Mapping[str, str], variable: str, default: Path) -> Path:
    return Path(environ[variable]).expanduser() if environ.get(variable) else default


class AppliedEdit(Struct, frozen=True):
    """One edit of a file. Edits of one command share `at`.

    `backup`: the copy of the old file, None if there was none; `after`: hash of the new content; `made`: folders that
    were created for it."""

    at: str
    host: str
    what: str
    file: str
    backup: str | None
    after: str
    made: tuple[str, ...]
    workspace_id: str
    token_file: str
    token_id: str | None = None


class UndoResult(Struct, frozen=True):
    """Result of undoing an edit.

    `exact`: the file is byte for byte as before; else it was changed since, and only our part was removed."""

    applied: AppliedEdit
    exact: bool


class HostConfigFiles:
    """Edits configuration files and undoes the edits. `folder` is our own, with the list of edits and the tokens."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock

    def ensure_folder(self) -> None:
        """Create our folder, for its owner only. Raises CommandFailed."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise CommandFailed(reason=f"the folder {self._folder} cannot be created: {error.strerror}") from None

    # -- tokens --------------------------------------------------------------------------------------------------------

    def token_file(self, host: str, workspace_id: str) -> Path:
        """Return the path of the token of a host's workspace."""
        return self._folder / f"{workspace_id}.{host}.token"

    def save_token(self, file: Path, token: str) -> None:
        """Store a token, readable for its owner only. Raises CommandFailed."""
        self.ensure_folder()
        _write_atomically(file, f"{token}\n".encode(), _PRIVATE_MODE)

    def read_token(self, file: Path) -> str:
        """Return the token in a file; empty if there is none."""
        return (_read_bytes(file) or b"").decode("ascii", "ignore").strip()

    def workspaces_in(self, host: Host, file: Path) -> list[dict[str, Any]]:
        """Return the workspaces in a host's configuration; none if it cannot be read."""
        try:
            return configured_workspaces(host, (_read_bytes(file) or b"").decode("utf-8"))
        except (UnicodeDecodeError, CommandFailed, *EDIT_ERRORS):
            return []

    # -- changes -------------------------------------------------------------------------------------------------------

    def check_edit(self, planned: PlannedEdit) -> None:
        """Check that an edit can be applied; write nothing. Raises CommandFailed."""
        self._edited_content(_locate(planned), planned.edit)

    def _edited_content(self, file: Path, edit: Edit) -> bytes | None:
        """Return the content that an edit would produce; None if nothing would change. Raises CommandFailed."""
        old = _read_bytes(file)
        try:
            new = edit(_decode(old or b"")).encode()
        except EDIT_ERRORS as error:
            raise CommandFailed(
                reason=f"{file} cannot be edited: {error}. Fix it, or run without --apply and add the lines by hand."
            ) from None
        return None if new == old else new

    def apply_edits(
        self, edits: Mapping[str, PlannedEdit], host: str, about: tuple[str, str, str | None]
    ) -> list[AppliedEdit]:
        """Edit files, each under the name of what is edited; unchanged files are not written.

        `about`: workspace id, token file, token id. Raises CommandFailed."""
        self.ensure_folder()
        at, done = to_rfc3339(self._clock.now()), []
        for what, planned in edits.items():
            file = _locate(planned)
            new = self._edited_content(file, planned.edit)
            if new is not None:
                done.append(
                    self._apply_edit(AppliedEdit(at, host, what, str(file), None, _sha256(new), (), *about), new)
                )
        return done

    def _apply_edit(self, planned: AppliedEdit, new: bytes) -> AppliedEdit:
        file = Path(planned.file)
        old = _read_bytes(file)
        made = tuple(map(str, _missing_folders(file.parent)))
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            mode = None if old is None else stat.S_IMODE(file.stat().st_mode)
            backup = None
            if old is not None:
                backup = _unused_backup(file, planned.at)
                _write_atomically(backup, old, mode)
            applied = msgspec.structs.replace(planned, backup=None if backup is None else str(backup), made=made)
            # List the edit first: a crash after this line leaves a known edit that was not made.
            self._save_edits([*self.load_edits(), applied])
            if _read_bytes(file) != old:
                raise CommandFailed(
                    reason=f"{file} was changed by another program at the same time. Run this command again."
                )
            _write_atomically(file, new, mode)
        except OSError as error:
            raise CommandFailed(reason=f"{file} cannot be written: {error.strerror}") from None
        return applied

    def update_edited_files(self, edit_for: Callable[[AppliedEdit], Edit]) -> list[str]:
        """Edit the files of earlier commands, so that nothing in them is of an earlier version; return those that
        changed. A file that cannot be parsed now stays as it is, and undo still restores what was there before the
        first edit. Raises CommandFailed."""
        edits = {(each.what, each.file): each for each in self.load_edits()}
        return [each.file for each in edits.values() if self._update_edited_file(each.file, edit_for(each))]

    def _update_edited_file(self, name: str, edit: Edit) -> bool:
        file = Path(name)
        old = _read_bytes(file)
        try:
            new = None if old is None else self._edited_content(file, edit)
        except CommandFailed:
            return False
        if old is None or new is None:
            return False
        try:
            _write_atomically(file, new, stat.S_IMODE(file.stat().st_mode))
        except OSError as error:
            raise CommandFailed(reason=f"{file} cannot be written: {error.strerror}") from None
        replaced = [
            msgspec.structs.replace(each, after=_sha256(new))
            if (each.file, each.after) == (name, _sha256(old))
            else each
            for each in self.load_edits()
        ]
        self._save_edits(replaced)
        return True

    # -- the way back --------------------------------------------------------------------------------------------------

    def last_edits(self, host: str, files: list[Path]) -> list[AppliedEdit]:
        """Return the last edit of these files for a host, with all edits of the same command."""
        names = {os.path.realpath(file) for file in files}
        own = [each for each in self.load_edits() if each.host == host and each.file in names]
        return [each for each in own if each.at == own[-1].at]

    def undo_edit(self, change: AppliedEdit, remove_own: Edit) -> UndoResult:
        """Restore a file. If it was changed since, `take_out` removes only our part.

        A token that no other edit needs is deleted too. Raises CommandFailed."""
        file, now = Path(change.file), _read_bytes(Path(change.file))
        before = None if change.backup is None else _read_bytes(Path(change.backup))
        exact = now is None or _sha256(now) == change.after or now == before
        try:
            if not exact:
                remaining = self._edited_content(file, remove_own)
                if remaining is not None:
                    _write_atomically(file, remaining, stat.S_IMODE(file.stat().st_mode))
            elif change.backup is None:
                file.unlink(missing_ok=True)
                _remove_empty(change.made)
            elif before is None:
                raise CommandFailed(reason=f"the backup {change.backup} does not exist, so {file} was not changed")
            else:
                _write_atomically(file, before, stat.S_IMODE(Path(change.backup).stat().st_mode))
            if change.backup is not None:
                Path(change.backup).unlink(missing_ok=True)
        except OSError as error:
            raise CommandFailed(reason=f"{file} cannot be restored: {error.strerror}") from None
        remaining_edits = [each for each in self.load_edits() if each != change]
        self._save_edits(remaining_edits)
        if change.token_file not in {each.token_file for each in remaining_edits}:
            Path(change.token_file).unlink(missing_ok=True)
            HostContextFile.beside_token(Path(change.token_file)).remove()
        return UndoResult(change, exact)

    # -- the book ------------------------------------------------------------------------------------------------------

    def load_edits(self) -> list[AppliedEdit]:
        """Return all edits that can be undone, oldest first. Raises CommandFailed."""
        path = self._folder / EDITS_FILE
        try:
            return msgspec.json.decode(path.read_bytes(), type=list[AppliedEdit])
        except FileNotFoundError:
            return []
        except (OSError, msgspec.DecodeError) as error:
            advice = "move it away, and restore the backups by hand"
            raise CommandFailed(reason=f"{path} cannot be read ({error}); {advice}") from None

    def _save_edits(self, edits: list[AppliedEdit]) -> None:
        path = self._folder / EDITS_FILE
        if edits:
            _write_atomically(path, msgspec.json.format(msgspec.json.encode(edits)), _PRIVATE_MODE)
        else:
            path.unlink(missing_ok=True)


# -- the disk ----------------------------------------------------------------------------------------------------------


def _locate(planned: PlannedEdit) -> Path:
    """Return the file to write: a link stays, e.g. of a dotfiles repository, unless it leads out of its folder.

    Raises CommandFailed."""
    file, root = Path(os.path.realpath(planned.file)), Path(os.path.realpath(planned.root))
    if not file.is_relative_to(root):
        raise CommandFailed(
            reason=f"{planned.file} cannot be edited: it is a link to {file}, outside {root}. Use --file to name that "
            "file, or replace the link."
        )
    return file


def _unused_backup(file: Path, at: str) -> Path:
    """Return the path of the next backup of a file: two edits of one command have one each."""
    stamp = at.translate({ord(sign): None for sign in "-:."})
    suffixes = chain([""], (f"-{number}" for number in count(2)))
    backups = (file.with_name(f"{file.name}.before-molecule-{stamp}{suffix}") for suffix in suffixes)
    return next(each for each in backups if not os.path.lexists(each))


def _read_bytes(file: Path) -> bytes | None:
    """Return the bytes of a file; None if it does not exist. Raises CommandFailed, also if it is no regular file."""
    try:
        return read_regular_file(file)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CommandFailed(reason=f"{file} cannot be read: {error.strerror}") from None


def _decode(content: bytes) -> str:
    """Decode a configuration. Raises JsonEditError."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise JsonEditError(f"line {line} is not UTF-8") from None


def _write_atomically(file: Path, content: bytes, mode: int | None) -> None:
    """Replace a file atomically. `mode` None: the default of new files."""
    unfinished = file.with_name(f".{file.name}.{os.getpid()}.part")
    unfinished.unlink(missing_ok=True)
    handle = os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666 if mode is None else _PRIVATE_MODE)
    try:
        with os.fdopen(handle, "wb") as opened:
            opened.write(content)
            if mode is not None:
                unfinished.chmod(mode)
            opened.flush()
            os.fsync(opened.fileno())
        unfinished.replace(file)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _missing_folders(folder: Path) -> list[Path]:
    """Return the folders that do not exist, innermost first."""
    return [each for each in (folder, *folder.parents) if not each.exists()]


def _remove_empty(folders: tuple[str, ...]) -> None:
    for each in folders:
        try:
            Path(each).rmdir()
        except OSError:
            return
