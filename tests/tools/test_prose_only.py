"""What the comparison without prose hides, and what it does not."""

import json
from pathlib import Path

import pytest

from tests.tools.prose_only import (
    FOLDERS,
    MASK,
    PROSE_PATHS,
    ROOT,
    changes_beside_prose,
    masked,
    masked_page,
    tools_list,
)

PAGES = sorted(path for folder in FOLDERS for path in (ROOT / folder).iterdir())


def test_other_words_of_a_tool_are_hidden_and_another_schema_is_not() -> None:
    tools = tools_list(ROOT / "src")
    worded, renamed, bounded = (json.loads(json.dumps(tools)) for _ in range(3))
    worded[0]["description"] = worded[0]["inputSchema"]["properties"]["handle"]["description"] = "other words"
    renamed[0]["inputSchema"]["properties"]["grip"] = renamed[0]["inputSchema"]["properties"].pop("handle")
    bounded[0]["inputSchema"]["properties"]["text"]["minLength"] = 2
    plain = [masked(each, PROSE_PATHS["tools list"]) for each in (tools, worded, renamed, bounded)]
    assert plain[0] == plain[1]
    assert plain[0] != plain[2] and plain[0] != plain[3]


def test_an_argument_called_description_is_not_prose() -> None:
    schema = {"properties": {"description": {"type": "string", "description": "words"}}}
    assert masked(schema, ("*.description",)) == {
        "properties": {"description": {"type": "string", "description": MASK}}
    }


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_recorded_text_keeps_something_to_compare(path: Path) -> None:
    page = path.read_text(encoding="utf-8")
    assert changes_beside_prose(page, page) == []
    assert len(masked_page(page)) > 10


@pytest.mark.parametrize(
    ("before", "after", "hidden"),
    [
        ("### reply\n\nUse it.", "### reply\n\nUse it once.", True),
        ("### reply\n\nUse it.", "### answer\n\nUse it.", False),
        ("    molecule peers  # whom", "    molecule peers  # list", True),
        ("    molecule peers  # whom", "    molecule people  # whom", False),
        (
            '-- poll\n{"instructions": {"text": "a"}, "id": 1}',
            '-- poll\n{"instructions": {"text": "b"}, "id": 1}',
            True,
        ),
        (
            '-- poll\n{"instructions": {"text": "a"}, "id": 1}',
            '-- poll\n{"instructions": {"text": "a"}, "id": 2}',
            False,
        ),
        ('"<instructions>a</instructions>one"', '"<instructions>b</instructions>one"', True),
        ('"<instructions>a</instructions>one"', '"<instructions>a</instructions>two"', False),
        ('"one <instructions>a</instructions>"', '"one <instructions>b</instructions>"', False),
    ],
)
def test_prose_is_hidden_and_nothing_else(before: str, after: str, hidden: bool) -> None:
    assert (changes_beside_prose(before, after) == []) is hidden
