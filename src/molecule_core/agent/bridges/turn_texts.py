"""What several drivers of session bridges share: texts for models and people, and the time of a stop."""

from msgspec.structs import replace

from molecule_core.agent.bridges.sessions import TurnEnd

CONFIRM_SECONDS = 0.7
"""Time in which a program can confirm that it has stopped a turn; then the turn counts as stopped, within a second."""

INTERRUPTED = (
    "Your last turn about the message below was interrupted. Check what is already done. Do not repeat it. "
    "Then finish the work and write the answer.\n\n"
)
"""Before a message that the model may have seen, in a session that still knows it."""
MEMORY_LOST = (
    "The earlier part of this conversation is lost, because your program could not load it. Ask for what you need "
    "to know.\n\n"
)
"""Before the first message of a session that replaces a lost one."""
LOST_LINE = "{program} could not load the session of this conversation; it goes on without its memory."
"""For people, in the status of the turn and before its answer."""


def mark_lost(end: TurnEnd, program: str) -> TurnEnd:
    """Return the end of the first turn after a lost session: its answer begins with a line that says so."""
    if end.kind != "answered" or not end.text:
        return end
    return replace(end, text=f"({LOST_LINE.format(program=program)})\n\n{end.text}")


def compose_text(text: str, *, is_interrupted: bool = False, is_memory_lost: bool = False) -> str:
    """Return a message with what the model must know about its session."""
    return f"{MEMORY_LOST if is_memory_lost else ''}{INTERRUPTED if is_interrupted else ''}{text}"
