"""`molecule agent run`: an agent of our own, from its folder to its exit code.

Above: the command line. Below: driving, mailing, the prompt, and what keeps a seat.
"""

import asyncio
import logging
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from molecule_core.agent.backoff import BackOff
from molecule_core.agent.config import BadConfiguration, Configuration
from molecule_core.agent.engine import Engine
from molecule_core.agent.engines.conversations import Conversations, errand_in, is_settled
from molecule_core.agent.engines.decisions import Decisions
from molecule_core.agent.engines.driven import Driven
from molecule_core.agent.engines.driving import ASKS, Driver, Hands
from molecule_core.agent.engines.leave import Gate
from molecule_core.agent.engines.mailing import Mailroom
from molecule_core.agent.engines.models import NoModel
from molecule_core.agent.engines.opening import Opener
from molecule_core.agent.engines.patience import Patience, Patient
from molecule_core.agent.engines.sampling import Sampler
from molecule_core.agent.engines.settings import RunConfig, read_run_config
from molecule_core.agent.engines.tooling import Call, Toolbox
from molecule_core.agent.gathering import Failed, Gatherer
from molecule_core.agent.membership import REMOVED, Membership
from molecule_core.agent.neutral import line
from molecule_core.agent.prompt import Prompt
from molecule_core.agent.rebuilding import Rebuilder, Rebuilt
from molecule_core.agent.refusals import is_about_seat
from molecule_core.agent.waiting import at_eof
from molecule_core.client.api import ApiError
from molecule_core.client.threads import Threads
from molecule_core.ground.clock import SystemClock
from molecule_core.ground.ids import Ids, SystemRandomness
from molecule_core.ground.version import VERSION
from molecule_core.wire import collaborating
from molecule_core.wire.collaborating import From
from molecule_core.wire.mcp import Calling, Outcome
from molecule_core.wire.toolspec import IDENTITY, ToolError, ToolSpec

_log = logging.getLogger("molecule.engine")
STOPPED, FAILED, REFUSED = 0, 1, 3
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_LOOK_SECONDS, _FULL_SECONDS, _LONGEST_SECONDS = 0.2, 1.0, 30.0


async def run(
    config: Configuration, folder: Path, environ: Mapping[str, str], *, once: bool, until_eof: bool = False
) -> int:
    """Works until a signal comes, or, `once`, until nothing is left to be done, or, `until_eof`, until standard input
    ends; returns the exit code. Raises BadConfiguration."""
    if len(config.seats) != 1:
        ids = ", ".join(seat.id for seat in config.seats)
        raise BadConfiguration(f"an agent of one folder sits in one workspace, and there are several: {ids}")
    agent = Agent(config, read_run_config(folder), folder, environ)
    agent.check()
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, agent.ends, STOPPED)
    if until_eof:
        await at_eof(lambda: agent.ends(STOPPED))
    return await agent.run(once=once)


