"""Random texts and random queries on both engines, compared with a search in Python's own words."""

import random
import unicodedata
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from molecule_core.common.limits import Limits
from molecule_core.common.search_terms import locate_terms, split_terms
from molecule_core.delegations.model import Delegation
from molecule_core.search.model import SearchKind
from molecule_core.search.rules import parse_query
from molecule_core.store.database import JournalEvent
from testing.engines import ENGINES
from testing.machines.search_store import MAX_INT, World, Written, world_on
from tests.memory.test_search import HOSTILE, VOCABULARY
from tests.requirements import requirement

TEXTS, QUERIES, ALL_QUERIES = 240, 400, 10_000
COMMON = ["fig", "kiwi fig", '"figs and"', "de", "dep", "köl"]
LIMITS = Limits(search_results=1000, search_text_characters=6000)


class Scene(NamedTuple):
    """A world on one engine, its organisations with their workspaces, and all that was written, oldest first."""

    world: World
    seats: dict[str, list[str]]
    written: list[Written]


@pytest.fixture(scope="module", params=ENGINES)
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, postgres: str) -> Iterator[Scene]:
    """Texts of three organisations, one of them large, indexed piece by piece as they come."""
    chance = random.Random(90)
    with world_on(request.param, tmp_path_factory.mktemp("search"), postgres, LIMITS) as world:
        seats = {org: [world.seat(org) for _ in range(count)] for org, count in ((world.org(), n) for n in (5, 2, 1))}
        written = []
        for _ in range(TEXTS):
            org = chance.choice(list(seats))
            first, second = chance.choice(seats[org]), chance.choice(seats[org])
            text = random_text(chance) + chance.choice(["", " fig", " figs and kiwis"])
            written.append(world.write(org, chance.choice(list(SearchKind)), text, first, second))
            if chance.random() < 0.1:
                world.run(world.indexer.index_piece())
        world.index()
        yield Scene(world, seats, written)


def random_text(chance: random.Random) -> str:
    """Ordinary words and hostile ones, with or without blanks."""
    parts = chance.choices(VOCABULARY + HOSTILE, k=chance.randint(1, 7))
    return chance.choice(["", " ", " ", "-", "\n", '"']).join(parts).replace("\x00", "")


def expected(scene: Scene, org: str, query: str, wish: dict[str, Any]) -> list[tuple[str, int]]:
    """What a search must find, newest first."""
    terms = parse_query(query, LIMITS.search_query_words)
    assert terms is not None
    found = []
    for each in reversed(scene.written):
        words = split_terms(each.text[: LIMITS.search_text_characters])
        begins = terms.is_prefix and any(word.startswith(terms.words[-1]) for word in words)
        has_words = set(words).issuperset(terms.words[:-1]) and (terms.words[-1] in words or begins)
        has_phrases = all(
            any(tuple(words[at : at + len(phrase)]) == phrase for at in range(len(words))) for phrase in terms.phrases
        )
        is_allowed = each.org_id == org and each.kind in wish.get("kinds", tuple(SearchKind))
        in_workspace = wish.get("workspace_id") in (None, *each.workspace_ids)
        in_time = wish.get("since", 0) <= each.at < wish.get("until", MAX_INT)
        if has_words and has_phrases and is_allowed and in_workspace and in_time:
            found.append((each.id, each.ordinal))
    return found


def random_wish(chance: random.Random, scene: Scene) -> dict[str, Any]:
    """Random filters; the workspace may be one of another organisation."""
    wish: dict[str, Any] = {}
    if chance.random() < 0.3:
        wish["kinds"] = tuple(chance.sample(list(SearchKind), chance.randint(1, 4)))
    if chance.random() < 0.3:
        wish["workspace_id"] = chance.choice([each for some in scene.seats.values() for each in some])
    if chance.random() < 0.2:
        wish["since"] = chance.choice(scene.written).at
    if chance.random() < 0.2:
        wish["until"] = chance.choice(scene.written).at
    return wish


