"""`molecule agent run` over a real server and a scripted provider: what arrives at the model is what the log says."""

import asyncio
import html
import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from molecule_core.agent.engines import texts
from molecule_core.agent.engines.chat_encoding import (
    CLOSING_TEXT,
    INCOMING_TOOL,
    NOTE_END,
    NOTE_START,
    OPENING_TEXT,
    SUMMARY_OPENING_TEXT,
    to_chat_messages,
)
from molecule_core.tools.registry import TOOLS
from testing.engines import Engine
from testing.mcp_clients import within
from testing.running_server import Running, Seat, running
from tests.agent.agent_runs import KEY, Watcher, command, home, keep_drafts, living, long
from tests.agent.model_endpoint import Asked, Endpoint, Reply, endpoint
from tests.requirements import requirement

pytestmark = pytest.mark.parametrize("engine", ["sqlite"])
EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "agent-run"
PEERS: tuple[tuple[str, str, dict[str, Any]], ...] = (("c1", "list_peers", {}),)
DONE = Reply("done")


async def asked(person: Any, seat: Seat, text: str) -> str:
    """A person says something; the id of the message."""
    return str((await person.send(seat.id, text))["activity_id"])


def firsts(at: Endpoint) -> set[str]:
    """The first message of each request, and the key under which its prompt is kept warm."""
    return {f"{each.body['messages'][0]} {each.body.get('prompt_cache_key')}" for each in at.asked}


def texts_of(request: Asked) -> str:
    """All that a request shows."""
    return "\n".join(str(each["content"]) for each in request.body["messages"])


async def check_all_stored(watch: Watcher, at: Endpoint) -> None:
    """Whatever any request has shown stands in a log, word for word; beside it are only the encoding's own signs."""
    known = {OPENING_TEXT, SUMMARY_OPENING_TEXT, CLOSING_TEXT}
    for each in await watch.all():
        for line in await watch.threads.list_entries(each["thread_id"]):
            known |= {str(line.entry[name]) for name in ("text", "summary") if name in line.entry}
            if line.type == "tool_call":
                known.add(f"{line.entry['tool']} {line.entry['arguments']}")
    for request in at.asked:
        for message in request.body["messages"]:
            said = str(message["content"] or "").removeprefix(NOTE_START).removesuffix(NOTE_END)
            if said.startswith("<peer_message "):
                said = html.unescape(said.partition(">")[2].removesuffix("</peer_message>"))
            assert not said or said in known, said
            for call in message.get("tool_calls") or ():
                name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
                assert name == INCOMING_TOOL or f"{name} {arguments}" in known


@requirement("AR2", "AR4", "AR8")
async def test_messages_become_turns_of_one_thread_and_each_request_is_its_log_byte_for_byte(
    server: Running, tmp_path: Path
) -> None:
    seat, person = await server.seat("Ops"), await server.person()
    await keep_drafts(server, seat)
    watch = Watcher(seat)
    async with endpoint() as at:
        at.answers = [Reply("Let me see.", PEERS), Reply("Nobody is here."), Reply("Still nobody.")]
        one = await asked(person, seat, "Who is there?")
        async with living(server, seat, home(tmp_path / "ops", at)):
            await watch.rests()
            two = await asked(person, seat, "And now?")
            await long(watch.drafts, lambda found: all(found.get(each, ("", ""))[1] for each in (one, two)))
            await long(watch.waiting, lambda count: count == 0)
        found = await watch.drafts()
        assert (found[one][1], found[two][1]) == ("Nobody is here.", "Still nobody.")
        (thread,) = await watch.all()
        sight = await watch.sight()
        whole = to_chat_messages(sight.items)
        for request in at.asked:
            sent = request.body["messages"]
            assert sent == whole[: len(sent)], "nothing that is not stored reaches a model"
        assert len(at.asked) == 3 and len(firsts(at)) == 1
        view = await watch.thread()
        assert whole[0]["content"] == view.base_instructions and "You are Ops" in view.base_instructions
        assert at.asked[0].body["prompt_cache_key"] == sight.items[0].item_id == thread["base"]["item_id"]
        assert "Who is there?" in texts_of(at.asked[0]) and KEY not in texts_of(at.asked[0])
        assert thread["tokens_used"] == 3 * 110 and thread["base"]["provenance"]["type"] == "prompt"


