"""The demo's lead as an agent of our own: the real command, a script for a model, helpers in threads of its own."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from testing.ports import free_port
from testing.waits import PROCESS_START_SECONDS, eventually
from tests.requirements import requirement
from tests.system.demo.demo_process import BAKERY, TEXT, Demo, running_demo

OWN_LEAD = BAKERY.replace('behaviour = "lead"\nseconds = 0', 'behaviour = "lead"\nhost = "agent"', 1)
TREE = {"root": "", "root/teams": "root", "root/notes": "root"} | {
    f"root/teams/{team}": "root/teams" for team in ("backstube", "theke")
}
Rows = list[dict[str, Any]]


@pytest.fixture
def company(tmp_path: Path) -> Path:
    """A company whose lead is an agent of our own, above two teams."""
    file = tmp_path / "betrieb.toml"
    file.write_text(OWN_LEAD, encoding="utf-8")
    return file


async def threads(demo: Demo) -> dict[str, dict[str, Any]]:
    """The lead's threads, by path."""
    page = await demo.api.get(f"/workspaces/{await demo.id('Chefin')}/threads")
    found = {each["path"]: each for each in page["threads"]}
    assert len(found) == len(page["threads"])
    return found


async def log(demo: Demo, thread: dict[str, Any]) -> Rows:
    """The entries of a thread."""
    page = await demo.api.get(f"/threads/{thread['thread_id']}/items", limit=500)
    return [each["entry"] for each in page["items"]]


def calls(entries: Rows) -> list[tuple[str, str]]:
    """The begins and ends of what a thread did with others, in order."""
    return [(each["tool"], each["status"]) for each in entries if each["type"] == "collab"]


def engine_of(pid: int) -> int:
    """The process of `molecule agent run` that the process of a seat has started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    (found,) = [int(each) for each in children if b"agent\0run" in Path(f"/proc/{each}/cmdline").read_bytes()]
    return found


async def check_told_once(demo: Demo) -> None:
    """Each team has worked on the question once, and both helpers are in the one answer."""
    given = await demo.api.get(f"/workspaces/{await demo.id('Chefin')}/delegations", direction="out")
    assert sorted((each["target_name"], each["status"]) for each in given) == [
        ("Backstube", "completed"),
        ("Theke", "completed"),
    ]
    chat = await demo.chat("Chefin")
    assert [role for role, _ in chat] == ["user", "agent", "agent"], chat
    assert chat[2][1] == (
        "Here is what my helpers found.\n\n"
        "## Backstube\n\n### Ofen\n\n**Aufwand**\n\n- launch: 3 days\n- page: 4 days\n- **total: 7 days**\n\n"
        "## Theke\n\n**Risiken**\n\n- Viele kommen.\n\n\n\n"
        "## From my notes\n\nMy notes contain nothing about this yet."
    )


@requirement("TH10", "TH11", "AR7")
async def test_the_lead_begins_two_helpers_waits_for_both_and_answers_with_what_both_said(
    tmp_path: Path, company: Path
) -> None:
    async with running_demo(tmp_path / "state", free_port(), company) as demo:
        await demo.ask("Chefin")
        await demo.chat_of("Chefin", 3)
        await check_told_once(demo)
        tree = await threads(demo)
        paths = {each["thread_id"]: each["path"] for each in tree.values()}
        assert {path: paths.get(each["parent_thread_id"], "") for path, each in tree.items()} == TREE
        assert {each["status"]["type"] for each in tree.values()} == {"completed"}
        entries = await log(demo, tree["root"])
        one = [("spawn", "inProgress"), ("spawn", "completed")]
        assert calls(entries) == [*one, *one, ("wait", "inProgress"), ("wait", "completed")]
        end = [each for each in entries if each["type"] == "collab"][-1]
        ended = {each["path"]: (each["outcome"], each["message"]) for each in end["agents"]}
        assert {path: outcome for path, (outcome, _) in ended.items()} == {"root/teams": "ended", "root/notes": "ended"}
        assert "Risiken" in ended["root/teams"][1] and "notes" in ended["root/notes"][1]

        await demo.ask("Chefin", TEXT)  # who knows the matter goes to work again; nobody new is begun
        chat = await demo.chat_of("Chefin", 6)
        assert chat[5][1].endswith(f"## From my notes\n\n- Earlier request: {TEXT}")
        again = await threads(demo)
        assert {path: each["thread_id"] for path, each in again.items()} == {
            path: each["thread_id"] for path, each in tree.items()
        }
        assert {each["turns"] for each in again.values()} == {2}


@requirement("TH10", "AR3", "AR5")
async def test_a_lead_that_is_killed_between_spawn_and_wait_comes_back_with_both_results_and_does_nothing_twice(
    tmp_path: Path, company: Path
) -> None:
    state, port = tmp_path / "state", free_port()
    async with running_demo(state, port, company) as demo:
        config = state / "demo" / "agents" / await demo.id("Chefin") / "config.yaml"
        config.write_text(f'{config.read_text()}approval_rules: [{{action: "call:wait_agent"}}]\n')
        await eventually(
            lambda: demo.prompt_of("Chefin"), lambda build: "call:wait_agent" in str(build), PROCESS_START_SECONDS
        )
        await demo.ask("Chefin")
        held = await eventually(
            lambda: demo.api.get("/approvals/pending"), lambda page: page["approvals"], PROCESS_START_SECONDS
        )
        await eventually(lambda: threads(demo), lambda found: "root/notes" in found, PROCESS_START_SECONDS)
        before = await log(demo, (await threads(demo))["root"])
        os.kill(engine_of(demo.pid("Chefin")), signal.SIGKILL)
        await demo.process.says("Chefin (pid")
    # By its own rule it has begun its helpers and nothing more; at its next start the rule is gone with the file.
    assert [each["action"] for each in held["approvals"]] == ["call:wait_agent"]
    assert calls(before) == [("spawn", "inProgress"), ("spawn", "completed")] * 2

    async with running_demo(state, port, None) as demo:
        await demo.chat_of("Chefin", 3)
        await demo.until_seat("Chefin", lambda seat: seat["active_tasks"] == 0)
        await check_told_once(demo)
        tree = await threads(demo)
        after = await log(demo, tree["root"])

    assert after[: len(before)] == before
    assert set(tree) == set(TREE) and {each["turns"] for each in tree.values()} == {1}
    assert calls(after) == [*calls(before), ("wait", "inProgress"), ("wait", "completed")]
    assert [each["type"] for each in after].count("turn_ended") == 1
    notes = [each["text"] for each in after if each["type"] == "context_note"]
    assert ["“What needs approval” is no longer valid" in each for each in notes] == [True], notes
