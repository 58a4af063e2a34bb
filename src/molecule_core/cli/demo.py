"""The demo company beside a server, for `molecule up --demo`: its folder, its seats, its agents, its end.

The server runs in this process, each agent in one of its own. Everything lives in the folder `demo` of the state
folder, so that it never mixes with real data.
"""

import asyncio
import logging
import shlex
import shutil
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import click
import msgspec

from molecule_core.cli.options import DEMO_FOLDER, admin_token, prepare_state
from molecule_core.client.api import Api, ApiError, NoAnswer
from molecule_core.demo.company import Company, Place, packaged_company, places, read_company
from molecule_core.demo.model import Posting
from molecule_core.demo.seats import BOOK_FILE, Book, Kept, Seating, read_book, write_book
from molecule_core.demo.staff import Member, Staff
from molecule_core.ground.clock import SystemClock
from molecule_core.ground.errors import BadSettings, StateInUse
from molecule_core.ground.limits import Limits
from molecule_core.ground.settings import Settings, environment
from molecule_core.server import Server
from molecule_core.serving import cannot_listen, serve
from molecule_core.store.backup import is_in_use

AGENTS = "agents"
# Quick enough that a person who kills an agent sees it go offline while they look; and the second try of a push comes
# before that, so that what is tried twice is seen to fail, and does not wait for an agent that is known to be away.
_QUICK = {"silence_seconds": 10, "sweep_seconds": 2, "delegation_retry_seconds": 4}
# Where an agent listens that is pushed to.
_PUSHED = "127.0.0.1/32"
# The address under which agents on this machine reach a server that listens on all of them.
_NEAREST = {"0.0.0.0": "127.0.0.1", "::": "::1"}
_BETWEEN_LOOKS_SECONDS = 0.05


Announce = Callable[[list[str]], Awaitable[None]]
"""Says what there is to say, once all are seated."""


class Demo(NamedTuple):
    """A demo that may start: nothing about it is wrong, and nothing has been changed yet."""

    settings: Settings
    company: Company
    book: Book


def plan_demo(settings: Settings, file: Path | None, *, fresh: bool) -> Demo:
    """Looks whether the demo can start. `file`: the org file; None for that of the last start.

    Raises BadSettings, StateInUse."""
    if settings.database:
        raise BadSettings(reason="the demo has an SQLite store of its own; leave --database and MOLECULE_DATABASE away")
    folder = settings.state / DEMO_FOLDER
    old = None if fresh else read_book(folder)
    _refuse_what_is_no_demo(folder)
    book = old or Book()
    if file is not None:
        book = msgspec.structs.replace(book, company=str(file.absolute()))
    company = packaged_company() if book.company is None else read_company(Path(book.company))
    port = _free_port(settings.host, settings.port)
    networks = settings.push_networks
    if any(place.seat.host == "push" for place in places(company)):
        networks = (*networks, _PUSHED)
    own = {"state_dir": str(folder), "port": port, "push_networks": networks}
    demo = msgspec.structs.replace(settings, **own, limits=_quick(settings.limits))
    return Demo(demo, company, book)


def _refuse_what_is_no_demo(folder: Path) -> None:
    """Nothing that is somebody's own work is written into, or deleted."""
    if not folder.exists():
        return
    if folder.is_symlink() or not folder.is_dir():
        raise BadSettings(reason=f"{folder} is no folder; move it away, or choose another --state-dir")
    if any(folder.iterdir()) and not (folder / BOOK_FILE).is_file():
        raise BadSettings(
            reason=f"{folder} holds something else than a demo (it has no {BOOK_FILE}); "
            "move it away, or choose another --state-dir"
        )
    if is_in_use(folder):
        raise StateInUse(place=folder)


def _quick(limits: Limits) -> Limits:
    """The limits of the demo, where the operator has not set their own."""
    usual = Limits()
    own = {
        name: value
        for name, value in _QUICK.items()
        if getattr(limits, name) == getattr(usual, name) and f"MOLECULE_LIMIT_{name.upper()}" not in environment()
    }
    return msgspec.structs.replace(limits, **own)


