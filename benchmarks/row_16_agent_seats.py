"""Row 16: a hundred workspaces more in one agent process: threads, and memory of each.

`molecule mcp` on a real `molecule serve`, each workspace registered, beating and waiting for mail on a connection of
its own. A process with ten seats is compared with one that has a hundred and ten, so that what is needed once is there.
"""

from benchmarks.agents import Agent, listed
from benchmarks.figures import Figure, Options, Say
from benchmarks.load import Seat
from benchmarks.machine import median
from benchmarks.seats import make_seats
from benchmarks.servers import Server, molecule, new_place

_FEW, _MORE = 10, 100


def measure(options: Options, say: Say) -> list[Figure]:
    """The row's figures."""
    kib, threads = [], []
    with new_place() as place, molecule(place) as server:
        seats = make_seats(server, place, "Agent", _FEW + _MORE)
        for number in range(1, options.rounds + 1):
            few, many = _at_rest(server, seats[:_FEW]), _at_rest(server, seats)
            kib.append((many[0] - few[0]) * 1024 / _MORE)
            threads.append(many[1] - few[1])
            say(f"  round {number}: {kib[-1]:.1f} KiB each, {few[1]} and {many[1]} threads, {many[0]:.1f} MiB in all")
    return [
        Figure(
            row=16,
            name=f"{_MORE} workspaces more in one agent process: memory of each",
            value=median(kib),
            unit="KiB",
            must=50,
            beside=f"{_FEW} against {_FEW + _MORE} workspaces; least of the rounds {min(kib):.1f}",
        ),
        Figure(row=16, name="the same: threads more", value=max(threads), must=0),
    ]


def _at_rest(server: Server, seats: list[Seat]) -> tuple[float, int]:
    """Memory in MiB and threads of an agent that has all these seats."""
    with Agent(listed(server, seats)) as agent:
        agent.greet()
        agent.wait_until_seated()
        return agent.memory(), agent.threads()
