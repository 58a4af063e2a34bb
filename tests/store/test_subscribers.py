"""Facts rise: what a command says has happened is heard within its transaction, in order, or nothing is written."""

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec import Struct

from molecule_core.common.errors import NotFound
from molecule_core.common.settings import Settings
from molecule_core.server.composition import Server
from molecule_core.store.database import (
    Command,
    CommandSteps,
    CurrentNumber,
    NextNumber,
    ReadQuery,
    WriteSet,
)
from molecule_core.store.subscribers import MAX_DOMAIN_EVENTS, SubscriberTable
from tests.architecture.repository import REPO
from tests.requirements import requirement
from tests.store.instrumented_store import Bench, event, note, numbered_writes, person


class Fell(Struct, frozen=True):
    """Something has happened."""

    name: str


class Broke(Struct, frozen=True):
    """Something else has, because of it."""

    name: str


@pytest.fixture
def followers(bench: Bench) -> SubscriberTable:
    """Nobody follows yet."""
    return cast(SubscriberTable, bench.store.subscribers)


def telling(*facts: object, name: str = "told", refusal: Exception | None = None) -> Command[str]:
    """A command that writes a note, reads on the way, and puts facts on its write set."""

    def decide() -> CommandSteps[str]:
        yield ReadQuery("meta_value", {"name": "schema"})
        return WriteSet(name, [note(name, "told")], [event()], ("bell",), None, refusal, list(facts))

    return Command("org", (), decide)


def noting(prefix: str, *facts: object) -> Any:
    """A follower that reads, writes a note of what it heard and of what it saw, and may say more."""

    def follow(org_id: str, fact: Any) -> CommandSteps[None]:
        seen = yield ReadQuery("meta_value", {"name": "note told"})
        said = f"{org_id} {len(seen)}"
        bells = (f"bell {prefix}",)
        return WriteSet(None, [note(f"{prefix} {fact.name}", said)], [event(entity=prefix)], bells, domain_events=facts)

    return follow


@requirement("P1")
async def test_a_follower_adds_to_the_transaction_of_the_command(bench: Bench, followers: SubscriberTable) -> None:
    followers.subscribe(Fell, "noting", noting("heard"))
    assert await bench.run(telling(Fell("a"))) == "told"
    assert await bench.notes() == {"note told": "told", "note heard a": "org 0"}
    assert await bench.seen("SELECT entity_id FROM events ORDER BY seq") == [("e",), ("heard",)]
    assert bench.rung == ["bell", "bell heard"]
    assert bench.sizes == [1]


async def test_followers_are_called_in_the_order_of_the_facts_and_of_the_table(
    bench: Bench, followers: SubscriberTable
) -> None:
    followers.subscribe(Broke, "third", noting("third"))
    followers.subscribe(Fell, "first", noting("first"))
    followers.subscribe(Fell, "second", noting("second"))
    await bench.run(telling(Fell("a"), Broke("b"), Fell("c")))
    order = await bench.seen("SELECT entity_id FROM events ORDER BY seq")
    assert [row[0] for row in order] == ["e", "first", "second", "third", "first", "second"]
    assert followers.list_subscriptions() == [("Broke", ("third",)), ("Fell", ("first", "second"))]


async def test_what_a_follower_says_is_followed_in_its_turn(bench: Bench, followers: SubscriberTable) -> None:
    followers.subscribe(Fell, "noting", noting("heard", Broke("because")))
    followers.subscribe(Broke, "noting", noting("then"))
    await bench.run(telling(Fell("a"), Fell("b")))
    order = await bench.seen("SELECT entity_id FROM events ORDER BY seq")
    assert [row[0] for row in order] == ["e", "heard", "heard", "then", "then"]


async def test_a_fact_that_nobody_follows_changes_nothing(bench: Bench, followers: SubscriberTable) -> None:
    followers.subscribe(Broke, "noting", noting("heard"))
    assert await bench.run(telling(Fell("a"))) == "told"
    assert await bench.notes() == {"note told": "told"}


@requirement("P1", "P2")
async def test_a_follower_that_reaches_far_decides_on_all_that_others_have_written(
    bench: Bench, followers: SubscriberTable
) -> None:
    followers.subscribe(Fell, "noting", noting("heard"), isolated=True)
    answers = await bench.together(telling(), telling(Fell("a"), name="far"), telling(name="last"))
    assert answers == ["told", "far", "last"]
    assert (await bench.notes())["note heard a"] == "org 1", "it saw what the first one of its group had written"
    assert bench.sizes == [3, 1, 1, 1]
    await bench.run(telling(Fell("b"), name="again"))
    assert bench.sizes[4:] == [1], "who is alone already is not decided twice"
    assert followers.render_table().endswith("| `Fell` | `noting` (isolated) |")


