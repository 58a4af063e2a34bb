"""Writes runners, their agents and requests to them. No other module changes their tables.

A request is a row that the runner claims, carries out and confirms. A runner that dies in between gets it again.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Any

import msgspec

from molecule_core.access.writer import AccessWriter
from molecule_core.common.clock import SECOND, Clock
from molecule_core.common.errors import CapacityExceeded, InvalidField, NotFound
from molecule_core.common.ids import IdGenerator
from molecule_core.common.limits import Limits
from molecule_core.common.text import truncate_line, validate_name
from molecule_core.org.reader import OrgReader
from molecule_core.runners import rules
from molecule_core.runners.errors import AgentHasRunner
from molecule_core.runners.model import (
    CHECK_ACTION,
    CHECK_CREATOR,
    STARTING_ACTIONS,
    Claims,
    CommandChecked,
    ConfirmedRequest,
    EndedTokens,
    EnrolledRunner,
    Runner,
    RunnerAgent,
    RunnerRequest,
    RunnerRequestDraft,
    request_key,
    runner_key,
)
from molecule_core.runners.reader import find_runner
from molecule_core.store.database import (
    Command,
    CommandSteps,
    JournalEvent,
    ReadQuery,
    StepRequest,
    Store,
    T,
    WriteSet,
)
from molecule_core.store.journal import org_key
from molecule_core.store.wakeups import Notifier, Poll
from molecule_core.wire.schemas.events import RunnersChangedPayload
from molecule_core.wire.schemas.runners import (
    CheckOutcome,
    ClaimedRunnerRequest,
    ConfirmRunnerRequestBody,
    RunnerReport,
)

_CLAIM_COUNT = 10
_REMOVED = "the runner that had to run the command was removed"


class RunnerWriter:
    """Writer of runners."""

    def __init__(
        self,
        store: Store,
        org: OrgReader,
        access: AccessWriter,
        wakeups: Notifier,
        *,
        clock: Clock,
        ids: IdGenerator,
        limits: Limits,
    ) -> None:
        self._store = store
        self._org = org
        self._access = access
        self._wakeups = wakeups
        self._clock = clock
        self._ids = ids
        self._limits = limits

    # -- operators -----------------------------------------------------------------------------------------------------

    async def enrol(self, org_id: str, name: str, by: str) -> EnrolledRunner:
        """Create a runner and its token. Raises InvalidName, CapacityExceeded."""
        valid_name, maximum = validate_name(name, self._limits.name_length), self._limits.runners
        runner = Runner(self._ids.new(), org_id, valid_name, by, self._clock.now(), None, RunnerReport())
        token = self._access.runner_tokens.new_token(org_id, runner.id)

        def decide() -> CommandSteps[EnrolledRunner]:
            if len((yield ReadQuery("runners_of_org", {"org_id": org_id}))) >= maximum:
                raise CapacityExceeded(what="runners of one organisation", most=maximum)
            row = {
                "id": runner.id,
                "org_id": org_id,
                "name": runner.name,
                "created_by": by,
                "created_at": runner.created_at,
                "report": msgspec.json.encode(runner.report).decode(),
            }
            inserted = WriteSet(EnrolledRunner(runner, token.result), [("insert_runner", row)])
            return inserted + token + _record_change(runner)

        return await self._run(org_id, decide)

    async def remove(self, org_id: str, runner_id: str) -> EndedTokens:
        """Remove a runner, and end its token and those of its agents. Raises NotFound."""

        def decide() -> CommandSteps[EndedTokens]:
            runner = yield from _load_runner(org_id, runner_id)
            agents = [RunnerAgent(*row) for row in (yield ReadQuery("agents_of_runner", {"runner_id": runner_id}))]
            token_hashes = [row[0] for row in (yield ReadQuery("token_of_runner", {"runner_id": runner_id}))]
            given = [each.token_hash for each in agents if each.token_hash]
            removed = WriteSet(
                EndedTokens((*token_hashes, *given)),
                [
                    ("remove_runner", {"id": runner_id, "now": self._clock.now()}),
                    *(("forget_runner_agent", {"workspace_id": each.workspace_id}) for each in agents),
                ],
                notify=(runner_key(runner_id),),
            )
            checks = yield ReadQuery("open_checks_of_runner", {"runner_id": runner_id, "now": self._clock.now()})
            for request in (RunnerRequest(*row) for row in checks):
                removed += _end_request(request, "failed", _REMOVED)
                removed += self._report_check(runner, request, _REMOVED, None)
            for token_hash in token_hashes:
                removed += self._access.runner_tokens.revoke_token(token_hash)
            return removed + self._access.runner_tokens.revoke_workspace_tokens(given) + _record_change(runner)

        return await self._run(org_id, decide)

    async def request(self, org_id: str, runner_id: str, draft: RunnerRequestDraft) -> RunnerRequest:
        """Request something of a runner. Raises NotFound, InvalidField, AgentHasRunner, CapacityExceeded."""
        now = self._clock.now()
        request = RunnerRequest(
            id=self._ids.new(),
            runner_id=runner_id,
            org_id=org_id,
            workspace_id=draft.workspace_id,
            action=draft.action,
            status="queued",
            text="",
            output="",
            created_by=draft.created_by,
            created_at=now,
            claimed_at=None,
            expires_at=now + self._limits.runner_request_seconds * SECOND,
        )

        def decide() -> CommandSteps[RunnerRequest]:
            runner = yield from _load_runner(org_id, runner_id)
            yield from self._check_open_requests(runner_id)
            agent = yield from _load_agent(draft.workspace_id)
            inserted = WriteSet(request, [("insert_runner_request", request)], notify=(runner_key(runner_id),))
            if draft.action in STARTING_ACTIONS:
                inserted += yield from self._decide_start(runner, request.id, draft, agent)
            elif agent is None or agent.runner_id != runner_id:
                raise NotFound(what="agent of this runner")
            return inserted + _record_change(runner)

        return await self._run(org_id, decide)

    def _check_open_requests(self, runner_id: str) -> Generator[StepRequest, Any, None]:
        params = {"runner_id": runner_id, "now": self._clock.now()}
        rows = yield ReadQuery("count_open_runner_requests", params)
        if rows[0][0] >= self._limits.runner_requests:
            raise CapacityExceeded(what="open requests to one runner", most=self._limits.runner_requests)

    def _decide_start(
        self, runner: Runner, request_id: str, draft: RunnerRequestDraft, agent: RunnerAgent | None
    ) -> CommandSteps[None]:
        """Return the agent to start. One whose start no runner has claimed is replaced."""
        valid = rules.check_start(draft, runner.report)
        if not self._org.is_active_in(valid.workspace_id, runner.org_id):
            raise NotFound(what="workspace")
        if agent is not None and agent.token_hash:
            other = yield ReadQuery("runner_by_id", {"id": agent.runner_id})
            raise AgentHasRunner(runner=other[0][2] if other else agent.runner_id)
        row = RunnerAgent(
            workspace_id=valid.workspace_id,
            runner_id=runner.id,
            org_id=runner.org_id,
            kind=valid.kind,
            folder=valid.folder,
            mode=valid.mode,
            request_id=request_id,
            token_hash="",
            created_at=self._clock.now(),
        )
        return WriteSet(None, [("save_runner_agent", row)])

    # -- the runner ----------------------------------------------------------------------------------------------------

    async def report(self, org_id: str, runner_id: str, report: RunnerReport) -> None:
        """Save what a runner is and runs. Raises NotFound, InvalidField."""
        encoded = msgspec.json.encode(report)
        if len(encoded) > self._limits.runner_report_bytes:
            raise InvalidField(
                reason=f"a report cannot have {len(encoded)} bytes. Use at most {self._limits.runner_report_bytes}."
            )

        def decide() -> CommandSteps[None]:
            runner = yield from _load_runner(org_id, runner_id)
            row = {"id": runner_id, "report": encoded.decode(), "now": self._clock.now()}
            saved = WriteSet(None, [("save_runner_report", row)])
            changed = runner.report != report or self._is_gone(runner)
            return saved + _record_change(runner) if changed else saved

        await self._run(org_id, decide)

    def _is_gone(self, runner: Runner) -> bool:
        return rules.is_gone(runner, self._clock.now(), self._limits.runner_silence_seconds)

    async def claim(self, org_id: str, runner_id: str, wait: float) -> Claims:
        """Claim requests, or wait for one. Raises NotFound once the runner is removed."""
        await self._save_seen(org_id, runner_id)

        async def poll() -> Poll[Claims]:
            if not await self._store.rows("runner_by_id", {"id": runner_id}):
                return Poll([])  # removed meanwhile: its next request is rejected
            if not await self._store.rows("claimable_runner_requests", self._claim_params(runner_id)):
                return Poll(None)
            return Poll(await self._run(org_id, lambda: self._decide_claim(org_id, runner_id)) or None)

        seconds = min(wait, self._limits.runner_silence_seconds / 2)
        return await self._wakeups.wait_until(runner_key(runner_id), poll, seconds) or []

    async def _save_seen(self, org_id: str, runner_id: str) -> None:
        def decide() -> CommandSteps[None]:
            runner = yield from _load_runner(org_id, runner_id)
            saved = WriteSet(None, [("save_runner_seen", {"id": runner_id, "now": self._clock.now()})])
            return saved + _record_change(runner) if self._is_gone(runner) else saved

        await self._run(org_id, decide)

    def _claim_params(self, runner_id: str) -> dict[str, Any]:
        now = self._clock.now()
        stale = now - self._limits.runner_lease_seconds * SECOND
        return {"runner_id": runner_id, "now": now, "stale": stale, "count": _CLAIM_COUNT}

    def _decide_claim(self, org_id: str, runner_id: str) -> CommandSteps[Claims]:
        runner = yield from _load_runner(org_id, runner_id)
        rows = yield ReadQuery("claimable_runner_requests", self._claim_params(runner_id))
        claims: Claims = []
        claimed = WriteSet(claims)
        for request in (RunnerRequest(*row) for row in rows):
            if request.action == CHECK_ACTION:
                claims.append(
                    ClaimedRunnerRequest(request.id, request.action, request.workspace_id, check=request.text)
                )
                claimed += self._mark_claimed(request)
                continue
            agent = yield from _load_agent(request.workspace_id)
            if agent is None or agent.runner_id != runner_id:
                claimed += _end_request(request, "failed", "the agent is not one of this runner any more")
            elif request.action not in STARTING_ACTIONS:
                claims.append(ClaimedRunnerRequest(request.id, request.action, request.workspace_id))
                claimed += self._mark_claimed(request)
            elif agent.request_id != request.id or not self._org.is_active_in(request.workspace_id, org_id):
                claimed += _end_request(request, "failed", "a later request has replaced this one")
            else:
                claimed += self._mark_claimed(request) + self._give_token(request, agent, claims)
        return claimed + _record_change(runner)

    def _mark_claimed(self, request: RunnerRequest) -> WriteSet[None]:
        return WriteSet(None, [("claim_runner_request", {"id": request.id, "now": self._clock.now()})])

    def _give_token(self, request: RunnerRequest, agent: RunnerAgent, claims: Claims) -> WriteSet[None]:
        """Issue a workspace token for an agent to start; one of an earlier claim ends."""
        issued = self._access.new_workspace_token(agent.org_id, agent.workspace_id)
        row = msgspec.structs.replace(agent, token_hash=issued.result.info.hash)
        workspace = self._org.workspace(agent.workspace_id)
        claims.append(
            ClaimedRunnerRequest(
                id=request.id,
                action=request.action,
                workspace_id=agent.workspace_id,
                kind=agent.kind,
                folder=agent.folder,
                mode=agent.mode,
                workspace_name="" if workspace is None else workspace.name,
                token=issued.result.token,
            )
        )
        earlier = (agent.token_hash,) if agent.token_hash else ()
        saved = WriteSet(None, [("save_runner_agent", row)])
        return saved + issued + self._access.runner_tokens.revoke_workspace_tokens(earlier)

    async def confirm(
        self, org_id: str, runner_id: str, request_id: str, outcome: ConfirmRunnerRequestBody
    ) -> ConfirmedRequest:
        """Save the outcome of a request. A repetition changes nothing. Raises NotFound.

        An agent that was stopped, or could not be started, loses its workspace token."""
        text = truncate_line(outcome.text, self._limits.short_text_length)
        output = rules.keep_end(outcome.output, self._limits.runner_log_bytes)

        def decide() -> CommandSteps[ConfirmedRequest]:
            runner = yield from _load_runner(org_id, runner_id)
            rows = yield ReadQuery("runner_request", {"id": request_id, "runner_id": runner_id})
            if not rows:
                raise NotFound(what="request")
            request = RunnerRequest(*rows[0])
            if request.ended:
                return WriteSet(ConfirmedRequest(request.status, EndedTokens()))
            if request.action == CHECK_ACTION:
                return self._confirm_check(runner, request, outcome, text)
            agent = yield from _load_agent(request.workspace_id)
            is_failed_start = request.action in STARTING_ACTIONS and outcome.status == "failed"
            is_end = is_failed_start or (request.action, outcome.status) == ("stop", "done")
            given: Sequence[str] = ()
            ended = _end_request(request, outcome.status, text, output)
            if is_end and agent is not None and agent.runner_id == runner_id:
                given = (agent.token_hash,) if agent.token_hash else ()
                ended += WriteSet(None, [("forget_runner_agent", {"workspace_id": agent.workspace_id})])
            result = ConfirmedRequest(outcome.status, EndedTokens(tuple(given)))
            revoked = self._access.runner_tokens.revoke_workspace_tokens(given)
            return ended.returning(result) + revoked + _record_change(runner)

        return await self._run(org_id, decide)

    def _confirm_check(
        self, runner: Runner, request: RunnerRequest, outcome: ConfirmRunnerRequestBody, text: str
    ) -> WriteSet[ConfirmedRequest]:
        """Save what a command found. Without an exit code it has failed: silence is no success."""
        check = outcome.check if outcome.status == "done" else None
        problem = "" if check is not None else text or "the runner did not say how the command ended"
        if check is not None:
            ended = rules.keep_end(check.output, self._limits.runner_log_bytes)
            check = msgspec.structs.replace(check, output=ended)
        confirmed = _end_request(request, outcome.status, text)
        result = ConfirmedRequest(outcome.status, EndedTokens())
        return confirmed.returning(result) + self._report_check(runner, request, problem, check)

    def _report_check(
        self, runner: Runner, request: RunnerRequest, problem: str, outcome: CheckOutcome | None
    ) -> WriteSet[None]:
        event = CommandChecked(
            id=request.id,
            delegation_id=request.created_by.removeprefix(CHECK_CREATOR),
            runner_id=runner.id,
            runner_name=runner.name,
            problem=problem,
            outcome=outcome,
            at=self._clock.now(),
        )
        return WriteSet(None, domain_events=[event])

    async def _run(self, org_id: str, decide: Callable[[], CommandSteps[T]]) -> T:
        return await self._store.run(Command(org_id, (("runners", org_id),), decide))


def _load_runner(org_id: str, runner_id: str) -> Generator[StepRequest, Any, Runner]:
    return find_runner((yield ReadQuery("runner_by_id", {"id": runner_id})), org_id)


def _load_agent(workspace_id: str) -> Generator[StepRequest, Any, RunnerAgent | None]:
    rows = yield ReadQuery("runner_agent", {"workspace_id": workspace_id})
    return RunnerAgent(*rows[0]) if rows else None


def _end_request(request: RunnerRequest, status: str, text: str, output: str = "") -> WriteSet[None]:
    row = {"id": request.id, "status": status, "text": text, "output": output}
    return WriteSet(None, [("end_runner_request", row)], notify=(request_key(request.id),))


def _record_change(runner: Runner) -> WriteSet[None]:
    """Return what every change of a runner emits."""
    payload = msgspec.json.encode(RunnersChangedPayload(runner.id))
    event = JournalEvent("RUNNERS_CHANGED", "", "runner", runner.id, 0, payload)
    return WriteSet(None, [], [event], (org_key(runner.org_id),))
