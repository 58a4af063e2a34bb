"""The outbox of a bridge: it outlives a kill between any two steps, and nothing is told or worked on twice."""

import stat
from pathlib import Path

import pytest

from molecule_core.agent.bridges.outbox import DamagedOutboxError, Outbox, TurnOutcome
from tests.requirements import requirement


def reopened(folder: Path) -> Outbox:
    """The outbox as the next life finds it."""
    outbox = Outbox(folder, "w-1")
    outbox.load()
    return outbox


def said(activity_id: str, run: int = 1, text: str = "hello") -> TurnOutcome:
    """A turn that ended well."""
    return TurnOutcome(activity_id=activity_id, kind="said", run=run, text=text)


@requirement("G17")
def test_what_was_said_is_there_after_a_kill_until_the_server_knows_it(tmp_path: Path) -> None:
    outbox = reopened(tmp_path)
    outbox.begin_turn("m-1")
    outbox.add_outcome(said("m-1"))
    outbox = reopened(tmp_path)
    assert outbox.outcomes == [said("m-1")]
    assert outbox.is_done("m-1")
    outbox.remove_outcome(said("m-1"))
    assert reopened(tmp_path).outcomes == []
    assert not reopened(tmp_path).is_done("m-1")


@requirement("G17")
def test_a_turn_that_a_kill_cut_short_is_told_once_as_interrupted_and_counted(tmp_path: Path) -> None:
    assert reopened(tmp_path).begin_turn("m-1") == 1
    outbox = reopened(tmp_path)
    (cut,) = outbox.outcomes
    assert (cut.kind, cut.run, cut.activity_id) == ("interrupted", 1, "m-1")
    assert not outbox.is_done("m-1")
    outbox.remove_outcome(cut)
    assert reopened(tmp_path).outcomes == []
    assert reopened(tmp_path).begin_turn("m-1") == 2
    assert [each.run for each in reopened(tmp_path).outcomes] == [2]


def test_what_may_have_been_told_says_so_to_the_next_life(tmp_path: Path) -> None:
    outbox = reopened(tmp_path)
    failed = TurnOutcome(activity_id="m-1", kind="failed", run=1, text="no")
    outbox.add_outcome(failed)
    outbox.mark_tried(failed)
    (kept,) = reopened(tmp_path).outcomes
    assert kept.tried
    outbox.remove_outcome(failed)
    assert reopened(tmp_path).outcomes == []


def test_turns_of_a_message_that_is_done_are_counted_anew_if_it_comes_again(tmp_path: Path) -> None:
    outbox = reopened(tmp_path)
    outbox.begin_turn("m-1")
    outbox.add_outcome(said("m-1"))
    outbox.remove_outcome(said("m-1"))
    assert outbox.begin_turn("m-1") == 1


def test_turns_are_remembered_of_a_bounded_number_of_messages(tmp_path: Path) -> None:
    outbox = reopened(tmp_path)
    outbox.begin_turn("oldest")
    for number in range(1000):
        outbox._state.turns[f"m-{number}"] = outbox._state.turns["oldest"]
    outbox.begin_turn("newest")
    assert len(outbox._state.turns) == 1000
    assert "oldest" not in outbox._state.turns


@requirement("O3")
def test_only_its_owner_may_read_it(tmp_path: Path) -> None:
    outbox = reopened(tmp_path)
    outbox.add_outcome(said("m-1"))
    assert stat.S_IMODE(outbox.path.stat().st_mode) == 0o600


def test_a_damaged_outbox_stops_the_bridge_and_says_what_to_do(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path, "w-1")
    outbox.path.write_bytes(b"{")
    with pytest.raises(DamagedOutboxError, match="move the file away"):
        outbox.load()
