"""The file of a workspace's inbox: whole at every moment, one for each workspace, nobody else's."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_core.agent.mailbox.cursors import (
    CURSOR_FILE_NAME,
    CursorFile,
    CursorState,
    LeaderFenced,
    format_cursor,
    parse_cursor,
)
from tests.requirements import requirement

ID = "019c1f0e-7a00-7000-8000-00000000000"
ids = st.from_regex(r"[A-Za-z0-9._:-]{1,128}", fullmatch=True)
numbers = st.integers(min_value=0, max_value=10**17)


@requirement("G10")
@given(
    st.builds(
        CursorState,
        cursor=st.one_of(st.just(""), ids),
        workspace=ids,
        fence=numbers,
        held=st.dictionaries(ids, numbers),
        handled=st.dictionaries(ids, numbers),
    )
)
def test_what_is_written_is_what_is_read(remembered: CursorState) -> None:
    assert parse_cursor(format_cursor(remembered)) == remembered


@requirement("G10")
@given(st.text(), st.dictionaries(st.text(), numbers))
def test_ids_that_no_server_should_give_are_left_out_and_break_no_line(cursor: str, held: dict[str, int]) -> None:
    text = format_cursor(CursorState(cursor=cursor, workspace="w", fence=7, held=held, handled={"m-1": 1}))
    found = parse_cursor(text.encode("ascii").decode())
    assert (found.workspace, found.fence, found.handled) == ("w", 7, {"m-1": 1})
    assert found.cursor in ("", cursor) and found.held.items() <= held.items()


@requirement("G10")
@given(st.text())
def test_no_text_whatsoever_stops_a_reader(text: str) -> None:
    assert isinstance(parse_cursor(text), CursorState)


@requirement("G10")
@given(st.builds(CursorState, cursor=ids, workspace=ids, held=st.dictionaries(ids, numbers)), st.integers(0, 400))
def test_a_file_that_was_cut_off_names_no_other_messages(remembered: CursorState, end: int) -> None:
    found = parse_cursor(format_cursor(remembered)[:end])
    known = {*remembered.held, remembered.cursor, ""}
    assert all(any(each.startswith(part) for each in known) for part in (*found.held, found.cursor))


@requirement("G10")
def test_a_file_of_the_original_system_is_understood(tmp_path: Path) -> None:
    (tmp_path / CURSOR_FILE_NAME).write_text(f"{ID}1")
    assert CursorFile(tmp_path, "w", single=True).load() == CursorState(cursor=f"{ID}1", workspace="w")


@requirement("G6", "G10")
def test_a_single_seat_has_the_original_file_name_and_several_have_their_whole_ids(tmp_path: Path) -> None:
    for id_, single in (("alone", True), (f"{ID}1", False), (f"{ID}2", False)):
        CursorFile(tmp_path, id_, single=single).save(CursorState(cursor=f"c-{id_}"))
    assert {path.name for path in tmp_path.iterdir()} == {
        CURSOR_FILE_NAME,
        f"{CURSOR_FILE_NAME}_{ID}1",
        f"{CURSOR_FILE_NAME}_{ID}2",
    }


@requirement("G10")
def test_ids_that_share_their_first_8_characters_do_not_collide(tmp_path: Path) -> None:
    files = [CursorFile(tmp_path, f"{ID}{number}", single=False) for number in range(5)]
    for number, file in enumerate(files):
        file.save(CursorState(cursor=f"cursor-{number}", held={f"m-{number}": 1}))
    files[2].reset()
    assert [file.load().cursor for file in files] == ["cursor-0", "cursor-1", "", "cursor-3", "cursor-4"]


@requirement("G10")
def test_two_single_seats_in_one_folder_do_not_read_or_write_each_others_file(tmp_path: Path) -> None:
    first, second = CursorFile(tmp_path, "first", single=True), CursorFile(tmp_path, "second", single=True)
    first.save(CursorState(cursor="c-first"))
    assert second.load().cursor == ""
    second.save(CursorState(cursor="c-second"))

    assert (first.load().cursor, second.load().cursor) == ("c-first", "c-second")
    second.reset()
    assert (first.load().cursor, second.load().cursor) == ("c-first", "")


@requirement("G10")
@pytest.mark.parametrize("breaks", ["write_text", "replace"])
def test_a_crash_at_any_step_of_saving_leaves_the_old_file_whole(
    breaks: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = CursorFile(tmp_path, "w", single=False)
    file.save(CursorState(cursor="old", held={"m": 1}))
    before = file.path.read_bytes()

    def crash(self: Path, *given: Any, **named: Any) -> None:
        if breaks == "write_text":
            os.close(os.open(self, os.O_CREAT | os.O_WRONLY))  # the file is there, and nothing in it
        raise OSError("crashed")

    monkeypatch.setattr(Path, breaks, crash)
    with pytest.raises(OSError, match="crashed"):
        file.save(CursorState(cursor="new"))
    monkeypatch.undo()

    assert file.path.read_bytes() == before
    file.save(CursorState(cursor="new"))
    assert file.load().cursor == "new"


@requirement("G14")
def test_a_leader_that_was_succeeded_cannot_write_over_its_successor(tmp_path: Path) -> None:
    old, new = CursorFile(tmp_path, "w", single=False), CursorFile(tmp_path, "w", single=False)
    old.save(CursorState(cursor="first", fence=1))
    new.save(CursorState(cursor="second", fence=2))
    with pytest.raises(LeaderFenced):
        old.save(CursorState(cursor="late", fence=1))
    assert new.load().cursor == "second"


@requirement("G14")
def test_notes_of_other_processes_are_taken_once_and_nonsense_is_left_out(tmp_path: Path) -> None:
    leader, other = CursorFile(tmp_path, "w", single=True), CursorFile(tmp_path, "w", single=True)
    assert leader.take_notes() == {}
    other.append_note("m-1", 1)
    other.append_note("m-2", 3)
    with (tmp_path / f"{CURSOR_FILE_NAME}_w.notes").open("a") as notes:
        notes.write("what is this\nx y\n")
    assert leader.take_notes() == {"m-1": 1, "m-2": 3}
    assert leader.take_notes() == {}
