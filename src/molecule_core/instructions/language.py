"""The language of templates: text, variables, `if`, one loop, `join`, and nothing else. Pure.

    Reply with {{ reply_tool }}.
    {% if kind == "peer_agent" and not user_id %}
    peer_id is {{ peer_id }}.
    {% elif kind == "broadcast" %} ... {% else %} ... {% endif %}
    {% for tool in available_tools %}{{ tool }} {% endfor %} {{ attachments | join(", ") }}

What the grammar does not have cannot be written: no attribute, call, index, arithmetic, assignment, macro, include or
comment. A statement alone on its line takes the line away with it, and empty lines are left out. The loop's variable is
called as one likes. Values are data: nothing in them is ever read as a template.

Above: rules (whether a template may be saved), render (what becomes of the tree).
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from molecule_core.instructions.syntax import (
    LISTS,
    VARIABLES,
    All,
    Body,
    Condition,
    Equal,
    For,
    Given,
    If,
    Join,
    Node,
    Not,
    Put,
    Some,
    Text,
)

MOST_DEPTH = 16
"""Levels of `if` and `for` in each other, and `not`s before one thing."""

_TAG = re.compile(r"\{\{|\{%|\{#")
# Parts of what stands in a tag. A text in quotes has no escapes, and ends on its line.
_TOKEN = re.compile(r"""\s*(?:(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<text>"[^"\n]*"|'[^'\n]*')|(?P<number>[0-9]+)"""
                    r"""|(?P<sign>==|[|(),]))""")  # fmt: skip
_WORDS = ("if", "elif", "else", "endif", "for", "in", "endfor", "and", "or", "not")
_OTHERS = ("true", "false", "none", "is", "set", "block", "macro", "include", "import", "extends", "raw", "call")
_PLAIN = re.compile(r"(?<!\{)\{\s*(\w+)\s*\}(?!\})")


class Refused(Exception):
    """A text is not of the language: in which line, and why."""

    def __init__(self, line: int, reason: str) -> None:
        self.line = line
        self.reason = reason
        super().__init__(f"line {line}: {reason}")


class Parsed(NamedTuple):
    """A text as a tree, what its author may not have meant, and how many parts it has."""

    body: Body
    warnings: tuple[str, ...]
    nodes: int


def parse(text: str, *, most_bytes: int, most_nodes: int) -> Parsed:
    """The tree of a text. Raises Refused."""
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > most_bytes:
        raise Refused(1, f"it has {size} bytes; at most {most_bytes} are taken")
    _check_characters(text)
    parser = _Parser(text, most_nodes)
    return Parsed(parser.whole(), tuple(_warnings(text)), parser.nodes)


def _check_characters(text: str) -> None:
    for place, character in enumerate(text):
        if character in "\n\t" or character.isprintable():
            continue
        code = ord(character)
        if code < 32 or 0x7F <= code < 0xA0 or 0xD800 <= code < 0xE000 or character in "\u2028\u2029":
            raise Refused(text.count("\n", 0, place) + 1, f"it holds the character U+{code:04X}; remove it")


def _warnings(text: str) -> Iterator[str]:
    for found in _PLAIN.finditer(text):
        if found[1] in VARIABLES:
            line = text.count("\n", 0, found.start()) + 1
            yield f"line {line}: {{{found[1]}}} is plain text; the variable is written {{{{ {found[1]} }}}}"


# -- tokens ------------------------------------------------------------------------------------------------------------


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


class _Piece(NamedTuple):
    """Words, or a tag: its tokens, and whether it is a statement."""

    line: int
    words: str
    tokens: tuple[_Token, ...] = ()
    statement: bool = False
    is_tag: bool = False


def _pieces(text: str) -> Iterator[_Piece]:
    place, line, taken = 0, 1, False
    while found := _TAG.search(text, place):
        words, opening = text[place : found.start()], found.group()
        at = line + words.count("\n")
        if opening == "{#":
            raise Refused(at, "comments are not part of the language")
        closing = "%}" if opening == "{%" else "}}"
        end = text.find(closing, found.end())
        if end < 0:
            raise Refused(at, f"{opening} is not closed by {closing}")
        inside = text[found.end() : end]
        if taken:
            words = words.partition("\n")[2]
        taken = opening == "{%" and _is_alone(text, found.start(), end + 2)
        yield _Piece(line, words.rstrip(" \t") if taken else words)
        yield _Piece(at, "", tuple(_tokens(inside, at)), opening == "{%", is_tag=True)
        line, place = at + inside.count("\n"), end + 2
    yield _Piece(line, text[place:].partition("\n")[2] if taken else text[place:])


