"""The demo company of `molecule up --demo`: folder, workspaces, agents, shutdown.

The server runs in this process, each agent in its own. All state is in the folder `demo` of the state folder, apart
from real data."""

import asyncio
import logging
import shutil
import signal
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import click
import msgspec

from molecule_core.cli._options import DEMO_FOLDER
from molecule_core.client.api import ApiClient, ApiError, NoAnswerError
from molecule_core.common.clock import SystemClock
from molecule_core.common.errors import BadSettings, StateInUse
from molecule_core.common.limits import Limits
from molecule_core.common.own_command import own_command, state_dir_option
from molecule_core.common.settings import Settings, environment
from molecule_core.demo.company import Company, PlacedWorkspace, list_company_workspaces, packaged_company, read_company
from molecule_core.demo.model import AgentAssignment
from molecule_core.demo.provisioner import (
    STATE_FILE,
    DemoState,
    SavedWorkspace,
    WorkspaceProvisioner,
    read_demo_state,
    write_demo_state,
)
from molecule_core.demo.supervisor import AgentProcess, AgentSupervisor
from molecule_core.server.composition import Server
from molecule_core.server.listener import listen_error, serve
from molecule_core.server.state_folder import ensure_admin_token, prepare_state_folder, server_admin_token
from molecule_core.store.sqlite.backup import is_in_use

AGENTS_FOLDER = "agents"
# A killed agent goes offline while the person still looks. A push is retried before that, so that it is seen to fail
# and does not wait for an agent that is known to be offline.
_DEMO_LIMITS = {"silence_seconds": 10, "sweep_seconds": 2, "delegation_retry_seconds": 4}
# Network of the demo's push agents.
_PUSH_NETWORK = "127.0.0.1/32"
# Address at which local agents reach a server that listens on all interfaces.
_LOOPBACK_HOSTS = {"0.0.0.0": "127.0.0.1", "::": "::1"}
_POLL_SECONDS = 0.05


Announce = Callable[[list[str], str | None], Awaitable[None]]
"""Prints the summary once all agents are registered: its lines, and the workspace whose chat opens first."""


class DemoPlan(NamedTuple):
    """A demo that was checked and can start; nothing has been changed yet."""

    settings: Settings
    company: Company
    saved_state: DemoState


def plan_demo(settings: Settings, file: Path | None, *, fresh: bool) -> DemoPlan:
    """Check whether the demo can start. `file`: the org file; None for that of the last start.

    Raises BadSettings, StateInUse."""
    if settings.database:
        raise BadSettings(reason="the demo cannot use PostgreSQL. Remove --database and MOLECULE_DATABASE.")
    folder = settings.state_folder / DEMO_FOLDER
    old = None if fresh else read_demo_state(folder)
    _check_demo_folder(folder)
    saved_state = old or DemoState()
    if file is not None:
        saved_state = msgspec.structs.replace(saved_state, company=str(file.absolute()))
    company = packaged_company() if saved_state.company is None else read_company(Path(saved_state.company))
    port = _resolve_port(settings.host, settings.port)
    networks = settings.push_networks
    if any(placed.seat.host == "push" for placed in list_company_workspaces(company)):
        networks = (*networks, _PUSH_NETWORK)
    overrides = {"state_dir": str(folder), "port": port, "push_networks": networks}
    demo = msgspec.structs.replace(settings, **overrides, limits=_demo_limits(settings.limits))
    return DemoPlan(demo, company, saved_state)


def _check_demo_folder(folder: Path) -> None:
    """Raise unless the folder is missing, empty or a demo's, so that other files are never overwritten or deleted."""
    if not folder.exists():
        return
    if folder.is_symlink() or not folder.is_dir():
        raise BadSettings(reason=f"{folder} is not a folder. Move it away, or choose another --state-dir.")
    if any(folder.iterdir()) and not (folder / STATE_FILE).is_file():
        raise BadSettings(
            reason=f"{folder} contains files, but no demo (there is no {STATE_FILE}). "
            "Move it away, or choose another --state-dir."
        )
    if is_in_use(folder):
        raise StateInUse(place=folder)


def _demo_limits(limits: Limits) -> Limits:
    """Return the limits of the demo. Limits set by the operator take precedence."""
    defaults = Limits()
    overrides = {
        name: value
        for name, value in _DEMO_LIMITS.items()
        if getattr(limits, name) == getattr(defaults, name) and f"MOLECULE_LIMIT_{name.upper()}" not in environment()
    }
    return msgspec.structs.replace(limits, **overrides)


