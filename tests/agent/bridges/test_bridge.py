"""Programs that are no hosts of MCP, behind `molecule bridge command`: real processes, on both engines."""

import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from testing.engines import Engine
from testing.processes import MOLECULE, started
from testing.running_server import Running, Seat, running
from testing.waits import PROCESS_START_SECONDS, eventually
from tests.agent.bridges.bridge_process import bridging, drafts, failures, settings, waiting
from tests.requirements import requirement

ECHO = "import sys; body = sys.stdin.read(); print('heard ' + body.split('<body>')[-1].split('</body>')[0].strip())"
ANSWERS = """
import os, subprocess, sys
sys.stdin.read()
command = ["molecule", "reply", os.environ["MOLECULE_REPLY_HANDLE"]]
subprocess.run(command, input=b"by the tool", check=True, stdout=subprocess.DEVNULL)
print("and this nobody should see")
"""

OLDER_TOOL = """
import json, os, subprocess, sys
sys.stdin.read()
given = json.dumps({"text": "by the tool", "reply_handle": os.environ["MOLECULE_REPLY_HANDLE"]})
command = ["molecule", "tool", "reply_to_workspace", "--json", given]
told = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
print("it says", json.dumps([told["acknowledged"], told["note"]]), file=sys.stderr)
"""


