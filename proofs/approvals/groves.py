"""The trees of `prove approvals`: seats that are there or not, persons of each role, and what is asked for."""

import asyncio
from random import Random
from typing import Any

from proofs.harness.office import ADMIN_TOKEN, Office
from proofs.harness.settings import Setting
from testing.machines.approval_model import Act, Approval, Grant, Hop, Seat

ACTIONS = ("refund", "mail", "drop the table")
_WORDS = {"approve": ("approve", "approved"), "deny": ("deny", "denied")}
_TREES_EACH = 10
"""So many trees are of one organisation."""
Item = dict[str, Any]


class People:
    """The persons of one organisation: token and id by role."""

    def __init__(self, org_id: str) -> None:
        self.org_id = org_id
        self.tokens = dict[str, str]()
        self.ids = dict[str, str]()


class Tree:
    """A tree of seats, and what they ask for."""

    def __init__(self, number: int, dice: Random, people: People, foreign: People) -> None:
        self.number, self.dice, self.people, self.foreign = number, dice, people, foreign
        self.seats: list[Seat] = []
        self.asked: list[Asked] = []
        self.depth = 0


class Asked:
    """One approval: what it is called, how it should stand, and what was said about it."""

    def __init__(self, tree: Tree, id_: str, model: Approval) -> None:
        self.tree, self.id, self.model = tree, id_, model
        self.said: list[tuple[str, str, Act]] = []
        self.is_lost = False
        """It does not stand as it should: one fault is counted, and no more of what follows from it."""


async def found(office: Office, setting: Setting, numbers: range) -> list[Tree]:
    """New trees, some of each organisation, and the persons of it."""
    people = [
        await _people(office, f"{numbers[0]}-{number}") for number in range((len(numbers) - 1) // _TREES_EACH + 2)
    ]
    dice = [setting.dice("tree", number) for number in numbers]
    trees = [
        Tree(number, dice[place], people[place // _TREES_EACH], people[place // _TREES_EACH + 1])
        for place, number in enumerate(numbers)
    ]
    await asyncio.gather(*(_grow(office, tree) for tree in trees))
    return trees


async def _people(office: Office, name: str) -> People:
    tell = office.tell
    found = People((await tell(ADMIN_TOKEN, "POST", "/orgs", {"name": f"Org {name}"}))["id"])
    for role in ("owner", "operator", "viewer"):
        made = await tell(ADMIN_TOKEN, "POST", f"/orgs/{found.org_id}/people", {"name": role, "role": role})
        found.tokens[role], found.ids[role] = made["auth_token"], made["id"]
    return found


async def _grow(office: Office, tree: Tree) -> None:
    """A chain of managers with a sibling here and there; most are there, some decide things alone."""
    dice = tree.dice
    tree.depth = dice.randint(1, 6)
    for level in range(tree.depth):
        parent = tree.seats[-1] if tree.seats else None
        await _seat(office, tree, parent, is_last=level == tree.depth - 1)
    tree.seats.insert(0, tree.seats.pop())  # the requester first
    if tree.depth > 1:
        await _seat(office, tree, dice.choice(tree.seats[1:]), is_last=True)


async def _seat(office: Office, tree: Tree, parent: Seat | None, *, is_last: bool) -> None:
    tell, dice = office.tell, tree.dice
    wish = {"name": f"T{tree.number}-{len(tree.seats)}", "org_id": tree.people.org_id}
    made = await tell(ADMIN_TOKEN, "POST", "/workspaces", wish | ({"parent_id": parent.id} if parent else {}))
    seat = Seat(made["id"], made["connection"]["auth_token"], parent)
    tree.seats.append(seat)
    kind = "here" if is_last else dice.choice(("here", "here", "here", "here", "dead", "paused"))
    seat.is_here = kind == "here"
    if kind != "dead":
        await tell(seat.token, "POST", "/registry/heartbeat", {"workspace_id": seat.id})
    if kind == "paused":
        await tell(tree.people.tokens["operator"], "POST", f"/workspaces/{seat.id}/pause")
    if not is_last and dice.random() < 0.2:
        seat.grants = [Grant(dice.choice((*ACTIONS, "*")), dice.choice((None, 10.0)))]
        grants = [each._asdict() for each in seat.grants]
        path = f"/workspaces/{seat.id}/standing-authority"
        await tell(tree.people.tokens["owner"], "PUT", path, {"grants": grants})


def some_details(dice: Random) -> Item:
    """What is asked for; not all of it in ASCII."""
    return {"to": dice.choice(("Ann", "Böb", 'a "b"\n')), "sum": dice.randint(1, 3)}


def body_of(act: Act, dice: Random) -> Item:
    """What is sent; a decision has two spellings."""
    body: Item = {"decision": dice.choice(_WORDS.get(act.decision, (act.decision,))), "note": "why?"}
    given = {"revision": act.revision, "action_hash": act.hashed, "details": act.details, "holder": act.holder}
    return body | {name: value for name, value in given.items() if value is not None}


def hops_of(item: Item) -> list[Hop]:
    """The chain of hops, as it was read."""
    return [
        (hop["what"], hop["by"]["kind"], hop["by"]["id"], None if hop["holder"] is None else hop["holder"]["id"])
        for hop in item["path"]
    ]


def stand_of(item: Item) -> tuple[Any, ...]:
    """How it stands, as it was read."""
    said = item["decided"] or {}
    by = said.get("by")
    return (
        *(item["status"], item["revision"], item["action_hash"], item["details"], item["used_at"] is not None),
        *(said.get("decision"), by and (by["kind"], by["id"]), item["holder"]["workspace_id"]),
    )


def meant_of(model: Approval) -> tuple[Any, ...]:
    """How it should stand, in the order of `stand_of`."""
    decision, by = model.decided or (None, None)
    holder = None if model.holder is None else model.holder.id
    holder = model.seat.id if model.status == "info_requested" else holder
    return (
        *(model.status, model.revision, model.hashed, model.details, model.used_at >= 0),
        *(decision, by, holder),
    )
