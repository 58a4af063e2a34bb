"""Modules and public classes are documented."""

from pathlib import Path

import pytest

from tests.architecture.guards.docstrings import find_missing_docstrings
from tests.architecture.repository import SOURCES, write_tree

DOCUMENTED = '"""Documented."""\n'


def test_every_real_module_and_public_class_has_a_docstring() -> None:
    assert find_missing_docstrings(SOURCES) == []


def test_a_documented_tree_gives_no_finding(tmp_path: Path) -> None:
    writer = '''
        """Messages."""

        class Writer:
            """Writer of messages."""

            def send(self): ...

        class _Hidden:
            class Inner: ...

        def build():
            class Local: ...
    '''
    files = {"__init__.py": DOCUMENTED, "messages/__init__.py": DOCUMENTED, "messages/writer.py": writer}
    assert find_missing_docstrings(write_tree(tmp_path, files)) == []


@pytest.mark.parametrize("text", ["", "x = 1\n", '""" """\n', "# text\n", 'x = 1\n"""Too late."""\n'])
@pytest.mark.parametrize(("path", "name"), [("app.py", "app"), ("org/app.py", "org.app"), ("org/__init__.py", "org")])
def test_a_module_without_a_docstring_is_a_finding(tmp_path: Path, text: str, path: str, name: str) -> None:
    files = {"__init__.py": DOCUMENTED, "org/__init__.py": DOCUMENTED, path: text}
    assert find_missing_docstrings(write_tree(tmp_path, files)) == [
        f"src/molecule_core/{path}:1 {name} has no docstring"
    ]


def test_the_package_itself_needs_a_docstring(tmp_path: Path) -> None:
    assert find_missing_docstrings(write_tree(tmp_path, {"__init__.py": ""})) == [
        "src/molecule_core/__init__.py:1 molecule_core has no docstring"
    ]


def test_a_folder_of_modules_without_an_init_is_a_finding(tmp_path: Path) -> None:
    files = {"__init__.py": DOCUMENTED, "api/app.py": DOCUMENTED}
    assert find_missing_docstrings(write_tree(tmp_path, files)) == ["src/molecule_core/api has no __init__.py"]


@pytest.mark.parametrize(
    "text",
    [
        "class Row:\n    x = 1",
        "if x:\n    class Row: ...",
        "try:\n    class Row: ...\nexcept ImportError: ...",
        "class Table:\n    '''Rows.'''\n    class Row: ...",
    ],
)
def test_a_public_class_without_a_docstring_is_the_one_finding(tmp_path: Path, text: str) -> None:
    [finding] = find_missing_docstrings(write_tree(tmp_path, {"__init__.py": DOCUMENTED + text}))
    assert finding.endswith(" Row has no docstring")
