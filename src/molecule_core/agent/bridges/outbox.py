"""Stores outcomes of turns on disk until the server has them.

So a kill neither loses a final text nor repeats a finished turn. One small file per workspace, replaced as a whole and
flushed to disk before anything that depends on it. It contains what agents wrote and is readable by its owner only.
"""

import os
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

# Messages whose turns are counted, and unreported usage; beyond this the oldest, interrupted and never delivered again,
# are dropped.
_MAX_TURNS = 1000
OutcomeKind = Literal["said", "failed", "interrupted", "stopped"]


class TurnOutcome(Struct, frozen=True, kw_only=True):
    """Outcome of a turn.

    `text`: the final text, or why it failed. `run`: number of the turn of this message. `tried`: the server may have it
    already. An interrupted turn is repeated, so it is reported but its message is not acknowledged. A stopped turn
    declines its message by `handle`. `usage`: what the turn used, by name; `usage_key`: key of its
    report, empty if there is none. `tools`: its calls, by tool. `covers`: ids
    of other messages that the text answers too.
    """

    activity_id: str
    kind: OutcomeKind
    run: int
    text: str = ""
    attempt: int = 0
    request: bool = True
    seconds: float = 0
    tried: bool = False
    handle: str = ""
    usage: dict[str, float] = {}
    usage_key: str = ""
    tools: dict[str, int] = {}
    covers: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, OutcomeKind, int]:
        """Return what identifies the outcome among those of the outbox."""
        return (self.activity_id, self.kind, self.run)


class UnreportedUsage(Struct, frozen=True, kw_only=True):
    """What a turn used, until the server has it.

    `key`: of this try of the turn alone. `cost_micros`: millionths of a US dollar; None if the program does not report
    it. `at`: end of the turn, in microseconds."""

    key: str
    activity_id: str
    model: str
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    cost_micros: int | None
    at: int


class TurnCounter(Struct):
    """Turns of one message: the last one begun, and the last one whose outcome is known.

    `withdrawn`: how many of them could not run.
    """

    begun: int = 0
    ended: int = 0
    withdrawn: int = 0


class OutboxState(Struct):
    """Content of the file.

    `turns`: by message, until it is done. `finished`: by message, how often it was done: more than once if an operator
    delivered it again. `usage`: of turns, until the server has it.
    """

    turns: dict[str, TurnCounter] = field(default_factory=dict)
    outcomes: list[TurnOutcome] = field(default_factory=list)
    finished: dict[str, int] = field(default_factory=dict)
    usage: list[UnreportedUsage] = field(default_factory=list)


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
            raise DamagedOutboxError(
                f"{self.path} cannot be read ({error}); move the file away to start with an empty one"
            ) from None
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

    @property
    def usage_reports(self) -> list[UnreportedUsage]:
        """Return the usage to report, oldest first."""
        return list(self._state.usage)

    def add_usage(self, report: UnreportedUsage) -> None:
        """Add what a turn used. Raises OSError."""
        self._state.usage = [*self._state.usage, report][-_MAX_TURNS:]
        self._save()

    def remove_usage(self, report: UnreportedUsage) -> None:
        """Remove usage that the server has. Raises OSError."""
        self._state.usage = [each for each in self._state.usage if each.key != report.key]
        self._save()

    def is_done(self, activity_id: str) -> bool:
        """Return whether a turn of the message has finished."""
        return any(each.activity_id == activity_id and each.kind != "interrupted" for each in self._state.outcomes)

    def begin_turn(self, activity_id: str) -> int:
        """Begin a turn; return its number among the message's turns. Raises OSError."""
        turns = self._state.turns.pop(activity_id, None) or TurnCounter()
        turns.begun += 1
        self._state.turns[activity_id] = turns
        _drop_oldest(self._state.turns)
        self._save()
        return turns.begun

    def count_finished(self, activity_id: str) -> int:
        """Return how often the message was done before."""
        return self._state.finished.get(activity_id, 0)

    def count_tries(self, activity_id: str) -> int:
        """Return how many turns of the message were begun, without those that could not run."""
        turns = self._state.turns.get(activity_id) or TurnCounter()
        return turns.begun - turns.withdrawn

    def withdraw_turn(self, activity_id: str) -> None:
        """Record that the last turn could not run: it has no outcome and counts as no try. Raises OSError."""
        if (turns := self._state.turns.get(activity_id)) is not None:
            turns.ended, turns.withdrawn = turns.begun, turns.withdrawn + 1
            self._save()

    def add_outcome(self, outcome: TurnOutcome) -> None:
        """Add the outcome of a turn. Raises OSError."""
        self._state.outcomes.append(outcome)
        if (turns := self._state.turns.get(outcome.activity_id)) is not None:
            turns.ended = outcome.run
        self._save()

    def mark_tried(self, outcome: TurnOutcome) -> None:
        """Mark an outcome that the server may have from now on. Raises OSError."""
        self._state.outcomes = [
            replace(each, tried=True) if each.key == outcome.key else each for each in self._state.outcomes
        ]
        self._save()

    def clear_usage(self, outcome: TurnOutcome) -> None:
        """Forget usage and calls of an outcome, which the server has. Raises OSError."""
        self._state.outcomes = [
            replace(each, usage={}, tools={}) if each.key == outcome.key else each for each in self._state.outcomes
        ]
        self._save()

    def remove_outcome(self, outcome: TurnOutcome) -> None:
        """Remove an outcome that the server has. Raises OSError."""
        self._state.outcomes = [each for each in self._state.outcomes if each.key != outcome.key]
        if outcome.kind != "interrupted":
            self._state.turns.pop(outcome.activity_id, None)
            self._state.finished[outcome.activity_id] = self._state.finished.pop(outcome.activity_id, 0) + 1
            _drop_oldest(self._state.finished)
        self._save()

    def _save(self) -> None:
        save_durably(self.path, msgspec.json.encode(self._state))


def save_durably(path: Path, content: bytes) -> None:
    """Replace a file that only its owner reads, and flush it to disk. Raises OSError."""
    temporary = path.with_name(f"{path.name}.tmp")
    handle = os.open(temporary, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _drop_oldest(by_message: dict[str, Any]) -> None:
    """Drop the oldest messages beyond the number that is kept."""
    while len(by_message) > _MAX_TURNS:
        del by_message[next(iter(by_message))]
