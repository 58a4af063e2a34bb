"""The processes of the company's agents: started, listened to, watched, ended. Above: cli. Below: agent.

An agent that dies is not started again: what it leaves undone is there to be seen.
"""

import asyncio
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from molecule_core.demo.agent import SEATED
from molecule_core.demo.ending import ended
from molecule_core.demo.model import Posting
from molecule_core.ground.errors import BadSettings
from molecule_core.ground.settings import environment

# An agent ends as soon as its input does; one that hangs must not hold up the end of all.
_END_SECONDS = 5.0


class Member(NamedTuple):
    """An agent that was started."""

    posting: Posting
    process: asyncio.subprocess.Process

    @property
    def name(self) -> str:
        """What its seat is called."""
        return self.posting.seat.name


class Staff:
    """All agents of a company. An async context manager: at its end none of them runs any more."""

    def __init__(self) -> None:
        self.members: list[Member] = []
        self.dismissed = False

    async def __aenter__(self) -> "Staff":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.dismiss()

    async def dismiss(self) -> None:
        """Ends all of them; nobody is started any more."""
        self.dismissed = True
        for member in self.members:
            if member.process.stdin is not None:
                member.process.stdin.close()
        await asyncio.gather(*(ended(member.process, _END_SECONDS) for member in self.members))

    async def start(self, postings: Sequence[Posting]) -> None:
        """Starts a process for each, and waits until all have taken their seats. Raises BadSettings if one cannot.

        Those that are pushed to come first: whoever comes after them may give them work at once."""
        for pushed in (True, False):
            those = [posting for posting in postings if (posting.seat.host == "push") is pushed]
            started = []
            for posting in those:
                if self.dismissed:
                    return
                started.append(await _started(posting))
                self.members.append(started[-1])
            for member in started:
                if not await _is_seated(member) and not self.dismissed:
                    name = member.name
                    raise BadSettings(
                        reason=f"the agent of {name!r} could not take its seat; what it says stands above"
                    )
        self.members.sort(key=lambda member: postings.index(member.posting))

    async def watch(self, tell: Callable[[Member], None]) -> None:
        """Calls `tell` for each agent that ends without being dismissed, until the last has ended."""

        async def watch_one(member: Member) -> None:
            await member.process.wait()
            if not self.dismissed:
                tell(member)

        await asyncio.gather(*(watch_one(member) for member in self.members))


async def _started(posting: Posting) -> Member:
    """The name stands among the arguments only so that a list of processes tells who is who."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "molecule_core.demo.agent", posting.seat.name),
        stdin=pipe,
        stdout=pipe,
        env=_environment(),
        start_new_session=True,  # Ctrl-C is for the one who started it; it ends when its input does
    )
    assert process.stdin is not None
    process.stdin.write(msgspec.json.encode(posting) + b"\n")
    return Member(posting, process)


def _environment() -> dict[str, str]:
    """An agent gets its own token and nothing else: no settings of the server, and no token of its operator."""
    ours = ("MOLECULE_", "ADMIN_TOKEN")
    return {name: value for name, value in environment().items() if not name.startswith(ours)}


async def _is_seated(member: Member) -> bool:
    """Waits until it says so, or ends before."""
    assert member.process.stdout is not None
    said = await member.process.stdout.readline()
    return said.decode().strip() == SEATED
