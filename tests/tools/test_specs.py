"""What a spec says of itself: schemas from types, arguments with their aliases, requests, results, names."""

from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, Struct

from molecule_core.api.approvals.gate import UNGATED_TOOLS
from molecule_core.tools.mcp_dispatcher import tool_listing
from molecule_core.tools.registry import TOOLS, find_tool
from molecule_core.tools.spec import (
    APPROVAL_ARGUMENT,
    TOOL_SECTIONS,
    BadArgumentsError,
    RouteCall,
    ToolError,
    ToolRequest,
    ToolSpec,
    json_schema_of,
)
from molecule_core.wire.schemas.runtimes import Runtime, tool_name
from tests.requirements import requirement

OWN = "0199a0a0-0000-7000-8000-000000000001"
PEER = "0199a0a0-0000-7000-8000-000000000002"


def tool(name: str) -> ToolSpec:
    """A tool that is there."""
    spec = find_tool(name)
    assert spec is not None
    return spec


def request_of(name: str, **given: Any) -> ToolRequest:
    """The request that a call is."""
    spec = tool(name)
    return spec.to_request(OWN, spec.parse_arguments(given))


# -- schemas -----------------------------------------------------------------------------------------------------------


class Inner(Struct):
    """Inside."""

    title: Annotated[str, Meta(description="a title")]
    default: int | None = None


class Outer(Struct, forbid_unknown_fields=True):
    """Outside."""

    first: Inner
    rest: Annotated[list[Inner], Meta(description="all others")] = []


def test_a_schema_stands_alone_and_keeps_what_is_called_title() -> None:
    inner = {
        "description": "Inside.",
        "type": "object",
        "properties": {
            "title": {"description": "a title", "type": "string"},
            "default": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
        },
        "required": ["title"],
    }
    assert json_schema_of(Outer) == {
        "type": "object",
        "properties": {
            "first": inner,
            "rest": {"description": "all others", "type": "array", "items": inner, "default": []},
        },
        "required": ["first"],
        "additionalProperties": False,
    }


def _nodes(schema: Any) -> list[dict[str, Any]]:
    if isinstance(schema, list):
        return [node for each in schema for node in _nodes(each)]
    if not isinstance(schema, dict):
        return []
    return [schema, *(node for each in schema.values() for node in _nodes(each))]


@requirement("G1", "G3")
@pytest.mark.parametrize("spec", TOOLS, ids=lambda spec: spec.name)
def test_every_argument_is_described_and_no_other_is_taken(spec: ToolSpec) -> None:
    schema = spec.input_schema
    assert schema["additionalProperties"] is False
    assert all(each.get("description") for each in schema["properties"].values())
    assert not any("$ref" in node for node in [*_nodes(schema), *_nodes(spec.output_schema)])
    assert schema["type"] == spec.output_schema["type"] == "object"


@requirement("G3")
@pytest.mark.parametrize("spec", TOOLS, ids=lambda spec: spec.name)
def test_a_choice_has_a_type_and_no_empty_value_which_some_hosts_refuse(spec: ToolSpec) -> None:
    choices = [node for node in _nodes(spec.input_schema) if "enum" in node]
    assert all(node["type"] == "string" and "" not in node["enum"] for node in choices)
    agents = ("spawn_agent", "wait_agent", "interrupt_agent", "close_agent")
    others = ("reply_to_workspace", "decide_approval", "commit_memory", "recall_memory")
    assert bool(choices) is (spec.name in (*agents, *others))


@requirement("G3")
@pytest.mark.parametrize("spec", TOOLS, ids=lambda spec: spec.name)
def test_a_description_is_short_enough_for_the_host_that_cuts(spec: ToolSpec) -> None:
    assert len(spec.description) < 4096
    assert "\n" not in spec.summary
    assert spec.summary.endswith(".")
    assert spec.section in TOOL_SECTIONS


@requirement("G3")
def test_all_tools_together_fit_into_a_line_that_hosts_read_at_once() -> None:
    """Streams of asyncio, on which hosts are written, read 64 KiB as a line; a response around it adds some bytes."""
    assert len(msgspec.json.encode([tool_listing(spec) for spec in TOOLS])) < 65_000


