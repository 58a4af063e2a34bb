"""The one who answers to its stdout only: caught, shown, and its draft sent with one click. Real processes."""

from pathlib import Path
from typing import Any

import pytest

from molecule_core.demo.stdout_agent import message_from_stdin
from molecule_core.wire.schemas.xml import format_channel
from testing.ports import free_port
from tests.requirements import requirement
from tests.system.demo.demo_process import Demo, running_demo

COMPANY = """
name = "Small"

[[seat]]
name = "Archive"
role = "Files."
behaviour = "specialist"
host = "stdout"
seconds = 0
reply_seconds = 3
[[seat.craft]]
kind = "topics"
title = "To be filed under"
"""
TEXT = "Where is the contract & the <plan>?"


@pytest.fixture
def company(tmp_path: Path) -> Path:
    """An org file of a company whose only agent is mute."""
    file = tmp_path / "small.toml"
    file.write_text(COMPANY, encoding="utf-8")
    return file


async def owed(demo: Demo) -> list[dict[str, Any]]:
    """What the organisation says of messages that were not answered as they should be."""
    (org,) = await demo.api.get("/orgs")
    page = await demo.api.get(f"/orgs/{org['id']}/obligations", state="unanswered")
    found: list[dict[str, Any]] = page["obligations"]
    return found


@requirement("G17", "G20")
async def test_an_answer_to_stdout_is_caught_and_sent_with_one_click(tmp_path: Path, company: Path) -> None:
    async with running_demo(tmp_path / "state", free_port(), company) as demo:
        seat = await demo.id("Archive")
        asked = await demo.ask("Archive", TEXT)

        async def caught() -> bool:
            return any(each["state"] == "answered_outside" for each in await owed(demo))

        await demo._until("Archive", caught)
        (owes,) = await owed(demo)
        before = await demo.chat("Archive")
        sent = await demo.api.post(f"/workspaces/{seat}/messages/{asked}/draft/send")
        after = await demo.chat("Archive")
        left = await owed(demo)

    assert (owes["activity_id"], owes["workspace_id"]) == (asked, seat)
    assert owes["draft"].startswith("**To be filed under**") and "contract" in owes["draft"]
    assert before == [("user", TEXT)]
    assert sent["state"] == "answered"
    assert after == [("user", TEXT), ("agent", owes["draft"])]
    assert left == []


@requirement("G17", "G20")
async def test_what_nobody_sends_is_overdue_soon_and_still_has_its_draft(tmp_path: Path, company: Path) -> None:
    async with running_demo(tmp_path / "state", free_port(), company) as demo:
        asked = await demo.ask("Archive", TEXT)

        async def overdue() -> bool:
            return any(each["state"] == "overdue" for each in await owed(demo))

        await demo._until("Archive", overdue)
        (owes,) = await owed(demo)
        chat = await demo.chat("Archive")

    assert (owes["activity_id"], bool(owes["draft"])) == (asked, True)
    assert chat == [("user", TEXT)]


def test_a_program_finds_the_message_in_what_it_is_handed() -> None:
    told = format_channel({"kind": "canvas_user"}, "Answer with reply.", TEXT)
    assert message_from_stdin(told).text == TEXT
    assert message_from_stdin(f"{TEXT}\n").text == TEXT
