"""How agents of the company read a text, and what their crafts make of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_core.demo.model import Check, Checks, DemoSkill, Estimate, Plan, Topics
from molecule_core.demo.skills import apply_skill, join_list
from molecule_core.demo.text_analysis import find_topics, names_phrase, stem, stems_of

TEXT = "Plan a landing page for our launch. We have 3 weeks, and no budget!"
CRAFTS: list[DemoSkill] = [
    Topics(title="Topics"),
    Checks(title="Checks", items=(Check("busy", when=("launch",)), Check("when", unless=("#",)))),
    Estimate(title="Effort", days={"landing page": 1.5, "login": 2}),
    Plan(title="Steps", steps=("Sketch the {thing}", "Show {things}")),
]


@pytest.mark.parametrize(
    "forms",
    [
        ("launch", "launches", "launched", "Launching"),
        ("page", "pages"),
        ("price", "prices", "pricing"),
        ("city", "cities"),
    ],
)
def test_the_forms_of_a_word_have_one_stem(forms: tuple[str, ...]) -> None:
    assert len({stem(form) for form in forms}) == 1


@pytest.mark.parametrize(("one", "other"), [("plan", "plant"), ("app", "apply"), ("port", "report"), ("is", "i")])
def test_different_words_keep_different_stems(one: str, other: str) -> None:
    assert stem(one) != stem(other)


def test_a_text_is_about_its_telling_words_in_its_own_order() -> None:
    assert find_topics(TEXT, 5) == ["landing page", "launch", "3 weeks", "budget"]
    assert find_topics("Please build the login, the search page and the payments", 2) == ["login", "search page"]
    assert find_topics("Why is it so?", 5) == []


def test_a_phrase_is_named_only_if_all_of_its_words_are() -> None:
    stems = stems_of("sign here for the pages, in 3 days")
    assert names_phrase(stems, "page")
    assert names_phrase(stems, "#")
    assert not names_phrase(stems, "sign up")
    assert not names_phrase(stems_of("no figures"), "#")
    assert not names_phrase(stems, "!")


def test_topics_are_counted_and_listed() -> None:
    said = apply_skill(Topics(title="About", most=2), TEXT)
    assert said == "**About**\n\n- landing page\n- 3 weeks\n\n(14 words in 2 sentences)"


def test_a_check_speaks_when_its_word_is_there_or_unless_it_is() -> None:
    assert apply_skill(CRAFTS[1], "we launched") == "**Checks**\n\n- busy\n- when"
    assert apply_skill(CRAFTS[1], "in 3 weeks") == "**Checks**\n\n- none of my 2 rules applies"


def test_an_estimate_adds_up_what_is_in_its_table() -> None:
    assert apply_skill(CRAFTS[2], TEXT + " Login too.").endswith("1.5 days\n- login: 2 days\n- **total: 3.5 days**")
    assert apply_skill(CRAFTS[2], "a poem").endswith("no known item; first estimate: 1 day")


def test_a_plan_names_the_things_of_the_text_or_quotes_it() -> None:
    assert apply_skill(CRAFTS[3], TEXT).endswith("1. Sketch the landing page\n2. Show landing page, launch and 3 weeks")
    assert "“why?”" in apply_skill(CRAFTS[3], "why?")


def test_names_are_joined_as_people_do() -> None:
    assert [join_list(["a", "b", "c"][:count]) for count in range(4)] == ["", "a", "a and b", "a, b and c"]


@given(st.text(), st.sampled_from(CRAFTS))
def test_every_craft_has_something_to_say_about_any_text(text: str, craft: DemoSkill) -> None:
    said = apply_skill(craft, text)
    assert said.startswith(f"**{craft.title}**\n\n")
    assert len(said) > len(f"**{craft.title}**\n\n")
    assert apply_skill(craft, text) == said


@pytest.mark.parametrize(
    "text",
    ["x" * 200_000, "a b " * 60_000, "Word. " * 40_000, "\n" * 200_000, "!" * 200_000 + "x", "{things}" * 20_000],
)
def test_a_huge_text_gets_an_answer_of_a_readable_size(text: str) -> None:
    assert all(len(apply_skill(craft, text)) < 2_000 for craft in CRAFTS)
