"""Finds the sessions of agents that the person at this machine has started in a terminal. Linux only, by /proc."""

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from molecule_core.agent.runner.configuration import RunnerConfiguration
from molecule_core.agent.runner.kinds import KINDS, runtime_of
from molecule_core.wire.schemas.runners import OpenSession

_PROC = Path("/proc")
# Of the fields after the name of a program in brackets.
_PARENT_FIELD, _TERMINAL_FIELD = 1, 4
_MAX_SESSIONS = 50
# A script is started as the argument of its interpreter.
_PROGRAM_WORDS = 2


class _Process(Struct, frozen=True):
    parent: int
    has_terminal: bool
    words: tuple[str, ...]


def find_open_sessions(configuration: RunnerConfiguration, proc: Path = _PROC) -> tuple[OpenSession, ...]:
    """Return the sessions of allowed kinds that this user has in terminals, oldest process first.

    A program that another one of its kind has started belongs to the session of that one. A bridge's program has no
    terminal."""
    processes = _read_processes(proc)
    programs = {configuration.programs.get(name, KINDS[name].program): name for name in configuration.kinds}
    kinds = {pid: kind for pid, each in processes.items() if (kind := _kind_of(each, programs))}
    connected = {ancestor for pid, each in processes.items() if _is_mcp(each) for ancestor in _above(pid, processes)}
    found = []
    for pid, kind in sorted(kinds.items()):
        folder = _folder_of(proc, pid)
        if folder and not any(kinds.get(each) == kind for each in _above(pid, processes)):
            found.append(OpenSession(kind, KINDS[kind].title, runtime_of(KINDS[kind]), folder, pid, pid in connected))
    return tuple(found[:_MAX_SESSIONS])


def _read_processes(proc: Path) -> dict[int, _Process]:
    """Return the processes of this user by id."""
    found, user = {}, os.getuid()
    for folder in proc.glob("[0-9]*"):
        try:
            if folder.stat().st_uid != user:
                continue
            # The name of the program is in brackets and may have blanks and brackets.
            fields = (folder / "stat").read_bytes().rpartition(b")")[2].split()
            words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
            process = _Process(int(fields[_PARENT_FIELD]), fields[_TERMINAL_FIELD] != b"0", tuple(words[:-1]))
        except (OSError, ValueError, IndexError):
            continue  # it has ended meanwhile
        found[int(folder.name)] = process
    return found


def _kind_of(process: _Process, programs: Mapping[str, str]) -> str:
    """Return the kind of agent that a process is, or an empty text."""
    if not process.has_terminal:
        return ""
    words = process.words[:_PROGRAM_WORDS]
    return next((kind for program, kind in programs.items() if any(_is_program(each, program) for each in words)), "")


def _is_program(word: str, program: str) -> bool:
    return word == program or os.path.basename(word) == os.path.basename(program)  # noqa: PTH119 - hundreds of words


def _is_mcp(process: _Process) -> bool:
    return "mcp" in process.words and any("molecule" in word for word in process.words)


def _above(pid: int, processes: Mapping[int, _Process]) -> list[int]:
    """Return the processes above one, nearest first."""
    found: list[int] = []
    while (process := processes.get(pid)) is not None and process.parent not in found:
        found.append(process.parent)
        pid = process.parent
    return found


def _folder_of(proc: Path, pid: int) -> str:
    try:
        return str((proc / str(pid) / "cwd").readlink())
    except OSError:
        return ""
