"""Today's offenders of the guards about words, one file of offenders/ per guard. A list only shrinks.

`scripts/vocabulary --prune` removes what no longer offends.
"""

from collections.abc import Callable
from pathlib import Path

from tests.architecture.guards import words
from tests.architecture.guards.trees import Tree

FOLDER = Path(__file__).parent / "offenders"
DOCSTRING_VERBS = frozenset((Path(__file__).parent / "docstring_verbs.txt").read_text(encoding="utf-8").split())

FINDERS: dict[str, Callable[[Tree], words.Offenders]] = {
    "duplicate_classes": words.find_duplicate_classes,
    "participle_classes": words.find_participle_classes,
    "gerund_modules": words.find_gerund_modules,
    "private_verbs": words.find_private_verbs,
    "docstring_verbs": lambda tree: words.find_docstrings_without_verb(tree, DOCSTRING_VERBS),
    "banned_words": words.find_banned_words,
}


def read_list(name: str) -> list[str]:
    """Read the offenders that are allowed until they are renamed."""
    return (FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines()


def prune_list(name: str, tree: Tree) -> int:
    """Remove the entries that no longer offend, lower the counts that fell, and return how many entries changed."""
    listed, found = read_list(name), FINDERS[name](tree)
    kept = [entry for entry in listed if entry in found]
    if name == "banned_words":
        limits = {entry.rpartition(" ")[0]: int(entry.rpartition(" ")[2]) for entry in listed}
        counts = {entry.rpartition(" ")[0]: int(entry.rpartition(" ")[2]) for entry in found}
        kept = [f"{key} {min(counts[key], limit)}" for key, limit in limits.items() if key in counts]
    (FOLDER / f"{name}.txt").write_text("".join(f"{entry}\n" for entry in kept), encoding="utf-8")
    return len(set(listed) - set(kept))
