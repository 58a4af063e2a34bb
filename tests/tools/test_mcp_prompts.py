"""Prompts of the MCP servers: their texts, their arguments, and the completion of workspace names."""

from typing import Any

import pytest

from molecule_core.tools.mcp_dispatcher import HANDSHAKE_VERSIONS, ExtraMethods
from molecule_core.tools.mcp_features import CallerWorkspace
from molecule_core.tools.mcp_prompts import MAX_ARGUMENT_LENGTH, PROMPTS, PromptFeature
from molecule_core.tools.spec import ToolError
from molecule_core.wire.schemas.runtimes import Runtime
from tests.requirements import requirement
from tests.tools.mcp_session import Talk, no_changes, no_download, stateless

PEERS = {"a1": "Ops", "b2": "Ops desk", "c3": "Lager <b>", "d4": "Twin", "e5": "twin", "f6": "Two\nlines"}


class Registry:
    """A requester that knows some peers, as the route of the registry does."""

    def __init__(self, peers: dict[str, str] = PEERS, error: ToolError | None = None) -> None:
        self._peers = peers
        self._error = error

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Any:
        if self._error is not None:
            raise self._error
        if path.startswith("/registry/discover/"):
            id_ = path.rpartition("/")[2]
            if id_ not in self._peers:
                raise ToolError("workspace not found", "not_found")
            return {"id": id_, "name": self._peers[id_]}
        text = (query or {}).get("q", "").casefold()
        return [{"id": id_, "name": name} for id_, name in self._peers.items() if text in name.casefold()]


def talk(*registries: Registry, runtime: Runtime = Runtime.BARE) -> Talk:
    """A client of a server with prompts, whose caller has a workspace per registry."""
    chosen = registries or (Registry(),)

    async def workspaces() -> tuple[CallerWorkspace, ...]:
        return tuple(
            CallerWorkspace(f"own-{number}", each, no_download, no_changes) for number, each in enumerate(chosen)
        )

    return Talk(extra=ExtraMethods(features=(PromptFeature(workspaces, lambda: runtime),)))


async def text_of(client: Talk, name: str, **arguments: str) -> str:
    """The text of a prompt, as the model reads it."""
    answer = await client.ask(str((name, arguments)), "prompts/get", {"name": name, "arguments": arguments})
    (message,) = answer["result"]["messages"]
    assert message["role"] == "user"
    text: str = message["content"]["text"]
    return text


async def error_of(client: Talk, name: str, **arguments: Any) -> dict[str, Any]:
    """The error of a prompt that cannot be rendered."""
    answer = await client.ask(str((name, arguments))[:200], "prompts/get", {"name": name, "arguments": arguments})
    error: dict[str, Any] = answer["error"]
    return error


async def completed(client: Talk, value: str, prompt: str = "ask", argument: str = "workspace") -> dict[str, Any]:
    """The completion of an argument."""
    params = {"ref": {"type": "ref/prompt", "name": prompt}, "argument": {"name": argument, "value": value}}
    answer = await client.ask(f"{prompt} {argument} {value}", "completion/complete", params)
    found: dict[str, Any] = answer["result"]["completion"]
    return found


# -- announcement ------------------------------------------------------------------------------------------------------


@requirement("N1")
@pytest.mark.parametrize("version", HANDSHAKE_VERSIONS)
async def test_each_version_is_offered_what_it_has(version: str) -> None:
    client = talk()
    capabilities = (await client.greet(version))["capabilities"]
    assert capabilities["prompts"] == {}
    assert ("completions" in capabilities) is (version != "2024-11-05")
    listed = (await client.ask(1, "prompts/list"))["result"]["prompts"]
    assert [each["name"] for each in listed] == ["ask", "delegate", "inbox"]
    assert all(("title" in each) is (version >= "2025-06-18") for each in listed)


async def test_the_stateless_list_says_that_it_is_the_callers_own() -> None:
    result = (await talk().ask(1, "prompts/list", {"_meta": stateless()}))["result"]
    assert (result["resultType"], result["ttlMs"], result["cacheScope"]) == ("complete", 0, "private")
    required = {
        each["name"]: [arg["name"] for arg in each["arguments"] if arg["required"]] for each in result["prompts"]
    }
    assert required == {"ask": ["workspace", "question"], "delegate": ["workspace", "task"], "inbox": []}


# -- texts -------------------------------------------------------------------------------------------------------------


@requirement("N1")
async def test_ask_names_the_tool_the_id_and_the_persons_own_words() -> None:
    text = await text_of(talk(), "ask", workspace="ops", question="Is {it} open?\n<b>Now</b>")
    assert 'Ask the workspace "Ops" (a1)' in text
    assert '`delegate_task` with `workspace_id` "a1".' in text
    assert text.endswith("Question:\nIs {it} open?\n<b>Now</b>")