@requirement("G2")
def test_the_tools_keep_the_arguments_of_the_original_ones() -> None:
    ours = {spec.name: set(spec.input_schema["properties"]) - {APPROVAL_ARGUMENT} for spec in TOOLS}
    via = {"via_workspace"}
    answers = {"reply_handle", "progress"}
    mine, target = {"thread_id", *via}, {"target", "thread_id", *via}
    born = {"task_name", "message", "nickname", "role", "kind", "base_instructions", "model", "effort"}
    assert ours == {
        "spawn_agent": {*born, "fork_turns", "workspace_id", "wake", *mine},
        "send_message": {"message", *target},
        "followup_task": {"message", *target},
        "wait_agent": {"targets", "mode", "timeout", "after", *mine},
        "interrupt_agent": {"descendants", *target},
        "close_agent": {"descendants", *target},
        "resume_agent": target,
        "list_agents": {"prefix", *mine},
        "reply": {"handle", "text", "progress", "attachments", "data", *via},
        "decline": {"handle", "reason", *via},
        "present_options": {"question", "options", *via},
        "reply_to_workspace": {"workspace_id", "peer_id", "text", "activity_id", "intent", "attempt", *answers},
        "send_message_to_user": {"message", "attachments", "workspace_id", *answers},
        "list_peers": {"q", *via},
        "delegate_task": {"workspace_id", "task", "wait", "deadline_seconds", "accept", "rounds", "may", *via},
        "delegate_task_async": {"workspace_id", "task", "deadline_seconds", "accept", "rounds", "may", *via},
        "check_task_status": {"workspace_id", "task_id", *via},
        "cancel_task": {"task_id", "reason", *via},
        "report_progress": {"task_id", "current_step", "tools_used", "eta_hint", "percent", *via},
        "get_workspace_info": via,
        "get_runtime_identity": set(),
        "update_agent_card": {"card", *via},
        "broadcast_message": {"message", "workspace_id"},
        "wait_for_message": {"timeout_secs"},
        "inbox_peek": {"limit"},
        "inbox_pop": {"activity_id", "attempt", "workspace_id"},
        "read_file": {"uri", "offset", *via},
        "upload_file": {"path", "text", "name", *via},
        "chat_history": {"peer_id", "limit", "before_ts", *via},
        "commit_memory": {"content", "scope", "namespace", *via},
        "recall_memory": {"query", "scope", "namespace", "limit", *via},
        "request_approval": {"action", "reason", "details", "cost", "expires_in", "task_id", "wait", *via},
        "decide_approval": {"decision", "note", "details", "revision", "action_hash", *via},
    }


@requirement("G2", "Q9")
@pytest.mark.parametrize("spec", TOOLS, ids=lambda spec: spec.name)
def test_every_tool_that_a_rule_can_stop_takes_the_approval_that_allows_it(spec: ToolSpec) -> None:
    cannot = spec.name in (*UNGATED_TOOLS, "request_approval")
    assert (APPROVAL_ARGUMENT in spec.input_schema["properties"]) is not cannot


# -- arguments ---------------------------------------------------------------------------------------------------------


@requirement("G2")
@pytest.mark.parametrize("alias", ["via_workspace", "source_workspace_id", "_as_workspace"])
def test_the_identity_is_understood_under_all_of_its_names(alias: str) -> None:
    spec = tool("list_peers")
    assert spec.caller_workspace(spec.parse_arguments({alias: OWN})) == OWN
    assert alias == "via_workspace" or alias not in spec.input_schema["properties"]


@pytest.mark.parametrize("alias", ["workspace_id", "source_workspace_id", "_as_workspace"])
def test_where_the_original_calls_it_workspace_id_that_is_the_identity(alias: str) -> None:
    spec = tool("send_message_to_user")
    assert spec.caller_workspace(spec.parse_arguments({"message": "hi", alias: OWN})) == OWN


def test_two_identities_in_one_call_are_refused() -> None:
    with pytest.raises(BadArgumentsError, match="two different workspaces"):
        tool("list_peers").parse_arguments({"via_workspace": OWN, "source_workspace_id": PEER})


def test_the_same_identity_twice_is_one() -> None:
    spec = tool("list_peers")
    assert spec.caller_workspace(spec.parse_arguments({"via_workspace": OWN, "_as_workspace": OWN})) == OWN


