"""Who may talk, who is whose peer, what becomes of a status. Pure."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from molecule_core.ground.errors import InvalidField, UrlMissing
from molecule_core.org.model import POLL, PUSH, Act, Heard, Org, Pulse, Status, Workspace
from molecule_core.wire.cards import LOADED, names_in

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


def why_not_below(tree: Tree, moving: Workspace, parent: Workspace, levels: int) -> str:
    """Why a workspace cannot move below another of its organisation; empty if it can. `levels`: the tree has no more.

    The words name the two, so that a person sees which way round it is."""
    if parent.id == moving.id:
        return f"{moving.name} cannot stand below itself"
    if _lies_below(tree.parents(), parent.parent_id, moving.id):  # control: org-tree-cycle
        return f"{parent.name} lies below {moving.name}: that would be a circle"
    if depth(tree, parent) + height(tree, moving) > levels:
        return too_deep(levels)
    return ""


def too_deep(levels: int) -> str:
    """The words for a tree that has no room below."""
    return f"the tree would be deeper than {levels} levels"


def depth(tree: Tree, workspace: Workspace) -> int:
    """On which level a workspace stands; a root on the first."""
    return len(list(ancestors(tree, workspace))) + 1


def height(tree: Tree, workspace: Workspace) -> int:
    """How many levels a workspace and all below it take."""
    levels, level = 0, [workspace]
    while level:
        levels += 1
        level = [child for each in level for child in tree.children(each)]
    return levels


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


def delivery(mode: str | None, url: str | None, stored: tuple[str, str | None]) -> tuple[str, str | None]:
    """How messages reach an agent, and where: what was said, else what was so before. Who polls has no url. Raises
    UrlMissing, InvalidField."""
    mode = mode or stored[0]
    if mode not in (POLL, PUSH):
        raise InvalidField(reason="delivery_mode must be poll or push")
    if mode == POLL:
        return POLL, None
    if not (url or stored[1]):
        raise UrlMissing
    return PUSH, url or stored[1]


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


_AT_WORK = (*_WAITING_FOR_AN_AGENT, Status.ONLINE, Status.DEGRADED)
_WITHOUT_AN_AGENT = (Status.PROVISIONING, Status.FAILED)
_ASIDE = (Status.PAUSED, Status.HIBERNATED)
AFTER_ACT: dict[tuple[Status, Act], Status | None] = {
    **{(status, Act.PAUSE): Status.PAUSED for status in (*_AT_WORK, *_ASIDE)},
    **{(status, Act.HIBERNATE): Status.HIBERNATED for status in (*_AT_WORK, Status.HIBERNATED)},
    **{(status, Act.HIBERNATE): None for status in (*_WITHOUT_AN_AGENT, Status.PAUSED)},
    **{(status, Act.RESUME): status for status in _AT_WORK},
    **{(status, Act.RESUME): Status.OFFLINE for status in _ASIDE},
    **{(Status.REMOVED, act): None for act in Act},
}
"""What a person's act makes of each status; None: it is refused. (Of who is resumed, `status_of_resumed` says more.)"""


def why_not(status: Status, act: Act) -> str:
    """Why an act is refused to a workspace of this status, and what to do instead; empty if it is not."""
    if AFTER_ACT[status, act] is not None:
        return ""
    if status is Status.PAUSED:
        return "resume it before you let it hibernate"
    return "it is gone" if status is Status.REMOVED else "no agent is there that could be sent to sleep"


def status_of_resumed(workspace: Workspace, pulse: Pulse, *, silent: bool) -> Status:
    """How a workspace stands once it is not put aside any more: as its last heartbeat says, if that is not too old."""
    if not silent:
        return Status.DEGRADED if heard(pulse, wedged=False) is Heard.FAILING else Status.ONLINE
    return Status.AWAITING_AGENT if workspace.external or not pulse.heard_at else Status.OFFLINE


def status_of_seated(workspace: Workspace) -> Status:
    """The status after an agent took its seat: it has started, so it does not sleep any more."""
    return Status.ONLINE if workspace.status is Status.HIBERNATED else next_status(workspace, Heard.WELL)


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


def standing_card(old: str | None, card: Any) -> Any:
    """The card of an agent that may not change it: the one that stands, with the tools which the agent has now; the
    first one is its own."""
    if old is None:
        return card
    return card_with_tools(old, card.get(LOADED) if isinstance(card, dict) else None)


def card_with_tools(old: str | None, listed: Any) -> Any:
    """The card that stands, with the tools that its agent has now, if it lists them: their names, and nothing else of
    what it says there."""
    card = {} if old is None else json.loads(old)
    return {**card, LOADED: names_in(listed)} if isinstance(card, dict) and isinstance(listed, list) else card


def same_json(one: str | None, other: str) -> bool:
    """Whether two JSON texts say the same."""
    return one == other or (one is not None and json.loads(one) == json.loads(other))
