"""The bridge of `molecule bridge command`: runs a program for each message of a workspace and reports the outcome.

The final text is posted as the draft answer, a failure as an error in the agent's own log. The server decides whether a
draft is due: a program that answered by a tool has already closed the message.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec.structs import replace

from molecule_core.agent.async_utils import sleep
from molecule_core.agent.backoff import BackOff
from molecule_core.agent.bridges.outbox import Outbox, TurnOutcome
from molecule_core.agent.bridges.process_runner import TurnResult
from molecule_core.agent.bridges.program_input import message_variables, program_input
from molecule_core.agent.bridges.settings import BridgeSettings
from molecule_core.agent.client.auth_failures import is_caller_rejected, is_workspace_inaccessible
from molecule_core.agent.mailbox.cursors import LeaderFenced
from molecule_core.agent.mailbox.drafts import DraftReporter, is_waiting_for_approval
from molecule_core.agent.mailbox.inbox import EntryKey, InboxEntry, MergedInbox
from molecule_core.agent.mailbox.membership import Membership
from molecule_core.client.api import ApiError, NoAnswerError, expect_member, expect_type
from molecule_core.common.clock import Clock
from molecule_core.common.ids import Randomness

_log = logging.getLogger("molecule.bridge")
_FIRST_WAIT, _LONGEST_WAIT = 0.2, 30.0
# A 403 without a code comes from a proxy before the server, not from the server itself.
_FORBIDDEN = 403
_SERVER_ERROR = 500
_POLL_SECONDS = 0.2
_END_WORDS = {"failed": "failed", "interrupted": "was interrupted"}
# Rows of the agent's own log that are searched for a report that may have arrived.
_LOG_ROWS = 100


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
        self._randomness = randomness
        self._settings = settings
        self._preamble = preamble
        self._drafts = DraftReporter(membership)
        self._busy: set[EntryKey] = set()
        self._has_outcomes = asyncio.Event()

    async def run(self) -> None:
        """Work until cancelled; running turns are then ended, and reported if that is possible soon.

        Raises DamagedOutboxError, OSError.
        """
        while self._membership.state != "leading":  # only the leader reads messages and writes the outbox
            await sleep(self._clock, _POLL_SECONDS)
        self._outbox.load()
        workers = [self._work_loop(f"{self._membership.id}_{number}") for number in range(self._settings.parallel)]
        tasks = [asyncio.ensure_future(each) for each in (*workers, self._report_loop())]
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
        entry.is_shown = True  # the heartbeat counts it as an active task
        run = self._outbox.begin_turn(message.activity_id)
        if run > self._settings.runs:
            self._record_end(
                entry, run, TurnResult(reason=f"{self._settings.runs} turns were begun and none came to its end"), 0
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
        self._outbox.add_outcome(
            TurnOutcome(
                activity_id=message.activity_id,
                kind="failed" if result.reason else "said",
                run=run,
                text=result.reason or result.text,
                attempt=message.attempt,
                request=message.intent == "request",
                seconds=seconds,
            )
        )
        self._has_outcomes.set()

    # -- reports to the server -----------------------------------------------------------------------------------------

    async def _report_loop(self) -> None:
        """Report the outbox to the server until it is empty.

        A report that is rejected for now, e.g. in a chain waiting for a person, delays only other reports of its
        message.
        """
        back_off = BackOff(_FIRST_WAIT, _LONGEST_WAIT, self._randomness)
        while True:
            self._has_outcomes.clear()
            outcomes = self._outbox.outcomes
            if not outcomes:
                await self._has_outcomes.wait()
                continue
            if await self._report_all(outcomes):
                back_off.reset()
            else:
                await self._clock.wait(self._has_outcomes.wait(), back_off.next_delay())

    async def _report_all(self, outcomes: Sequence[TurnOutcome]) -> bool:
        """Report each outcome once; return whether all were accepted."""
        unreported: set[str] = set()
        for outcome in outcomes:
            if outcome.activity_id in unreported:
                continue
            try:
                await self.report_outcome(outcome)
            except (NoAnswerError, ApiError) as error:
                _log.warning("what became of message %s cannot be told yet: %s", outcome.activity_id, error)
                unreported.add(outcome.activity_id)
                if isinstance(error, NoAnswerError) or error.status >= _SERVER_ERROR:
                    break  # the others would fail too
        return not unreported

    async def flush_outcomes(self) -> None:
        """Report the remaining outcomes once."""
        await self._report_all(self._outbox.outcomes)

    async def report_outcome(self, outcome: TurnOutcome) -> None:
        """Report one outcome; an answer that the server rejects is reported as a failure.

        Raises ApiError and NoAnswerError if it must be reported again.
        """
        token = self._membership.requester.token
        try:
            if outcome.kind != "said":
                await self._report_failure(outcome)
            elif outcome.text:
                await self._post_draft(outcome)
        except ApiError as error:
            if await self._is_transient(error, token):
                raise
            _log.warning("the server does not take what became of message %s: %s", outcome.activity_id, error)
            if outcome.kind == "said":
                self._outbox.add_outcome(replace(outcome, kind="failed", text=f"its answer was not taken ({error})"))
        if outcome.kind != "interrupted":
            await self._ack_message(outcome)
        self._outbox.remove_outcome(outcome)

    async def _is_transient(self, error: ApiError, token: str) -> bool:
        """Return whether a repetition may succeed.

        True for transient errors, pending approvals, and a token that is being replaced or was replaced since the call
        was made with `token`.
        """
        membership = self._membership
        is_foreign = error.status == _FORBIDDEN and not error.code
        if (
            error.is_transient
            or is_foreign
            or is_waiting_for_approval(error)
            or is_caller_rejected(error)
            or token != membership.requester.token
        ):
            return True
        return await is_workspace_inaccessible(error, membership.api(), membership.id)

    async def _post_draft(self, outcome: TurnOutcome) -> None:
        """Post the final text as a draft; posting twice stores and sends it once."""
        if not outcome.request:
            _log.info("message %s wants no answer; what the program said is left out", outcome.activity_id)
            return
        state = await self._drafts.post_draft(outcome.activity_id, outcome.text)
        _log.info("message %s: %s", outcome.activity_id, state)

    async def _report_failure(self, outcome: TurnOutcome) -> None:
        """Report a failure in the agent's own log, unless an earlier try has already arrived."""
        request_body = {"activity_id": outcome.activity_id, "run": outcome.run, "kind": outcome.kind}
        path = f"/workspaces/{self._membership.id}/activity"
        if outcome.tried:
            rows = expect_type(await self._membership.api().get(path, type="error", limit=_LOG_ROWS), list)
            if any(isinstance(row, dict) and row.get("request_body") == request_body for row in rows):
                return
        self._outbox.mark_tried(outcome)
        entry = {
            "activity_type": "error",
            "method": "bridge",
            "status": "error",
            "summary": f"A turn {_END_WORDS[outcome.kind]}: {outcome.text}",
            "error_detail": outcome.text,
            "duration_ms": int(outcome.seconds * 1000),
            "request_body": request_body,
        }
        expect_member(await self._membership.api().post(path, entry), "status", str)
        _log.warning("message %s, turn %s: %s", outcome.activity_id, outcome.run, outcome.text)

    async def _ack_message(self, outcome: TurnOutcome) -> None:
        """Acknowledge the message; the membership retries if the server is unreachable."""
        held_attempts = [
            each.message.attempt for each in self._inbox.find_entries(outcome.activity_id, self._membership.id)
        ]
        try:
            await self._membership.ack_message(outcome.activity_id, max([outcome.attempt, *held_attempts]))
        except LeaderFenced:
            _log.warning("message %s may come once more: another process leads now", outcome.activity_id)