class Agent:
    """One folder, one workspace."""

    def __init__(self, config: Configuration, own: RunConfig, folder: Path, environ: Mapping[str, str]) -> None:
        self._own = own
        self._folder = folder
        self._clock = clock = SystemClock()
        self._randomness = randomness = SystemRandomness()
        ids = Ids(clock, randomness)
        self._opener = Opener(folder, environ, own)
        self._toolbox = Toolbox(own.tools, self, self._collab, gave=self._gave, most_bytes=own.tool_output_bytes)
        self._engine = Engine(
            config,
            clock=clock,
            card=self._card,
            client=lambda: {"name": "molecule-agent", "version": VERSION},
            lost=self._lost,
            tools=self._toolbox.names,
        )
        self._seat: Membership = next(iter(self._engine.seats))
        self._patience = Patience(clock, randomness, self._is_about_seat)
        self._patient = Patient(self._patience, self._seat.requests)
        self._threads = Threads(self._seat.api, self._seat.id)
        self._decisions = Decisions()
        self._conversations = Conversations(config.state, self._seat.id)
        self._gate = Gate(
            own.approval_rules,
            self._patient,
            self._seat.id,
            clock=clock,
            wait_seconds=own.approval_wait_seconds,
            asked=self._conversations.expects,
            decisions=self._decisions,
        )
        sampler = Sampler(
            clock=clock,
            ids=ids,
            randomness=randomness,
            tries=own.tries,
            seconds=own.sampling_seconds,
            parallel=own.parallel,
        )
        self._mail = Mailroom(
            self._seat,
            self._engine.inbox,
            self._threads,
            self._conversations,
            self._decisions,
            patience=self._patience,
            most_tokens=own.budget.thread,
            settings={"model": own.model, **({"effort": own.effort} if own.effort else {})},
        )
        hands = Hands(self._threads, self._opener, sampler, self._toolbox, self._gate, self._patience, ids, own)
        self._owner = _owner(config.state, ids)
        driver = Driver(hands, self._owner, prompt=lambda: self._prompt, ended=self._mail.ended)
        self._driven = Driven(driver.drive, clock=clock, randomness=randomness)
        self._prompt: Prompt | None = None
        self._told = asyncio.Event()
        self._looked = False
        """It is known what an earlier life has left."""
        self._end: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def check(self) -> None:
        """Raises BadConfiguration if its model cannot be opened: better now than with the first message."""
        try:
            self._opener.open(self._own.model)
        except NoModel as error:
            raise BadConfiguration(str(error)) from None

    def ends(self, code: int) -> None:
        """The agent is to end."""
        if not self._end.done():
            self._end.set_result(code)

    async def run(self, *, once: bool) -> int:
        """Works; returns the exit code."""
        self._engine.seats.start()
        works = [asyncio.ensure_future(each) for each in (self._build(), self._live(once))]
        for each in works:
            each.add_done_callback(self._over)
        code = await self._end
        ending = [*works, *self._driven.tasks]
        for each in ending:
            each.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        await self._engine.stop()
        await self._opener.close()
        return code

    def _over(self, work: "asyncio.Future[None]") -> None:
        if work.cancelled():
            return
        error = work.exception()
        if isinstance(error, ApiError) and error.code == REMOVED:
            self._lost(f"workspace {self._seat.id} was removed by its operator")
        elif error is not None:
            _log.error("the agent cannot go on", exc_info=error)
        self.ends(STOPPED if error is None else FAILED)

    def _lost(self, text: str) -> None:
        """Its only seat is gone for good."""
        if not self._end.done():
            _log.error("%s", text)
        self.ends(REFUSED)

    async def _is_about_seat(self, error: ApiError) -> bool:
        return await is_about_seat(error, self._seat.api(), self._seat.id)

    def _card(self) -> dict[str, Any]:
        told = {"name": self._own.name, "description": self._own.description}
        return {name: value for name, value in told.items() if value}

    # -- the prompt ----------------------------------------------------------------------------------------------------

    async def _build(self) -> None:
        """Keeps the prompt current, and the server told."""
        await self._until_leading()
        gatherer = Gatherer(self._seat.requests, self._seat.id, clock=self._clock)

        async def told(new: Rebuilt) -> None:
            self._read_rules()
            await self._tell(gatherer, new)
            self._prompt = new.prompt
            self._told.set()

        rebuilder = Rebuilder(
            gatherer,
            self._folder,
            told,
            events=lambda: self._seat.api().events(),
            warned=lambda text: _log.warning("%s", line(text, 500)),
            clock=self._clock,
            randomness=self._randomness,
        )
        await rebuilder.run()

    def _read_rules(self) -> None:
        """The hard stops are those that stand in the file now; as long as it cannot be read, those of before."""
        try:
            self._gate.rules = list(read_run_config(self._folder).approval_rules)
        except BadConfiguration as error:
            _log.warning("the approval rules stay as they were: %s", error)

    async def _tell(self, gatherer: Gatherer, new: Rebuilt) -> None:
        """A thread is born with the prompt that the server was told last, so it must know each."""
        build = new.prompt.build(new.trigger)
        for warning in build.warnings:
            _log.warning("%s", line(warning, 500))
        back_off = BackOff(_FULL_SECONDS, _LONGEST_SECONDS, self._randomness)
        while True:
            try:
                await gatherer.tell(build)
                return
            except Failed as error:
                _log.warning("the server does not know the prompt yet: %s", error)
                if isinstance(error.__cause__, ApiError) and not await self._patience.passes(error.__cause__):
                    return
            await self._patience.pause(back_off.next())

    # -- work ----------------------------------------------------------------------------------------------------------

    async def _until_leading(self) -> None:
        while self._seat.state != "leading":  # of several processes only the one that reads the mail works
            await self._patience.pause(_LOOK_SECONDS)

    async def _live(self, once: bool) -> None:
        await self._until_leading()
        await self._told.wait()
        _log.info("workspace %s: working with %s", self._seat.id, self._own.model)
        tasks = [asyncio.ensure_future(each) for each in (self._mail.run(), self._drive())]
        if once:
            tasks.append(asyncio.ensure_future(self._rest()))
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()
        finally:
            for each in tasks:
                each.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _drive(self) -> None:
        """Has every thread driven in which something is to be done: first what an earlier life has left."""
        while True:
            found = await self._work(0 if not self._looked else _HOLD_SECONDS)
            fresh = [each for each in found if each not in self._driven]
            for each in fresh:
                self._driven.begin(each)
            self._looked = True
            if found and not fresh:  # they wait for a turn that runs
                await self._driven.one_of(found, _FULL_SECONDS)

    async def _work(self, wait: int) -> list[str]:
        owner, own_too = self._owner, not self._looked
        return await self._patience.answer(lambda: self._threads.work(owner, wait=wait, own_too=own_too))

    def _rests(self) -> bool:
        return self._mail.idle and not self._driven.tasks

    async def _rest(self) -> None:
        """Until nothing waits and nothing is worked on."""
        await self._seat.looked.wait()
        while True:
            if self._looked and self._rests() and not await self._work(0) and self._rests():
                return
            await self._patience.pause(_LOOK_SECONDS)

    # -- tools ---------------------------------------------------------------------------------------------------------

    async def call(self, spec: ToolSpec, arguments: Struct, calling: Calling) -> Outcome:
        """Runs a tool of the registry. Raises ToolError."""
        if spec.name != ASKS:
            return await self._engine.call(spec, arguments, calling)
        with self._decisions.asking():
            outcome = await self._engine.call(spec, arguments, calling)
            self._decisions.told(str(outcome.structured.get("approval_id")), settled=is_settled(outcome.structured))
        return outcome

    async def _collab(self, thread_id: str, given: Struct, call_id: str) -> dict[str, Any]:
        """A tool about other threads; a wait is asked for again until it is over, however long the server holds it."""
        if getattr(given, IDENTITY) not in ("", self._seat.id):
            raise ToolError(f"you are workspace {self._seat.id}; leave via_workspace out", "wrong_workspace")
        by = From(self._seat.id, thread_id)
        return await collaborating.act(self._patient, by, given, call_id, clock=self._clock)

    def _gave(self, call: Call, told: dict[str, Any]) -> None:
        if not is_settled(told) and (errand := errand_in(call.tool, told)):
            self._conversations.expects(errand, call.thread_id)


_HOLD_SECONDS = 25


def _owner(state: Path, ids: Ids) -> str:
    """Who claims threads: the same after a restart, so that it need not wait for its own lease to end."""
    path = state / ".agent_owner"
    if not path.exists():
        fresh = path.with_name(f"{path.name}.tmp")
        handle = os.open(fresh, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(f"agent-{ids.new()}")
        fresh.replace(path)
    return path.read_text(encoding="utf-8").strip()
