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

from molecule_core.client.host_config import NOT_READ, seats_of
from molecule_core.ground.clock import Clock, rfc3339
from molecule_core.ground.errors import CommandFailed
from molecule_core.wire.hosts import Host

BOOK_FILE = "applied.json"
_PRIVATE = 0o600
PROJECT, USER = "project", "user"

Edit = Callable[[str], str]
"""A configuration's text as it is to be. Raises what `NOT_READ` holds."""


def config_file(host: Host, environ: Mapping[str, str], home: Path, folder: Path, scope: str) -> Path:
    """Where a host keeps its configuration: for this project (`folder`) if it can, else for the person."""
    match host.name:
        case "claude-code":
            own = _folder_of(environ, "CLAUDE_CONFIG_DIR", home)
            return own / ".claude.json" if scope == USER else folder / ".mcp.json"
        case "codex":
            return _folder_of(environ, "CODEX_HOME", home / ".codex") / "config.toml"
        case "opencode":
            own = _folder_of(environ, "XDG_CONFIG_HOME", home / ".config") / "opencode"
            return own / ("opencode.jsonc" if (own / "opencode.jsonc").exists() else "opencode.json")
        case _:
            return Path(host.file.replace("~", str(home), 1))


def settings_file(environ: Mapping[str, str], home: Path, folder: Path, scope: str) -> Path:
    """Where Claude Code keeps its hooks; those of a project in the file that is not shared."""
    if scope == USER:
        return _folder_of(environ, "CLAUDE_CONFIG_DIR", home / ".claude") / "settings.json"
    return folder / ".claude" / "settings.local.json"


def _folder_of(environ: Mapping[str, str], variable: str, usual: Path) -> Path:
    return Path(environ[variable]).expanduser() if environ.get(variable) else usual


class Applied(Struct, frozen=True):
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


class Undone(Struct, frozen=True):
    """What became of a change that was taken back. `exact`: the file is byte for byte what it was before; else
    somebody else had changed it since, and only what was ours is gone."""

    applied: Applied
    exact: bool