def _is_alone(text: str, start: int, end: int) -> bool:
    """Whether nothing else stands on the line (or lines) of a tag."""
    behind = text.find("\n", end)
    before, after = text[text.rfind("\n", 0, start) + 1 : start], text[end : behind if behind >= 0 else len(text)]
    return not before.strip(" \t") and not after.strip(" \t")


def _tokens(inside: str, line: int) -> Iterator[_Token]:
    if inside.startswith(("-", "+")) or inside.endswith(("-", "+")):
        raise Refused(line, "tags take no - or +: lines that come out empty are left out anyway")
    place = 0
    while inside[place:].strip():
        found = _TOKEN.match(inside, place)
        if found is None:
            rest = inside[place:].lstrip()
            at = line + inside.count("\n", 0, len(inside) - len(rest))
            raise Refused(at, f"{_shown(rest)} is not part of the language")
        kind = str(found.lastgroup)
        yield _Token(kind, found[kind], line + inside.count("\n", 0, found.start(kind)))
        place = found.end()


def _shown(text: str) -> str:
    """The beginning of what is refused, in quotes."""
    first = text.split("\n", 1)[0]
    return repr(first if len(first) <= 20 else first[:20] + "…")


# -- the parser --------------------------------------------------------------------------------------------------------


class _Cursor:
    """The tokens of one tag."""

    def __init__(self, piece: _Piece) -> None:
        self.line = piece.line
        self._tokens = piece.tokens
        self._place = 0
        self._seen = piece.line

    def peek(self) -> _Token:
        """The next one."""
        if self._place < len(self._tokens):
            self._seen = self._tokens[self._place].line
            return self._tokens[self._place]
        return _Token("end", "the end of the tag", self._seen)

    def take(self) -> _Token:
        """The next one, which is then behind us."""
        token = self.peek()
        self._place += 1
        return token

    def take_if(self, text: str) -> bool:
        """Whether the next one is this; then it is behind us."""
        if self.peek().kind in ("name", "sign") and self.peek().text == text:
            self._place += 1
            return True
        return False

    def need(self, text: str) -> None:
        """The next one must be this."""
        if not self.take_if(text):
            raise self.refused(f"{text} is missing before {_named(self.peek())}")

    def end(self) -> None:
        """There must be no more."""
        if self.peek().kind != "end":
            raise self.refused(f"{_named(self.peek())} is not part of the language here")

    def refused(self, reason: str) -> Refused:
        """Why the tag is refused."""
        return Refused(self._seen, reason)


def _named(token: _Token) -> str:
    return token.text if token.kind == "end" else _shown(token.text)


