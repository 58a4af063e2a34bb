"""Parser of the template language: text, variables, `if`, one loop and `join`. Pure.

    Reply with {{ reply_tool }}.
    {% if kind == "peer_agent" and not user_id %}
    peer_id is {{ peer_id }}.
    {% elif kind == "broadcast" %} ... {% else %} ... {% endif %}
    {% for tool in available_tools %}{{ tool }} {% endfor %} {{ attachments | join(", ") }}

The grammar has no attributes, calls, indexes, arithmetic, assignments, macros, includes or comments. A statement alone
on its line removes the line, and empty lines are left out. The loop's variable can have any name. Values are data: they
are never parsed as a template."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from molecule_core.instructions.language.ast import (
    LIST_VARIABLES,
    VARIABLES,
    And,
    Body,
    Condition,
    Equals,
    For,
    If,
    IsSet,
    Join,
    Node,
    Not,
    Or,
    Text,
    Variable,
)

MAX_DEPTH = 16
"""Maximum nesting of `if` and `for`, and number of `not`s before one operand."""

_TAG = re.compile(r"\{\{|\{%|\{#")
# Tokens inside a tag. A quoted text has no escapes and ends on its line.
_TOKEN = re.compile(r"""\s*(?:(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<text>"[^"\n]*"|'[^'\n]*')|(?P<number>[0-9]+)"""
                    r"""|(?P<sign>==|[|(),]))""")  # fmt: skip
_KEYWORDS = ("if", "elif", "else", "endif", "for", "in", "endfor", "and", "or", "not")
_RESERVED = ("true", "false", "none", "is", "set", "block", "macro", "include", "import", "extends", "raw", "call")
_SINGLE_BRACES = re.compile(r"(?<!\{)\{\s*(\w+)\s*\}(?!\})")


class TemplateSyntaxError(Exception):
    """A text is not valid in the language. Has the line and the reason."""

    def __init__(self, line: int, reason: str) -> None:
        self.line = line
        self.reason = reason
        super().__init__(f"line {line}: {reason}")


class ParsedTemplate(NamedTuple):
    """A text as a tree, warnings for its author, and its number of nodes."""

    body: Body
    warnings: tuple[str, ...]
    nodes: int


def parse(text: str, *, max_bytes: int, max_nodes: int) -> ParsedTemplate:
    """Parse a text. Raises TemplateSyntaxError."""
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > max_bytes:
        raise TemplateSyntaxError(1, f"the text cannot have {size} bytes. Use at most {max_bytes}.")
    _check_characters(text)
    parser = _TemplateParser(text, max_nodes)
    return ParsedTemplate(parser.parse_all(), tuple(_warnings(text)), parser.nodes)


def _check_characters(text: str) -> None:
    for position, character in enumerate(text):
        if character in "\n\t" or character.isprintable():
            continue
        code = ord(character)
        if code < 32 or 0x7F <= code < 0xA0 or 0xD800 <= code < 0xE000 or character in "\u2028\u2029":
            raise TemplateSyntaxError(
                text.count("\n", 0, position) + 1, f"the text cannot have the character U+{code:04X}. Remove it."
            )


def _warnings(text: str) -> Iterator[str]:
    for found in _SINGLE_BRACES.finditer(text):
        if found[1] in VARIABLES:
            line = text.count("\n", 0, found.start()) + 1
            yield (
                f"line {line}: {{{found[1]}}} is plain text, not a variable. "
                f"For the variable, write {{{{ {found[1]} }}}}"
            )


# -- tokens ------------------------------------------------------------------------------------------------------------


class _TagToken(NamedTuple):
    kind: str
    text: str
    line: int


class _SourcePart(NamedTuple):
    """Literal text, or a tag with its tokens."""

    line: int
    text: str
    tokens: tuple[_TagToken, ...] = ()
    is_statement: bool = False
    is_tag: bool = False