class HostFiles:
    """Changes files of hosts, and takes it back. `folder` is our own: the book and the tokens live there."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock

    def open(self) -> None:
        """The folder, for its owner alone. Raises CommandFailed."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise CommandFailed(reason=f"the folder {self._folder} cannot be made: {error.strerror}") from None

    # -- tokens --------------------------------------------------------------------------------------------------------

    def token_file(self, host: str, workspace_id: str) -> Path:
        """Where the token of a host's seat is kept."""
        return self._folder / f"{workspace_id}.{host}.token"

    def keep_token(self, file: Path, token: str) -> None:
        """Keeps a token, readable for its owner alone. Raises CommandFailed."""
        self.open()
        _replace(file, f"{token}\n".encode(), _PRIVATE)

    def token_in(self, file: Path) -> str:
        """The token that a file holds; empty if there is none."""
        return (_content(file) or b"").decode("ascii", "ignore").strip()

    def seats(self, host: Host, file: Path) -> list[dict[str, Any]]:
        """The seats that a host's file carries already; none if it cannot be read."""
        try:
            return seats_of(host, (_content(file) or b"").decode("utf-8"))
        except (UnicodeDecodeError, *NOT_READ):
            return []

    # -- changes -------------------------------------------------------------------------------------------------------

    def changed(self, file: Path, edit: Edit) -> bytes | None:
        """What a file would become; None: it is so already. Nothing is written. Raises CommandFailed."""
        old = _content(file)
        try:
            new = edit((old or b"").decode("utf-8")).encode()
        except (UnicodeDecodeError, *NOT_READ) as error:
            raise CommandFailed(
                reason=f"{file} was left alone: {error}. Mend it, or add the lines by hand (--apply away shows them)"
            ) from None
        return None if new == old else new

    def apply(
        self, edits: Mapping[str, tuple[Path, Edit]], host: str, about: tuple[str, str, str | None]
    ) -> list[Applied]:
        """Changes files, each under the name of what is changed in it; those that are so already stay untouched.

        `about`: the workspace, its token's file, the token's id. Raises CommandFailed."""
        self.open()
        at, done = rfc3339(self._clock.now()), []
        for what, (named, edit) in edits.items():
            file = Path(os.path.realpath(named))  # a link of somebody's dotfiles stays one
            new = self.changed(file, edit)
            if new is not None:
                done.append(self._change(Applied(at, host, what, str(file), None, _hash(new), (), *about), new))
        return done

    def _change(self, planned: Applied, new: bytes) -> Applied:
        file = Path(planned.file)
        old = _content(file)
        made = tuple(map(str, _missing_folders(file.parent)))
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            mode = None if old is None else stat.S_IMODE(file.stat().st_mode)
            backup = None
            if old is not None:
                stamp = planned.at.translate({ord(sign): None for sign in "-:."})
                backup = file.with_name(f"{file.name}.before-molecule-{stamp}")
                _replace(backup, old, mode)
            applied = msgspec.structs.replace(planned, backup=None if backup is None else str(backup), made=made)
            # The book comes first: a crash behind this line leaves a change that is known and not made.
            self._write_book([*self.book(), applied])
            if _content(file) != old:
                raise CommandFailed(reason=f"{file} is being changed by somebody else; run it again")
            _replace(file, new, mode)
        except OSError as error:
            raise CommandFailed(reason=f"{file} cannot be written: {error.strerror}") from None
        return applied

    # -- the way back --------------------------------------------------------------------------------------------------

    def last(self, host: str, files: list[Path]) -> list[Applied]:
        """The last change of one of these files for a host, with all that was changed by the same command."""
        names = {os.path.realpath(file) for file in files}
        own = [each for each in self.book() if each.host == host and each.file in names]
        return [each for each in own if each.at == own[-1].at]

    def undo(self, change: Applied, take_out: Edit) -> Undone:
        """Puts a file back as it was. Where somebody changed it since, `take_out` takes only ours out of it. A token
        that no other change needs goes too. Raises CommandFailed."""
        file, now = Path(change.file), _content(Path(change.file))
        before = None if change.backup is None else _content(Path(change.backup))
        exact = now is None or _hash(now) == change.after or now == before
        try:
            if not exact:
                left = self.changed(file, take_out)
                if left is not None:
                    _replace(file, left, stat.S_IMODE(file.stat().st_mode))
            elif change.backup is None:
                file.unlink(missing_ok=True)
                _remove_empty(change.made)
            elif before is None:
                raise CommandFailed(reason=f"the copy {change.backup} is gone; {file} was left alone")
            else:
                _replace(file, before, stat.S_IMODE(Path(change.backup).stat().st_mode))
            if change.backup is not None:
                Path(change.backup).unlink(missing_ok=True)
        except OSError as error:
            raise CommandFailed(reason=f"{file} cannot be put back: {error.strerror}") from None
        left_over = [each for each in self.book() if each != change]
        self._write_book(left_over)
        if change.token_file not in {each.token_file for each in left_over}:
            Path(change.token_file).unlink(missing_ok=True)
        return Undone(change, exact)

    # -- the book ------------------------------------------------------------------------------------------------------

    def book(self) -> list[Applied]:
        """All changes that can be taken back, oldest first. Raises CommandFailed."""
        path = self._folder / BOOK_FILE
        try:
            return msgspec.json.decode(path.read_bytes(), type=list[Applied])
        except FileNotFoundError:
            return []
        except (OSError, msgspec.DecodeError) as error:
            advice = "move it away, and put copies back by hand"
            raise CommandFailed(reason=f"{path} cannot be read ({error}); {advice}") from None

    def _write_book(self, book: list[Applied]) -> None:
        path = self._folder / BOOK_FILE
        if book:
            _replace(path, msgspec.json.format(msgspec.json.encode(book)), _PRIVATE)
        else:
            path.unlink(missing_ok=True)


# -- the disk ----------------------------------------------------------------------------------------------------------


def _content(file: Path) -> bytes | None:
    """The bytes of a file; None if there is none. Raises CommandFailed."""
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CommandFailed(reason=f"{file} cannot be read: {error.strerror}") from None


def _replace(file: Path, content: bytes, mode: int | None) -> None:
    """The whole new content or the old one, whatever happens. `mode` None: as new files are here."""
    unfinished = file.with_name(f".{file.name}.{os.getpid()}.part")
    unfinished.unlink(missing_ok=True)
    handle = os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666 if mode is None else _PRIVATE)
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


def _hash(content: bytes) -> str:
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
