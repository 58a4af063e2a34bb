"""The HTTP server knows nothing of what it serves: api/http and api/asgi import only each other and common."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

_PACKAGE = "molecule_core"
_API = Path(__file__).resolve().parents[2] / "src" / _PACKAGE / "api"
_ALLOWED = {"http": ("api.http", "common"), "asgi": ("api.asgi", "api.http", "common")}
# Nouns of Molecule, also as parts of names. The root of its error classes is named after the product.
_NOUNS = re.compile(
    r"(?i)workspace|(?<![a-z])orgs?(?![a-z])|organi[sz]ation|caller|approv|delegat|(?<![a-z])agents?(?![a-z])|inbox"
    r"|credential|(?<![a-z])(?:mcp|a2a)(?![a-z])|molecule(?!_core|Error|\.)"
)


def find_wrong_imports(path: Path, allowed: tuple[str, ...]) -> Iterator[str]:
    """Yield the imports of our own package that a module may not have."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            names = [f"{'.' * node.level}{node.module or ''}"]
            if node.module in (_PACKAGE, f"{_PACKAGE}.api"):
                names = [f"{node.module}.{each.name}" for each in node.names]
        elif isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        else:
            continue
        yield from (f"{path.name}:{node.lineno} imports {name}" for name in names if not _is_allowed(name, allowed))


def _is_allowed(name: str, allowed: tuple[str, ...]) -> bool:
    if name.startswith("."):
        return False
    if name.split(".", maxsplit=1)[0] != _PACKAGE:
        return True
    own = name.removeprefix(f"{_PACKAGE}.")
    return any(own == each or own.startswith(f"{each}.") for each in allowed)


def find_nouns(path: Path) -> Iterator[str]:
    """Yield the lines of a module that name something of Molecule."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if found := _NOUNS.search(line):
            yield f"{path.name}:{number} says {found[0]}"


@pytest.mark.parametrize("package", _ALLOWED)
def test_the_server_imports_nothing_above_it(package: str) -> None:
    modules = sorted((_API / package).rglob("*.py"))
    assert len(modules) > 5
    assert [each for path in modules for each in find_wrong_imports(path, _ALLOWED[package])] == []


@pytest.mark.parametrize("package", _ALLOWED)
def test_the_server_names_nothing_of_molecule(package: str) -> None:
    assert [each for path in (_API / package).rglob("*.py") for each in find_nouns(path)] == []


@pytest.mark.parametrize(
    "text",
    [
        "from molecule_core.api.routing import Request",
        "from molecule_core.api import routing",
        "from molecule_core import org",
        "import molecule_core.wire.schemas.live",
        "from ..routing import Request",
        "def late():\n    from molecule_core.org.model import Workspace",
    ],
)
def test_an_import_of_what_is_above_is_found(tmp_path: Path, text: str) -> None:
    module = tmp_path / "connection.py"
    module.write_text(text, encoding="utf-8")
    assert len(list(find_wrong_imports(module, _ALLOWED["http"]))) == 1


@pytest.mark.parametrize(
    "text", ["workspace_id = 1", '"""Return the caller."""', "org = 1", "# an agent's own", "log('molecule')"]
)
def test_a_noun_of_molecule_is_found(tmp_path: Path, text: str) -> None:
    module = tmp_path / "connection.py"
    module.write_text(text, encoding="utf-8")
    assert len(list(find_nouns(module))) == 1
