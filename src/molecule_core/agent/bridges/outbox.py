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
_MOST_TURNS = 1000
Kind = Literal["said", "failed", "interrupted"]


class Outcome(Struct, frozen=True, kw_only=True):
    """How the turn of a message ended. `text`: what it said, or why it failed; `run`: the how manyth turn it was;
    `tried`: the server may know it already. An interrupted turn comes again, so it is told and not acknowledged."""

    activity_id: str
    kind: Kind
    run: int
    text: str = ""
    attempt: int = 0
    request: bool = True
    seconds: float = 0
    tried: bool = False


class Turns(Struct):
    """The turns of one message: the last one that was begun, and the last one whose end is known."""

    begun: int = 0
    ended: int = 0


class Kept(Struct):
    """What stands in the file. `turns`: by message, until it is done with."""

    turns: dict[str, Turns] = field(default_factory=dict)
    outcomes: list[Outcome] = field(default_factory=list)


class DamagedOutbox(Exception):
    """The file cannot be read; the text says what to do."""


class Outbox:
    """The outbox of one workspace; whoever leads that seat writes it."""

    def __init__(self, folder: Path, workspace_id: str) -> None:
        self.path = folder / f".bridge_outbox_{workspace_id}"
        self._kept = Kept()

    def load(self) -> None:
        """What the last life left: turns that it began and did not end were interrupted. Raises DamagedOutbox."""
        try:
            self._kept = msgspec.json.decode(self.path.read_bytes(), type=Kept)
        except FileNotFoundError:
            return
        except (OSError, msgspec.DecodeError) as error:
            raise DamagedOutbox(f"{self.path} cannot be read ({error}); move it away to begin anew") from None
        for activity_id, turns in list(self._kept.turns.items()):
            if turns.ended < turns.begun:
                self.put(
                    Outcome(activity_id=activity_id, kind="interrupted", run=turns.begun, text="the bridge was killed")
                )

    @property
    def outcomes(self) -> list[Outcome]:
        """All that is to be told, oldest first."""
        return list(self._kept.outcomes)

    def is_done(self, activity_id: str) -> bool:
        """Whether a message was worked on to its end."""
        return any(each.activity_id == activity_id and each.kind != "interrupted" for each in self._kept.outcomes)

    def begin(self, activity_id: str) -> int:
        """A turn begins; the how manyth of its message. Raises OSError."""
        turns = self._kept.turns.pop(activity_id, None) or Turns()
        turns.begun += 1
        self._kept.turns[activity_id] = turns
        while len(self._kept.turns) > _MOST_TURNS:
            del self._kept.turns[next(iter(self._kept.turns))]
        self._save()
        return turns.begun

    def put(self, outcome: Outcome) -> None:
        """A turn has ended. Raises OSError."""
        self._kept.outcomes.append(outcome)
        if (turns := self._kept.turns.get(outcome.activity_id)) is not None:
            turns.ended = outcome.run
        self._save()

    def trying(self, outcome: Outcome) -> None:
        """From now on the server may know it. Raises OSError."""
        self._kept.outcomes = [replace(each, tried=True) if each == outcome else each for each in self._kept.outcomes]
        self._save()

    def told(self, outcome: Outcome) -> None:
        """The server knows it. Raises OSError."""
        same = (outcome.activity_id, outcome.kind, outcome.run)
        self._kept.outcomes = [each for each in self._kept.outcomes if (each.activity_id, each.kind, each.run) != same]
        if outcome.kind != "interrupted":
            self._kept.turns.pop(outcome.activity_id, None)
        self._save()

    def _save(self) -> None:
        fresh = self.path.with_name(f"{self.path.name}.tmp")
        handle = os.open(fresh, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(msgspec.json.encode(self._kept))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self.path)
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
