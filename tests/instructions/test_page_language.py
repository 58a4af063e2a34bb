"""The page's editor knows the template language as the server does."""

import re
from pathlib import Path

from molecule_core.instructions.language import ast, parser
from tests.requirements import requirement

_SOURCE = Path(__file__).resolve().parents[2] / "canvas" / "src" / "features" / "instructions" / "language.ts"


def names_in(list_name: str) -> list[str]:
    """The names of a list of the page's source."""
    found = re.search(
        rf"^export const {list_name}\b.*? = \[(.*?)\];$", _SOURCE.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    assert found is not None, list_name
    return re.findall(r'name: "(\w+)"', found[1]) or re.findall(r'"(\w+)"', found[1])


@requirement("CI1")
def test_the_editor_completes_the_names_that_the_server_knows() -> None:
    assert sorted(names_in("VARIABLES")) == sorted(ast.VARIABLES)
    assert sorted(names_in("LISTS")) == sorted(ast.LIST_VARIABLES)
    words = {*names_in("STATEMENTS"), *names_in("OPERATORS")}
    assert words == set(parser._KEYWORDS)
