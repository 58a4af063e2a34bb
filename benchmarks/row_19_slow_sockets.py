"""Row 19: agents at work, beside 500 slow sockets.

The agents are those of row 18. A quarter of the sockets each sends a head byte by byte, sends a file byte by byte, gets
a large file and does not read it, listens to all events and does not read them.
"""

from contextlib import ExitStack

import httpx2

from benchmarks.figures import Failed, Figure, Options, Say
from benchmarks.load import Seat
from benchmarks.machine import allow_files, memory_of
from benchmarks.nuisance import Nuisance
from benchmarks.row_18_neighbours import crowd, ratios, rounds_beside
from benchmarks.seats import make_seats
from benchmarks.servers import Server, molecule, new_place

SOCKETS = 500
_FILE_BYTES = 8 << 20


def measure(options: Options, say: Say) -> list[Figure]:
    """The row's figures."""
    allow_files(4 * SOCKETS)
    with ExitStack() as stack:
        place = stack.enter_context(new_place())
        server = stack.enter_context(molecule(place, push_networks="127.0.0.0/8"))
        all_ = crowd(server, place)
        (slow,) = make_seats(server, place, "Slow", 1)
        file = _upload(server, slow)
        before = memory_of(server.pid)
        trouble = Nuisance(port=server.port, slow=SOCKETS, seat=slow, file=file)
        pairs = rounds_beside(all_, lambda: trouble, options, say)
        grown = memory_of(server.pid) - before
    if not any(each.mischief.cut for each in pairs) and not options.quick:
        raise Failed("the server hung up on nobody: the sockets were not slow")
    more = Figure(row=19, name="memory of the server afterwards", value=grown, unit="MiB more", beside="no bar")
    return [*ratios(19, f"{SOCKETS} slow sockets", pairs), more]


def _upload(server: Server, seat: Seat) -> str:
    """Puts a large file there; returns the path that gives it."""
    url = f"http://127.0.0.1:{server.port}/workspaces/{seat.id}/chat/uploads"
    files = {"files": ("large.bin", b"\0" * _FILE_BYTES)}
    answer = httpx2.post(url, files=files, headers={"authorization": f"Bearer {seat.token}"}, trust_env=False)
    if answer.status_code != httpx2.codes.OK:
        raise Failed(f"the file was not taken: {answer.text}")
    uri = answer.json()["files"][0]["uri"]
    return f"/workspaces/{seat.id}/files/{uri.rpartition('/')[2]}"
