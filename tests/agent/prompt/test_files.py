"""An agent's own files: what is read of them, and what is not, whatever they are named and hold."""

import os
from pathlib import Path

import pytest

from molecule_core.agent.prompt.home import DEFAULT_BUDGET_TOKENS, Home, read_home
from molecule_core.agent.prompt.safe_files import UnreadableFileError, list_folders, read_safe_file
from molecule_core.agent.prompt.safe_yaml import MAX_YAML_BYTES, InvalidYamlError, read_yaml
from molecule_core.agent.prompt.skills import InvalidSkillError, load_skill
from tests.requirements import requirement

SECRET = "the secret outside"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home, beside which a secret lies."""
    (tmp_path / "outside.md").write_text(SECRET)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "SKILL.md").write_text(f"---\nname: outside\ndescription: x\n---\n{SECRET}")
    home = tmp_path / "home"
    (home / "skills").mkdir(parents=True)
    return home


def write_skill(home: Path, name: str, text: str) -> None:
    """A skill's folder with its file."""
    (home / "skills" / name).mkdir(parents=True, exist_ok=True)
    (home / "skills" / name / "SKILL.md").write_text(text)


def plain(name: str, body: str = "Do it.") -> str:
    """A skill that is right."""
    return f"---\nname: {name}\ndescription: Does {name}.\nlicense: MIT\n---\n# {name}\n{body}\n"


@requirement("SP5", "SP3")
def test_a_home_is_read_in_the_order_of_its_configuration(home: Path) -> None:
    for name in ("b.md", "a.md", "r.md", "s.md"):
        (home / name).write_text(f"\ufeffI am {name}\r\n")
    for name in ("cook", "bake"):
        write_skill(home, name, plain(name))
    (home / "config.yaml").write_text(
        "name: Ops\nmodel: {any: thing}\nprompt_files: [b.md, gone.md, a.md]\nrules: [r.md]\nskills: [cook, none, bake]"
        "\nshared_context: [s.md]\nprompt_budget_tokens: 9000\nruntime: codex\n"
        "approval_rules:\n  - {action: 'delete*', cost_above: 5}\n"
    )
    found = read_home(home)
    assert [each.path for each in found.prompts] == ["b.md", "a.md"] and found.prompts[0].text == "I am b.md"
    assert [each.name for each in found.skills] == ["cook", "bake"]
    assert (found.skills[0].body, found.skills[0].description) == ("# cook\nDo it.", "Does cook.")
    assert [each.path for each in found.rules] == ["r.md"] and found.shared == (found.shared or ())[:1]
    assert found.approval_rules == ({"action": "delete*", "cost_above": 5},)
    assert (found.budget, found.runtime) == (9000, "codex")
    assert [each.split(":")[0] for each in found.warnings] == [
        "prompt file 'gone.md' is omitted",
        "skill 'none'",
    ]


@requirement("SP3", "SP5")
def test_without_a_configuration_there_is_one_prompt_file_and_every_skill(home: Path) -> None:
    assert read_home(home) == Home(
        warnings=("prompt file 'system-prompt.md' is omitted: it does not exist",), paths=("system-prompt.md",)
    )
    (home / "system-prompt.md").write_text("Be.")
    write_skill(home, "cook", plain("cook"))
    write_skill(home, "bake", plain("bake"))
    found = read_home(home)
    assert [each.text for each in found.prompts] == ["Be."] and [each.name for each in found.skills] == ["bake", "cook"]
    assert (found.budget, found.warnings) == (DEFAULT_BUDGET_TOKENS, ())


@requirement("SP3")
def test_a_broken_configuration_is_told_and_shares_nothing_new(home: Path) -> None:
    (home / "system-prompt.md").write_text("Be.")
    for text in ("a: [", "prompt_files: 5", "- a list", "a: 1\na: 2", "prompt_budget_tokens: 1", "\x00"):
        (home / "config.yaml").write_text(text)
        found = read_home(home)
        assert found.shared is None and found.prompts[0].text == "Be.", text
        assert found.warnings[0].startswith("config.yaml is omitted: "), text


