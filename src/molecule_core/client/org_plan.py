"""Compares an org file with an organisation: matches workspaces and plans the changes. Pure.

Called by org_apply and cli; calls org_file.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from molecule_core.client.org_file import OrgFileWorkspace, OrgNode

Row = dict[str, Any]
"""A workspace as in GET /workspaces."""

ABILITIES = ("broadcast_enabled", "talk_to_user_enabled")
_COMPARED_FIELDS = (
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


class CreateWorkspace(Struct, frozen=True):
    """A workspace of the file that the organisation lacks."""

    node_index: int
    node: OrgNode


class UpdateWorkspace(Struct, frozen=True):
    """A workspace that differs from the file or has another parent. `members`: old and new value by name."""

    row: Row
    node: OrgNode
    members: dict[str, tuple[Any, Any]]
    is_moved: bool = False
    old_path: tuple[str, ...] = ()


class RemoveWorkspace(Struct, frozen=True):
    """A workspace that is not in the file, with its remaining descendants, which are not in the file either."""

    row: Row
    path: tuple[str, ...]
    descendants: list[str]


class OrgPlan(Struct, frozen=True):
    """All differences, removals in an order that works.

    `workspace_ids`: the workspace of each node of the file, if any."""

    creations: list[CreateWorkspace]
    updates: list[UpdateWorkspace]
    removed_subtrees: list[RemoveWorkspace]
    workspace_ids: dict[int, str]

    @property
    def is_empty(self) -> bool:
        """Return whether the organisation matches the file."""
        return not (self.creations or self.updates or self.removed_subtrees)

    @property
    def removal_count(self) -> int:
        """Return the number of workspaces to remove."""
        return sum(1 + len(removal.descendants) for removal in self.removed_subtrees)

    def lines(self) -> Iterator[str]:
        """Yield the plan for people, one line for each workspace."""
        for creation in self.creations:
            yield f"+ {format_path(creation.node.path)}{_format_details(creation.node.workspace)}"
        for update in self.updates:
            if update.is_moved:
                yield f"> {format_path(update.old_path)}: move to {format_path(update.node.path)}"
            if update.members:
                changes = ", ".join(
                    f"{name} {_format_value(old)} -> {_format_value(new)}"
                    for name, (old, new) in update.members.items()
                )
                yield f"~ {format_path(update.old_path)}: {changes}"
        for removal in self.removed_subtrees:
            more = (
                f", with {len(removal.descendants)} below: {', '.join(removal.descendants)}"
                if removal.descendants
                else ""
            )
            yield f"- {format_path(removal.path)}{more}"
        moved = sum(update.is_moved for update in self.updates)
        changed = sum(bool(update.members) for update in self.updates)
        yield f"{len(self.creations)} to create, {changed} to change, {moved} to move, {self.removal_count} to remove"


def format_path(path: tuple[str, ...]) -> str:
    """Format a path for people."""
    return " / ".join(path)


def _format_value(value: Any) -> str:
    return "nothing" if value in (None, "") else f"{value!r}" if isinstance(value, str) else str(value).lower()


def _format_details(workspace: OrgFileWorkspace) -> str:
    details = [
        f"{name} {_format_value(getattr(workspace, name))}" for name in ("role", "runtime") if getattr(workspace, name)
    ]
    return f" ({', '.join(details)})" if details else ""


def make_plan(wanted: list[OrgNode], rows: list[Row], known: Mapping[int, str] | None = None) -> OrgPlan:
    """Plan the changes from these rows to the file. `known`: workspaces already created for nodes."""
    by_id = {row["id"]: row for row in rows}
    ids = _match_nodes(wanted, rows, {number: id_ for number, id_ in (known or {}).items() if id_ in by_id})
    creations, updates = [], []
    for number, node in enumerate(wanted):
        if number not in ids:
            creations.append(CreateWorkspace(number, node))
            continue
        row = by_id[ids[number]]
        moves = row["parent_id"] != (None if node.parent_index is None else ids.get(node.parent_index))
        members = _differences(node.workspace, row)
        if moves or members:
            updates.append(UpdateWorkspace(row, node, members, moves, row_path(row, by_id)))
    return OrgPlan(creations, updates, _plan_removals(rows, by_id, set(ids.values())), ids)


def _match_nodes(wanted: list[OrgNode], rows: list[Row], known: dict[int, str]) -> dict[int, str]:
    """Match nodes to workspaces: by key, else by name below the parent's workspace."""
    by_key = {row["key"]: row["id"] for row in rows if row["key"] is not None}
    ids = dict(known)
    for number, node in enumerate(wanted):
        if node.workspace.key in by_key:
            ids.setdefault(number, by_key[node.workspace.key])
    taken = set(ids.values())
    by_parent_and_name = {(row["parent_id"], row["name"]): row for row in rows}
    for number, node in enumerate(wanted):
        if number in ids or (node.parent_index is not None and node.parent_index not in ids):
            continue
        row = by_parent_and_name.get(
            (None if node.parent_index is None else ids[node.parent_index], node.workspace.name)
        )
        if row is not None and row["id"] not in taken and (node.workspace.key is None or row["key"] is None):
            ids[number] = row["id"]
            taken.add(row["id"])
    return ids


def _differences(workspace: OrgFileWorkspace, row: Row) -> dict[str, tuple[Any, Any]]:
    wanted: dict[str, Any] = {name: getattr(workspace, name) for name in _COMPARED_FIELDS}
    wanted["role"] = workspace.role or None
    for name in ("key", "delivery_mode", "url", "a2a_card_url"):
        if getattr(workspace, name) is not None:
            wanted[name] = getattr(workspace, name)
    existing = {**row, "role": row["role"] or None}
    return {name: (existing[name], value) for name, value in wanted.items() if existing[name] != value}


def _plan_removals(rows: list[Row], by_id: dict[str, Row], kept: set[str]) -> list[RemoveWorkspace]:
    """Plan removals of topmost workspaces: remaining workspaces are moved out first."""
    removed_rows = [row for row in rows if row["id"] not in kept]
    removed_ids = {row["id"] for row in removed_rows}
    removals = []
    for row in removed_rows:
        if row["parent_id"] not in removed_ids:
            descendants = [
                each["name"]
                for each in removed_rows
                if each is not row and _is_below(each, row["id"], by_id, removed_ids)
            ]
            removals.append(RemoveWorkspace(row, row_path(row, by_id), descendants))
    return removals


def _is_below(row: Row, id_: str, by_id: dict[str, Row], removed_ids: set[str]) -> bool:
    """Return whether a workspace is removed with another: all workspaces between the two are removed as well."""
    parent_id = row["parent_id"]
    while parent_id in removed_ids and parent_id != id_:
        parent_id = by_id[parent_id]["parent_id"]
    return bool(parent_id == id_)


def row_path(row: Row, by_id: dict[str, Row]) -> tuple[str, ...]:
    """Return the names from the root to a workspace."""
    names = [row["name"]]
    while row["parent_id"] is not None and row["parent_id"] in by_id:
        row = by_id[row["parent_id"]]
        names.append(row["name"])
    return tuple(reversed(names))