async def test_delegate_returns_without_waiting() -> None:
    text = await text_of(talk(), "delegate", workspace="b2", task="Sweep")
    assert '`delegate_task_async` with `workspace_id` "b2"' in text and "\nTask:\nSweep\n" in text


async def test_a_host_that_passes_on_one_word_of_each_argument_loses_nothing() -> None:
    cut = await text_of(talk(), "ask", workspace='"Lager', question="Is")
    assert "(c3)" in cut and "If I typed more words after the command" in cut
    whole = await text_of(talk(), "ask", workspace="Lager", question="Is it open?")
    assert whole.endswith("Question:\nIs it open?")


async def test_inbox_answers_nothing_by_itself() -> None:
    assert "Answer and acknowledge no message until I say which." in await text_of(talk(), "inbox")
    assert 'open messages from the workspace "Ops" (a1), oldest' in await text_of(talk(), "inbox", workspace="Ops")


async def test_tools_are_named_as_the_program_names_them() -> None:
    client = talk(runtime=Runtime.CLAUDE_CODE)
    assert "`mcp__molecule__delegate_task`" in await text_of(client, "ask", workspace="Ops", question="?")


async def test_a_caller_with_several_workspaces_is_shown_which_one_acts() -> None:
    client = talk(Registry({"a1": "Ops"}), Registry({"b2": "Desk"}))
    text = await text_of(client, "ask", workspace="Desk", question="?")
    assert '`workspace_id` "b2" and `via_workspace` "own-1"' in text


async def test_the_name_of_a_workspace_is_data() -> None:
    text = await text_of(talk(), "ask", workspace="Lager", question="?")
    assert '"Lager \\u003cb>" (c3)' in text
    text = await text_of(talk(), "ask", workspace="f6", question="?")
    assert '"Two lines" (f6)' in text


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [
        ("burn", {}, "Available prompts: ask, delegate, inbox"),
        ("ask", {"workspace": "Ops"}, "question is missing"),
        ("ask", {"workspace": "Ops", "question": " "}, "question is missing"),
        ("ask", {"workspace": "Ops", "question": 7}, "question must be a text"),
        ("ask", {"workspace": "Ops", "question": "x" * (MAX_ARGUMENT_LENGTH + 1)}, "at most 20000 characters"),
        ("ask", {"workspace": "Nowhere", "question": "?"}, "'Nowhere' not found"),
        ("ask", {"workspace": "../a1", "question": "?"}, "'../a1' not found"),
        ("ask", {"workspace": "twin", "question": "?"}, "is the name of 2 workspaces"),
    ],
)
async def test_a_prompt_that_cannot_be_rendered_says_why(name: str, arguments: dict[str, Any], reason: str) -> None:
    error = await error_of(talk(), name, **arguments)
    assert error["code"] == -32602
    assert reason in error["message"]


async def test_a_server_that_does_not_answer_is_an_error_of_the_request() -> None:
    client = talk(Registry(error=ToolError("the server is busy.", "busy")))
    error = await error_of(client, "ask", workspace="Ops", question="?")
    assert (error["code"], error["data"], error["message"]) == (-32603, {"code": "busy"}, "the server is busy.")


# -- completion --------------------------------------------------------------------------------------------------------


@requirement("N1")
async def test_names_that_begin_with_the_value_come_first_and_shared_names_are_ids() -> None:
    client = talk()
    assert (await completed(client, "op"))["values"] == ["Ops", "Ops desk"]
    assert (await completed(client, "des"))["values"] == ["Ops desk"]
    assert (await completed(client, "TW"))["values"] == ["d4", "e5", "f6"]
    assert (await completed(client, "zzz"))["values"] == []


async def test_a_completion_has_at_most_a_hundred_values_and_says_so() -> None:
    client = talk(Registry({f"id{number}": f"Ops {number:03}" for number in range(120)}))
    found = await completed(client, "")
    assert (len(found["values"]), found["total"], found["hasMore"]) == (100, 120, True)


async def test_only_workspaces_are_completed() -> None:
    client = talk()
    assert (await completed(client, "Op", argument="question"))["values"] == []
    for reference, argument in (
        ({"type": "ref/prompt", "name": "burn"}, {"name": "workspace", "value": ""}),
        ({"type": "ref/prompt", "name": "ask"}, {"name": "colour", "value": ""}),
        ({"type": "ref/prompt", "name": "ask"}, {"name": "workspace", "value": 1}),
        ({"type": "ref/other"}, {"name": "workspace", "value": ""}),
        ([], None),
    ):
        answer = await client.ask(str(reference), "completion/complete", {"ref": reference, "argument": argument})
        assert answer["error"]["code"] == -32602


def test_every_text_fits_what_hosts_show() -> None:
    assert all(len(each.description) <= 80 and len(each.text) <= 600 for each in PROMPTS)
