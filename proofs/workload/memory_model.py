"""The model of memory: what agents put under keys and wrote down, and what a store must then hold.

Whoever writes over a value names the version that it has seen: so of all that was put under a key, each value but the
last was seen by who wrote the next. Above: keepers. Below: the book, a look into the store.
"""

import json
from collections import Counter
from typing import Any, NamedTuple

from msgspec import Struct

from proofs.harness.ledger import Ledger, read_tables
from proofs.harness.settings import Setting
from proofs.harness.verdicts import gaps
from proofs.workload.observations import Book

_TABLES = (
    "SELECT workspace_id, key, version, value FROM memory_keys",
    "SELECT workspace_id, last FROM memory_versions",
    "SELECT id, workspace_id, content FROM memories",
)
_WRITTEN, _FORGOTTEN = "MEMORY_WRITTEN", "MEMORY_FORGOTTEN"
NOT_THERE = 0
"""The version of a key that is not there."""
Place = tuple[str, str]
"""A workspace and one of its keys."""


class Put(NamedTuple):
    """A value that somebody began to put somewhere, over a version that it had seen."""

    place: Place
    named: int


class Sentence(Struct):
    """One memory as who wrote it knows it. `id`: of the first 2xx answer."""

    word: str
    workspace_id: str
    content: str
    id: str | None = None
    is_going: bool = False
    """Its writer has asked that it be forgotten."""
    is_gone: bool = False
    """And was told that it is."""


class Shelf(Struct):
    """What a store holds: (version, id of the value) by place, the last version of each workspace, and memories."""

    values: dict[Place, tuple[int, str]]
    last: dict[str, int]
    memories: list[tuple[str, str, str]]


