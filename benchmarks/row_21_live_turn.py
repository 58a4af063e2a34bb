"""Row 21: agents at work, beside one whose turn is streamed.

The agents are those of row 18, and the server has its own limits. One agent among them reports 200 pieces of text a
second of one turn, as `molecule agent run` does, and a WebSocket reads its events.
"""

from contextlib import ExitStack

from benchmarks.figures import Failed, Figure, Options, Say
from benchmarks.nuisance import Nuisance
from benchmarks.row_18_neighbours import crowd, ratios, rounds_beside
from benchmarks.seats import make_seats
from benchmarks.servers import molecule, new_place

DELTAS = 200


def measure(options: Options, say: Say) -> list[Figure]:
    """The row's figures."""
    with ExitStack() as stack:
        place = stack.enter_context(new_place())
        server = stack.enter_context(molecule(place, is_lifted=False, push_networks="127.0.0.0/8"))
        all_ = crowd(server, place)
        (streams,) = make_seats(server, place, "Streams", 1)
        trouble = Nuisance(port=server.port, deltas=DELTAS, seat=streams)
        pairs = rounds_beside(all_, lambda: trouble, options, say)
    if not all(each.mischief.deltas and each.mischief.events for each in pairs):
        raise Failed("no text of the turn was streamed")
    return ratios(21, f"a turn of {DELTAS} deltas a second", pairs)
