"""`molecule acp` as an editor meets it: a client of the official SDK, a real server, an agent that the test plays."""

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import acp
import pytest
from acp import schema

from molecule_core.client.api import ApiClient
from testing.ports import free_port
from testing.processes import client, serving
from testing.running_server import ADMIN_TOKEN, Running, Seat
from testing.waits import bounded, eventually
from tests.agent.editor.editor_client import Editor, ScriptedAgent, editing, person_token, words_of


@pytest.fixture
async def agent(one: Running) -> ScriptedAgent:
    """The agent of the only workspace, online."""
    played = ScriptedAgent(await one.seat("Ops"))
    await played.is_online()
    return played


@pytest.fixture
async def editor(one: Running, state: Path, agent: ScriptedAgent) -> AsyncIterator[Editor]:
    """Ada's editor."""
    async with editing(one.url, state, await person_token(one)) as opened:
        yield opened


async def test_the_greeting_names_what_the_agent_can_do(editor: Editor) -> None:
    later = await bounded(editor.agent.initialize(protocol_version=99))
    able = editor.greeting.agent_capabilities
    assert (editor.greeting.protocol_version, later.protocol_version, editor.greeting.agent_info.name) == (
        1,
        1,
        "molecule",
    )
    assert able.load_session and able.session_capabilities.list is not None
    content = able.prompt_capabilities
    assert (content.image, content.audio, content.embedded_context) == (True, False, True)


async def test_live_text_and_tools_are_shown_and_the_answer_is_not_repeated(
    editor: Editor, agent: ScriptedAgent, state: Path
) -> None:
    session = await editor.new_session(state)
    prompt = editor.prompt(session, "What is new?")
    message = await agent.message()
    assert words_of(message) == "What is new?"
    await agent.live(message, {"type": "status", "status": "working"}, {"type": "text", "text": "I look. ", "at": 0})
    await agent.live(message, {"type": "tool", "call_id": "1", "tool": "Bash", "title": "git log", "status": "started"})
    await editor.shows_call(session, lambda call: call.get("status") == "in_progress")
    await agent.live(
        message, {"type": "tool", "call_id": "1", "tool": "Bash", "title": "git log", "status": "completed"}
    )
    await agent.live(message, {"type": "text", "text": "Two comm", "at": 8})
    await editor.shows(session, "Two comm")
    await agent.answer(message, "Two commits.")
    assert (await bounded(prompt)).stop_reason == "end_turn"
    assert editor.text(session) == "I look. Two commits."
    (call,) = editor.of_kind(session, "tool_call")
    assert (call["title"], call["kind"]) == ("Bash: git log", "execute")
    assert editor.of_kind(session, "tool_call_update")[-1]["status"] == "completed"


async def test_an_approval_is_decided_in_the_editor(
    one: Running, editor: Editor, agent: ScriptedAgent, state: Path
) -> None:
    session = await editor.new_session(state)
    prompt = editor.prompt(session, "Pay it")
    message = await agent.message()
    item = await agent.request_approval("pay the invoice")
    question = await bounded(editor.questions.get())
    assert question.tool_call["title"] == "Ops: pay the invoice" and question.tool_call["rawInput"] == {"amount": 7}
    assert [each["optionId"] for each in question.options] == ["approve", "deny"]
    question.choice.set_result("approve")
    done = await editor.shows_call(session, lambda call: call.get("status") == "completed")
    assert done["content"][0]["content"]["text"] == "Approved by Ada"
    kept = await agent.seat.api.get(f"/workspaces/{agent.seat.id}/approvals/{item['approval_id']}")
    assert (kept["status"], kept["decided"]["by"]["name"]) == ("approved", "Ada")
    await agent.answer(message, "Paid.")
    assert (await bounded(prompt)).stop_reason == "end_turn"


async def test_a_decision_made_elsewhere_withdraws_the_question(
    one: Running, editor: Editor, agent: ScriptedAgent, state: Path
) -> None:
    session = await editor.new_session(state)
    prompt = editor.prompt(session, "Pay it")
    message = await agent.message()
    item = await agent.request_approval("pay the invoice")
    await bounded(editor.questions.get())
    where = f"/workspaces/{agent.seat.id}/approvals/{item['approval_id']}/decide"
    await one.admin.post(where, {"decision": "deny", "revision": item["revision"], "note": "too much"})
    closed = await editor.shows_call(session, lambda call: call.get("status") == "failed")
    assert "Denied by" in closed["content"][0]["content"]["text"] and "too much" in str(closed)
    await agent.answer(message, "Not paid.")
    assert (await bounded(prompt)).stop_reason == "end_turn"


