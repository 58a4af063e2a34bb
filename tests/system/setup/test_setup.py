"""What scripts/setup promises, seen from outside, without network: uv is an actor that the tests direct."""

import ast
import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.requirements import requirement
from tests.system.setup.support import PROCESS_S, ROOT, Running, load, wait_for_input

setup = load("setup")

# It writes down how it is called, makes a .venv that has all that set-up looks at, and installs nothing.
# With a gate it tells that it arrived and installs only when it is let through.
ACTOR = """#!/bin/sh
echo "$*" >> "$STAGE/calls"
env > "$STAGE/environment"
if [ "$1" = venv ]; then
    for venv; do :; done
    mkdir -p "$venv/bin"
    ln -s "$STAGE/python" "$venv/bin/python"
    echo "version_info = 3.11.7" > "$venv/pyvenv.cfg"
elif [ -p "$STAGE/gate" ]; then
    echo > "$STAGE/arrived"
    read -r _ < "$STAGE/gate"
elif [ -e "$STAGE/broken" ]; then
    seq 1 100
    echo "no such package"
    exit 3
fi
"""

# What it makes of the canvas says which of its sources it was made from.
PYTHON = """#!/bin/sh
echo "python $*" >> "$STAGE/calls"
if [ -e "$STAGE/broken-canvas" ]; then
    echo "main.tsx: unexpected end"
    exit 1
fi
mkdir -p src/molecule_core/canvas_assets
cat canvas/src/main.tsx > src/molecule_core/canvas_assets/build.json
"""


class Stage:
    """A checkout with the real script and its inputs, and the actor as the only uv on PATH."""

    def __init__(self, folder: Path) -> None:
        self.checkout, self.folder = folder / "checkout", folder / "stage"
        self.stamp = self.checkout / ".venv" / "molecule-setup.stamp"
        self.page = self.checkout / "src" / "molecule_core" / "canvas_assets" / "build.json"
        self.source = self.checkout / "canvas" / "src" / "main.tsx"
        for name in ("scripts/setup", *(f"requirements/{lock}.txt" for lock in (*setup.LOCKS, *setup.ASIDE))):
            self.checkout.joinpath(name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.checkout / name)
        for name in ("pyproject.toml", "hatch_build.py"):
            shutil.copy(ROOT / name, self.checkout)
        self.source.parent.mkdir(parents=True)
        self.source.write_text("first")
        self.folder.mkdir()
        for name, text in (("uv", ACTOR), ("python", PYTHON)):
            self.folder.joinpath(name).write_text(text)
            self.folder.joinpath(name).chmod(0o755)

    def start(self, *arguments: str, **environment: str) -> Running:
        path = f"{self.folder}:/usr/bin:/bin"
        command = [sys.executable, str(self.checkout / "scripts" / "setup"), *arguments]
        return Running(command, {"PATH": path, "STAGE": str(self.folder), **environment})

    def run(self, *arguments: str, **environment: str) -> tuple[int, str]:
        with self.start(*arguments, **environment) as running:
            return running.end(), running.said

    def calls(self) -> list[str]:
        """What the actor was asked for since the last look."""
        log = self.folder / "calls"
        lines = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return lines

    def has_made_venvs(self) -> int:
        return sum(call.startswith("venv ") for call in self.calls())


class Gate:
    """Holds the actor back while it installs. Opened both ways, so that no side waits for the other to open."""

    def __init__(self, folder: Path) -> None:
        for name in ("gate", "arrived"):
            os.mkfifo(folder / name)
        self._gate, self._arrived = (os.open(folder / name, os.O_RDWR) for name in ("gate", "arrived"))

    def wait_for_arrival(self) -> None:
        wait_for_input(self._arrived)
        os.read(self._arrived, 1)

    def let_through(self, times: int) -> None:
        os.write(self._gate, b"\n" * times)

    def close(self) -> None:
        os.close(self._gate)
        os.close(self._arrived)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


@pytest.fixture
def gate(stage: Stage) -> Iterator[Gate]:
    with contextlib.closing(Gate(stage.folder)) as gate:
        yield gate


