"""The org file and the plan: written and read again, which seat is which, what differs, in which order."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from msgspec.structs import replace

from molecule_core.client.org_file import (
    OrgFile,
    OrgFileWorkspace,
    list_nodes,
    org_file_from_rows,
    parse_org_file,
    read_org_file,
    render_org_file,
)
from molecule_core.client.org_plan import OrgPlan, make_plan
from molecule_core.common.errors import CommandFailed
from molecule_core.demo import company as demo
from testing.step_counts import examples
from tests.client.org_files import org_files, rows_of
from tests.requirements import requirement


def plan(text: str, rows: list[dict[str, Any]]) -> OrgPlan:
    """What lies between a file and an organisation."""
    return make_plan(list_nodes(parse_org_file(text)), rows)


def rows(text: str) -> list[dict[str, Any]]:
    """An organisation as a file says."""
    return rows_of(parse_org_file(text))


# -- the file ----------------------------------------------------------------------------------------------------------


@requirement("M6")
@examples(150)
@given(org_files())
def test_what_is_written_is_read_as_the_same_organisation(file: OrgFile) -> None:
    assert parse_org_file(render_org_file(file)) == file


@requirement("M6")
@examples(150)
@given(org_files())
def test_an_organisation_and_its_own_export_differ_in_nothing(file: OrgFile) -> None:
    living = rows_of(file)
    assert make_plan(list_nodes(parse_org_file(render_org_file(org_file_from_rows("Random", living)))), living).is_empty


@requirement("M6")
def test_the_company_of_the_demo_is_an_org_file(tmp_path: Path) -> None:
    source = Path(demo.__file__).with_name("company.toml")
    file = read_org_file(source)
    assert [node.path for node in list_nodes(file)] == [
        place.path for place in demo.list_company_workspaces(demo.packaged_company())
    ]
    assert "craft" not in render_org_file(file)
    assert [word for word in ("asks_before", "prompt", "accept", "hasty") if word in render_org_file(file)] == []


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("name = ", "is not TOML"),
        ("seat = []", "name"),
        ('name = "x"\ncolour = 1', "colour"),
        ('name = "x"\n[[seat]]\nname = "a"\ncolour = 1', "colour"),
        ('name = "x"\n[[seat]]\nname = "a"\n[[seat]]\nname = " a"', "two workspaces at the top"),
        (
            'name = "x"\n[[seat]]\nname = "a"\n[[seat.seat]]\nname = "b"\n[[seat.seat]]\nname = "b"',
            "below a are named",
        ),
        ('name = "x"\n[[seat]]\nname = "a"\nkey = "k"\n[[seat]]\nname = "b"\nkey = "k"', "the key 'k'"),
        ('name = "x"\n[[seat]]\nname = "a\u202eb"', "U+202E"),
        ('name = "x"\n[[seat]]\nname = "a"\ntier = 10', "tier"),
        ('name = "x"\n[[seat]]\nname = "a"\nrole = "a\\nb"', "the role of 'a'"),
        ('name = "x"\n' + "".join(f"[[{'.'.join(['seat'] * n)}]]\nname = 'a'\n" for n in range(1, 34)), "32 levels"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_what_is_wrong(tmp_path: Path, text: str, word: str) -> None:
    path = tmp_path / "org.toml"
    path.write_text(text)
    with pytest.raises(CommandFailed) as refusal:
        read_org_file(path)
    assert str(path) in refusal.value.text
    assert word in refusal.value.text


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="cannot be read"):
        read_org_file(tmp_path / "nothing.toml")


# -- the plan ----------------------------------------------------------------------------------------------------------

BEFORE = """
name = "Acme"
[[seat]]
name = "Lead"
key = "lead"
role = "leads"
[[seat.seat]]
name = "Dev"
[[seat.seat.seat]]
name = "Test"
[[seat]]
name = "Desk"
[[seat.seat]]
name = "Writer"
key = "writer"
"""


@requirement("M6")
def test_a_plan_says_in_a_line_each_what_is_to_be_done() -> None:
    after = """
