"""Starts, watches and stops the processes of the demo agents.

An agent that dies is not restarted: its unfinished work stays visible."""

import asyncio
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from molecule_core.common.errors import BadSettings
from molecule_core.common.settings import environment
from molecule_core.demo.agent import READY_LINE
from molecule_core.demo.model import AgentAssignment
from molecule_core.demo.shutdown import wait_or_kill

# 5 s: an agent ends when its input does; one that hangs must not delay shutdown.
_END_SECONDS = 5.0


class AgentProcess(NamedTuple):
    """The process of a started agent."""

    assignment: AgentAssignment
    process: asyncio.subprocess.Process

    @property
    def name(self) -> str:
        """Return the name of the agent's workspace."""
        return self.assignment.seat.name


class AgentSupervisor:
    """All agents of a company. An async context manager that stops them at its end."""

    def __init__(self) -> None:
        self.processes: list[AgentProcess] = []
        self.is_stopped = False

    async def __aenter__(self) -> "AgentSupervisor":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop_agents()

    async def stop_agents(self) -> None:
        """Stop all agents and start no more."""
        self.is_stopped = True
        for agent_process in self.processes:
            if agent_process.process.stdin is not None:
                agent_process.process.stdin.close()
        await asyncio.gather(*(wait_or_kill(agent_process.process, _END_SECONDS) for agent_process in self.processes))

    async def start_agents(self, assignments: Sequence[AgentAssignment]) -> None:
        """Start a process for each assignment and wait until all are registered. Raises BadSettings if one fails.

        Push agents start first, since the others may send them work at once."""
        for pushed in (True, False):
            group = [assignment for assignment in assignments if (assignment.seat.host == "push") is pushed]
            started = []
            for assignment in group:
                if self.is_stopped:
                    return
                started.append(await _start_process(assignment))
                self.processes.append(started[-1])
            for agent_process in started:
                if not await _is_registered(agent_process) and not self.is_stopped:
                    name = agent_process.name
                    raise BadSettings(
                        reason=f"the agent of {name!r} cannot connect to its workspace; its output is above"
                    )
        self.processes.sort(key=lambda agent_process: assignments.index(agent_process.assignment))

    async def watch_agents(self, on_exit: Callable[[AgentProcess], None]) -> None:
        """Call `on_exit` for each agent that ends without being stopped, until the last has ended."""

        async def watch_one(agent_process: AgentProcess) -> None:
            await agent_process.process.wait()
            if not self.is_stopped:
                on_exit(agent_process)

        await asyncio.gather(*(watch_one(agent_process) for agent_process in self.processes))


async def _start_process(assignment: AgentAssignment) -> AgentProcess:
    """Start the process of an agent. The name is an argument only to be visible in a process list."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "molecule_core.demo.agent", assignment.seat.name),
        stdin=pipe,
        stdout=pipe,
        env=_environment(),
        start_new_session=True,  # Ctrl-C must reach only the parent; the agent ends when its input does
    )
    assert process.stdin is not None
    process.stdin.write(msgspec.json.encode(assignment) + b"\n")
    return AgentProcess(assignment, process)


def _environment() -> dict[str, str]:
    """Return the environment of an agent: without the server's settings and its operator's token."""
    ours = ("MOLECULE_", "ADMIN_TOKEN")
    return {name: value for name, value in environment().items() if not name.startswith(ours)}


async def _is_registered(agent_process: AgentProcess) -> bool:
    """Wait until the agent is registered; return False if it ended before."""
    assert agent_process.process.stdout is not None
    line = await agent_process.process.stdout.readline()
    return line.decode().strip() == READY_LINE
