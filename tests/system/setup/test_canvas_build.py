"""The build hook: what makes the assets stale, when Node is asked for, and what a build leaves behind."""

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import hatch_build
from hatch_build import NODE, Canvas, PackageHook
from tests.system.setup.support import PROCESS_S, ROOT, load

SOURCES = ("index.html", "package.json", "package-lock.json", ".npmrc", "src/main.tsx", "src/features/org.tsx")


class Stage(Canvas):
    """A small checkout in which Node is an actor: it writes down what it is asked for and leaves what Node would."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.asked: list[str] = []
        self.fails = ""
        self.meanwhile: Callable[[], None] = lambda: None
        for name in SOURCES:
            self.write(name, name)
        root.joinpath("hatch_build.py").write_text("")
        self.assets.parent.mkdir(parents=True)

    def write(self, name: str, text: str) -> None:
        path = self.sources / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def run(self, arguments: list[str], held: int | None = None) -> int:
        assert held is not None, "only who holds the sources may install or build"
        step = arguments[1]
        self.asked.append(step)
        if step == self.fails:
            return 3
        if step == "ci":
            self.modules.mkdir(exist_ok=True)
        else:
            self.meanwhile()
            folder = Path(arguments[arguments.index("--outDir") + 1])
            folder.mkdir(parents=True)
            folder.joinpath("index.html").write_text(self.sources.joinpath("src", "main.tsx").read_text())
        return 0

    def page(self) -> str:
        return self.assets.joinpath("index.html").read_text()


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


@pytest.fixture(autouse=True)
def canvas_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hook makes neither the docs nor the version: test_packages.py is about them."""
    monkeypatch.setattr(hatch_build, "build_html_docs", lambda _: None)
    monkeypatch.setattr(PackageHook, "write_version", lambda *_: None)


def hook(root: Path) -> PackageHook:
    parts = {"build_config": None, "metadata": None, "directory": "", "target_name": "wheel"}
    return PackageHook(str(root), {}, **parts)  # type: ignore[arg-type]  # what the hook does not look at


@pytest.mark.parametrize(
    "name", ["index.html", "package-lock.json", "src/main.tsx", "src/features/org.tsx", "src/new.css"]
)
def test_an_edit_of_a_source_makes_the_assets_stale(stage: Stage, name: str) -> None:
    assert stage.build()
    assert stage.is_current()
    stage.write(name, "edited")
    assert not stage.is_current()


def test_an_edit_of_the_way_of_building_makes_the_assets_stale(stage: Stage) -> None:
    stage.build()
    stage.root.joinpath("hatch_build.py").write_text("edited")
    assert not stage.is_current()


@pytest.mark.parametrize(
    "name", ["src/main.test.tsx", "src/.main.tsx.swp", ".build/old/x", "node_modules/react/index.js"]
)
def test_what_does_not_decide_the_assets_leaves_them_current(stage: Stage, name: str) -> None:
    stage.build()
    stage.write(name, "edited")
    assert stage.is_current()


def test_a_source_that_was_renamed_makes_the_assets_stale(stage: Stage) -> None:
    stage.build()
    stage.sources.joinpath("src", "main.tsx").rename(stage.sources / "src" / "page.tsx")
    assert not stage.is_current()


def test_text_that_moves_from_one_source_to_the_next_makes_the_assets_stale(stage: Stage) -> None:
    stage.write("src/a.ts", "12")
    stage.write("src/b.ts", "3")
    before = stage.wanted()
    stage.write("src/a.ts", "1")
    stage.write("src/b.ts", "23")
    assert stage.wanted() != before


def test_the_same_sources_elsewhere_want_the_same_assets(tmp_path: Path) -> None:
    assert Stage(tmp_path / "one").wanted() == Stage(tmp_path / "two").wanted()


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"inputs": null}', '{"inputs": "other"}'])
def test_assets_that_do_not_say_what_they_were_made_from_are_stale(stage: Stage, text: str) -> None:
    stage.build()
    stage.assets.joinpath("build.json").write_text(text)
    assert not stage.is_current()


def test_a_second_build_asks_node_for_nothing(stage: Stage) -> None:
    assert stage.build()
    assert not stage.build()
    assert stage.asked == ["ci", "build"]


def test_packages_are_installed_again_only_when_the_lock_is_another_one(stage: Stage) -> None:
    stage.build()
    stage.write("src/main.tsx", "edited")
    stage.build()
    assert stage.asked == ["ci", "build", "build"]
    stage.write("package-lock.json", "edited")
    stage.build()
    assert stage.asked == ["ci", "build", "build", "ci", "build"]
    assert stage.page() == "edited"


