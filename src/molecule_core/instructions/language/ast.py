"""Variables and syntax tree of the template language. Pure."""

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
    "message_handle",
    "delegation_id",
    "verified",
    "restricted",
    "user_id",
    "due_at",
    "attempt",
    "attachments",
)
"""Variables that differ from message to message."""
VARIABLES = ("kind", "intent", "reply_tool", "available_tools", "docs_url", *MESSAGE_VARIABLES)


class Text(Struct, frozen=True):
    """Literal text."""

    text: str


class Variable(Struct, frozen=True):
    """The value of a variable."""

    name: str


class Join(Struct, frozen=True):
    """A list joined to one line."""

    list_name: str
    separator: str


class IsSet(Struct, frozen=True):
    """Condition: a variable is not empty."""

    name: str


class Equals(Struct, frozen=True):
    """Condition: two operands are equal. Each is (True, variable name) or (False, text)."""

    left: tuple[bool, str]
    right: tuple[bool, str]


class Not(Struct, frozen=True):
    """Condition: the operand does not hold."""

    operand: "Condition"


class And(Struct, frozen=True):
    """Condition: all operands hold."""

    operands: "tuple[Condition, ...]"


class Or(Struct, frozen=True):
    """Condition: at least one operand holds."""

    operands: "tuple[Condition, ...]"


class If(Struct, frozen=True):
    """The first branch whose condition holds; a condition of None always holds."""

    branches: "tuple[tuple[Condition | None, Body], ...]"


class For(Struct, frozen=True):
    """The body, once for each item of a list."""

    variable: str
    list_name: str
    body: "Body"


Condition = IsSet | Equals | Not | And | Or
Node = Text | Variable | Join | If | For
Body = tuple[Node, ...]


# -- tree queries ------------------------------------------------------------------------------------------------------


def iter_conditions(body: Body) -> Iterator[IsSet | Equals]:
    """Yield all leaf conditions of a tree."""
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
    """Return whether a tree writes the items of a list."""
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
    """Return the largest number of nodes that one run can execute."""
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
    """Return the values for which a loop has an effect, or None if it can have one for any value.

    They are known if every branch compares the loop's variable with a text."""
    if len(loop.body) != 1 or not isinstance(loop.body[0], If):
        return None
    required = [_required_value(condition, loop.variable) for condition, _ in loop.body[0].branches]
    return None if None in required else frozenset(filter(None, required))


def _required_value(condition: Condition | None, variable: str) -> str | None:
    """Return the text that a variable must equal for a condition to hold, or None if there is no such text."""
    if isinstance(condition, And):
        return next(
            (found for each in condition.operands if (found := _required_value(each, variable)) is not None), None
        )
    if not isinstance(condition, Equals) or (True, variable) not in (condition.left, condition.right):
        return None
    return next((text for is_name, text in (condition.left, condition.right) if not is_name), None)