def _resolve_port(host: str, port: int) -> int:
    """Return the port if it is free, or a free port for 0. Raises BadSettings."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            return int(probe.getsockname()[1])
    except OSError as error:
        raise listen_error(host, port, error) from None


# -- running -----------------------------------------------------------------------------------------------------------


def prepare_demo(demo: DemoPlan, *, fresh: bool) -> Server:
    """Prepare the folder of a demo, emptied if `fresh`, and return a server on it. Raises BadSettings."""
    folder = demo.settings.state_folder
    if fresh and folder.exists():
        _empty_folder(folder)
    prepare_state_folder(demo.settings)
    write_demo_state(folder, demo.saved_state)
    return Server(demo.settings, admin_token=server_admin_token(demo.settings), first_org=demo.company.name)


def _empty_folder(folder: Path) -> None:
    """Empty the folder. The state file goes last, so that an interrupted run still leaves a recognisable demo."""
    try:
        for path in sorted(folder.iterdir(), key=lambda path: path.name == STATE_FILE):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
    except OSError as error:
        raise BadSettings(reason=f"{folder} cannot be emptied: {error}") from None


async def run_demo(demo: DemoPlan, server: Server, announce: Announce) -> None:
    """Run the server and the agents until a signal arrives. `announce` gets the summary once all are registered."""
    logging.getLogger("httpx2").setLevel(logging.WARNING)  # request logs of the provisioner are noise
    async with AgentSupervisor() as supervisor:
        # Agents stop before the server, so that they can release their claims.
        serve_task = asyncio.create_task(serve(server, before_stop=supervisor.stop_agents))
        start_task = asyncio.create_task(_start_agents(demo, ensure_admin_token(demo.settings), supervisor, announce))
        await asyncio.wait((serve_task, start_task), return_when=asyncio.FIRST_COMPLETED)
        if start_task.done() and start_task.exception() is not None:
            signal.raise_signal(signal.SIGTERM)  # without agents there is no demo: stop the server in the normal way
        await asyncio.wait((serve_task,))
        start_task.cancel()
        await asyncio.wait((start_task,))
    serve_task.result()
    if not start_task.cancelled():
        start_task.result()


async def _start_agents(demo: DemoPlan, token: str, supervisor: AgentSupervisor, announce: Announce) -> None:
    """Create the workspaces once the server listens, start the agents and watch them."""
    url = _local_url(demo.settings)
    try:
        async with ApiClient(url, token) as api:
            await _wait_until_ready(api)
            seats = await WorkspaceProvisioner(api, demo.settings.state_folder, demo.saved_state).provision_workspaces(
                demo.company
            )
        await supervisor.start_agents(
            [_to_assignment(url, placed, saved, demo.settings.state_folder / AGENTS_FOLDER) for placed, saved in seats]
        )
        if supervisor.is_stopped:
            return
    except (ApiError, NoAnswerError) as error:
        if await _has_stopped(url):
            return  # a signal arrived during the start
        raise BadSettings(reason=f"the workspaces of the company cannot be created: {error}") from error
    first = next((saved.id for placed, saved in seats if placed.seat.examples), None)
    await announce(_summary_lines(demo, supervisor), first)
    await supervisor.watch_agents(_report_exit)


def _local_url(settings: Settings) -> str:
    host = _LOOPBACK_HOSTS.get(settings.host, settings.host)
    return f"http://[{host}]:{settings.port}" if ":" in host else f"http://{host}:{settings.port}"


async def _wait_until_ready(api: ApiClient) -> None:
    """Wait until the server answers. If it ends instead, this task is cancelled."""
    clock = SystemClock()
    while True:
        with suppress(NoAnswerError):
            await api.get("/ready")
            return
        await clock.wait(asyncio.get_running_loop().create_future(), _POLL_SECONDS)


async def _has_stopped(url: str) -> bool:
    """Return whether the server accepts no connections."""
    try:
        async with ApiClient(url) as api:
            await api.get("/health")
    except NoAnswerError:
        return True
    return False


def _to_assignment(url: str, placed: PlacedWorkspace, saved: SavedWorkspace, agents: Path) -> AgentAssignment:
    seat = msgspec.structs.replace(placed.seat, seat=())
    return AgentAssignment(url, saved.id, saved.token, seat, str(agents / saved.id))


def _report_exit(agent: AgentProcess) -> None:
    advice = "Its messages wait in its inbox."
    if agent.assignment.seat.host == "push":
        advice = "Pushes to it fail until the server marks it as offline; later messages wait in its inbox."
    click.echo(
        f"{agent.name} (pid {agent.process.pid}) has exited. {advice} "
        "To start it again, press Ctrl-C and run `molecule up --demo`."
    )


def _summary_lines(demo: DemoPlan, supervisor: AgentSupervisor) -> list[str]:
    """Return the summary: the agents, how to add one, and what happens at the next start."""
    names = ["  " * (len(placed.path) - 1) + placed.seat.name for placed in list_company_workspaces(demo.company)]
    width = max(map(len, names))
    pids = [agent_process.process.pid for agent_process in supervisor.processes]
    agents = [f"                 {name:<{width}}  pid {pid}" for name, pid in zip(names, pids, strict=True)]
    admin_token = f"{own_command()} admin token {state_dir_option(demo.settings)}"
    return [
        f"  company      {demo.company.name}: {len(names)} agents, one process each. Kill one and watch what happens:",
        *agents,
        f"  try it       write to {names[0]}: Plan a landing page for our launch",
        "  add yours    create a workspace; the response contains commands to paste:",
        f"                 {admin_token} | sed 's/^/Authorization: Bearer /' |",
        f'                 curl -sS -H @- {demo.settings.url}/workspaces -d \'{{"name": "Mine"}}\'',
        "  next time    `molecule up --demo` continues where it stopped; add --fresh to start over",
    ]
