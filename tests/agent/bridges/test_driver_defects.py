"""A defect in the driver of one conversation ends neither the bridge nor the other conversations."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from molecule_core.agent.bridges.outbox import TurnOutcome
from molecule_core.agent.bridges.session_bridge import RunningTurn, SessionBridge
from molecule_core.agent.bridges.sessions import Turn, TurnEnd
from molecule_core.agent.bridges.settings import BridgeSettings
from tests.requirements import requirement


class Attempts:
    """Runs of one turn: the first ones raise, and then it is answered."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = list(errors)
        self.count = 0
        self.outcomes: list[TurnOutcome] = []

    def add_outcome(self, outcome: TurnOutcome) -> None:
        """Keep what is reported."""
        self.outcomes.append(outcome)

    async def drive(self, *_: object) -> TurnEnd:
        """Raise the next error, or answer."""
        if self._errors:
            raise self._errors.pop(0)
        return TurnEnd(kind="answered", text="done")

    def begin_turn(self, *_: object) -> Turn:
        """Begin the next run."""
        self.count += 1
        return Turn(
            activity_id="m-1",
            turn_id="t-1",
            run=self.count,
            conversation="person",
            session_id="",
            system_prompt="",
            text="hello",
            cwd=Path(),
            is_repeat=self.count > 1,
        )

    def count_tries(self, _: str) -> int:
        """Return how often it was begun."""
        return self.count


async def run_until_ended(attempts: Attempts, monkeypatch: pytest.MonkeyPatch) -> TurnEnd:
    """Run a turn in a bridge whose driver fails as the attempts say."""

    async def folder_of(_: str) -> Path:
        return Path()

    parts: Any = SimpleNamespace(
        inbox=None,
        outbox=attempts,
        store=None,
        driver=None,
        reporter=attempts,
        questions=SimpleNamespace(),
        approvals=None,
        toolbox=None,
        scopes=None,
        folders=SimpleNamespace(folder_of=folder_of),
        clock=None,
        settings=BridgeSettings(runs=3),
        limit=SimpleNamespace(),
    )
    bridge = SessionBridge(parts)
    monkeypatch.setattr(bridge, "_drive", attempts.drive)
    monkeypatch.setattr(bridge, "_begin_turn", attempts.begin_turn)
    entry: Any = SimpleNamespace(message=SimpleNamespace(text="hello"))
    live: Any = None
    return await bridge._run_until_ended(RunningTurn(entry, attempts.begin_turn(), {}, []), live)


@requirement("G17", "G20")
async def test_a_turn_in_which_the_driver_has_a_defect_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = Attempts(KeyError("peer"))
    assert (await run_until_ended(attempts, monkeypatch)).text == "done"
    assert [(each.kind, each.text) for each in attempts.outcomes] == [("interrupted", "the bridge failed: KeyError")]


@requirement("G17", "G20")
async def test_a_turn_that_fails_each_time_ends_as_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    end = await run_until_ended(Attempts(*(KeyError("peer") for _ in range(9))), monkeypatch)
    assert (end.kind, end.reason) == ("failed", "3 turns were started and none finished")


@requirement("G17")
async def test_a_full_disk_is_no_defect_of_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OSError, match="no space"):
        await run_until_ended(Attempts(OSError("no space")), monkeypatch)