class _Parser:
    """Reads the pieces of one text, from the first to the last."""

    def __init__(self, text: str, most_nodes: int) -> None:
        self._pieces = _pieces(text)
        self._most = most_nodes
        self.nodes = 0
        self._loop = ""
        self._depth = 0

    def whole(self) -> Body:
        """All of it."""
        body, end = self._body(())
        if end is not None:
            raise end.refused(f"{end.peek().text} has no beginning")
        return body

    def _count(self, line: int) -> None:
        self.nodes += 1
        if self.nodes > self._most:  # control: template-nodes
            raise Refused(line, f"it has more than {self._most} parts; make it simpler")

    def _body(self, ends: tuple[str, ...], opened: int = 0) -> tuple[Body, _Cursor | None]:
        """Nodes up to a statement that ends them, which is returned."""
        nodes: list[Node] = []
        for piece in self._pieces:
            if not piece.is_tag:
                if piece.words:
                    self._count(piece.line)
                    nodes.append(Text(piece.words))
                continue
            cursor = _Cursor(piece)
            if not piece.statement:
                nodes.append(self._output(cursor))
                continue
            word = cursor.peek().text
            if word in ends or word in ("elif", "else", "endif", "endfor"):
                return tuple(nodes), cursor
            nodes.append(self._statement(cursor))
        if ends:
            raise Refused(opened, f"it is not closed by {{% {ends[-1]} %}}")
        return tuple(nodes), None

    def _output(self, cursor: _Cursor) -> Node:
        self._count(cursor.line)
        name = self._variable(cursor)
        if not cursor.take_if("|"):
            cursor.end()
            if name in LISTS:
                raise cursor.refused(f'{name} is a list: write {{{{ {name} | join(", ") }}}}')
            return Put(name)
        self._count(cursor.line)
        if not cursor.take_if("join"):
            raise cursor.refused(f"{_named(cursor.peek())} is no filter: there is only join")
        if name not in LISTS:
            raise cursor.refused(f"join is for lists, and {name} is none")
        between = ""
        if cursor.take_if("("):
            token = cursor.take()
            if token.kind != "text":
                raise cursor.refused('join takes one text: join(", ")')
            between = token.text[1:-1]
            cursor.need(")")
        cursor.end()
        return Join(name, between)

    def _variable(self, cursor: _Cursor) -> str:
        token = cursor.take()
        if token.kind != "name" or token.text in _WORDS or token.text in _OTHERS:
            raise cursor.refused(f"a variable is missing before {_named(token)}")
        if token.text not in VARIABLES and token.text != self._loop:
            raise cursor.refused(f"there is no variable {_shown(token.text)}; there are: {', '.join(VARIABLES)}")
        return token.text

    def _statement(self, cursor: _Cursor) -> Node:
        word = cursor.take()
        if word.text not in ("if", "for"):
            raise cursor.refused(f"{_named(word)} is no statement: there are if, elif, else, endif, for and endfor")
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise cursor.refused(f"it nests deeper than {MOST_DEPTH} levels")
        made = self._if(cursor) if word.text == "if" else self._for(cursor)
        self._depth -= 1
        return made

    def _if(self, cursor: _Cursor) -> Node:
        ways: list[tuple[Condition | None, Body]] = []
        opened = cursor.line
        condition: Condition | None = self._condition(cursor)
        final = False
        while True:
            body, end = self._body(("elif", "else", "endif"), opened)
            ways.append((condition, body))
            if end is None:
                raise Refused(opened, "if is not closed by {% endif %}")
            word = end.take().text
            if word == "endif":
                end.end()
                return If(tuple(ways))
            if final or word not in ("elif", "else"):
                raise end.refused(f"{word} does not belong here" + ("; else is the last way" if final else ""))
            final = word == "else"
            if final:
                self._count(end.line)
                end.end()
            condition = None if final else self._condition(end)

    def _for(self, cursor: _Cursor) -> Node:
        self._count(cursor.line)
        if self._loop:  # control: nested-loop
            raise cursor.refused("a for stands in another; loops do not nest")
        token = cursor.take()
        if token.kind != "name" or token.text in (*VARIABLES, *_WORDS, *_OTHERS):
            raise cursor.refused(f"{_named(token)} cannot name what the loop is at")
        cursor.need("in")
        name = cursor.take().text
        if name not in LISTS:
            raise cursor.refused(f"for goes over {' or '.join(LISTS)}, not over {_shown(name)}")
        cursor.end()
        self._loop = token.text
        body, end = self._body(("endfor",), cursor.line)
        self._loop = ""
        if end is None or end.peek().text != "endfor":
            raise Refused(cursor.line, "for is not closed by {% endfor %}")
        end.take()
        end.end()
        return For(token.text, name, body)

    # -- conditions ----------------------------------------------------------------------------------------------------

    def _condition(self, cursor: _Cursor) -> Condition:
        self._count(cursor.line)
        ways = [self._all_of(cursor)]
        while cursor.take_if("or"):
            ways.append(self._all_of(cursor))
        cursor.end()
        return ways[0] if len(ways) == 1 else Some(tuple(ways))

    def _all_of(self, cursor: _Cursor) -> Condition:
        each = [self._maybe_not(cursor)]
        while cursor.take_if("and"):
            each.append(self._maybe_not(cursor))
        return each[0] if len(each) == 1 else All(tuple(each))

    def _maybe_not(self, cursor: _Cursor) -> Condition:
        denials = 0
        while cursor.take_if("not"):
            self._count(cursor.line)
            denials += 1
        if denials > MOST_DEPTH:
            raise cursor.refused(f"it nests deeper than {MOST_DEPTH} levels")
        found = self._comparison(cursor)
        for _ in range(denials):
            found = Not(found)
        return found

    def _comparison(self, cursor: _Cursor) -> Condition:
        left = self._operand(cursor)
        if not cursor.take_if("=="):
            if not left[0]:
                raise cursor.refused(f"== is missing behind {_shown(left[1])}")
            return Given(left[1])
        right = self._operand(cursor)
        for is_name, name in (left, right):
            if is_name and name in LISTS:
                raise cursor.refused(f"{name} is a list, which equals nothing; loop over it")
        return Equal(left, right)

    def _operand(self, cursor: _Cursor) -> tuple[bool, str]:
        self._count(cursor.line)
        token = cursor.peek()
        if token.kind == "text":
            return False, cursor.take().text[1:-1]
        if token.kind == "number":
            return False, cursor.take().text
        return True, self._variable(cursor)
