"""The bridge of `molecule bridge command`: runs a program for each message of a workspace and reports the outcome.

The final text is posted as the answer, a failure as an error in the agent's own log. The server decides whether an
answer is due: a program that answered by a tool has already closed the message.
"""

import asyncio
from collections.abc import Mapping
from typing import Protocol

from molecule_core.agent.async_utils import sleep
from molecule_core.agent.bridges.outbox import Outbox, TurnOutcome
from molecule_core.agent.bridges.outcome_reporter import OutcomeReporter
from molecule_core.agent.bridges.process_runner import TurnResult
from molecule_core.agent.bridges.program_input import message_variables, program_input
from molecule_core.agent.bridges.settings import BridgeSettings
from molecule_core.agent.mailbox.inbox import EntryKey, InboxEntry, MergedInbox
from molecule_core.agent.mailbox.membership import Membership, MembershipState
from molecule_core.common.clock import Clock
from molecule_core.common.ids import Randomness

_POLL_SECONDS = 0.2
_SILENT = "the program printed nothing and replied with no command"


class ProgramRunner(Protocol):
    """Runner of a program for messages."""

    async def run(self, slot: str, stdin_data: bytes, variables: Mapping[str, str]) -> TurnResult:
        """Run one turn; `slot`: one of the parallel slots. Raises OSError."""

    async def close(self) -> None:
        """End all running programs."""


class CommandBridge:
    """Bridge between one workspace and one command."""

    def __init__(
        self,
        membership: Membership,
        inbox: MergedInbox,
        outbox: Outbox,
        runner: ProgramRunner,
        *,
        clock: Clock,
        randomness: Randomness,
        settings: BridgeSettings,
        preamble: bool = False,
    ) -> None:
        self._membership = membership
        self._inbox = inbox
        self._outbox = outbox
        self._runner = runner
        self._clock = clock
        self._settings = settings
        self._preamble = preamble
        self._busy: set[EntryKey] = set()
        self.reporter = OutcomeReporter(membership, inbox, outbox, clock=clock, randomness=randomness, silent=_SILENT)

    async def run(self) -> None:
        """Work until cancelled; running turns are then ended, and reported if that is possible soon.

        Raises DamagedOutboxError, OSError.
        """
        while self._membership.state != MembershipState.LEADING:  # only the leader reads messages and writes the outbox
            await sleep(self._clock, _POLL_SECONDS)
        self._outbox.load()
        workers = [self._work_loop(f"{self._membership.id}_{number}") for number in range(self._settings.parallel)]
        tasks = [asyncio.ensure_future(each) for each in (*workers, self.reporter.run())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # -- turns ---------------------------------------------------------------------------------------------------------

    async def _work_loop(self, slot: str) -> None:
        while True:
            entry = await self._next_entry()
            self._busy.add(entry.key)
            try:
                await self._run_turn(slot, entry)
            finally:
                self._busy.discard(entry.key)

    async def _next_entry(self) -> InboxEntry:
        """Wait for the oldest message that is neither in work nor done."""
        while True:
            if len(self._outbox.outcomes) < self._settings.outbox_messages:
                for entry in self._inbox.entries():
                    if entry.key not in self._busy and not self._outbox.is_done(entry.message.activity_id):
                        return entry
            await self._clock.wait(self._inbox.wait_for_change(), 1.0)

    async def _run_turn(self, slot: str, entry: InboxEntry) -> None:
        message = entry.message
        self._inbox.mark_shown(entry)  # the heartbeat counts it as an active task
        run = self._outbox.begin_turn(message.activity_id)
        if run > self._settings.runs:
            self._record_end(
                entry, run, TurnResult(reason=f"{self._settings.runs} turns were started and none finished"), 0
            )
            return
        started = self._clock.monotonic()
        stdin_data, variables = program_input(message, preamble=self._preamble), message_variables(message, run)
        try:
            result = await self._runner.run(slot, stdin_data, variables)
        except asyncio.CancelledError:
            self._outbox.add_outcome(
                TurnOutcome(activity_id=message.activity_id, kind="interrupted", run=run, text="the bridge was stopped")
            )
            raise
        self._record_end(entry, run, result, self._clock.monotonic() - started)

    def _record_end(self, entry: InboxEntry, run: int, result: TurnResult, seconds: float) -> None:
        message = entry.message
        self.reporter.add_outcome(
            TurnOutcome(
                activity_id=message.activity_id,
                kind="failed" if result.reason else "said",
                run=run,
                text=result.reason or result.text,
                attempt=message.attempt,
                request=message.wants_answer,
                seconds=seconds,
            )
        )
