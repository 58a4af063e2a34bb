"""Reads of live turns."""

from molecule_core.live_turns.turn_store import TurnStore


class LiveTurnReader:
    """Read access to live turns."""

    def __init__(self, turns: TurnStore) -> None:
        self.versions = turns.versions
        self.load = turns.load
        self.of_workspace = turns.of_workspace
