"""Row 1: a message from the sender's socket to the receiver's acknowledgement, against uvicorn doing nothing.

Both servers get the same bytes on the same number of connections, in turns within a round, and the CPU time of each
server process is compared. Ours authenticates, validates, deduplicates, writes the message and its event durably,
numbers it, wakes the reader, renders the instructions, notes that an answer is due, hands all of it out on a long-poll
and takes the acknowledgement; all of that counts. A segment in which rows, replies, deliveries and instructions are not
the same number is an error. A second server, whose gate is closed, tells what the instructions cost.
"""

import random
from contextlib import ExitStack

import apsw
import msgspec
from msgspec import Struct

from benchmarks.drive import Cost, drive
from benchmarks.figures import Bar, Failed, Figure, Options, Say
from benchmarks.load import Plan, Seat
from benchmarks.machine import median
from benchmarks.seats import make_seats
from benchmarks.servers import Place, Server, bare_uvicorn, molecule, new_place

CONNECTIONS, RECEIVERS = 64, 8
_BODY_BYTES = 300
# What the JSON around the text takes.
_WRAPPING = 237
_MESSAGES, _FEW = 20_000, 4_000
_ALONE, _CROWD = 1, 256
# The receivers acknowledge and never answer: without this, what one run leaves unanswered is work in the next.
_DUE_SECONDS = "86400"
_WORDS = "please read the report on stock and tell the team what to order before noon thanks".split()


class WrongCount(Failed):
    """A message was lost, doubled or never delivered: the figure would be worth nothing."""


class Bench:
    """Both servers, and the runs on them. Every run of ours has workspaces of its own, so that no run inherits a
    full inbox. `told`: ours says with each message how to answer it."""

    def __init__(self, ours: Server, place: Place, noop: Server, options: Options, *, told: bool = False) -> None:
        self._ours = ours
        self._told = told
        self._place = place
        self._noop = noop
        self._random = random.Random(options.seed)
        self._runs = 0

    def noop(self, connections: int, count: int) -> Cost:
        """The yardstick: the same requests to uvicorn with an application that does nothing."""
        nobody = Seat("0" * 36, "t" * 58)
        return drive(self._noop, self._plan(self._noop, [nobody] * connections, [nobody] * RECEIVERS, count, False))

    def ours(self, connections: int, count: int, *, receive: bool, ordered_ids: bool = False) -> Cost:
        """The full path, or without `receive` only as far as the receipt."""
        self._runs += 1
        senders = make_seats(self._ours, self._place, f"Sender {self._runs}", connections)
        targets = make_seats(self._ours, self._place, f"Receiver {self._runs}", RECEIVERS)
        plan = self._plan(self._ours, senders, targets, count, receive)
        cost = drive(self._ours, msgspec.structs.replace(plan, ordered_ids=ordered_ids))
        self._check(cost, [each.id for each in targets], count if receive else 0)
        return cost

    def _plan(self, server: Server, senders: list[Seat], targets: list[Seat], count: int, receive: bool) -> Plan:
        return Plan(
            port=server.port,
            count=count,
            seed=self._random.getrandbits(32),
            text=self._text(),
            senders=senders,
            targets=targets,
            receive=receive,
            include="instructions" if self._told else "",
        )

    def _text(self) -> str:
        words = [self._random.choice(_WORDS) for _ in range(_BODY_BYTES)]
        return " ".join(words)[: _BODY_BYTES - _WRAPPING]

    def _check(self, cost: Cost, targets: list[str], deliveries: int) -> None:
        """Rows in the store = replies, and deliveries = distinct messages = rows that count as handled = instructions
        where there are to be any."""
        rows, handled = _rows_and_handled(self._place, targets)
        went = cost.outcome
        told = deliveries if self._told else 0
        if rows != went.replies or not went.deliveries == went.distinct == handled == deliveries:
            raise WrongCount(
                f"rows {rows}, replies {went.replies}, deliveries {went.deliveries} of {went.distinct} messages, "
                f"handled {handled}; expected {went.replies} and {deliveries}"
            )
        if went.instructed != told:
            raise WrongCount(f"{went.instructed} messages of {deliveries} came with instructions; expected {told}")


