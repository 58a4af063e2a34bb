"""The pins of real hosts and the pages about them, which say something also where no host is installed."""

import json
import re
from pathlib import Path

import pytest

from molecule_core.tools.registry import TOOLS
from tests.interop import transcript
from tests.interop.editor_programs import SOURCES as EDITORS
from tests.interop.hosts import HOSTS, KEY, RealHost
from tests.interop.installed_hosts import HOSTS as PINNED
from tests.interop.installed_hosts import PINS, Pinned, named
from tests.system.setup.test_canvas_lock import faults

each_host = pytest.mark.parametrize("host", HOSTS, ids=[host.name for host in HOSTS])
each_pinned = pytest.mark.parametrize("pinned", PINNED, ids=[pinned.name for pinned in PINNED])


@each_pinned
def test_a_host_has_one_exact_version_and_a_lock_without_addresses(pinned: Pinned) -> None:
    packages = json.loads((pinned.pins / "package-lock.json").read_text(encoding="utf-8"))["packages"]

    assert re.fullmatch(r"\d+\.\d+\.\d+", pinned.version)
    assert packages[f"node_modules/{pinned.package}"]["version"] == pinned.version
    assert list(faults(packages)) == []


def test_the_clients_of_editors_have_exact_versions_and_a_lock_without_addresses() -> None:
    wanted = json.loads((EDITORS / "package.json").read_text(encoding="utf-8"))["dependencies"]
    packages = json.loads((EDITORS / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    assert {name: packages[f"node_modules/{name}"]["version"] for name in wanted} == wanted
    assert list(faults(packages)) == []


def test_every_folder_of_pins_belongs_to_a_host() -> None:
    assert sorted(path.name for path in PINS.iterdir()) == sorted(pinned.name for pinned in PINNED)


@each_pinned
def test_another_lock_is_another_folder_and_none_is_in_the_checkout(
    pinned: Pinned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MOLECULE_INTEROP_HOSTS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    before = pinned.folder
    assert before.parent == tmp_path / "molecule-interop"
    assert pinned.found() is None

    program = before / pinned.program.replace("*", "x")
    program.parent.mkdir(parents=True)
    program.touch()
    assert pinned.found() == str(program)

    monkeypatch.setattr("tests.interop.installed_hosts.PINS", tmp_path / "pins")
    changed = tmp_path / "pins" / pinned.name
    changed.mkdir(parents=True)
    for name in ("package.json", "package-lock.json"):
        (changed / name).write_text((PINS / pinned.name / name).read_text(encoding="utf-8") + "\n", encoding="utf-8")
    assert pinned.folder != before


def test_a_host_that_nobody_knows_is_refused_by_name() -> None:
    assert [pinned.name for pinned in named([])] == [pinned.name for pinned in PINNED]
    with pytest.raises(ValueError, match="no host is called emacs: claude-code, claude-code-older, codex, gemini"):
        list(named(["emacs"]))


@each_host
def test_the_page_about_a_host_is_of_the_pinned_version_and_names_only_tools_that_exist(host: RealHost) -> None:
    text = (transcript.FOLDER / f"{host.name}.md").read_text(encoding="utf-8")

    assert text.startswith(f"# {host.title} {host.pinned.version}\n"), "scripts/interop write makes it anew"
    spoken = set(re.findall(re.escape(host.prefix) + r"([a-z_]+)", text))
    assert {"inbox_peek", "reply_to_workspace"} <= spoken <= {spec.name for spec in TOOLS}


@each_host
def test_the_page_about_a_host_tells_nothing_of_the_machine_it_was_made_on(host: RealHost) -> None:
    text = (transcript.FOLDER / f"{host.name}.md").read_bytes().decode()

    assert KEY not in text
    assert "\r" not in text
    assert re.findall(r"mol_[a-z]+_\w+|127\.0\.0\.1:\d+|/(?:home|root|tmp|var|Users)/|\b20\d\d-\d\d-\d\dT", text) == []
