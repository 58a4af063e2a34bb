"""Moves about what workspaces remember, and about the values that they keep under keys.

Above: playing.py. Below: sides.py.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from proofs.parity.moves import Move
from proofs.parity.sides import Side, shown

_WORDS = ("so", "course", "two lines", "more", "nobody")
_KEYS = ("plan", "plan/b", "größe")


async def _keep(side: Side, move: Move) -> str:
    given = {"content": move.task, "scope": move.how}
    given |= {"namespace": "notes"} if move.which % 3 == 0 else {}
    told = await side.does(move.who, "commit_memory", given)
    if not told.refused:
        side.kept.append((move.who, told.said["id"]))
    return shown(told, "scope", "namespace")


async def _recall(side: Side, move: Move) -> str:
    given: dict[str, Any] = {"query": _WORDS[move.which % len(_WORDS)]} if move.which % 2 else {}
    given |= {"scope": move.how} if move.which % 3 == 0 else {}
    given |= {"namespace": "notes"} if move.which % 5 == 0 else {}
    given |= {"limit": 2} if move.which % 7 == 0 else {}
    return _texts(await side.does(move.who, "recall_memory", given))


def _texts(told: Any) -> str:
    """What was found, without what a terminal cannot show."""
    names = ("scope", "namespace", "content")
    rows = [{name: str(row[name]).replace("\n", " ") for name in names} for row in told.said.get("memories", ())]
    return shown(told) if told.refused else str(rows)


async def _look(side: Side, move: Move) -> str:
    """The owner of the server looks what a workspace may recall."""
    given = {"q": _WORDS[move.which % len(_WORDS)]} if move.which % 2 else {"scope": move.how}
    return _texts(await side.does(move.who, "memories", given))


async def _forget(side: Side, move: Move) -> str:
    """The owner has something forgotten; now and then in the name of somebody who did not write it."""
    if not side.kept:
        return "nothing"
    who, memory_id = side.kept[move.which % len(side.kept)]
    who = move.who if move.which % 4 == 0 else who
    return shown(await side.does(who, "forget", {"memory_id": memory_id}), "status")


async def _put(side: Side, move: Move) -> str:
    given: dict[str, Any] = {"key": _KEYS[move.which % len(_KEYS)], "value": {"said": move.task, "no": move.which}}
    given |= {"ttl_seconds": 60} if move.which % 4 == 0 else {}
    given |= _matched(side, move, given["key"])
    told = await side.does(move.who, "put", given)
    if not told.refused:
        side.versions[move.who, given["key"]] = told.said["version"]
    return shown(told, "key", "version")


def _matched(side: Side, move: Move, key: str) -> dict[str, int]:
    """Half of the changes are good only for a version: mostly the one that is known, and else an older one."""
    known = side.versions.get((move.who, key), 0)
    return {"if_match_version": max(0, known - (move.which % 5 == 0))} if move.which % 2 else {}


async def _drop(side: Side, move: Move) -> str:
    key = _KEYS[move.which % len(_KEYS)]
    return shown(await side.does(move.who, "drop", {"key": key, **_matched(side, move, key)}), "status")


async def _keys(side: Side, move: Move) -> str:
    told = await side.does(move.who, "keys", {})
    rows = [{name: row[name] for name in ("key", "version", "value")} for row in told.said.get("keys", ())]
    return shown(told) if told.refused else str(rows)


MEMORIES: dict[str, Callable[[Side, Move], Awaitable[str]]] = {
    "keep": _keep,
    "recall": _recall,
    "look at memories": _look,
    "forget": _forget,
    "put": _put,
    "drop": _drop,
    "keys": _keys,
}
