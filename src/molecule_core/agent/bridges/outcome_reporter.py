"""Reports outcomes of turns to the server until it has them: an answer, a failure or a stop, then the ack.

Used by all bridges. A report that is rejected for now, e.g. in a chain waiting for a person, delays only other reports
of its message.
"""

import asyncio
import logging
from collections.abc import Sequence

from msgspec.structs import replace

from molecule_core.agent.backoff import BackOff
from molecule_core.agent.bridges.outbox import Outbox, TurnOutcome, UnreportedUsage
from molecule_core.agent.client.auth_failures import is_caller_rejected, is_workspace_inaccessible
from molecule_core.agent.mailbox.cursors import LeaderFenced
from molecule_core.agent.mailbox.drafts import SILENT_TEXT, DraftReporter, is_answered, is_waiting_for_approval
from molecule_core.agent.mailbox.inbox import MergedInbox
from molecule_core.agent.mailbox.membership import Membership
from molecule_core.client.api import ApiError, NoAnswerError, expect_member, expect_type
from molecule_core.common.clock import Clock, to_rfc3339
from molecule_core.common.ids import Randomness

_log = logging.getLogger("molecule.bridge")
_FIRST_WAIT, _LONGEST_WAIT = 0.2, 30.0
# A 403 without a code comes from a proxy before the server, not from the server itself.
_FORBIDDEN = 403
_SERVER_ERROR = 500
_END_WORDS = {"failed": "failed", "interrupted": "was interrupted", "stopped": "was stopped"}
# Rows of the agent's own log that are searched for a report that may have arrived.
_LOG_ROWS = 100


