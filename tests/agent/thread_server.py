"""One thread in memory, for the loop of a turn alone: what an engine asks a server, answered from a list.

It keeps what the loop relies on (order, keys, fences, a turn that others end), and decides nothing else; the journeys
speak to a real server.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from molecule_core.agent.engines import texts
from molecule_core.client.api import ApiError, NoAnswerError
from molecule_core.client.threads import AppendResult, EngineThread, RawLogEntry
from molecule_core.wire.schemas.prompts import estimate_tokens
from molecule_core.wire.schemas.thread_log import TurnTrigger
from molecule_core.wire.schemas.threads import ModelContext, ModelContextItem, OpenTurn, ThreadClaim

BASE = "You are Ops."
_MOST_ENTRIES = 100
_ROLES = {
    "base": "developer",
    "layer": "developer",
    "user_message": "user",
    "peer_message": "peer",
    "agent_message": "assistant",
    "reasoning": "assistant",
    "tool_call": "assistant",
    "tool_output": "tool",
    "context_note": "developer",
    "compaction": "assistant",
}


class StandIn:
    """A `client.threads.Threads` of one thread. `lines`: its log."""

    def __init__(self) -> None:
        self.lines: list[RawLogEntry] = []
        self.generation = 0
        self.turn: OpenTurn | None = None
        self.ended: list[dict[str, Any]] = []
        self.lose = 0
        """So many answers get lost on the way back."""
        self.base = BASE
        self.tools: list[str] | None = None
        self.permissions: dict[str, Any] | None = None
        self.away = False
        """It answers nothing that an engine tells it."""
        self.full = False
        """Nothing that is to be appended is taken."""
        self.spent = False
        """The budget of the thread is used up: no turn begins."""
        self._keys: set[str] = set()
        self.write("base", None, {"text": BASE})
        self.write("layer", None, {"text": texts.ENGINE_INSTRUCTIONS})

    def say(self, text: str, turn_id: str = "t1", trigger: TurnTrigger = "user") -> None:
        """A turn is accepted and begun."""
        self.turn = OpenTurn(turn_id=turn_id, trigger=trigger, status="accepted")
        if text:
            self.write("user_message", turn_id, {"text": text})

    def steer(self, text: str) -> None:
        """Somebody says something meanwhile."""
        assert self.turn is not None
        self.write("user_message", self.turn.turn_id, {"text": text})

    def end_turn_now(self) -> None:
        """Somebody ends the turn."""
        self.turn = None

    async def interrupt(self, thread_id: str) -> None:
        self.turn = None

    def types(self) -> list[str]:
        """The log in short, without what it begins with."""
        return [each.type for each in self.lines[2:]]

    def write(self, kind: str, turn_id: str | None, entry: dict[str, Any]) -> None:
        """A line comes into the log, from wherever."""
        self.lines.append(RawLogEntry(ordinal=len(self.lines) + 1, type=kind, turn_id=turn_id, entry=entry))

    def _check(self, generation: int) -> None:
        if generation != self.generation:
            raise ApiError(409, {"code": "stale_generation", "error": "stale"})

    def _check_entries(self, entries: Sequence[dict[str, Any]]) -> None:
        """What a server refuses whoever sends it."""
        if self.full and entries:
            raise ApiError(413, {"error": "the body is too large"})
        if len(entries) > _MOST_ENTRIES:
            raise ApiError(422, {"error": f"at most {_MOST_ENTRIES} entries are taken at once"})
        if b"\\u0000" in msgspec.json.encode(entries):
            raise ApiError(400, {"error": "the body holds NUL"})

    # -- what an engine asks -------------------------------------------------------------------------------------------

    async def claim(self, thread_id: str, owner: str) -> ThreadClaim:
        self.generation += 1
        return ThreadClaim(thread_id, self.generation, "", self.turn)

    async def release(self, thread_id: str, generation: int) -> None:
        if self.away:  # as on a network that swallows everything
            await asyncio.get_running_loop().create_future()
        self._check(generation)

    async def begin_turn(self, thread_id: str, turn_id: str, generation: int) -> str | None:
        self._check(generation)
        if self.spent:  # the server ends the turn by itself
            self.turn = None
            return "budget"
        if self.turn is not None:
            self.turn = msgspec.structs.replace(self.turn, status="running")
        return None

    async def get(self, thread_id: str) -> EngineThread:
        return EngineThread(
            thread_id=thread_id, base_instructions=self.base, tools=self.tools, permissions=self.permissions
        )

    async def list_entries(self, thread_id: str, *, after: int = 0, limit: int = 200) -> list[RawLogEntry]:
        return self.lines[after : after + limit]

    async def append_entries(
        self,
        thread_id: str,
        turn_id: str,
        generation: int,
        entries: Sequence[dict[str, Any]],
        *,
        key: str,
        seen: int | None = None,
    ) -> AppendResult:
        if self.away:
            raise NoAnswerError("away")
        self._check(generation)
        self._check_entries(entries)
        stop = None if self.turn is not None and self.turn.turn_id == turn_id else "interrupted"
        if key not in self._keys and stop is None:
            self._keys.add(key)
            for each in entries:
                self.write(each["type"], turn_id, {name: value for name, value in each.items() if name != "type"})
        if entries and self.lose:
            self.lose -= 1
            raise NoAnswerError("lost")
        return AppendResult(len(self.lines), stop)

    async def end_turn(self, thread_id: str, turn_id: str, generation: int, **how: Any) -> None:
        self._check(generation)
        if self.turn is not None and self.turn.turn_id == turn_id:
            self.ended.append(how)
            self.turn = None

    async def get_model_context(self, thread_id: str) -> ModelContext:
        shown = [each for each in self.lines if each.type in _ROLES]
        last = next((each for each in reversed(shown) if each.type == "compaction"), None)
        if last is not None:
            upto, later = last.entry["upto"], [each for each in shown[2:] if each.type != "compaction"]
            asked = [each for each in later if each.turn_id == last.turn_id and each.type.endswith("_message")]
            open_input = [each for each in asked if each.ordinal <= upto and each.type != "agent_message"]
            shown = [*shown[:2], last, *open_input, *(each for each in later if each.ordinal > upto)]
        items = [_item(each) for each in shown]
        return ModelContext(items, sum(each.tokens for each in items), len(self.lines))


def _item(line: RawLogEntry) -> ModelContextItem:
    said = line.entry
    text = str(said.get("text", said.get("summary", "")))
    known = {name: said[name] for name in ("call_id", "tool", "arguments", "is_error", "data") if name in said}
    return ModelContextItem(
        item_id=f"i{line.ordinal}",
        role=_ROLES[line.type],  # type: ignore[arg-type]
        text=text,
        type=line.type,
        origin=str(said.get("origin", "")),
        tokens=estimate_tokens(len(text.encode())),
        ordinal=line.ordinal,
        turn_id=line.turn_id,
        **known,
    )
