"""What a card says of an agent's tools: names that the platform knows, or nothing."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_core.wire.schemas.agent_cards import ALL_TOOL_NAMES, LOADED_TOOLS_MEMBER, MAX_LOADED_TOOLS, declared_tools
from molecule_core.wire.schemas.runtimes import Runtime, tool_name
from tests.requirements import requirement

junk = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=8)
    | st.sampled_from([*ALL_TOOL_NAMES, LOADED_TOOLS_MEMBER, "tools", "mcp"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from([LOADED_TOOLS_MEMBER, "capabilities", "mcp", "mcp_tools", "tools", "name", "x"]), inner
        )
    ),
    max_leaves=12,
)


@requirement("I9")
@given(junk)
def test_whatever_a_card_is_only_plain_names_come_out_each_once(card: Any) -> None:
    found = declared_tools(card) or ()
    assert len(set(found)) == len(found) <= MAX_LOADED_TOOLS
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]{1,128}", name) for name in found)


@requirement("I9")
@pytest.mark.parametrize(
    "card",
    [
        {"loaded_mcp_tools": ["inbox_pop", "reply_to_workspace", "<b>", "a b", "x" * 200, 7, None]},
        {"loaded_mcp_tools": [{"name": "inbox_pop"}, {"name": "reply_to_workspace"}, {"title": "x"}]},
        {"capabilities": {"loaded_mcp_tools": ["inbox_pop", "reply_to_workspace"]}},
        {"capabilities": {"mcp": {"tools": ["inbox_pop", "reply_to_workspace"]}}},
        {"capabilities": {"mcp_tools": {"inbox_pop": {}, "reply_to_workspace": {}}}},
        {"mcp": {"tools": ["inbox_pop", "reply_to_workspace", "inbox_pop"]}},
        {"mcp_tools": ["inbox_pop", "reply_to_workspace"]},
        {"tools": ["inbox_pop", "reply_to_workspace"]},
        {"loaded_mcp_tools": ["inbox_pop", "reply_to_workspace"], "mcp_tools": ["recall_memory"]},
    ],
)
def test_every_place_where_cards_list_tools_is_read(card: dict[str, Any]) -> None:
    assert declared_tools(card) == ("inbox_pop", "reply_to_workspace")


@requirement("I9")
@pytest.mark.parametrize("runtime", Runtime)
def test_the_spelling_of_every_runtime_is_known(runtime: Runtime) -> None:
    assert (
        declared_tools({LOADED_TOOLS_MEMBER: [tool_name(name, runtime) for name in ALL_TOOL_NAMES]}) == ALL_TOOL_NAMES
    )


@pytest.mark.parametrize(
    "card",
    [None, "x", [], {}, {"mcp": "x"}, {"capabilities": {"streaming": True}}, {LOADED_TOOLS_MEMBER: 3}, {"tools": 16}],
)
def test_a_card_that_says_nothing_is_not_one_that_says_none(card: Any) -> None:
    assert declared_tools(card) is None
    assert declared_tools({LOADED_TOOLS_MEMBER: []}) == ()