class OutcomeReporter:
    """Reporter of one workspace's outbox. `silent`: why a turn of this program has no final text."""

    def __init__(
        self,
        membership: Membership,
        inbox: MergedInbox,
        outbox: Outbox,
        *,
        clock: Clock,
        randomness: Randomness,
        silent: str,
    ) -> None:
        self._membership = membership
        self._inbox = inbox
        self._outbox = outbox
        self._clock = clock
        self._randomness = randomness
        self._silent = f"{SILENT_TEXT}: {silent}"
        self._drafts = DraftReporter(membership)
        self._has_outcomes = asyncio.Event()

    def add_outcome(self, outcome: TurnOutcome) -> None:
        """Store an outcome and report it soon. Raises OSError."""
        self._outbox.add_outcome(outcome)
        self._has_outcomes.set()

    def add_usage(self, report: UnreportedUsage) -> None:
        """Store what a turn used and report it soon. Raises OSError."""
        self._outbox.add_usage(report)
        self._has_outcomes.set()

    async def run(self) -> None:
        """Report the outbox until cancelled."""
        back_off = BackOff(_FIRST_WAIT, _LONGEST_WAIT, self._randomness)
        while True:
            self._has_outcomes.clear()
            if not self._outbox.outcomes and not self._outbox.usage_reports:
                await self._has_outcomes.wait()
                continue
            if await self._report_all():
                back_off.reset()
            else:
                await self._clock.wait(self._has_outcomes.wait(), back_off.next_delay())

    async def _report_all(self) -> bool:
        """Report each outcome and all usage once; return whether everything was accepted."""
        has_reported_outcomes = await self._report_outcomes(self._outbox.outcomes)
        return await self._report_usage() and has_reported_outcomes

    async def _report_outcomes(self, outcomes: Sequence[TurnOutcome]) -> bool:
        """Report each outcome once; return whether all were accepted."""
        unreported: set[str] = set()
        for outcome in outcomes:
            if outcome.activity_id in unreported:
                continue
            try:
                await self.report_outcome(outcome)
            except (NoAnswerError, ApiError) as error:
                _log.warning("the outcome of message %s cannot be reported yet: %s", outcome.activity_id, error)
                unreported.add(outcome.activity_id)
                if isinstance(error, NoAnswerError) or error.status >= _SERVER_ERROR:
                    break  # the others would fail too
        return not unreported

    async def _report_usage(self) -> bool:
        """Report the usage of each turn, the same one perhaps again; return whether the server has all of it."""
        token = self._membership.requester.token
        for report in self._outbox.usage_reports:
            try:
                await self._membership.api().post(f"/workspaces/{self._membership.id}/usage", _usage_body(report))
            except (NoAnswerError, ApiError) as error:
                if isinstance(error, NoAnswerError) or await self._is_transient(error, token):
                    _log.warning("the usage of message %s cannot be reported yet: %s", report.activity_id, error)
                    return False
                _log.warning("the server rejected the usage of message %s: %s", report.activity_id, error)
            self._outbox.remove_usage(report)
        return True

    async def flush_outcomes(self) -> None:
        """Report the remaining outcomes and usage once."""
        await self._report_all()

    async def report_outcome(self, outcome: TurnOutcome) -> None:
        """Report one outcome; an answer that the server rejects is reported as a failure.

        Raises ApiError and NoAnswerError if it must be reported again.
        """
        token = self._membership.requester.token
        if outcome.usage or outcome.tools:
            outcome = await self._log_usage(outcome, token)
        try:
            if outcome.kind == "stopped" and outcome.handle:
                await self._decline_stopped(outcome)
            elif outcome.kind != "said":
                await self._report_failure(outcome)
            elif outcome.text:
                await self._post_draft(outcome)
            elif outcome.request and not await is_answered(self._membership, outcome.activity_id):
                self._outbox.add_outcome(replace(outcome, kind="failed", text=self._silent))
        except ApiError as error:
            if await self._is_transient(error, token):
                raise
            _log.warning("the server rejected the outcome of message %s: %s", outcome.activity_id, error)
            if outcome.kind == "said":
                self._outbox.add_outcome(replace(outcome, kind="failed", text=f"its answer was rejected ({error})"))
        if outcome.kind != "interrupted":
            await self.ack_message(outcome.activity_id, outcome.attempt)
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
        """Post the final text as the answer; posting twice sends it once."""
        if not outcome.request:
            _log.info("message %s needs no answer; the output of the program is dropped", outcome.activity_id)
            return
        state = await self._drafts.post_draft(outcome.activity_id, outcome.text, outcome.covers)
        _log.info("message %s: %s", outcome.activity_id, state)

    async def _decline_stopped(self, outcome: TurnOutcome) -> None:
        """Decline a message whose turn a person stopped, so that no reminder starts it again; repeatable."""
        body = {"handle": outcome.handle, "reason": outcome.text}
        await self._membership.api().post(f"/workspaces/{self._membership.id}/decline", body)

    async def _log_usage(self, outcome: TurnOutcome, token: str) -> TurnOutcome:
        """Log what a turn used and called, and return the outcome without it.

        A rejected entry is dropped, and the answer is not. A response that was lost may log it twice, with the
        same activity id and run. Raises ApiError, NoAnswerError."""
        used = ", ".join(f"{name} {value:g}" for name, value in (*outcome.usage.items(), *outcome.tools.items()))
        entry = {
            "activity_type": "agent_log",
            "method": "bridge",
            "summary": f"A turn used: {used}",
            "duration_ms": int(outcome.seconds * 1000),
            "request_body": {
                "activity_id": outcome.activity_id,
                "run": outcome.run,
                "usage": outcome.usage,
                "usage_key": outcome.usage_key,
                "tools": outcome.tools,
            },
        }
        try:
            await self._membership.api().post(f"/workspaces/{self._membership.id}/activity", entry)
        except ApiError as error:
            if await self._is_transient(error, token):
                raise
            _log.warning("the usage of message %s is not logged: %s", outcome.activity_id, error)
        self._outbox.clear_usage(outcome)
        return replace(outcome, usage={}, tools={})

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

    async def ack_message(self, activity_id: str, attempt: int) -> None:
        """Acknowledge a message; the membership retries if the server is unreachable."""
        held_attempts = [each.message.attempt for each in self._inbox.find_entries(activity_id, self._membership.id)]
        try:
            await self._membership.ack_message(activity_id, max([attempt, *held_attempts]))
        except LeaderFenced:
            _log.warning("message %s may be delivered again: another process is the leader now", activity_id)


def _usage_body(report: UnreportedUsage) -> dict[str, object]:
    return {
        "key": report.key,
        "activity_id": report.activity_id,
        "model": report.model or None,
        "input_tokens": report.input_tokens,
        "cached_tokens": report.cached_tokens,
        "output_tokens": report.output_tokens,
        "cost_micros": report.cost_micros,
        "currency": "USD",
        "at": to_rfc3339(report.at),
    }
