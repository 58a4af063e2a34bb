"""The figures that scripts/vocabulary prints."""

from pathlib import Path

from tests.architecture.repository import write_tree
from tests.system.setup.support import load

vocabulary = load("vocabulary")


def test_the_figures_count_names_words_and_imports(tmp_path: Path) -> None:
    files = {
        "__init__.py": "",
        "org/model.py": "class Told: ...\n# one two three seat\n",
        "org/owing.py": "from molecule_core.org.model import A, B\nimport molecule_core.org\nimport molecule_core2\n",
        "org/rules.py": "class _Told: ...\ndef tell():\n    '''Tells.'''\n",
    }
    assert dict(vocabulary.figures(write_tree(tmp_path, files))) == {
        "class names used twice": "1",
        "participles as class names": "2",
        "gerunds as module names": "1",
        "functions named by a bare verb": "1",
        "docstrings of functions without an imperative": "1",
        "words in docstrings and comments": "5",
        "banned words per 1,000 of them": "400.0",
        "own names imported per file, median": "0",
        "own names imported per file, p90": "2.4",
        "files": "4",
        "lines": "8",
    }


def test_a_revision_is_read_from_its_own_files() -> None:
    found = vocabulary.figures_at("HEAD", "src/molecule_core/common")
    assert int(found["files"]) > 10
    assert int(found["lines"].replace(",", "")) > 1000
