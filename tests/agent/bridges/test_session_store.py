"""What is remembered of conversations over a kill of the bridge."""

from pathlib import Path

from molecule_core.agent.bridges.session_store import SessionStore


def test_a_session_has_memory_from_its_first_answer_on_also_after_a_restart(tmp_path: Path) -> None:
    store = SessionStore(tmp_path, "w-1", "claude")
    store.set_session("person", "s-1")
    store.set_session("peer", "s-2")
    assert (store.has_memory("person"), store.has_memory("unknown")) == (False, False)

    store.mark_answered("person")
    again = SessionStore(tmp_path, "w-1", "claude")
    again.load()
    assert (again.has_memory("person"), again.has_memory("peer")) == (True, False)

    again.set_session("person", "s-3")
    assert (again.session_of("person"), again.has_memory("person")) == ("s-3", False)


def test_sessions_of_a_file_without_that_are_taken_for_answered(tmp_path: Path) -> None:
    store = SessionStore(tmp_path, "w-1", "claude")
    store.path.write_text('{"sessions": {"person": "s-1"}}')
    store.load()
    assert store.has_memory("person")
