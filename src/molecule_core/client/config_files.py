"""Configuration files of hosts on this machine: where they are, how one is changed, and how that is taken back.

Above: cli. Below: host_config (what the text becomes), the disk. A file is replaced whole or not at all, keeps its
mode, and has a copy of what it was beside it; the book in our own folder says which copy belongs to which change.
"""

import hashlib
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from molecule_core.client.host_config_edit import EDIT_ERRORS, configured_workspaces
from molecule_core.common.clock import Clock, to_rfc3339
from molecule_core.common.errors import CommandFailed
from molecule_core.tools.host_config import Host

EDITS_FILE = "applied.json"
_PRIVATE_MODE = 0o600
PROJECT_SCOPE, USER_SCOPE = "project", "user"

Edit = Callable[[str], str]
"""A configuration's text as it is to be. Raises what `NOT_READ` holds."""


def config_file(host: Host, environ: Mapping[str, str], home: Path, folder: Path, scope: str) -> Path:
    """Where a host keeps its configuration: for this project (`folder`) if it can, else for the person."""
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
    """Where Claude Code keeps its hooks; those of a project in the file that is not shared."""
    if scope == USER_SCOPE:
        return _folder_of(environ, "CLAUDE_CONFIG_DIR", home / ".claude") / "settings.json"
    return folder / ".claude" / "settings.local.json"


def _folder_of(environ: Mapping[str, str], variable: str, usual: Path) -> Path:
    return Path(environ[variable]).expanduser() if environ.get(variable) else usual


class AppliedEdit(Struct, frozen=True):
    """One change of a file. `backup`: the copy of what it was, None if it was not there; `after`: what it became, as a
    hash; `made`: folders that it needed. Changes of one command share `at`."""

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
    """What became of a change that was taken back. `exact`: the file is byte for byte what it was before; else
    somebody else had changed it since, and only what was ours is gone."""

    applied: AppliedEdit
    exact: bool