def _free_port(host: str, port: int) -> int:
    """The port itself if it is free, or one that is for 0. Raises BadSettings."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            return int(probe.getsockname()[1])
    except OSError as error:
        raise cannot_listen(host, port, error) from None


# -- its life ----------------------------------------------------------------------------------------------------------


def prepare_demo(demo: Demo, *, fresh: bool) -> Server:
    """The folder of a demo, emptied if it is to start over, and a server on it. Raises BadSettings."""
    folder = demo.settings.state
    if fresh and folder.exists():
        _empty(folder)
    prepare_state(demo.settings)
    write_book(folder, demo.book)
    return Server(demo.settings, admin_token=admin_token(demo.settings), first_org=demo.company.name)


def _empty(folder: Path) -> None:
    """The book goes last: what an interruption leaves is still known as a demo."""
    try:
        for path in sorted(folder.iterdir(), key=lambda path: path.name == BOOK_FILE):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
    except OSError as error:
        raise BadSettings(reason=f"{folder} cannot be emptied: {error}") from None


async def live(demo: Demo, server: Server, announce: Announce) -> None:
    """Serves, and keeps the company beside it, until a signal comes. Once all are seated, `announce` is called with the
    lines that there are to say about them."""
    logging.getLogger("httpx2").setLevel(logging.WARNING)  # a line for each request that seats the company helps nobody
    async with Staff() as staff:
        # Those who end while the server is there need not wonder where it is, and give back what they have in hand.
        serving = asyncio.create_task(serve(server, before_end=staff.dismiss))
        opening = asyncio.create_task(_open(demo, admin_token(demo.settings), staff, announce))
        await asyncio.wait((serving, opening), return_when=asyncio.FIRST_COMPLETED)
        if opening.done() and opening.exception() is not None:
            signal.raise_signal(signal.SIGTERM)  # no company, no demo: the server ends as it always does
        await asyncio.wait((serving,))
        opening.cancel()
        await asyncio.wait((opening,))
    serving.result()
    if not opening.cancelled():
        opening.result()


async def _open(demo: Demo, token: str, staff: Staff, announce: Announce) -> None:
    """Seats the company once the server listens, and watches its agents."""
    url = _local_url(demo.settings)
    try:
        async with Api(url, token) as api:
            await _ready(api)
            seats = await Seating(api, demo.settings.state, demo.book).settle(demo.company)
        await staff.start([_posting(url, place, kept, demo.settings.state / AGENTS) for place, kept in seats])
        if staff.dismissed:
            return
    except (ApiError, NoAnswer) as error:
        if await _has_ended(url):
            return  # a signal came before everybody was in
        raise BadSettings(reason=f"the company could not be seated: {error}") from error
    await announce(_lines(demo, staff))
    await staff.watch(_tell_of_an_end)


def _local_url(settings: Settings) -> str:
    host = _NEAREST.get(settings.host, settings.host)
    return f"http://[{host}]:{settings.port}" if ":" in host else f"http://{host}:{settings.port}"


async def _ready(api: Api) -> None:
    """Waits until the server answers; if it ends instead, whoever waits here is cancelled."""
    clock = SystemClock()
    while True:
        with suppress(NoAnswer):
            await api.get("/ready")
            return
        await clock.wait(asyncio.get_running_loop().create_future(), _BETWEEN_LOOKS_SECONDS)


async def _has_ended(url: str) -> bool:
    """Whether the server takes no connections any more."""
    try:
        async with Api(url) as api:
            await api.get("/health")
    except NoAnswer:
        return True
    return False


def _posting(url: str, place: Place, kept: Kept, agents: Path) -> Posting:
    seat = msgspec.structs.replace(place.seat, seat=())
    return Posting(url, kept.id, kept.token, seat, str(agents / kept.id))


def _tell_of_an_end(member: Member) -> None:
    rest = "Its messages wait for it:"
    if member.posting.seat.host == "push":
        rest = "What is pushed to it now fails; what comes once it is known to be offline waits for it:"
    click.echo(
        f"{member.name} (pid {member.process.pid}) has ended. {rest} Ctrl-C and `molecule up --demo` start it again."
    )


def _lines(demo: Demo, staff: Staff) -> list[str]:
    """Who works in the demo, how to add an agent of one's own, and what comes next."""
    names = ["  " * (len(place.path) - 1) + place.seat.name for place in places(demo.company)]
    width = max(map(len, names))
    pids = [member.process.pid for member in staff.members]
    agents = [f"                 {name:<{width}}  pid {pid}" for name, pid in zip(names, pids, strict=True)]
    molecule = shlex.quote(sys.argv[0])
    state = shlex.quote(demo.settings.state_dir)
    return [
        f"  company      {demo.company.name}: {len(names)} agents, each a process of its own. Kill one and see:",
        *agents,
        "  try it       write to the first of them: Plan a landing page for our launch",
        "  add yours    the answer to this has commands to paste:",
        f"                 {molecule} admin token --state-dir {state} | sed 's/^/Authorization: Bearer /' |",
        f'                 curl -sS -H @- {demo.settings.url}/workspaces -d \'{{"name": "Mine"}}\'',
        "  next time    `molecule up --demo` goes on where this one ends; with --fresh it starts over",
    ]
