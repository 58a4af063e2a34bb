"""Decides what an engine does next in a turn. Pure: model context and counters in, one step out.

Each step is decided anew from the server's model context, so a turn that another process began continues seamlessly.
"""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from molecule_core.agent.engines.settings import Budget
from molecule_core.wire.schemas.thread_log import TurnOutcome
from molecule_core.wire.schemas.threads import ModelContext, ModelContextItem


class TokenUsage(Struct, frozen=True):
    """Tokens used by this turn, by the thread and by its tree, including this turn."""

    turn: int = 0
    thread: int = 0
    tree: int = 0

    def add_tokens(self, tokens: int) -> "TokenUsage":
        """Return the usage with `tokens` added."""
        return TokenUsage(self.turn + tokens, self.thread + tokens, self.tree + tokens)


class TurnState(Struct, frozen=True, kw_only=True):
    """State of a turn in this process.

    `samplings`: number in this process. `seen_ordinal`: last ordinal shown in the latest one. `is_compacted`: since
    then. `is_silent`: it returned nothing. `stop`: why the server accepts no more for the turn. `failure`: why it
    cannot continue.
    """

    turn_id: str
    trigger: str = "user"
    samplings: int = 0
    seen_ordinal: int = 0
    is_compacted: bool = False
    is_silent: bool = False
    stop: str | None = None
    failure: str | None = None
    spent: TokenUsage = TokenUsage()


class TurnLimits(Struct, frozen=True):
    """Limits from the configuration."""

    budget: Budget
    samplings: int
    compact_at_tokens: int


class RunToolsStep(Struct, frozen=True):
    """Step that runs tool calls whose outputs are missing."""

    calls: tuple[ModelContextItem, ...]


class AbandonStep(Struct, frozen=True):
    """Step that appends the reason as output of calls that are not run."""

    calls: tuple[ModelContextItem, ...]
    reason: str


class CompactStep(Struct, frozen=True):
    """Step that summarizes the conversation so far."""

    kind: Literal["manual", "automatic"]


class SampleStep(Struct, frozen=True):
    """Step that samples the model."""


class EndStep(Struct, frozen=True):
    """End of the turn."""

    status: TurnOutcome
    final: str | None = None
    error: str | None = None


_INPUT_ROLES = ("user", "peer")
_COMPACTION = "compaction"
TurnStep = RunToolsStep | AbandonStep | CompactStep | SampleStep | EndStep
_END_BY_STOP = {
    "interrupted": EndStep("interrupted"),
    "closed": EndStep("interrupted", error="the thread was closed"),
    "budget": EndStep("failed", error="the budget of this thread is used up"),
}


def next_step(turn: TurnState, context: ModelContext, limits: TurnLimits) -> TurnStep:
    """Return the next step."""
    if turn.stop is not None:
        return end_for_stop(turn.stop)
    calls = unanswered_calls(context.items)
    if calls:
        return _step_for_calls(turn, calls)
    return _end_if_done(turn, context, limits) or _sampling_step(turn, context, limits)


def end_for_stop(reason: str) -> EndStep:
    """Return how a turn ends for which the server accepts no more."""
    return _END_BY_STOP.get(reason, EndStep("interrupted", error=reason))


def _step_for_calls(turn: TurnState, calls: tuple[ModelContextItem, ...]) -> RunToolsStep | AbandonStep:
    """Run calls, or abandon those of an ended or failed turn."""
    past = tuple(each for each in calls if each.turn_id not in (None, turn.turn_id))
    if past:
        return AbandonStep(past, "not run or not completed: its turn was stopped")
    return (
        RunToolsStep(calls) if turn.failure is None else AbandonStep(calls, "not run or not completed: its turn failed")
    )


def _end_if_done(turn: TurnState, context: ModelContext, limits: TurnLimits) -> EndStep | None:
    """Return the end of the turn, if it is reached."""
    if turn.failure is not None:
        return EndStep("failed", error=turn.failure)
    if turn.trigger == "compact":
        return EndStep("completed") if turn.is_compacted else None
    final = final_text(turn, context.items)
    if (turn.is_silent or final is not None) and not has_unseen_input(turn, context.items):
        return EndStep("completed", final=final)
    reason = _limit_reached(turn, limits)
    return None if reason is None else EndStep("failed", error=reason)


def _sampling_step(turn: TurnState, context: ModelContext, limits: TurnLimits) -> CompactStep | SampleStep:
    if turn.trigger == "compact":
        return CompactStep("manual")
    maximum = limits.compact_at_tokens
    return CompactStep("automatic") if maximum and context.tokens >= maximum and not turn.is_compacted else SampleStep()


def unanswered_calls(items: Sequence[ModelContextItem]) -> tuple[ModelContextItem, ...]:
    """Return tool calls without an output."""
    answered = {each.call_id for each in items if each.role == "tool"}
    return tuple(each for each in items if is_tool_call(each) and each.call_id not in answered)


def is_tool_call(item: ModelContextItem) -> bool:
    """Return whether an item is a tool call."""
    return item.role == "assistant" and item.tool is not None


def final_text(turn: TurnState, items: Sequence[ModelContextItem]) -> str | None:
    """Return the model's last text in this turn, if only platform notes came after it."""
    passed = ("reasoning", _COMPACTION)
    last = next((each for each in reversed(items) if each.role != "developer" and each.type not in passed), None)
    if last is None or last.role != "assistant" or is_tool_call(last):
        return None
    is_own = last.turn_id == turn.turn_id if last.turn_id is not None else turn.samplings > 0
    return last.text if is_own else None


def has_unseen_input(turn: TurnState, items: Sequence[ModelContextItem]) -> bool:
    """Return whether there is input that the model has not been shown, since it arrived during an answer.

    After a restart this is unknown for input directly before the last answer; it counts as not shown, except what the
    turn began with.
    """
    own = [
        each for each in items if each.turn_id == turn.turn_id and each.role != "developer" and each.type != _COMPACTION
    ]
    if turn.samplings:
        return any(each.ordinal > turn.seen_ordinal for each in own if each.role in _INPUT_ROLES)
    before = own[:-1]
    while before and before[-1].role in _INPUT_ROLES:
        before.pop()
    return bool(before) and before != own[:-1]


def _limit_reached(turn: TurnState, limits: TurnLimits) -> str | None:
    if turn.samplings >= limits.samplings:
        return f"the model was called {turn.samplings} times in this turn and did not finish"
    budget = limits.budget
    for name, spent, maximum in (
        ("turn", turn.spent.turn, budget.turn),
        ("thread", turn.spent.thread, budget.thread),
        ("tree", turn.spent.tree, budget.tree),
    ):
        if maximum is not None and spent >= maximum:
            return f"the budget is used up: {spent} of {maximum} tokens of the {name}"
    return None
