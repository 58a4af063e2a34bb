"""What an engine does next in a turn. Pure: the sight of the thread and a few figures in, one step out.

Everything is decided anew after each append, from what the server says that the model sees: so a turn that another
life has begun goes on as if nothing had happened. Above: driving. Below: the shapes of threads.
"""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from molecule_core.agent.engines.settings import Budget
from molecule_core.wire.schemas.threads import ModelContext, ModelContextItem

TurnEndStatus = Literal["completed", "failed", "interrupted"]


class TokenUsage(Struct, frozen=True):
    """Tokens: of this turn, of the thread and of its tree, this turn included."""

    turn: int = 0
    thread: int = 0
    tree: int = 0

    def add_tokens(self, tokens: int) -> "TokenUsage":
        """The same and some more."""
        return TokenUsage(self.turn + tokens, self.thread + tokens, self.tree + tokens)


class TurnState(Struct, frozen=True, kw_only=True):
    """How a turn stands. `samplings`: of this life; `seen`: up to where the last of them showed the log; `compacted`:
    since then; `silent`: it gave nothing at all; `stop`: why the server takes no more for the turn; `broken`: why it
    cannot go on."""

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
    """What the configuration allows."""

    budget: Budget
    samplings: int
    compact_at_tokens: int


class RunToolsStep(Struct, frozen=True):
    """Calls of tools whose outputs are missing: run them."""

    calls: tuple[ModelContextItem, ...]


class AbandonStep(Struct, frozen=True):
    """Calls that are not run any more: tell so in their outputs."""

    calls: tuple[ModelContextItem, ...]
    reason: str


class CompactStep(Struct, frozen=True):
    """Summarise what was said so far."""

    kind: Literal["manual", "automatic"]


class SampleStep(Struct, frozen=True):
    """Ask the model."""


class EndStep(Struct, frozen=True):
    """The turn is over."""

    status: TurnEndStatus
    final: str | None = None
    error: str | None = None


_INPUT_ROLES = ("user", "peer")
TurnStep = RunToolsStep | AbandonStep | CompactStep | SampleStep | EndStep
_END_BY_STOP = {
    "interrupted": EndStep("interrupted"),
    "closed": EndStep("interrupted", error="the thread was closed"),
    "budget": EndStep("failed", error="the budget of this thread is used up"),
}


def next_step(turn: TurnState, context: ModelContext, limits: TurnLimits) -> TurnStep:
    """The step that comes next."""
    if turn.stop is not None:
        return end_for_stop(turn.stop)
    calls = unanswered_calls(context.items)
    if calls:
        return _step_for_calls(turn, calls)
    return _end_if_done(turn, context, limits) or _sampling_step(turn, context, limits)


def end_for_stop(reason: str) -> EndStep:
    """How a turn ends that the server takes no more for."""
    return _END_BY_STOP.get(reason, EndStep("interrupted", error=reason))


def _step_for_calls(turn: TurnState, calls: tuple[ModelContextItem, ...]) -> RunToolsStep | AbandonStep:
    """What becomes of calls: those of a turn that is over are not run, and those of a broken one neither."""
    past = tuple(each for each in calls if each.turn_id not in (None, turn.turn_id))
    if past:
        return AbandonStep(past, "not run, or not to its end: its turn was stopped")
    return (
        RunToolsStep(calls)
        if turn.failure is None
        else AbandonStep(calls, "not run, or not to its end: its turn failed")
    )


def _end_if_done(turn: TurnState, context: ModelContext, limits: TurnLimits) -> EndStep | None:
    """The end, if it has come."""
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
    """Calls of tools that have no output."""
    answered = {each.call_id for each in items if each.role == "tool"}
    return tuple(each for each in items if is_tool_call(each) and each.call_id not in answered)


def is_tool_call(item: ModelContextItem) -> bool:
    """Whether an item is a call of a tool."""
    return item.role == "assistant" and item.tool is not None


def final_text(turn: TurnState, items: Sequence[ModelContextItem]) -> str | None:
    """What the model has said at last in this turn, if nothing came after it; notes of the platform do not count."""
    last = next((each for each in reversed(items) if each.role != "developer" and each.type != "reasoning"), None)
    if last is None or last.role != "assistant" or is_tool_call(last):
        return None
    own = last.turn_id == turn.turn_id if last.turn_id is not None else turn.samplings > 0
    return last.text if own else None


def has_unseen_input(turn: TurnState, items: Sequence[ModelContextItem]) -> bool:
    """Whether something was said to the model that it has not been shown: it came while the model answered. After a
    restart that is not known of what stands right before the last words; then it counts as not shown, except what the
    turn began with."""
    own = [each for each in items if each.turn_id == turn.turn_id and each.role != "developer"]
    if turn.samplings:
        return any(each.ordinal > turn.seen_ordinal for each in own if each.role in _INPUT_ROLES)
    before = own[:-1]
    while before and before[-1].role in _INPUT_ROLES:
        before.pop()
    return bool(before) and before != own[:-1]


def _limit_reached(turn: TurnState, limits: TurnLimits) -> str | None:
    if turn.samplings >= limits.samplings:
        return f"the model was asked {turn.samplings} times in this turn and has not come to an end"
    budget = limits.budget
    for name, spent, maximum in (
        ("turn", turn.spent.turn, budget.turn),
        ("thread", turn.spent.thread, budget.thread),
        ("tree", turn.spent.tree, budget.tree),
    ):
        if maximum is not None and spent >= maximum:
            return f"the budget is used up: {spent} of {maximum} tokens of the {name}"
    return None


def turn_request(turn: TurnState, items: Sequence[ModelContextItem]) -> list[ModelContextItem]:
    """What this turn is about: what it was asked with. Of items that do not say their turn, the last ones asked."""
    inputs = [each for each in items if each.role in _INPUT_ROLES]
    own = [each for each in inputs if each.turn_id == turn.turn_id]
    return own or inputs[-1:]
