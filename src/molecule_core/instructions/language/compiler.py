"""Compiles templates, and determines which values of a message their conditions read."""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from operator import attrgetter
from typing import Any

from molecule_core.common.limits import Limits
from molecule_core.instructions import rules
from molecule_core.instructions.language import ast, parser
from molecule_core.instructions.model import MessageContext, TemplateContent, Verbosity
from molecule_core.wire.schemas.agent_cards import REPLY_BY_RESPONSE, REPLY_COMMAND

RenderStep = Callable[["RenderContext"], None]
Predicate = Callable[[dict[str, Any]], bool]


# 6: that many values are read fastest (`_RenderPlan.skeleton_for`), and the built-in templates need no more.
_FAST_VALUES = 6


class ValuePlaceholder(str):
    """Placeholder for a value that differs from message to message; the text is the variable's name."""

    __slots__ = ()


VALUE_PLACEHOLDERS = {name: ValuePlaceholder(name) for name in ast.MESSAGE_VARIABLES if name not in ast.LIST_VARIABLES}
"""The placeholder of each single-value message variable."""


class TemplateTooLarge(Exception):
    """A template or its output exceeds a limit."""


class RenderContext:
    """State of one run of a compiled text.

    `values`: what conditions read, texts or lists; `rendered`: what is written; `tools`: by bare name, the position in
    the list, the name and its rendered form. `out`: the output so far, of about `tokens` tokens.

    Raises TemplateTooLarge beyond the limits. `remaining_characters` bounds the output (a character is at least one
    byte), `remaining_steps` the work of loops."""

    __slots__ = ("_limits", "out", "remaining_characters", "remaining_steps", "rendered", "tokens", "tools", "values")

    def __init__(
        self, values: dict[str, Any], rendered: dict[str, Any], tools: dict[str, tuple[int, str, str]], limits: Limits
    ) -> None:
        self.values = values
        self.tools = tools
        self.rendered = rendered
        self.out: list[str] = []
        self.tokens = 0
        self.remaining_characters = limits.instruction_bytes
        self.remaining_steps = limits.template_steps
        self._limits = limits

    def append_text(self, text: str) -> None:
        """Append text or a placeholder to the output."""
        self.out.append(text)
        if type(text) is not ValuePlaceholder:
            self.reserve_characters(len(text))
            self.tokens += estimate_tokens(text)

    def reserve_characters(self, characters: int) -> None:
        """Count characters about to be written. Raises TemplateTooLarge."""
        self.remaining_characters -= characters
        if self.remaining_characters < 0:
            raise TemplateTooLarge(f"its text is larger than the limit of {self._limits.instruction_bytes} bytes")

    def reserve_steps(self, steps: int) -> None:
        """Count the steps that a loop is about to execute. Raises TemplateTooLarge."""
        self.remaining_steps -= steps
        if self.remaining_steps < 0:  # control: template-steps
            raise TemplateTooLarge(f"its loops take more than {self._limits.template_steps} steps")


# -- compilation -------------------------------------------------------------------------------------------------------


def compile_body(body: ast.Body) -> RenderStep:
    """Compile a tree."""
    steps = [_compile_node(node) for node in body]
    if len(steps) == 1:
        return steps[0]

    def run(context: RenderContext) -> None:
        for step in steps:
            step(context)

    return run


def _compile_node(node: ast.Node) -> RenderStep:
    if isinstance(node, ast.Text):
        return _compile_text(node.text)
    if isinstance(node, ast.Variable):
        name = node.name
        return lambda context: context.append_text(context.rendered[name])
    if isinstance(node, ast.Join):
        return _compile_join(node)
    return _compile_if(node) if isinstance(node, ast.If) else _compile_for(node)


def _compile_text(text: str) -> RenderStep:
    tokens, characters = estimate_tokens(text), len(text)

    def run(context: RenderContext) -> None:
        context.reserve_characters(characters)
        context.out.append(text)
        context.tokens += tokens

    return run


def _compile_join(node: ast.Join) -> RenderStep:
    name, separator = node.list_name, node.separator

    def run(context: RenderContext) -> None:
        each = context.rendered[name]
        if sum(map(len, each)) + len(separator) * (len(each) - 1) > context.remaining_characters:
            context.reserve_characters(context.remaining_characters + 1)
        context.append_text(separator.join(each))

    return run


def _compile_if(node: ast.If) -> RenderStep:
    branches = [(None if each is None else compile_condition(each), compile_body(body)) for each, body in node.branches]

    def run(context: RenderContext) -> None:
        for holds, branch in branches:
            if holds is None or holds(context.values):
                branch(context)
                return

    return run


