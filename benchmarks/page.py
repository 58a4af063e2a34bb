"""docs/performance.md, made from the history: the newest figure of each kind, how it developed, and where we lose."""

from collections.abc import Iterator

from benchmarks.figures import HEADINGS, Figure, bound, cells, number
from benchmarks.history import Run
from benchmarks.machine import ROOT

PAGE = ROOT / "docs" / "performance.md"
_MOST_REMEMBERED = 8

_HEAD = """\
# Performance: measured

Made by `scripts/bench --write` from `benchmarks/history/`; do not edit by hand. `scripts/bench` measures afresh and
prints the same table, `scripts/bench --help` tells the rest.

How to read it: figures are CPU time of the server process or ratios within one run, because the time on the clock says
more about a machine's other guests than about us; rows about waiting have times all the same. The limits of rates and
of chains (docs/floods.md) are lifted for the measured servers: a crowd that sends as fast as it can is what they stop.
Their cost is in the figures, and row 18 is with them. U is uvicorn (uvloop,
httptools, no access log) with an application that reads the body and answers two bytes. A ratio is the median of the
ratios of several rounds, in each of which both sides run in turns. "info" marks what no bar is set for.
"""

_CONDITIONS = """\
## What the rows measure

- **Row 1**: `molecule serve` as shipped, in a process of its own, on SQLite with `synchronous=FULL`, over loopback
  sockets. 64 connections send, each as a workspace of its own; 8 workspaces receive, each on one long-poll that claims
  up to 500 messages, and acknowledge them. Bodies of about 300 bytes. The cost of claims and acknowledgements counts.
  The server runs with `PUSH_INSTRUCTIONS_ENABLED=true`, and the receivers ask for `include=instructions`: each row says
  in full how to answer it, and that an answer is due is written down. Nobody answers, so answers are due in a day. A
  run in which rows, replies, deliveries and instructions are not the same number is an error, not a figure.
- **Row 2**: one connection, one message at a time, nobody receives. The limit, measured in the same round: the same
  request to U, and one flush (4 KiB, `fdatasync`) of the same disk. A receipt of ours waits for one flush of its own.
- **Row 3**: the full path of row 1 twice on `molecule serve`: as shipped, and with one default changed (SQLite's
  `synchronous` off, by `benchmarks/unflushed.py`).
- **Row 4**: 32 workspaces delegate over 64 connections, each connection one delegation at a time, to 8 that poll and
  answer by handle; `molecule serve` as shipped, tasks of about 85 bytes, all durable. A delegation is five requests (it
  is given, claimed, answered, and its result claimed and acknowledged), or about four where several are claimed at
  once; the ledger, the time line, events, deadlines and instructions are part of it. The peer is an agent of a2a-sdk on
  uvicorn under the same settings, with the SDK's own client: one request (without a stream, which is the cheapest way)
  in which the agent, in the same process, makes, works on and completes the task; no credentials, no inbox, no
  deadline. Its databases have the settings that the SDK and SQLAlchemy give them; PostgreSQL waits for its disk, and
  its own CPU counts on neither side.
  With SQLite the peer has 8 connections: more of them cost it no less, and wait for seconds. `scripts/setup --bench`
  installs the peer; without it the row fails.
- **Row 5**: ours is row 1 without instructions, as `molecule serve` is shipped; its server's CPU counts. JetStream
  writes to files with `sync_interval: always`; its own Python client publishes from 64 callers, and one consumer
  fetches 500 at a time and acknowledges each; compared are messages a second. huey (SQLite, flushed), pgqueuer and
  procrastinate (PostgreSQL, which waits for its disk) are libraries: the CPU of the one process that puts jobs from 64
  callers and has a worker, with the library's own settings. None of them goes over HTTP, checks a credential, or tells
  anybody.
- **Row 6**: 1,000 WebSockets of the admin on `molecule serve`; one workspace writes to another, and the next message
  leaves when all sockets were told. All CPU of the server counts, also taking and storing the message. Times are from
  the POST to the frame, by the clock of one client process, and hold its own reading of the sockets. The peers: for
  each socket a queue and a task that encodes with `json.dumps` (plain ASGI on uvicorn), the same encoding once for all,
  and picows where the peers are installed. No peer checks or stores anything; nobody compresses.
- **Row 7**: resident memory of `molecule serve` over 2,000 connections, each of an agent with a workspace and a token
  of its own, beyond the first hundred; the kernel's buffers are not in it. Tasks and timers are counted in process.
- **Row 8**: `molecule serve` with 10,000 WebSockets, each of an agent with a workspace and a token of its own, and a
  heartbeat of each every 30 seconds, over 32 connections. Resident memory at the end; CPU time over time on the clock.
- **Row 11**: `MessageReader.after` on SQLite, from random places in random logs of 1,000 workspaces. Both files lie in
  the system's cache, so a cold disk is not in it. Every workspace has as many rows as every other.
- **Row 12**: what the store and the readers do for a poll, without HTTP; the row below it is with HTTP.
- **Row 13**: one organisation, 200 departments of 500, one seat of ten with a card and a heartbeat. The product's own
  handlers and rules in process, answers encoded; about 700 bytes a row. `serve` answers the whole list once more.
- **Row 14**: CPU time and resident memory at the first answer to `GET /health`, with a store that exists. Bare uvicorn
  runs in the same environment, where it finds `watchfiles` and loads it: about a twentieth of its own start.
- **Rows 15 and 16**: the installed command, on a real `molecule serve`. 15: CPU time and resident memory when its host
  has read the answer to `initialize`. 16: resident memory of a process with 110 seats less that of one with ten, each
  seat registered, beating and waiting for mail on a connection of its own.
- **Row 17**: in process, 64 callers, one row each at any time; PostgreSQL waits for its disk. Ours is the store as
  shipped (locks, numbers, one copy for all that wait, one commit); one by one, each row is a statement that
  commits by itself, over a pool of asyncpg of the size that is best for it.
- **Rows 18 and 19**: twenty agents write to twenty others, 60 messages a second at an even pace; ten of those poll and
  ten are pushed to. The same work is done by itself and beside trouble, in turns on one server; times are from when a
  message was due. 18: the server's own limits of rates hold; one agent sends as fast as it is answered over four
  connections, half of it to an agent that takes calls and never answers. 19: 500 sockets that come again when they are
  cut off: a quarter each sends a head byte by byte, sends a file byte by byte, gets 8 MiB and reads a byte a second,
  listens to all events and reads a byte a second.
- **Rows 83 to 89** are budgets of the canvas, measured in a real Chromium that paints in software, on the page as
  shipped, with its strict policy, on a `molecule serve` on loopback. 83: the files as they travel, gzipped; the wheel's
  growth is counted deflated. 84: from the start of the navigation to the task behind the frame that painted the map
  first, of a person who is logged in; medians of loads with an empty cache and with a filled one. 88: p95, medians of
  the rounds; an event is an agent's message in an open chat of 10,000; it counts as painted at most one frame too late.
  89: the page's own source under the Node that compiles it; CPU of the first layout that a process makes.
"""