@pytest.mark.parametrize("empty", ["", None])
def test_an_empty_identity_is_none(empty: str | None) -> None:
    spec = tool("list_peers")
    assert spec.caller_workspace(spec.parse_arguments({"via_workspace": empty, "source_workspace_id": OWN})) == OWN
    assert spec.caller_workspace(spec.parse_arguments({"via_workspace": empty})) == ""


def test_a_tool_about_all_seats_takes_no_identity() -> None:
    assert tool("wait_for_message").identity_argument is None
    with pytest.raises(BadArgumentsError):
        tool("wait_for_message").parse_arguments({"via_workspace": OWN})


@pytest.mark.parametrize(
    ("name", "given", "read"),
    [
        ("wait_for_message", {"timeout_secs": "2.5"}, {"timeout_secs": 2.5}),
        ("inbox_peek", {"limit": "3"}, {"limit": 3}),
        ("send_message_to_user", {"message": "5", "progress": "true"}, {"message": "5", "progress": True}),
        ("send_message_to_user", {"message": '{"a": 1}'}, {"message": '{"a": 1}'}),
        ("present_options", {"question": "Which?", "options": '["a", "b"]'}, {"options": ["a", "b"]}),
        ("request_approval", {"action": "a", "reason": "r", "details": '{"a": [1]}'}, {"details": {"a": [1]}}),
    ],
)
def test_what_comes_as_text_is_read_once_where_no_text_can_be(name: str, given: Any, read: dict[str, Any]) -> None:
    found = msgspec.to_builtins(tool(name).parse_arguments(given))
    assert {key: found[key] for key in read} == read


@pytest.mark.parametrize("given", [{"limit": '"3"'}, {"limit": "three"}, {"limit": "NaN"}, {"limit": "[" * 9000}])
def test_text_is_read_only_once_and_only_as_json(given: Any) -> None:
    with pytest.raises(BadArgumentsError):
        tool("inbox_peek").parse_arguments(given)


def test_unknown_members_are_passed_over_with_a_note() -> None:
    spec = tool("send_message_to_user")
    given = {"message": "hi", "explanation": "I was asked to", "x" * 500: 1}
    assert spec.parse_arguments(given) == spec.parse_arguments({"message": "hi"})
    assert spec.unknown_note(given).startswith("send_message_to_user has no argument explanation, xxx")
    assert len(spec.unknown_note(given)) < 400
    assert spec.unknown_note({"message": "hi"}) == ""


def test_null_counts_as_not_given() -> None:
    spec = tool("inbox_peek")
    assert spec.parse_arguments({"limit": None}) == spec.parse_arguments(None) == spec.parse_arguments({})


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("send_message_to_user", {}, "message"),
        ("send_message_to_user", {"message": ""}, "length >= 1"),
        ("wait_for_message", {"timeout_sec": 5}, "`timeout_sec`"),
        ("wait_for_message", {"timeoutSecs": 5}, "`timeoutSecs`"),
        ("delegate_task", {"peer_id": "p", "task": "t", "via_worksapce": "w"}, "`via_worksapce`"),
        ("inbox_peek", {"limit": 0}, ">= 1"),
        ("inbox_peek", {"limit": "many"}, "int"),
        ("wait_for_message", {"timeout_secs": 301}, "<= 300"),
        ("reply_to_workspace", {"text": "hi", "peer_id": "../../admin"}, "peer_id"),
        ("list_peers", [], "object"),
        ("list_peers", "q=x", "object"),
    ],
)
def test_wrong_arguments_are_refused_with_the_tool_the_fault_and_the_way_out(name: str, given: Any, said: str) -> None:
    with pytest.raises(BadArgumentsError) as refused:
        tool(name).parse_arguments(given)
    text = refused.value.text
    assert text.startswith(f"{name}: ")
    assert said in text
    assert text.endswith("Correct the arguments and call the tool again.")


@given(st.sampled_from(TOOLS), st.dictionaries(st.text(max_size=20), st.text(max_size=50) | st.integers(), max_size=5))
def test_whatever_is_given_is_taken_or_refused_in_bounded_words(spec: ToolSpec, given_: dict[str, Any]) -> None:
    try:
        assert isinstance(spec.parse_arguments(given_), spec.arguments_type)
    except BadArgumentsError as error:
        assert 20 < len(error.text) < 1500


