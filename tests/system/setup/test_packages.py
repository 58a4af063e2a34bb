"""What a wheel and an sdist hold and say of themselves. They are packed from a small tree: nothing is compiled."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import trove_classifiers
from packaging.metadata import Metadata

from tests.system.setup.support import PROCESS_S, ROOT

PLANTED = {
    "canvas/package.json", "canvas/package-lock.json", "canvas/.npmrc", "canvas/index.html", "canvas/src/main.tsx",
    "deploy/molecule.service", "docs/pictures/canvas.png", "examples/agent.py", "scripts/canvas", "tests/test_x.py",
    "testing/x.py", "proofs/x.py", "benchmarks/x.py", "requirements/run.txt", "changelog.d/x.fix.md", ".ci/run",
    "mkdocs.yml",
}  # fmt: skip
COPIED = {
    "pyproject.toml", "hatch_build.py", "LICENSE", "README.md", ".gitignore", "docs/index.md", "scripts/html_docs.py",
    "scripts/html_docs.css",
}  # fmt: skip
LEFT_OUT = {
    "canvas/node_modules/react/index.js", "canvas/.build/made/index.html", "notes.txt", "tests/__pycache__/x.pyc",
    ".env", ".venv/pyvenv.cfg", ".docs/site/index.html", "dist/old.whl", "src/molecule_core/common/_version.py",
}  # fmt: skip
PAGE = {
    "molecule_core/canvas_assets/index.html",
    "molecule_core/canvas_assets/build.json",
    "molecule_core/canvas_assets/assets/main-1.js",
    "molecule_core/canvas_assets/assets/main-1.js.br",
    "molecule_core/canvas_assets/assets/main-1.js.gz",
}
BUILT_DOCS = {
    f"molecule_core/html_docs/{name}"
    for name in ("build.json", "pictures/canvas.png", "index.html", "404.html", "style.css")
}
VERSION = "1.2.3"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in PLANTED | LEFT_OUT | {f"src/{name}" for name in PAGE} | {"src/molecule_core/__init__.py"}:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    for name in COPIED:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "docs" / "index.md").write_text("# Molecule\n", encoding="utf-8")
    return tmp_path


def pack(tree: Path, target: str) -> Path:
    environment = {**os.environ, "MOLECULE_UI": "skip", "SETUPTOOLS_SCM_PRETEND_VERSION": VERSION}
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(tree / "dist")],
        cwd=tree, env=environment, capture_output=True, timeout=PROCESS_S, check=True,
    )  # fmt: skip
    (packed,) = tree.joinpath("dist").glob(f"*{VERSION}*")
    return packed


def metadata_of(text: bytes) -> Metadata:
    return Metadata.from_email(text, validate=True)


def test_a_wheel_holds_the_page_the_docs_and_the_version_and_nothing_of_their_sources(tree: Path) -> None:
    wheel = zipfile.ZipFile(pack(tree, "wheel"))
    names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert names == PAGE | BUILT_DOCS | {"molecule_core/__init__.py", "molecule_core/common/_version.py"}
    assert f'VERSION = "{VERSION}"' in wheel.read("molecule_core/common/_version.py").decode()
    planted = tree / "src" / "molecule_core" / "common" / "_version.py"
    assert planted.read_text(encoding="utf-8") == "", "only an editable install writes the version into a checkout"


def test_a_wheel_says_what_it_is(tree: Path) -> None:
    wheel = zipfile.ZipFile(pack(tree, "wheel"))
    folder = f"molecule_core-{VERSION}.dist-info"
    metadata = metadata_of(wheel.read(f"{folder}/METADATA"))
    assert (metadata.name, str(metadata.version)) == ("molecule-core", VERSION)
    assert (metadata.license_expression, metadata.license_files) == ("Apache-2.0", ["LICENSE"])
    assert str(metadata.requires_python) == ">=3.11"
    assert metadata.keywords and metadata.classifiers
    assert set(metadata.classifiers) <= trove_classifiers.classifiers
    assert not [each for each in metadata.classifiers if each.startswith("License ::")], "the expression replaces them"
    commands = wheel.read(f"{folder}/entry_points.txt").decode()
    assert "molecule = molecule_core.entry:main\nmolecule-core = molecule_core.entry:main\n" in commands


def test_the_description_is_the_readme_without_links_that_only_a_checkout_has(tree: Path) -> None:
    wheel = zipfile.ZipFile(pack(tree, "wheel"))
    metadata = metadata_of(wheel.read(f"molecule_core-{VERSION}.dist-info/METADATA"))
    assert metadata.description_content_type == "text/markdown"
    text = metadata.description or ""
    assert text.startswith("# Molecule\n")
    assert re.findall(r"\]\((?![a-z]+:)[^)]*\)", text) == []
    assert "![" not in text
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.sub(r"!\[[^\]]*\]\([^)]*\)\n\n", "", readme)
    assert text.strip() == re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", shown).strip()


def test_an_sdist_holds_all_that_git_holds_and_what_was_made_from_it(tree: Path) -> None:
    with tarfile.open(pack(tree, "sdist")) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    made = {f"src/{name}" for name in PAGE | BUILT_DOCS}
    assert PLANTED | COPIED | made | {"PKG-INFO"} <= names
    assert not LEFT_OUT & names


def test_an_unpacked_sdist_has_its_version_without_git(tree: Path) -> None:
    unpacked = tree / "unpacked"
    with tarfile.open(pack(tree, "sdist")) as packed:
        packed.extractall(unpacked, filter="data")
    (folder,) = unpacked.iterdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SETUPTOOLS_SCM")}
    command = [sys.executable, "-m", "hatchling", "version"]
    said = subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=PROCESS_S, check=True)
    assert said.stdout.decode().strip() == VERSION


def test_sources_without_git_have_the_version_of_the_next_release(tree: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SETUPTOOLS_SCM")}
    command = [sys.executable, "-m", "hatchling", "version"]
    said = subprocess.run(command, cwd=tree, env=environment, capture_output=True, timeout=PROCESS_S, check=True)
    fallback = re.search(r'VERSION = "([^"]+)"', (ROOT / "src/molecule_core/common/version.py").read_text("utf-8"))
    assert fallback is not None
    assert said.stdout.decode().strip() == fallback[1]
    assert fallback[1].endswith(".dev0")


@pytest.mark.parametrize(
    ("tag", "commits", "version"),
    [
        ("v1.2.0", 0, r"1\.2\.0"),
        ("v1.2.0", 2, r"1\.2\.1\.dev2\+g[0-9a-f]+"),
        ("", 2, r"0\.1\.0\.dev3\+g[0-9a-f]+"),
    ],
)
def test_the_version_comes_from_the_tag_of_git(tmp_path: Path, tag: str, commits: int, version: str) -> None:
    for name in ("pyproject.toml", "README.md", ".gitignore"):
        shutil.copy(ROOT / name, tmp_path / name)
    own = {"GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@b"}

    def run(*command: str) -> str:
        environment = {**os.environ, **own, "GIT_CONFIG_GLOBAL": os.devnull}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, timeout=60, check=True)
        return done.stdout.decode().strip()

    run("git", "init", "--quiet")
    run("git", "add", ".")
    run("git", "commit", "--quiet", "--message", "first")
    if tag:
        run("git", "tag", tag)
    for _ in range(commits):
        run("git", "commit", "--quiet", "--allow-empty", "--message", "more")
    assert re.fullmatch(version, run(sys.executable, "-m", "hatchling", "version"))
