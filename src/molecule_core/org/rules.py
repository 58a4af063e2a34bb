"""Who may talk, who is whose peer, what becomes of a status. Pure."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from molecule_core.common.errors import InvalidField, UrlRequired
from molecule_core.org.model import POLL, PUSH, AgentSignal, Heartbeat, LifecycleAction, Org, Workspace, WorkspaceStatus
from molecule_core.tools.agent_cards import LOADED_TOOLS_MEMBER, tool_names_in

DEGRADED_ERROR_RATE = 0.5
HEALTHY_ERROR_RATE = 0.1
_UUID_LIKE = re.compile(r"[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}", re.IGNORECASE)


class OrgTree(Protocol):
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


def may_talk(tree: OrgTree, one: Workspace, other: Workspace) -> bool:
    """Whether two living workspaces may write to each other. (The one rule; messages.md, item 3.)"""
    return not one.removed and not other.removed and are_related(tree, one, other)


def are_related(tree: OrgTree, one: Workspace, other: Workspace) -> bool:
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
    return _is_below(parents, one.parent_id, other.id) or _is_below(parents, other.parent_id, one.id)


def _is_below(parents: Mapping[str, str | None], parent_id: str | None, ancestor_id: str) -> bool:
    """Whether the way up from a parent leads past somebody."""
    while parent_id is not None and parent_id != ancestor_id:
        parent_id = parents.get(parent_id)
    return parent_id is not None


def move_error(tree: OrgTree, moving: Workspace, parent: Workspace, levels: int) -> str:
    """Why a workspace cannot move below another of its organisation; empty if it can. `levels`: the tree has no more.

    The words name the two, so that a person sees which way round it is."""
    if parent.id == moving.id:
        return f"{moving.name} cannot stand below itself"
    if _is_below(tree.parents(), parent.parent_id, moving.id):  # control: org-tree-cycle
        return f"{parent.name} lies below {moving.name}: that would be a circle"
    if depth(tree, parent) + height(tree, moving) > levels:
        return depth_error(levels)
    return ""


def depth_error(levels: int) -> str:
    """The words for a tree that has no room below."""
    return f"the tree would be deeper than {levels} levels"


def depth(tree: OrgTree, workspace: Workspace) -> int:
    """On which level a workspace stands; a root on the first."""
    return len(list(ancestors(tree, workspace))) + 1


def height(tree: OrgTree, workspace: Workspace) -> int:
    """How many levels a workspace and all below it take."""
    levels, level = 0, [workspace]
    while level:
        levels += 1
        level = [child for each in level for child in tree.children(each)]
    return levels


def neighbours(tree: OrgTree, workspace: Workspace) -> Iterator[Workspace]:
    """All others that are related to a workspace; removed ones only on the way up."""
    yield from peers(tree, workspace)
    if tree.org(workspace.org_id).allow_skip_level:
        yield from list(ancestors(tree, workspace))[1:]
        for child in tree.children(workspace):
            yield from subtree(tree, child)[1:]


def ancestors(tree: OrgTree, workspace: Workspace) -> Iterator[Workspace]:
    """Parent, grandparent and so on up to the root."""
    parent_id = workspace.parent_id
    while parent_id is not None:
        parent = tree.workspace(parent_id)
        if parent is None:
            return
        yield parent
        parent_id = parent.parent_id


def subtree(tree: OrgTree, workspace: Workspace) -> list[Workspace]:
    """A workspace and all live ones below it, parents before children."""
    found = [workspace]
    for each in found:
        found.extend(tree.children(each))
    return found


def peers(tree: OrgTree, workspace: Workspace) -> list[Workspace]:
    """The neighbours: siblings, then children, then the parent. (Where levels may be skipped, a workspace may talk to
    more than it lists; existing clients rely on this list.)"""
    parent = tree.workspace(workspace.parent_id) if workspace.parent_id is not None else None
    level = tree.children(parent) if parent is not None else tree.roots(workspace.org_id)
    siblings = [other for other in level if other.id != workspace.id]
    return siblings + tree.children(workspace) + ([parent] if parent is not None else [])


def resolve_delivery(mode: str | None, url: str | None, stored: tuple[str, str | None]) -> tuple[str, str | None]:
    """How messages reach an agent, and where: what was said, else what was so before. Who polls has no url. Raises
    UrlMissing, InvalidField."""
    mode = mode or stored[0]
    if mode not in (POLL, PUSH):
        raise InvalidField(reason="delivery_mode must be poll or push")
    if mode == POLL:
        return POLL, None
    if not (url or stored[1]):
        raise UrlRequired
    return PUSH, url or stored[1]


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
"""All changes of status that a heartbeat or its absence makes; any other pair changes nothing. (A paused, hibernated or
removed workspace stays so until somebody says otherwise.)"""


def next_status(workspace: Workspace, signal: AgentSignal) -> WorkspaceStatus:
    """The status after a heartbeat, or after none came. A silent external agent is awaited, not offline."""
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
"""What a person's act makes of each status; None: it is refused. (Of who is resumed, `status_of_resumed` says more.)"""


