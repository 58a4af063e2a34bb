"""The demo company from end to end: real processes, a person who writes, agents that are killed."""

import asyncio
import itertools
import os
import signal
import sys
from pathlib import Path

import pytest
from anyio.lowlevel import checkpoint

from molecule_core.demo.provisioner import STATE_FILE
from testing.ports import free_port
from testing.processes import LISTENS, client, started
from testing.running_server import ADMIN_TOKEN
from testing.waits import IN_PROCESS_SECONDS, PROCESS_START_SECONDS, eventually
from tests.system.demo.demo_process import BAKERY, TEXT, packaged_without_pauses, running_demo, started_demo

# Heartbeats come every three seconds: this notices a killed agent soon, and forgives a busy machine one of them.
QUICK = {"MOLECULE_LIMIT_SILENCE_SECONDS": "8", "MOLECULE_LIMIT_SWEEP_SECONDS": "1"}


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state folder that is not there yet."""
    return tmp_path / "state"


@pytest.fixture
def port() -> int:
    """A port that is the demo's in all its lives."""
    return free_port()


@pytest.fixture
def bakery(tmp_path: Path) -> Path:
    """An org file of a small company."""
    file = tmp_path / "betrieb.toml"
    file.write_text(BAKERY, encoding="utf-8")
    return file


async def test_the_packaged_company_answers_a_person_together(state: Path, port: int, tmp_path: Path) -> None:
    file = tmp_path / "company.toml"
    file.write_text(packaged_without_pauses(), encoding="utf-8")
    async with running_demo(state, port, file) as demo:
        seats = await demo.seats()
        await demo.ask("Lead")
        user, begun, answer = await demo.chat_of("Lead", 3)
        await demo.until_seat("Lead", lambda seat: seat["active_tasks"] == 0)
        told = await eventually(
            lambda: demo.prompt_of("Lead"), lambda build: "Engineering" in str(build), PROCESS_START_SECONDS
        )

    assert told["sections"][0]["text"].startswith("You are the lead of a small company.")
    assert {seat["status"] for seat in seats.values()} == {"online"}
    assert user == ("user", TEXT)
    assert begun[1] == "I am asking all of my teams. I will answer when they have replied."
    assert answer[0] == "agent"
    teams = (("Engineering", "Backend", "1.5 days", "Frontend", "QA"), ("Research", "Analyst"), ("Support", "Writer"))
    order = [*itertools.chain(*teams), "Legal"]
    places = [answer[1].index(word, len(answer[1].split("\n")[0])) for word in order]
    assert places == sorted(places)


async def test_a_company_of_other_names_and_another_tree_works_the_same(state: Path, port: int, bakery: Path) -> None:
    async with running_demo(state, port, bakery) as demo:
        await demo.ask("Chefin")
        await demo.ask("Ofen")
        await demo.ask("Telefon", "Wer Leitet das?")
        chats = [await demo.chat_of(name, lines) for name, lines in (("Chefin", 3), ("Ofen", 2), ("Telefon", 3))]

    assert chats[0][2][1] == (
        f"Answers to “{TEXT}” from Backstube and Theke:\n\n"
        "### Backstube\n\n#### Ofen\n\n**Aufwand**\n\n- launch: 3 days\n- page: 4 days\n- **total: 7 days**\n\n"
        "### Theke\n\n**Risiken**\n\n- Viele kommen."
    )
    assert chats[1][1][1].startswith("**Aufwand**")
    assert chats[2][1][1] == "I forwarded this to Chefin. I will send you the answer."


