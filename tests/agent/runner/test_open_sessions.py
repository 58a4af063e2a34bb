"""Sessions in terminals, found in a folder that has the form of /proc."""

from pathlib import Path

from molecule_core.agent.runner.configuration import RunnerConfiguration
from molecule_core.agent.runner.open_sessions import find_open_sessions

CONFIGURATION = RunnerConfiguration(folders=("/",), kinds=("claude", "codex"))
TERMINAL, NONE = 34816, 0


def process(proc: Path, pid: int, parent: int, terminal: int, *words: str) -> None:
    """A process whose name has blanks and brackets."""
    folder = proc / str(pid)
    folder.mkdir(parents=True)
    (folder / "stat").write_text(f"{pid} (a) b (c) S {parent} 1 1 {terminal} 0 0")
    (folder / "cmdline").write_text("".join(f"{each}\0" for each in words))
    (folder / "cwd").symlink_to(proc)


def found(proc: Path) -> list[tuple[str, int, bool]]:
    """Kind, process and connection of each session."""
    return [(each.kind, each.pid, each.is_connected) for each in find_open_sessions(CONFIGURATION, proc)]


def test_a_session_is_a_program_of_an_allowed_kind_with_a_terminal(tmp_path: Path) -> None:
    process(tmp_path, 10, 1, TERMINAL, "claude", "--continue")
    process(tmp_path, 11, 1, NONE, "claude", "-p")  # of a bridge
    process(tmp_path, 12, 1, TERMINAL, "node", "/usr/bin/codex")
    process(tmp_path, 13, 1, TERMINAL, "gemini")
    process(tmp_path, 14, 1, TERMINAL, "vim", "notes", "claude")
    assert found(tmp_path) == [("claude", 10, False), ("codex", 12, False)]
    assert {each.folder for each in find_open_sessions(CONFIGURATION, tmp_path)} == {str(tmp_path)}


def test_what_a_session_starts_of_its_own_kind_is_no_second_one(tmp_path: Path) -> None:
    process(tmp_path, 20, 1, TERMINAL, "node", "/usr/bin/codex")
    process(tmp_path, 21, 20, TERMINAL, "/opt/codex/codex")
    process(tmp_path, 22, 21, TERMINAL, "claude")
    assert found(tmp_path) == [("codex", 20, False), ("claude", 22, False)]


def test_a_session_that_runs_our_process_is_connected(tmp_path: Path) -> None:
    process(tmp_path, 30, 1, TERMINAL, "claude")
    process(tmp_path, 31, 30, TERMINAL, "/bin/sh", "/home/ada/.molecule/molecule", "mcp")
    process(tmp_path, 32, 1, TERMINAL, "claude")
    assert found(tmp_path) == [("claude", 30, True), ("claude", 32, False)]


def test_processes_that_end_meanwhile_or_cannot_be_read_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "40").mkdir()
    process(tmp_path, 41, 1, TERMINAL, "claude")
    (tmp_path / "41" / "cwd").unlink()
    assert found(tmp_path) == []