def _split_source(text: str) -> Iterator[_SourcePart]:
    position, line, line_removed = 0, 1, False
    while found := _TAG.search(text, position):
        literal, opening = text[position : found.start()], found.group()
        at = line + literal.count("\n")
        if opening == "{#":
            raise TemplateSyntaxError(at, "the language has no comments. Remove this one.")
        closing = "%}" if opening == "{%" else "}}"
        end = text.find(closing, found.end())
        if end < 0:
            raise TemplateSyntaxError(at, f"{opening} is not closed. Add {closing}.")
        inside = text[found.end() : end]
        if line_removed:
            literal = literal.partition("\n")[2]
        line_removed = opening == "{%" and _is_alone(text, found.start(), end + 2)
        yield _SourcePart(line, literal.rstrip(" \t") if line_removed else literal)
        yield _SourcePart(at, "", tuple(_tokenize(inside, at)), opening == "{%", is_tag=True)
        line, position = at + inside.count("\n"), end + 2
    yield _SourcePart(line, text[position:].partition("\n")[2] if line_removed else text[position:])


def _is_alone(text: str, start: int, end: int) -> bool:
    """Return whether a tag is alone on its line or lines."""
    behind = text.find("\n", end)
    before, after = text[text.rfind("\n", 0, start) + 1 : start], text[end : behind if behind >= 0 else len(text)]
    return not before.strip(" \t") and not after.strip(" \t")


def _tokenize(inside: str, line: int) -> Iterator[_TagToken]:
    if inside.startswith(("-", "+")) or inside.endswith(("-", "+")):
        raise TemplateSyntaxError(line, "a tag cannot have - or +. Remove it; empty lines are removed anyway.")
    position = 0
    while inside[position:].strip():
        found = _TOKEN.match(inside, position)
        if found is None:
            rest = inside[position:].lstrip()
            at = line + inside.count("\n", 0, len(inside) - len(rest))
            raise TemplateSyntaxError(at, f"{_quoted_start(rest)} is not part of the language. Remove it.")
        kind = str(found.lastgroup)
        yield _TagToken(kind, found[kind], line + inside.count("\n", 0, found.start(kind)))
        position = found.end()


def _quoted_start(text: str) -> str:
    """Return the start of a rejected text, in quotes."""
    first = text.split("\n", 1)[0]
    return repr(first if len(first) <= 20 else first[:20] + "…")


# -- parser ------------------------------------------------------------------------------------------------------------


class _TagTokenCursor:
    """Cursor over the tokens of one tag."""

    def __init__(self, part: _SourcePart) -> None:
        self.line = part.line
        self._tokens = part.tokens
        self._position = 0
        self._last_line = part.line

    def peek(self) -> _TagToken:
        """Return the next token without consuming it."""
        if self._position < len(self._tokens):
            self._last_line = self._tokens[self._position].line
            return self._tokens[self._position]
        return _TagToken("end", "the end of the tag", self._last_line)

    def next_token(self) -> _TagToken:
        """Consume and return the next token."""
        token = self.peek()
        self._position += 1
        return token

    def accept(self, text: str) -> bool:
        """Consume the next token if it has this text; return whether it did."""
        if self.peek().kind in ("name", "sign") and self.peek().text == text:
            self._position += 1
            return True
        return False

    def expect(self, text: str) -> None:
        """Consume the next token, which must have this text. Raises TemplateSyntaxError."""
        if not self.accept(text):
            raise self.syntax_error(f"{text} is missing before {_describe_token(self.peek())}. Add it.")

    def expect_end(self) -> None:
        """Raise TemplateSyntaxError if there are more tokens."""
        if self.peek().kind != "end":
            raise self.syntax_error(f"{_describe_token(self.peek())} is not allowed here. Remove it.")

    def syntax_error(self, reason: str) -> TemplateSyntaxError:
        """Return the error for this tag."""
        return TemplateSyntaxError(self._last_line, reason)