def _compile_for(node: ast.For) -> RenderStep:
    variable, name, body, weight = node.variable, node.list_name, compile_body(node.body), ast.max_steps(node.body)
    required = ast.loop_values(node)
    if required is not None and name == "available_tools":
        return _compile_tool_lookup(variable, required, body, weight)

    def run(context: RenderContext) -> None:
        values, rendered = context.values, context.rendered
        context.reserve_steps(weight * len(values[name]))
        for value, text in zip(values[name], rendered[name], strict=True):
            values[variable], rendered[variable] = value, text
            body(context)

    return run


def _compile_tool_lookup(variable: str, required: frozenset[str], body: RenderStep, weight: int) -> RenderStep:
    """Compile a loop over tools that has an effect only for some names: these are looked up instead."""

    def run(context: RenderContext) -> None:
        tools = context.tools
        found = [tools[name] for name in required if name in tools]
        context.reserve_steps(len(required) + weight * len(found))
        if len(found) > 1:
            found.sort()
        for _, name, text in found:
            context.values[variable], context.rendered[variable] = name, text
            body(context)

    return run


def compile_condition(node: ast.Condition) -> Predicate:
    """Compile a condition to a predicate over values."""
    if isinstance(node, ast.IsSet):
        name = node.name
        return lambda values: bool(values[name])
    if isinstance(node, ast.Equals):
        return _compile_equals(node)
    if isinstance(node, ast.Not):
        inner = compile_condition(node.operand)
        return lambda values: not inner(values)
    first, *others = (compile_condition(one) for one in node.operands)
    for each in others:
        first = _all_hold(first, each) if isinstance(node, ast.And) else _any_holds(first, each)
    return first


def _all_hold(left: Predicate, right: Predicate) -> Predicate:
    return lambda values: left(values) and right(values)


def _any_holds(left: Predicate, right: Predicate) -> Predicate:
    return lambda values: left(values) or right(values)


def _compile_equals(node: ast.Equals) -> Predicate:
    names = [text for is_name, text in (node.left, node.right) if is_name]
    texts = [text for is_name, text in (node.left, node.right) if not is_name]
    if not names:
        return lambda _values: texts[0] == texts[1]
    if texts:
        name, text = names[0], texts[0]
        return lambda values: bool(values[name] == text)
    left, right = names
    return lambda values: bool(values[left] == values[right])


# -- compiled templates ------------------------------------------------------------------------------------------------


ALONE_FACTOR, MERGED_FACTOR = 1, 2
"""Factors for the limits of a template: its own texts alone, and merged with those of the templates it extends.

With 2, a template at its limits can still extend a built-in one, or any other at its limits."""


class TemplateError(Exception):
    """A text of a template is invalid. Has the part, the line and the reason."""

    def __init__(self, part: str, line: int, reason: str) -> None:
        self.part = part
        self.line = line
        self.reason = reason
        super().__init__(f"{part}, line {line}: {reason}")


def parse_content(parts: TemplateContent, limits: Limits, limit_factor: int) -> list[tuple[str, parser.ParsedTemplate]]:
    """Parse all texts, with the names of their parts: the blocks, then the lines. Raises TemplateError."""
    texts = [*parts.blocks.items(), *((f"lines[{number}]", text) for number, text in enumerate(parts.lines))]
    max_bytes, max_nodes = limit_factor * limits.template_bytes, limit_factor * limits.template_nodes
    left_bytes, left_nodes = max_bytes, max_nodes
    for part, text in texts:  # measure all before parsing any
        left_bytes -= len(text.encode("utf-8", "surrogatepass"))
        if left_bytes < 0:  # control: template-bytes
            raise TemplateError(
                part, 1, f"the texts up to this part are larger than the limit of {max_bytes} bytes. Shorten them."
            )
    found = list[tuple[str, parser.ParsedTemplate]]()
    for part, text in texts:
        try:
            parsed = parser.parse(text, max_bytes=max_bytes, max_nodes=max_nodes)
        except parser.TemplateSyntaxError as refused:
            raise TemplateError(part, refused.line, refused.reason) from None
        left_nodes -= parsed.nodes
        if left_nodes < 0:
            raise TemplateError(part, 1, f"the texts up to this part have more than {max_nodes} parts. Simplify them.")
        found.append((part, parsed))
    return found


