"""Models that work with a real `molecule mcp`, each in a manner of its own, and the process that they speak through.

The process may be killed at any moment; another one begins on the same folder, and the model, which remembers what it
has begun, goes on with that one. Above: hosts. Below: what was shown (shown.py), the command as its host sees it.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from proofs.harness.serving import Place
from proofs.harness.settings import Setting
from proofs.workload.company import Seat, answer_to
from proofs.workload.host_model import Shown
from proofs.workload.observations import Book
from testing.mcp_host import Agent, agent

# Short, so that leases end while a model thinks, and what a dead process had on its way comes again soon.
_LEASE_SECONDS = 2
_WISHES = {
    "MOLECULE_MCP_LEASE_SECONDS": str(_LEASE_SECONDS),
    "MOLECULE_MCP_HOLD_SECONDS": "1",
    "MOLECULE_MCP_CHANNEL_DELAY_SECONDS": "0.1",
    # A channel pushes again what nobody has named: here no push may come twice, so it is far away.
    "MOLECULE_MCP_REPUSH_SECONDS": "86400",
    "MOLECULE_MCP_REPUSH_MOST_SECONDS": "86400",
}
_WAIT_SECONDS, _IDLE_SECONDS = 20, 1
_THINKS_SECONDS = (0.0, 0.3)
# Now and then a model thinks for longer than a lease: what it holds is handed out again, and must not be shown again.
_LONG, _LONG_SECONDS = 0.2, (_LEASE_SECONDS + 1.0, _LEASE_SECONDS + 2.0)
# Who answers later does so when what it has acknowledged would long have come again, had nobody kept that.
_LATER_SECONDS = _LEASE_SECONDS * 2.5
# So often an answer is given again until it is acknowledged too; each time the server has answered.
_TRIES = 20
_CHANNEL = "notifications/claude/channel"
_NO_ANSWER = "no_answer"


class Heard(Struct):
    """A message that a model has to answer."""

    id: str
    inbox: str


class Mind:
    """One model: it takes messages, and handles each in its manner."""

    host = "test"
    """What the program that it runs in calls itself."""
    most_open = 6
    """So much is sent to it before it has answered."""

    def __init__(self, place: int, seats: Sequence[Seat], setting: Setting, server: Place, book: Book, shown: Shown):
        self.place = place
        self.seats = seats
        self._setting = setting
        self._server = server
        self._book = book
        self._shown = shown
        self._dice = setting.dice("mind", place)
        self._folder = setting.folder / f"agent-{place}"
        self._life = contextlib.AsyncExitStack()
        self._agent: Agent | None = None
        self._working: asyncio.Task[None] | None = None
        self._born = 0.0
        """When this life began."""

    # -- the process ---------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Another process, on the folder that the last one left."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        own = {**_WISHES, **self._places(), "PYTHONPATH": self._setting.python_path()}
        self._agent = await self._life.enter_async_context(agent(self._folder, **own))
        self._working = asyncio.create_task(self._live(self._agent))

    def _places(self) -> dict[str, str]:
        """What it is told of its seats: several are a list."""
        url = f"http://127.0.0.1:{self._server.port}"
        if len(self.seats) == 1:
            (seat,) = self.seats
            return {"WORKSPACE_ID": seat.id, "MOLECULE_WORKSPACE_TOKEN": seat.token, "PLATFORM_URL": url}
        entries = [{"id": seat.id, "token": seat.token, "platform_url": url} for seat in self.seats]
        return {"MOLECULE_WORKSPACES": json.dumps(entries)}

    async def kill(self) -> None:
        """SIGKILL, in the middle of what it does. What it had said by then was said."""
        assert self._agent is not None
        self._look()
        await self._agent.kill()
        self._hear(self._agent)
        self._shown.die(self.place)
        await self.close()

    async def leave(self, seconds: float) -> None:
        """The host closes its end, and the process ends in order."""
        assert self._agent is not None
        self._look()
        self._agent.close()
        try:
            async with asyncio.timeout(seconds):
                code = await self._agent.ended()
        except TimeoutError:
            self._book.fault("unclean ends", f"agent {self.place} does not end with its host")
        else:
            if code:
                self._book.fault("unclean ends", f"agent {self.place}: exit code {code}")
        await self.close()

    async def close(self) -> None:
        """Ends the process if it still runs, and then the model: what it has asked may be answered until then."""
        await self._life.aclose()
        if self._working is not None:
            self._working.cancel()
            await asyncio.gather(self._working, return_exceptions=True)

    def _look(self) -> None:
        """A model that left by itself has lost its process, or got what nobody should get."""
        if self._working is not None and self._working.done():
            why = "its process ended" if self._working.cancelled() else repr(self._working.exception())
            self._book.fault("unclean ends", f"agent {self.place}: {why}")

    # -- the model -----------------------------------------------------------------------------------------------------

    @property
    def owes(self) -> bool:
        """Whether it has begun something that it has not brought to its end."""
        return False

    async def _live(self, process: Agent) -> None:
        """One life of the process, from the handshake on."""
        await process.greet(self.host)
        self._born = time.monotonic()
        self._note("greeted")
        while True:
            await self._step(process)

    async def _step(self, process: Agent) -> None:
        """The next thing that it does."""
        raise NotImplementedError

    def _hear(self, process: Agent) -> None:
        """Takes in what was pushed since it looked last."""

    async def _think(self, seconds: tuple[float, float] = _THINKS_SECONDS) -> None:
        await self._book.progress.after("nothing", 1, seconds=self._dice.uniform(*seconds))

    async def _next(self, process: Agent, seconds: float) -> Heard | None:
        """Waits for a message as a model does that nobody pushes to."""
        found = await self._call(process, "wait_for_message", timeout_secs=seconds)
        message = found.get("message")
        if message is None:
            return None
        heard = Heard(message["activity_id"], message.get("arrival_workspace_id") or self.seats[0].id)
        self._saw(heard, message["text"])
        return heard

    def _saw(self, heard: Heard, text: str) -> None:
        self._shown.show(self.place, heard.id, heard.inbox, text)
        self._note("shown")

    def _handled(self, heard: Heard) -> None:
        self._shown.handle(self.place, heard.id)
        self._note("handled")

    def _note(self, what: str) -> None:
        self._book.progress.note(what)
        self._book.progress.note(f"{what} {self.place}")

    async def _answer(self, process: Agent, heard: Heard) -> None:
        """Answers a message, until it is acknowledged too."""
        for _ in range(_TRIES):
            words = {"text": answer_to(heard.id), "activity_id": heard.id, "workspace_id": heard.inbox}
            told = await self._call(process, "reply_to_workspace", **words)
            if told:
                self._shown.answer(heard.id)
            if told.get("acknowledged"):
                self._handled(heard)
                self._note("answered")
                return
        self._book.fault("refused", f"nobody acknowledges {heard}")

    async def _call(self, process: Agent, tool: str, **arguments: Any) -> dict[str, Any]:
        """What a tool gives, asked for until there is an answer; nothing if it is refused."""
        while True:
            self._note("called")
            result = await process.request("tools/call", {"name": tool, "arguments": arguments})
            if not result["isError"]:
                given: dict[str, Any] = result["structuredContent"]
                return given
            if result["_meta"]["molecule/code"] != _NO_ANSWER:
                self._book.fault("refused", f"{tool} {arguments}: {result['content']}")
                return {}
            self._book.figures["calls of tools cut"] += 1
            await self._server.up.wait()


class Answering(Mind):
    """Takes one message after the other and answers it; the answer acknowledges it. What it was at when its process
    died it takes up when it is shown again, or when there is nothing else: its answer may have been taken."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._begun: dict[str, Heard] = {}

    @property
    def owes(self) -> bool:
        return bool(self._begun)

    async def _step(self, process: Agent) -> None:
        heard = await self._next(process, _IDLE_SECONDS if self._begun else _WAIT_SECONDS)
        if heard is not None:
            self._begun[heard.id] = heard
            await self._think()
        for each in [*self._begun.values()] if heard is None else [heard]:
            await self._answer(process, each)
            del self._begun[each.id]