def _rows_and_handled(place: Place, targets: list[str]) -> tuple[int, int]:
    """Looked up in the store itself, beside the server."""
    connection = apsw.Connection(str(place.database), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        rows = handled = 0
        for target in targets:
            rows += connection.execute("SELECT count(*) FROM activities WHERE workspace_id = ?", (target,)).get
            acked = connection.execute("SELECT acked_no FROM inboxes WHERE workspace_id = ?", (target,)).get
            handled += acked or 0
    finally:
        connection.close()
    return rows, handled


def measure(options: Options, say: Say) -> list[Figure]:
    """The row's figures."""
    with ExitStack() as stack:
        place = stack.enter_context(new_place())
        ours = stack.enter_context(molecule(place, push_instructions_enabled="true", limit_reply_seconds=_DUE_SECONDS))
        noop = stack.enter_context(bare_uvicorn(stack.enter_context(new_place())))
        bench = Bench(ours, place, noop, options, told=True)
        closed = stack.enter_context(new_place())
        untold = Bench(stack.enter_context(molecule(closed, limit_reply_seconds=_DUE_SECONDS)), closed, noop, options)
        count = _FEW if options.quick else _MESSAGES
        bench.noop(CONNECTIONS, count // 4)
        untold.ours(CONNECTIONS, count // 4, receive=True)
        first = bench.ours(CONNECTIONS, count // 4, receive=True)
        _say_conditions(say, count, first)
        rounds = [_round(bench, untold, count, number, say) for number in range(1, options.rounds + 1)]
        return [*_figures(rounds), *_other_loads(bench, count, say)]


def _say_conditions(say: Say, count: int, first: Cost) -> None:
    say(
        f"  {CONNECTIONS} sending connections, each a workspace of its own; {RECEIVERS} receiving workspaces, each on "
        f"one long-poll (claim, then acknowledge)"
    )
    say(
        f"  {count} messages a run, bodies of {first.outcome.body_bytes} bytes, random message ids; SQLite, "
        f"synchronous=FULL"
    )
    say("  each with instructions in their full form, as a member of the row, and a note that an answer is due")
    say("  U: uvicorn, uvloop, httptools, no access log, same requests; reads the body, answers 2 bytes")


class Round(Struct, frozen=True):
    """One round, compared with itself and with no other round. The yardstick runs before and after the full path."""

    before: Cost
    full: Cost
    after: Cost
    accept: Cost
    ordered: Cost
    untold: Cost

    @property
    def noop_us(self) -> float:
        """CPU microseconds of U for one request."""
        return (self.before.each_us + self.after.each_us) / 2

    @property
    def ratio(self) -> float:
        """U / ours, full path."""
        return self.ratio_to(self.full)

    def ratio_to(self, other: Cost) -> float:
        """U / another run of this round."""
        return self.noop_us / other.each_us


def _round(bench: Bench, untold: Bench, count: int, number: int, say: Say) -> Round:
    found = Round(
        bench.noop(CONNECTIONS, count),
        bench.ours(CONNECTIONS, count, receive=True),
        bench.noop(CONNECTIONS, count),
        bench.ours(CONNECTIONS, count, receive=False),
        bench.ours(CONNECTIONS, count, receive=True, ordered_ids=True),
        untold.ours(CONNECTIONS, count, receive=True),
    )
    say(
        f"  round {number}: U {found.noop_us:.1f} us, full path {found.full.each_us:.1f} us = {found.ratio:.3f}, "
        f"accept only {found.accept.each_us:.1f} us, ordered ids {found.ordered.each_us:.1f} us, without instructions "
        f"{found.untold.each_us:.1f} us; {_tale(found.full)}"
    )
    return found


def _tale(cost: Cost) -> str:
    """How a run went, in a few words."""
    went = cost.outcome
    tale = f"{went.replies / went.seconds:,.0f}/s, receipt p50 {went.reply_p50_ms:.2f} p99 {went.reply_p99_ms:.2f} ms"
    if went.delivery_p50_ms is None or went.delivery_p99_ms is None:
        return tale
    each = went.deliveries / max(went.claims, 1)
    return f"{tale}, delivery p50 {went.delivery_p50_ms:.2f} p99 {went.delivery_p99_ms:.2f} ms, {each:.1f} a claim"


def _figures(rounds: list[Round]) -> list[Figure]:
    noop = median([each.noop_us for each in rounds])
    full = median([each.full.each_us for each in rounds])
    gate = Figure(
        row=1,
        name=f"full path, {CONNECTIONS} connections: CPU of U / ours",
        value=median([each.ratio for each in rounds]),
        bar=Bar.AT_LEAST,
        must=0.40,
        goal=0.50,
        beside=f"U {noop:.1f} us, ours {full:.1f} us a message",
    )
    accept = _beside("the same without receivers (accept only)", rounds, [each.accept for each in rounds])
    ordered = _beside("the same with time-ordered message ids", rounds, [each.ordered for each in rounds])
    untold = _beside("the same without instructions (gate closed)", rounds, [each.untold for each in rounds])
    return [gate, accept, ordered, untold]


def _beside(name: str, rounds: list[Round], costs: list[Cost]) -> Figure:
    """Another run of each round, for information."""
    ratio = median([each.ratio_to(cost) for each, cost in zip(rounds, costs, strict=True)])
    ours = median([cost.each_us for cost in costs])
    return Figure(row=1, name=name, value=ratio, bar=Bar.AT_LEAST, beside=f"ours {ours:.1f} us a message")


def _other_loads(bench: Bench, count: int, say: Say) -> list[Figure]:
    """One caller alone, who shares no commit with anybody, and a crowd, which waits longer."""
    found = []
    for connections, messages in ((_ALONE, count // 10), (_CROWD, count)):
        noop = bench.noop(connections, messages)
        full = bench.ours(connections, messages, receive=True)
        say(f"  {connections} connections: U {noop.each_us:.1f} us, full path {full.each_us:.1f} us; {_tale(full)}")
        found.append(
            Figure(
                row=1,
                name=f"full path, {_connections(connections)}: CPU of U / ours",
                value=noop.each_us / full.each_us,
                bar=Bar.AT_LEAST,
                beside=f"U {noop.each_us:.1f} us, ours {full.each_us:.1f} us; {_tale(full)}",
            )
        )
    return found


def _connections(count: int) -> str:
    return "1 connection" if count == 1 else f"{count} connections"
