"""What a text of the template language is made of: its variables, and the tree that it is read into. Pure.

Above: language, which reads; script, which runs. Below: nothing.
"""

from collections.abc import Iterator

from msgspec import Struct

LISTS = ("available_tools", "attachments")
PER_MESSAGE = (
    "peer_id",
    "peer_name",
    "peer_role",
    "workspace_id",
    "arrival_workspace_id",
    "reply_handle",
    "delegation_id",
    "user_id",
    "due_at",
    "attempt",
    "attachments",
)
"""What is another with each message."""
VARIABLES = ("kind", "intent", "reply_tool", "available_tools", "docs_url", *PER_MESSAGE)


class Text(Struct, frozen=True):
    """Words as they are."""

    text: str


class Put(Struct, frozen=True):
    """The value of a variable."""

    name: str


class Join(Struct, frozen=True):
    """A list in one line."""

    name: str
    between: str


class Given(Struct, frozen=True):
    """A condition: a variable is not empty."""

    name: str


class Equal(Struct, frozen=True):
    """A condition: two things are the same. Each is (True, the name of a variable) or (False, a text)."""

    left: tuple[bool, str]
    right: tuple[bool, str]


class Not(Struct, frozen=True):
    """The opposite."""

    of: "Condition"


class All(Struct, frozen=True):
    """Each of them."""

    of: "tuple[Condition, ...]"


class Some(Struct, frozen=True):
    """At least one of them."""

    of: "tuple[Condition, ...]"


class If(Struct, frozen=True):
    """The first of these whose condition holds; None holds always."""

    ways: "tuple[tuple[Condition | None, Body], ...]"


class For(Struct, frozen=True):
    """Once for each of a list."""

    variable: str
    name: str
    body: "Body"


Condition = Given | Equal | Not | All | Some
Node = Text | Put | Join | If | For
Body = tuple[Node, ...]


# -- looking at a tree -------------------------------------------------------------------------------------------------


def conditions(body: Body) -> Iterator[Given | Equal]:
    """What a tree asks, wherever in it."""
    for node in body:
        if isinstance(node, If):
            for condition, way in node.ways:
                if condition is not None:
                    yield from _asked(condition)
                yield from conditions(way)
        elif isinstance(node, For):
            yield from conditions(node.body)


def _asked(condition: Condition) -> Iterator[Given | Equal]:
    if isinstance(condition, Not):
        yield from _asked(condition.of)
    elif isinstance(condition, All | Some):
        for each in condition.of:
            yield from _asked(each)
    else:
        yield condition


def names_each(body: Body, name: str) -> bool:
    """Whether a tree writes what is in a list."""
    for node in body:
        if isinstance(node, For | Join) and node.name == name:
            return True
        inner = [way for _, way in node.ways] if isinstance(node, If) else [node.body] if isinstance(node, For) else []
        if any(names_each(each, name) for each in inner):
            return True
    return False


def weight(body: Body) -> int:
    """How many parts of a tree one run may go through, at most."""
    return sum(map(_weight, body))


def _weight(node: Node) -> int:
    if isinstance(node, For):
        return 1 + weight(node.body)
    if not isinstance(node, If):
        return 1
    return sum(weight(way) + (1 if each is None else _asking(each)) for each, way in node.ways)


def _asking(condition: Condition) -> int:
    if isinstance(condition, Not):
        return 1 + _asking(condition.of)
    return sum(map(_asking, condition.of)) if isinstance(condition, All | Some) else 1


def only_for(loop: For) -> frozenset[str] | None:
    """The values for which a loop can do anything, if each of its ways asks which of some texts it is; else None."""
    if len(loop.body) != 1 or not isinstance(loop.body[0], If):
        return None
    wanted = [_wanted(condition, loop.variable) for condition, _ in loop.body[0].ways]
    return None if None in wanted else frozenset(filter(None, wanted))


def _wanted(condition: Condition | None, variable: str) -> str | None:
    """The text that a variable must be for a condition to hold; None: it may be another one."""
    if isinstance(condition, All):
        return next((found for each in condition.of if (found := _wanted(each, variable)) is not None), None)
    if not isinstance(condition, Equal) or (True, variable) not in (condition.left, condition.right):
        return None
    return next((text for is_name, text in (condition.left, condition.right) if not is_name), None)
