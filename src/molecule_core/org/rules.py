"""Rules: which workspaces may talk, who is a peer, and how a status changes. Pure functions."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from molecule_core.common.errors import ConfirmationRequired, InvalidField, UrlRequired
from molecule_core.org.model import (
    AgentSignal,
    DeliveryMode,
    Heartbeat,
    LifecycleAction,
    Org,
    TeamSpec,
    Workspace,
    WorkspaceStatus,
)
from molecule_core.wire.schemas.agent_cards import LOADED_TOOLS_MEMBER, declared_tools, tool_names_in

DEGRADED_ERROR_RATE = 0.5
HEALTHY_ERROR_RATE = 0.1
PRESENCES_PER_SILENCE = 3
"""How often presence is recorded at most within `limits.silence_seconds`: two of three may be late."""
_UUID_LIKE = re.compile(r"[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}", re.IGNORECASE)


class OrgTree(Protocol):
    """The part of the org tree that the rules read."""

    def workspace(self, workspace_id: str) -> Workspace | None:
        """Return a workspace by its id, removed ones included, or None."""

    def parents(self) -> Mapping[str, str | None]:
        """Return the parent id of each workspace, removed ones included."""

    def children(self, workspace: Workspace) -> list[Workspace]:
        """Return the active children of a workspace, oldest first."""

    def roots(self, org_id: str) -> list[Workspace]:
        """Return the active root workspaces of an organisation, oldest first."""

    def org(self, org_id: str) -> Org:
        """Return an organisation."""


def may_talk(tree: OrgTree, one: Workspace, other: Workspace) -> bool:
    """Return whether two active workspaces may send messages to each other."""
    return not one.removed and not other.removed and are_related(tree, one, other)


def are_related(tree: OrgTree, one: Workspace, other: Workspace) -> bool:
    """Return whether two workspaces are the same, parent and child, or siblings.

    Roots of one organisation are siblings. Ancestors and descendants are related only if the organisation allows
    skipping levels."""
    if one.org_id != other.org_id:
        return False
    if one.id == other.id or one.parent_id == other.parent_id:
        return True
    if one.parent_id == other.id or other.parent_id == one.id:
        return True
    if not tree.org(one.org_id).allow_skip_level:
        return False
    parents = tree.parents()
    return _is_below(parents, one.parent_id, other.id) or _is_below(parents, other.parent_id, one.id)


def _is_below(parents: Mapping[str, str | None], parent_id: str | None, ancestor_id: str) -> bool:
    """Return whether `ancestor_id` is `parent_id` or one of its ancestors."""
    while parent_id is not None and parent_id != ancestor_id:
        parent_id = parents.get(parent_id)
    return parent_id is not None


def move_error(tree: OrgTree, moving: Workspace, parent: Workspace, levels: int) -> str:
    """Return why a workspace cannot move below `parent`, or "" if it can.

    `levels`: the maximum depth of the tree. The text names both workspaces, so that a person sees which is above which.
    """
    if parent.id == moving.id:
        return f"{moving.name} cannot be moved below itself"
    if _is_below(tree.parents(), parent.parent_id, moving.id):  # control: org-tree-cycle
        return f"{parent.name} is below {moving.name}, so the move would create a circle"
    if depth(tree, parent) + height(tree, moving) > levels:
        return depth_error(levels)
    return ""


def depth_error(levels: int) -> str:
    """Return the error text for a tree that would be too deep."""
    return f"the tree would be deeper than the limit of {levels} levels"


def depth(tree: OrgTree, workspace: Workspace) -> int:
    """Return the level of a workspace; roots are on level 1."""
    return len(list(ancestors(tree, workspace))) + 1


def height(tree: OrgTree, workspace: Workspace) -> int:
    """Return the number of levels of a workspace and its descendants."""
    levels, level = 0, [workspace]
    while level:
        levels += 1
        level = [child for each in level for child in tree.children(each)]
    return levels


def neighbours(tree: OrgTree, workspace: Workspace) -> Iterator[Workspace]:
    """Yield all other related workspaces; removed ones only among the ancestors."""
    yield from peers(tree, workspace)
    if tree.org(workspace.org_id).allow_skip_level:
        yield from list(ancestors(tree, workspace))[1:]
        for child in tree.children(workspace):
            yield from subtree(tree, child)[1:]


def ancestors(tree: OrgTree, workspace: Workspace) -> Iterator[Workspace]:
    """Yield the parent, the grandparent and so on up to the root."""
    parent_id = workspace.parent_id
    while parent_id is not None:
        parent = tree.workspace(parent_id)
        if parent is None:
            return
        yield parent
        parent_id = parent.parent_id


def subtree(tree: OrgTree, workspace: Workspace) -> list[Workspace]:
    """Return a workspace and its active descendants, parents before children."""
    found = [workspace]
    for each in found:
        found.extend(tree.children(each))
    return found


def peers(tree: OrgTree, workspace: Workspace) -> list[Workspace]:
    """Return the siblings, then the children, then the parent.

    Existing clients rely on this list, so it stays the same where skipping levels allows a workspace to talk to more.
    """
    parent = tree.workspace(workspace.parent_id) if workspace.parent_id is not None else None
    level = tree.children(parent) if parent is not None else tree.roots(workspace.org_id)
    siblings = [other for other in level if other.id != workspace.id]
    return siblings + tree.children(workspace) + ([parent] if parent is not None else [])


def resolve_delivery(mode: str | None, url: str | None, stored: tuple[str, str | None]) -> tuple[str, str | None]:
    """Return delivery mode and URL: the given ones, else the stored ones. Poll mode has no URL.

    Raises UrlRequired, InvalidField."""
    mode = mode or stored[0]
    if mode not in (DeliveryMode.POLL, DeliveryMode.PUSH):
        raise InvalidField(reason="delivery_mode has an unknown value. Use poll or push.")
    if mode == DeliveryMode.POLL:
        return DeliveryMode.POLL, None
    if not (url or stored[1]):
        raise UrlRequired
    return DeliveryMode.PUSH, url or stored[1]


def requested_delivery(old: Workspace, mode: str | None, url: str | None) -> tuple[str | None, str | None]:
    """Return the delivery that a change requests. A workspace that loses its A2A agent polls, unless a url is given."""
    if old.a2a_card_url is None or url is not None:
        return mode, url
    return (mode or DeliveryMode.POLL, None)


_WITHOUT_LIVE_AGENT = (
    WorkspaceStatus.PROVISIONING,
    WorkspaceStatus.OFFLINE,
    WorkspaceStatus.AWAITING_AGENT,
    WorkspaceStatus.FAILED,
)
SIGNAL_TRANSITIONS: dict[tuple[WorkspaceStatus, AgentSignal], WorkspaceStatus] = {
    **{
        (status, AgentSignal.HEALTHY): WorkspaceStatus.ONLINE
        for status in (*_WITHOUT_LIVE_AGENT, WorkspaceStatus.DEGRADED)
    },
    **{(status, AgentSignal.FAIR): WorkspaceStatus.ONLINE for status in _WITHOUT_LIVE_AGENT},
    **{
        (status, AgentSignal.FAILING): WorkspaceStatus.DEGRADED
        for status in (*_WITHOUT_LIVE_AGENT, WorkspaceStatus.ONLINE)
    },
    **{
        (status, AgentSignal.SILENT): WorkspaceStatus.OFFLINE
        for status in (WorkspaceStatus.ONLINE, WorkspaceStatus.DEGRADED)
    },
}
"""All status changes caused by a heartbeat or its absence; any other pair changes nothing.

