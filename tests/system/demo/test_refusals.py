"""What `molecule up --demo` refuses, in one line that says what to do, before anything is changed."""

import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from molecule_core.demo.provisioner import STATE_FILE
from testing.ports import free_port
from testing.processes import MOLECULE, environment, serving, started
from tests.system.demo.demo_process import BAKERY

Refusal = Callable[..., Awaitable[str]]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state folder that is not there yet."""
    return tmp_path / "state"


@pytest.fixture
def refusal(state: Path) -> Refusal:
    """Runs `molecule up` with flags that it must refuse; returns its one line."""

    async def run(*flags: str, port: int | None = None, **env: str) -> str:
        told = environment(state, port or free_port(), **env)
        async with started(MOLECULE, "up", *flags, env=told) as process:
            assert await process.refused() == 2
            assert await process.output() == ""
            (line,) = process.said.strip().splitlines()
            assert line.startswith("molecule: ")
            return line

    return run


@pytest.mark.parametrize("flags", [("--fresh",), ("--company", "ours.toml")])
async def test_flags_of_the_demo_without_it_are_refused(refusal: Refusal, state: Path, flags: tuple[str, ...]) -> None:
    assert "Add --demo" in await refusal(*flags)
    assert not state.exists()


async def test_a_company_file_that_is_missing_or_wrong_costs_nothing(
    refusal: Refusal, state: Path, tmp_path: Path
) -> None:
    wrong = tmp_path / "wrong.toml"
    wrong.write_text('name = "Ours"\n')
    folder = state / "demo"
    folder.mkdir(parents=True)
    (folder / STATE_FILE).write_text("{}")
    (folder / "kept").write_text("kept")

    assert "nowhere.toml cannot be read" in await refusal("--demo", "--fresh", "--company", "nowhere.toml")
    assert "missing required field `seat`" in await refusal("--demo", "--fresh", "--company", str(wrong))
    assert (folder / "kept").read_text() == "kept"


async def test_a_remembered_company_file_that_is_gone_is_named(refusal: Refusal, state: Path, tmp_path: Path) -> None:
    folder = state / "demo"
    folder.mkdir(parents=True)
    (folder / STATE_FILE).write_text(f'{{"company": "{tmp_path}/gone.toml"}}')

    line = await refusal("--demo")

    assert "gone.toml cannot be read" in line


@pytest.mark.parametrize("fresh", [(), ("--fresh",)])
async def test_a_folder_that_holds_something_else_is_never_touched(
    refusal: Refusal, state: Path, fresh: tuple[str, ...]
) -> None:
    folder = state / "demo"
    folder.mkdir(parents=True)
    (folder / "molecule.db").write_text("real data")

    line = await refusal("--demo", *fresh)

    assert str(folder) in line
    assert "another --state-dir" in line
    assert [path.name for path in folder.iterdir()] == ["molecule.db"]


@pytest.mark.parametrize("kind", ["a file", "a link"])
async def test_a_folder_that_is_none_is_refused(refusal: Refusal, state: Path, tmp_path: Path, kind: str) -> None:
    state.mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / STATE_FILE).write_text("{}")
    if kind == "a file":
        (state / "demo").write_text("")
    else:
        (state / "demo").symlink_to(tmp_path / "elsewhere")

    assert "is not a folder" in await refusal("--demo", "--fresh")
    assert (tmp_path / "elsewhere" / STATE_FILE).read_text() == "{}"


async def test_a_demo_that_runs_is_neither_joined_nor_deleted(refusal: Refusal, state: Path) -> None:
    folder = state / "demo"
    folder.mkdir(parents=True)
    (folder / STATE_FILE).write_text("{}")
    async with serving(folder, free_port()):
        lines = [await refusal("--demo"), await refusal("--demo", "--fresh")]

    assert all("another Molecule server" in line and str(folder) in line for line in lines)
    assert (folder / "molecule.db").exists()


async def test_a_port_that_is_taken_is_said_before_anything_is_deleted(refusal: Refusal, state: Path) -> None:
    folder = state / "demo"
    folder.mkdir(parents=True)
    (folder / STATE_FILE).write_text("{}")
    (folder / "kept").write_text("kept")
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        line = await refusal("--demo", "--fresh", port=port)

    assert f"port {port} is in use" in line
    assert "--port" in line
    assert (folder / "kept").exists()


async def test_an_address_that_is_not_ours_is_said(refusal: Refusal) -> None:
    assert "the server cannot listen on 192.0.2.1:" in await refusal("--demo", "--host", "192.0.2.1")


async def test_a_store_on_postgres_is_refused(refusal: Refusal) -> None:
    assert "Remove --database and MOLECULE_DATABASE" in await refusal(
        "--demo", MOLECULE_DATABASE="postgresql://localhost/real"
    )


async def test_a_damaged_book_is_started_over_only_if_asked_for(refusal: Refusal, state: Path, tmp_path: Path) -> None:
    folder = state / "demo"
    folder.mkdir(parents=True)
    (folder / STATE_FILE).write_text("{")
    file = tmp_path / "ours.toml"
    file.write_text(BAKERY, encoding="utf-8")

    assert "--fresh" in await refusal("--demo", "--company", str(file))
    assert (folder / STATE_FILE).read_text() == "{"