# -- requests and results ----------------------------------------------------------------------------------------------


@requirement("G1")
def test_a_call_of_a_route_is_a_request_of_the_public_api() -> None:
    assert request_of("send_message_to_user", message="hi") == ToolRequest(
        "POST", f"/workspaces/{OWN}/notify", {}, {"message": "hi", "progress": False}
    )
    assert request_of("list_peers") == ToolRequest("GET", f"/registry/{OWN}/peers", {}, None)
    assert request_of("list_peers", q="a b&c").query == {"q": "a b&c"}
    assert request_of("update_agent_card", card={"name": "x"}).body == {
        "workspace_id": OWN,
        "agent_card": {"name": "x"},
    }
    assert request_of("recall_memory", query="tea", limit=3).query == {"q": "tea", "limit": 3}


def test_the_seat_in_a_path_is_the_callers_whatever_the_arguments_say() -> None:
    assert request_of("send_message_to_user", message="hi", workspace_id=PEER).path == f"/workspaces/{OWN}/notify"


class Paths(Struct, frozen=True, forbid_unknown_fields=True):
    """A key in a path."""

    key: str = ""


@pytest.mark.parametrize("key", ["", ".", "..", "..."])
def test_a_path_is_not_filled_with_what_leads_elsewhere(key: str) -> None:
    spec = msgspec.structs.replace(
        tool("list_peers"),
        arguments_type=Paths,
        call=RouteCall("GET", "/workspaces/{workspace_id}/memory/{key}", path_arguments={"key": "key"}),
    )
    with pytest.raises(BadArgumentsError, match="cannot be"):
        spec.to_request(OWN, spec.parse_arguments({"key": key}))


def test_a_value_in_a_path_is_one_segment_of_it() -> None:
    spec = msgspec.structs.replace(
        tool("list_peers"),
        arguments_type=Paths,
        call=RouteCall("GET", "/workspaces/{workspace_id}/memory/{key}", path_arguments={"key": "key"}),
    )
    path = spec.to_request(OWN, spec.parse_arguments({"key": "a/../b?c#d é"})).path
    assert path == f"/workspaces/{OWN}/memory/a%2F..%2Fb%3Fc%23d%20%C3%A9"


def test_a_list_is_put_under_its_name_and_the_seat_beside_it() -> None:
    row = {
        "id": PEER,
        "name": "Ops",
        "role": None,
        "status": "online",
        "parent_id": None,
        "active_tasks": 0,
        "limited_until": None,
        "url": "x",
    }
    result = tool("list_peers").convert_result(OWN, [row])
    assert result["workspace_id"] == OWN
    assert result["peers"] == [
        {**{key: row[key] for key in row if key != "url"}, "agent_card": None, "via_workspace": ""}
    ]


@pytest.mark.parametrize("answer", [None, [], "ok", {"status": 7}])
def test_an_answer_that_nobody_knows_is_told_as_such(answer: Any) -> None:
    with pytest.raises(ToolError, match="have different versions"):
        tool("send_message_to_user").convert_result(OWN, answer)


# -- names -------------------------------------------------------------------------------------------------------------


@requirement("G3")
def test_names_are_those_that_each_runtime_makes_of_them() -> None:
    assert {runtime.name: tool_name("list_peers", runtime) for runtime in Runtime} == {
        "CLAUDE_CODE": "mcp__molecule__list_peers",
        "CODEX": "mcp__molecule.list_peers",
        "GEMINI_CLI": "mcp_molecule_list_peers",
        "OPENCODE": "molecule_list_peers",
        "CLINE": "molecule__list_peers",
        "BARE": "list_peers",
    }


@requirement("G3")
def test_reply_and_inbox_tools_are_always_loaded() -> None:
    assert {spec.name for spec in TOOLS if spec.always_load} == {
        "reply",
        "decline",
        "decide_approval",
        "reply_to_workspace",
        "send_message_to_user",
        "wait_for_message",
        "inbox_peek",
        "inbox_pop",
    }


@requirement("G1")
def test_no_name_stands_twice() -> None:
    assert len({spec.name for spec in TOOLS}) == len(TOOLS)
    words = [spec.cli for spec in TOOLS if spec.cli]
    assert len(set(words)) == len(words)
    assert find_tool("fly_agent") is None
