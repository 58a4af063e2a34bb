"""Row 13: an organisation of 100,000 seats: lists of it, whether two may talk, a department.

Asked are the product's own handlers, readers and rules, on a server that is opened in this process and does not
listen; what a handler answers is encoded. The collector is set as `molecule serve` sets it. Over HTTP the whole list is
asked once more, of `molecule serve` itself. Times are CPU, the least of the rounds: a busy machine only ever adds.
"""

import gc
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import uvloop
from msgspec import Struct

from benchmarks.big_org import DEPARTMENT, ORG_ID, SEATS, BigOrg, fill
from benchmarks.drive import drive
from benchmarks.figures import Failed, Figure, Options, Say
from benchmarks.in_process import ADMIN_TOKEN
from benchmarks.load import Plan
from benchmarks.machine import median, memory_of
from benchmarks.servers import Place, molecule, new_place
from molecule_core.access.model import ADMIN
from molecule_core.api.http.response import Response
from molecule_core.api.routing import Request, json_response
from molecule_core.common.settings import Settings
from molecule_core.org import rules
from molecule_core.org.reader import OrgReader
from molecule_core.server.composition import Server

_PAGE = 100
_PAIRS, _PAGES, _SUBTREES, _LISTS = 20_000, 200, 50, 2
_OVER_HTTP, _FEW_OVER_HTTP = 5, 2


class Asked(Struct):
    """What one question cost in each round, in CPU microseconds."""

    each_us: list[float] = []

    @property
    def least(self) -> float:
        """The round that was disturbed least."""
        return min(self.each_us)


class Desk:
    """Asks a server that is open."""

    def __init__(self, server: Server, org: BigOrg, chance: random.Random) -> None:
        self._server = server
        self._reader = OrgReader(server.registry)
        self._org = org
        self._pairs = [self._pair(chance) for _ in range(_PAIRS)]
        self._leads = [server.registry.active_workspace(chance.choice(org.leads)) for _ in range(_SUBTREES)]
        self._cursors = [chance.choice(org.ids[: -_PAGE - 1]) for _ in range(_PAGES)]
        self.knows_pages = False

    def _pair(self, chance: random.Random) -> tuple[str, str]:
        """Half of the pairs are of one department."""
        one = chance.randrange(SEATS)
        if chance.random() < 0.5:
            return self._org.ids[one], chance.choice(self._org.ids)
        return self._org.ids[one], self._org.ids[one - one % DEPARTMENT + chance.randrange(DEPARTMENT)]

    async def look(self) -> None:
        """Finds out whether the list comes in pages."""
        answer = await self._ask("/workspaces", b"limit=%d" % _PAGE)
        self.knows_pages = len(msgspec.json.decode(answer.body, type=list[msgspec.Raw])) == _PAGE

    async def page(self) -> float:
        """A page from anywhere."""
        queries = [f"limit={_PAGE}&after={cursor}".encode() for cursor in self._cursors]
        start = time.process_time()
        for query in queries:
            await self._ask("/workspaces", query)
        return _each(start, len(queries))

    async def whole(self) -> float:
        """The whole list."""
        start = time.process_time()
        for _ in range(_LISTS):
            await self._ask("/workspaces", b"")
        return _each(start, _LISTS)

    async def tree(self) -> float:
        """The org tree."""
        start = time.process_time()
        await self._ask(f"/orgs/{ORG_ID}/tree", b"")
        return _each(start, 1)

    async def _ask(self, path: str, query: bytes) -> Response:
        route, params = self._server.routes.find("GET", path.encode())
        call = Request(route, params, {}, query, self._server.settings.limits, maybe_caller=ADMIN)
        answer: Any = route.handler(call)
        return answer if isinstance(answer, Response) else await answer

    async def rows(self) -> float:
        """A hundred seats shown and encoded, once they are found."""
        some = [self._server.registry.active_workspace(each) for each in self._cursors[:_PAGE]]
        start = time.process_time()
        for _ in range(_PAGES):
            json_response([self._reader.workspace_view(each) for each in some])
        return _each(start, _PAGES)

    async def talk(self) -> float:
        """Whether two may talk, by their ids."""
        return self._may_talk(self._pairs, skipping=False)

    async def talk_skipping(self) -> float:
        """The same in an organisation whose levels may be skipped: then those above are looked at too."""
        return self._may_talk(self._pairs, skipping=True)

    async def deepest(self) -> float:
        """The same for one at the end of the deepest branch and one that is no relative of it."""
        return self._may_talk([(self._org.chain[-1], self._org.ids[0])] * _PAIRS, skipping=True)

    def _may_talk(self, pairs: Sequence[tuple[str, str]], *, skipping: bool) -> float:
        org = self._server.registry.org(ORG_ID)
        self._server.registry.put_org(msgspec.structs.replace(org, allow_skip_level=skipping))
        find, start = self._reader.workspace, time.process_time()
        for one_id, other_id in pairs:
            one, other = find(one_id), find(other_id)
            if one is not None and other is not None:
                rules.may_talk(self._reader, one, other)
        return _each(start, len(pairs))

    async def subtree(self) -> float:
        """All seats of a department."""
        start = time.process_time()
        for lead in self._leads:
            found = rules.subtree(self._reader, lead)
            if len(found) != DEPARTMENT:
                raise Failed(f"a department of {len(found)} seats")
        return _each(start, len(self._leads))


