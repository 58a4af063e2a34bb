"""Who may talk, who is whose peer, what becomes of a status. Pure."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from molecule_core.org.model import Heard, Org, Pulse, Status, Workspace

DEGRADED_FROM = 0.5
HEALED_BELOW = 0.1
_UUID_LIKE = re.compile(r"[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}", re.IGNORECASE)


class Tree(Protocol):
    """What the rules need to know of an organisation."""

    def workspace(self, workspace_id: str) -> Workspace | None:
        """A workspace by its id, also a removed one."""

    def parents(self) -> Mapping[str, str | None]:
        """The id of each workspace's parent, also of removed ones."""

    def children(self, workspace: Workspace) -> list[Workspace]:
        """The live workspaces right below, oldest first."""

    def roots(self, org_id: str) -> list[Workspace]:
        """The live workspaces at the top of an organisation, oldest first."""

    def org(self, org_id: str) -> Org:
        """An organisation."""


def may_talk(tree: Tree, one: Workspace, other: Workspace) -> bool:
    """Whether two living workspaces may write to each other. (The one rule; messages.md, item 3.)"""
    return not one.removed and not other.removed and related(tree, one, other)


def related(tree: Tree, one: Workspace, other: Workspace) -> bool:
    """Itself, parent, children, siblings; two roots are siblings inside their organisation. Ancestors and descendants
    only if the organisation allows skipping a level."""
    if one.org_id != other.org_id:
        return False
    if one.id == other.id or one.parent_id == other.parent_id:
        return True
    if one.parent_id == other.id or other.parent_id == one.id:
        return True
    if not tree.org(one.org_id).allow_skip_level:
        return False
    parents = tree.parents()
    return _lies_below(parents, one.parent_id, other.id) or _lies_below(parents, other.parent_id, one.id)


def _lies_below(parents: Mapping[str, str | None], parent_id: str | None, ancestor_id: str) -> bool:
    """Whether the way up from a parent leads past somebody."""
    while parent_id is not None and parent_id != ancestor_id:
        parent_id = parents.get(parent_id)
    return parent_id is not None


def neighbours(tree: Tree, workspace: Workspace) -> Iterator[Workspace]:
    """All others that are related to a workspace; removed ones only on the way up."""
    yield from peers(tree, workspace)
    if tree.org(workspace.org_id).allow_skip_level:
        yield from list(ancestors(tree, workspace))[1:]
        for child in tree.children(workspace):
            yield from subtree(tree, child)[1:]


def ancestors(tree: Tree, workspace: Workspace) -> Iterator[Workspace]:
    """Parent, grandparent and so on up to the root."""
    parent_id = workspace.parent_id
    while parent_id is not None:
        parent = tree.workspace(parent_id)
        if parent is None:
            return
        yield parent
        parent_id = parent.parent_id


def subtree(tree: Tree, workspace: Workspace) -> list[Workspace]:
    """A workspace and all live ones below it, parents before children."""
    found = [workspace]
    for each in found:
        found.extend(tree.children(each))
    return found


def peers(tree: Tree, workspace: Workspace) -> list[Workspace]:
    """The neighbours: siblings, then children, then the parent. (Where levels may be skipped, a workspace may talk to
    more than it lists; existing clients rely on this list.)"""
    parent = tree.workspace(workspace.parent_id) if workspace.parent_id is not None else None
    level = tree.children(parent) if parent is not None else tree.roots(workspace.org_id)
    siblings = [other for other in level if other.id != workspace.id]
    return siblings + tree.children(workspace) + ([parent] if parent is not None else [])


_WAITING_FOR_AN_AGENT = (Status.PROVISIONING, Status.OFFLINE, Status.AWAITING_AGENT, Status.FAILED)
NEXT_STATUS: dict[tuple[Status, Heard], Status] = {
    **{(status, Heard.WELL): Status.ONLINE for status in (*_WAITING_FOR_AN_AGENT, Status.DEGRADED)},
    **{(status, Heard.FAIR): Status.ONLINE for status in _WAITING_FOR_AN_AGENT},
    **{(status, Heard.FAILING): Status.DEGRADED for status in (*_WAITING_FOR_AN_AGENT, Status.ONLINE)},
    **{(status, Heard.SILENT): Status.OFFLINE for status in (Status.ONLINE, Status.DEGRADED)},
}
"""All changes of status that a heartbeat or its absence makes; any other pair changes nothing. (A paused, hibernated or
removed workspace stays so until somebody says otherwise.)"""


def next_status(workspace: Workspace, heard: Heard) -> Status:
    """The status after a heartbeat, or after none came. A silent external agent is awaited, not offline."""
    status = NEXT_STATUS.get((workspace.status, heard), workspace.status)
    if status is Status.OFFLINE and workspace.status is not Status.OFFLINE and workspace.external:
        return Status.AWAITING_AGENT
    return status


def heard(pulse: Pulse, *, wedged: bool) -> Heard:
    """What a heartbeat says about its agent."""
    if wedged or pulse.error_rate >= DEGRADED_FROM:
        return Heard.FAILING
    return Heard.WELL if pulse.error_rate < HEALED_BELOW else Heard.FAIR


def complete_card(card: Any, workspace_name: str) -> Any:
    """A card with a name people can read: the workspace's, where the card has none or only an id."""
    if not isinstance(card, dict):
        return card
    name = card.get("name")
    if isinstance(name, str) and name.strip() and not _UUID_LIKE.fullmatch(name.strip()):
        return card
    return {**card, "name": workspace_name}


def same_json(one: str | None, other: str) -> bool:
    """Whether two JSON texts say the same."""
    return one == other or (one is not None and json.loads(one) == json.loads(other))
