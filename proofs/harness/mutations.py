"""Mutations of the product: a marked statement of the package, and a change of it that names as little as possible.

A statement is marked by a comment at the end of one of its lines, or on a line of its own above it:

    if attempt < handout.attempt:  # control: stale-ack

Of a compound statement only the header is marked. A statement of a queries.sql has no comment: the name of the query
is its marker. Renaming and reformatting the package leave a mutation as it is.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from msgspec import Struct

import molecule_core

PACKAGE = Path(molecule_core.__file__).parent
MARKER = re.compile(r"# control: ([a-z0-9]+(?:-[a-z0-9]+)*)$", re.MULTILINE)
_PATTERN_TOKEN = re.compile(r"\$(?!\d)([a-z]*)(\.\.\.)?|\w+|\s+|.", re.DOTALL)
_NAME = r"(?<!\w)[A-Za-z_]\w*(?:\.\w+)*(?!\w)"


class Remove(Struct, frozen=True, tag=True):
    """Leave the statement out."""

    def says(self) -> str:
        """Describe the change for `scripts/prove --describe`."""
        return "the statement is left out"

    def apply(self, statement: "Statement") -> str:
        """Replace the whole statement by `pass`."""
        return statement.replaced(statement.start, statement.end, "pass")


class Always(Struct, frozen=True, tag=True):
    """Make the condition of an `if`, `elif`, `while`, comprehension or conditional expression a constant."""

    value: bool

    def says(self) -> str:
        """Describe the change for `scripts/prove --describe`."""
        return f"the condition is always {str(self.value).lower()}"

    def apply(self, statement: "Statement") -> str:
        """Replace the condition. Raises ValueError if the statement has none, or several."""
        start, end = statement.condition()
        return statement.replaced(start, end, str(self.value))


class Swap(Struct, frozen=True, tag=True):
    """Replace a fragment of the statement, which must occur in it exactly once.

    In `old`, `$` stands for any name, with its dots, and `$...` for any text. `$word` and `$word...` do the same and
    may be repeated in `new`: Swap("return $key($first, $...)", "return $first"). Spaces and line breaks in `old` match
    any others. `old` and `new` should hold operators, literals, keywords and names of libraries, but names of the
    package only where there is no other way: nothing renames them here."""

    old: str
    new: str

    def says(self) -> str:
        """Describe the change for `scripts/prove --describe`."""
        return f"`{self.old.strip()}` becomes `{self.new.strip()}`" if self.new else f"`{self.old.strip()}` is left out"

    def apply(self, statement: "Statement") -> str:
        """Replace the fragment. Raises ValueError if it does not occur exactly once."""
        found = list(_regex(self.old).finditer(statement.code, statement.start, statement.end))
        if len(found) != 1:
            raise ValueError(f"{self.old!r} occurs {len(found)} times in the statement, not once")
        (match,) = found
        new = re.sub(r"\$([a-z]+)(?:\.\.\.)?", lambda name: match[name[1]], self.new)
        return statement.replaced(match.start(), match.end(), new)


Change = Remove | Always | Swap


class Mutation(Struct, frozen=True, kw_only=True):
    """A change of the statement with this marker: the name of a `# control:` comment, or of a query."""

    marker: str
    change: Change


class Mutated(Struct, frozen=True):
    """One file of the package with a mutation in it; `file` is relative to the package."""

    file: Path
    text: str


class Statement(Struct, frozen=True):
    """A statement in the text of its file, from `start` to before `end`. In `code` comments are spaces."""

    text: str
    code: str
    start: int
    end: int
    node: ast.AST | None

    def replaced(self, start: int, end: int, new: str) -> str:
        """Return the file's text with the part from `start` to `end` replaced."""
        return self.text[:start] + new + self.text[end:]

    def condition(self) -> tuple[int, int]:
        """Return where the one condition of the statement begins and ends. Raises ValueError if there is not one."""
        if isinstance(self.node, ast.If | ast.While):
            found = [self.node.test]
        else:
            found = [] if self.node is None else list(_conditions(self.node))
        places = [place for place in (_place(self.text, each) for each in found) if place[1] <= self.end]
        if len(places) != 1:
            raise ValueError(f"the statement has {len(places)} conditions, not one")
        return places[0]


def mutate(mutation: Mutation) -> Mutated:
    """Return the changed file. Raises ValueError if the marker or the fragment is not there exactly once."""
    marked = (rf"# control: {mutation.marker}$", "*.py"), (rf"^-- name: {mutation.marker}$", "queries*.sql")
    found = [
        path
        for line, files in marked
        for path, text in sources().items()
        if path.match(files)
        for _ in _ends(line, text)
    ]
    if len(found) != 1:
        raise ValueError(f"control {mutation.marker!r}: the marker is in the package {len(found)} times, not once")
    return Mutated(found[0].relative_to(PACKAGE), mutated_text(sources()[found[0]], mutation))


