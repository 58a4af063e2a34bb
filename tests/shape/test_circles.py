"""No import circle."""

from pathlib import Path

import pytest

from tests.shape.guards.circles import find_circles
from tests.shape.planting import SOURCES, plant


def test_the_real_tree_has_no_import_circle() -> None:
    assert find_circles(SOURCES) == []


def test_modules_that_only_look_down_form_no_circle(tmp_path: Path) -> None:
    files = {
        "wire/__init__.py": "from molecule_core.wire.events import A\n",
        "wire/events.py": "from molecule_core.wire.names import A\nfrom molecule_core.ground import ids\n",
        "wire/names.py": "A = 1\n",
        "ground/__init__.py": "",
        "ground/ids.py": "import wire.events\nfrom wire import names\n",
    }
    assert find_circles(plant(tmp_path, files)) == []


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
    tree = plant(tmp_path, {"wire/a.py": "from molecule_core.wire import b\n", "wire/b.py": back})
    assert find_circles(tree) == ["src/molecule_core: import circle wire.a -> wire.b -> wire.a"]


def test_a_long_circle_is_told_once_by_its_shortest_way(tmp_path: Path) -> None:
    files = {
        "wire/a.py": "from molecule_core.wire import b\n",
        "wire/b.py": "from molecule_core.wire import c, d\n",
        "wire/c.py": "from molecule_core.wire import d\n",
        "wire/d.py": "from molecule_core.wire import a\n",
        "wire/e.py": "from molecule_core.wire import a\n",
    }
    assert find_circles(plant(tmp_path, files)) == [
        "src/molecule_core: import circle wire.a -> wire.b -> wire.d -> wire.a"
    ]


def test_two_separate_circles_are_two_findings(tmp_path: Path) -> None:
    pairs = [("wire", "a", "b"), ("store", "c", "d")]
    files = {f"{room}/{one}.py": f"from . import {two}\n" for room, one, two in pairs}
    files |= {f"{room}/{two}.py": f"from . import {one}\n" for room, one, two in pairs}
    assert find_circles(plant(tmp_path, files)) == [
        "src/molecule_core: import circle store.c -> store.d -> store.c",
        "src/molecule_core: import circle wire.a -> wire.b -> wire.a",
    ]


def test_a_circle_through_the_door_of_another_package_is_seen(tmp_path: Path) -> None:
    files = {
        "wire/__init__.py": "from molecule_core.ground import ids\n",
        "wire/events.py": "",
        "ground/ids.py": "from molecule_core.wire.events import A\n",
    }
    assert find_circles(plant(tmp_path, files)) == ["src/molecule_core: import circle ground.ids -> wire -> ground.ids"]


def test_a_module_that_imports_itself_is_a_circle(tmp_path: Path) -> None:
    tree = plant(tmp_path, {"wire/a.py": "import molecule_core.wire.a\n"})
    assert find_circles(tree) == ["src/molecule_core: import circle wire.a -> wire.a"]