name = "Acme"
[[seat]]
name = "Boss"
key = "lead"
role = ""
tier = 2
[[seat.seat]]
name = "Dev"
[[seat.seat.seat]]
name = "Writer"
key = "writer"
[[seat]]
name = "New"
role = "helps"
"""
    assert list(plan(after, rows(BEFORE)).lines()) == [
        "+ New (role 'helps', runtime 'generic-mcp')",
        "~ Lead: name 'Lead' -> 'Boss', tier 1 -> 2, role 'leads' -> nothing",
        "> Desk / Writer: move to Boss / Dev / Writer",
        "- Lead / Dev / Test",
        "- Desk",
        "1 to create, 1 to change, 1 to move, 2 to remove",
    ]


@requirement("M6")
def test_with_a_key_another_name_is_a_change_and_without_one_another_seat() -> None:
    renamed = BEFORE.replace('"Lead"', '"Boss"').replace('"Dev"', '"Devs"')
    found = plan(renamed, rows(BEFORE))
    assert [(alter.row["name"], alter.members) for alter in found.updates] == [("Lead", {"name": ("Lead", "Boss")})]
    assert [make.node.path for make in found.creations] == [("Boss", "Devs"), ("Boss", "Devs", "Test")]
    assert [(drop.path, drop.descendants) for drop in found.removed_subtrees] == [(("Lead", "Dev"), ["Test"])]
    assert found.removal_count == 2


def test_a_key_is_given_to_a_seat_that_has_none_and_not_to_one_that_has_another() -> None:
    found = plan(BEFORE.replace('name = "Desk"', 'name = "Desk"\nkey = "desk"'), rows(BEFORE))
    assert [alter.members for alter in found.updates] == [{"key": (None, "desk")}]
    other = plan(BEFORE.replace('key = "lead"', 'key = "chief"'), rows(BEFORE))
    assert [make.node.workspace.key for make in other.creations[:1]] == ["chief"]
    left_out = plan(BEFORE.replace('key = "lead"\n', ""), rows(BEFORE))
    assert left_out.is_empty


def test_how_an_agent_is_reached_is_left_as_it_is_unless_the_file_says_so() -> None:
    living = rows(BEFORE)
    living[0] |= {"delivery_mode": "push", "url": "https://agent.example/"}
    assert plan(BEFORE, living).is_empty
    exported = org_file_from_rows("Acme", living)
    assert (exported.seat[0].delivery_mode, exported.seat[0].url) == ("push", "https://agent.example/")
    assert make_plan(list_nodes(exported), living).is_empty


@requirement("M6")
@examples(150)
@given(org_files(), org_files())
def test_every_seat_of_both_is_either_kept_or_made_or_removed_and_none_twice(old: OrgFile, new: OrgFile) -> None:
    living, wanted = rows_of(old), list_nodes(new)
    found = make_plan(wanted, living)
    assert len(set(found.workspace_ids.values())) == len(found.workspace_ids)
    assert {make.node_index for make in found.creations} | found.workspace_ids.keys() == set(range(len(wanted)))
    kept = set(found.workspace_ids.values())
    assert found.removal_count == len({row["id"] for row in living} - kept)
    assert {alter.row["id"] for alter in found.updates} <= kept


@examples(50)
@given(org_files(keyed=True))
def test_a_seat_with_a_key_is_found_wherever_it_stands(file: OrgFile) -> None:
    flat = OrgFile("Random", tuple(replace(n.workspace, seat=(), name=f"n{i}") for i, n in enumerate(list_nodes(file))))
    found = make_plan(list_nodes(flat), rows_of(file))
    assert (found.creations, found.removed_subtrees) == ([], [])
    assert sum(alter.is_moved for alter in found.updates) == sum(
        node.parent_index is not None for node in list_nodes(file)
    )


def test_an_empty_file_removes_everything_and_an_empty_organisation_is_made_whole() -> None:
    assert plan('name = "Acme"', rows(BEFORE)).removal_count == 5
    made = plan(BEFORE, [])
    assert [make.node.path for make in made.creations][:3] == [("Lead",), ("Lead", "Dev"), ("Lead", "Dev", "Test")]
    assert OrgFileWorkspace(name="x").seat == ()
