"""What a text of the template language is made of: its variables, and the tree that it is read into. Pure.

Above: language, which reads; script, which runs. Below: nothing.
"""

from collections.abc import Iterator

from msgspec import Struct

LIST_VARIABLES = ("available_tools", "attachments")
MESSAGE_VARIABLES = (
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
VARIABLES = ("kind", "intent", "reply_tool", "available_tools", "docs_url", *MESSAGE_VARIABLES)


class Text(Struct, frozen=True):
    """Words as they are."""

    text: str


class Variable(Struct, frozen=True):
    """The value of a variable."""

    name: str


class Join(Struct, frozen=True):
    """A list in one line."""

    list_name: str
    separator: str


class IsSet(Struct, frozen=True):
    """A condition: a variable is not empty."""

    name: str


class Equals(Struct, frozen=True):
    """A condition: two things are the same. Each is (True, the name of a variable) or (False, a text)."""

    left: tuple[bool, str]
    right: tuple[bool, str]


class Not(Struct, frozen=True):
    """The opposite."""

    operand: "Condition"


class And(Struct, frozen=True):
    """Each of them."""

    operands: "tuple[Condition, ...]"


class Or(Struct, frozen=True):
    """At least one of them."""

    operands: "tuple[Condition, ...]"


class If(Struct, frozen=True):
    """The first of these whose condition holds; None holds always."""

    branches: "tuple[tuple[Condition | None, Body], ...]"


class For(Struct, frozen=True):
    """Once for each of a list."""

    variable: str
    list_name: str
    body: "Body"


Condition = IsSet | Equals | Not | And | Or
Node = Text | Variable | Join | If | For
Body = tuple[Node, ...]


# -- looking at a tree -------------------------------------------------------------------------------------------------


def iter_conditions(body: Body) -> Iterator[IsSet | Equals]:
    """What a tree asks, wherever in it."""
    for node in body:
        if isinstance(node, If):
            for condition, branch in node.branches:
                if condition is not None:
                    yield from _leaf_conditions(condition)
                yield from iter_conditions(branch)
        elif isinstance(node, For):
            yield from iter_conditions(node.body)


def _leaf_conditions(condition: Condition) -> Iterator[IsSet | Equals]:
    if isinstance(condition, Not):
        yield from _leaf_conditions(condition.operand)
    elif isinstance(condition, And | Or):
        for each in condition.operands:
            yield from _leaf_conditions(each)
    else:
        yield condition


def uses_list(body: Body, name: str) -> bool:
    """Whether a tree writes what is in a list."""
    for node in body:
        if isinstance(node, For | Join) and node.list_name == name:
            return True
        inner = (
            [branch for _, branch in node.branches]
            if isinstance(node, If)
            else [node.body]
            if isinstance(node, For)
            else []
        )
        if any(uses_list(each, name) for each in inner):
            return True
    return False


def max_steps(body: Body) -> int:
    """How many parts of a tree one run may go through, at most."""
    return sum(map(_node_steps, body))


def _node_steps(node: Node) -> int:
    if isinstance(node, For):
        return 1 + max_steps(node.body)
    if not isinstance(node, If):
        return 1
    return sum(max_steps(branch) + (1 if each is None else _condition_steps(each)) for each, branch in node.branches)


def _condition_steps(condition: Condition) -> int:
    if isinstance(condition, Not):
        return 1 + _condition_steps(condition.operand)
    return sum(map(_condition_steps, condition.operands)) if isinstance(condition, And | Or) else 1


def loop_values(loop: For) -> frozenset[str] | None:
    """The values for which a loop can do anything, if each of its ways asks which of some texts it is; else None."""
    if len(loop.body) != 1 or not isinstance(loop.body[0], If):
        return None
    required = [_required_value(condition, loop.variable) for condition, _ in loop.body[0].branches]
    return None if None in required else frozenset(filter(None, required))


def _required_value(condition: Condition | None, variable: str) -> str | None:
    """The text that a variable must be for a condition to hold; None: it may be another one."""
    if isinstance(condition, And):
        return next(
            (found for each in condition.operands if (found := _required_value(each, variable)) is not None), None
        )
    if not isinstance(condition, Equals) or (True, variable) not in (condition.left, condition.right):
        return None
    return next((text for is_name, text in (condition.left, condition.right) if not is_name), None)