def compare(scene: Scene, queries: int) -> int:
    """Compares random searches with what they must find; the number of those that found something."""
    chance, hits = random.Random(29), 0
    for _ in range(queries):
        query = chance.choice(
            [random_text(chance), chance.choice(["fig", "kiwi fig", '"figs and"', "de", "dep", "köl"])]
        )
        org, wish = chance.choice(list(scene.seats)), random_wish(chance, scene)
        page = scene.world.search(org, query, **wish)
        if page is None:
            assert split_terms(query) == []
            continue
        found = [(each.document.ref.id, each.document.ref.ordinal) for each in page.hits]
        assert found == expected(scene, org, query, wish), (query, wish)
        assert {each.document.org_id for each in page.hits} <= {org}
        hits += bool(found)
    return hits


@requirement("SE1", "S14")
@pytest.mark.long
def test_random_queries_find_what_their_words_say_and_nothing_of_others(scene: Scene) -> None:
    assert compare(scene, QUERIES) > QUERIES / 20


@pytest.mark.long
@requirement("SE1")
def test_ten_thousand_random_queries_find_nothing_of_others(scene: Scene) -> None:
    assert compare(scene, ALL_QUERIES) > ALL_QUERIES / 20


@requirement("SE1")
def test_pages_of_any_size_give_the_whole_result_once(scene: Scene) -> None:
    chance = random.Random(1)
    for _ in range(20):
        org, limit = chance.choice(list(scene.seats)), chance.randint(1, 9)
        found, wish = list[tuple[str, int]](), {"limit": limit}
        while True:
            page = scene.world.search(org, "fig", **wish)
            assert page is not None
            found += [(each.document.ref.id, each.document.ref.ordinal) for each in page.hits]
            if page.next_before is None:
                break
            wish["before"] = page.next_before
        assert found == expected(scene, org, "fig", {})


@requirement("SE1")
def test_marked_places_of_snippets_are_the_words_of_the_query(scene: Scene) -> None:
    chance = random.Random(2)
    marked = 0
    for _ in range(100):
        query, org = random_text(chance), chance.choice(list(scene.seats))
        terms = parse_query(query, LIMITS.search_query_words)
        page = scene.world.search(org, query) if terms else None
        for hit in page.hits if page else ():
            assert len(hit.snippet.text) <= LIMITS.search_snippet_characters
            assert not any(unicodedata.category(each) in ("Cc", "Zl", "Zp") for each in hit.snippet.text)
            for first, end in hit.snippet.matches:
                assert 0 <= first < end <= len(hit.snippet.text)
                marked += 1
    assert marked > 20


@requirement("SE1")
def test_places_of_terms_are_those_of_their_words() -> None:
    chance = random.Random(3)
    for _ in range(400):
        text = random_text(chance)
        places = list(locate_terms(text, lambda _: True))
        assert places == sorted(places)
        assert len(places) == len(split_terms(text)) or not text.isascii()
        for first, end in places:
            assert split_terms(text[first:end]), (text, first, end)


# -- the index ---------------------------------------------------------------------------------------------------------


def all_found(world: World, org: str, words: str = "fig") -> list[str]:
    """The ids that a search finds, newest first."""
    page = world.search(org, words)
    assert page is not None
    return [each.document.ref.id for each in page.hits]


@pytest.fixture(params=ENGINES)
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, postgres: str) -> Iterator[World]:
    """An empty world on each engine."""
    with world_on(request.param, tmp_path_factory.mktemp("index"), postgres, LIMITS) as made:
        yield made


def write_many(world: World, org: str, seats: list[str], count: int) -> list[Written]:
    """Texts of every kind in some workspaces."""
    kinds = list(SearchKind)
    return [
        world.write(org, kinds[number % 4], f"fig {number}", seats[number % len(seats)], seats[0])
        for number in range(count)
    ]


