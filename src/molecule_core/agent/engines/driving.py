"""Drives the turns of one agent's threads: claims, begins, samples, runs tools, ends.

What is done next is decided by `turning`, from what the server says that the model sees. Nothing is shown to a model
that is not in the log; nothing is done that the log does not say before. Above: running. Below: everything else here.
"""

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from msgspec.structs import replace

from molecule_core.agent.engines import words
from molecule_core.agent.engines.changed import note_due
from molecule_core.agent.engines.leave import Gate, edited_note
from molecule_core.agent.engines.log import Log, Refused, Stopped
from molecule_core.agent.engines.models import ModelError, NoModel, Request
from molecule_core.agent.engines.opening import Opener
from molecule_core.agent.engines.patience import Patience
from molecule_core.agent.engines.permitting import ORIGIN as TOOLS
from molecule_core.agent.engines.permitting import BadPermissions, Permissions, fewer, permissions_of
from molecule_core.agent.engines.sampling import Answer, Sampler
from molecule_core.agent.engines.settings import RunConfig
from molecule_core.agent.engines.tooling import Call, Done, Toolbox
from molecule_core.agent.engines.turning import (
    Bounds,
    Compact,
    End,
    GiveUp,
    Run,
    Sample,
    Spent,
    Turn,
    next_step,
    request_of,
    stopped,
)
from molecule_core.agent.neutral import line
from molecule_core.agent.prompt import Prompt
from molecule_core.client.api import ApiError, NoAnswer
from molecule_core.client.threads import Thread, Threads
from molecule_core.ground.ids import Ids
from molecule_core.wire.threads import OpenTurn, Sight, SightItem

_log = logging.getLogger("molecule.engine")
ASKS = "request_approval"
STALE, OWNED = "stale_generation", "thread_owned"
_OTHERS = (STALE, OWNED)
_TOO_LONG = ". The thread does not fit into this model: set compact_at_tokens to less than it takes"


class Hands(NamedTuple):
    """What drivers work with."""

    threads: Threads
    opener: Opener
    sampler: Sampler
    toolbox: Toolbox
    gate: Gate
    patience: Patience
    ids: Ids
    config: RunConfig


class Driver:
    """Drives threads. `prompt`: the agent's prompt as it is now; `ended`: told of each turn that has ended here."""

    def __init__(
        self, hands: Hands, owner: str, *, prompt: Callable[[], Prompt | None], ended: Callable[[str, End], None]
    ) -> None:
        self._hands = hands
        self._owner = owner
        self._prompt = prompt
        self._ended = ended
        config = hands.config
        self._bounds = Bounds(config.budget, config.samplings, config.compact_at_tokens)

    async def drive(self, thread_id: str) -> None:
        """The open turn of a thread, to its end. Returns soon if the thread is somebody else's, or rests."""
        hands = self._hands
        try:
            claim = await hands.patience.answer(lambda: hands.threads.claim(thread_id, self._owner))
            try:
                if claim.open_turn is not None:
                    await self._turn(thread_id, claim.generation, claim.open_turn)
            finally:
                await hands.patience.farewell(self._release(thread_id, claim.generation))
        except ApiError as error:
            told = _log.info if error.code in _OTHERS else _log.warning
            told("thread %s is not driven here any more: %s", thread_id, line(str(error), 300))

    async def _release(self, thread_id: str, generation: int) -> None:
        try:
            await self._hands.threads.release(thread_id, generation)
        except NoAnswer as error:
            _log.info("thread %s stays claimed until its lease ends: %s", thread_id, line(str(error), 300))

    async def _turn(self, thread_id: str, generation: int, open_turn: OpenTurn) -> None:
        hands, turn_id = self._hands, open_turn.turn_id
        log = Log(
            hands.threads,
            thread_id,
            turn_id,
            generation,
            patience=hands.patience,
            ids=hands.ids,
            beat_seconds=hands.config.beat_seconds,
        )
        stop = await hands.patience.answer(lambda: hands.threads.begin(thread_id, turn_id, generation))
        if stop is not None:  # the server has ended it
            self._ended(turn_id, stopped(stop))
            return
        thread = await hands.patience.answer(lambda: hands.threads.get(thread_id))
        before = await _spent_before(log) if open_turn.status == "running" else 0
        spent = Spent(before, thread.tokens_used, thread.tree_tokens_used or 0)
        turn = Turn(turn_id=turn_id, trigger=open_turn.trigger, spent=spent)
        life = _Life(hands, log, thread)
        await life.tell(self._prompt())
        end, seen = await life.run(turn, self._bounds)
        await log.end(end.status, final=end.final, error=end.error, seen=seen)
        self._ended(turn_id, end)