@requirement("SP4", "SP5")
def test_nothing_outside_the_home_is_read_by_any_name_or_link(home: Path) -> None:
    (home / "link.md").symlink_to(home.parent / "outside.md")
    (home / "up").symlink_to(home.parent)
    (home / "skills" / "outside").symlink_to(home.parent / "outside")
    (home / "skills" / "linked").mkdir()
    (home / "skills" / "linked" / "SKILL.md").symlink_to(home.parent / "outside" / "SKILL.md")
    os.mkfifo(home / "pipe.md")
    (home / "folder.md").mkdir()
    (home / "binary.md").write_bytes(b"\xff\xfe")
    names = [
        *("../outside.md", "/etc/hostname", str(home.parent / "outside.md"), "link.md", "up/outside.md", "pipe.md"),
        *("./../outside.md", "skills/../../outside.md", "..", ".", "", "a\x00b", "~/x", "a\\..\\b", "folder.md"),
        *("binary.md", "x" * 300, "/".join("a" * 40), "..//outside.md", "skills//cook", "%2e%2e/outside.md"),
    ]
    for name in names:
        with pytest.raises(UnreadableFileError):
            read_safe_file(home, name, 1000)
    listed = ", ".join(f'"{each}"' for each in names if each.isprintable() and "\\" not in each)
    (home / "config.yaml").write_text(
        f"prompt_files: [{listed}]\nshared_context: [{listed}]\nskills: [outside, linked, '../outside', '..', up]\n"
    )
    found = read_home(home)
    assert (found.prompts, found.shared, found.skills) == ((), (), ()) and SECRET not in str(found)
    assert list_folders(home, "skills", 10) == (["linked"], ["outside"])
    (home / "large.md").write_text("x" * 1001)
    with pytest.raises(UnreadableFileError, match="larger than 1000 bytes"):
        read_safe_file(home, "large.md", 1000)


@requirement("SP5")
def test_a_skill_that_is_not_in_the_format_is_left_out_with_the_reason(home: Path) -> None:
    bad = {
        "no-head": "# Hello",
        "no-end": "---\nname: no-end\n",
        "other": plain("another"),
        "no-words": "---\nname: no-words\n---\n",
        "long": f"---\nname: long\ndescription: {'x' * 1025}\n---\n",
        "broken": "---\nname: [\n---\n",
        "huge": plain("huge", "x" * (64 << 10)),
    }
    for name, text in bad.items():
        write_skill(home, name, text)
        with pytest.raises(InvalidSkillError, match=f"skill '{name}'"):
            load_skill(home, name)
    for name in ("Upper", "a--b", "-a", "a" * 65, "a b", "é", "a/b", "\u202e"):
        with pytest.raises(InvalidSkillError):
            load_skill(home, name)


@requirement("SP5")
@pytest.mark.parametrize(
    ("name", "description"),
    [("yes", "2048"), ("2048", "2026-11-28"), ("null", "true"), ("1e3", "0x1F"), ("on", "12:30:00"), ("a", "~")],
)
def test_the_scalars_of_a_skills_front_matter_are_text(home: Path, name: str, description: str) -> None:
    write_skill(home, name, f"\ufeff---\nname: {name}\ndescription: {description}\nversion: 1.10\n---\nDo it.\n")
    skill = load_skill(home, name)
    assert (skill.name, skill.description, skill.body) == (name, description, "Do it.")


@requirement("SP5")
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("---\nname: broken\ndescription: a: b\n---\n", 3),
        ("---\nname: broken\n\ndescription: x\nname: again\n---\n", 5),
        ("---\nname: &a broken\n---\n", 2),
    ],
)
def test_a_warning_about_front_matter_names_the_line_of_the_file(home: Path, text: str, line: int) -> None:
    write_skill(home, "broken", text)
    with pytest.raises(InvalidSkillError, match=f"SKILL.md: line {line}: "):
        load_skill(home, "broken")


@requirement("SP5")
def test_links_and_large_skills_are_left_out_with_a_warning_and_the_size_is_a_setting(home: Path) -> None:
    write_skill(home, "large", plain("large", "x" * (64 << 10)))
    (home / "skills" / "linked").symlink_to(home / "skills" / "large")
    found = read_home(home)
    assert [each.name for each in found.skills] == []
    assert [each for each in found.warnings if "'linked'" in each and "it is a link" in each]
    assert [each for each in found.warnings if "'large'" in each and "larger than 65536 bytes" in each]
    (home / "config.yaml").write_text("skill_bytes: 131072\n")
    assert [each.name for each in read_home(home).skills] == ["large"]
    (home / "config.yaml").write_text("skill_bytes: 10\n")
    assert "larger than 10 bytes" in "".join(read_home(home).warnings)


@requirement("SP5")
@pytest.mark.parametrize(
    "text",
    [
        "a: &x [1]\nb: *x",
        "\n".join(
            [
                "a: &a [x, x]",
                *(f"{two}: &{two} [*{one}, *{one}]" for one, two in zip("abcdefgh", "bcdefghi", strict=True)),
            ]
        ),
        "a: !!python/object/apply:os.system ['true']",
        "a: !!str 5",
        "[" * 40 + "]" * 40,
        "a: " + "[" * 5000,
        "a: [" + "1, " * 6000 + "1]",
        "a: 1\na: 2",
        "? [1, 2]\n: 3",
        "1: 2",
        "a: 2024-13-45",
        "x" * (MAX_YAML_BYTES + 1),
        "a: 1\n---\nb: 2",
        "a: \x07",
        "\t- a",
        "just text",
    ],
)
def test_yaml_that_is_more_than_plain_bounded_values_is_refused(text: str) -> None:
    with pytest.raises(InvalidYamlError):
        read_yaml(text)
    assert read_yaml("") == {} and read_yaml("a: {b: [1, two, null]}") == {"a": {"b": [1, "two", None]}}
