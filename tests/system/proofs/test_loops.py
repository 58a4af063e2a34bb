"""`scripts/prove loops` at a tenth, the mistakes that it must see, and its judge."""

import json
from collections import Counter
from collections.abc import Callable

import pytest

from molecule_core.common.limits import Limits
from proofs.harness.controls import Control
from proofs.harness.settings import prove, try_control
from proofs.loops.proof import PROOF
from proofs.loops.trees import Forest, Given, Told, judge
from tests.requirements import requirement
from tests.system.proofs.sampling import one_of

SEED = 7
LIMITS = Limits(delegation_depth=2, delegation_children=2, delegations_per_root=4)
Seen = dict[str, Counter[str]]
Change = Callable[[Forest, Seen], object]


@requirement("S11", "D13", "D14")
async def test_agents_that_always_delegate_on_come_to_rest() -> None:
    verdict = await prove(PROOF, "sqlite", "", seed=SEED, tenth=True)

    assert verdict.broken == {}, verdict.notes
    assert verdict.figures["graphs"] == PROOF.sizes["sqlite"] // 10
    shipped = Limits()
    met = [verdict.figures[name] for name in ("deepest", "widest", "largest tree")]
    assert met == [shipped.delegation_depth, shipped.delegation_children, shipped.delegations_per_root]
    refused = [int(verdict.figures[f"of them {name}"]) for name in ("cycle", "depth", "children", "root")]
    assert min(refused) > 0, "a guard that refused nothing has shown nothing"
    assert int(verdict.figures["left to their deadline"]) > 0


@requirement("S11")
@pytest.mark.exhaustive
@pytest.mark.parametrize("control", one_of(PROOF.controls["sqlite"]), ids=lambda control: control.name)
async def test_a_product_that_stops_less_is_seen(control: Control) -> None:
    verdict = await try_control(PROOF, control, "sqlite", "", seed=SEED)

    assert verdict.zeros[control.breaks] > 0, verdict.line()


# -- the judge ---------------------------------------------------------------------------------------------------------


def given(id_: str, parent_id: str | None, source: str, target: str, task: str, *, is_open: bool = False) -> Given:
    return Given("O", id_, source, target, "queued" if is_open else "completed", int(is_open), task, parent_id, 100)


def told(name: str, id_: str, **payload: object) -> Told:
    return Told("O", name, id_, json.dumps(payload))


def story() -> tuple[Forest, Seen]:
    """A tree of two levels that uses all that it may; two are open, and one more was refused."""
    rows = [
        given("a", None, "A", "B", "one"),
        given("b", "a", "B", "C", "two", is_open=True),
        given("c", "a", "B", "D", "one", is_open=True),
        given("d", None, "B", "D", "one"),
    ]
    lines = [told("DELEGATION_SENT", each.id) for each in rows]
    lines += [told("DELEGATION_COMPLETE", "a"), told("DELEGATION_FAILED", "d")]
    lines.append(told("DELEGATION_REFUSED", "B", limit="depth", use=2, most=2, remedy="Do it here."))
    return Forest(rows, lines, {"O/b": 100, "O/c": 60}), {"O": Counter(depth=1)}


def below(parent_id: str, *ids: str, **more: str) -> Change:
    """So many more below one, begun and open."""

    def change(forest: Forest, _seen: Seen) -> None:
        for each in ids:
            words = {"source": "B", "target": "E", "task": each, **more}
            forest.given.append(given(each, parent_id, **words, is_open=True))
            forest.told.append(told("DELEGATION_SENT", each))
            forest.due[f"O/{each}"] = 100

    return change


def end_and_begin(forest: Forest, seen: Seen) -> None:
    """One of two ends before the third begins."""
    forest.given[1].open = 0
    forest.told.append(told("DELEGATION_COMPLETE", "b"))
    below("a", "e")(forest, seen)


WAYS: list[tuple[str, Change]] = [
    ("deeper than allowed", below("b", "e")),
    ("wider than allowed", below("a", "e")),
    ("larger than allowed", below("a", "e", "f")),
    ("the same task came back on its own way", below("a", "e", target="A", task="one")),
    ("the same task came back on its own way", below("b", "e", target="B", task=" one ")),
    ("refusals without event", lambda forest, seen: forest.told.pop()),
    ("refusals without event", lambda forest, seen: forest.told.append(forest.told[-1])),
    ("refusals without event", lambda forest, seen: seen["O"].update(("cycle",))),
    ("refusals without event", lambda forest, seen: seen["O"].update(("chain",))),
    ("open without a timer in time", lambda forest, seen: forest.due.pop("O/b")),
    ("open without a timer in time", lambda forest, seen: forest.due.update({"O/b": 101})),
    ("journals too long", lambda forest, seen: forest.told.extend([told("ACTIVITY_LOGGED", "x")] * 120)),
    ("not exactly one end", lambda forest, seen: forest.told.append(told("DELEGATION_FAILED", "a"))),
    ("not exactly one end", lambda forest, seen: forest.told.append(told("DELEGATION_FAILED", "b"))),
    ("not exactly one end", lambda forest, seen: setattr(forest.given[1], "open", 0)),
]


def broken(forest: Forest, seen: Seen) -> set[str]:
    """What is wrong with a story."""
    return {name for name, count in judge(forest, seen, LIMITS)[1].items() if count}


def test_a_tree_that_uses_all_that_it_may_breaks_nothing() -> None:
    forest, seen = story()
    assert broken(forest, seen) == set()
    end_and_begin(forest, seen)
    assert broken(forest, seen) == set()
    figures = judge(forest, seen, LIMITS)[0]
    assert [figures[name] for name in ("delegations", "refused", "deepest", "widest", "largest tree")] == [
        5,
        1,
        2,
        2,
        4,
    ]


@pytest.mark.parametrize(("zero", "change"), WAYS, ids=[f"{n} {zero}" for n, (zero, _) in enumerate(WAYS)])
def test_each_way_out_of_the_limits_is_counted_under_its_name(zero: str, change: Change) -> None:
    forest, seen = story()
    change(forest, seen)

    assert zero in broken(forest, seen)