def mutated_text(text: str, mutation: Mutation) -> str:
    """Return the changed text of one file. Raises ValueError as `mutate` does."""
    comments, queries = _ends(rf"# control: {mutation.marker}$", text), _ends(rf"^-- name: {mutation.marker}$", text)
    statements = [*(statement_at(text, at) for at in comments), *(_query_at(text, at) for at in queries)]
    try:
        if len(statements) != 1:
            raise ValueError(f"the marker is in the file {len(statements)} times, not once")
        return mutation.change.apply(statements[0])
    except ValueError as error:
        raise ValueError(f"control {mutation.marker!r}: {error}") from None


def markers() -> list[str]:
    """Return the marker of every `# control:` comment of the package, as often as it stands there."""
    return [name for text in sources().values() for name in MARKER.findall(text)]


@cache
def sources() -> dict[Path, str]:
    """Return the text of each file that may hold a marker. It is read once in a process."""
    paths = (*PACKAGE.rglob("*.py"), *PACKAGE.rglob("queries*.sql"))
    return {path: path.read_text(encoding="utf-8") for path in paths}


def _ends(line: str, text: str) -> list[int]:
    """Return the offset of the end of each line that ends like this."""
    return [found.end() for found in re.finditer(line, text, re.MULTILINE)]


def _query_at(text: str, at: int) -> Statement:
    """Return the statement below a line `-- name:`, up to the next one."""
    following = text.find("-- name: ", at)
    return Statement(text, text, at, len(text) if following < 0 else following, None)


def statement_at(text: str, at: int) -> Statement:
    """Return the smallest statement on the line that ends at this offset, or below it if it holds a comment alone."""
    code = _without_comments(text)
    lines = code.split("\n")
    number = text.count("\n", 0, at)
    while not lines[number].strip():
        number += 1
    found = [
        (end - start, node)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.stmt | ast.excepthandler)
        and _first(node).lineno <= number + 1 <= (node.end_lineno or 0)
        for start, end in (_header(text, code, node),)
        if text.count("\n", 0, start) <= number <= text.count("\n", 0, end)
    ]
    if not found:
        raise ValueError("no statement is on the marked line")
    node = min(found, key=lambda each: each[0])[1]
    return Statement(text, code, *_header(text, code, node), node)


def _header(text: str, code: str, node: ast.stmt | ast.excepthandler) -> tuple[int, int]:
    """Return where a statement begins, and where it or, if it is compound, its header ends."""
    body = getattr(node, "body", None)
    end = min(_start(text, each) for each in body) if body else _offset(text, node.end_lineno, node.end_col_offset)
    return _start(text, node), len(code[:end].rstrip())


def _start(text: str, node: ast.stmt | ast.excepthandler) -> int:
    """Return where a statement begins: at its first decorator, if it has any."""
    first = _first(node)
    return _offset(text, first.lineno, first.col_offset) - (first is not node)  # with the `@`


def _first(node: ast.stmt | ast.excepthandler) -> ast.stmt | ast.excepthandler | ast.expr:
    nodes: list[ast.stmt | ast.excepthandler | ast.expr] = [node, *getattr(node, "decorator_list", [])]
    return min(nodes, key=lambda each: each.lineno)


def _conditions(statement: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(statement):
        if isinstance(node, ast.IfExp):
            yield node.test
        if isinstance(node, ast.comprehension):
            yield from node.ifs


def _place(text: str, node: ast.expr) -> tuple[int, int]:
    start = _offset(text, node.lineno, node.col_offset)
    return start, _offset(text, node.end_lineno, node.end_col_offset)


def _offset(text: str, line: int | None, column: int | None) -> int:
    """Return the offset of a place as `ast` gives it: the column counts bytes of UTF-8."""
    lines = text.split("\n")
    assert line is not None and column is not None
    before = sum(len(each) + 1 for each in lines[: line - 1])
    return before + len(lines[line - 1].encode()[:column].decode())


def _without_comments(text: str) -> str:
    """Return the text with a space for each character of a comment."""
    lines = text.split("\n")
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            line, column = token.start
            lines[line - 1] = lines[line - 1][:column] + " " * len(token.string)
    return "\n".join(lines)


def _regex(pattern: str) -> re.Pattern[str]:
    """Compile the `old` of a Swap."""
    parts, known, was_word, spaces = [""], set[str](), False, False
    for token in _PATTERN_TOKEN.finditer(pattern.strip()):
        if token[0].isspace():
            spaces = True
            continue
        is_word = token[1] is not None or token[0].isidentifier() or token[0].isalnum()
        parts.append(r"\s+" if spaces and was_word and is_word else r"\s*")
        parts.append(_piece(token, known))
        was_word, spaces = is_word, False
    return re.compile("".join(parts[2:]), re.DOTALL)


def _piece(token: re.Match[str], known: set[str]) -> str:
    """Return the expression for one token of a pattern; `known` are the names that stood before it."""
    name, is_text = token[1], token[2] is not None
    if name is None:
        if token[0] in ")]}":
            return r"(?:,\s*)?" + re.escape(token[0])  # the comma that a line break brings
        return rf"\b{token[0]}\b" if re.fullmatch(r"\w+", token[0]) else re.escape(token[0])
    if name in known:
        return rf"(?P={name})(?!\w)"
    expression = r".*" if is_text else _NAME
    known.update({name} - {""})
    return f"(?P<{name}>{expression})" if name else expression
