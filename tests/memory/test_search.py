"""The search: the same on both engines, whatever somebody writes into it, and never another language than words."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_core.common.limits import Limits
from molecule_core.common.search_terms import distinct_terms, split_terms
from molecule_core.memory.model import MemoryScope
from molecule_core.memory.rules import parse_search, search_terms
from testing.engines import ENGINES, Engine
from testing.machines.memory_store import World, world_on
from testing.step_counts import STEPS, examples
from tests.requirements import requirement

QUERIES = 10 * STEPS

# What means something to one of the engines, and what is hard on a reader of text.
HOSTILE = [
    *(
        "AND OR NOT NEAR NEAR(a NEAR/3 MATCH words: -words: {words}: ^ * + - & | ! <-> <2> :* :A :*AB ( ) [ ] { }"
    ).split(),
    *("\" ' '' \"\" ` \\ \\\\ % _ ; -- /* */ $1 ?1 :shelves :words \x00 \x01 \x7f \ufeff \u200b \u202e").split(" "),
    *("_g _l rank rowid content memory_words 'delete' x' E'' $$ U&'' :: ::tsquery tsquery @@ || NULL ARRAY[]").split(),
    "\U0001f600",
    "e\u0301",
    "\ufdfa",
    "ß",
    "İ",
    "ǆ",
    "ﬁ",
    "日本",
    "ไทย",
    "한국",
    "क्षि",
    "١٢٣",
    "½",
    "x" * 5000,
    "\u0301" * 50,
    "\ud7ff",
    "\U0010ffff",
]
VOCABULARY = [
    "deploy",
    "deployment",
    "deploys",
    "Köln",
    "Strasse",
    "straße",
    "kiwi",
    "a",
    "ab",
    "abc",
    "2024",
    "v2",
    "日本語",
]


def texts(chance: random.Random) -> str:
    """Ordinary words and hostile ones, with or without blanks."""
    parts = chance.choices(VOCABULARY + HOSTILE, k=chance.randint(1, 6))
    return chance.choice(["", " ", " ", "-", "\n"]).join(parts)


def expected(memories: list[str], query: str, limits: Limits) -> list[str]:
    """What a search must find, newest first: told once more, in Python's words."""
    wanted = split_terms(query)[: limits.memory_query_words]
    if not wanted:
        return []
    *all_of, last = wanted
    found = []
    for content in reversed(memories):
        words = set(split_terms(content))
        begins = 3 <= len(last) <= 8 and any(word.startswith(last) for word in words)
        if words.issuperset(all_of) and (last in words or begins):
            found.append(content)
    return found


@requirement("M36", "S14")
@pytest.mark.long
def test_thousands_of_hostile_queries_find_what_their_words_say_and_never_fail(world: World) -> None:
    chance = random.Random(36)
    own = world.seat(world.org())
    said = [f"{number}: {texts(chance)}".replace("\x00", "") for number in range(120)]
    memories = [world.commit(own, each).content for each in said]
    hits = 0
    for _ in range(QUERIES):
        query = texts(chance)
        found = world.recall(own, query)
        assert found == expected(memories, query, Limits())[:50], query
        hits += bool(found)
    assert hits > QUERIES / 20


@requirement("M36")
@given(memories=st.lists(st.text(max_size=60), min_size=1, max_size=4), query=st.text(min_size=1, max_size=40))
@examples(150)
def test_any_text_is_kept_and_any_text_is_searched_for(both: list[World], memories: list[str], query: str) -> None:
    memories = [each.replace("\x00", "") + " plum" for each in memories]
    answers = []
    for world in both:
        own = world.seat(world.org())
        kept = list(dict.fromkeys(world.commit(own, each).content for each in memories))
        answers.append([world.recall(own, each) for each in (query, f"plum {query}", f"{query} plum")])
        assert world.recall(own, "plum") == kept[::-1]
    assert answers[0] == answers[1]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory, postgres: str) -> Any:
    """A world on each engine, side by side."""
    first, second = (tmp_path_factory.mktemp(engine) for engine in ENGINES)
    with world_on(ENGINES[0], first, postgres) as one, world_on(ENGINES[1], second, postgres) as other:
        yield [one, other]


FOUND = [
    ("The deployment to Köln failed", "deploy"),
    ("The deployment to Köln failed", "koln"),
    ("The deployment to Köln failed", "KÖLN deployment"),
    ("The deployment to Köln failed", "failed, the"),
    ("Straße 12", "strasse"),
    ("see https://example.org/a-b?x=1", "example.org"),
    ("call ops@example.org", "ops@example.org"),
    ("snake_case and camelCase", "case"),
    ("price: 12.50 EUR", "12.50"),
    ("日本語を話す", "日本"),
    ("Москва и область", "москва"),
    ("ﬁle names", "file"),
    ("Ελλάδα", "ελλαδα"),
    ("हिन्दी में", "हिन्दी"),
    ("العَرَبِيَّة", "العربية"),
    ("naïve café", "naive cafe"),
    ("nai\u0308ve", "naïve"),
]
NOT_FOUND = [
    ("The deployment to Köln failed", "ploy"),
    ("The deployment to Köln failed", "deploy failure"),
    ("The deployment to Köln failed", "deploy failed"),  # only the last word may be a beginning
    ("The deployment to Köln failed", "de"),
    ("abcdefghijkl", "abcdefghi"),  # the beginning of a word has at most 8 letters
    ("anything", "..."),
    ("anything", "\x00"),
    ("हिन्दी", "हनद"),
]