@pytest.fixture
async def server(engine: Engine, place: str, tmp_path: Path) -> AsyncIterator[Running]:
    """A server that tells agents how to answer."""
    async with running(engine, place, tmp_path, push_instructions_enabled=True) as found:
        yield found


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Where a bridge keeps its state."""
    folder = tmp_path / "bridge"
    folder.mkdir(mode=0o700)
    return folder


async def chat(server: Running, seat: Seat) -> list[str]:
    """What the agent has said to people."""
    page = await server.admin.get(f"/workspaces/{seat.id}/chat-history")
    return [line["content"] for line in page["messages"] if line["role"] == "agent"]


async def seen(look: Any, wanted: Any) -> Any:
    """What is seen at last, by a process that must start first."""
    return await eventually(look, wanted, PROCESS_START_SECONDS)


@requirement("G17", "G20")
async def test_what_a_program_prints_is_kept_as_a_draft_where_the_workspace_keeps_drafts(
    server: Running, state: Path
) -> None:
    seat, person = await server.seat(), await server.person()
    await server.admin.call("PATCH", f"/workspaces/{seat.id}", body={"send_drafts": False})
    sent = [(await person.send(seat.id, f"message {number}"))["activity_id"] for number in range(3)]
    async with bridging(server, seat, state, ECHO) as bridge:
        kept = await seen(lambda: drafts(seat), lambda found: all(found.get(each, ("", ""))[1] for each in sent))
        await seen(lambda: waiting(seat), lambda count: count == 0)
        bridge.send(signal.SIGTERM)
        assert await bridge.ended() == 0
    assert [kept[each] for each in sent] == [("answered_outside", f"heard message {number}") for number in range(3)]
    assert await chat(server, seat) == []


@requirement("G17", "G20")
async def test_a_program_is_told_of_the_command_that_answers_and_of_no_tool_that_it_has_not(
    server: Running, state: Path
) -> None:
    seat, person = await server.seat(), await server.person()
    sent = (await person.send(seat.id, "tea?"))["activity_id"]
    async with bridging(server, seat, state, "import sys; print(sys.stdin.read())"):
        await seen(lambda: drafts(seat), lambda found: found.get(sent, ("", ""))[0] == "answered")
        (told,) = await chat(server, seat)
        card = (await seat.api.get(f"/workspaces/{seat.id}"))["agent_card"]
    assert (card["loaded_mcp_tools"], card["bridge"]) == ([], "command")
    assert "`molecule reply m" in told and "sent as your answer when you end" in told
    for untrue in ("over HTTP", "does not reach", "names no tool"):
        assert untrue not in told, told
    for name in ("reply_to_workspace", "send_message_to_user", "inbox_pop", "reply(", "present_options"):
        assert name not in told, told


@requirement("G17", "G20")
async def test_what_a_program_prints_is_the_answer_and_nobody_has_to_send_it(server: Running, state: Path) -> None:
    seat, person = await server.seat(), await server.person()
    sent = (await person.send(seat.id, "tea?"))["activity_id"]
    async with bridging(server, seat, state, ECHO):
        assert await seen(lambda: chat(server, seat), bool) == ["heard tea?"]
        await seen(lambda: waiting(seat), lambda count: count == 0)
    assert (await drafts(seat))[sent][0] == "answered"


@requirement("G17", "Q6")
async def test_an_answer_that_a_rule_stops_is_given_once_a_person_has_approved_it(server: Running, state: Path) -> None:
    seat, person = await server.seat(), await server.person("owner")
    rules = {"rules": [{"action": "tool:reply"}]}
    await person.call("PUT", f"/workspaces/{seat.id}/approval-rules", body=rules)
    sent = (await person.send(seat.id, "tea?"))["activity_id"]

    async def asked() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await person.get("/approvals/pending"))["approvals"]
        return found

    async with bridging(server, seat, state, ECHO):
        (item,) = await seen(asked, bool)
        assert (item["tool"], await chat(server, seat)) == ("reply", [])
        where = f"/workspaces/{seat.id}/approvals/{item['approval_id']}/decide"
        await person.post(where, {"decision": "approve"})
        assert await seen(lambda: chat(server, seat), bool) == ["heard tea?"]
        await seen(lambda: waiting(seat), lambda count: count == 0)
    assert (await drafts(seat))[sent][0] == "answered"
    assert await asked() == [] and await failures(seat) == []


@requirement("G17", "G20")
async def test_a_program_that_answers_by_a_tool_leaves_no_draft(server: Running, state: Path) -> None:
    seat, person = await server.seat(), await server.person()
    sent = (await person.send(seat.id, "tea?"))["activity_id"]
    async with bridging(server, seat, state, ANSWERS) as bridge:
        assert await seen(lambda: chat(server, seat), bool) == ["by the tool"]
        await bridge.says(f"message {sent}: answered")
    assert (await drafts(seat))[sent] == ("answered", "")
    assert await chat(server, seat) == ["by the tool"]


@requirement("M27", "G20")
async def test_the_tool_that_a_program_answers_with_says_that_the_message_is_done(server: Running, state: Path) -> None:
    seat, person = await server.seat(), await server.person()
    await person.send(seat.id, "tea?")
    async with bridging(server, seat, state, OLDER_TOOL) as bridge:
        await bridge.says('it says [true, ""]')
    assert await chat(server, seat) == ["by the tool"]


@requirement("G17")
async def test_a_turn_that_fails_is_told_once_and_the_message_is_not_worked_on_again(
    server: Running, state: Path
) -> None:
    seat, person = await server.seat(), await server.person()
    sent = (await person.send(seat.id, "tea?"))["activity_id"]
    program = "import sys; print('half a'); sys.exit('the kettle is broken')"
    async with bridging(server, seat, state, program) as bridge:
        await seen(lambda: waiting(seat), lambda count: count == 0)
        bridge.send(signal.SIGTERM)
        assert await bridge.ended() == 0
    (told,) = await failures(seat)
    assert told == {
        "activity_id": sent,
        "run": 1,
        "kind": "failed",
        "detail": "the program ended with exit code 1: the kettle is broken",
    }
    assert (await drafts(seat))[sent] == ("open", "")


@requirement("G17")
async def test_kill_9_in_the_middle_of_a_turn_is_told_and_the_message_is_worked_on_once_more(
    server: Running, state: Path
) -> None:
    seat, person = await server.seat(), await server.person()
    sent = (await person.send(seat.id, "tea?"))["activity_id"]
    mark = state / "begun"
    program = (
        "import os, pathlib, sys, time\n"
        f"mark = pathlib.Path({str(mark)!r})\n"
        "first = not mark.exists()\n"
        "mark.write_text(os.environ['MOLECULE_RUN'])\n"
        "if first: time.sleep(600)\n"
        "print('run ' + os.environ['MOLECULE_RUN'])\n"
    )
    async with bridging(server, seat, state, program) as bridge:
        await seen(lambda: content(mark), bool)
        await bridge.kill()
    async with bridging(server, seat, state, program) as bridge:
        assert await seen(lambda: chat(server, seat), bool) == ["run 2"]
        await seen(lambda: waiting(seat), lambda count: count == 0)
        bridge.send(signal.SIGTERM)
        await bridge.ended()
    assert [(each["kind"], each["run"]) for each in await failures(seat)] == [("interrupted", 1)]
    assert (await drafts(seat))[sent][0] == "answered"


@requirement("G17")
async def test_five_kills_at_any_moment_leave_one_answer_to_each_message(server: Running, state: Path) -> None:
    seat, person = await server.seat(), await server.person()
    texts = [f"message {number}" for number in range(20)]
    for text in texts:
        await person.send(seat.id, text)
    for count in range(1, 6):
        async with bridging(server, seat, state, ECHO, MOLECULE_BRIDGE_RUNS="100") as bridge:
            await seen(lambda: chat(server, seat), lambda said, least=3 * count: len(said) >= least)
            await bridge.kill()
    async with bridging(server, seat, state, ECHO, MOLECULE_BRIDGE_RUNS="100") as bridge:
        said = await seen(lambda: chat(server, seat), lambda found: len(found) >= len(texts))
        await seen(lambda: waiting(seat), lambda count: count == 0)
        bridge.send(signal.SIGTERM)
        await bridge.ended()
    assert sorted(said) == sorted(f"heard {text}" for text in texts)


async def content(path: Path) -> str:
    """What stands in a file; nothing if there is none."""
    return path.read_text() if path.exists() else ""


@requirement("O2", "G17")
async def test_a_message_whose_turns_never_end_is_given_up_and_told(server: Running, state: Path) -> None:
    seat, person = await server.seat(), await server.person()
    await person.send(seat.id, "the one that kills")
    program = "import os, signal; os.kill(os.getppid(), signal.SIGKILL); import time; time.sleep(600)"
    for _ in range(2):
        async with bridging(server, seat, state, program, MOLECULE_BRIDGE_RUNS="2") as bridge:
            assert await bridge.ended() == -signal.SIGKILL
    async with bridging(server, seat, state, program, MOLECULE_BRIDGE_RUNS="2"):
        await seen(lambda: waiting(seat), lambda count: count == 0)
    kinds = [(each["kind"], each["run"]) for each in await failures(seat)]
    assert sorted(kinds) == [("failed", 3), ("interrupted", 1), ("interrupted", 2)]


@requirement("G17")
async def test_a_stopped_bridge_gives_the_message_back_and_says_that_it_was_interrupted(
    server: Running, state: Path
) -> None:
    seat, person = await server.seat(), await server.person()
    await person.send(seat.id, "tea?")
    mark = state / "begun"
    program = f"import pathlib, time; pathlib.Path({str(mark)!r}).write_text('x'); time.sleep(600)"
    async with bridging(server, seat, state, program) as bridge:
        await seen(lambda: content(mark), bool)
        bridge.send(signal.SIGTERM)
        assert await bridge.ended() == 0
    assert [each["detail"] for each in await failures(seat)] == ["the bridge was stopped"]
    (again,) = await seat.api.claim(seat.id, lease=5, wait=1)
    assert again["attempt"] == 2


@requirement("G6", "G20")
@pytest.mark.parametrize("engine", ["sqlite"])
async def test_what_a_bridge_cannot_begin_with_is_one_line_and_a_code(
    server: Running, state: Path, engine: str
) -> None:
    seat = await server.seat()
    env = settings(server, seat, state)
    both = json.dumps([{"id": id_, "token": "t", "platform_url": server.url} for id_ in ("w-1", "w-2")])
    for args, more, code, said in (
        (("--", "no-such-program"), {}, 2, "the command 'no-such-program' does not exist"),
        ((), {}, 2, "the command is missing"),
        (("--", "cat"), {"MOLECULE_WORKSPACES": both}, 2, "a bridge serves one workspace"),
        (("--", "cat"), {"MOLECULE_BRIDGE_TURN": "1"}, 2, "setting MOLECULE_BRIDGE_TURN does not exist"),
        (("--", "cat"), {"WORKSPACE_ID": ""}, 2, "WORKSPACE_ID is missing"),
        (("--", "cat"), {"MOLECULE_WORKSPACE_TOKEN": "mol_ws_wrongwrongwrong"}, 3, "rejected the token"),
    ):
        async with started(MOLECULE, "bridge", "command", *args, env={**env, **more}, cwd=state) as process:
            assert (await process.ended(), said in process.said) == (code, True), process.said
            assert "wrongwrong" not in process.said


@requirement("O2", "G20")
@pytest.mark.parametrize("engine", ["sqlite"])
async def test_two_turns_run_side_by_side_where_that_is_wished(server: Running, state: Path, engine: str) -> None:
    seat, person = await server.seat(), await server.person()
    for text in ("one", "two"):
        await person.send(seat.id, text)
    # Each waits for the other: one after the other they would never end.
    program = f"""