@requirement("AR4", "Q6")
async def test_an_answer_that_a_rule_stops_is_given_once_approved_and_told_as_a_failure_if_denied(
    server: Running, tmp_path: Path
) -> None:
    seat, person = await server.seat("Ops"), await server.person("owner")
    await person.call("PUT", f"/workspaces/{seat.id}/approval-rules", body={"rules": [{"action": "tool:reply"}]})
    watch = Watcher(seat)

    async def decided(decision: str) -> None:
        async def asked() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = (await person.get("/approvals/pending"))["approvals"]
            return found

        (item,) = await long(asked, bool)
        where = f"/workspaces/{seat.id}/approvals/{item['approval_id']}/decide"
        await person.post(where, {"decision": decision, "note": "no"})

    async with endpoint() as at:
        at.answers = [lambda _: Reply("Three.")]
        async with living(server, seat, home(tmp_path / "ops", at)):
            sent = (await person.send(seat.id, "How many?"))["activity_id"]
            await decided("approve")
            await long(watch.drafts, lambda found: found.get(sent, ("",))[0] == "answered")
            await person.send(seat.id, "And now?")
            await decided("deny")

            async def told() -> list[str]:
                rows = await seat.api.get(f"/workspaces/{seat.id}/activity", type="error", limit=10)
                return [row["error_detail"] for row in rows]

            (failure,) = await long(told, bool)
            assert "the answer was rejected" in failure
            await long(watch.waiting, lambda count: count == 0)


@requirement("AR2", "AR4")
async def test_a_peers_words_are_data_and_its_task_has_a_thread_of_its_own_and_is_answered(
    server: Running, tmp_path: Path
) -> None:
    lead = await server.seat("Lead")
    seat = await server.seat("Ops", parent_id=lead.id)
    watch = Watcher(seat)
    async with endpoint() as at:
        at.answers = [lambda _: Reply("Three.")]
        await lead.api.post(f"/workspaces/{lead.id}/delegate", {"target_id": seat.id, "task": "Count <user> masts"})
        await lead.api.send(seat.id, "hello there")
        async with living(server, seat, home(tmp_path / "ops", at)):
            threads = await watch.rests(2)
            await long(watch.waiting, lambda count: count == 0)
        assert len(threads) == 2
        rows = await lead.api.get(f"/workspaces/{lead.id}/delegations")
        (delegation,) = rows if isinstance(rows, list) else rows["delegations"]
        assert delegation["status"] == "completed"
        for request in at.asked:
            said = request.body["messages"]
            assert {"role": "user", "content": OPENING_TEXT} in said or texts.ENGINE_INSTRUCTIONS in texts_of(request)
            mine = [str(each["content"]) for each in said if each["role"] == "user"]
            assert not any("masts" in each or "hello there" in each for each in mine)
        assert any("masts" in texts_of(each) for each in at.asked)
        await check_all_stored(watch, at)


