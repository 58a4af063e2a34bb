"""The lock of the canvas' packages: complete for every platform, with sums, without addresses, exact, on our Node."""

import json
import re
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest

from hatch_build import NODE
from tests.system.setup.support import ROOT

CANVAS = ROOT / "canvas"
Packages = dict[str, dict[str, Any]]


def locked() -> Packages:
    packages: Packages = json.loads((CANVAS / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    return packages


def faults(packages: Packages) -> Iterator[str]:
    """What `npm ci` would refuse on some machine, would load unchecked, or would load from one place only."""
    names = {path.rpartition("node_modules/")[2] for path in packages}
    for path, package in packages.items():
        for name in package.get("optionalDependencies", {}).keys() - names:
            yield f"{path} may need {name}, which is not locked"
        if path and not package.get("integrity", "").startswith("sha512-"):
            yield f"{path} has no sum"
        if "resolved" in package:
            yield f"{path} names an address"


def test_the_lock_is_complete_for_every_platform_and_free_of_addresses() -> None:
    packages = locked()
    assert list(faults(packages)) == []
    assert "node_modules/vite" in packages


@pytest.mark.parametrize(
    ("package", "fault"),
    [
        ({"integrity": "sha512-x", "optionalDependencies": {"y-linux-arm64": "1.0.0"}}, "y-linux-arm64, which is not"),
        ({"version": "1.0.0"}, "has no sum"),
        ({"integrity": "sha1-x"}, "has no sum"),
        ({"integrity": "sha512-x", "resolved": "somewhere"}, "names an address"),
    ],
)
def test_a_planted_fault_in_the_lock_is_found(package: dict[str, Any], fault: str) -> None:
    (found,) = faults({"node_modules/x": package})
    assert fault in found


def test_every_package_that_the_canvas_names_has_one_exact_version() -> None:
    declared = json.loads((CANVAS / "package.json").read_text(encoding="utf-8"))
    for name, version in (declared["dependencies"] | declared["devDependencies"]).items():
        assert re.fullmatch(r"\d+\.\d+\.\d+", version), name
        assert locked()[f"node_modules/{name}"]["version"] == version


def test_the_hook_asks_for_the_node_that_the_tests_run_on() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert NODE in declared["dependency-groups"]["test"]
