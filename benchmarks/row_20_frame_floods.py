"""Row 20: agents at work, beside WebSockets that flood with frames.

The agents are those of row 18, and the server has its own limits. One agent among them sends empty fragments and
subscriptions over several WebSockets, a thousand on each every 20 ms, and opens each again that the server closes.
"""

from contextlib import ExitStack

from benchmarks.figures import Failed, Figure, Options, Say
from benchmarks.nuisance import Nuisance
from benchmarks.row_18_neighbours import crowd, ratios, rounds_beside
from benchmarks.seats import make_seats
from benchmarks.servers import molecule, new_place

SOCKETS = 8


def measure(options: Options, say: Say) -> list[Figure]:
    """The row's figures."""
    with ExitStack() as stack:
        place = stack.enter_context(new_place())
        server = stack.enter_context(molecule(place, is_lifted=False, push_networks="127.0.0.0/8"))
        all_ = crowd(server, place)
        (flooder,) = make_seats(server, place, "Floods", 1)
        trouble = Nuisance(port=server.port, frame_floods=SOCKETS, seat=flooder)
        pairs = rounds_beside(all_, lambda: trouble, options, say)
    if not all(each.mischief.frames and each.mischief.cut for each in pairs):
        raise Failed("no flooding socket was closed: there was no flood")
    return ratios(20, f"{SOCKETS} floods of frames", pairs)