async def test_a_killed_agent_leaves_its_part_open_until_the_next_start(state: Path, port: int, bakery: Path) -> None:
    async with running_demo(state, port, bakery, **QUICK) as demo:
        demo.kill("Ofen")
        await demo.process.says("Ofen (pid")
        await demo.ask("Chefin")
        await demo.until_seat("Ofen", lambda seat: seat["status"] == "offline")
        await demo.ask("Theke")
        others = await demo.chat_of("Theke", 2)
        open_chat = await demo.chat("Chefin")
        waiting = (await demo.seats())["Chefin"]
        demo.process.send(signal.SIGINT)
        assert await demo.process.ended() == 0

    async with running_demo(state, port, None, **QUICK) as demo:  # it remembers its company
        done = await demo.chat_of("Chefin", 3)
        await demo.until_seat("Chefin", lambda seat: seat["active_tasks"] == 0)
        again = await demo.chat("Chefin")
        inboxes = [await demo.api.get(f"/workspaces/{await demo.id(name)}/activity") for name in ("Backstube", "Ofen")]

    assert others[1][1] == "**Risiken**\n\n- Viele kommen."
    assert [role for role, _ in open_chat] == ["user", "agent"], open_chat
    assert (waiting["status"], waiting["active_tasks"]) == ("online", 1)
    assert "total: 7 days" in done[2][1]
    assert again == done
    received = [[row["summary"] for row in rows if row["activity_type"] == "a2a_receive"] for rows in inboxes]
    assert [len(rows) for rows in received] == [2, 1]  # a question and an answer; a question


async def test_what_was_asked_before_everybody_is_killed_is_answered_once_after_it(
    state: Path, port: int, bakery: Path
) -> None:
    slow = BAKERY.replace(
        'role = "Schätzt."\nbehaviour = "specialist"\nseconds = 0', 'role = "Schätzt."\nbehaviour = "specialist"'
    )
    bakery.write_text(slow, encoding="utf-8")
    async with running_demo(state, port, bakery) as demo:
        for number in range(3):
            await demo.ask("Chefin", f"Launch number {number}")
        await demo.chat_of("Chefin", 5)  # three questions, and two times that it has begun
        await demo.process.kill()

    async with running_demo(state, port, bakery) as demo:
        done = await demo.chat_of("Chefin", 9)
        await demo.until_seat("Chefin", lambda seat: seat["active_tasks"] == 0)
        assert await demo.chat("Chefin") == done

    answers = [text.split("\n")[0] for role, text in done if role == "agent" and text.startswith("Answers to")]
    assert sorted(answers) == [f"Answers to “Launch number {number}” from Backstube and Theke:" for number in range(3)]


async def test_a_start_over_forgets_the_demo_and_nothing_else(state: Path, port: int, bakery: Path) -> None:
    async with running_demo(state, port, bakery) as demo:
        await demo.ask("Theke")
        await demo.chat_of("Theke", 2)
        before = await demo.id("Theke")
    (state / "molecule.db").write_text("somebody's real data")

    async with running_demo(state, port, bakery) as demo:
        kept = (await demo.id("Theke"), len(await demo.chat("Theke")))
    async with running_demo(state, port, bakery, "--fresh") as demo:
        fresh = (await demo.id("Theke"), len(await demo.chat("Theke")))

    assert kept == (before, 2)
    assert fresh[0] != before
    assert fresh[1] == 0
    assert (state / "molecule.db").read_text() == "somebody's real data"


async def test_a_removed_seat_ends_its_agent_and_comes_back_at_the_next_start(
    state: Path, port: int, bakery: Path
) -> None:
    async with running_demo(state, port, bakery) as demo:
        before = await demo.id("Theke")
        await demo.api.call("DELETE", f"/workspaces/{before}", query={"confirm": "true"})
        await demo.process.says("Theke has lost access to its workspace")
        await demo.process.says("Theke (pid")
        await demo.ask("Chefin")
        without = await demo.chat_of("Chefin", 3)

    async with running_demo(state, port, bakery) as demo:
        after = (await demo.seats())["Theke"]

    assert "from Backstube:" in without[2][1]
    assert after["id"] != before
    assert after["status"] == "online"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_ends_the_server_and_every_agent(
    state: Path, port: int, bakery: Path, number: signal.Signals
) -> None:
    async with running_demo(state, port, bakery) as demo:
        await demo.ask("Chefin")
        demo.process.send(number)
        async with asyncio.timeout(IN_PROCESS_SECONDS * 2):
            assert await demo.process.ended() == 0  # its standard error has ended too: no agent holds it any more

        await check_gone(set(pids(demo.process.said)))
        assert "Traceback" not in demo.process.said
        assert "has ended" not in demo.process.said
        assert "WARNING" not in demo.process.said  # nobody has wondered where the server is