Paused, hibernated and removed workspaces keep their status."""


def next_status(workspace: Workspace, signal: AgentSignal) -> WorkspaceStatus:
    """Return the status after a signal. A silent external agent becomes `awaiting_agent`, not `offline`."""
    status = SIGNAL_TRANSITIONS.get((workspace.status, signal), workspace.status)
    if status is WorkspaceStatus.OFFLINE and workspace.status is not WorkspaceStatus.OFFLINE and workspace.external:
        return WorkspaceStatus.AWAITING_AGENT
    return status


_IN_SERVICE = (*_WITHOUT_LIVE_AGENT, WorkspaceStatus.ONLINE, WorkspaceStatus.DEGRADED)
_NEVER_REGISTERED = (WorkspaceStatus.PROVISIONING, WorkspaceStatus.FAILED)
_SUSPENDED = (WorkspaceStatus.PAUSED, WorkspaceStatus.HIBERNATED)
LIFECYCLE_TRANSITIONS: dict[tuple[WorkspaceStatus, LifecycleAction], WorkspaceStatus | None] = {
    **{(status, LifecycleAction.PAUSE): WorkspaceStatus.PAUSED for status in (*_IN_SERVICE, *_SUSPENDED)},
    **{
        (status, LifecycleAction.HIBERNATE): WorkspaceStatus.HIBERNATED
        for status in (*_IN_SERVICE, WorkspaceStatus.HIBERNATED)
    },
    **{(status, LifecycleAction.HIBERNATE): None for status in (*_NEVER_REGISTERED, WorkspaceStatus.PAUSED)},
    **{(status, LifecycleAction.RESUME): status for status in _IN_SERVICE},
    **{(status, LifecycleAction.RESUME): WorkspaceStatus.OFFLINE for status in _SUSPENDED},
    **{(WorkspaceStatus.REMOVED, action): None for action in LifecycleAction},
}
"""Status after a lifecycle action; None: rejected. For a resume, `status_after_resume` refines it."""


_REMOVED_ERROR = "a removed workspace cannot be changed. Create a new one."
_NO_AGENT_ERROR = "a workspace without a connected agent cannot hibernate. Connect its agent first."


def lifecycle_error(status: WorkspaceStatus, action: LifecycleAction) -> str:
    """Return why an action is rejected in this status and what to do instead, or "" if it is allowed."""
    if LIFECYCLE_TRANSITIONS[status, action] is not None:
        return ""
    if status is WorkspaceStatus.PAUSED:
        return "a paused workspace cannot hibernate. Resume it first."
    return _REMOVED_ERROR if status is WorkspaceStatus.REMOVED else _NO_AGENT_ERROR


def status_after_resume(workspace: Workspace, heartbeat: Heartbeat, *, silent: bool) -> WorkspaceStatus:
    """Return the status after a resume: from the last heartbeat, or offline or awaiting if that is too old."""
    if not silent:
        return (
            WorkspaceStatus.DEGRADED
            if classify_heartbeat(heartbeat, wedged=False) is AgentSignal.FAILING
            else WorkspaceStatus.ONLINE
        )
    return WorkspaceStatus.AWAITING_AGENT if workspace.external or not heartbeat.heard_at else WorkspaceStatus.OFFLINE


def status_after_register(workspace: Workspace) -> WorkspaceStatus:
    """Return the status after an agent registers. A registration ends hibernation, since the agent has started."""
    return (
        WorkspaceStatus.ONLINE
        if workspace.status is WorkspaceStatus.HIBERNATED
        else next_status(workspace, AgentSignal.HEALTHY)
    )


def classify_heartbeat(heartbeat: Heartbeat, *, wedged: bool) -> AgentSignal:
    """Return what a heartbeat means for the status of its agent."""
    if wedged or heartbeat.error_rate >= DEGRADED_ERROR_RATE:
        return AgentSignal.FAILING
    return AgentSignal.HEALTHY if heartbeat.error_rate < HEALTHY_ERROR_RATE else AgentSignal.FAIR


def with_readable_name(card: Any, workspace_name: str) -> Any:
    """Return the card with the workspace's name if its own name is missing or an id."""
    if not isinstance(card, dict):
        return card
    name = card.get("name")
    if isinstance(name, str) and name.strip() and not _UUID_LIKE.fullmatch(name.strip()):
        return card
    return {**card, "name": workspace_name}


