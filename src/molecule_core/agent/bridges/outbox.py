"""What turns ended with, on the disk until the server knows it: so a kill at any moment neither loses a final text nor
has a message worked on again that was done.

One small file a workspace, replaced as a whole and flushed to the disk before anything that depends on it. It holds
what agents said, and is readable for its owner alone.

Above: command. Below: the disk.
"""

import os
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

# Messages whose turns are counted: of those that were interrupted and never came again, the oldest are forgotten.
_MAX_TURNS = 1000
OutcomeKind = Literal["said", "failed", "interrupted"]


class TurnOutcome(Struct, frozen=True, kw_only=True):
    """How the turn of a message ended. `text`: what it said, or why it failed; `run`: the how manyth turn it was;
    `tried`: the server may know it already. An interrupted turn comes again, so it is told and not acknowledged."""

    activity_id: str
    kind: OutcomeKind
    run: int
    text: str = ""
    attempt: int = 0
    request: bool = True
    seconds: float = 0
    tried: bool = False


class TurnCounter(Struct):
    """The turns of one message: the last one that was begun, and the last one whose end is known."""

    begun: int = 0
    ended: int = 0


class OutboxState(Struct):
    """What stands in the file. `turns`: by message, until it is done with."""

    turns: dict[str, TurnCounter] = field(default_factory=dict)
    outcomes: list[TurnOutcome] = field(default_factory=list)


class DamagedOutboxError(Exception):
    """The file cannot be read; the text says what to do."""


class Outbox:
    """The outbox of one workspace; whoever leads that seat writes it."""

    def __init__(self, folder: Path, workspace_id: str) -> None:
        self.path = folder / f".bridge_outbox_{workspace_id}"
        self._state = OutboxState()

    def load(self) -> None:
        """What the last life left: turns that it began and did not end were interrupted. Raises DamagedOutbox."""
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
        """All that is to be told, oldest first."""
        return list(self._state.outcomes)

    def is_done(self, activity_id: str) -> bool:
        """Whether a message was worked on to its end."""
        return any(each.activity_id == activity_id and each.kind != "interrupted" for each in self._state.outcomes)

    def begin_turn(self, activity_id: str) -> int:
        """A turn begins; the how manyth of its message. Raises OSError."""
        turns = self._state.turns.pop(activity_id, None) or TurnCounter()
        turns.begun += 1
        self._state.turns[activity_id] = turns
        while len(self._state.turns) > _MAX_TURNS:
            del self._state.turns[next(iter(self._state.turns))]
        self._save()
        return turns.begun

    def add_outcome(self, outcome: TurnOutcome) -> None:
        """A turn has ended. Raises OSError."""
        self._state.outcomes.append(outcome)
        if (turns := self._state.turns.get(outcome.activity_id)) is not None:
            turns.ended = outcome.run
        self._save()

    def mark_tried(self, outcome: TurnOutcome) -> None:
        """From now on the server may know it. Raises OSError."""
        self._state.outcomes = [replace(each, tried=True) if each == outcome else each for each in self._state.outcomes]
        self._save()

    def remove_outcome(self, outcome: TurnOutcome) -> None:
        """The server knows it. Raises OSError."""
        same = (outcome.activity_id, outcome.kind, outcome.run)
        self._state.outcomes = [
            each for each in self._state.outcomes if (each.activity_id, each.kind, each.run) != same
        ]
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
