"""What a wheel and an sdist hold of the canvas. They are packed from a small tree, so that nothing is compiled."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.setup.support import PROCESS_S, ROOT

PLANTED = {
    "canvas/package.json", "canvas/package-lock.json", "canvas/.npmrc", "canvas/index.html", "canvas/src/main.tsx",
}  # fmt: skip
LEFT_OUT = {"canvas/node_modules/react/index.js", "canvas/.build/made/index.html", "scripts/canvas", "tests/test_x.py"}
PAGE = {
    "molecule_core/canvas_assets/index.html",
    "molecule_core/canvas_assets/build.json",
    "molecule_core/canvas_assets/assets/main-1.js",
    "molecule_core/canvas_assets/assets/main-1.js.br",
    "molecule_core/canvas_assets/assets/main-1.js.gz",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in PLANTED | LEFT_OUT | {f"src/{name}" for name in PAGE} | {"src/molecule_core/__init__.py"}:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    for name in ("pyproject.toml", "hatch_build.py", "LICENSE", ".gitignore"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def pack(tree: Path, target: str) -> Path:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(tree / "dist")],
        cwd=tree, env={**os.environ, "MOLECULE_UI": "skip"}, capture_output=True, timeout=PROCESS_S, check=True,
    )  # fmt: skip
    (packed,) = tree.joinpath("dist").iterdir()
    return packed


def test_a_wheel_holds_the_page_and_nothing_of_its_sources(tree: Path) -> None:
    names = set(zipfile.ZipFile(pack(tree, "wheel")).namelist())
    assert {name for name in names if ".dist-info/" not in name} == PAGE | {"molecule_core/__init__.py"}


def test_an_sdist_holds_the_page_and_all_that_makes_it(tree: Path) -> None:
    with tarfile.open(pack(tree, "sdist")) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    assert PLANTED | {f"src/{name}" for name in PAGE} | {"hatch_build.py", "pyproject.toml", "LICENSE"} <= names
    assert not LEFT_OUT & names
