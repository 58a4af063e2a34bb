"""A template as something that can be run: its texts compiled, and what its conditions ask of each message.

Above: render, which runs it. Below: the language, the rules.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from operator import attrgetter
from typing import Any

from molecule_core.ground.limits import Limits
from molecule_core.instructions import language, rules, syntax
from molecule_core.instructions.model import Facts, Form, Parts
from molecule_core.wire.cards import REPLY_COMMAND

Step = Callable[["Scene"], None]
Holds = Callable[[dict[str, Any]], bool]


# So many values are looked at fastest (Renderer.skeleton): the templates that come with Molecule ask for no more.
_SIX = 6


class Slot(str):
    """A place in the words for what is another with each message; the text is the variable's name."""

    __slots__ = ()


SLOTS = {name: Slot(name) for name in syntax.PER_MESSAGE if name not in syntax.LISTS}
"""For every variable of single messages."""


class TooMuch(Exception):
    """A template has, says or does more than it may."""


class Scene:
    """One run of a compiled text. `values`: what conditions see, all of it text or lists; `said`: what is written;
    `tools`: by their bare names, their places in the list, these names and how they are written. `out`: what was
    written, and about how many tokens it has. It ends with TooMuch where more is written or done than the limits have:
    `room` is what may still be written in characters (a byte is at least one), `steps` what loops may still do."""

    __slots__ = ("_limits", "out", "room", "said", "steps", "tokens", "tools", "values")

    def __init__(
        self, values: dict[str, Any], said: dict[str, Any], tools: dict[str, tuple[int, str, str]], limits: Limits
    ) -> None:
        self.values = values
        self.tools = tools
        self.said = said
        self.out: list[str] = []
        self.tokens = 0
        self.room = limits.instruction_bytes
        self.steps = limits.template_steps
        self._limits = limits

    def write(self, words: str) -> None:
        """Goes on with these words."""
        self.out.append(words)
        if type(words) is not Slot:
            self.take(len(words))
            self.tokens += estimate(words)

    def take(self, characters: int) -> None:
        """So many are about to be written."""
        self.room -= characters
        if self.room < 0:
            raise TooMuch(f"its words have more than {self._limits.instruction_bytes} bytes")

    def go_through(self, steps: int) -> None:
        """A loop is about to do so much."""
        self.steps -= steps
        if self.steps < 0:  # control: template-steps
            raise TooMuch(f"its loops go through more than {self._limits.template_steps} parts")


# -- compiling ---------------------------------------------------------------------------------------------------------


def compiled(body: syntax.Body) -> Step:
    """A tree as something that can be run."""
    steps = [_step(node) for node in body]
    if len(steps) == 1:
        return steps[0]

    def run(scene: Scene) -> None:
        for step in steps:
            step(scene)

    return run


def _step(node: syntax.Node) -> Step:
    if isinstance(node, syntax.Text):
        return _write(node.text)
    if isinstance(node, syntax.Put):
        name = node.name
        return lambda scene: scene.write(scene.said[name])
    if isinstance(node, syntax.Join):
        return _join(node)
    return _choice(node) if isinstance(node, syntax.If) else _loop(node)


def _write(text: str) -> Step:
    tokens, characters = estimate(text), len(text)

    def run(scene: Scene) -> None:
        scene.take(characters)
        scene.out.append(text)
        scene.tokens += tokens

    return run


def _join(node: syntax.Join) -> Step:
    name, between = node.name, node.between

    def run(scene: Scene) -> None:
        each = scene.said[name]
        if sum(map(len, each)) + len(between) * (len(each) - 1) > scene.room:
            scene.take(scene.room + 1)
        scene.write(between.join(each))

    return run


def _choice(node: syntax.If) -> Step:
    ways = [(None if each is None else condition(each), compiled(body)) for each, body in node.ways]

    def run(scene: Scene) -> None:
        for holds, way in ways:
            if holds is None or holds(scene.values):
                way(scene)
                return

    return run