def lifecycle_error(status: WorkspaceStatus, action: LifecycleAction) -> str:
    """Why an act is refused to a workspace of this status, and what to do instead; empty if it is not."""
    if LIFECYCLE_TRANSITIONS[status, action] is not None:
        return ""
    if status is WorkspaceStatus.PAUSED:
        return "resume it before you let it hibernate"
    return "it is gone" if status is WorkspaceStatus.REMOVED else "no agent is there that could be sent to sleep"


def status_after_resume(workspace: Workspace, heartbeat: Heartbeat, *, silent: bool) -> WorkspaceStatus:
    """How a workspace stands once it is not put aside any more: as its last heartbeat says, if that is not too old."""
    if not silent:
        return (
            WorkspaceStatus.DEGRADED
            if classify_heartbeat(heartbeat, wedged=False) is AgentSignal.FAILING
            else WorkspaceStatus.ONLINE
        )
    return WorkspaceStatus.AWAITING_AGENT if workspace.external or not heartbeat.heard_at else WorkspaceStatus.OFFLINE


def status_after_register(workspace: Workspace) -> WorkspaceStatus:
    """The status after an agent took its seat: it has started, so it does not sleep any more."""
    return (
        WorkspaceStatus.ONLINE
        if workspace.status is WorkspaceStatus.HIBERNATED
        else next_status(workspace, AgentSignal.HEALTHY)
    )


def classify_heartbeat(heartbeat: Heartbeat, *, wedged: bool) -> AgentSignal:
    """What a heartbeat says about its agent."""
    if wedged or heartbeat.error_rate >= DEGRADED_ERROR_RATE:
        return AgentSignal.FAILING
    return AgentSignal.HEALTHY if heartbeat.error_rate < HEALTHY_ERROR_RATE else AgentSignal.FAIR


def with_readable_name(card: Any, workspace_name: str) -> Any:
    """A card with a name people can read: the workspace's, where the card has none or only an id."""
    if not isinstance(card, dict):
        return card
    name = card.get("name")
    if isinstance(name, str) and name.strip() and not _UUID_LIKE.fullmatch(name.strip()):
        return card
    return {**card, "name": workspace_name}


def locked_card(old: str | None, card: Any) -> Any:
    """The card of an agent that may not change it: the one that stands, with the tools which the agent has now; the
    first one is its own."""
    if old is None:
        return card
    return card_with_tools(old, card.get(LOADED_TOOLS_MEMBER) if isinstance(card, dict) else None)


def card_with_tools(old: str | None, listed: Any) -> Any:
    """The card that stands, with the tools that its agent has now, if it lists them: their names, and nothing else of
    what it says there."""
    card = {} if old is None else json.loads(old)
    return (
        {**card, LOADED_TOOLS_MEMBER: tool_names_in(listed)}
        if isinstance(card, dict) and isinstance(listed, list)
        else card
    )


def is_same_json(one: str | None, other: str) -> bool:
    """Whether two JSON texts say the same."""
    return one == other or (one is not None and json.loads(one) == json.loads(other))
