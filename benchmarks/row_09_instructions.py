"""Row 9: what it costs to tell an agent how to answer a message.

Measured is `Renderer.render` as a delivery calls it, with the templates that come with Molecule, for agents that have
all tools: the kinds of messages that come most, in the forms that are sent most, from many workspaces, each with a
handle and a due time of its own. `cached`: what stays the same from message to message is remembered. `uncached`: the
template is compiled, and everything else (tools, kind, form, conditions) is put together anew. Beside them: choosing
the version, building the facts, and a new card, which is the dearest of what is not remembered. Times are CPU, the
least of the rounds: a busy machine only ever adds.
"""

import time
from collections.abc import Callable, Sequence
from itertools import starmap
from typing import Any

from msgspec.structs import replace

from benchmarks.figures import Failed, Figure, Options, Say
from molecule_core.common.limits import Limits
from molecule_core.instructions.builtin_templates import builtin_catalogue
from molecule_core.instructions.model import AgentProfile, MessageContext, TemplateVersionRef, Verbosity
from molecule_core.instructions.render import Renderer
from molecule_core.wire.schemas.agent_cards import ALL_TOOL_NAMES

_MESSAGES, _FEW = 20_000, 4_000
_SEATS = 100
_RUNTIMES = ("claude-code", "codex", "generic-mcp")
_PEER = "0197f3a2-7c1e-7b10-8c3a-2f6d5a9b1e77"
# The CPU of one message over the full path, by row 1 on the machine that the table was made on.
_MESSAGE_US = 110.0

Told = tuple[AgentProfile, TemplateVersionRef, Verbosity, MessageContext]


def measure(options: Options, say: Say) -> list[Figure]:
    """The row's figures."""
    count = _FEW if options.quick else _MESSAGES
    renderer = Renderer(builtin_catalogue(), public_url="http://127.0.0.1:8080", limits=Limits())
    messages = {form: _messages(renderer, form, count) for form in (Verbosity.COMPACT, Verbosity.FULL)}
    costs: dict[str, list[float]] = {}
    for number in range(options.rounds + 1):
        for name, cost in _round(renderer, messages).items():
            if number:
                costs.setdefault(name, []).append(cost)
        if number:
            say(f"  round {number}: {', '.join(f'{name} {each[-1]:.2f} us' for name, each in costs.items())}")
    least = {name: min(each) for name, each in costs.items()}
    beside = f"full {least['full']:.2f}; choosing the version {least['choose']:.2f}, the facts {least['facts']:.2f}"
    anew = f"full {least['full anew']:.1f}, the first message after a new card {least['new card']:.1f}"
    share = 100 * least["compact"] / _MESSAGE_US
    return [
        Figure(row=9, name="instructions, cached", value=least["compact"], unit="us", must=1, beside=beside),
        Figure(row=9, name="instructions, rendered", value=least["compact anew"], unit="us", must=10, beside=anew),
        Figure(row=9, name="of a message's CPU", value=share, unit="%", must=2, beside=f"of {_MESSAGE_US:.0f} us"),
    ]


def _messages(renderer: Renderer, form: Verbosity, count: int) -> list[Told]:
    seats = [
        AgentProfile(f"workspace-{number}", "org", _RUNTIMES[number % 3], None, ALL_TOOL_NAMES, has_tool_list=True)
        for number in range(_SEATS)
    ]
    made = []
    for number in range(count):
        seat = seats[number % _SEATS]
        made.append((seat, renderer.choose_version(seat, "", number), form, _facts(number)))
    return made


def _facts(number: int) -> MessageContext:
    user = number % 2 == 0
    return MessageContext(
        kind="canvas_user" if user else "peer_agent",
        intent="request",
        peer_id="" if user else _PEER,
        peer_name="" if user else "Research",
        workspace_id="workspace",
        reply_handle=f"m{number}-k3f9q",
        user_id=_PEER if user else "",
        due_at="2026-01-01T12:02:00.000000Z",
    )


def _round(renderer: Renderer, messages: dict[Verbosity, list[Told]]) -> dict[str, float]:
    render = renderer.render
    compact, full = messages[Verbosity.COMPACT], messages[Verbosity.FULL]
    return {
        "compact": _each(compact, render),
        "full": _each(full, render),
        "choose": _each([(seat, "activity", 7) for seat, *_ in compact], renderer.choose_version),
        "facts": _each([(number,) for number in range(len(compact))], _facts),
        "compact anew": _each(compact, renderer.render_uncached),
        "full anew": _each(full, renderer.render_uncached),
        "new card": _each(_new_cards(renderer, full[: len(full) // 10]), render),
    }


def _new_cards(renderer: Renderer, messages: Sequence[Told]) -> list[Told]:
    """The same messages to agents each of which has a card like no other; no card is remembered from before."""
    renderer.clear_caches()
    for told in messages[:_SEATS]:
        renderer.render(*told)
    return [
        (replace(seat, tools=(*seat.tools, f"tool_{number}")), choice, form, facts)
        for number, (seat, choice, form, facts) in enumerate(messages)
    ]


def _each(things: Sequence[tuple[Any, ...]], work: Callable[..., object]) -> float:
    start = time.process_time()
    for made in starmap(work, things):
        if made is None:
            raise Failed("a template could not be rendered")
    return (time.process_time() - start) / len(things) * 1e6