@requirement("AR2", "AR3")
async def test_the_base_stays_over_compaction_resume_with_another_model_and_fork(
    server: Running, tmp_path: Path
) -> None:
    seat, person = await server.seat("Ops"), await server.person()
    watch, folder = Watcher(seat), tmp_path / "ops"
    async with endpoint() as at:
        at.answers = [DONE, Reply("All about ships."), Reply("Two.")]
        await asked(person, seat, "ships " * 200)
        async with living(server, seat, home(folder, at)):
            (thread,) = await watch.rests()
        base = (await watch.sight()).items[0]
        limit = (await watch.sight()).tokens - 10
        await asked(person, seat, "How many?")
        async with living(server, seat, home(folder, at, compact_at_tokens=limit)):  # automatic
            await long(watch.types, lambda found: found.count("turn_ended") == 2)
        assert "All about ships." in texts_of(at.asked[2]) and "How many?" in texts_of(at.asked[2])
        assert "ships ships" not in texts_of(at.asked[2])
        path = f"/threads/{thread['thread_id']}"
        at.answers = [Reply("In short: ships."), Reply("Blue."), Reply("Red.")]
        async with living(server, seat, home(folder, at)):
            await person.post(f"{path}/compact")
            await long(watch.types, lambda found: found.count("compaction") == 2)
            await long(watch.types, lambda found: found.count("turn_ended") == 3)
            resumed = await person.post(f"{path}/resume", {"model": "openai:another"})
            assert resumed["model"] == "openai:another"
            await person.post(f"{path}/turns", {"input": "Which colour?"})
            await long(watch.types, lambda found: found.count("turn_ended") == 4)
            fork = await person.post(f"{path}/fork", {})
            await person.post(f"/threads/{fork['thread_id']}/turns", {"input": "Really?"})
            await watch.rests(2)
        assert len(firsts(at)) == 1 and base.item_id in firsts(at).pop()
        assert [each.body["model"] for each in at.asked] == ["scripted"] * 4 + ["another"] * 2
        assert "In short: ships." in texts_of(at.asked[4]) and "Which colour?" in texts_of(at.asked[5])
        await check_all_stored(watch, at)
        forked = to_chat_messages((await watch.threads.get_model_context(fork["thread_id"])).items)
        assert at.asked[5].body["messages"] == forked[:-2]  # without the answer, and what is put behind one


@requirement("AR3", "AR4", "AR8")
async def test_killed_in_the_middle_it_goes_on_where_it_was_and_answers_once(server: Running, tmp_path: Path) -> None:
    seat, person = await server.seat("Ops"), await server.person()
    await keep_drafts(server, seat)
    watch, folder = Watcher(seat), tmp_path / "ops"
    async with endpoint() as at:
        home(folder, at)
        at.answers = [Reply("Let me see.", PEERS), DONE, DONE]
        message = await asked(person, seat, "Who is there?")
        async with command(server, seat, folder) as life:
            await life_until(at, 1)
            at.gate = asyncio.Event()  # the second request gets no answer in this life
            await life_until(at, 2)
            life.send(signal.SIGKILL)
            await life.ended()
        at.gate.set()
        before = await watch.types()
        assert before.count("tool_output") == 1 and "turn_ended" not in before
        async with command(server, seat, folder, "--once") as life:
            assert await life.ended() == 0, life.said
        after = await watch.types()
        assert after[: len(before)] == before
        assert [after.count(each) for each in ("tool_call", "tool_output", "turn_ended")] == [1, 1, 1]
        assert (await watch.drafts())[message][1] == "done" and await watch.waiting() == 0
        assert len(firsts(at)) == 1
        assert at.asked[2].body["messages"] == at.asked[1].body["messages"]
        assert KEY not in life.said


async def life_until(at: Endpoint, count: int) -> None:
    """Until so many requests have arrived."""
    async with asyncio.timeout(60):
        while len(at.asked) < count:
            at.came.clear()
            await at.came.wait()


@requirement("AR3")
async def test_a_person_steers_and_stops_a_turn_while_the_model_thinks(server: Running, tmp_path: Path) -> None:
    seat, person = await server.seat("Ops"), await server.person()
    watch = Watcher(seat)
    async with endpoint() as at:
        at.answers = [Reply("A it is"), Reply("B it is"), DONE]
        at.gate = asyncio.Event()
        await asked(person, seat, "A or B?")
        async with living(server, seat, home(tmp_path / "ops", at)):
            await life_until(at, 1)
            (thread,) = await watch.all()
            path = f"/threads/{thread['thread_id']}"
            told = await person.post(f"{path}/turns", {"input": "No, B.", "mode": "steer"})
            assert told["joined"]
            at.gate.set()
            await long(watch.types, lambda found: "turn_ended" in found)
            assert texts_of(at.asked[1]).endswith(f"A it is\n{CLOSING_TEXT}") and "No, B." in texts_of(at.asked[1])
            at.gate.clear()
            await person.post(f"{path}/turns", {"input": "Think of C."})
            await life_until(at, 3)
            await person.post(f"{path}/interrupt")
            found = await long(watch.types, lambda found: found.count("turn_ended") == 2)
            assert found[-1] == "turn_ended" and "agent_message" not in found[found.index("turn_ended") :]
            at.gate.set()