_LOSSES = """\
## Where we lose

{missed}- **One caller alone** gains nothing from group commit: each of its messages pays for a flush of its own,
  and for two more when a receiver claims and acknowledges it. {alone}
- **A receipt for one caller** takes longer than an empty request and the flush it waits for. {receipt}
- **A crowd waits**: with 256 connections a group is larger, a message is cheaper, and each waits longer. {crowd}
- **Against doing nothing** durable work can only lose: at a ratio of 0.5 a message costs twice an empty request.
- **A delegation is not cheap**: it is about four requests, 23 reads, and rows in a ledger, two inboxes and a journal,
  where the peer has one request and one row. Four requests to U alone cost about half of what the bar of row 4 allows
  beside a peer that keeps its tasks in memory, and loses them when it stops. {delegated}
- **Few large claims are cheap, many small ones are not**: with one message a claim, a delivery costs two requests and
  two commits of its own. The long-poll of row 1 takes what has gathered, as agents do.
"""


def write(runs: list[Run]) -> None:
    """Writes the page anew."""
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text("\n".join(_sections(runs)), encoding="utf-8")


def _sections(runs: list[Run]) -> Iterator[str]:
    newest = _newest(runs)
    yield _HEAD
    yield "## Figures\n"
    yield from _table(newest)
    yield ""
    yield from (f"- {line}" for line in _origins(newest))
    yield ""
    yield _CONDITIONS
    yield _losses([figure for figure, _ in newest])
    yield "## History\n"
    yield "Oldest first; only figures that have a bar. Between machines only the ratios can be compared.\n"
    yield from _history(runs, newest)
    yield ""


def _newest(runs: list[Run]) -> list[tuple[Figure, Run]]:
    """The newest figure of each kind that the newest run of its row still measures, with its run."""
    latest = {figure.row: run for run in runs for figure in run.figures}
    found = [(figure, run) for row, run in latest.items() for figure in run.figures if figure.row == row]
    return sorted(found, key=lambda pair: pair[0].row)


def _table(newest: list[tuple[Figure, Run]]) -> Iterator[str]:
    yield _line(HEADINGS)
    yield _line(["---"] * len(HEADINGS))
    for figure, _ in newest:
        yield _line(cells(figure))


def _line(texts: "list[str] | tuple[str, ...]") -> str:
    return f"| {' | '.join(text.replace('|', '/') for text in texts)} |"


def _origins(newest: list[tuple[Figure, Run]]) -> Iterator[str]:
    """Where and when each row was measured, one line for rows that were measured together."""
    rows: dict[str, list[int]] = {}
    for figure, run in newest:
        machine = run.machine
        text = (
            f"{run.at}, commit {run.commit}, {machine.cores} cores of {machine.model}, {machine.system}, "
            f"Python {machine.python}, one flush to the disk {machine.flush_ms:.2f} ms, "
            f"seed {run.seed}, {run.rounds} rounds"
        )
        rows.setdefault(text, [])
        if figure.row not in rows[text]:
            rows[text].append(figure.row)
    for text, numbers in rows.items():
        yield f"row{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}: {text}"


def _losses(figures: list[Figure]) -> str:
    missed = "".join(
        f"- **Bar missed**, row {each.row}, {each.name}: {number(each.value)} {each.unit}".rstrip()
        + f", must be {bound(each, each.must)}.\n"
        for each in figures
        if each.verdict == "MISSED"
    )
    return _LOSSES.format(
        missed=missed,
        alone=_said(figures, "1 connection:"),
        crowd=_said(figures, "256 connections:"),
        receipt=_said(figures, "p50 / (p50 of U"),
        delegated=_said(figures, "CPU of a2a-sdk in memory / ours"),
    )


def _said(figures: list[Figure], part: str) -> str:
    """What was measured for a case, or nothing."""
    return next(
        (f"Measured: ratio {number(each.value)}; {each.beside}." for each in figures if part in each.name), ""
    ).strip()


def _history(runs: list[Run], newest: list[tuple[Figure, Run]]) -> Iterator[str]:
    for kind, _ in newest:
        if kind.must is not None:
            values = [
                f"{number(figure.value)} ({run.at}, {run.commit})"
                for run in runs
                for figure in run.figures
                if (figure.row, figure.name) == (kind.row, kind.name)
            ]
            yield f"- row {kind.row}, {kind.name}: {', '.join(values[-_MOST_REMEMBERED:])}"