@requirement("P1")
async def test_of_a_command_whose_follower_fails_nothing_is_written_and_its_group_goes_on(
    bench: Bench, followers: SubscriberTable
) -> None:
    def failing(_org_id: str, fact: Any) -> CommandSteps[None]:
        yield CurrentNumber("last_seq", "w")
        if fact.name == "bad":
            raise ZeroDivisionError
        return WriteSet(None, [note(fact.name)])

    followers.subscribe(Fell, "failing", failing)
    answers = await bench.together(*(telling(Fell(name), name=f"t {name}") for name in ("good", "bad", "fine")))
    assert [type(answer) for answer in answers] == [str, ZeroDivisionError, str]
    assert set(await bench.notes()) == {"note t good", "note good", "note t fine", "note fine"}


@requirement("M16")
async def test_a_follower_that_fails_after_it_took_a_number_leaves_no_gap(
    bench: Bench, followers: SubscriberTable
) -> None:
    def numbering(org_id: str, fact: Any) -> CommandSteps[None]:
        seq = yield NextNumber("last_seq", "w")
        if fact.name == "bad":
            raise ZeroDivisionError
        return WriteSet(None, numbered_writes("w", seq, org_id))

    followers.subscribe(Fell, "numbering", numbering)
    answers = await bench.together(*(telling(Fell(name), name=name) for name in ("a", "bad", "b")))
    assert [type(answer) for answer in answers] == [str, ZeroDivisionError, str]
    assert await bench.seen("SELECT seq FROM activities WHERE workspace_id = 'w' ORDER BY seq") == [(1,), (2,)]


async def test_facts_that_cause_each_other_without_an_end_are_a_mistake(
    bench: Bench, followers: SubscriberTable
) -> None:
    followers.subscribe(Fell, "noting", noting("heard", Broke("x")))
    followers.subscribe(Broke, "noting", noting("then", Fell("x")))
    with pytest.raises(LookupError, match=f"more than {MAX_DOMAIN_EVENTS} domain events"):
        await bench.run(telling(Fell("a")))
    assert await bench.notes() == {}
    ends = [Broke(str(number)) for number in range(MAX_DOMAIN_EVENTS)]
    followers._handlers[Broke]["noting"] = noting("then")
    assert await bench.run(telling(*ends)) == "told"


async def test_facts_are_followed_afresh_when_the_group_is_replayed(bench: Bench, followers: SubscriberTable) -> None:
    def follow(_org_id: str, fact: Any) -> CommandSteps[None]:
        yield from ()
        return WriteSet(None, [person(fact.name)])

    followers.subscribe(Fell, "following", follow)
    answers = await bench.together(*(telling(Fell(name), name=f"t{place}") for place, name in enumerate("aab")))
    assert [isinstance(answer, str) for answer in answers] == [True, False, True]
    assert await bench.seen("SELECT id FROM persons ORDER BY id") == [("pa",), ("pb",)]
    assert set(await bench.notes()) == {"note t0", "note t2"}


async def test_what_is_to_happen_after_the_commit_happens_for_the_command_first(
    bench: Bench, followers: SubscriberTable
) -> None:
    told: list[str] = []

    def after(word: str) -> Any:
        def follow(_org_id: str, _fact: Any) -> CommandSteps[None]:
            yield from ()
            return WriteSet(None, after_commit=lambda: told.append(word))

        return follow

    def decide() -> CommandSteps[None]:
        yield from ()
        return WriteSet(None, [note("a")], after_commit=lambda: told.append("command"), domain_events=[Fell("a")])

    followers.subscribe(Fell, "one", after("one"))
    followers.subscribe(Fell, "two", after("two"))
    await bench.run(Command("org", (), decide))
    assert told == ["command", "one", "two"]


async def test_a_refusal_that_writes_is_followed_too(bench: Bench, followers: SubscriberTable) -> None:
    followers.subscribe(Fell, "noting", noting("heard"))
    with pytest.raises(NotFound):
        await bench.run(telling(Fell("a"), refusal=NotFound(what="it")))
    assert set(await bench.notes()) == {"note told", "note heard a"}


async def test_a_decision_that_is_taken_again_is_not_made_longer_by_its_followers(
    bench: Bench, followers: SubscriberTable
) -> None:
    shared = [note("shared")]

    def decide() -> CommandSteps[None]:
        yield from ()
        return WriteSet(None, shared, domain_events=[Fell("a")])

    followers.subscribe(Fell, "noting", noting("heard"))
    await asyncio.gather(*(bench.run(Command("org", (), decide)) for _ in range(3)))
    assert shared == [note("shared")]


def test_the_same_name_cannot_follow_a_fact_twice() -> None:
    followers = SubscriberTable()
    followers.subscribe(Fell, "noting", noting("heard"))
    with pytest.raises(LookupError, match="noting is already subscribed to Fell"):
        followers.subscribe(Fell, "noting", noting("heard"))


@requirement("A1")
def test_the_printed_order_is_the_one_of_the_server(tmp_path: Path) -> None:
    server = Server(Settings(state_dir=str(tmp_path)), admin_token="test-" + "a" * 32)
    page = (REPO / "docs" / "order.md").read_text(encoding="utf-8")
    assert page.endswith(server.store.subscribers.render_table() + "\n")