class Acknowledging(Mind):
    """Acknowledges each message when it has read it, also while the server is away, and answers all of them later: what
    it has acknowledged must not come again, whoever has died meanwhile."""

    most_open = 16

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._owed: dict[str, Heard] = {}
        self._since = 0.0
        """When it began to owe."""

    @property
    def owes(self) -> bool:
        return bool(self._owed)

    async def _step(self, process: Agent) -> None:
        heard = await self._next(process, _IDLE_SECONDS)
        if heard is not None:
            self._since = self._since if self._owed else time.monotonic()
            self._owed[heard.id] = heard
            await self._think()
            if await self._call(process, "inbox_pop", activity_id=heard.id, workspace_id=heard.inbox):
                self._handled(heard)
        if time.monotonic() > max(self._born, self._since) + _LATER_SECONDS:
            for each in [*self._owed.values()]:
                await self._answer(process, each)
                del self._owed[each.id]


class Listening(Mind):
    """Is pushed to, as the host has a channel. Whoever writes to it waits for the answer, so that no more than one
    message is under way when it dies."""

    host = "claude-code"
    most_open = 1

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._owed: dict[str, Heard] = {}
        self._read: tuple[Agent | None, int] = (None, 0)
        """How many of the notifications of which process it has taken in."""

    @property
    def owes(self) -> bool:
        return bool(self._owed)

    async def _step(self, process: Agent) -> None:
        self._hear(process)
        heard = next(iter(self._owed.values()), None)
        if heard is None:
            read = len(process.notifications)
            with contextlib.suppress(TimeoutError):
                await process.until(lambda each: len(each.notifications) > read)
            return
        await (self._think(_LONG_SECONDS) if self._dice.random() < _LONG else self._think())
        await self._answer(process, heard)
        del self._owed[heard.id]

    def _hear(self, process: Agent) -> None:
        begin = self._read[1] if self._read[0] is process else 0
        self._read = (process, len(process.notifications))
        for told in process.notifications[begin:]:
            if told["method"] == _CHANNEL:
                meta = told["params"]["meta"]
                heard = Heard(meta["activity_id"], self.seats[0].id)
                self._owed[heard.id] = heard
                self._saw(heard, told["params"]["content"])