@requirement("AR3", "TH8")
async def test_what_a_person_says_while_the_model_thinks_ends_the_wait_that_the_model_then_asks_for(
    server: Running, tmp_path: Path
) -> None:
    seat, person = await server.seat("Ops"), await server.person()
    idle = await server.seat("Idle", parent_id=seat.id)
    watch = Watcher(seat)
    spawn = {"task_name": "masts", "message": "Count masts.", "workspace_id": idle.id}
    wait = {"targets": ["masts"], "timeout": 3600}
    async with endpoint() as at:

        def plan(_: Asked) -> Reply:
            if len(at.asked) == 1:
                at.gate = asyncio.Event()
                return Reply(calls=(("c1", "spawn_agent", spawn), ("c2", "list_peers", {})))
            return Reply(calls=(("c3", "list_peers", {}), ("c4", "wait_agent", wait))) if len(at.asked) == 2 else DONE

        at.answers = [plan]
        await asked(person, seat, "Count masts")
        async with living(server, seat, home(tmp_path / "ops", at)):
            await life_until(at, 2)
            (thread,) = await watch.all()
            taken = await person.post(f"/threads/{thread['thread_id']}/turns", {"input": "No, come back"})
            assert taken["joined"] and at.gate is not None
            at.gate.set()
            await watch.rests()
        assert "the user sent new input" in texts_of(at.asked[2]) and "No, come back" in texts_of(at.asked[2])


@requirement("AR5")
async def test_a_rule_of_the_agents_own_asks_a_person_before_the_act_and_the_act_is_what_was_approved(
    server: Running, tmp_path: Path
) -> None:
    seat, person = await server.seat("Ops"), await server.person()
    await keep_drafts(server, seat)
    watch = Watcher(seat)
    speak = (("c1", "send_message_to_user", {"message": "The ship is late"}),)
    rules = [{"action": "call:send_message_*"}]
    async with endpoint() as at:
        at.answers = [Reply("", speak), DONE, Reply("", speak), DONE]
        await asked(person, seat, "Tell me")
        async with command(server, seat, home(tmp_path / "ops", at, approval_rules=rules)):
            item = await pending(person)
            said = await person.get(f"/workspaces/{seat.id}/chat-history")
            assert not [each for each in said["messages"] if each["role"] == "agent"]
            (thread,) = await watch.all()
            assert (item["thread_id"], thread["active_flags"]) == (thread["thread_id"], ["waiting_on_approval"])
            await decide(person, item, "approve")
            (thread,) = await watch.rests()
            assert thread["active_flags"] == []
            said = await person.get(f"/workspaces/{seat.id}/chat-history")
            assert [each["content"] for each in said["messages"] if each["role"] == "agent"] == ["The ship is late"]
            await asked(person, seat, "Tell me again")
            await decide(person, await pending(person), "deny")
            await long(watch.types, lambda found: found.count("turn_ended") == 2)
            again = await person.get(f"/workspaces/{seat.id}/chat-history")
            assert len([each for each in again["messages"] if each["role"] == "agent"]) == 1
            assert "is denied" in texts_of(at.asked[3])