import os, pathlib, sys, time
here = pathlib.Path({str(state)!r})
(here / ("met-" + os.environ["MOLECULE_ACTIVITY_ID"])).touch()
while len(list(here.glob("met-*"))) < 2: time.sleep(0.02)
print("met")
"""
    async with bridging(server, seat, state, program, MOLECULE_BRIDGE_PARALLEL="2"):
        await seen(lambda: waiting(seat), lambda count: count == 0)
    assert await chat(server, seat) == ["met", "met"]


@requirement("G14", "G17")
async def test_of_two_bridges_of_a_seat_one_works_and_the_other_goes_on_after_its_kill(
    server: Running, state: Path
) -> None:
    seat, person = await server.seat(), await server.person()
    async with bridging(server, seat, state, ECHO) as first:
        await person.send(seat.id, "one")
        await seen(lambda: chat(server, seat), bool)
        async with bridging(server, seat, state, ECHO):
            await person.send(seat.id, "two")
            await seen(lambda: chat(server, seat), lambda said: len(said) == 2)
            await first.kill()
            await person.send(seat.id, "three")
            said = await seen(lambda: chat(server, seat), lambda said: len(said) == 3)
    assert said == ["heard one", "heard two", "heard three"]


@requirement("G6", "G17")
@pytest.mark.parametrize("when", ["before", "meanwhile"])
async def test_a_bridge_whose_workspace_is_removed_ends_with_3_and_says_so(
    when: str, server: Running, state: Path
) -> None:
    seat, person = await server.seat(), await server.person()
    message = (await person.send(seat.id, "hi"))["activity_id"]

    async def remove() -> None:
        await server.admin.call("DELETE", f"/workspaces/{seat.id}", query={"confirm": "true"})

    if when == "before":
        await remove()
    async with bridging(server, seat, state, ECHO) as bridge:
        if when == "meanwhile":
            await seen(lambda: drafts(seat), lambda found: found.get(message, ("", ""))[0] == "answered")
            await remove()
        assert await bridge.ended() == 3, bridge.said
    assert bridge.said.count("was removed by its operator") == 1


@requirement("G20")
@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("import sys; print('API Error: 529'); sys.exit(3)", "the program ended with exit code 3: API Error: 529"),
        ("import sys; sys.exit('no key')", "the program ended with exit code 1: no key"),
        ("", "the agent ended its work without an answer: the program printed nothing and replied with no command"),
    ],
)
async def test_a_failed_or_silent_turn_is_shown_at_its_message(
    server: Running, state: Path, program: str, reason: str
) -> None:
    seat, person = await server.seat(), await server.person()
    sent = (await person.send(seat.id, "tea?"))["activity_id"]

    async def shown() -> Any:
        page = await person.get(f"/workspaces/{seat.id}/chat-history")
        return page["messages"][0].get("obligation", {}).get("reason")

    async with bridging(server, seat, state, program):
        assert await seen(shown, bool) == reason
    page = await person.get(f"/workspaces/{seat.id}/chat-history")
    assert page["messages"][0]["obligation"]["state"] == "open"  # it may be answered still
    ticks = (await person.get(f"/workspaces/{seat.id}/messages/{sent}/ticks"))["ticks"]
    assert [each["reason"] for each in ticks if each["tick"] == "failed"] == [reason]
    await seat.api.post(f"/workspaces/{seat.id}/notify", {"message": "Tea!"})
    page = await person.get(f"/workspaces/{seat.id}/chat-history")
    assert page["messages"][0]["obligation"]["state"] == "answered" and await shown() is None


@requirement("G20")
async def test_a_program_that_replies_by_its_command_and_prints_nothing_has_not_failed(
    server: Running, state: Path
) -> None:
    seat, person = await server.seat(), await server.person()
    await person.send(seat.id, "tea?")
    async with bridging(server, seat, state, ANSWERS.replace('print("and this nobody should see")', "")):
        await seen(lambda: waiting(seat), lambda count: count == 0)
        assert await seen(lambda: chat(server, seat), bool) == ["by the tool"]
    assert await failures(seat) == []
