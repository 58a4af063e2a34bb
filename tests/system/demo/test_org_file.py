"""The org file of a company: what it may hold, and how each mistake is told."""

from pathlib import Path

import pytest

from molecule_core.common.errors import BadSettings
from molecule_core.demo.api_rows import build_agent_card
from molecule_core.demo.company import MAX_COMPANY_WORKSPACES, list_company_workspaces, packaged_company, read_company
from molecule_core.demo.model import Checks, Estimate, Plan, Topics

TOP = 'name = "Ours"\n'
DESK = '[[seat]]\nname = "Desk"\nrole = "r"\nbehaviour = "desk"\n'
KEEPER = DESK.replace('"desk"', '"specialist"')
SERVICE = DESK.replace('"desk"', '"specialist"') + 'host = "push"\n'
TOPICS = '[[seat.craft]]\nkind = "topics"\ntitle = "T"\n'
CHECKS = '[[seat.craft]]\nkind = "checks"\ntitle = "T"\n'
PLAN = '[[seat.craft]]\nkind = "plan"\ntitle = "T"\n'


def refusal(tmp_path: Path, content: str | bytes) -> str:
    """The sentence with which a file is refused."""
    file = tmp_path / "ours.toml"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(BadSettings) as caught:
        read_company(file)
    assert str(file) in caught.value.text
    return caught.value.text


def test_the_packaged_company_has_three_teams_and_every_kind_of_craft_and_host() -> None:
    company = packaged_company()
    found = list_company_workspaces(company)

    assert [len(place.path) for place in found].count(3) == 6
    assert len(found) == 12
    assert {place.seat.host for place in found} == {"none", "mcp", "stdout", "push", "agent"}
    assert {place.seat.behaviour for place in found} == {"lead", "specialist", "desk"}
    assert {type(craft) for place in found for craft in place.seat.craft} == {Topics, Checks, Estimate, Plan}


def test_the_lead_of_the_packaged_company_and_of_the_sample_team_has_three_examples() -> None:
    for file in ("company.toml", "sample.toml"):
        first, *others = list_company_workspaces(packaged_company(file))
        assert len(first.seat.examples) == 3
        assert sum(bool(place.seat.examples) for place in others) <= 1
        assert build_agent_card(first.seat)["skills"][0]["examples"] == list(first.seat.examples)


def test_a_file_of_other_names_and_another_tree_is_read_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "betrieb.toml"
    below = DESK.replace("[[seat]]", "[[seat.seat]]").replace("Desk", " Büro ") + TOPICS.replace("seat.", "seat.seat.")
    file.write_text(TOP + DESK + below + DESK.replace("Desk", "Zweite") + "seconds = 0.5\n" + TOPICS, encoding="utf-8")

    found = list_company_workspaces(read_company(file))

    assert [place.path for place in found] == [("Desk",), ("Desk", "Büro"), ("Zweite",)]
    assert [place.seat.seconds for place in found] == [1.0, 1.0, 0.5]


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match=r"nowhere\.toml cannot be read: No such file"):
        read_company(tmp_path / "nowhere.toml")