@requirement("AR5", "AR3")
async def test_killed_while_leave_is_waited_for_it_does_the_act_once_in_its_next_life(
    server: Running, tmp_path: Path
) -> None:
    seat, person = await server.seat("Ops"), await server.person()
    speak = (("c1", "send_message_to_user", {"message": "The ship is late"}),)
    folder = tmp_path / "ops"
    async with endpoint() as at:
        at.answers = [Reply("", speak), lambda _: DONE]
        await asked(person, seat, "Tell me")
        home(folder, at, approval_rules=[{"action": "call:send_message_*"}])
        async with command(server, seat, folder) as life:
            item = await pending(person)
            thread = (await Watcher(seat).all())[0]["thread_id"]
            life.send(signal.SIGKILL)
            await life.ended()
        chat = f"/workspaces/{seat.id}/chat-history"
        assert [each["role"] for each in (await person.get(chat))["messages"]] == ["user"]
        await decide(person, item, "approve")
        async with command(server, seat, folder):
            await long(Watcher(seat).types, lambda found: "turn_ended" in found)
        said = [each["content"] for each in (await person.get(chat))["messages"] if each["role"] == "agent"]
        assert said == ["The ship is late"]
        calls = [
            each.entry["tool"] for each in await Watcher(seat).threads.list_entries(thread) if each.type == "tool_call"
        ]
        assert calls == ["send_message_to_user"], "the call that was waiting is made, and no other"


async def pending(person: Any) -> dict[str, Any]:
    """The approval that waits for a person."""
    found = await long(lambda: person.get("/approvals/pending"), lambda page: page["approvals"])
    item: dict[str, Any] = found["approvals"][0]
    return item


async def decide(person: Any, item: dict[str, Any], decision: str) -> None:
    """A person decides."""
    path = f"/workspaces/{item['workspace_id']}/approvals/{item['approval_id']}/decide"
    about = {"revision": item["revision"], "action_hash": item["action_hash"]}
    await person.post(path, {"decision": decision, **about})


@requirement("AR6")
async def test_a_changed_card_is_told_once_to_a_running_thread_and_is_in_the_base_of_the_next(
    server: Running, tmp_path: Path
) -> None:
    lead, person = await server.seat("Lead"), await server.person()
    seat, peer = await server.seat("Ops", parent_id=lead.id), await server.seat("Maps", parent_id=lead.id)
    await card(peer, "Draws maps")
    watch = Watcher(seat)
    async with endpoint() as at:
        at.answers = [lambda _: DONE]
        await asked(person, seat, "one")
        async with command(server, seat, home(tmp_path / "ops", at)):
            await watch.rests()
            await card(peer, "Paints <b>pictures</b>")
            prompts = f"/workspaces/{seat.id}/prompt"
            await long(lambda: seat.api.get(prompts), lambda told: "Paints" in str(told["build"]))
            for number, text in enumerate(("two", "three"), 2):
                await asked(person, seat, text)
                await long(watch.types, lambda found, number=number: found.count("turn_ended") == number)
            await peer.api.send(seat.id, "hello")
            await watch.rests(2)
        running, fresh = [(await watch.threads.get(each["thread_id"])) for each in await watch.all()]
        assert "Draws maps" in running.base_instructions and "Paints" not in running.base_instructions
        assert "Paints" in fresh.base_instructions and "Draws maps" not in fresh.base_instructions
        notes = [each for each in (await watch.sight()).items if each.type == "context_note"]
        assert len(notes) == 1 and notes[0].text.startswith("peers changed: ") and "Paints" in notes[0].text
        assert "Paints" not in texts_of(at.asked[0]) and texts_of(at.asked[1]).count("Paints") == 1
        assert len({str(each.body["messages"][0]) for each in at.asked[:3]}) == 1
        await check_all_stored(watch, at)
        others = [each for each in (await watch.sight(1)).items if each.type == "context_note"]
        assert others == []


async def card(seat: Seat, description: str) -> None:
    """An agent says what it is for."""
    body = {"id": seat.id, "delivery_mode": "poll", "agent_card": {"name": seat.name, "description": description}}
    await seat.api.post("/registry/register", body)