def _describe_token(token: _TagToken) -> str:
    return token.text if token.kind == "end" else _quoted_start(token.text)


class _TemplateParser:
    """Parses one text."""

    def __init__(self, text: str, max_nodes: int) -> None:
        self._parts = _split_source(text)
        self._max_nodes = max_nodes
        self.nodes = 0
        self._loop_variable = ""
        self._depth = 0

    def parse_all(self) -> Body:
        """Parse the whole text."""
        body, end = self._parse_body(())
        if end is not None:
            raise end.syntax_error(f"{end.peek().text} has no opening tag. Remove it, or add the opening tag.")
        return body

    def _count_node(self, line: int) -> None:
        self.nodes += 1
        if self.nodes > self._max_nodes:  # control: template-nodes
            raise TemplateSyntaxError(line, f"the text has more than {self._max_nodes} parts. Simplify it.")

    def _parse_body(self, ends: tuple[str, ...], opened: int = 0) -> tuple[Body, _TagTokenCursor | None]:
        """Parse nodes up to the statement that ends them, and return it too."""
        nodes: list[Node] = []
        for part in self._parts:
            if not part.is_tag:
                if part.text:
                    self._count_node(part.line)
                    nodes.append(Text(part.text))
                continue
            cursor = _TagTokenCursor(part)
            if not part.is_statement:
                nodes.append(self._parse_output(cursor))
                continue
            word = cursor.peek().text
            if word in ends or word in ("elif", "else", "endif", "endfor"):
                return tuple(nodes), cursor
            nodes.append(self._parse_statement(cursor))
        if ends:
            raise TemplateSyntaxError(opened, f"the tag is not closed. Add {{% {ends[-1]} %}}.")
        return tuple(nodes), None

    def _parse_output(self, cursor: _TagTokenCursor) -> Node:
        self._count_node(cursor.line)
        name = self._parse_variable(cursor)
        if not cursor.accept("|"):
            cursor.expect_end()
            if name in LIST_VARIABLES:
                raise cursor.syntax_error(
                    f'{name} is a list, which cannot be written as text. Write {{{{ {name} | join(", ") }}}}.'
                )
            return Variable(name)
        self._count_node(cursor.line)
        if not cursor.accept("join"):
            raise cursor.syntax_error(f"{_describe_token(cursor.peek())} is not a filter. Use join, the only filter.")
        if name not in LIST_VARIABLES:
            raise cursor.syntax_error(f"join requires a list, and {name} is not a list. Remove join.")
        separator = ""
        if cursor.accept("("):
            token = cursor.next_token()
            if token.kind != "text":
                raise cursor.syntax_error('join requires one text. Write join(", ").')
            separator = token.text[1:-1]
            cursor.expect(")")
        cursor.expect_end()
        return Join(name, separator)

    def _parse_variable(self, cursor: _TagTokenCursor) -> str:
        token = cursor.next_token()
        if token.kind != "name" or token.text in _KEYWORDS or token.text in _RESERVED:
            raise cursor.syntax_error(f"a variable is missing before {_describe_token(token)}. Add it.")
        if token.text not in VARIABLES and token.text != self._loop_variable:
            raise cursor.syntax_error(
                f"{_quoted_start(token.text)} is not a variable. Use one of: {', '.join(VARIABLES)}."
            )
        return token.text

    def _parse_statement(self, cursor: _TagTokenCursor) -> Node:
        word = cursor.next_token()
        if word.text not in ("if", "for"):
            raise cursor.syntax_error(
                f"{_describe_token(word)} is not a statement. Use if, elif, else, endif, for or endfor."
            )
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise cursor.syntax_error(f"the text nests deeper than the limit of {MAX_DEPTH} levels. Simplify it.")
        node = self._parse_if(cursor) if word.text == "if" else self._parse_for(cursor)
        self._depth -= 1
        return node

    def _parse_if(self, cursor: _TagTokenCursor) -> Node:
        branches: list[tuple[Condition | None, Body]] = []
        opened = cursor.line
        condition: Condition | None = self._parse_condition(cursor)
        final = False
        while True:
            body, end = self._parse_body(("elif", "else", "endif"), opened)
            branches.append((condition, body))
            if end is None:
                raise TemplateSyntaxError(opened, "if is not closed. Add {% endif %}.")
            word = end.next_token().text
            if word == "endif":
                end.expect_end()
                return If(tuple(branches))
            if final or word not in ("elif", "else"):
                raise end.syntax_error(f"{word} is not allowed {'after else' if final else 'here'}. Remove it.")
            final = word == "else"
            if final:
                self._count_node(end.line)
                end.expect_end()
            condition = None if final else self._parse_condition(end)

    def _parse_for(self, cursor: _TagTokenCursor) -> Node:
        self._count_node(cursor.line)
        if self._loop_variable:  # control: nested-loop
            raise cursor.syntax_error("a for cannot be inside another for. Move it out of the loop.")
        token = cursor.next_token()
        if token.kind != "name" or token.text in (*VARIABLES, *_KEYWORDS, *_RESERVED):
            raise cursor.syntax_error(
                f"{_describe_token(token)} cannot be the name of a loop variable. Use another name."
            )
        cursor.expect("in")
        name = cursor.next_token().text
        if name not in LIST_VARIABLES:
            raise cursor.syntax_error(f"for cannot loop over {_quoted_start(name)}. Use {' or '.join(LIST_VARIABLES)}.")
        cursor.expect_end()
        self._loop_variable = token.text
        body, end = self._parse_body(("endfor",), cursor.line)
        self._loop_variable = ""
        if end is None or end.peek().text != "endfor":
            raise TemplateSyntaxError(cursor.line, "for is not closed. Add {% endfor %}.")
        end.next_token()
        end.expect_end()
        return For(token.text, name, body)

    # -- conditions ----------------------------------------------------------------------------------------------------

    def _parse_condition(self, cursor: _TagTokenCursor) -> Condition:
        self._count_node(cursor.line)
        branches = [self._parse_and(cursor)]
        while cursor.accept("or"):
            branches.append(self._parse_and(cursor))
        cursor.expect_end()
        return branches[0] if len(branches) == 1 else Or(tuple(branches))

    def _parse_and(self, cursor: _TagTokenCursor) -> Condition:
        each = [self._parse_not(cursor)]
        while cursor.accept("and"):
            each.append(self._parse_not(cursor))
        return each[0] if len(each) == 1 else And(tuple(each))

    def _parse_not(self, cursor: _TagTokenCursor) -> Condition:
        negations = 0
        while cursor.accept("not"):
            self._count_node(cursor.line)
            negations += 1
        if negations > MAX_DEPTH:
            raise cursor.syntax_error(f"the text nests deeper than the limit of {MAX_DEPTH} levels. Simplify it.")
        found = self._parse_comparison(cursor)
        for _ in range(negations):
            found = Not(found)
        return found

    def _parse_comparison(self, cursor: _TagTokenCursor) -> Condition:
        left = self._parse_operand(cursor)
        if not cursor.accept("=="):
            if not left[0]:
                raise cursor.syntax_error(f"== is missing after {_quoted_start(left[1])}. Add it.")
            return IsSet(left[1])
        right = self._parse_operand(cursor)
        for is_name, name in (left, right):
            if is_name and name in LIST_VARIABLES:
                raise cursor.syntax_error(f"{name} is a list, which cannot be compared. Loop over it.")
        return Equals(left, right)

    def _parse_operand(self, cursor: _TagTokenCursor) -> tuple[bool, str]:
        self._count_node(cursor.line)
        token = cursor.peek()
        if token.kind == "text":
            return False, cursor.next_token().text[1:-1]
        if token.kind == "number":
            return False, cursor.next_token().text
        return True, self._parse_variable(cursor)
