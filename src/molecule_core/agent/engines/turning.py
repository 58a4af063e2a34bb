"""What an engine does next in a turn. Pure: the sight of the thread and a few figures in, one step out.

Everything is decided anew after each append, from what the server says that the model sees: so a turn that another
life has begun goes on as if nothing had happened. Above: driving. Below: the shapes of threads.
"""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from molecule_core.agent.engines.settings import Budget
from molecule_core.wire.threads import Sight, SightItem

Status = Literal["completed", "failed", "interrupted"]


class Spent(Struct, frozen=True):
    """Tokens: of this turn, of the thread and of its tree, this turn included."""

    turn: int = 0
    thread: int = 0
    tree: int = 0

    def plus(self, tokens: int) -> "Spent":
        """The same and some more."""
        return Spent(self.turn + tokens, self.thread + tokens, self.tree + tokens)


class Turn(Struct, frozen=True, kw_only=True):
    """How a turn stands. `samplings`: of this life; `seen`: up to where the last of them showed the log; `compacted`:
    since then; `silent`: it gave nothing at all; `stop`: why the server takes no more for the turn; `broken`: why it
    cannot go on."""

    turn_id: str
    trigger: str = "user"
    samplings: int = 0
    seen: int = 0
    compacted: bool = False
    silent: bool = False
    stop: str | None = None
    broken: str | None = None
    spent: Spent = Spent()


class Bounds(Struct, frozen=True):
    """What the configuration allows."""

    budget: Budget
    samplings: int
    compact_at_tokens: int


class Run(Struct, frozen=True):
    """Calls of tools whose outputs are missing: run them."""

    calls: tuple[SightItem, ...]


class GiveUp(Struct, frozen=True):
    """Calls that are not run any more: tell so in their outputs."""

    calls: tuple[SightItem, ...]
    why: str


class Compact(Struct, frozen=True):
    """Summarise what was said so far."""

    kind: Literal["manual", "automatic"]


class Sample(Struct, frozen=True):
    """Ask the model."""


class End(Struct, frozen=True):
    """The turn is over."""

    status: Status
    final: str | None = None
    error: str | None = None


_ASKING = ("user", "peer")
Step = Run | GiveUp | Compact | Sample | End
_STOPPED = {
    "interrupted": End("interrupted"),
    "closed": End("interrupted", error="the thread was closed"),
    "budget": End("failed", error="the budget of this thread is used up"),
}


def next_step(turn: Turn, sight: Sight, bounds: Bounds) -> Step:
    """The step that comes next."""
    if turn.stop is not None:
        return stopped(turn.stop)
    calls = unanswered(sight.items)
    if calls:
        return _about(turn, calls)
    return _end(turn, sight, bounds) or _asking(turn, sight, bounds)


def stopped(why: str) -> End:
    """How a turn ends that the server takes no more for."""
    return _STOPPED.get(why, End("interrupted", error=why))


def _about(turn: Turn, calls: tuple[SightItem, ...]) -> Run | GiveUp:
    """What becomes of calls: those of a turn that is over are not run, and those of a broken one neither."""
    past = tuple(each for each in calls if each.turn_id not in (None, turn.turn_id))
    if past:
        return GiveUp(past, "not run, or not to its end: its turn was stopped")
    return Run(calls) if turn.broken is None else GiveUp(calls, "not run, or not to its end: its turn failed")


def _end(turn: Turn, sight: Sight, bounds: Bounds) -> End | None:
    """The end, if it has come."""
    if turn.broken is not None:
        return End("failed", error=turn.broken)
    if turn.trigger == "compact":
        return End("completed") if turn.compacted else None
    final = spoken(turn, sight.items)
    if (turn.silent or final is not None) and not unheard(turn, sight.items):
        return End("completed", final=final)
    why = _used_up(turn, bounds)
    return None if why is None else End("failed", error=why)


def _asking(turn: Turn, sight: Sight, bounds: Bounds) -> Compact | Sample:
    if turn.trigger == "compact":
        return Compact("manual")
    most = bounds.compact_at_tokens
    return Compact("automatic") if most and sight.tokens >= most and not turn.compacted else Sample()


def unanswered(items: Sequence[SightItem]) -> tuple[SightItem, ...]:
    """Calls of tools that have no output."""
    answered = {each.call_id for each in items if each.role == "tool"}
    return tuple(each for each in items if is_call(each) and each.call_id not in answered)


def is_call(item: SightItem) -> bool:
    """Whether an item is a call of a tool."""
    return item.role == "assistant" and item.tool is not None


def spoken(turn: Turn, items: Sequence[SightItem]) -> str | None:
    """What the model has said at last in this turn, if nothing came after it; notes of the platform do not count."""
    last = next((each for each in reversed(items) if each.role != "developer" and each.type != "reasoning"), None)
    if last is None or last.role != "assistant" or is_call(last):
        return None
    own = last.turn_id == turn.turn_id if last.turn_id is not None else turn.samplings > 0
    return last.text if own else None


def unheard(turn: Turn, items: Sequence[SightItem]) -> bool:
    """Whether something was said to the model that it has not been shown: it came while the model answered. After a
    restart that is not known of what stands right before the last words; then it counts as not shown, except what the
    turn began with."""
    own = [each for each in items if each.turn_id == turn.turn_id and each.role != "developer"]
    if turn.samplings:
        return any(each.ordinal > turn.seen for each in own if each.role in _ASKING)
    before = own[:-1]
    while before and before[-1].role in _ASKING:
        before.pop()
    return bool(before) and before != own[:-1]


def _used_up(turn: Turn, bounds: Bounds) -> str | None:
    if turn.samplings >= bounds.samplings:
        return f"the model was asked {turn.samplings} times in this turn and has not come to an end"
    budget = bounds.budget
    for name, spent, most in (
        ("turn", turn.spent.turn, budget.turn),
        ("thread", turn.spent.thread, budget.thread),
        ("tree", turn.spent.tree, budget.tree),
    ):
        if most is not None and spent >= most:
            return f"the budget is used up: {spent} of {most} tokens of the {name}"
    return None


def request_of(turn: Turn, items: Sequence[SightItem]) -> list[SightItem]:
    """What this turn is about: what it was asked with. Of items that do not say their turn, the last ones asked."""
    asked = [each for each in items if each.role in _ASKING]
    own = [each for each in asked if each.turn_id == turn.turn_id]
    return own or asked[-1:]
