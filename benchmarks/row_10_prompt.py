"""Row 10: what it costs to put a prompt with 1,000 peers together.

`one changed`: a peer says something else of itself, and the whole text of the new prompt is made. `cold`: everything
from the gathered inputs, the cleaning of all that peers say included. Both in the form that costs most, with a budget
that all skill lines fit into; beside them the default budget, under which a thousand peers are only partly named, and
what the hash of a new prompt adds. Each peer has a description and three skills. Times are CPU, the least of the
rounds: a busy machine only ever adds.
"""

import time
from collections.abc import Callable

from benchmarks.figures import Failed, Figure, Options, Say
from molecule_core.agent.prompt.assembly import PromptAssembler, PromptInputs
from molecule_core.agent.prompt.home import DEFAULT_BUDGET_TOKENS, Home, HomeFile
from molecule_core.agent.prompt.peers import PromptPeer

_PEERS, _CHANGES, _FEW = 1000, 400, 100
_ROOMY = 1_000_000


def measure(options: Options, say: Say) -> list[Figure]:
    """The row's figures."""
    changes = _FEW if options.quick else _CHANGES
    costs: dict[str, list[float]] = {}
    for number in range(options.rounds + 1):
        for name, cost in _round(changes).items():
            if number:
                costs.setdefault(name, []).append(cost)
        if number:
            say(f"  round {number}: {', '.join(f'{name} {each[-1]:.0f} us' for name, each in costs.items())}")
    least = {name: min(each) for name, each in costs.items()}
    one = f"with the default budget {least['one, default']:.0f}; its hash {least['hash']:.0f} more"
    cold = f"with the default budget {least['cold, default'] / 1000:.2f}"
    return [
        Figure(row=10, name="prompt, one of 1,000 peers changed", value=least["one"], unit="us", must=50, beside=one),
        Figure(
            row=10, name="prompt with 1,000 peers, cold", value=least["cold"] / 1000, unit="ms", must=2, beside=cold
        ),
    ]


def _inputs(budget: int) -> PromptInputs:
    peers = tuple(
        _peer(number, "Looks things up in papers and on the web, and writes short reports with sources.")
        for number in range(_PEERS)
    )
    own = HomeFile("system-prompt.md", "You are a developer PM. You coordinate a team.\n" * 20)
    return PromptInputs(home=Home(prompts=(own,), budget=budget), workspace_id="own", peers=peers)


def _peer(number: int, description: str) -> PromptPeer:
    skills = tuple(f"skill {each}: does thing number {each} with great care and some tools" for each in range(3))
    return PromptPeer(f"0197f3a2-7c1e-7b10-8c3a-{number:012x}", f"Research {number}", "online", description, skills)


def _round(changes: int) -> dict[str, float]:
    roomy, default = _inputs(_ROOMY), _inputs(DEFAULT_BUDGET_TOKENS)
    found = {"cold": _least(5, lambda _: PromptAssembler(roomy).build_prompt().text)}
    found["cold, default"] = _least(5, lambda _: PromptAssembler(default).build_prompt().text)
    kept, kept_default = PromptAssembler(roomy), PromptAssembler(default)
    found["one"] = _least(changes, lambda number: _changed(kept, number))
    found["one, default"] = _least(changes, lambda number: _changed(kept_default, number))
    _ = kept.build_prompt().hash
    _changed(kept, 0)
    prompt = kept.build_prompt()
    found["hash"] = _least(1, lambda _: prompt.hash)
    return found


def _changed(assembly: PromptAssembler, number: int) -> str:
    if not assembly.update_peer(_peer(number, f"Says something else, number {number}.")):
        raise Failed("a peer is not where it was")
    return assembly.build_prompt().text


def _least(times: int, work: Callable[[int], str]) -> float:
    """The least CPU of one call, in microseconds: what happens beside it is not its own."""
    least = float("inf")
    for number in range(times):
        start = time.process_time()
        work(number)
        least = min(least, time.process_time() - start)
    return least * 1e6