@requirement("AR4")
async def test_a_result_comes_to_the_thread_that_asked_and_a_closed_or_spent_thread_is_followed_by_another(
    server: Running, tmp_path: Path
) -> None:
    lead, person = await server.seat("Lead"), await server.person()
    seat, peer = await server.seat("Ops", parent_id=lead.id), await server.seat("Maps", parent_id=lead.id)
    await keep_drafts(server, seat)
    await card(peer, "Draws maps")
    watch = Watcher(seat)
    give = (("c1", "delegate_task_async", {"workspace_id": peer.id, "task": "Draw the coast"}),)
    async with endpoint() as at:
        at.answers = [Reply("", give), Reply("It is under way."), Reply("Here it is."), DONE, DONE]
        first = await asked(person, seat, "I need a map")
        async with living(server, seat, home(tmp_path / "ops", at, budget={"thread": 400})):
            (thread,) = await watch.rests()
            rows = await long(lambda: peer.api.claim(peer.id, wait=0), len)
            part = {"role": "agent", "parts": [{"kind": "text", "text": "a coast"}]}
            message = {**part, "metadata": {"in_reply_to": rows[0]["id"]}}
            envelope = {"jsonrpc": "2.0", "id": "1", "method": "message/send", "params": {"message": message}}
            await peer.api.post(f"/workspaces/{seat.id}/a2a", envelope)
            await long(watch.types, lambda found: found.count("turn_ended") == 2)
            assert "a coast" in texts_of(at.asked[2]) and len(await watch.all()) == 1
            assert (await watch.drafts())[first][1] == "It is under way."
            await person.post(f"/threads/{thread['thread_id']}/close")
            await asked(person, seat, "Another map")
            await watch.rests(2)
            assert "I need a map" not in texts_of(at.asked[3])
            at.answers = [Reply("so much", usage=(390, 10)), DONE]
            for number in (3, 4):
                await asked(person, seat, f"map {number}")
                await long(watch.waiting, lambda count: count == 0)
            assert len(await watch.rests(3)) == 3 and "map 3" not in texts_of(at.asked[5])


@requirement("AR4")
async def test_a_turn_that_fails_is_told_in_the_log_and_its_message_stays_open(server: Running, tmp_path: Path) -> None:
    seat, person = await server.seat("Ops"), await server.person()
    await keep_drafts(server, seat)
    watch = Watcher(seat)
    async with endpoint() as at:
        at.answers = [Reply(status=401), DONE]
        message = await asked(person, seat, "hello")
        async with living(server, seat, home(tmp_path / "ops", at)):
            await watch.rests()
            await long(watch.waiting, lambda count: count == 0)
            rows = await seat.api.get(f"/workspaces/{seat.id}/activity", type="error", limit=10)
            assert (
                rows[0]["request_body"] == {"activity_id": message} and "AuthenticationError" in rows[0]["error_detail"]
            )
            assert (await watch.drafts())[message] == ("open", "") and KEY not in str(rows)
            again = await asked(person, seat, "hello again")
            await long(watch.drafts, lambda found: found.get(again, ("", ""))[1] == "done")


@requirement("AR3", "AR4")
async def test_an_effort_that_the_model_does_not_know_fails_the_turn_which_is_not_driven_again(
    server: Running, tmp_path: Path
) -> None:
    seat, person = await server.seat("Ops"), await server.person()
    watch = Watcher(seat)
    async with endpoint() as at:
        at.answers = [DONE]
        await asked(person, seat, "hi")
        async with living(server, seat, home(tmp_path / "ops", at)):
            (thread,) = await watch.rests()
            await person.post(f"/threads/{thread['thread_id']}/resume", {"effort": "very high"})
            await asked(person, seat, "think harder")
            types = await long(watch.types, lambda found: found.count("turn_ended") == 2)
            assert types.count("turn_started") == 2
            path = f"/workspaces/{seat.id}/activity"
            (failed,) = await long(lambda: seat.api.get(path, type="error", limit=10), lambda found: found)
        assert "very high" in failed["error_detail"] and len(at.asked) == 1