class Kept:
    """Everything that was answered about memory; finds contradictions."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self.puts: dict[str, Put] = {}
        """By the id that stands in the value."""
        self.versions: dict[str, dict[int, str]] = {}
        """Workspace -> version -> the value that somebody was told, or read, under it."""
        self.removals: dict[tuple[Place, int], bool] = {}
        """What somebody began to remove; True: and was told that it is removed."""
        self.sentences: dict[str, Sentence] = {}
        """By their word."""

    # -- keys ----------------------------------------------------------------------------------------------------------

    def begin(self, value_id: str, place: Place, named: int) -> None:
        """Somebody is about to put a value."""
        self.puts[value_id] = Put(place, named)

    def saw(self, place: Place, version: int, value_id: str) -> None:
        """A version of a place was told to its writer, or read by anybody."""
        known = self.versions.setdefault(place[0], {})
        if known.setdefault(version, value_id) != value_id:
            self._book.fault("one version, two values", f"{place} {version}: {known[version]}, then {value_id}")
        if value_id not in self.puts or self.puts[value_id].place != place:
            self._book.fault("values that nobody put", f"{place} {version}: {value_id}")

    def newest(self, place: Place) -> int:
        """The highest version of a place that anybody knows."""
        return max((version for version, _ in self._known(place)), default=NOT_THERE)

    def read(self, place: Place, version: int, before: int) -> None:
        """Somebody read a version (or that nothing is there) who had asked when `before` was the newest known."""
        gone = any(where == place and removed >= before for where, removed in self.removals)
        if version < before and not (version == NOT_THERE and gone):
            self._book.fault("read behind what was accepted", f"{place}: {version}, and {before} was known")

    def _known(self, place: Place) -> list[tuple[int, str]]:
        """What was put there, in the order of the versions."""
        known = self.versions.get(place[0], {})
        return sorted((version, id_) for version, id_ in known.items() if self._place_of(id_) == place)

    def _place_of(self, value_id: str) -> Place | None:
        return self.puts[value_id].place if value_id in self.puts else None

    # -- memories ------------------------------------------------------------------------------------------------------

    def accept(self, sentence: Sentence, memory_id: str) -> None:
        """A memory was taken, for the first time or again."""
        if sentence.id is None:
            sentence.id = memory_id
        elif sentence.id != memory_id:
            self._book.fault("memories under two ids", f"{sentence.word}: {sentence.id}, then {memory_id}")

    def recalled(self, sentence: Sentence, rows: list[dict[str, Any]]) -> None:
        """Its writer has looked for the word of a memory that was taken, and got these."""
        found = [(row["id"], row["content"]) for row in rows]
        wanted = [] if sentence.is_gone else [(sentence.id, sentence.content)]
        if found != wanted:
            self._book.fault("recalled otherwise than written", f"{sentence.word}: {found}")

    # -- the judgement -------------------------------------------------------------------------------------------------

    def judge(self, shelf: Shelf, ledger: Ledger) -> dict[str, int]:
        """What keepers saw against what the store holds."""
        for place, (version, value_id) in shelf.values.items():
            self.saw(place, version, value_id)
        places = {put.place for put in self.puts.values()} | set(shelf.values)
        told = self._book.faults
        return {
            "values lost": sum(self._is_lost(place, shelf.values.get(place)) for place in places),
            "written over unseen": sum(self._unseen(place) for place in places),
            "one version, two values": told["one version, two values"],
            "values that nobody put": told["values that nobody put"],
            "read behind what was accepted": told["read behind what was accepted"],
            "versions missing": sum(self._missing(id_, shelf) for id_ in {id_ for id_, _ in places}),
            **self._judge_memories(shelf, ledger),
        }

    def _is_lost(self, place: Place, held: tuple[int, str] | None) -> bool:
        """Whether the store holds something else than the last value, or one that was removed."""
        known = self._known(place)
        if held is not None:
            return held not in known[-1:] or self.removals.get((place, held[0]), False)
        return bool(known) and (place, known[-1][0]) not in self.removals

    def _unseen(self, place: Place) -> int:
        """How many values were put over another one than their writer had seen."""
        count, before = 0, NOT_THERE
        for version, value_id in self._known(place):
            named = self.puts[value_id].named
            is_free = before == NOT_THERE or (place, before) in self.removals
            count += named != before and not (named == NOT_THERE and is_free)
            before = version
        return count

    def _missing(self, workspace_id: str, shelf: Shelf) -> int:
        versions = [*self.versions.get(workspace_id, {})]
        return gaps(versions) + (max(versions, default=NOT_THERE) != shelf.last.get(workspace_id, NOT_THERE))

    def _judge_memories(self, shelf: Shelf, ledger: Ledger) -> dict[str, int]:
        kept = {id_: (workspace_id, content) for id_, workspace_id, content in shelf.memories}
        words = Counter(content.partition(" ")[0] for _, content in kept.values())
        told = Counter((fact.entity_id, fact.name) for fact in ledger.facts if fact.entity_kind == "memory")
        sentences = [each for each in self.sentences.values() if each.id is not None]
        return {
            "memories missing": sum(
                kept.get(each.id or "") != (each.workspace_id, each.content) for each in sentences if not each.is_going
            ),
            "memories doubled": sum(count - 1 for count in words.values()),
            "memories that nobody wrote": len(set(words) - set(self.sentences)),
            "memories under two ids": self._book.faults["memories under two ids"],
            "forgotten and there": sum(each.is_gone and each.id in kept for each in sentences),
            "recalled otherwise than written": self._book.faults["recalled otherwise than written"],
            "memories without exactly one event": sum(
                (told[id_, _WRITTEN], told[id_, _FORGOTTEN]) != (1, int(id_ not in kept))
                for id_ in {id_ for id_, _ in told} | set(kept)
            ),
        }


async def read_shelf(setting: Setting) -> Shelf:
    """What a store that no server has holds of memory."""
    (keys, versions, memories), _ = await read_tables(setting, _TABLES)
    values = {(workspace, key): (version, json.loads(value)["id"]) for workspace, key, version, value in keys}
    return Shelf(values, dict(versions), memories)
