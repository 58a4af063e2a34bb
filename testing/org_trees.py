"""Organisations for the tests: seats in small and in random trees, kept by the product's own registry."""

from typing import Any, NamedTuple

from hypothesis import strategies as st

from molecule_core.org.model import Org, Workspace, WorkspaceStatus
from molecule_core.org.registry import OrgRegistry

ORGS = ("red", "blue")


def seat(id_: str, org_id: str = "red", parent_id: str | None = None, **fields: Any) -> Workspace:
    """A workspace with what a test does not care about filled in."""
    usual: dict[str, Any] = {
        "name": id_,
        "role": None,
        "runtime": "generic-mcp",
        "delivery_mode": "poll",
        "url": None,
        "agent_card": None,
        "status": WorkspaceStatus.ONLINE,
        "external": False,
        "tier": 1,
        "max_concurrent_tasks": 1,
        "instruction_template_id": None,
        "instruction_compact": False,
        "broadcast_enabled": False,
        "talk_to_user_enabled": True,
        "collapsed": False,
        "x": 0.0,
        "y": 0.0,
        "rev": 1,
        "created_at": 0,
        "updated_at": 0,
        "removed_at": None,
    }
    return Workspace(id=id_, org_id=org_id, parent_id=parent_id, **{**usual, **fields})


class Forest(NamedTuple):
    """Two organisations and their seats, removed ones too."""

    tree: OrgRegistry
    seats: list[Workspace]
    skip: dict[str, bool]


def forest(seats: list[Workspace], **skip: bool) -> Forest:
    """A forest of these seats; `skip` names the organisations that allow skipping a level."""
    tree = OrgRegistry()
    switches = {org: skip.get(org, False) for org in ORGS}
    for org, allowed in switches.items():
        tree.put_org(Org(org, org, allowed, 0))
    tree.put_workspaces(seats)
    return Forest(tree, seats, switches)


@st.composite
def forests(draw: st.DrawFn, *, may_skip: bool = True, subtrees: bool = False) -> Forest:
    """Random forests. With `subtrees` a removed seat has nobody alive below it, as the product removes them."""
    seats: list[Workspace] = []
    for number in range(draw(st.integers(2, 12))):
        org = draw(st.sampled_from(ORGS))
        above = draw(st.sampled_from([None, *(each for each in seats if each.org_id == org)]))
        gone = draw(st.integers(0, 4)) == 0 or (subtrees and above is not None and above.removed)
        parent_id = above.id if above is not None else None
        seats.append(seat(f"{org} {number}", org, parent_id, removed_at=1 if gone else None))
    return forest(seats, **{org: may_skip and draw(st.booleans()) for org in ORGS})