async def test_ctrl_c_while_the_company_is_still_coming_in_ends_everything_too(
    state: Path, port: int, bakery: Path
) -> None:
    async with started_demo(state, port, "--company", str(bakery)) as process:
        await process.says(LISTENS)
        process.send(signal.SIGINT)
        async with asyncio.timeout(IN_PROCESS_SECONDS * 2):
            assert await process.ended() == 0
        assert "Traceback" not in process.said


async def test_an_agent_whose_starter_is_gone_before_it_says_anything_ends_in_silence() -> None:
    command = 'true | exec "$0" -m molecule_core.demo.agent'
    async with started("sh", "-c", command, sys.executable, env=dict(os.environ)) as process:
        assert await process.ended() == 0
        assert process.said == ""


async def test_an_agent_of_ones_own_is_asked_if_it_names_a_skill_and_heard_if_it_names_the_question(
    state: Path, port: int, bakery: Path
) -> None:
    async with running_demo(state, port, bakery) as demo:
        new = {"name": "Mine", "parent_id": await demo.id("Chefin")}
        seat = await demo.api.post("/workspaces", new)
        async with client(port, seat["connection"]["auth_token"]) as mine:
            card = {"name": "Mine", "skills": [{"id": "poetry", "name": "Poetry"}]}
            await mine.post("/registry/register", {"id": seat["id"], "agent_card": card})
            await demo.ask("Chefin")
            (question,) = await mine.claim(seat["id"], wait=20, include="instructions")
            asked = question["request_body"]["params"]["message"]
            answer = {"parts": [{"kind": "text", "text": "A rhyme."}]}
            metadata = {"in_reply_to": asked["messageId"], "intent": "inform"}
            params = {"message": {**answer, "metadata": metadata}}
            await mine.post(f"/workspaces/{question['source_id']}/a2a", {"method": "message/send", "params": params})
            done = await demo.chat_of("Chefin", 3)

    assert asked["parts"][0]["text"] == TEXT
    assert done[2][1].endswith("### Mine\n\nA rhyme.")


async def test_a_killed_server_leaves_no_agent_behind(state: Path, port: int, bakery: Path) -> None:
    async with running_demo(state, port, bakery) as demo:
        agents = set(pids(demo.process.said))
        assert agents <= living()
        async with asyncio.timeout(IN_PROCESS_SECONDS):
            await demo.process.kill()
        await check_gone(agents)
        assert "Traceback" not in demo.process.said

    async with running_demo(state, port, bakery) as demo:  # and nothing holds the folder
        await demo.ask("Chefin")
        assert len(await demo.chat_of("Chefin", 3)) == 3


async def test_no_credential_stands_where_others_can_read_it(state: Path, port: int, bakery: Path) -> None:
    async with running_demo(state, port, bakery) as demo:
        book = (state / "demo" / STATE_FILE).read_text()
        tokens = [ADMIN_TOKEN, *(part for part in book.split('"') if part.startswith("mol_ws_"))]
        processes = [Path(f"/proc/{pid}") for pid in pids(demo.process.said)]
        seen = b"".join((folder / name).read_bytes() for folder in processes for name in ("cmdline", "environ"))
        said = demo.process.said

    assert len(tokens) == 6
    assert not [token for token in tokens if token.encode() in seen or token in said]
    assert b"Theke" in seen


def pids(said: str) -> list[int]:
    """The processes of all agents, as the terminal tells them."""
    return [int(line.split()[-1]) for line in said.splitlines() if " pid " in line and line.startswith("   ")]


async def check_gone(agents: set[int]) -> None:
    """None of the processes runs any more. (A process lets go of its standard error a moment before it is gone.)"""
    assert agents
    async with asyncio.timeout(IN_PROCESS_SECONDS):
        while agents & living():
            await checkpoint()


def living() -> set[int]:
    """The processes of this machine that run; one that has ended and is only not yet counted off does not."""
    found = set()
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                state = Path(entry.path, "stat").read_text().rsplit(")", 1)[1].split()[0]
            except (FileNotFoundError, ProcessLookupError):
                continue
            if state not in "ZX":
                found.add(int(entry.name))
    return found
