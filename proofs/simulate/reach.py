"""Cells of the state tables that no game has to reach, and why. Every other one a full run reaches, or fails."""

from collections.abc import Iterable

_ENDED = ("completed", "failed", "cancelled")
_OPEN = ("pending", "dispatched", "queued", "unknown_after_send")
_EVERY = (*_OPEN, *_ENDED)
_STANDS = ("pending_init", "running", "interrupted", "completed", "errored", "shutdown")


def left_out() -> set[str]:
    """Cells that no game can reach, or none plays."""
    return {cell for cells, _ in _LEFT_OUT for cell in cells}


def rare() -> set[str]:
    """Cells that some games reach: two things have to meet for that, and no run has to bring them together."""
    return {cell for cells, _ in _RARE for cell in cells}


def _cells(table: str, facts: Iterable[str], statuses: Iterable[str]) -> list[str]:
    every = list(statuses)
    return [f"{table}: {fact} / {status}" for fact in facts for status in every]


_LEFT_OUT: tuple[tuple[list[str], str], ...] = (
    (_cells("delegation", ("target_gone",), _EVERY), "no game removes a seat"),
    (
        _cells("delegation", ("stored",), (*_ENDED, "queued", "unknown_after_send"))
        + _cells("delegation", ("parked",), (*_ENDED, "dispatched", "queued", "unknown_after_send")),
        "the fact comes with the command that begins a delegation, and never later",
    ),
    (
        _cells(
            "delegation",
            (
                "accepted",
                "answered",
                "busy",
                "claimed",
                "declined",
                "gave_up",
                "progress",
                "retry",
                "returned",
                "unsure",
            ),
            ("pending",),
        ),
        "pending passes within the command that begins a delegation; only what is recorded stays so, and nobody hears "
        "of that but who recorded it",
    ),
    (
        _cells("delegation", ("reported_done", "reported_failed"), ("dispatched", "queued", "unknown_after_send")),
        "only what was recorded is reported, and that stays pending until it ends",
    ),
    (
        _cells("delegation", ("claimed", "progress", "returned", "declined"), ("dispatched", "unknown_after_send")),
        "who fetches its mail has its delegations queued; what is pushed is neither claimed nor declined by hand",
    ),
    (_cells("delegation", ("expired", "unsure_too_long"), _ENDED), "what has ended has no timer"),
    (
        _cells("delegation", ("unsure_too_long",), ("pending", "dispatched", "queued")),
        "only who is unsure is so too long",
    ),
    (_cells("delegation", ("progress", "returned"), _ENDED), "the edge answers for what has ended, and asks no table"),
    (
        _cells("thread", ("turn ended (completed)", "turn ended (failed)"), (s for s in _STANDS if s != "running")),
        "only a turn that runs is ended by its engine",
    ),
    (
        _cells("thread", ("turn ended (interrupted)",), ("interrupted", "completed", "errored", "shutdown"))
        + _cells("thread", ("turn started",), ("interrupted", "completed", "errored", "shutdown")),
        "where a turn waits or runs, the thread is pending or running",
    ),
    (
        _cells("thread", ("closed",), ("pending_init", "running", "shutdown")),
        "closing ends all turns first, and what is closed is not closed again",
    ),
    (_cells("thread", ("turn accepted",), ("shutdown",)), "a closed thread takes nothing"),
    (
        _cells("thread", ("user message",), (s for s in _STANDS if s != "running")),
        "words of the user come into a log with the turn that runs",
    ),
)
_RARE: tuple[tuple[list[str], str], ...] = (
    (
        _cells("delegation", ("busy", "claimed", "gave_up", "retry", "sent", "unsure", "accepted", "declined"), _ENDED)
        + _cells("delegation", ("answered", "reported_done", "reported_failed"), ("cancelled", "completed")),
        "an end and what comes too late have to meet within one push or one claim",
    ),
    (
        _cells(
            "delegation",
            ("accepted", "answered", "busy", "gave_up", "retry", "sent", "unsure", "cancelled"),
            ("unknown_after_send",),
        )
        + _cells("delegation", ("cancelled",), ("dispatched",))
        + _cells("delegation", ("unsure",), ("queued",)),
        "a second thing has to happen to one of the few whose push got no answer",
    ),
    (
        _cells("thread", ("call",), ("completed", "errored")) + _cells("thread", ("resumed",), ("errored",)),
        "an engine that has lost its thread, or one who resumes it, has to meet that very end",
    ),
)