class CompiledTemplate:
    """The texts of a template and those it extends, compiled."""

    def __init__(self, parts: TemplateContent, limits: Limits) -> None:
        self.parts = parts
        self.limits = limits
        trees = [(part, parsed.body) for part, parsed in parse_content(parts, limits, MERGED_FACTOR)]
        bodies, lines = dict(trees[: len(parts.blocks)]), [body for _, body in trees[len(parts.blocks) :]]
        self._blocks = {name: compile_body(body) for name, body in bodies.items()}
        self._lines = [compile_body(body) for body in lines]
        texts = [*bodies.values(), *lines]
        conditions = [each for body in texts for each in ast.iter_conditions(body)]
        self.tests_command = any(_tests_reply_tool(each, REPLY_COMMAND) for each in conditions)
        self.tests_response = any(_tests_reply_tool(each, REPLY_BY_RESPONSE) for each in conditions)
        self.lists_attachments = any(ast.uses_list(body, "attachments") for body in texts)
        short = [
            bodies[name] for name in (rules.OPENING_BLOCK, rules.COMPACT_BLOCK, rules.DELTA_BLOCK) if name in bodies
        ] + lines
        self.full_variant_key, self.short_variant_key = VariantKey(texts), VariantKey(short)

        self._steps: dict[tuple[Verbosity, bool], list[RenderStep]] = {}

    def steps(self, verbosity: Verbosity, *, reminder: bool) -> list[RenderStep]:
        """Return the texts of a form, in order."""
        found = self._steps.get((verbosity, reminder))
        if found is None:
            found = self._steps[verbosity, reminder] = list(self._ordered_steps(verbosity, reminder=reminder))
        return found

    def _ordered_steps(self, verbosity: Verbosity, *, reminder: bool) -> Iterator[RenderStep]:
        if reminder:
            yield from self._block_steps(rules.OPENING_BLOCK)
        if verbosity is Verbosity.FULL:
            yield from (*self._block_steps(*rules.FULL_BLOCKS), *self._lines, *self._block_steps(rules.CLOSING_BLOCK))
        else:
            delta = (rules.DELTA_BLOCK,) if verbosity is Verbosity.DELTA else ()
            # The lines are an operator's own: an agent reads them with every message.
            yield from (*self._block_steps(rules.COMPACT_BLOCK, *delta), *self._lines)

    def _block_steps(self, *names: str) -> list[RenderStep]:
        return [self._blocks[name] for name in names if name in self._blocks]


def _tests_reply_tool(node: ast.IsSet | ast.Equals, name: str) -> bool:
    """Return whether a condition checks that this is the reply tool."""
    return isinstance(node, ast.Equals) and {node.left, node.right} == {(True, "reply_tool"), (False, name)}


class VariantKey:
    """Key that distinguishes messages for which some texts render differently.

    `get_values`: six values that are tested for being set, repeated if fewer are needed. `get_outcomes`: the outcomes
    of all other conditions, or None if there are none."""

    __slots__ = ("get_outcomes", "get_values")

    def __init__(self, texts: Iterable[ast.Body]) -> None:
        tested_names: dict[str, None] = {}
        comparisons: list[Callable[[MessageContext], Any]] = []
        for each in dict.fromkeys(each for body in texts for each in ast.iter_conditions(body)):
            if isinstance(each, ast.Equals):
                comparisons += _comparison_getters(each)
            elif each.name in ast.MESSAGE_VARIABLES:
                tested_names[each.name] = None
        names, others = [*tested_names][:_FAST_VALUES], tuple(tested_names)[_FAST_VALUES:]
        self.get_values: Callable[[MessageContext], tuple[Any, ...]] = attrgetter(
            *names, *["kind"] * (_FAST_VALUES - len(names))
        )
        rest = field_getter(others)
        self.get_outcomes: Callable[[MessageContext], tuple[Any, ...]] | None = None
        if others or comparisons:
            self.get_outcomes = lambda message: (*map(bool, rest(message)), *[each(message) for each in comparisons])


def _comparison_getters(node: ast.Equals) -> list[Callable[[MessageContext], Any]]:
    """Return the getters that a comparison needs: its outcome, or the values if only variables are compared."""
    sides = (node.left, node.right)
    names = [name for is_name, name in sides if is_name and name in ast.MESSAGE_VARIABLES]
    texts = [text for is_name, text in sides if not is_name]
    if names and texts:
        return [lambda message: str(getattr(message, names[0])) == texts[0]]
    return [attrgetter(name) for name in names]


def field_getter(names: tuple[str, ...]) -> Callable[[MessageContext], tuple[Any, ...]]:
    """Return a getter for several fields of a message, always as a tuple."""
    if not names:
        return lambda _facts: ()
    getter = attrgetter(*names)
    return getter if len(names) > 1 else lambda message: (getter(message),)


# A word, digits, signs, line ends.
_TOKEN_PATTERN = re.compile(r" ?[A-Za-z]+|[0-9]{1,3}|[^\sA-Za-z0-9]+|\n+")


@lru_cache(4096)
def estimate_tokens(text: str) -> int:
    """Estimate the number of tokens of a text.

    For the built-in templates it is at most a tenth below the count of a real tokenizer, and at most a third above it
    (a sixth in the full form). For scripts without spaces it is far too low."""
    return sum(1 + (len(word) - 1) // 9 for word in _TOKEN_PATTERN.findall(text))