async def test_cancel_stops_the_running_turn(editor: Editor, agent: ScriptedAgent, state: Path) -> None:
    session = await editor.new_session(state)
    prompt = editor.prompt(session, "Count to a million")
    message = await agent.message()
    await agent.live(message, {"type": "status", "status": "working"}, {"type": "text", "text": "1, 2", "at": 0})
    await editor.shows(session, "1, 2")
    await editor.agent.cancel(session_id=session)

    async def controls() -> Any:
        return (await agent.live(message))["controls"]

    assert (await eventually(controls, bool))[0]["type"] == "stop"
    await agent.live(message, {"type": "status", "status": "stopped"})
    assert (await bounded(prompt)).stop_reason == "cancelled"


async def test_cancel_before_the_agent_has_the_message_says_that_it_stays(
    editor: Editor, agent: ScriptedAgent, state: Path
) -> None:
    session = await editor.new_session(state)
    prompt = editor.prompt(session, "Hello")

    async def stored() -> Any:
        page = await agent.seat.api.get(f"/workspaces/{agent.seat.id}/chat-history")
        return page["messages"]

    await eventually(stored, bool)
    await editor.agent.cancel(session_id=session)
    assert (await bounded(prompt)).stop_reason == "cancelled"


async def test_a_loaded_session_repeats_its_own_messages_in_a_new_process(
    one: Running, state: Path, agent: ScriptedAgent
) -> None:
    token = await person_token(one)
    async with editing(one.url, state, token) as first:
        session, other = await first.new_session(state), await first.new_session(state)
        for one_session, text in ((session, "First"), (other, "Of the other session"), (session, "Second")):
            prompt = first.prompt(one_session, text)
            message = await agent.message()
            await agent.answer(message, f"answer to {text}")
            await bounded(prompt)
    async with editing(one.url, state, token) as later:
        await bounded(later.agent.load_session(cwd=str(state), session_id=session, mcp_servers=[]))
        shown = [(u["sessionUpdate"], u["content"]["text"]) for _, u in later.updates if "content" in u]
        assert shown == [
            ("user_message_chunk", "First"),
            ("agent_message_chunk", "answer to First"),
            ("user_message_chunk", "Second"),
            ("agent_message_chunk", "answer to Second"),
        ]
        listed = await bounded(later.agent.list_sessions())
        assert {each.session_id for each in listed.sessions} >= {session, other, f"chat-{agent.seat.id}"}
        assert next(each.title for each in listed.sessions if each.session_id == session) == "First"
        with pytest.raises(acp.RequestError, match="does not exist"):
            await bounded(later.agent.load_session(cwd=str(state), session_id="0" * 32, mcp_servers=[]))


async def test_two_sessions_at_once_get_each_its_own_answer(editor: Editor, agent: ScriptedAgent, state: Path) -> None:
    one_session, other = await editor.new_session(state), await editor.new_session(state)
    prompts = [editor.prompt(one_session, "one")]
    first = await agent.message()
    prompts.append(editor.prompt(other, "two"))
    second = await agent.message()
    await agent.answer(second, "answer two")
    await agent.answer(first, "answer one")
    assert [(await bounded(each)).stop_reason for each in prompts] == ["end_turn", "end_turn"]
    assert (editor.text(one_session), editor.text(other)) == ("answer one", "answer two")


async def test_a_late_answer_to_an_earlier_session_is_not_shown_in_a_new_one(
    one: Running, editor: Editor, agent: ScriptedAgent, state: Path
) -> None:
    await (await one.person()).send(agent.seat.id, "Of the page")
    earlier = await agent.message()
    session = await editor.new_session(state)
    prompt = editor.prompt(session, "Hello")
    message = await agent.message()
    await agent.answer(earlier, "Answer to the page")
    await agent.seat.api.post(f"/workspaces/{agent.seat.id}/notify", {"message": "On it", "progress": True})
    await editor.shows(session, "On it")
    await agent.answer(message, "Hello, Ada.")
    await bounded(prompt)
    assert editor.text(session) == "On it\n\nHello, Ada."


async def test_an_offline_agent_is_named_and_its_later_answer_appears(one: Running, state: Path) -> None:
    agent = ScriptedAgent(await one.seat("Ops"))
    async with editing(one.url, state, await person_token(one), "--wait", "6") as editor:
        session = await editor.new_session(state)
        prompt = editor.prompt(session, "Are you there?")
        await editor.shows(session, "has no agent connected. Your message waits in its inbox.")
        assert (await bounded(prompt)).stop_reason == "end_turn"
        assert "The answer appears in this conversation when it comes." in editor.text(session)
        message = await agent.message()
        await agent.answer(message, "Now I am.")
        await editor.shows(session, "Now I am.")


