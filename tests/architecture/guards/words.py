"""Plain words in names, docstrings and comments: each finder returns its offenders, entry -> where it is."""

import ast
import io
import re
import tokenize
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping

from tests.architecture import vocabulary
from tests.architecture.guards.trees import Module, Tree, read
from tests.architecture.layers import matches

Offenders = dict[str, str]
Function = ast.FunctionDef | ast.AsyncFunctionDef

_NOT_READ = re.compile(r"`+[^`]*`+|# control: \S+")
_TEXT = re.compile(r"(?:[A-Za-z]{2,}|\{\})[.,;:]? [A-Za-z{]")
_WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")


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


def find_docstrings_without_verb(tree: Tree) -> Offenders:
    """Find functions whose docstring does not begin with an imperative of the list: `Returns`, `The row`."""
    found: Offenders = {}
    for module in read(tree):
        for node, name in _functions(module.code):
            docstring = ast.get_docstring(node)
            first = re.match(r"[\w']*", docstring or "")
            if docstring and first and first[0] not in vocabulary.DOCSTRING_VERBS:
                found[f"{module.name}.{name} {first[0]}".rstrip()] = _place(module, node)
    return found


def find_banned_words(tree: Tree) -> Offenders:
    """Find banned words of docstrings and comments; an entry is file, word and how often it is there."""
    counts, places = Counter[str](), Offenders()
    for module in read(tree):
        for line, text in prose(module):
            for hit in vocabulary.BANNED.finditer(text):
                entry = f"{module.shown} {hit[0].lower()}"
                counts[entry] += 1
                places.setdefault(entry, f"{module.shown}:{line + text.count(chr(10), 0, hit.start())}")
    return {f"{entry} {count}": places[entry] for entry, count in counts.items()}


def find_banned_texts(tree: Tree) -> Offenders:
    """Find banned words of texts in string constants: what models and people read, and what is logged.

    A text has two words beside each other, so that names, keys and single words are not read."""
    found = Offenders()
    for module in read(tree):
        if module.dotted in vocabulary.WORD_LISTS:
            continue
        for line, text in texts(module):
            for hit in vocabulary.BANNED.finditer(text):
                found[f"{module.shown}:{line} {hit[0].lower()}"] = text[:80]
    return found


FINDERS: dict[str, Callable[[Tree], Offenders]] = {
    "duplicate_classes": find_duplicate_classes,
    "participle_classes": find_participle_classes,
    "gerund_modules": find_gerund_modules,
    "private_verbs": find_private_verbs,
    "docstring_verbs": find_docstrings_without_verb,
    "banned_words": find_banned_words,
    "banned_texts": find_banned_texts,
}


def prose(module: Module) -> Iterator[tuple[int, str]]:
    """Yield every docstring and comment with its line, without text in backticks and marks of controls."""
    for node in ast.walk(module.code):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, _NOT_READ.sub(_blank, node.value.value)
    for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], _NOT_READ.sub(_blank, token.string)


def texts(module: Module) -> Iterator[tuple[int, str]]:
    """Yield every text in a string constant with its line, without docstrings and text in backticks.

    An f-string is one text, with `{}` for its values."""
    parts = set[int]()
    for node in ast.walk(module.code):  # parents come before their children
        if isinstance(node, ast.Expr):
            parts.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            parts.update(id(each) for each in node.values)
        if not isinstance(node, ast.JoinedStr | ast.Constant) or id(node) in parts:
            continue
        text = _NOT_READ.sub(_blank, text_of(node) or "")
        if _TEXT.search(text):
            yield node.lineno, text


def text_of(node: ast.AST | None) -> str | None:
    """Return a text, or an f-string with `{}` for each value; None for anything else."""
    if isinstance(node, ast.JoinedStr):
        return "".join(str(each.value) if isinstance(each, ast.Constant) else "{}" for each in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


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