async def _spent_before(log: Log) -> int:
    """The tokens that earlier lives have spent in this turn."""
    costs = [each.entry for each in await log.lines() if each.turn_id == log.turn_id and each.type == "usage"]
    return sum(int(each["input"]) + int(each["output"]) for each in costs)


def _refused(error: Refused) -> str:
    return f"the server does not take what was to be kept of this turn: {error}"


class _Life:
    """One life of a turn, in this process. `_ours`: the calls of tools that this life has appended."""

    def __init__(self, hands: Hands, log: Log, thread: Thread) -> None:
        self._hands = hands
        self._log = log
        self._thread = thread
        self._ours: set[str] = set()
        given = hands.toolbox.names if thread.tools is None else thread.tools
        mine = [each for each in hands.toolbox.names if each in given]
        self._broken: str | None = None
        try:
            permitted = permissions_of(thread.permissions)
        except BadPermissions as error:
            permitted, self._broken = Permissions(allow=[]), str(error)
        self._tools = permitted.within(mine)
        self._rules = permitted.rules

    async def tell(self, prompt: Prompt | None) -> None:
        """What the model must know beside what was said: how messages come to it here, and what has become different
        of the prompt that its thread was born with, and which of its tools it has not. Each is told once, as long as it
        is in sight."""
        items = (await self._log.sight()).items
        due = [] if prompt is None else [note_due(self._thread, items, prompt)]
        if not any(words.LAYER in each.text for each in items):
            due.insert(0, (words.ORIGIN, words.LAYER))
        few = fewer(self._tools, self._hands.toolbox.names)
        told = next((each.origin for each in reversed(items) if each.origin.startswith(TOOLS)), None)
        if few is not None and few[0] != told:
            due.append(few)
        notes = [{"type": "context_note", "text": each[1], "origin": each[0]} for each in due if each is not None]
        if notes:
            try:
                await self._log.append(*notes)
            except Refused as error:
                self._broken = _refused(error)

    async def run(self, turn: Turn, bounds: Bounds) -> tuple[End, int]:
        """Step by step until the end; how it ends, and up to where the log was regarded. Raises ApiError."""
        turn = replace(turn, broken=self._broken)
        while True:
            sight = await self._log.sight()
            turn = replace(turn, stop=self._log.stop)
            step = next_step(turn, sight, bounds)
            try:
                match step:
                    case End():
                        return step, sight.last_ordinal
                    case GiveUp():
                        for each in step.calls:
                            await self._output(each, Done(step.why, True))
                    case Run():
                        await self._run(step.calls)
                    case Compact():
                        turn = await self._compact(turn, sight, step)
                    case Sample():
                        turn = await self._sample(turn, sight)
            except ModelError as error:
                turn = replace(turn, broken=f"{error.text}{_TOO_LONG if error.too_long else ''}")
            except NoModel as error:
                turn = replace(turn, broken=str(error))
            except Refused as error:
                if turn.broken is not None:  # what was left open is the server's to close
                    return End("failed", error=turn.broken), sight.last_ordinal
                turn = replace(turn, broken=_refused(error))
            except Stopped:
                continue

    # -- asking the model ----------------------------------------------------------------------------------------------

    async def _sample(self, turn: Turn, sight: Sight) -> Turn:
        self._log.seen = sight.last_ordinal
        answer = await self._asked(sight, may_call=True)
        entries = self._hands.sampler.entries(answer, sight)
        self._ours |= {each["call_id"] for each in entries if each["type"] == "tool_call"}
        await self._answered(*entries)
        return replace(
            turn,
            samplings=turn.samplings + 1,
            seen=sight.last_ordinal,
            compacted=False,
            silent=not answer.text and not answer.calls,
            spent=turn.spent.plus(answer.tokens),
        )

    async def _answered(self, *entries: dict[str, Any]) -> None:
        """Appends an answer. The last of it is what it has cost: that counts even if nothing else is taken."""
        try:
            await self._log.append(*entries)
        except Refused:
            await self._log.append(entries[-1])
            raise

    async def _asked(self, sight: Sight, *, may_call: bool) -> Answer:
        hands, thread = self._hands, self._thread
        model, name = hands.opener.open(thread.model or hands.config.model)
        request = Request(
            model=name,
            items=sight.items,
            tools=hands.toolbox.definitions(self._tools),
            effort=thread.effort or hands.config.effort,
            cache_key=sight.items[0].item_id if sight.items else "",
            may_call=may_call,
        )
        return await self._log.during(hands.sampler.sample(model, request))

    async def _compact(self, turn: Turn, sight: Sight, step: Compact) -> Turn:
        last = sight.items[-1] if sight.items else None
        if last is None or last.origin != words.COMPACT_ORIGIN:
            await self._log.append({"type": "context_note", "text": words.COMPACT, "origin": words.COMPACT_ORIGIN})
            sight = await self._log.sight()
        answer = await self._asked(sight, may_call=False)
        if not answer.text.strip():
            return replace(turn, broken="the model gave no summary of the conversation, which is too long without")
        asked = [each.text for each in request_of(turn, sight.items)] if step.kind == "automatic" else []
        summary = words.summary_of(answer.text, asked)
        entry = {"type": "compaction", "summary": summary, "kind": step.kind, "upto": sight.last_ordinal}
        await self._answered(entry, self._hands.sampler.usage(answer))
        return replace(turn, compacted=True, spent=turn.spent.plus(answer.tokens))

    # -- tools ---------------------------------------------------------------------------------------------------------

    async def _run(self, calls: tuple[SightItem, ...]) -> None:
        """One after the other, each output appended before the next begins; a stop leaves the rest to be given up."""
        for each in calls:
            try:
                done = await self._log.during(self._done(each))
            except Stopped:
                done = Done(words.STOPPED, True)
            await self._output(each, done)
            if self._log.stop is not None:
                return

    async def _done(self, item: SightItem) -> Done:
        """What a call gives. One of an earlier life is run again only if that cannot do it twice."""
        hands = self._hands
        call = Call(self._thread.thread_id, item.call_id or "", item.tool or "", item.arguments)
        again = call.call_id not in self._ours
        if again and not hands.toolbox.repeatable(call.tool):
            return Done(words.INTERRUPTED, True)
        allowed = await hands.gate.passes(call, again=again, waits=self._waits, more=self._rules)
        if isinstance(allowed, Done):
            return allowed
        if call.tool == ASKS:
            await self._waits(True)
        try:
            done = await hands.toolbox.run(allowed, self._tools)
        finally:
            if call.tool == ASKS:
                await self._waits(False)
        return Done(edited_note(call, allowed) + done.text, done.is_error)

    async def _waits(self, does: bool) -> None:
        """Says in the log whether the thread waits for an approval: who is above it sees that too."""
        said = self._log.append({"type": "status", "flags": ["waiting_on_approval"] if does else []})
        await self._hands.patience.farewell(said)

    async def _output(self, item: SightItem, done: Done) -> None:
        await self._log.append(
            {"type": "tool_output", "call_id": item.call_id, "text": done.text, "is_error": done.is_error}
        )
