"""Whether a thread learns that its prompt has changed."""

from types import SimpleNamespace
from typing import Any, cast

from molecule_core.agent.engines.prompt_drift import drift_note
from molecule_core.tools.host_context import DELEGATION_FAILED

OURS = SimpleNamespace(text=f"Be.\n\n{DELEGATION_FAILED}", sections=())


def note_for(base: str) -> Any:
    return drift_note(cast(Any, SimpleNamespace(base_instructions=base)), [], cast(Any, OURS))


def test_a_thread_of_an_older_version_learns_what_has_changed() -> None:
    note = note_for("Be.\n\n## When a delegation fails\n\n- Read the reason that you get.")
    assert note is not None and note[1].startswith("peers changed: ")


def test_base_instructions_that_are_no_prompt_of_ours_are_not_compared() -> None:
    assert note_for("Review the diff.") is None
    assert note_for(f"{DELEGATION_FAILED}\n\n## After that\n\nStop.") is None
    assert note_for(OURS.text) is None
