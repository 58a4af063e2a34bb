"""Real hosts from npm, with a model of ours, take part through `molecule mcp`."""

import asyncio
import os
import re

import pytest

from molecule_core.tools.registry import TOOLS
from tests.interop import transcript
from tests.interop.model_scripts import Asked, Call, Step
from tests.interop.scene import Scene, Sitting, answer_to, answers, peeks, sitting, waits
from tests.requirements import requirement

QUESTION = "Which river flows through Ulm?"
ANSWERED = [("user", QUESTION), ("agent", answer_to(QUESTION))]
SPOKEN = re.compile(r"([\w.]*?)(" + "|".join(spec.name for spec in TOOLS) + r")\b")
HANDLED = ["stored", "in_inbox", "answered", "acked"]


@requirement("X1")
@pytest.mark.parametrize("reads", [peeks, waits])
async def test_a_real_host_reads_a_waiting_message_and_its_answer_stands_in_the_chat(scene: Scene, reads: Step) -> None:
    activity_id = await scene.ops.writes(QUESTION)
    scene.configure()

    visit = await scene.run(reads, answers)

    assert visit.went_well, visit.told
    assert await scene.ops.chat() == ANSWERED, visit.told
    assert await scene.ops.became(activity_id) == HANDLED
    assert scene.endpoint.strangers == []


@requirement("X1")
async def test_a_message_that_comes_while_a_real_host_waits_ends_the_wait(scene: Scene) -> None:
    is_waiting = asyncio.Event()

    def waits_for_what_comes(asked: Asked) -> Call:
        is_waiting.set()
        return waits(asked)

    scene.configure()
    running = asyncio.create_task(scene.run(waits_for_what_comes, answers))
    await asyncio.wait([running, asyncio.ensure_future(is_waiting.wait())], return_when=asyncio.FIRST_COMPLETED)
    await scene.ops.writes(QUESTION)
    visit = await running

    assert visit.went_well, visit.told
    assert await scene.ops.chat() == ANSWERED, visit.told


@requirement("X1", "G24")
async def test_a_real_host_waits_for_a_server_that_takes_long_to_start(scene: Scene) -> None:
    await scene.ops.writes(QUESTION)
    # A busy machine: there is no event to wait for. Claude Code and Codex would begin without us after a second or two.
    scene.configure(before=("/bin/sh", "-c", 'sleep 4; exec "$0" "$@"'))

    visit = await scene.run(peeks, answers)

    assert visit.went_well, visit.told
    assert await scene.ops.chat() == ANSWERED, visit.told


@requirement("X1", "G14")
async def test_a_message_that_a_real_host_left_unanswered_is_there_in_its_next_session(scene: Scene) -> None:
    activity_id = await scene.ops.writes(QUESTION)
    scene.configure()

    first = await scene.run(peeks)
    then = await scene.run(waits, answers)

    assert first.went_well, first.told
    assert first.mind.asked[-1].last["messages"][0]["activity_id"] == activity_id
    assert then.went_well, then.told
    assert await scene.ops.chat() == ANSWERED, then.told
    assert (await scene.ops.became(activity_id))[-1] == "acked"


@requirement("X1", "G3")
async def test_a_real_host_shows_its_model_what_the_server_says(scene: Scene) -> None:
    host = scene.host
    await scene.ops.writes(QUESTION)
    scene.configure(before=scene.tap)

    visit = await scene.run(peeks, answers)

    asked = visit.mind.asked
    assert visit.went_well, visit.told
    # The instructions are whole, and every tool that they name is one that the model can call at once.
    instructions = visit.answer_to("initialize")["instructions"]
    assert instructions in asked[0].said
    named = {f"{before}{name}" for before, name in SPOKEN.findall(instructions)}
    assert f"{host.prefix}reply_to_workspace" in named
    assert named <= set(asked[0].tools)
    assert scene.offered(asked[0]) == {spec.name for spec in TOOLS}
    # What a tool gave is what the model sees: the structured form, whole.
    shown = [result.value for result in asked[-1].results]
    calls = visit.to_us("tools/call")
    given = {each["id"]: each["result"].get("structuredContent") for each in visit.from_us() if "result" in each}
    assert shown == [given[call["id"]] for call in calls]
    # Each call says whose it is, where the host knows such a thing.
    marks = {"claude-code": "claudecode/toolUseId", "codex": "threadId", "gemini": "progressToken"}
    assert all(marks[host.name] in call["params"]["_meta"] for call in calls)
    if os.environ.get("MOLECULE_INTEROP_WRITE"):
        transcript.write(host, transcript.page(scene, visit))


@requirement("X1", "G11")
async def test_a_real_host_whose_model_names_a_wrong_workspace_is_told_and_answers_rightly(scene: Scene) -> None:
    await scene.ops.writes(QUESTION)
    other = await sitting(scene.ops.server)

    def answers_as_another(asked: Asked) -> Call:
        call = answers(asked)
        return Call(call.tool, {**call.arguments, "workspace_id": other.seat.id, "text": "for the wrong place"})

    def answers_after_all(asked: Asked) -> Call:
        return answers(asked._replace(results=asked.results[:1]))

    scene.configure()
    visit = await scene.run(peeks, answers_as_another, answers_after_all)

    assert visit.went_well, visit.told
    told = visit.mind.asked[2].results[1].text
    assert scene.ops.seat.id in told, told
    assert await scene.ops.chat() == ANSWERED, visit.told
    assert await other.chat() == []


@requirement("X1", "G7", "G11")
async def test_a_real_host_in_two_workspaces_on_two_servers_answers_each_where_it_was_asked(
    scene: Scene, elsewhere: Sitting
) -> None:
    texts = {scene.ops: QUESTION, elsewhere: "And which one through Linz?"}
    for place, text in texts.items():
        await place.writes(text)
    scene.configure(elsewhere)

    visit = await scene.run(waits, answers, waits, answers)

    assert visit.went_well, visit.told
    for place, text in texts.items():
        assert await place.chat() == [("user", text), ("agent", answer_to(text))], visit.told
