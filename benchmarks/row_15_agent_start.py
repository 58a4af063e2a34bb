"""Row 15: what `molecule mcp` takes from its start to the answer to `initialize`, beside a Python that does nothing.

The command as installed, its pipe held by this process; CPU time and resident memory are read when the answer has been
read. Memory is read once more when the agent has its seat on a real server and waits for mail: by then the HTTP client
is loaded.
"""

from benchmarks.agents import Agent, Started, bare_python, listed
from benchmarks.figures import Figure, Options, Say
from benchmarks.machine import median
from benchmarks.seats import make_seats
from benchmarks.servers import molecule, new_place

_STARTS_A_ROUND = 4


def measure(options: Options, say: Say) -> list[Figure]:
    """The row's figures."""
    started: list[Started] = []
    bare: list[float] = []
    rest: list[float] = []
    with new_place() as place, molecule(place) as server:
        seats = make_seats(server, place, "Agent", 1)
        for number in range(options.rounds * _STARTS_A_ROUND + 1):
            with Agent(listed(server, seats)) as agent:
                at_answer = agent.greet()
                agent.wait_until_seated()
                if number:  # the first one warms the disk's cache
                    started.append(at_answer)
                    rest.append(agent.memory())
                    bare.append(bare_python())
        say(
            f"  {len(started)} starts: CPU {min(each.cpu for each in started):.3f} to "
            f"{max(each.cpu for each in started):.3f} s, wall {median([each.seconds for each in started]):.3f} s"
        )
    return [
        Figure(
            row=15,
            name="`molecule mcp` to the `initialize` answer, CPU",
            value=median([each.cpu for each in started]),
            unit="s",
            must=0.2,
            goal=0.1,
            beside=f"least {min(each.cpu for each in started):.3f} s; Python that does nothing {median(bare):.3f} s",
        ),
        Figure(
            row=15,
            name="resident memory at that moment",
            value=median([each.memory for each in started]),
            unit="MiB",
            must=30,
            goal=24,
            beside=f"with its workspace, waiting for messages: {median(rest):.1f} MiB",
        ),
    ]
