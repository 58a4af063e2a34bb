"""Row 14: what `molecule serve` takes from its start to the first healthy answer, beside bare uvicorn.

CPU time and resident memory are read right after the first answer to GET /health. The first start of all, which makes
the store and compiles nothing that is not compiled already, is told beside the later ones.
"""

from benchmarks.figures import Figure, Options, Say
from benchmarks.machine import median
from benchmarks.servers import Place, Server, bare_uvicorn, molecule, new_place

_STARTS_A_ROUND = 2


def measure(options: Options, say: Say) -> list[Figure]:
    """The row's figures."""
    with new_place() as place, new_place() as other:
        first = _start_molecule(place)
        _start_bare(other)  # warms the disk's cache for it, as the first start did for ours
        say(f"  first start, which makes the store: {first.start_cpu:.3f} s CPU")
        pairs = [_pair(place, other, say) for _ in range(options.rounds * _STARTS_A_ROUND)]
    cpu, bare = [ours.start_cpu for ours, _ in pairs], [theirs.start_cpu for _, theirs in pairs]
    memory, bare_memory = [ours.start_memory for ours, _ in pairs], [theirs.start_memory for _, theirs in pairs]
    return [
        Figure(
            row=14,
            name="`serve` to first healthy answer, CPU",
            value=median(cpu),
            unit="s",
            must=0.9,
            goal=0.6,
            beside=f"first start of all {first.start_cpu:.3f} s",
        ),
        Figure(
            row=14,
            name="the same against bare uvicorn, CPU",
            value=median([one / other for one, other in zip(cpu, bare, strict=True)]),
            unit="x",
            must=2.0,
            beside=f"bare uvicorn {median(bare):.3f} s",
        ),
        Figure(
            row=14,
            name="resident memory at that moment",
            value=median(memory),
            unit="MiB",
            must=60,
            beside=f"bare uvicorn {median(bare_memory):.1f} MiB",
        ),
    ]


def _pair(place: Place, other: Place, say: Say) -> tuple[Server, Server]:
    ours, bare = _start_molecule(place), _start_bare(other)
    say(
        f"  serve {ours.start_cpu:.3f} s CPU, {ours.start_seconds:.2f} s, {ours.start_memory:.1f} MiB; "
        f"bare uvicorn {bare.start_cpu:.3f} s CPU, {bare.start_memory:.1f} MiB"
    )
    return ours, bare


def _start_molecule(place: Place) -> Server:
    with molecule(place) as server:
        return server


def _start_bare(place: Place) -> Server:
    with bare_uvicorn(place) as server:
        return server