class HostConfigFiles:
    """Changes files of hosts, and takes it back. `folder` is our own: the book and the tokens live there."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock

    def ensure_folder(self) -> None:
        """The folder, for its owner alone. Raises CommandFailed."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise CommandFailed(reason=f"the folder {self._folder} cannot be made: {error.strerror}") from None

    # -- tokens --------------------------------------------------------------------------------------------------------

    def token_file(self, host: str, workspace_id: str) -> Path:
        """Where the token of a host's seat is kept."""
        return self._folder / f"{workspace_id}.{host}.token"

    def save_token(self, file: Path, token: str) -> None:
        """Keeps a token, readable for its owner alone. Raises CommandFailed."""
        self.ensure_folder()
        _write_atomically(file, f"{token}\n".encode(), _PRIVATE_MODE)

    def read_token(self, file: Path) -> str:
        """The token that a file holds; empty if there is none."""
        return (_read_bytes(file) or b"").decode("ascii", "ignore").strip()

    def workspaces_in(self, host: Host, file: Path) -> list[dict[str, Any]]:
        """The seats that a host's file carries already; none if it cannot be read."""
        try:
            return configured_workspaces(host, (_read_bytes(file) or b"").decode("utf-8"))
        except (UnicodeDecodeError, *EDIT_ERRORS):
            return []

    # -- changes -------------------------------------------------------------------------------------------------------

    def edited_content(self, file: Path, edit: Edit) -> bytes | None:
        """What a file would become; None: it is so already. Nothing is written. Raises CommandFailed."""
        old = _read_bytes(file)
        try:
            new = edit((old or b"").decode("utf-8")).encode()
        except (UnicodeDecodeError, *EDIT_ERRORS) as error:
            raise CommandFailed(
                reason=f"{file} was left alone: {error}. Mend it, or add the lines by hand (--apply away shows them)"
            ) from None
        return None if new == old else new

    def apply_edits(
        self, edits: Mapping[str, tuple[Path, Edit]], host: str, about: tuple[str, str, str | None]
    ) -> list[AppliedEdit]:
        """Changes files, each under the name of what is changed in it; those that are so already stay untouched.

        `about`: the workspace, its token's file, the token's id. Raises CommandFailed."""
        self.ensure_folder()
        at, done = to_rfc3339(self._clock.now()), []
        for what, (named, edit) in edits.items():
            file = Path(os.path.realpath(named))  # a link of somebody's dotfiles stays one
            new = self.edited_content(file, edit)
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
                stamp = planned.at.translate({ord(sign): None for sign in "-:."})
                backup = file.with_name(f"{file.name}.before-molecule-{stamp}")
                _write_atomically(backup, old, mode)
            applied = msgspec.structs.replace(planned, backup=None if backup is None else str(backup), made=made)
            # The book comes first: a crash behind this line leaves a change that is known and not made.
            self._save_edits([*self.load_edits(), applied])
            if _read_bytes(file) != old:
                raise CommandFailed(reason=f"{file} is being changed by somebody else; run it again")
            _write_atomically(file, new, mode)
        except OSError as error:
            raise CommandFailed(reason=f"{file} cannot be written: {error.strerror}") from None
        return applied

    # -- the way back --------------------------------------------------------------------------------------------------

    def last_edits(self, host: str, files: list[Path]) -> list[AppliedEdit]:
        """The last change of one of these files for a host, with all that was changed by the same command."""
        names = {os.path.realpath(file) for file in files}
        own = [each for each in self.load_edits() if each.host == host and each.file in names]
        return [each for each in own if each.at == own[-1].at]

    def undo_edit(self, change: AppliedEdit, take_out: Edit) -> UndoResult:
        """Puts a file back as it was. Where somebody changed it since, `take_out` takes only ours out of it. A token
        that no other change needs goes too. Raises CommandFailed."""
        file, now = Path(change.file), _read_bytes(Path(change.file))
        before = None if change.backup is None else _read_bytes(Path(change.backup))
        exact = now is None or _sha256(now) == change.after or now == before
        try:
            if not exact:
                remaining = self.edited_content(file, take_out)
                if remaining is not None:
                    _write_atomically(file, remaining, stat.S_IMODE(file.stat().st_mode))
            elif change.backup is None:
                file.unlink(missing_ok=True)
                _remove_empty(change.made)
            elif before is None:
                raise CommandFailed(reason=f"the copy {change.backup} is gone; {file} was left alone")
            else:
                _write_atomically(file, before, stat.S_IMODE(Path(change.backup).stat().st_mode))
            if change.backup is not None:
                Path(change.backup).unlink(missing_ok=True)
        except OSError as error:
            raise CommandFailed(reason=f"{file} cannot be put back: {error.strerror}") from None
        remaining_edits = [each for each in self.load_edits() if each != change]
        self._save_edits(remaining_edits)
        if change.token_file not in {each.token_file for each in remaining_edits}:
            Path(change.token_file).unlink(missing_ok=True)
        return UndoResult(change, exact)

    # -- the book ------------------------------------------------------------------------------------------------------

    def load_edits(self) -> list[AppliedEdit]:
        """All changes that can be taken back, oldest first. Raises CommandFailed."""
        path = self._folder / EDITS_FILE
        try:
            return msgspec.json.decode(path.read_bytes(), type=list[AppliedEdit])
        except FileNotFoundError:
            return []
        except (OSError, msgspec.DecodeError) as error:
            advice = "move it away, and put copies back by hand"
            raise CommandFailed(reason=f"{path} cannot be read ({error}); {advice}") from None

    def _save_edits(self, edits: list[AppliedEdit]) -> None:
        path = self._folder / EDITS_FILE
        if edits:
            _write_atomically(path, msgspec.json.format(msgspec.json.encode(edits)), _PRIVATE_MODE)
        else:
            path.unlink(missing_ok=True)


# -- the disk ----------------------------------------------------------------------------------------------------------


def _read_bytes(file: Path) -> bytes | None:
    """The bytes of a file; None if there is none. Raises CommandFailed."""
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CommandFailed(reason=f"{file} cannot be read: {error.strerror}") from None


def _write_atomically(file: Path, content: bytes, mode: int | None) -> None:
    """The whole new content or the old one, whatever happens. `mode` None: as new files are here."""
    unfinished = file.with_name(f".{file.name}.{os.getpid()}.part")
    unfinished.unlink(missing_ok=True)
    handle = os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666 if mode is None else _PRIVATE_MODE)
    try:
        with os.fdopen(handle, "wb") as opened:
            opened.write(content)
            if mode is not None:
                os.fchmod(opened.fileno(), mode)
            opened.flush()
            os.fsync(opened.fileno())
        unfinished.replace(file)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _missing_folders(folder: Path) -> list[Path]:
    """The folders that are not there yet, the innermost first."""
    return [each for each in (folder, *folder.parents) if not each.exists()]


def _remove_empty(folders: tuple[str, ...]) -> None:
    for each in folders:
        try:
            Path(each).rmdir()
        except OSError:
            return