def test_an_installation_that_failed_is_made_again(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.build()
    stage.write("package-lock.json", "edited")
    stage.fails = "ci"
    with pytest.raises(SystemExit, match=r"npm ci ended with 3\. See whether .* MOLECULE_UI=skip installs"):
        stage.build()
    stage.fails = ""
    stage.write("package-lock.json", "package-lock.json")
    stage.write("src/main.tsx", "edited")
    stage.build()
    assert stage.asked[-2:] == ["ci", "build"]


def test_a_build_that_failed_leaves_the_assets_as_they_were(stage: Stage) -> None:
    stage.build()
    stage.write("src/main.tsx", "wrong")
    stage.fails = "build"
    with pytest.raises(SystemExit, match="vite build ended with 3"):
        stage.build()
    assert stage.page() == "src/main.tsx"
    assert not stage.is_current()


def test_what_a_killed_build_left_is_cleared_away(stage: Stage) -> None:
    stage.build()
    stage.write(".build/old/half", "")
    stage.write("src/main.tsx", "edited")
    stage.build()
    assert stage.page() == "edited"
    assert sorted(path.name for path in stage.assets.iterdir()) == ["build.json", "index.html"]
    assert not stage.sources.joinpath(".build").exists()


def test_an_edit_while_building_does_not_count_as_built(stage: Stage) -> None:
    stage.meanwhile = lambda: stage.write("src/features/org.tsx", "edited meanwhile")
    stage.build()
    assert not stage.is_current()


def test_two_builds_at_once_build_once(stage: Stage) -> None:
    first_builds, go_on = threading.Event(), threading.Event()

    def hold_up() -> None:
        first_builds.set()
        assert go_on.wait(PROCESS_S)

    stage.meanwhile = hold_up
    built: list[bool] = []
    builders = [threading.Thread(target=lambda: built.append(stage.build())) for _ in range(2)]
    builders[0].start()
    assert first_builds.wait(PROCESS_S)
    builders[1].start()
    go_on.set()
    for builder in builders:
        builder.join(PROCESS_S)
    assert sorted(built) == [False, True]
    assert stage.asked == ["ci", "build"]


def test_node_is_asked_for_only_while_there_is_something_to_build(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MOLECULE_UI", raising=False)
    assert hook(stage.root).dependencies() == [NODE]
    stage.build()
    assert hook(stage.root).dependencies() == []
    stage.write("src/main.tsx", "edited")
    assert hook(stage.root).dependencies() == [NODE]


def test_skipping_asks_for_no_node_and_builds_nothing(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOLECULE_UI", "skip")
    monkeypatch.setattr(hatch_build.Canvas, "build", lambda _: pytest.fail("something was built"))
    assert hook(stage.root).dependencies() == []
    hook(stage.root).initialize("standard", {})
    assert not stage.assets.exists()


@pytest.mark.parametrize("version", ["standard", "editable"])
def test_every_kind_of_install_builds_what_is_stale_and_only_that(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.delenv("MOLECULE_UI", raising=False)
    monkeypatch.setattr(hatch_build, "Canvas", lambda _: stage)
    for _ in range(2):
        hook(stage.root).initialize(version, {})
    assert stage.asked == ["ci", "build"]


def test_the_node_is_the_one_that_the_packages_were_locked_for(capfd: pytest.CaptureFixture[str]) -> None:
    assert Canvas(ROOT).run(["--print", "process.versions.node"]) == 0
    assert capfd.readouterr().out.startswith(NODE.partition("==")[2].removesuffix("*"))


def test_nothing_in_the_shell_changes_what_is_built(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in hatch_build.MISLEADING:
        monkeypatch.setenv(name, "production")
    monkeypatch.setenv("npm_config_cache", "kept")
    assert Canvas(ROOT).run(["--print", "JSON.stringify(process.env)"]) == 0
    seen = json.loads(capfd.readouterr().out)
    assert seen["npm_config_cache"] == "kept"
    assert not hatch_build.MISLEADING & seen.keys()
    assert Path(seen["PATH"].split(os.pathsep)[0], "node").exists()


def test_whatever_makes_the_assets_stale_makes_set_up_look(stage: Stage) -> None:
    checkout = load("setup").Checkout(stage.root)
    for path in stage.inputs():
        before = checkout.page()
        path.write_text("edited")
        assert checkout.page() != before, path


def test_sources_that_do_not_compile_can_still_be_checked(tmp_path: Path) -> None:
    script, set_up = tmp_path / "scripts" / "canvas", tmp_path / "scripts" / "setup"
    script.parent.mkdir()
    shutil.copy(ROOT / "scripts" / "canvas", script)
    set_up.write_text('#!/bin/sh\necho "MOLECULE_UI=$MOLECULE_UI"\nexit 7\n')
    set_up.chmod(0o755)
    done = subprocess.run([str(script), "check"], capture_output=True, text=True, timeout=PROCESS_S, check=False)
    assert (done.returncode, done.stdout) == (7, "MOLECULE_UI=skip\n")


@pytest.mark.parametrize("words", [[], ["help"], ["bild"], ["build", "--force"]])
def test_words_that_are_no_command_are_answered_with_those_that_are(words: list[str]) -> None:
    command = [sys.executable, "-I", str(ROOT / "scripts" / "canvas"), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PROCESS_S, check=False)
    assert done.returncode == 2
    assert "scripts/canvas check " in done.stderr