@pytest.mark.parametrize("content", [b"name = ", b"name = \xff", b"[[seat]\n"])
def test_what_is_no_toml_is_said_to_be_none(tmp_path: Path, content: bytes) -> None:
    assert "is not TOML" in refusal(tmp_path, content)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", ("missing required field `name`",)),
        (TOP, ("missing required field `seat`",)),
        (TOP + "seat = []\n", ("no workspace", "[[seat]]")),
        ('name = " "\nseat = []\n', ("name", "empty")),
        (TOP + DESK.replace("role", "rolle"), ("unknown field `rolle`", "$.seat[")),
        (TOP + DESK.replace('"desk"', '"boss"'), ("boss", "behaviour")),
        (TOP + DESK + "seconds = -1\n" + TOPICS, ("seconds", ">= 0")),
        (TOP + DESK + "seconds = 61\n" + TOPICS, ("seconds", "<= 60")),
        (TOP + DESK.replace("Desk", "De\\u202esk") + TOPICS, ("U+202E", "Remove it")),
        (TOP + DESK.replace("Desk", "x" * 121) + TOPICS, ("121", "120")),
        (TOP + DESK.replace('"r"', f'"{"r" * 501}"') + TOPICS, ("role", "501", "500")),
        (TOP + DESK + TOPICS + DESK + TOPICS, ("same parent", "'Desk'", "Rename")),
        (TOP + DESK, ("Desk", "neither a craft nor workspaces below", "[[...craft]]")),
        (TOP + DESK + 'host = "mcp"\n' + TOPICS, ("Desk", "Remove its host")),
        (TOP + DESK + 'host = "agent"\n' + TOPICS, ("Desk", "only possible for a lead")),
        (TOP + DESK + 'host = "ftp"\n' + TOPICS, ("host", "ftp")),
        (TOP + KEEPER + 'host = "mcp"\nprompt = "p"\n' + TOPICS, ("Desk", "Remove its prompt")),
        (TOP + DESK + 'examples = ["a", "b", "c", "d", "e", "f"]\n' + TOPICS, ("examples", "length <= 5")),
        (TOP + DESK + f'examples = ["{"x" * 121}"]\n' + TOPICS, ("examples", "length <= 120")),
        (TOP + DESK + 'examples = ["De\\u202esk"]\n' + TOPICS, ("example of 'Desk'", "U+202E")),
        (TOP + KEEPER + 'host = "stdout"\nexamples = ["a"]\n' + TOPICS, ("Desk", "Remove its examples")),
        (TOP + DESK + "stumbles = true\n" + TOPICS, ("Desk", "stumbles", 'host = "push"')),
        (TOP + SERVICE + "progress = true\n" + TOPICS, ("Desk", "cannot report progress")),
        (TOP + KEEPER + 'accept = [{ type = "file" }]\n' + TOPICS, ("Desk", "Remove its accept")),
        (TOP + DESK + 'accept = [{ type = "look" }]\n' + TOPICS, ("look", "accept")),
        (TOP + DESK + "cost = 1\n" + TOPICS, ("Desk", "delivers or cost", "Remove them")),
        (TOP + KEEPER + "cost = -1\n" + TOPICS, ("cost", ">= 1e-06")),
        (TOP + KEEPER + "hasty = true\n" + TOPICS, ("Desk", "hasty", "requires delivers")),
        (TOP + KEEPER + "budget = { money = 1 }\n" + TOPICS, ("budget", "lease")),
        (TOP + DESK + TOPICS.replace("topics", "magic"), ("magic", "kind")),
        (TOP + DESK + TOPICS + "most = 0\n", ("most", ">= 1")),
        (TOP + DESK + CHECKS + "items = []\n", ("items", "length >= 1")),
        (TOP + DESK + CHECKS + 'items = [{say = "s"}]\n', ("'s'", "`when` or `unless`")),
        (TOP + DESK + CHECKS + 'items = [{say = "s", when = ["a"], unless = ["b"]}]\n', ("`when` or `unless`",)),
        (TOP + DESK + CHECKS + 'items = [{say = "s", when = ["!?"]}]\n', ("'!?'", "not a word")),
        (TOP + DESK + PLAN + 'steps = ["Look at {it}"]\n', ("{it}", "{thing} and {things}")),
        (TOP + DESK + '[[seat.craft]]\nkind = "estimate"\ntitle = "T"\ndays = {a = -1}\n', ("days", ">= 0")),
    ],
)
def test_every_mistake_is_told_in_one_sentence_that_points_to_the_guide(
    tmp_path: Path, content: str, words: tuple[str, ...]
) -> None:
    said = refusal(tmp_path, content)

    assert [word for word in words if word not in said] == []
    assert "\n" not in said
    assert said.endswith("See docs/reference/company-file.md.")


def test_a_specialist_with_seats_below_is_told_what_to_be_instead(tmp_path: Path) -> None:
    below = DESK.replace("[[seat]]", "[[seat.seat]]") + TOPICS.replace("seat.", "seat.seat.")
    said = refusal(tmp_path, TOP + DESK.replace('"desk"', '"specialist"') + TOPICS + below)
    assert "Make it a lead or a desk" in said


def test_a_company_of_too_many_processes_is_refused(tmp_path: Path) -> None:
    seats = "".join(DESK.replace("Desk", f"Desk {number}") + TOPICS for number in range(MAX_COMPANY_WORKSPACES + 1))
    assert (
        f"{MAX_COMPANY_WORKSPACES + 1} workspaces, with one process each; the limit is {MAX_COMPANY_WORKSPACES}"
        in refusal(tmp_path, TOP + seats)
    )


@pytest.mark.parametrize("levels", [33, 200])
def test_a_tree_that_is_too_deep_for_the_server_is_refused_before_it_is_asked(tmp_path: Path, levels: int) -> None:
    seats = "".join(DESK.replace("[[seat]]", f"[[{'.'.join(['seat'] * level)}]]") for level in range(1, levels + 1))
    assert "deeper than 32 levels" in refusal(tmp_path, TOP + seats)