def _loop(node: syntax.For) -> Step:
    variable, name, body, weight = node.variable, node.name, compiled(node.body), syntax.weight(node.body)
    wanted = syntax.only_for(node)
    if wanted is not None and name == "available_tools":
        return _lookup(variable, wanted, body, weight)

    def run(scene: Scene) -> None:
        values, said = scene.values, scene.said
        scene.go_through(weight * len(values[name]))
        for value, words in zip(values[name], said[name], strict=True):
            values[variable], said[variable] = value, words
            body(scene)

    return run


def _lookup(variable: str, wanted: frozenset[str], body: Step, weight: int) -> Step:
    """A loop over the tools that does something for these alone: they are looked up instead."""

    def run(scene: Scene) -> None:
        tools = scene.tools
        found = [tools[name] for name in wanted if name in tools]
        scene.go_through(len(wanted) + weight * len(found))
        if len(found) > 1:
            found.sort()
        for _, name, words in found:
            scene.values[variable], scene.said[variable] = name, words
            body(scene)

    return run


def condition(of: syntax.Condition) -> Holds:
    """Whether it holds for these values."""
    if isinstance(of, syntax.Given):
        name = of.name
        return lambda values: bool(values[name])
    if isinstance(of, syntax.Equal):
        return _same(of)
    if isinstance(of, syntax.Not):
        inner = condition(of.of)
        return lambda values: not inner(values)
    first, *others = (condition(one) for one in of.of)
    for each in others:
        first = _both(first, each) if isinstance(of, syntax.All) else _either(first, each)
    return first


def _both(left: Holds, right: Holds) -> Holds:
    return lambda values: left(values) and right(values)


def _either(left: Holds, right: Holds) -> Holds:
    return lambda values: left(values) or right(values)


def _same(of: syntax.Equal) -> Holds:
    names = [text for is_name, text in (of.left, of.right) if is_name]
    texts = [text for is_name, text in (of.left, of.right) if not is_name]
    if not names:
        return lambda _values: texts[0] == texts[1]
    if texts:
        name, text = names[0], texts[0]
        return lambda values: bool(values[name] == text)
    left, right = names
    return lambda values: bool(values[left] == values[right])


# -- a template, compiled ----------------------------------------------------------------------------------------------


ALONE, MERGED = 1, 2
"""How often the limits of a template count: for its own texts, and for those that it says with the ones it extends. A
template that takes all of its limits may still extend one that comes with Molecule, or any other that does."""


class Wrong(Exception):
    """A text of a template cannot be taken: which one, and in which line."""

    def __init__(self, part: str, line: int, reason: str) -> None:
        self.part = part
        self.line = line
        self.reason = reason
        super().__init__(f"{part}, line {line}: {reason}")


def read(parts: Parts, limits: Limits, times: int) -> list[tuple[str, language.Parsed]]:
    """All texts with the names of their parts: first the blocks, then the lines. Raises Wrong."""
    texts = [*parts.blocks.items(), *((f"lines[{number}]", text) for number, text in enumerate(parts.lines))]
    most_bytes, most_nodes = times * limits.template_bytes, times * limits.template_nodes
    left_bytes, left_nodes = most_bytes, most_nodes
    for part, text in texts:  # all are measured before one is read
        left_bytes -= len(text.encode("utf-8", "surrogatepass"))
        if left_bytes < 0:  # control: template-bytes
            raise Wrong(part, 1, f"up to here the texts have more than {most_bytes} bytes; at most so many are taken")
    found = list[tuple[str, language.Parsed]]()
    for part, text in texts:
        try:
            parsed = language.parse(text, most_bytes=most_bytes, most_nodes=most_nodes)
        except language.Refused as refused:
            raise Wrong(part, refused.line, refused.reason) from None
        left_nodes -= parsed.nodes
        if left_nodes < 0:
            raise Wrong(part, 1, f"up to here the texts have more than {most_nodes} parts; make them simpler")
        found.append((part, parsed))
    return found


