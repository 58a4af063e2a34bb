"""The harness itself, without a host: a script that does not fit is told of, and nothing secret gets onto a page."""

from typing import Any

import pytest

from tests.interop.hosts import KEY
from tests.interop.model_protocols import Contents, Dialect, Messages, Responses
from tests.interop.model_scripts import Asked, Call, Mind, Result
from tests.interop.scene import answers, peeks
from tests.interop.transcript import Veil, shortened

SHOWN = Result("inbox_peek", 'Output:\n{"messages":[{"activity_id":"a","text":"hi","arrival_workspace_id":"w"}]} more')


def test_a_script_follows_from_what_is_shown_and_not_from_how_often_it_is_asked() -> None:
    mind = Mind("x_", [peeks, answers])
    offered = ("x_inbox_peek", "x_reply_to_workspace")

    first, again = (mind.answer(Asked(offered, (), "")) for _ in range(2))
    then = mind.answer(Asked(offered, (SHOWN,), ""))

    assert first == again == Call("x_inbox_peek", {})
    named = {"workspace_id": "w", "activity_id": "a", "peer_id": ""}
    assert then == Call("x_reply_to_workspace", {**named, "text": "2 letters, backwards: ih"})
    assert mind.answer(Asked(offered, (SHOWN, SHOWN), "")) == "Done."
    assert mind.faults == []


@pytest.mark.parametrize(
    ("asked", "fault"),
    [
        (Asked(("x_inbox_pop",), (), ""), "x_inbox_peek is not offered, only x_inbox_pop"),
        (Asked(("x_reply_to_workspace",), (Result("inbox_peek", "nothing here"),), ""), "gave no JSON: nothing here"),
        (Asked(("x_reply_to_workspace",), (Result("inbox_peek", '{"messages":[]}'),), ""), "step 1 does not fit"),
    ],
)
def test_a_script_that_does_not_fit_leaves_a_fault_and_ends_the_turn(asked: Asked, fault: str) -> None:
    mind = Mind("x_", [peeks, answers])

    assert isinstance(mind.answer(asked), str)
    (found,) = mind.faults
    assert fault in found


def conversation(dialect: Dialect, events: list[dict[str, Any]]) -> dict[str, Any]:
    """The request that follows a stream with a call, as a host of this dialect makes it."""
    if isinstance(dialect, Responses):
        call = next(each["item"] for each in events if each["type"] == "response.output_item.done")
        output = {"type": "function_call_output", "call_id": call["call_id"], "output": SHOWN.text}
        return {"input": [call, output], "tools": []}
    if isinstance(dialect, Contents):
        content = events[0]["candidates"][0]["content"]
        name = content["parts"][0]["functionCall"]["name"]
        response = {"role": "user", "parts": [{"functionResponse": {"name": name, "response": {"output": SHOWN.text}}}]}
        return {"contents": [content, response], "tools": [{"functionDeclarations": [{"name": "x"}]}]}
    block = next(each["content_block"] for each in events if each["type"] == "content_block_start")
    result = {"type": "tool_result", "tool_use_id": block["id"], "content": SHOWN.text}
    return {"messages": [{"content": [block]}, {"content": [result]}], "tools": [{"name": "x"}]}


@pytest.mark.parametrize("dialect", [Messages(), Responses(), Contents()], ids=["messages", "responses", "contents"])
def test_an_act_is_read_back_from_the_conversation_in_its_dialect(dialect: Dialect) -> None:
    name = "mcp__molecule.inbox_peek" if isinstance(dialect, Responses) else "mcp__molecule__inbox_peek"
    events = list(dialect.events(Call(name, {"limit": 3}), 1, {"model": "m"}))

    asked = dialect.asked(conversation(dialect, events))

    assert asked is not None
    assert asked.results == (Result(name, SHOWN.text),)


def test_a_veil_hides_what_is_secret_or_differs_and_keeps_ids_apart() -> None:
    veil = Veil({"/somewhere/home": "~", "/somewhere": "CHECKOUT"})
    one, two = "01a20285-c29b-7d47-88a7-0639eb1167b3", "01a20285-c2a6-7b4b-bb97-d43588561712"

    shown = veil.over(
        f"{KEY} mol_ws_{'A' * 43}00000000 /somewhere/home/x /somewhere/y 127.0.0.1:4711 {one} {two} {one}"
    )

    assert shown == "KEY TOKEN ~/x CHECKOUT/y 127.0.0.1:PORT ID-1 ID-2 ID-1"
    assert veil.over('at 2026-11-22T09:10:51.472Z {"ms":1795338081018}') == 'at TIME {"ms":"TIME"}'


def test_of_many_tools_a_page_shows_the_first_whole_and_the_names_of_the_others() -> None:
    line = '< {"id":1,"result":{"tools":[{"name":"a","x":1},{"name":"b"},{"name":"c"}]}}'

    assert shortened(line) == '< {"id":1,"result":{"tools":[{"name":"a","x":1},"and 2 more: b, c"]}}'
    assert shortened('> {"id":1}') == '> {"id":1}'
