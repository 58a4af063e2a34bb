"""Plain words in names, docstrings and comments: each finder returns its offenders, entry -> where it is.

An entry names its module or file and no line, so that a list of offenders survives edits of other lines.
"""

import ast
import io
import re
import tokenize
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping

from tests.architecture import vocabulary
from tests.architecture.guards.trees import Module, Tree, read
from tests.architecture.layers import matches

Offenders = dict[str, str]
Function = ast.FunctionDef | ast.AsyncFunctionDef

_BANNED = re.compile(rf"\b(?:{'|'.join(vocabulary.BANNED_WORDS)})\b", re.IGNORECASE)
_NOT_READ = re.compile(r"`+[^`]*`+|# control: \S+")
_WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")


def compare(offenders: Mapping[str, str], listed: Collection[str]) -> list[str]:
    """Find offenders that are not listed, and listed ones that no longer offend."""
    new = [f"{place}: {entry}" for entry, place in offenders.items() if entry not in listed]
    return new + [f"{entry}: no longer offends, drop it from the list" for entry in listed if entry not in offenders]


def find_duplicate_classes(
    tree: Tree, implementations: Mapping[str, str] = vocabulary.PROTOCOL_IMPLEMENTATIONS
) -> Offenders:
    """Find class names that several classes have, leading underscores aside; also names listed without need."""
    places = defaultdict[str, list[tuple[Module, ast.ClassDef]]](list)
    for module in read(tree):
        for node in _classes(module):
            places[node.name.lstrip("_")].append((module, node))
    twice = {name: same for name, same in places.items() if len(same) > 1}
    found = {f"{name} in the list of implementations": "not defined twice" for name in implementations.keys() - twice}
    for name in sorted(twice.keys() - implementations.keys()):
        found |= {f"{module.name}.{node.name}": _place(module, node) for module, node in twice[name]}
    return found


def find_participle_classes(tree: Tree) -> Offenders:
    """Find one-word class names that are participles: `Told`, `_Opened`."""
    return {
        f"{module.name}.{node.name}": _place(module, node)
        for module in read(tree)
        for node in _classes(module)
        if _is_participle(node.name.lstrip("_"))
    }


def _is_participle(name: str) -> bool:
    is_one_word = re.fullmatch(r"[A-Z][a-z]+", name) is not None
    is_regular = name.endswith(("ed", "en")) and name not in vocabulary.NO_PARTICIPLES
    return is_one_word and (is_regular or name in vocabulary.IRREGULAR_PARTICIPLES)


def find_gerund_modules(tree: Tree) -> Offenders:
    """Find modules and packages whose name ends in a gerund: `owing.py`, `reply_owing/`."""
    found: Offenders = {}
    for module in read(tree):
        word = module.name.rpartition(".")[2].rpartition("_")[2]
        if word.endswith("ing") and word not in vocabulary.ING_TERMS:
            found[module.name] = module.shown
    return found


def find_private_verbs(tree: Tree) -> Offenders:
    """Find functions whose name is a verb without its object."""
    found: Offenders = {}
    for module in read(tree):
        terms = {
            verb for path, verbs in vocabulary.VERB_TERMS.items() if matches(module.dotted, path) for verb in verbs
        }
        if not any(matches(module.dotted, package) for package in vocabulary.MAY_SETTLE):
            banned = vocabulary.PRIVATE_VERBS | vocabulary.SETTLING
        else:
            banned = vocabulary.PRIVATE_VERBS
        for node, name in _functions(module.code):
            if node.name.strip("_") in banned - terms:
                found[f"{module.name}.{name}"] = _place(module, node)
    return found


def find_docstrings_without_verb(tree: Tree, verbs: Collection[str]) -> Offenders:
    """Find functions whose docstring does not begin with an imperative of the list: `Returns`, `The row`."""
    found: Offenders = {}
    for module in read(tree):
        for node, name in _functions(module.code):
            docstring = ast.get_docstring(node)
            first = re.match(r"[\w']*", docstring or "")
            if docstring and first and first[0] not in verbs:
                found[f"{module.name}.{name} {first[0]}".rstrip()] = _place(module, node)
    return found


def find_banned_words(tree: Tree) -> Offenders:
    """Find banned words of docstrings and comments; an entry is file, word and how often it is there."""
    counts, places = Counter[str](), Offenders()
    for module in read(tree):
        for line, text in prose(module):
            for hit in _BANNED.finditer(text):
                entry = f"{module.shown} {hit[0].lower()}"
                counts[entry] += 1
                places.setdefault(entry, f"{module.shown}:{line + text.count(chr(10), 0, hit.start())}")
    return {f"{entry} {count}": places[entry] for entry, count in counts.items()}


def prose(module: Module) -> Iterator[tuple[int, str]]:
    """Yield every docstring and comment with its line, without text in backticks and marks of controls."""
    for node in ast.walk(module.code):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, _NOT_READ.sub(_blank, node.value.value)
    for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], _NOT_READ.sub(_blank, token.string)


def _blank(hit: re.Match[str]) -> str:
    """Keep the line breaks, so that the lines of what follows stay right."""
    return "\n" * hit[0].count("\n") or " "


def count_words(text: str) -> int:
    """Count the words of a text."""
    return len(_WORD.findall(text))


def _classes(module: Module) -> Iterator[ast.ClassDef]:
    return (node for node in ast.walk(module.code) if isinstance(node, ast.ClassDef))


def _functions(scope: ast.AST, prefix: str = "") -> Iterator[tuple[Function, str]]:
    """Yield every function with its qualified name."""
    for node in ast.iter_child_nodes(scope):
        name = f"{prefix}{getattr(node, 'name', '')}"
        if isinstance(node, Function):
            yield node, name
        is_scope = isinstance(node, Function | ast.ClassDef)
        yield from _functions(node, f"{name}." if is_scope else prefix)


def _place(module: Module, node: ast.ClassDef | Function) -> str:
    return f"{module.shown}:{node.lineno}"
