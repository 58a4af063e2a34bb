"""Random operations on keys of memory, each compared with a model of a few lines."""

from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from molecule_core.common.clock import SECOND
from molecule_core.common.errors import MemoryQuotaExceeded, NotFound, VersionMismatch
from molecule_core.memory.model import KeyValue
from testing.machines.memory_store import World

MOST, BATCH = 3, 2
STEPS_A_STORY = 30
KEYS = ["a", "b", "a/b", "ä", "z z"]


class KeyMachine(RuleBasedStateMachine):
    """The keys of two workspaces of one organisation."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        org_id = world.org()
        self.seats = [world.seat(org_id) for _ in range(2)]
        self.kept: list[dict[str, KeyValue]] = [{}, {}]
        self.last = [0, 0]

    which = st.integers(0, 1)
    keys = st.sampled_from(KEYS)

    def live(self, which: int) -> dict[str, KeyValue]:
        """What is there now."""
        now = self.world.clock.now()
        return {key: each for key, each in self.kept[which].items() if each.expires_at is None or each.expires_at > now}

    @rule(
        which=which,
        key=keys,
        value=st.sampled_from([None, 1, "x", [1, {"a": "é"}]]),
        ttl=st.sampled_from([None, None, 1, 5]),
        match=st.sampled_from(["none", "none", "current", "absent", "older", "newer"]),
    )
    def put(self, which: int, key: str, value: Any, ttl: int | None, match: str) -> None:
        """Somebody puts a value, perhaps believing something about the key."""
        live = self.live(which)
        current = live[key].version if key in live else 0
        versions = {"none": None, "current": current, "absent": 0, "older": max(0, current - 1), "newer": current + 1}
        expected, text = versions[match], msgspec.json.encode(value).decode()
        found = self.world.refusal_or(
            self.world.keys.set_value(self.seats[which], key, text, ttl_seconds=ttl, if_match_version=expected)
        )
        if expected is not None and expected != current:
            assert found is VersionMismatch
        elif key not in live and len(live) >= MOST:
            assert found is MemoryQuotaExceeded
        else:
            self.last[which] += 1
            now = self.world.clock.now()
            entry = KeyValue(key, text, self.last[which], None if ttl is None else now + ttl * SECOND, now)
            assert found == entry
            self.kept[which][key] = entry

    @rule(which=which, key=keys, match=st.sampled_from([None, "current", "older"]))
    def forget(self, which: int, key: str, match: str | None) -> None:
        """Somebody removes a key."""
        live = self.live(which)
        current = live[key].version if key in live else 0
        expected = {None: None, "current": current, "older": current - 1}[match]
        found = self.world.refusal_or(self.world.keys.delete_value(self.seats[which], key, if_match_version=expected))
        if key not in live:
            assert found is NotFound
        elif expected not in (None, current):
            assert found is VersionMismatch
        else:
            assert found is None
            del self.kept[which][key]

    @rule(seconds=st.sampled_from([1, 2, 6]))
    def wait(self, seconds: int) -> None:
        """Time passes."""
        self.world.clock.at += seconds * SECOND

    @rule(which=which)
    def on_due(self, which: int) -> None:
        """The timer of a workspace rings, perhaps too early, and again at once while more is over than goes at a time:
        what is over is gone from the table, and nothing else."""
        for _ in range(-(-MOST // BATCH)):
            self.world.run(self.world.keys.delete_expired(self.seats[which]))
        self.kept[which] = self.live(which)
        wish = {"workspace_id": self.seats[which], "after": "", "count": 100}
        rows = self.world.run(self.world.store.rows("keys_of_workspace", wish))
        assert {row[0] for row in rows} == set(self.kept[which])

    @invariant()
    def the_store_says_what_the_model_says(self) -> None:
        """Every key alone, all together and page by page; and a timer that is not later than the first end."""
        timers = {row[1]: row[2] for row in self.world.run(self.world.store.rows("next_timers", {"count": 10_000}))}
        for which, seat in enumerate(self.seats):
            live = self.live(which)
            for key in KEYS:
                assert self.world.refusal_or(self.world.entries.get_value(seat, key)) == live.get(key, NotFound)
            listed = [live[key] for key in sorted(live)]
            assert self.world.run(self.world.entries.list_values(seat, "", 100)) == listed
            if listed:
                assert self.world.run(self.world.entries.list_values(seat, listed[0].key, 1)) == listed[1:2]
            ends = [each.expires_at for each in self.kept[which].values() if each.expires_at is not None]
            assert not ends or timers[seat] <= min(ends)