async def test_images_and_embedded_resources_arrive_as_files(editor: Editor, agent: ScriptedAgent, state: Path) -> None:
    session = await editor.new_session(state)
    picture = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"0" * 40).decode()
    text = schema.TextResourceContents(uri="file:///home/ada/notes%20a.md", text="# Notes", mime_type="text/markdown")
    prompt = editor.prompt(
        session,
        "See ",
        schema.EmbeddedResourceContentBlock(type="resource", resource=text),
        schema.ImageContentBlock(type="image", data=picture, mime_type="image/png"),
        schema.ResourceContentBlock(type="resource_link", name="main.py", uri="file:///home/ada/main.py"),
    )
    message = await agent.message()
    assert words_of(message) == "See [notes a.md][main.py](file:///home/ada/main.py)"
    assert [(each["name"], each["mime_type"]) for each in message["attachments"]] == [
        ("notes a.md", "text/markdown"),
        ("image-2.png", "image/png"),
    ]
    await agent.answer(message, "Seen.")
    await bounded(prompt)


async def test_a_question_with_options_is_answered_by_a_choice(
    editor: Editor, agent: ScriptedAgent, state: Path
) -> None:
    session = await editor.new_session(state)
    prompt = editor.prompt(session, "Paint it")
    message = await agent.message()
    where = f"/workspaces/{agent.seat.id}/options"
    asked = {"question": "Which colour?", "options": ["Red", "Blue"], "in_reply_to": message["id"]}
    await agent.seat.api.post(where, asked)
    question = await bounded(editor.questions.get())
    assert [each["name"] for each in question.options] == ["Red", "Blue"]
    question.choice.set_result("option-1")
    choice = await agent.message()
    metadata = choice["request_body"]["params"]["message"]["metadata"]
    assert (words_of(choice), metadata["option"]) == ("Blue", 1) and metadata["option_of"]
    await agent.answer(choice, "It is blue.")
    assert (await bounded(prompt)).stop_reason == "end_turn"
    assert editor.text(session).endswith("It is blue.")


async def test_a_question_in_the_middle_of_the_work_is_asked_too(
    editor: Editor, agent: ScriptedAgent, state: Path
) -> None:
    session = await editor.new_session(state)
    prompt = editor.prompt(session, "Paint it")
    message = await agent.message()
    where = f"/workspaces/{agent.seat.id}/options"
    asked = {"question": "Which?", "options": ["Red", "Blue"], "in_reply_to": message["id"], "progress": True}
    await agent.seat.api.post(where, asked)
    question = await bounded(editor.questions.get())
    question.choice.set_result("option-0")
    assert words_of(await agent.message()) == "Red"
    await agent.answer(message, "It is red.")
    assert (await bounded(prompt)).stop_reason == "end_turn"


async def test_a_delegation_is_a_tool_call_until_its_end(one: Running, state: Path) -> None:
    lead = ScriptedAgent(await one.seat("Lead"))
    worker: Seat = await one.seat("Dev", parent_id=lead.seat.id)
    await lead.is_online()
    async with editing(one.url, state, await person_token(one), "--workspace", "Lead") as editor:
        session = await editor.new_session(state)
        prompt = editor.prompt(session, "Build it")
        message = await lead.message()
        task = {"target_id": worker.id, "task": "write the parser", "in_reply_to": message["id"]}
        given = await lead.seat.api.post(f"/workspaces/{lead.seat.id}/delegate", task)
        begun = await editor.shows_call(session, lambda call: call["sessionUpdate"] == "tool_call")
        assert begun["title"] == "Delegated to Lead/Dev: write the parser"
        where = f"/workspaces/{worker.id}/delegations/{given['delegation_id']}/update"
        await worker.api.post(where, {"status": "completed", "result": "parser written"})
        ended = await editor.shows_call(session, lambda call: call.get("status") == "completed")
        assert ended["toolCallId"] == begun["toolCallId"]
        await lead.answer(message, "Built.")
        await bounded(prompt)


