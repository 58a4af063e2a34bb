"""What an agent really receives, as it stands in the snapshots, and what it costs.

scripts/docs        writes the snapshots anew; a review then sees what has changed
"""

import re
import statistics
from pathlib import Path
from xml.etree import ElementTree

import pytest

from molecule_core.tools.registry import TOOLS
from molecule_core.wire.schemas.envelope import InstructionForm
from tests.instructions.delivered_task import delivered
from tests.instructions.received_texts import FOLDER, FORMS, KINDS, Desk, Kind, page, received
from tests.instructions.runtimes import AGENTS, BRIDGED, RUNTIMES
from tests.instructions.tokenizer import tokens
from tests.requirements import requirement

ROOT = Path(__file__).resolve().parents[2]
# Characters that XML takes for its own, and those that no model should meet.
_BROKEN = ("{{", "{%", "%s", "None", "\x00")


@requirement("I14", "I1", "I2", "I3")
@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("form", FORMS)
def test_what_agents_receive_is_what_the_snapshot_says(agent: str, form: InstructionForm) -> None:
    snapshot = ROOT / FOLDER / f"{agent}-{form}.txt"
    assert snapshot.read_bytes().decode() == page(agent, form), "run scripts/docs, and look at what has changed"


def test_the_snapshots_keep_their_line_ends_on_every_system() -> None:
    assert "tests/instructions/snapshots/*.txt text eol=lf" in (ROOT / ".gitattributes").read_text().splitlines()


def cost(agent: str, form: InstructionForm, kind: Kind) -> int:
    """Tokens of the words, as a real tokenizer counts them."""
    return tokens(dict(received(agent, kind, form))["instructions"]["text"])


@requirement("I14")
@pytest.mark.parametrize(("form", "most"), [("full", 220), ("compact", 45)])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.several], ids=lambda kind: kind.name)
def test_the_median_of_the_three_defaults_keeps_to_its_bound(form: InstructionForm, most: int, kind: Kind) -> None:
    assert statistics.median(cost(runtime, form, kind) for runtime in RUNTIMES) <= most
    assert cost(BRIDGED, form, kind) <= 220  # a program without memory always gets the full form


@requirement("I14")
@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("form", FORMS)
def test_what_is_told_as_the_cost_is_near_it(agent: str, form: InstructionForm) -> None:
    for kind in KINDS:
        told = dict(received(agent, kind, form))["instructions"]
        assert abs(told["tokens"] - tokens(told["text"])) <= 5 + 0.25 * tokens(told["text"])


@requirement("I1", "I2", "I3")
@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_way_says_the_same_words(agent: str, kind: Kind) -> None:
    for form in FORMS:
        ways = dict(received(agent, kind, form))
        told = ways["instructions"]
        assert not any(each in told["text"] for each in _BROKEN)
        assert ways["poll, beside the message"]["instructions"] == told
        assert ways["push"]["metadata"]["instructions"] == ways["wait_for_message"]["instructions"] == told
        assert ways["push"]["parts"] == list(kind.parts)
        assert ways["poll, in the text"][0]["text"].startswith("<instructions>")


@requirement("I9", "G20")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_program_behind_a_bridge_reads_of_its_command_and_of_what_it_prints_and_of_no_tool(
    form: InstructionForm, kind: Kind
) -> None:
    ways = dict(received(BRIDGED, kind, form))
    told, read = ways["instructions"], ElementTree.fromstring(ways["standard input"])
    decides = kind.kind == "approval_request"
    via = "molecule tool decide_approval" if decides else "molecule reply"
    assert (told["reply_via"], told["available_tools"]) == (via, [])
    assert read[0].text == told["text"], "the bridge has nothing to add"
    assert (f"`{via}" in told["text"]) is (kind.intent == "request")
    asks = kind.intent == "request" and not decides
    assert (f"`molecule reply {told.get('reply_handle')}`" in told["text"]) is asks
    assert ("is sent as your answer" in told["text"]) is asks
    assert "draft" not in told["text"]
    assert ("does not count as a decision" in told["text"] and "reply_handle" not in told) or not (
        decides and form == "full"
    )
    assert "(handle" not in told["text"] and "does not reach" not in told["text"]
    for spec in TOOLS:
        assert f"{spec.name}(" not in told["text"]
    called = set(re.findall(r"`molecule (\w+)", told["text"]))
    assert called <= {"tool", *(spec.cli for spec in TOOLS)}


@requirement("I1")
def test_a_stored_message_is_not_touched_by_any_of_it() -> None:
    for kind in KINDS:
        row = Desk("codex", kind).row
        before = row.request_body
        for form in FORMS:
            dict(received("codex", kind, form))
        assert row.request_body == before == Desk("codex", kind).row.request_body


@requirement("I14", "D6", "D7")
@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.is_delivered], ids=lambda kind: kind.name)
def test_the_snapshot_of_a_task_and_of_its_result_is_what_a_real_server_handed_over(agent: str, kind: Kind) -> None:
    handed = delivered(agent)[kind.kind]
    assert (handed.claimed["kind"], handed.claimed["intent"]) == (kind.kind, kind.intent)
    assert dict(received(agent, kind, "full"))["poll, beside the message"] == handed.claimed
    task = delivered(agent)["delegation"]
    assert f"delegation_id={task.row.id}" in handed.claimed["instructions"]["text"]
