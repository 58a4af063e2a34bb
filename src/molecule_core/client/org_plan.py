"""What lies between an org file and an organisation: which seat is which, and what has to be done. Pure.

Above: org_apply, cli. Below: org_file.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from molecule_core.client.org_file import FileSeat, Node

Row = dict[str, Any]
"""A workspace as GET /workspaces shows it."""

ABILITIES = ("broadcast_enabled", "talk_to_user_enabled")
_PLAIN = (
    "name",
    "runtime",
    "external",
    "tier",
    "max_concurrent_tasks",
    "instruction_template_id",
    "instruction_compact",
    "instruction_shape",
    "reply_seconds",
    "send_drafts",
    *ABILITIES,
)


class Make(Struct, frozen=True):
    """A seat of the file that the organisation lacks."""

    number: int
    node: Node


class Alter(Struct, frozen=True):
    """A seat that is otherwise than in the file, or elsewhere: what it has and what it is to have, by member.

    `above`: the number of the node that it is to stand below, where `moves`; None: at the top."""

    row: Row
    node: Node
    members: dict[str, tuple[Any, Any]]
    moves: bool = False
    old_path: tuple[str, ...] = ()


class Drop(Struct, frozen=True):
    """A seat that is not in the file, with all that will be below it then: they are not in the file either."""

    row: Row
    path: tuple[str, ...]
    below: list[str]


class Plan(Struct, frozen=True):
    """All differences, in an order in which they can be removed. `ids`: which seat each node of the file is, if any."""

    makes: list[Make]
    alters: list[Alter]
    drops: list[Drop]
    ids: dict[int, str]

    @property
    def is_empty(self) -> bool:
        """Whether the organisation is as the file says."""
        return not (self.makes or self.alters or self.drops)

    @property
    def removals(self) -> int:
        """How many seats go."""
        return sum(1 + len(drop.below) for drop in self.drops)

    def lines(self) -> Iterator[str]:
        """The plan for people, a line for each seat."""
        for make in self.makes:
            yield f"+ {shown(make.node.path)}{_details(make.node.seat)}"
        for alter in self.alters:
            if alter.moves:
                yield f"> {shown(alter.old_path)} moves to {shown(alter.node.path)}"
            if alter.members:
                changes = ", ".join(
                    f"{name} {_value(old)} -> {_value(new)}" for name, (old, new) in alter.members.items()
                )
                yield f"~ {shown(alter.old_path)}: {changes}"
        for drop in self.drops:
            more = f", and with it {len(drop.below)} below: {', '.join(drop.below)}" if drop.below else ""
            yield f"- {shown(drop.path)}{more}"
        moved = sum(alter.moves for alter in self.alters)
        changed = sum(bool(alter.members) for alter in self.alters)
        yield f"{len(self.makes)} to make, {changed} to change, {moved} to move, {self.removals} to remove"


def shown(path: tuple[str, ...]) -> str:
    """A path for people."""
    return " / ".join(path)


def _value(value: Any) -> str:
    return "nothing" if value in (None, "") else f"{value!r}" if isinstance(value, str) else str(value).lower()


def _details(seat: FileSeat) -> str:
    told = [f"{name} {_value(getattr(seat, name))}" for name in ("role", "runtime") if getattr(seat, name)]
    return f" ({', '.join(told)})" if told else ""


def plan_of(wanted: list[Node], rows: list[Row], known: Mapping[int, str] | None = None) -> Plan:
    """What makes an organisation of these rows what the file says. `known`: seats that were made for nodes before."""
    by_id = {row["id"]: row for row in rows}
    ids = _matched(wanted, rows, {number: id_ for number, id_ in (known or {}).items() if id_ in by_id})
    makes, alters = [], []
    for number, node in enumerate(wanted):
        if number not in ids:
            makes.append(Make(number, node))
            continue
        row = by_id[ids[number]]
        moves = row["parent_id"] != (None if node.above is None else ids.get(node.above))
        members = _differences(node.seat, row)
        if moves or members:
            alters.append(Alter(row, node, members, moves, path_of(row, by_id)))
    return Plan(makes, alters, _drops(rows, by_id, set(ids.values())), ids)


def _matched(wanted: list[Node], rows: list[Row], known: dict[int, str]) -> dict[int, str]:
    """Which seat each node is: by its key; else the one of its name below the seat that the node above it is."""
    by_key = {row["key"]: row["id"] for row in rows if row["key"] is not None}
    ids = dict(known)
    for number, node in enumerate(wanted):
        if node.seat.key in by_key:
            ids.setdefault(number, by_key[node.seat.key])
    taken = set(ids.values())
    by_place = {(row["parent_id"], row["name"]): row for row in rows}
    for number, node in enumerate(wanted):
        if number in ids or (node.above is not None and node.above not in ids):
            continue
        row = by_place.get((None if node.above is None else ids[node.above], node.seat.name))
        if row is not None and row["id"] not in taken and (node.seat.key is None or row["key"] is None):
            ids[number] = row["id"]
            taken.add(row["id"])
    return ids


def _differences(seat: FileSeat, row: Row) -> dict[str, tuple[Any, Any]]:
    wanted: dict[str, Any] = {name: getattr(seat, name) for name in _PLAIN}
    wanted["role"] = seat.role or None
    for name in ("key", "delivery_mode", "url"):
        if getattr(seat, name) is not None:
            wanted[name] = getattr(seat, name)
    has = {**row, "role": row["role"] or None}
    return {name: (has[name], value) for name, value in wanted.items() if has[name] != value}


def _drops(rows: list[Row], by_id: dict[str, Row], kept: set[str]) -> list[Drop]:
    """The topmost of the seats that go: who stays is moved away from below them first."""
    going = [row for row in rows if row["id"] not in kept]
    gone = {row["id"] for row in going}
    drops = []
    for row in going:
        if row["parent_id"] not in gone:
            below = [each["name"] for each in going if each is not row and _is_below(each, row["id"], by_id, gone)]
            drops.append(Drop(row, path_of(row, by_id), below))
    return drops


def _is_below(row: Row, id_: str, by_id: dict[str, Row], gone: set[str]) -> bool:
    """Whether a seat goes with another: all between the two go as well."""
    parent_id = row["parent_id"]
    while parent_id in gone and parent_id != id_:
        parent_id = by_id[parent_id]["parent_id"]
    return bool(parent_id == id_)


def path_of(row: Row, by_id: dict[str, Row]) -> tuple[str, ...]:
    """The names from the root down to a seat."""
    names = [row["name"]]
    while row["parent_id"] is not None and row["parent_id"] in by_id:
        row = by_id[row["parent_id"]]
        names.append(row["name"])
    return tuple(reversed(names))
