"""No import circle between modules or between the packages of one package."""

from pathlib import Path

import pytest

from tests.architecture.guards.circles import find_circles, find_package_circles
from tests.architecture.repository import SOURCES, write_tree


def test_the_real_tree_has_no_import_circle() -> None:
    assert find_circles(SOURCES) == []


def test_modules_that_only_import_downward_form_no_circle(tmp_path: Path) -> None:
    files = {
        "wire/__init__.py": "from molecule_core.wire.events import A\n",
        "wire/events.py": "from molecule_core.wire.names import A\nfrom molecule_core.common import ids\n",
        "wire/names.py": "A = 1\n",
        "common/__init__.py": "",
        "common/ids.py": "import wire.events\nfrom wire import names\n",
    }
    assert find_circles(write_tree(tmp_path, files)) == []


@pytest.mark.parametrize(
    "back",
    [
        "from molecule_core.wire import a",
        "from . import a",
        "def late():\n    import molecule_core.wire.a",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from molecule_core.wire.a import A",
    ],
)
def test_two_modules_that_import_each_other_are_a_circle(tmp_path: Path, back: str) -> None:
    tree = write_tree(tmp_path, {"wire/a.py": "from molecule_core.wire import b\n", "wire/b.py": back})
    assert find_circles(tree) == ["src/molecule_core: import circle wire.a -> wire.b -> wire.a"]


def test_a_long_circle_is_reported_once_by_its_shortest_path(tmp_path: Path) -> None:
    files = {
        "wire/a.py": "from molecule_core.wire import b\n",
        "wire/b.py": "from molecule_core.wire import c, d\n",
        "wire/c.py": "from molecule_core.wire import d\n",
        "wire/d.py": "from molecule_core.wire import a\n",
        "wire/e.py": "from molecule_core.wire import a\n",
    }
    assert find_circles(write_tree(tmp_path, files)) == [
        "src/molecule_core: import circle wire.a -> wire.b -> wire.d -> wire.a"
    ]


def test_two_separate_circles_are_two_findings(tmp_path: Path) -> None:
    pairs = [("wire", "a", "b"), ("store", "c", "d")]
    files = {f"{package}/{one}.py": f"from . import {two}\n" for package, one, two in pairs}
    files |= {f"{package}/{two}.py": f"from . import {one}\n" for package, one, two in pairs}
    assert find_circles(write_tree(tmp_path, files)) == [
        "src/molecule_core: import circle store.c -> store.d -> store.c",
        "src/molecule_core: import circle wire.a -> wire.b -> wire.a",
    ]


def test_a_circle_through_the_init_of_another_package_is_found(tmp_path: Path) -> None:
    files = {
        "wire/__init__.py": "from molecule_core.common import ids\n",
        "wire/events.py": "",
        "common/ids.py": "from molecule_core.wire.events import A\n",
    }
    assert find_circles(write_tree(tmp_path, files)) == [
        "src/molecule_core: import circle common.ids -> wire -> common.ids"
    ]


def test_a_module_that_imports_itself_is_a_circle(tmp_path: Path) -> None:
    tree = write_tree(tmp_path, {"wire/a.py": "import molecule_core.wire.a\n"})
    assert find_circles(tree) == ["src/molecule_core: import circle wire.a -> wire.a"]


def test_the_real_packages_form_no_circle() -> None:
    assert find_package_circles(SOURCES) == []


PACKAGES = {
    "messages/__init__.py": "",
    "messages/inbox/__init__.py": "",
    "messages/inbox/acks.py": "from molecule_core.messages.obligations import ledger\n",
    "messages/inbox/claims.py": "",
    "messages/obligations/__init__.py": "",
    "messages/obligations/ledger.py": "",
}


def test_packages_that_only_import_downward_form_no_circle(tmp_path: Path) -> None:
    files = {
        **PACKAGES,
        "messages/reader.py": "from molecule_core.messages.inbox import acks\n",
        "messages/inbox/rules.py": "from molecule_core.messages import writer\nfrom . import acks\n",
        "messages/writer.py": "from molecule_core.messages.obligations import ledger\n",
    }
    assert find_package_circles(write_tree(tmp_path, files)) == []


def test_a_circle_of_packages_without_a_circle_of_modules_is_found(tmp_path: Path) -> None:
    text = "from molecule_core.messages.inbox.claims import A\n"
    tree = write_tree(tmp_path, {**PACKAGES, "messages/obligations/model.py": text})
    assert find_circles(tree) == []
    assert find_package_circles(tree) == [
        "src/molecule_core: circle of packages messages.inbox -> messages.obligations -> messages.inbox"
    ]


def test_top_level_packages_that_import_each_other_are_a_circle(tmp_path: Path) -> None:
    files = {
        "org/__init__.py": "",
        "org/model.py": "from molecule_core.access import model\n",
        "access/__init__.py": "",
        "access/model.py": "",
        "access/writer.py": "from molecule_core.org import reader\n",
        "org/reader.py": "",
    }
    assert find_package_circles(write_tree(tmp_path, files)) == [
        "src/molecule_core: circle of packages access -> org -> access"
    ]