async def test_the_workspace_of_a_session_is_chosen_among_those_of_the_person(one: Running, state: Path) -> None:
    ops = ScriptedAgent(await one.seat("Ops"))
    dev = ScriptedAgent(await one.seat("Dev", parent_id=ops.seat.id))
    for each in (ops, dev):
        await each.is_online()
    async with editing(one.url, state, await person_token(one)) as editor:
        created = await bounded(editor.agent.new_session(cwd=str(state), mcp_servers=[]))
        (option,) = created.config_options
        assert (option.id, [each.name for each in option.options]) == ("workspace", ["Ops", "Ops/Dev"])
        assert option.current_value == created.modes.current_mode_id == ops.seat.id
        changed = await bounded(
            editor.agent.set_config_option(config_id="workspace", session_id=created.session_id, value=dev.seat.id)
        )
        assert changed.config_options[0].current_value == dev.seat.id
        prompt = editor.prompt(created.session_id, "Hello")
        await dev.answer(await dev.message(), "Hello from Dev.")
        await bounded(prompt)
        assert editor.text(created.session_id) == "Hello from Dev."
        with pytest.raises(acp.RequestError, match="does not exist"):
            await bounded(
                editor.agent.set_config_option(config_id="workspace", session_id=created.session_id, value="w-0")
            )


async def test_without_a_credential_the_advice_names_the_command(one: Running, state: Path) -> None:
    await one.seat("Ops")
    file = state / "token"
    async with editing(one.url, state, None, "--token-file", str(file)) as editor:
        assert "molecule people token" in editor.greeting.auth_methods[0].description
        with pytest.raises(acp.RequestError, match="molecule people token") as refused:
            await editor.new_session(state)
        assert refused.value.code == -32000
        file.write_text(await person_token(one))
        await bounded(editor.agent.authenticate(method_id=editor.greeting.auth_methods[0].id))
        assert await editor.new_session(state)


async def test_a_viewer_and_an_unknown_workspace_are_refused_with_the_reason(one: Running, state: Path) -> None:
    await one.seat("Ops")
    viewer = await person_token(one, "Ben", "viewer")
    async with editing(one.url, state, viewer) as editor:
        with pytest.raises(acp.RequestError, match="viewers cannot write"):
            await editor.new_session(state)
    async with editing(one.url, state, await person_token(one), "--workspace", "Nix") as editor:
        with pytest.raises(acp.RequestError, match="'Nix' does not exist"):
            await editor.new_session(state)


async def test_a_server_that_is_away_is_named_in_the_error(state: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    async with editing(url, state, "t-1") as editor:
        with pytest.raises(acp.RequestError, match=f"No server responds at {url}"):
            await editor.new_session(state)


async def test_a_prompt_during_a_restart_of_the_server_is_sent_once(tmp_path: Path) -> None:
    port, state = free_port(), tmp_path / "state"
    url = f"http://127.0.0.1:{port}"
    async with serving(state, port) as server, client(port) as admin:
        answer = await admin.post("/workspaces", {"name": "Ops"})
        async with editing(url, tmp_path, ADMIN_TOKEN) as editor:
            session = await editor.new_session(tmp_path)
            await server.kill()
            prompt = editor.prompt(session, "Hello")
            await editor.shows(session, "The server does not respond.", "agent_thought_chunk")
            async with serving(state, port), ApiClient(url, answer["connection"]["auth_token"]) as api:
                agent = ScriptedAgent(Seat(answer, api))
                message = await agent.message()
                await agent.answer(message, "Here.")
                assert (await bounded(prompt)).stop_reason == "end_turn"
                assert editor.text(session) == "Here."
                page = await api.get(f"/workspaces/{answer['id']}/chat-history")
                assert [row["content"] for row in page["messages"]] == ["Hello", "Here."]


async def test_a_turn_survives_a_kill_of_the_server(tmp_path: Path) -> None:
    port, state = free_port(), tmp_path / "state"
    url = f"http://127.0.0.1:{port}"
    async with serving(state, port) as server, client(port) as admin:
        answer = await admin.post("/workspaces", {"name": "Ops"})
        async with (
            editing(url, tmp_path, ADMIN_TOKEN) as editor,
            ApiClient(url, answer["connection"]["auth_token"]) as api,
        ):
            agent = ScriptedAgent(Seat(answer, api))
            await agent.is_online()
            session = await editor.new_session(tmp_path)
            prompt = editor.prompt(session, "Hello")
            message = await agent.message()
            await server.kill()
            async with serving(state, port):
                await agent.answer(message, "Still here.")
                assert (await bounded(prompt)).stop_reason == "end_turn"
                assert editor.text(session) == "Still here."


async def test_the_process_ends_with_its_input_while_a_prompt_runs(
    one: Running, state: Path, agent: ScriptedAgent
) -> None:
    async with editing(one.url, state, await person_token(one)) as editor:
        session = await editor.new_session(state)
        prompt = editor.prompt(session, "Hello")
        await agent.message()
        editor.process.stdin.close()
        assert await bounded(editor.process.wait()) == 0
        prompt.cancel()
        await asyncio.gather(prompt, return_exceptions=True)
