"""Stores outcomes of turns on disk until the server has them.

So a kill neither loses a final text nor repeats a finished turn. One small file per workspace, replaced as a whole and
flushed to disk before anything that depends on it. It contains what agents wrote and is readable by its owner only.
"""

import os
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

# Messages whose turns are counted; beyond this the oldest, interrupted and never delivered again, are dropped.
_MAX_TURNS = 1000
OutcomeKind = Literal["said", "failed", "interrupted"]


class TurnOutcome(Struct, frozen=True, kw_only=True):
    """Outcome of a turn.

    `text`: the final text, or why it failed. `run`: number of the turn of this message. `tried`: the server may have it
    already. An interrupted turn is repeated, so it is reported but its message is not acknowledged.
    """

    activity_id: str
    kind: OutcomeKind
    run: int
    text: str = ""
    attempt: int = 0
    request: bool = True
    seconds: float = 0
    tried: bool = False


class TurnCounter(Struct):
    """Turns of one message: the last one begun, and the last one whose outcome is known."""

    begun: int = 0
    ended: int = 0


class OutboxState(Struct):
    """Content of the file. `turns`: by message, until it is done."""

    turns: dict[str, TurnCounter] = field(default_factory=dict)
    outcomes: list[TurnOutcome] = field(default_factory=list)


class DamagedOutboxError(Exception):
    """The file cannot be read; the text says what to do."""


class Outbox:
    """Outbox of one workspace, written by the workspace's leader."""

    def __init__(self, folder: Path, workspace_id: str) -> None:
        self.path = folder / f".bridge_outbox_{workspace_id}"
        self._state = OutboxState()

    def load(self) -> None:
        """Load the file; turns that the last process did not end become interrupted. Raises DamagedOutboxError."""
        try:
            self._state = msgspec.json.decode(self.path.read_bytes(), type=OutboxState)
        except FileNotFoundError:
            return
        except (OSError, msgspec.DecodeError) as error:
            raise DamagedOutboxError(f"{self.path} cannot be read ({error}); move it away to begin anew") from None
        for activity_id, turns in list(self._state.turns.items()):
            if turns.ended < turns.begun:
                self.add_outcome(
                    TurnOutcome(
                        activity_id=activity_id, kind="interrupted", run=turns.begun, text="the bridge was killed"
                    )
                )

    @property
    def outcomes(self) -> list[TurnOutcome]:
        """Return all outcomes to report, oldest first."""
        return list(self._state.outcomes)

    def is_done(self, activity_id: str) -> bool:
        """Return whether a turn of the message has finished."""
        return any(each.activity_id == activity_id and each.kind != "interrupted" for each in self._state.outcomes)

    def begin_turn(self, activity_id: str) -> int:
        """Begin a turn; return its number among the message's turns. Raises OSError."""
        turns = self._state.turns.pop(activity_id, None) or TurnCounter()
        turns.begun += 1
        self._state.turns[activity_id] = turns
        while len(self._state.turns) > _MAX_TURNS:
            del self._state.turns[next(iter(self._state.turns))]
        self._save()
        return turns.begun

    def add_outcome(self, outcome: TurnOutcome) -> None:
        """Add the outcome of a turn. Raises OSError."""
        self._state.outcomes.append(outcome)
        if (turns := self._state.turns.get(outcome.activity_id)) is not None:
            turns.ended = outcome.run
        self._save()

    def mark_tried(self, outcome: TurnOutcome) -> None:
        """Mark an outcome that the server may have from now on. Raises OSError."""
        self._state.outcomes = [replace(each, tried=True) if each == outcome else each for each in self._state.outcomes]
        self._save()

    def remove_outcome(self, outcome: TurnOutcome) -> None:
        """Remove an outcome that the server has. Raises OSError."""
        key = (outcome.activity_id, outcome.kind, outcome.run)
        self._state.outcomes = [each for each in self._state.outcomes if (each.activity_id, each.kind, each.run) != key]
        if outcome.kind != "interrupted":
            self._state.turns.pop(outcome.activity_id, None)
        self._save()

    def _save(self) -> None:
        temporary = self.path.with_name(f"{self.path.name}.tmp")
        handle = os.open(temporary, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(msgspec.json.encode(self._state))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.path)
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