@requirement("SE2")
def test_what_older_stores_have_is_indexed_piece_by_piece_also_by_another_process(world: World) -> None:
    org = world.org()
    seats = [world.seat(org) for _ in range(7)]
    written = write_many(world, org, seats, 320)
    last = world.run(world.store.rows("last_event", {"key": org}))[0][0]
    # As the migration of an older store leaves it.
    world.change(org, [("save_search_position", {"org_id": org, "seq": last, "backfill": "{}"})], [])
    newer = world.write(org, SearchKind.MESSAGE, "fig that came later", seats[3], seats[0])
    page = world.search(org, "fig")
    assert page is not None and (page.hits, page.is_complete) == ([], False)
    world.indexer.on_commit([f"org:{org}"])
    world.run(world.indexer.index_piece())
    assert all_found(world, org) == [newer.id], "what is new comes first"
    pieces = 0
    indexer = world.new_indexer()
    indexer.on_commit([f"org:{org}"])
    while world.run(indexer.index_piece()):
        pieces += 1
        if pieces % 3 == 0:  # the process ends, and another one goes on
            indexer = world.new_indexer()
            indexer.on_commit([f"org:{org}"])
    assert pieces > 5
    assert all_found(world, org) == [newer.id, *(each.id for each in reversed(written))]
    page = world.search(org, "fig")
    assert page is not None and page.is_complete


@requirement("SE2")
def test_two_processes_index_each_row_once(world: World) -> None:
    org = world.org()
    written = write_many(world, org, [world.seat(org)], 80)
    one, two = world.new_indexer(), world.new_indexer()
    for each in (one, two):
        each.on_commit([f"org:{org}"])
    for _ in range(20):
        world.run(one.index_piece())
        world.run(two.index_piece())
    assert all_found(world, org) == [each.id for each in reversed(written)]


@requirement("SE2")
def test_a_journal_that_lost_events_before_they_were_indexed_costs_no_row(world: World) -> None:
    org = world.org()
    written = write_many(world, org, [world.seat(org), world.seat(org)], 12)
    world.change(org, [("forget_events", {"org_id": org, "upto": 8})], [])
    world.index()
    assert all_found(world, org) == [each.id for each in reversed(written)]


@requirement("SE2")
def test_many_texts_of_one_millisecond_are_all_kept(world: World) -> None:
    org = world.org()
    own = world.seat(org)
    ids = set()
    for _ in range(600):
        world.clock.at -= 1_000_000
        ids.add(world.write(org, SearchKind.MEMORY, "fig", own, own).id)
    world.index()
    found = all_found(world, org)
    assert len(found) == 600 and set(found) == ids


@requirement("SE2")
def test_a_changed_text_replaces_the_old_one_and_keeps_its_place(world: World) -> None:
    org = world.org()
    own = world.seat(org)
    first = world.write(org, SearchKind.DELEGATION, "fig and plum", own, own)
    second = world.write(org, SearchKind.MEMORY, "another fig", own, own)
    world.index()
    row = Delegation.from_row(world.run(world.store.rows("delegation", {"org_id": org, "id": first.id}))[0])
    event = JournalEvent("DELEGATION_STATUS", own, "delegation", first.id, payload=b"{}")
    world.change(org, [("save_delegation", replace(row, result="kiwi instead"))], [event])
    assert all_found(world, org, "kiwi") == []
    world.index()
    assert (all_found(world, org, "kiwi fig"), all_found(world, org)) == ([first.id], [second.id, first.id])
    world.change(org, [("save_delegation", replace(row, result="plum instead"))], [event])
    world.index()
    assert (all_found(world, org, "kiwi"), all_found(world, org)) == ([], [second.id, first.id])
    world.change(org, [("forget_memory", {"no": _memory_no(world, second)})], [])
    assert all_found(world, org) == [first.id], "what is gone is not shown, though the index has it"


def _memory_no(world: World, memory: Written) -> int:
    return int(world.run(world.store.rows("memory_by_id", {"id": memory.id}))[0][0])


@requirement("SE1")
def test_only_the_beginning_of_a_long_text_is_searchable(world: World) -> None:
    org = world.org()
    own = world.seat(org)
    long = "fig " * 1499 + "edge"
    kept = world.write(org, SearchKind.MESSAGE, long + " beyond", own, own)
    world.index()
    assert (all_found(world, org, "edge"), all_found(world, org, "beyond")) == ([kept.id], [])
