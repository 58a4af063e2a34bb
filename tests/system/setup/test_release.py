"""scripts/release: what it finds in packages with a planted fault, when it lets publish, and one run of all of it."""

import io
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.system.setup.support import ROOT, load

release = load("release")

GIT = {"pyproject.toml", "src/molecule_core/__init__.py", "docs/index.md"}
SDIST = GIT | {"PKG-INFO", "src/molecule_core/canvas_assets/index.html", "src/molecule_core/html_docs/index.html"}
INFO = "molecule_core-1.2.3.dist-info/METADATA"
WHEEL = {f"molecule_core/{part}" for part in release.WHEEL_PARTS} | {"molecule_core/__init__.py", INFO}
RUN_S = 1200  # the bound on a whole run: it installs, builds and starts several times


def pack_sdist(folder: Path, names: set[str]) -> Path:
    path = folder / "molecule_core-1.2.3.tar.gz"
    with tarfile.open(path, "w:gz") as packed:
        for name in names:
            packed.addfile(tarfile.TarInfo(f"molecule_core-1.2.3/{name}"), io.BytesIO())
    return path


def pack_wheel(folder: Path, names: set[str], name: str = "molecule_core-1.2.3-py3-none-any.whl") -> Path:
    with zipfile.ZipFile(folder / name, "w") as packed:
        for each in names:
            packed.writestr(each, "")
    return folder / name


def test_an_sdist_with_all_of_git_and_what_is_made_passes(tmp_path: Path) -> None:
    release.check_sdist(pack_sdist(tmp_path, SDIST), GIT)


@pytest.mark.parametrize(
    ("names", "finding"),
    [
        (SDIST - {"docs/index.md"}, "lacks docs/index.md"),
        (SDIST | {"secrets.env"}, "holds secrets.env, which git does not"),
        (SDIST | {"canvas/node_modules/react/index.js"}, "holds canvas/node_modules/react/index.js"),
    ],
)
def test_a_fault_of_an_sdist_is_found(tmp_path: Path, names: set[str], finding: str) -> None:
    with pytest.raises(release.CheckFailed, match=re.escape(finding)):
        release.check_sdist(pack_sdist(tmp_path, names), GIT)


def test_a_wheel_of_the_package_passes(tmp_path: Path) -> None:
    release.check_wheel(pack_wheel(tmp_path, WHEEL))


@pytest.mark.parametrize(
    ("names", "finding"),
    [
        (WHEEL - {"molecule_core/html_docs/index.html"}, "lacks html_docs/index.html"),
        (WHEEL | {"tests/conftest.py"}, "holds tests/conftest.py"),
    ],
)
def test_a_fault_of_a_wheel_is_found(tmp_path: Path, names: set[str], finding: str) -> None:
    with pytest.raises(release.CheckFailed, match=re.escape(finding)):
        release.check_wheel(pack_wheel(tmp_path, names))


def test_a_wheel_for_one_platform_is_refused(tmp_path: Path) -> None:
    wheel = pack_wheel(tmp_path, WHEEL, "molecule_core-1.2.3-cp311-cp311-linux_x86_64.whl")
    with pytest.raises(release.CheckFailed, match="is not for every machine"):
        release.check_wheel(wheel)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout of the release 1.2.3."""
    (tmp_path / "src" / "molecule_core" / "common").mkdir(parents=True)
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 1.2.3, 2027-01-15\n", encoding="utf-8")
    for name in ("pyproject.toml", "src/molecule_core/common/version.py"):
        (tmp_path / name).write_text('x = "1.2.3.dev0"\n', encoding="utf-8")
    return tmp_path


def test_nothing_is_in_the_way_of_a_tagged_clean_checkout_with_its_changelog(checkout: Path) -> None:
    assert list(release.obstacles(checkout, "1.2.3", is_dirty=False)) == []


@pytest.mark.parametrize(
    ("version", "is_dirty", "finding"),
    [
        ("1.2.3", True, "changes that are not committed"),
        ("1.2.4.dev3+g1234567", False, "Tag the commit: git tag -s v1.2.4"),
        ("1.3.0", False, "CHANGELOG.md has no section 1.3.0"),
        ("1.3.0", False, 'pyproject.toml has another version for sources without tags. Set it to "1.3.0.dev0"'),
    ],
)
def test_what_is_in_the_way_of_publishing_is_named(checkout: Path, version: str, is_dirty: bool, finding: str) -> None:
    assert finding in "\n".join(release.obstacles(checkout, version, is_dirty=is_dirty))


def test_the_version_without_tags_is_the_same_in_both_places() -> None:
    found = {
        match[1]
        for name in ("pyproject.toml", "src/molecule_core/common/version.py")
        for match in re.finditer(r'"(\d+\.\d+\.\d+)\.dev0"', (ROOT / name).read_text(encoding="utf-8"))
    }
    assert len(found) == 1


def test_a_command_that_fails_ends_the_release_with_its_words() -> None:
    with pytest.raises(release.CheckFailed, match=r"ended with 3:\n.*no such package"):
        release.run(sys.executable, "-c", "print('no such package'); raise SystemExit(3)")


@pytest.mark.long
def test_the_packages_of_this_checkout_are_built_installed_and_started() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "setup"), "--release"]
    subprocess.run(command, capture_output=True, timeout=RUN_S, check=True)
    command = [sys.executable, "-I", str(ROOT / "scripts" / "release")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    for line in ("install with uv", "installed size", "first start after the installation", "uvx, warm cache"):
        assert line in done.stdout
    assert done.stdout.count("PASSED") == 2
