"""A real Claude Code that knows nothing but what it was sent: the words with the message lead it to the right tool with
the right arguments.

Its model is a function of the text that it is shown. It reads the instructions as a person would, whatever else stands
in the tool's result, and has no name of a tool, no id and no handle of its own.
"""

import html
import json
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from testing.running_server import Running, running
from testing.waits import eventually
from tests.interop import transcript
from tests.interop.host_requirements import require
from tests.interop.hosts import CLAUDE, Home, Ran, session_environment
from tests.interop.model_scripts import Act, Asked, Call, Mind
from tests.interop.scene import Scene, Visit, answer_to, sitting, staged, waits
from tests.interop.terminal import at_a_terminal
from tests.requirements import requirement

# A call as the words spell it: a name, and named values in quotes; what stands for the text is left out.
_CALL = re.compile(r"([A-Za-z_][\w.]*)\(((?:\w+=\"[^\"]*\", )+)text=")
_VALUE = re.compile(r"(\w+)=\"([^\"]*)\"")
_PUSHED = re.compile(
    r'<channel source="molecule"[^>]*>\n<instructions>(.*?)</instructions>\n<body>(.*?)</body>\n</channel>', re.DOTALL
)
_TOLD_AT = 1_800_000_000_000
_CHANNELS = ("--dangerously-load-development-channels", "server:molecule")
_ALLOWED = ("--allowedTools", "mcp__molecule", "--permission-mode", "dontAsk")
QUESTION = "Which river flows through Ulm?"


def spelled_out(words: str, body: str) -> Call:
    """The call that words spell out, with an answer to the body."""
    spelled = _CALL.search(words)
    assert spelled is not None, words
    return Call(spelled[1], {**dict(_VALUE.findall(spelled[2])), "text": answer_to(body)})


def follows_what_it_is_told(asked: Asked) -> Call:
    """The call that the instructions of the last message spell out."""
    message = asked.last["message"]
    return spelled_out(message["instructions"]["text"], message["body"])


def follows_what_is_pushed(asked: Asked) -> Act:
    """The same with what stands in the conversation, where the host has put it."""
    found = _PUSHED.findall(asked.said)
    if not found:
        return "Nobody has written."
    words, body = map(html.unescape, found[-1])
    return spelled_out(words, body)


def let_channels_in(home: Home) -> None:
    """What the host's vendor tells it about itself when it may ask: that there are channels. A switch that nobody may
    set, so it stands where the host keeps what it was told last."""
    known = json.loads(home.read("~/.claude.json"))
    told = {"cachedGrowthBookFeatures": {"tengu_harbor": True}, "cachedGrowthBookFeaturesAt": _TOLD_AT}
    home.write("~/.claude.json", json.dumps({**known, **told}))


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Running]:
    """A server that tells agents how to answer, and less of it to those who do."""
    state = tmp_path / "server"
    state.mkdir()
    place = str(state / "molecule.db")
    async with running(
        "sqlite", place, state, push_instructions_enabled=True, instruction_adaptive=True
    ) as telling_server:
        yield telling_server


@pytest.fixture
async def scene(server: Running, tmp_path: Path) -> AsyncIterator[Scene]:
    """Claude Code in a seat of that server."""
    seat = await sitting(server, runtime="claude-code")
    async with staged(require(CLAUDE), tmp_path / "home", seat) as found:
        yield found


@requirement("X2", "I9")
async def test_words_alone_lead_a_real_host_to_the_right_tool_with_the_right_arguments(scene: Scene) -> None:
    first = await scene.ops.writes(QUESTION)
    scene.configure(before=scene.tap)

    visit = await scene.run(waits, follows_what_it_is_told)

    assert visit.went_well, visit.told
    act = visit.mind.acts[1]
    assert isinstance(act, Call) and act.tool == "mcp__molecule__reply"
    assert set(act.arguments) == {"handle", "text"}
    assert await scene.ops.chat() == [("user", QUESTION), ("agent", answer_to(QUESTION))], visit.told
    assert (await scene.ops.became(first))[-1] == "answered"
    assert scene.endpoint.strangers == []
    if os.environ.get("MOLECULE_INTEROP_WRITE"):
        transcript.write(scene.host, transcript.page(scene, visit), "claude-code-instructions")


@requirement("X2", "I15")
async def test_the_compact_words_of_a_second_message_lead_it_there_too(scene: Scene) -> None:
    texts = [QUESTION, "And which one through Linz?"]
    for text in texts:
        await scene.ops.writes(text)
    scene.configure()

    visit = await scene.run(waits, follows_what_it_is_told, waits, follows_what_it_is_told)

    assert visit.went_well, visit.told
    forms = [each.value["message"]["instructions"]["form"] for each in visit.mind.asked[-1].results[::2]]
    assert forms == ["full", "compact"]
    assert sorted(await scene.ops.chat()) == sorted(
        line for text in texts for line in (("user", text), ("agent", answer_to(text)))
    )


@requirement("X2", "G15")
async def test_a_message_that_is_pushed_into_a_session_says_all_that_its_answer_needs(scene: Scene) -> None:
    """A session with a screen, in which nobody types anything but a yes to the host's warning about channels: the
    message comes by itself, and nothing but its own words says how it is answered."""
    host, home = scene.host, scene.home
    scene.configure(before=scene.tap)
    let_channels_in(home)
    scene.endpoint.mind = Mind("", [follows_what_is_pushed])
    env = session_environment(home, scene.endpoint)
    async with at_a_terminal((*host.pinned.command(), *_CHANNELS, *_ALLOWED), env, home.project) as terminal:
        await terminal.shows("Enter to confirm")
        terminal.press("\r")
        await terminal.until(lambda: "notifications/initialized" in wire(home), "the handshake")
        first = await scene.ops.writes(QUESTION)
        await terminal.until(lambda: '"answers"' in wire(home), "the answer")
        chat = await eventually(scene.ops.chat, lambda lines: len(lines) > 1)

    assert chat == [("user", QUESTION), ("agent", answer_to(QUESTION))]
    assert (await scene.ops.became(first))[-1] == "answered"
    act = next(each for each in scene.endpoint.mind.acts if isinstance(each, Call))
    assert act.tool == "mcp__molecule__reply" and set(act.arguments) == {"handle", "text"}
    assert scene.endpoint.mind.faults == []
    if os.environ.get("MOLECULE_INTEROP_WRITE"):
        visit = Visit(Ran(0, "", ""), scene.endpoint.mind, tuple(wire(home).splitlines()))
        command = " ".join(("claude", *_CHANNELS, *_ALLOWED))
        transcript.write(host, transcript.page(scene, visit, command), "claude-code-channel")


def wire(home: Home) -> str:
    """The lines between the host and us so far."""
    return home.read("~/lines")