class Script:
    """What a template says with those it extends, compiled, and what its conditions ask of each message."""

    def __init__(self, parts: Parts, limits: Limits) -> None:
        self.parts = parts
        self.limits = limits
        trees = [(part, parsed.body) for part, parsed in read(parts, limits, MERGED)]
        bodies, lines = dict(trees[: len(parts.blocks)]), [body for _, body in trees[len(parts.blocks) :]]
        self._blocks = {name: compiled(body) for name, body in bodies.items()}
        self._lines = [compiled(body) for body in lines]
        texts = [*bodies.values(), *lines]
        self.knows_command = any(_is_command(each) for body in texts for each in syntax.conditions(body))
        self.names_files = any(syntax.names_each(body, "attachments") for body in texts)
        short = [bodies[name] for name in (rules.OPENING, rules.COMPACT, rules.DELTA) if name in bodies]
        self.asks_all, self.asks_short = Asks(texts), Asks(short)

        self._steps: dict[tuple[Form, bool], list[Step]] = {}

    def steps(self, form: Form, *, reminder: bool) -> list[Step]:
        """The texts of a form, in order."""
        found = self._steps.get((form, reminder))
        if found is None:
            found = self._steps[form, reminder] = list(self._in_order(form, reminder=reminder))
        return found

    def _in_order(self, form: Form, *, reminder: bool) -> Iterator[Step]:
        if reminder:
            yield from self._of(rules.OPENING)
        if form is Form.FULL:
            yield from (*self._of(*rules.FULL), *self._lines, *self._of(rules.CLOSING))
        else:
            yield from self._of(rules.COMPACT, *((rules.DELTA,) if form is Form.DELTA else ()))

    def _of(self, *names: str) -> list[Step]:
        return [self._blocks[name] for name in names if name in self._blocks]


def _is_command(of: syntax.Given | syntax.Equal) -> bool:
    """Whether a text asks if the command of programs behind a bridge is what answers."""
    return isinstance(of, syntax.Equal) and {of.left, of.right} == {(True, "reply_tool"), (False, REPLY_COMMAND)}


class Asks:
    """What tells two messages apart for some texts. `pick`: six values of which they ask whether there are any; a text
    that asks for fewer has some twice. `more`: the outcomes of everything else they ask; None: nothing."""

    __slots__ = ("more", "pick")

    def __init__(self, texts: Iterable[syntax.Body]) -> None:
        given: dict[str, None] = {}
        compared: list[Callable[[Facts], Any]] = []
        for each in dict.fromkeys(each for body in texts for each in syntax.conditions(body)):
            if isinstance(each, syntax.Equal):
                compared += _compared(each)
            elif each.name in syntax.PER_MESSAGE:
                given[each.name] = None
        names, others = [*given][:_SIX], tuple(given)[_SIX:]
        self.pick: Callable[[Facts], tuple[Any, ...]] = attrgetter(*names, *["kind"] * (_SIX - len(names)))
        rest = picker(others)
        self.more: Callable[[Facts], tuple[Any, ...]] | None = None
        if others or compared:
            self.more = lambda facts: (*map(bool, rest(facts)), *[each(facts) for each in compared])


def _compared(of: syntax.Equal) -> list[Callable[[Facts], Any]]:
    """What a comparison needs of a message: whether it is one text, or, where that is not known yet, all of it."""
    sides = (of.left, of.right)
    names = [name for is_name, name in sides if is_name and name in syntax.PER_MESSAGE]
    texts = [text for is_name, text in sides if not is_name]
    if names and texts:
        return [lambda facts: str(getattr(facts, names[0])) == texts[0]]
    return [attrgetter(name) for name in names]


def picker(names: tuple[str, ...]) -> Callable[[Facts], tuple[Any, ...]]:
    """Takes these values of a message."""
    if not names:
        return lambda _facts: ()
    take = attrgetter(*names)
    return take if len(names) > 1 else lambda facts: (take(facts),)


# A word, digits, signs, an end of lines.
_WORDS = re.compile(r" ?[A-Za-z]+|[0-9]{1,3}|[^\sA-Za-z0-9]+|\n+")


@lru_cache(4096)
def estimate(text: str) -> int:
    """About how many tokens a model reads. For the templates that come with Molecule at most a tenth less than a real
    tokenizer counts, and at most a third more (a sixth in the full form); for scripts without spaces far too few."""
    return sum(1 + (len(word) - 1) // 9 for word in _WORDS.findall(text))