@requirement("AR3", "AR4")
async def test_an_answer_that_the_server_never_takes_ends_its_turn_is_paid_for_once_and_the_next_one_works(
    server: Running, tmp_path: Path
) -> None:
    seat, person = await server.seat("Ops"), await server.person()
    await keep_drafts(server, seat)
    watch, deep = Watcher(seat), dict[str, Any]()
    for _ in range(40):
        deep = {"in": deep}
    async with endpoint() as at:
        at.answers = [
            Reply("", (("c1", "list_peers", deep),)),
            Reply("a\x00b", (("c1", "list_peers", {"\x00": 1}),)),
            DONE,
        ]
        message = await asked(person, seat, "hello")
        async with living(server, seat, home(tmp_path / "ops", at)):
            await long(watch.waiting, lambda count: count == 0)
            (thread,) = await watch.rests()
            assert len(at.asked) == 1 and thread["tokens_used"] == 110
            assert thread["status"]["type"] == "errored"
            rows = await seat.api.get(f"/workspaces/{seat.id}/activity", type="error", limit=10)
            assert (
                rows[0]["request_body"] == {"activity_id": message}
                and "rejected the log entries" in rows[0]["error_detail"]
            )
            again = await asked(person, seat, "hello again")
            await long(watch.drafts, lambda found: found.get(again, ("", ""))[1] == "done")
        assert "ab" in [str(each["content"]) for each in at.asked[2].body["messages"]]
        await check_all_stored(watch, at)


@requirement("AR3", "AR4")
async def test_a_message_whose_turn_does_not_begin_for_its_budget_is_not_sampled_and_its_failure_says_so(
    engine: Engine, place: str, tmp_path: Path
) -> None:
    async with running(engine, place, tmp_path, limits=within(thread_tokens=100)) as server, endpoint() as at:
        seat, person = await server.seat("Ops"), await server.person()
        watch = Watcher(seat)
        at.answers = [DONE, DONE]
        at.gate = asyncio.Event()
        await asked(person, seat, "one")
        late = await asked(person, seat, "two")
        async with living(server, seat, home(tmp_path / "ops", at)):
            await long(watch.all, lambda found: [len(each["queued"]) for each in found] == [1])
            await life_until(at, 1)
            at.gate.set()
            await long(watch.waiting, lambda count: count == 0)
            rows = await seat.api.get(f"/workspaces/{seat.id}/activity", type="error", limit=10)
            why = {row["request_body"]["activity_id"]: row["error_detail"] for row in rows}
        assert "budget" in why[late] and len(at.asked) == 1


@requirement("AR3")
async def test_an_agent_spawned_after_a_compaction_is_another_one_though_the_model_calls_its_call_the_same(
    server: Running, tmp_path: Path
) -> None:
    seat, person = await server.seat("Ops"), await server.person()
    watch = Watcher(seat)

    def answered(request: Asked) -> Reply:
        last = str(request.body["messages"][-1]["content"])
        if last in ("east", "west"):
            return Reply("", (("call_3_0", "spawn_agent", {"task_name": last, "message": "Dig."}),))
        return DONE

    async with endpoint() as at:
        at.answers = [answered]
        async with living(server, seat, home(tmp_path / "ops", at)):
            given = {"input": "east", "base_instructions": "Dig.", "developer": texts.ENGINE_INSTRUCTIONS}
            root = await seat.api.post(f"/workspaces/{seat.id}/threads", given)
            await watch.rests(2)
            await person.post(f"/threads/{root['thread_id']}/compact")
            await long(watch.types, lambda found: "compaction" in found)
            await person.post(f"/threads/{root['thread_id']}/turns", {"input": "west"})
            threads = await watch.rests(3)
    assert [each["path"] for each in threads] == ["root", "root/east", "root/west"]
    assert len({each["call_id"] for each in threads[1:]}) == 2


@requirement("AR7", "AR8")
async def test_the_example_answers_without_a_key_and_asks_before_it_interrupts_everybody(
    server: Running, tmp_path: Path
) -> None:
    lead, person = await server.seat("Lead"), await server.person()
    seat = await server.seat("Desk", parent_id=lead.id)
    await keep_drafts(server, seat)
    await server.let_broadcast(seat.id)
    watch, folder = Watcher(seat), tmp_path / "desk"
    shutil.copytree(EXAMPLE, folder)
    who = await asked(person, seat, "Who can I ask?")
    async with living(server, seat, folder):
        await long(watch.drafts, lambda found: "Lead" in found.get(who, ("", ""))[1])
        tell = await asked(person, seat, "Tell everyone: the printer is back")
        item = await pending(person)
        assert item["proposed"]["arguments"] == {"message": "the printer is back"}
        await decide(person, item, "approve")
        await long(watch.drafts, lambda found: found.get(tell, ("", ""))[1])
    heard = await lead.api.claim(lead.id, wait=0)
    assert "the printer is back" in str(heard)
    calls = [
        each.entry["tool"]
        for each in await watch.threads.list_entries((await watch.all())[0]["thread_id"])
        if each.type == "tool_call"
    ]
    assert calls == ["list_peers", "broadcast_message"]