def test_a_second_run_in_this_checkout_says_one_line_and_touches_nothing() -> None:
    checkout = setup.Checkout(ROOT)
    assert checkout.is_current(), "run scripts/setup first: the tests themselves never install anything"
    before = checkout.stamp.stat()
    said = subprocess.run([str(ROOT / "scripts" / "setup")], capture_output=True, timeout=PROCESS_S, check=True)
    assert said.stdout.decode() == f"{checkout.up_to_date()}\n"
    assert said.stderr == b""
    assert checkout.stamp.stat() == before


def test_a_run_that_has_nothing_to_do_starts_no_tool_and_takes_no_lock(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.run()
    monkeypatch.setattr(setup.subprocess, "run", lambda *_, **__: pytest.fail("a tool was started"))
    monkeypatch.setattr(setup, "sole_run", lambda *_: pytest.fail("the lock was taken"))
    setup.set_up(setup.Checkout(stage.checkout), anew=False)


def test_a_first_run_makes_the_venv_with_hashes_and_the_project_in_place(stage: Stage) -> None:
    code, said = stage.run()
    made, pinned, project, compiled = stage.calls()
    venv = stage.checkout / ".venv"
    assert (code, said.splitlines()[-1]) == (0, ".venv is ready (Python 3.11.7)")
    assert made.endswith(f" {venv}")
    assert f"--python {venv}/bin/python --require-hashes" in pinned
    assert all(f"--requirement {stage.checkout}/requirements/{name}.txt" in pinned for name in setup.LOCKS)
    assert compiled == f"python -I {stage.checkout}/scripts/canvas build"
    assert f"--python {venv}/bin/python --no-deps --no-build-isolation --editable {stage.checkout}" in project


def test_nothing_in_the_shell_leads_an_installer_out_of_the_venv(stage: Stage) -> None:
    stage.run(**dict.fromkeys(setup.MISLEADING - {"PYTHONHOME"}, "/nowhere"), PIP_USER="1", PIP_PROXY="kept")
    lines = stage.folder.joinpath("environment").read_text().splitlines()
    seen = dict(line.split("=", 1) for line in lines if "=" in line)
    assert seen["PIP_USER"] == "0"
    assert seen["PIP_PROXY"] == "kept"
    assert seen["MOLECULE_UI"] == "skip", "compiling is a step of its own"
    assert not setup.MISLEADING & seen.keys()


@pytest.mark.parametrize(
    "name", ["requirements/run.txt", "requirements/build.txt", "requirements/test.txt", "pyproject.toml"]
)
def test_an_edit_of_what_decides_the_contents_installs_again_in_the_same_venv(stage: Stage, name: str) -> None:
    stage.run()
    assert stage.has_made_venvs() == 1
    with (stage.checkout / name).open("a") as file:
        file.write("# edited\n")
    assert "installing" in stage.run()[1]
    assert stage.has_made_venvs() == 0
    assert stage.run() == (0, ".venv is up to date (Python 3.11.7)\n")


def test_text_that_moves_from_one_file_to_the_next_is_an_edit_too(stage: Stage) -> None:
    checkout = setup.Checkout(stage.checkout)
    before = checkout.contents()
    run, build = checkout.lock("run"), checkout.lock("build")
    text = run.read_text()
    run.write_text(text[:-1])
    build.write_text(text[-1] + build.read_text())
    assert checkout.contents() != before


@pytest.mark.parametrize("name", ["canvas/src/main.tsx", "canvas/new.html", "hatch_build.py"])
def test_an_edit_of_the_canvas_compiles_it_again_and_installs_nothing(stage: Stage, name: str) -> None:
    stage.run()
    stage.calls()
    with (stage.checkout / name).open("a") as file:
        file.write("edited")
    assert stage.run() == (0, "compiling the canvas\n.venv is ready (Python 3.11.7)\n")
    assert stage.calls() == [f"python -I {stage.checkout}/scripts/canvas build"]
    assert stage.page.read_text() == stage.source.read_text()
    assert stage.run() == (0, ".venv is up to date (Python 3.11.7)\n")


def test_what_tools_leave_among_the_sources_of_the_canvas_is_no_edit(stage: Stage) -> None:
    stage.run()
    for name in ("node_modules/react/index.js", ".build/made/index.html", "src/.#main.tsx"):
        path = stage.checkout / "canvas" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to("nowhere")  # as some editors do
    assert stage.run() == (0, ".venv is up to date (Python 3.11.7)\n")


def test_a_canvas_whose_page_is_gone_is_compiled_again(stage: Stage) -> None:
    stage.run()
    stage.page.unlink()
    assert "compiling the canvas" in stage.run()[1]
    assert stage.page.exists()


@pytest.mark.parametrize("is_first", [True, False])
def test_a_canvas_that_does_not_compile_shows_why_and_the_next_run_goes_on(stage: Stage, is_first: bool) -> None:
    if not is_first:
        stage.run()
    stage.source.write_text("second")
    broken = stage.folder / "broken-canvas"
    broken.touch()
    code, said = stage.run()
    assert code == 1
    assert "compiling the canvas: python ended with 1\n    main.tsx: unexpected end\nWhat to do: Fix" in said
    broken.unlink()
    stage.calls()
    assert stage.run()[0] == 0
    assert stage.page.read_text() == "second"
    assert stage.calls() == [f"python -I {stage.checkout}/scripts/canvas build"]


def test_the_canvas_can_be_left_out_and_is_made_up_for_later(stage: Stage) -> None:
    assert stage.run(MOLECULE_UI="skip")[0] == 0
    assert not any("canvas" in call for call in stage.calls() if call.startswith("python"))
    assert stage.run(MOLECULE_UI="skip") == (0, ".venv is up to date (Python 3.11.7)\n")
    assert not stage.page.exists()
    assert stage.run() == (0, "compiling the canvas\n.venv is ready (Python 3.11.7)\n")
    assert stage.page.exists()


def test_an_edit_while_the_canvas_is_compiled_does_not_count_as_compiled(stage: Stage) -> None:
    stage.folder.joinpath("python").write_text(PYTHON + "echo edited >> canvas/src/main.tsx\n")
    assert stage.run()[0] == 0
    assert "compiling the canvas" in stage.run()[1]


def test_a_checkout_that_was_moved_makes_its_venv_anew(stage: Stage) -> None:
    stage.run()
    stage.calls()
    stage.checkout = stage.checkout.rename(stage.checkout.with_name("moved"))
    assert "creating .venv" in stage.run()[1]


def test_a_venv_whose_python_is_gone_is_made_anew(stage: Stage) -> None:
    stage.run()
    stage.folder.joinpath("python").unlink()
    assert "creating .venv" in stage.run()[1]


def test_a_venv_whose_python_is_another_one_is_made_anew(stage: Stage) -> None:
    stage.run()
    python = stage.checkout / ".venv" / "bin" / "python"
    python.unlink()
    python.symlink_to(sys.executable)
    assert "creating .venv" in stage.run()[1]


def test_a_venv_is_made_anew_when_asked(stage: Stage) -> None:
    stage.run()
    assert "creating .venv" in stage.run("--anew")[1]


def test_a_venv_that_is_a_link_is_replaced_and_what_it_led_to_is_left_alone(stage: Stage) -> None:
    elsewhere = stage.folder / "elsewhere"
    elsewhere.mkdir()
    elsewhere.joinpath("mine").touch()
    stage.checkout.joinpath(".venv").symlink_to(elsewhere)
    assert stage.run()[0] == 0
    assert [path.name for path in elsewhere.iterdir()] == ["mine"]


def test_a_failure_shows_the_end_of_the_tools_words_and_what_to_do_and_the_next_run_repairs_it(stage: Stage) -> None:
    broken = stage.folder / "broken"
    broken.touch()
    code, said = stage.run()
    assert code == 1
    assert "installing the pinned requirements: uv ended with 3" in said
    assert "no such package" in said
    assert "\n    1\n" not in said, "only the end of a long output is shown"
    assert "What to do: Check that this machine can reach the package index" in said
    assert not stage.stamp.exists()
    broken.unlink()
    assert "creating .venv" in stage.run()[1]
    assert stage.stamp.exists()


def test_a_missing_file_is_named_with_what_brings_it_back(stage: Stage) -> None:
    stage.run()
    stage.checkout.joinpath("requirements", "run.txt").unlink()
    code, said = stage.run()
    assert code == 1
    assert "requirements/run.txt is missing. Restore it with git" in said


def test_two_runs_at_once_make_one_venv(stage: Stage, gate: Gate) -> None:
    with stage.start() as first:
        gate.wait_for_arrival()
        with stage.start() as second:
            second.until("waiting for another run")
            gate.let_through(2)
            assert (first.end(), second.end()) == (0, 0)
            assert first.said.endswith(".venv is ready (Python 3.11.7)\n")
            assert second.said.endswith(".venv is up to date (Python 3.11.7)\n")
    assert stage.has_made_venvs() == 1


def test_a_run_after_a_killed_one_waits_for_the_tool_it_left_and_makes_the_venv_anew(stage: Stage, gate: Gate) -> None:
    with stage.start() as killed:
        gate.wait_for_arrival()
        killed.kill()
    with stage.start() as repair:
        repair.until("waiting for another run")
        gate.let_through(3)
        assert repair.end() == 0
        assert "creating .venv" in repair.said
    assert stage.has_made_venvs() == 2
    assert stage.run() == (0, ".venv is up to date (Python 3.11.7)\n")


def test_a_venv_that_was_being_changed_when_the_run_was_killed_is_made_anew(stage: Stage) -> None:
    stage.run()
    with stage.checkout.joinpath("requirements", "run.txt").open("a") as file:
        file.write("# edited\n")
    with contextlib.closing(Gate(stage.folder)) as gate, stage.start() as killed:
        gate.wait_for_arrival()
        killed.kill()
        gate.let_through(3)
        assert "creating .venv" in stage.run()[1]


def test_an_edit_while_installing_does_not_count_as_installed(stage: Stage, gate: Gate) -> None:
    with stage.start() as running:
        gate.wait_for_arrival()
        with stage.checkout.joinpath("requirements", "run.txt").open("a") as file:
            file.write("# edited meanwhile\n")
        gate.let_through(2)
        assert running.end() == 0
    assert not setup.Checkout(stage.checkout).is_current()


def test_without_uv_the_venv_installs_with_its_own_pip(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    checkout = setup.Checkout(stage.checkout)
    checkout.venv.joinpath("bin").mkdir(parents=True)
    checkout.venv.joinpath("bin", "pip").touch()
    assert setup.SetUp(checkout, held=0).installer(checkout.venv)[:4] == [str(checkout.python), "-m", "pip", "install"]


def test_the_uv_inside_the_venv_is_not_asked_to_make_the_venv_it_lives_in(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout = setup.Checkout(stage.checkout)
    checkout.venv.joinpath("bin").mkdir(parents=True)
    shutil.copy(stage.folder / "uv", checkout.venv / "bin" / "uv")
    monkeypatch.setenv("PATH", str(checkout.venv / "bin"))
    assert checkout.uv_on_path() == ""
    monkeypatch.setenv("PATH", str(stage.folder))
    assert checkout.uv_on_path() == str(stage.folder / "uv")


def test_relocking_asks_for_all_platforms_with_hashes_and_without_addresses(stage: Stage) -> None:
    assert stage.run("--relock")[0] == 0
    run, build, test, bench, docs, release = [call for call in stage.calls() if call.startswith("pip compile")]
    made = {"run": run, "build": build, "test": test, "bench": bench, "docs": docs, "release": release}
    for name, call in made.items():
        assert "--universal" in call
        assert "--generate-hashes" in call
        assert "--no-emit-index-url" in call
        assert call.endswith(f"--output-file requirements/{name}.txt")
    earlier = "--constraint requirements/run.txt --constraint requirements/build.txt"
    assert earlier in test
    assert f"{earlier} --constraint requirements/test.txt" in bench
    assert f"{earlier} --constraint requirements/test.txt --constraint requirements/bench.txt" in docs


# What the benchmarks measure against, and what builds the site.


def test_what_builds_the_site_has_an_environment_of_its_own(stage: Stage) -> None:
    code, said = stage.run("--docs")
    assert (code, said.splitlines()[-1]) == (0, ".docs/venv is ready")
    assert stage.calls()[-1].endswith(f"--require-hashes --requirement {stage.checkout}/requirements/docs.txt")
    assert stage.run("--docs")[0] == 0
    assert stage.calls() == []


def test_what_is_measured_against_has_an_environment_of_its_own(stage: Stage) -> None:
    assert stage.run()[0] == 0
    assert not any("bench" in call for call in stage.calls())
    code, said = stage.run("--bench")
    assert (code, said.splitlines()[-1]) == (0, ".bench/peers is ready")
    made, pinned = stage.calls()
    assert made.startswith("venv ") and made.endswith(f" {stage.checkout}/.bench/peers")
    assert f"--python {stage.checkout}/.bench/peers/bin/python " in pinned
    assert pinned.endswith(f"--require-hashes --requirement {stage.checkout}/requirements/bench.txt")
    assert stage.run("--bench")[0] == 0
    assert stage.calls() == []


def test_other_pins_of_what_is_measured_against_make_it_anew_and_leave_the_venv_alone(stage: Stage) -> None:
    assert stage.run("--bench")[0] == 0
    stage.calls()
    with stage.checkout.joinpath("requirements", "bench.txt").open("a") as file:
        file.write("# edited\n")
    assert stage.run()[1].startswith(".venv is up to date")
    assert stage.run("--bench")[0] == 0
    made, pinned = stage.calls()
    assert "/.venv" not in made + pinned


def test_an_environment_of_peers_that_was_left_half_made_is_made_anew(stage: Stage) -> None:
    assert stage.run()[0] == 0
    stage.folder.joinpath("broken").touch()
    code, said = stage.run("--bench")
    assert (code, "installing the systems that benchmarks compare with: uv ended with 3" in said) == (1, True)
    stage.folder.joinpath("broken").unlink()
    stage.calls()
    assert stage.run("--bench")[0] == 0
    assert len(stage.calls()) == 2


# An old Python: the script with one line replaced, so that every Python counts as old.


@pytest.fixture
def old(stage: Stage) -> Stage:
    script = stage.checkout / "scripts" / "setup"
    text = script.read_text()
    assert text.count("OLDEST = (3, 11)") == 1
    script.write_text(text.replace("OLDEST = (3, 11)", "OLDEST = (99, 0)"))
    return stage


def on_path(stage: Stage, name: str, text: str) -> None:
    stage.folder.joinpath(name).write_text(f"#!/bin/sh\n{text}\n")
    stage.folder.joinpath(name).chmod(0o755)


def test_a_python_that_is_too_old_says_so_in_one_line(old: Stage) -> None:
    code, said = old.run(PATH="/nowhere")
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert code == 1
    assert said == (
        f"scripts/setup: Python {version} is too old for Molecule. "
        "Install Python 3.11 or newer, then run: python3.11 scripts/setup\n"
    )


def test_a_python_that_is_too_old_hands_over_to_a_newer_one(old: Stage) -> None:
    on_path(old, "python3.12", '[ "$1" = -c ] || echo "handed over: $*"')
    code, said = old.run("--anew", PATH=str(old.folder))
    assert (code, said) == (0, f"handed over: {old.checkout}/scripts/setup --anew\n")


def test_a_newer_python_that_is_only_a_shim_is_passed_over(old: Stage) -> None:
    on_path(old, "python3.13", "exit 127")
    on_path(old, "python3.11", '[ "$1" = -c ] || echo "handed over to 3.11"')
    assert old.run(PATH=str(old.folder)) == (0, "handed over to 3.11\n")


@pytest.mark.parametrize("name", ["setup", "check", "canvas"])
def test_an_old_python_can_read_the_script(name: str) -> None:
    assert ast.parse((ROOT / "scripts" / name).read_text(), feature_version=(3, 6)).body


@requirement("A4")
def test_the_tests_run_from_the_root_wherever_they_are_called(tmp_path: Path) -> None:
    assert setup.Checkout(ROOT).is_current(), "run scripts/setup first: the tests themselves never install anything"
    said = subprocess.run(
        [str(ROOT / "scripts" / "test"), "--collect-only", "--quiet", "tests/system/setup/test_locks.py"],
        env={**os.environ, "MOLECULE_BROWSER": "true"},
        cwd=tmp_path, capture_output=True, text=True, timeout=PROCESS_S, check=True,
    )  # fmt: skip
    assert "tests/system/setup/test_locks.py::" in said.stdout