@requirement("M36")
@pytest.mark.parametrize(
    ("content", "query", "hit"), [*((*each, True) for each in FOUND), *((*each, False) for each in NOT_FOUND)]
)
def test_words_are_found_whatever_their_case_accents_and_signs(
    world: World, content: str, query: str, hit: bool
) -> None:
    own = world.seat(world.org())
    world.commit(own, content)
    assert world.recall(own, query) == ([content] if hit else [])


@requirement("M36")
def test_the_newest_comes_first_and_namespaces_and_scopes_narrow_it(world: World) -> None:
    own = world.seat(world.org())
    for number in range(6):
        scope = (MemoryScope.LOCAL, MemoryScope.TEAM, MemoryScope.GLOBAL)[number % 3]
        world.commit(own, f"plum {number}", scope, ("", "garden")[number % 2])
    for text in (None, "plum"):
        assert world.recall(own, text) == [f"plum {number}" for number in (5, 4, 3, 2, 1, 0)]
        assert world.recall(own, text, 2) == ["plum 5", "plum 4"]
        assert world.recall(own, text, namespace="garden") == ["plum 5", "plum 3", "plum 1"]
        assert world.recall(own, text, namespace="general") == ["plum 4", "plum 2", "plum 0"]
        assert world.recall(own, text, scope=MemoryScope.TEAM, namespace="garden") == ["plum 1"]
        assert world.recall(own, text, namespace="elsewhere") == []


@requirement("M36")
def test_the_names_of_shelves_cannot_be_searched_for(world: World) -> None:
    org_id = world.org()
    own, other = world.seat(org_id), world.seat(org_id)
    world.commit(other, "hidden plum")
    shelf = search_terms("", f"_l{other.replace('-', '')}")
    for query in (shelf, f'"{shelf}"', f"_l{other}", f'x") OR ("{shelf}', f"plum' | '{shelf}"):
        assert world.recall(own, query) == []
    assert parse_search(shelf, 32) == (shelf[1:], 0)


@requirement("M36", "O2")
@pytest.mark.parametrize("engine", ENGINES)
def test_words_behind_the_limit_of_a_query_do_not_count(engine: Engine, tmp_path: Any, postgres: str) -> None:
    with world_on(engine, tmp_path, postgres, Limits(memory_query_words=2)) as world:
        own = world.seat(world.org())
        world.commit(own, "one two")
        assert world.recall(own, "one two three four") == ["one two"]
        assert world.recall(own, "one three two") == []


@requirement("M36")
def test_what_is_forgotten_is_found_no_more_and_the_index_of_sqlite_stays_whole(world: World) -> None:
    own = world.seat(world.org())
    kept = [world.commit(own, f"plum {number} {'pear ' * number}") for number in range(30)]
    for memory in kept[::2]:
        world.run(world.writer.delete_memory(own, memory.id))
    assert world.recall(own, "plum") == [each.content for each in kept[::-2]]
    if world.engine == "sqlite":
        world.store._write_connection.execute(
            "INSERT INTO memory_words (memory_words, rank) VALUES ('integrity-check', 1)"
        )


@requirement("M36", "O2", "S14")
@pytest.mark.parametrize("engine", ENGINES)
def test_a_memory_with_more_words_than_an_engine_takes_is_found_by_its_first_ones(
    engine: Engine, tmp_path: Any, postgres: str
) -> None:
    with world_on(engine, tmp_path, postgres, Limits(memory_bytes=4 << 20)) as world:
        own = world.seat(world.org())
        words = [f"{chr(0x10400 + number % 40) * 60}{number}" for number in range(6000)]  # 240 bytes each
        memory = world.commit(own, " ".join(words))
        assert memory.content == " ".join(words)
        assert world.recall(own, f"{words[0]} {words[2000]}") == [memory.content]
        assert world.recall(own, words[5999]) == []


# -- words -------------------------------------------------------------------------------------------------------------


@requirement("M36")
@given(text=st.text(max_size=200))
@examples(300)
def test_words_are_their_own_words_and_hold_no_blank_and_no_sign(text: str) -> None:
    for word in split_terms(text):
        assert 0 < len(word) <= 64
        assert not set(word) & set(" _'\"\\:*&|!()<>-\x00\n")
        assert split_terms(word) == [word]
    if text.isascii():
        assert split_terms(text.upper()) == split_terms(text.lower())


@requirement("M36")
def test_words_are_kept_once_and_up_to_so_many_bytes() -> None:
    assert distinct_terms("a b a c a".split(), 100) == ["a", "b", "c"]
    assert distinct_terms(["aa", "bb", "cc"], 6) == ["aa", "bb"]
    assert distinct_terms(["ää", "bb"], 5) == ["ää"]