@requirement("AR2")
async def test_the_skills_of_the_folder_are_on_the_card_and_follow_its_files(server: Running, tmp_path: Path) -> None:
    seat, folder = await server.seat("Ops"), tmp_path / "ops"

    def write_skill(name: str, description: str) -> None:
        (folder / "skills" / name).mkdir(parents=True, exist_ok=True)
        text = f"---\nname: {name}\ndescription: {description}\n---\nDo it."
        (folder / "skills" / name / "SKILL.md").write_text(text)

    async def skills() -> Any:
        card = (await seat.api.get(f"/workspaces/{seat.id}"))["agent_card"] or {}
        return card.get("skills")

    def entry(name: str, description: str) -> dict[str, str]:
        return {"id": name, "name": name, "description": description}

    async with endpoint() as at:
        home(folder, at, name="Ops agent")
        write_skill("brew-tea", "Makes tea.")
        async with living(server, seat, folder):
            assert await long(skills, bool) == [entry("brew-tea", "Makes tea.")]
            write_skill("fix-bikes", "Repairs bikes.")
            both = [entry("brew-tea", "Makes tea."), entry("fix-bikes", "Repairs bikes.")]
            await long(skills, lambda found: found == both)
            assert (await seat.api.get(f"/workspaces/{seat.id}"))["agent_card"]["name"] == "Ops agent"


@requirement("AR2", "C111")
async def test_the_examples_of_the_configuration_are_on_the_card(server: Running, tmp_path: Path) -> None:
    seat, folder = await server.seat("Ops"), tmp_path / "ops"

    async def skills() -> Any:
        return ((await seat.api.get(f"/workspaces/{seat.id}"))["agent_card"] or {}).get("skills")

    async with endpoint() as at:
        home(folder, at, name="Ops agent", examples=["Count the boxes"])
        async with living(server, seat, folder):
            (skill,) = await long(skills, bool)
            assert skill["examples"] == ["Count the boxes"]


@requirement("AR4")
@pytest.mark.parametrize(
    ("reply", "reason"),
    [(Reply(status=401), "401"), (Reply(""), "the agent ended its work without an answer")],
)
async def test_a_failed_or_silent_turn_is_shown_at_its_message(
    server: Running, tmp_path: Path, reply: Reply, reason: str
) -> None:
    seat, person = await server.seat("Ops"), await server.person()

    async def shown() -> Any:
        page = await person.get(f"/workspaces/{seat.id}/chat-history")
        return page["messages"][0].get("obligation", {}).get("reason")

    async with endpoint() as at:
        at.answers = [reply]
        await asked(person, seat, "tea?")
        async with living(server, seat, home(tmp_path / "ops", at)):
            assert reason in await long(shown, bool)


@requirement("AR2")
async def test_the_prompt_documents_the_tools_that_the_model_is_offered_and_no_others(
    server: Running, tmp_path: Path
) -> None:
    seat, person = await server.seat("Ops"), await server.person()
    watch = Watcher(seat)
    async with endpoint() as at:
        at.answers = [DONE]
        await asked(person, seat, "tea?")
        async with living(server, seat, home(tmp_path / "ops", at)):
            await watch.rests()
        offered = {each["function"]["name"] for each in at.asked[0].body["tools"]}
        prompt = str(at.asked[0].body["messages"][0]["content"])
    documented = {each.name for each in TOOLS if f"### {each.name}" in prompt}
    assert documented == offered and "inbox_pop" not in offered
