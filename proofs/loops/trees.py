"""The judge of delegations that loop: what the store holds of each graph, against the limits that the product promises.

It reads the tables with SQL of its own, and climbs from each delegation to its root itself: no column that the product
counted is believed.
"""

import json
from collections import Counter

from msgspec import Struct

from molecule_core.common.limits import Limits
from proofs.harness.ledger import read_tables
from proofs.harness.settings import Setting

_DELEGATIONS = """SELECT org_id, id, source_id, target_id, status, open, task, parent_id, deadline_at
FROM delegations ORDER BY org_id, created_at, id"""
_EVENTS = "SELECT org_id, name, entity_id, payload FROM events ORDER BY org_id, seq"
_TIMERS = "SELECT key, due FROM timers WHERE kind = 'delegation'"
_SENT, _REFUSED, _FROZEN = "DELEGATION_SENT", "DELEGATION_REFUSED", "CHAIN_FROZEN"
_ENDS = ("DELEGATION_COMPLETE", "DELEGATION_FAILED")
# What one delegation and one refusal may add to a journal, on the whole: one that is answered has eleven (begin, end,
# three rows, three ticks, three states).
LINES_EACH = 12
# And what an organisation adds besides: its agents come and go.
LINES_BESIDE = 60


class Given(Struct):
    """One delegation of the store."""

    org_id: str
    id: str
    source_id: str
    target_id: str
    status: str
    open: int
    task: str
    parent_id: str | None
    deadline_at: int


class Told(Struct):
    """One line of a journal."""

    org_id: str
    name: str
    entity_id: str
    payload: str | None


class Forest(Struct):
    """All that a store holds of delegations. `due`: by the key of the timer."""

    given: list[Given]
    told: list[Told]
    due: dict[str, int]


async def read_forest(setting: Setting) -> Forest:
    """Reads everything, while no server has the store."""
    (given, told, timers), _ = await read_tables(setting, (_DELEGATIONS, _EVENTS, _TIMERS))
    return Forest([Given(*row) for row in given], [Told(*row) for row in told], dict(timers))


def judge(forest: Forest, refused: dict[str, Counter[str]], limits: Limits) -> tuple[dict[str, int], dict[str, int]]:
    """Figures, and what must be zero. `refused`: what the agents of each organisation were told, by the limit."""
    nodes, root_of, depth_of, met = _climbed(forest)
    widest = _widest(forest)
    sizes = Counter(root_of.values())
    refusals = sum(sum(each.values()) for each in refused.values())
    figures = {
        "delegations": len(nodes),
        "refused": refusals,
        **{f"of them {name}": sum(each[name] for each in refused.values()) for name in _named(refused)},
        "deepest": max(depth_of.values(), default=0),
        "widest": max(widest.values(), default=0),
        "largest tree": max(sizes.values(), default=0),
    }
    zeros = {
        "deeper than allowed": sum(depth > limits.delegation_depth for depth in depth_of.values()),
        "wider than allowed": sum(count > limits.delegation_children for count in widest.values()),
        "larger than allowed": sum(count > limits.delegations_per_root for count in sizes.values()),
        "the same task came back on its own way": met,
        "refusals without event": _untold(forest, refused),
        "open without a timer in time": sum(
            forest.due.get(f"{each.org_id}/{each.id}", each.deadline_at + 1) > each.deadline_at
            for each in forest.given
            if each.open
        ),
        "journals too long": sum(count > 0 for count in _too_long(forest, refused).values()),
        "not exactly one end": _ends_wrong(forest),
    }
    return figures, zeros


def _named(refused: dict[str, Counter[str]]) -> list[str]:
    return sorted({name for each in refused.values() for name in each})


def _climbed(forest: Forest) -> tuple[dict[str, Given], dict[str, str], dict[str, int], int]:
    """By id: the delegation, its root, its depth; and how many stand below one of the same task that went from or to
    their target. (Parents begin before children, and the list is in that order.)"""
    nodes = {each.id: each for each in forest.given}
    root_of, depth_of, met = dict[str, str](), dict[str, int](), 0
    for each in forest.given:
        above, top = list[Given](), each
        while top.parent_id is not None:
            top = nodes[top.parent_id]
            above.append(top)
        root_of[each.id], depth_of[each.id] = top.id, len(above) + 1
        words = each.task.split()
        met += any(
            higher.task.split() == words and each.target_id in (higher.source_id, higher.target_id) for higher in above
        )
    return nodes, root_of, depth_of, met


def _widest(forest: Forest) -> dict[str, int]:
    """How many were open below each at once, at most, in the order in which the journal tells it."""
    parents = {each.id: each.parent_id for each in forest.given}
    now, most = Counter[str](), Counter[str]()
    for line in forest.told:
        parent = parents.get(line.entity_id)
        if parent is None:
            continue
        if line.name == _SENT:
            now[parent] += 1
            most[parent] = max(most[parent], now[parent])
        elif line.name in _ENDS:
            now[parent] -= 1
    return most


def _untold(forest: Forest, refused: dict[str, Counter[str]]) -> int:
    """Refusals that agents were told and no event tells with limit, use, most and remedy; and the other way round. A
    chain that is frozen is told once."""
    told: dict[str, Counter[str]] = {}
    for line in forest.told:
        about = json.loads(line.payload or "{}")
        if line.name == _REFUSED and about["use"] >= about["most"] and about["remedy"]:
            told.setdefault(line.org_id, Counter())[about["limit"]] += 1
        elif line.name == _FROZEN:
            told.setdefault(line.org_id, Counter())["chain"] += 1
    wrong = 0
    for org_id in {*told, *refused}:
        seen, heard = Counter(told.get(org_id, ())), Counter(refused.get(org_id, ()))
        seen["chain"], heard["chain"] = min(1, seen["chain"]), min(1, heard["chain"])
        wrong += sum((seen - heard).values()) + sum((heard - seen).values())
    return wrong


def _too_long(forest: Forest, refused: dict[str, Counter[str]]) -> dict[str, int]:
    """By how many lines each journal is longer than its delegations and refusals explain, from the first one on."""
    given, lines = Counter(each.org_id for each in forest.given), Counter[str]()
    begun = set[str]()
    for line in forest.told:
        if line.name == _SENT:
            begun.add(line.org_id)
        lines[line.org_id] += line.org_id in begun
    return {
        org_id: count - LINES_BESIDE - LINES_EACH * (given[org_id] + sum(refused.get(org_id, Counter()).values()))
        for org_id, count in lines.items()
    }


def _ends_wrong(forest: Forest) -> int:
    ends = Counter(line.entity_id for line in forest.told if line.name in _ENDS)
    return sum(ends[each.id] != (not each.open) for each in forest.given)