def locked_card(old: str | None, card: Any) -> Any:
    """Return the card of an agent that may not change it: the old one with the current tools.

    The agent's first card is accepted."""
    if old is None:
        return card
    return card_with_tools(old, card.get(LOADED_TOOLS_MEMBER) if isinstance(card, dict) else None)


def merged_card(old: str | None, card: Any) -> Any:
    """Return the card after a registration: the old one with the members that the agent names now.

    A start knows little of the agent, often only a name and tools; what was described before stays."""
    known = {} if old is None else json.loads(old)
    return {**known, **card} if isinstance(known, dict) and isinstance(card, dict) else card


def card_with_tools(old: str | None, listed: Any) -> Any:
    """Return the old card with the names of the listed tools, if `listed` is a list."""
    card = {} if old is None else json.loads(old)
    return (
        {**card, LOADED_TOOLS_MEMBER: tool_names_in(listed)}
        if isinstance(card, dict) and isinstance(listed, list)
        else card
    )


def lists_tools(card: str | None) -> bool:
    """Return whether a card lists the tools of its agent."""
    return card is not None and declared_tools(json.loads(card)) is not None


def is_same_json(one: str | None, other: str) -> bool:
    """Return whether two JSON texts have the same value."""
    return one == other or (one is not None and json.loads(one) == json.loads(other))


def team_levels(team: tuple[TeamSpec, ...]) -> list[tuple[TeamSpec, ...]]:
    """Return the members of a team, level by level."""
    found, level = [], team
    while level:
        found.append(level)
        level = tuple(below for each in level for below in each.children)
    return found


def check_confirmed(
    verb: str, workspace: Workspace, descendants: list[Workspace], *, confirmed: bool, typed_name: str | None
) -> None:
    """Raise ConfirmationRequired with the affected workspaces, unless confirmed.

    A typed name must be the current name of the workspace."""
    if confirmed and typed_name in (None, workspace.name):
        return
    children = [{"id": each.id, "name": each.name} for each in descendants]
    raise ConfirmationRequired(verb=verb, name=workspace.name, children=children, children_count=len(children))