def _each(start: float, count: int) -> float:
    return (time.process_time() - start) / count * 1e6


def measure(options: Options, say: Say) -> list[Figure]:
    """The row's figures."""
    with new_place() as place:
        org = fill(place)
        with _collector_as_served():
            found = uvloop.run(_in_process(place, org, options, say))
        return [*_figures(found), _over_http(place, options, say)]


@contextmanager
def _collector_as_served() -> Iterator[None]:
    """As `molecule_core.server.run` sets it."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


class Found(Struct, frozen=True):
    """What each question cost."""

    knows_pages: bool
    asked: dict[str, Asked]

    def least(self, name: str) -> float:
        """CPU microseconds."""
        return self.asked[name].least


async def _in_process(place: Place, org: BigOrg, options: Options, say: Say) -> Found:
    server = Server(Settings(state_dir=str(place.folder)), admin_token=ADMIN_TOKEN)
    await server.open()
    try:
        desk = Desk(server, org, random.Random(options.seed))
        await desk.look()
        if not desk.knows_pages:
            say("  GET /workspaces knows no `limit`: who wants a page gets the whole list")
        return Found(desk.knows_pages, await _ask_all(desk, options, say))
    finally:
        await server.close()


async def _ask_all(desk: Desk, options: Options, say: Say) -> dict[str, Asked]:
    questions: dict[str, Callable[[], Any]] = {
        **({"page": desk.page} if desk.knows_pages else {}),
        "rows": desk.rows,
        "whole": desk.whole,
        "talk": desk.talk,
        "skipping": desk.talk_skipping,
        "deepest": desk.deepest,
        "subtree": desk.subtree,
        "tree": desk.tree,
    }
    asked = {name: Asked() for name in questions}
    for number in range(1, options.rounds + 1):
        for name, question in questions.items():
            asked[name].each_us.append(await question())
        say(f"  round {number}: {', '.join(f'{name} {each.each_us[-1]:,.1f} us' for name, each in asked.items())}")
    return asked


def _figures(found: Found) -> list[Figure]:
    whole, rows = found.least("whole") / 1000, found.least("rows") / 1000
    return [
        Figure(
            row=13,
            name=f"page of {_PAGE} of {SEATS:,} workspaces",
            value=found.least("page") / 1000 if found.knows_pages else whole,
            unit="ms",
            must=0.5,
            goal=0.1,
            beside=f"{'' if found.knows_pages else 'no pages yet: the whole list; '}"
            f"{_PAGE} rows shown and encoded {rows:.2f} ms",
        ),
        Figure(row=13, name="the whole list", value=whole, unit="ms", must=60, goal=35, beside="in process, as JSON"),
        Figure(
            row=13,
            name="whether two may talk",
            value=found.least("talk"),
            unit="us",
            must=5,
            goal=2,
            beside="random pairs by their ids, half of them of one department",
        ),
        Figure(
            row=13,
            name="the same where levels may be skipped",
            value=found.least("skipping"),
            unit="us",
            must=5,
            goal=2,
            beside=f"one at the deepest level, the other no relative: {found.least('deepest'):.1f} us",
        ),
        Figure(
            row=13,
            name=f"subtree of {DEPARTMENT}",
            value=found.least("subtree") / 1000,
            unit="ms",
            must=1,
            goal=0.3,
            beside=f"the whole org tree as JSON {found.least('tree') / 1000:.0f} ms",
        ),
    ]


def _over_http(place: Place, options: Options, say: Say) -> Figure:
    """The whole list once more, of `molecule serve`."""
    count = _FEW_OVER_HTTP if options.quick else _OVER_HTTP
    with molecule(place) as server:
        head = f"host: 127.0.0.1\r\nauthorization: Bearer {place.admin_token()}"
        plan = Plan(port=server.port, count=count, requests=[f"GET /workspaces HTTP/1.1\r\n{head}\r\n\r\n"])
        costs = [drive(server, plan) for _ in range(2)]
        start, memory = server.start_cpu, memory_of(server.pid)
    each_ms = median([cost.each_us for cost in costs]) / 1000
    say(
        f"  over HTTP {each_ms:.0f} ms; start {start:.2f} s CPU, {server.start_memory:.0f} MiB, afterwards {memory:.0f}"
    )
    return Figure(
        row=13,
        name="the whole list over HTTP",
        value=each_ms,
        unit="ms",
        beside=f"`serve` with {SEATS:,} workspaces: {start:.2f} s CPU to start, {server.start_memory:.0f} MiB",
    )
