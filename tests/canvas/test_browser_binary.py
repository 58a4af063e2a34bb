"""Which browser is taken, and what is done where there is none."""

from pathlib import Path

import pytest

from testing.canvas.browser_binary import NAMES, find_browser
from tests.system.setup.support import load

browser = load("browser")


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with nothing on it but a shell."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("MOLECULE_BROWSER", raising=False)
    monkeypatch.setattr(browser.os, "geteuid", lambda: 0)
    return tmp_path


def program(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_a_machine_without_a_browser_has_none() -> None:
    assert find_browser() is None


@pytest.mark.parametrize("name", NAMES)
def test_a_browser_on_path_is_found(machine: Path, name: str) -> None:
    assert find_browser() is None
    assert program(machine, name, "echo Chromium") == find_browser()


def test_a_stub_that_only_says_how_to_install_a_browser_is_passed_over(machine: Path) -> None:
    program(machine, "chromium", "exit 1")
    assert find_browser() is None
    assert program(machine, "google-chrome", "exit 0") == find_browser()


def test_a_browser_that_is_asked_for_is_taken_and_no_other(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(machine, "chromium", "exit 0")
    mine = program(machine, "mine", "exit 0")
    monkeypatch.setenv("MOLECULE_BROWSER", mine)
    assert find_browser() == mine
    monkeypatch.setenv("MOLECULE_BROWSER", str(machine / "gone"))
    assert find_browser() is None


APT_GET = """echo "$DEBIAN_FRONTEND $*" >> "{folder}/asked"
case "$*" in *install*) echo "#!/bin/sh" > "{folder}/chromium"; /bin/chmod 755 "{folder}/chromium";; esac
"""


def test_where_apt_get_may_be_used_it_brings_a_browser_and_asks_nothing(
    machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program(machine, "apt-get", APT_GET.format(folder=machine))
    browser.main()
    update, install = machine.joinpath("asked").read_text().splitlines()
    assert update.startswith("noninteractive --quiet --yes ")
    assert install.endswith(" install --no-install-recommends chromium-headless-shell fonts-dejavu-core")
    assert find_browser() == str(machine / "chromium")
    assert "no browser" not in capsys.readouterr().out


def test_where_there_is_no_package_of_the_shell_the_whole_browser_is_installed(machine: Path) -> None:
    program(machine, "apt-get", 'case "$*" in *shell*) exit 100;; esac\n' + APT_GET.format(folder=machine))
    browser.main()
    _, install = machine.joinpath("asked").read_text().splitlines()
    assert install.endswith(" install --no-install-recommends chromium fonts-dejavu-core")
    assert find_browser() == str(machine / "chromium")


def test_where_there_is_a_browser_nothing_is_installed_or_said(
    machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program(machine, "apt-get", APT_GET.format(folder=machine))
    program(machine, "chromium", "exit 0")
    browser.main()
    assert not machine.joinpath("asked").exists()
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("reason", ["no apt-get", "not root", "another browser is asked for"])
def test_where_nothing_may_be_installed_it_says_how_to_get_a_browser(
    machine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], reason: str
) -> None:
    if reason != "no apt-get":
        program(machine, "apt-get", APT_GET.format(folder=machine))
    if reason == "not root":
        monkeypatch.setattr(browser.os, "geteuid", lambda: 1000)
    if reason == "another browser is asked for":
        monkeypatch.setenv("MOLECULE_BROWSER", "gone")
    browser.main()
    assert not machine.joinpath("asked").exists()
    assert capsys.readouterr().out == f"{browser.BY_HAND}\n"


def test_an_apt_get_that_fails_is_shown_and_stops_nothing(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program(machine, "apt-get", 'echo "no network"; exit 100')
    browser.main()
    said = capsys.readouterr().out
    assert "apt-get install ended with 100:\nno network\n" in said
    assert said.endswith(f"{browser.BY_HAND}\n")
