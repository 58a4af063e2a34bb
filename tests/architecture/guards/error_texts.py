"""Error texts have a form: what is wrong, with a full stop, then one sentence of advice that begins with an imperative.

Read: the docstring and `advice` of every error class in a module `errors`; the texts that a `raise` statement writes
itself, as a literal or an f-string, for the errors in `TEXT_ARGUMENTS`; and texts handed to the functions there.
Not read: a text that is in a variable, a table or a function's result when it is raised, and what a placeholder
becomes.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping

from tests.architecture import vocabulary
from tests.architecture.guards.trees import Module, Tree, read
from tests.architecture.guards.words import text_of

# Error or function -> the argument that ends with the advice: a keyword, or the position of an unnamed one.
TEXT_ARGUMENTS: Mapping[str, str | int] = {
    **dict.fromkeys(("BadSettings", "InvalidField", "InvalidMessage", "InvalidName", "InvalidTask"), "reason"),
    **dict.fromkeys(("BackupFailed", "StatusConflict", "InvalidTemplate"), "reason"),
    **dict.fromkeys(("McpRejection",), 2),
    **dict.fromkeys(("AppServerErrorBody", "TemplateSyntaxError", "syntax_error", "_template_error"), -1),
    **dict.fromkeys(("TemplateError",), 2),
}
# Base classes, which are not raised.
ROOTS = ("LimitDetails", "MoleculeError", "ReasonError", "WireTextError")
_PLACEHOLDER = "{}"
_SENTENCES = re.compile(r"(?<=[.…])\s+(?=[A-Z{])")
_BANNED = re.compile(rf"\b(?:{'|'.join((*vocabulary.BANNED_WORDS, *vocabulary.BANNED_IN_ERRORS))})\b", re.IGNORECASE)


def find_formless_errors(tree: Tree, verbs: Iterable[str] = vocabulary.ADVICE_VERBS) -> list[str]:
    """Find error texts without a full stop, a reason or an advice, and those with a banned word."""
    allowed, found = frozenset(verbs), list[str]()
    for module in read(tree):
        if module.dotted.endswith(".errors") and module.dotted != "api.errors":
            found += _class_findings(module, allowed)
        if module.head in vocabulary.PACKAGES_WITH_ERROR_TEXTS:
            for place, text in _raised_texts(module):
                found += [f"{place} {problem}: {text}" for problem in _problems(text, allowed)]
    return found


def _problems(text: str, verbs: frozenset[str]) -> Iterator[str]:
    """Yield what is wrong with a complete text."""
    if not text.endswith((".", _PLACEHOLDER)):
        yield "does not end with a full stop"
    sentences = _SENTENCES.split(re.sub(r": \{\}$", f". {_PLACEHOLDER}", text))  # the placeholder is a whole text
    if len(sentences) < 2:
        yield "has no advice after its reason"
    elif not _is_advice(sentences[-1], verbs):
        yield "does not end with an advice"
    yield from _banned_words(text)


def _is_advice(sentence: str, verbs: frozenset[str]) -> bool:
    """Return whether a sentence begins with an imperative. A placeholder alone cannot be read."""
    return sentence.startswith(_PLACEHOLDER) or sentence.split(" ", maxsplit=1)[0].rstrip(",.:;") in verbs


def _banned_words(text: str) -> Iterator[str]:
    yield from (f"has the banned word {hit[0]!r}" for hit in _BANNED.finditer(text))


# -- classes -----------------------------------------------------------------------------------------------------------


def _class_findings(module: Module, verbs: frozenset[str]) -> Iterator[str]:
    for node in module.code.body:
        if not isinstance(node, ast.ClassDef) or node.name.startswith("_") or node.name in ROOTS:
            continue
        place = f"{module.shown}:{node.lineno} {node.name}"
        bases = {base.id for base in node.bases if isinstance(base, ast.Name)}
        reason, advice = " ".join((ast.get_docstring(node) or "").split()), _advice_of(node)
        yield from (f"{place} {problem}" for problem in _class_problems(reason, advice, bases, verbs))
        yield from (f"{place} {problem}" for problem in _banned_words(f"{reason} {advice or ''}"))


def _class_problems(reason: str, advice: str | None, bases: set[str], verbs: frozenset[str]) -> Iterator[str]:
    if "ReasonError" in bases:  # its raise sites give both
        if advice is not None or not reason.endswith("{reason}"):
            yield "does not end with the reason of the raise site"
        return
    if "WireTextError" not in bases and not reason.endswith("."):
        yield "has a reason without a full stop"
    if advice is None:
        yield "has no advice"
    elif not (advice.endswith((".", "}")) and _is_advice(_plain(advice), verbs)):
        yield f"has an advice without an imperative or a full stop: {advice}"


def _advice_of(node: ast.ClassDef) -> str | None:
    for each in node.body:
        if isinstance(each, ast.Assign) and [ast.unparse(target) for target in each.targets] == ["advice"]:
            return str(ast.literal_eval(each.value))
    return None


def _plain(template: str) -> str:
    return re.sub(r"\{[^}]*\}", _PLACEHOLDER, template)


# -- raise sites -------------------------------------------------------------------------------------------------------


def _raised_texts(module: Module) -> Iterator[tuple[str, str]]:
    """Yield every complete text that a call of `TEXT_ARGUMENTS` writes itself, with its place."""
    for node in ast.walk(module.code):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        where = TEXT_ARGUMENTS.get(name)
        text = None if where is None else text_of(_argument(node, where))
        if text is not None and " " in text:
            yield f"{module.shown}:{node.lineno}", text


def _argument(node: ast.Call, where: str | int) -> ast.expr | None:
    if isinstance(where, str):
        return next((each.value for each in node.keywords if each.arg == where), None)
    positional = [each for each in node.args if not isinstance(each, ast.Starred)]
    if where == -1:  # the first text of the call
        return next((each for each in reversed(positional) if text_of(each) is not None), None)
    return positional[where] if where < len(positional) else None
