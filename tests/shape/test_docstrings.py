"""Modules and promises are documented."""

from pathlib import Path

import pytest

from tests.shape.guards.docstrings import find_missing_docstrings
from tests.shape.guards.trees import Tree
from tests.shape.planting import SOURCES, plant

SAID = '"""Said. Above: all. Below: nothing."""\n'


def test_the_real_tree_says_what_it_is_and_promises() -> None:
    assert find_missing_docstrings(SOURCES) == []


def test_a_documented_tree_gives_no_finding(tmp_path: Path) -> None:
    writer = '''
        """The only hand."""
        from typing import overload

        class Writer:
            """Writes."""

            def __init__(self): ...
            def send(self):
                """Sends."""
                def inner(): ...
            def _decide(self): ...
            @property
            def size(self):
                """How many."""
            @size.setter
            def size(self, value): ...
            @size.deleter
            def size(self): ...

        class _Hidden:
            def run(self): ...

        @overload
        def pick(a): ...
        def pick(a):
            """Picks."""
    '''
    files = {
        "__init__.py": SAID,
        "messages/__init__.py": SAID,
        "messages/writer.py": writer,
        "edges/__init__.py": SAID,
        "edges/app.py": f"{SAID}def route(): ...\n",
    }
    assert find_missing_docstrings(plant(tmp_path, files)) == []


@pytest.mark.parametrize("text", ["", "x = 1\n", '""" """\n', "# said\n", 'x = 1\n"""Said too late."""\n'])
def test_a_module_without_a_docstring_is_a_finding(tmp_path: Path, text: str) -> None:
    tree = plant(tmp_path, {"__init__.py": SAID, "edges/__init__.py": SAID, "edges/app.py": text})
    assert find_missing_docstrings(tree) == ["src/molecule_core/edges/app.py:1 edges.app has no docstring"]


def test_a_boundary_without_a_docstring_is_a_finding(tmp_path: Path) -> None:
    assert find_missing_docstrings(plant(tmp_path, {"__init__.py": "", "store/__init__.py": ""})) == [
        "src/molecule_core/__init__.py:1 molecule_core has no docstring",
        "src/molecule_core/store/__init__.py:1 store has no docstring",
    ]


@pytest.mark.parametrize("room", ["edges", "store", "wire", "client", "agent", "messages", "memory"])
@pytest.mark.parametrize("said", ["Said.", "Said. Above: all.", "Said. Below: nothing."])
def test_a_boundary_that_does_not_say_where_it_stands_is_a_finding(tmp_path: Path, room: str, said: str) -> None:
    tree = plant(tmp_path, {"__init__.py": '"""Said."""', f"{room}/__init__.py": f'"""{said}"""'})
    assert find_missing_docstrings(tree) == [
        f"src/molecule_core/{room}/__init__.py:1 {room} does not say `Above: ... Below: ...`"
    ]


def test_a_folder_of_modules_without_a_door_is_a_finding(tmp_path: Path) -> None:
    assert find_missing_docstrings(plant(tmp_path, {"__init__.py": SAID, "edges/app.py": SAID})) == [
        "src/molecule_core/edges has no __init__.py to say what is above and what is below it"
    ]


@pytest.mark.parametrize("path", ["org/writer.py", "access/reader.py", "threads/rules.py", "ground/a.py", "wire/a.py"])
@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("def send(): ...", "send"),
        ("async def send(): ...", "send"),
        ("class Writer:\n    x = 1", "Writer"),
        ("class Writer:\n    '''Writes.'''\n    if x:\n        def send(self): ...", "Writer.send"),
        ("try:\n    def send(): ...\nexcept ImportError: ...", "send"),
    ],
)
def test_a_public_name_without_a_promise_is_the_one_finding(tmp_path: Path, path: str, text: str, name: str) -> None:
    tree = plant(tmp_path, {"__init__.py": SAID, f"{Path(path).parent}/__init__.py": SAID, path: SAID + text})
    [finding] = find_missing_docstrings(tree)
    assert finding.startswith(f"src/molecule_core/{path}:")
    assert finding.endswith(f" {name} has no docstring")


PROMISED = "class Port:\n    '''Is.'''\n    def send(self):\n        '''Sends.'''\n"
PROMISED_FURTHER_UP = "class Port(Other[int]):\n    '''Is.'''\n"
FURTHER_UP = "class Other(Port):\n    '''Is.'''\n    async def send(self):\n        '''Sends.'''\n"
HEIR = "from molecule_core.wire import a\n\nclass Heir(a.Port):\n    '''Is.'''\n    def send(self): ...\n"


def plant_heir(repo: Path, base: str) -> Tree:
    """A class in store/ whose method has no docstring of its own; its base class in wire/, and one in ground/."""
    doors = {f"{room}__init__.py": SAID for room in ("", "wire/", "ground/", "store/")}
    files = {"wire/a.py": SAID + base, "ground/b.py": SAID + FURTHER_UP, "store/c.py": SAID + HEIR}
    return plant(repo, {**doors, **files})


@pytest.mark.parametrize("base", [PROMISED, PROMISED_FURTHER_UP])
def test_a_method_promised_by_a_base_class_need_not_repeat_it(tmp_path: Path, base: str) -> None:
    assert find_missing_docstrings(plant_heir(tmp_path, base)) == []


def test_a_method_that_no_base_class_promises_is_a_finding(tmp_path: Path) -> None:
    base = "class Port(Port, Else):\n    '''Is.'''\n    def receive(self):\n        '''Receives.'''\n"
    assert find_missing_docstrings(plant_heir(tmp_path, base)) == [
        "src/molecule_core/store/c.py:6 Heir.send has no docstring"
    ]
