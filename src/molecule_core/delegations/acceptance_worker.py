"""Runs the checks of answers that read files or run processes.

The state is in the store: an answer that waits has a timer, which one process claims for a while. A process that dies
loses its claim, and another one checks the answer again. Called by timers."""

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from molecule_core.common.clock import SECOND, Clock
from molecule_core.common.errors import NotFound
from molecule_core.common.limits import Limits
from molecule_core.delegations import acceptance_rules
from molecule_core.delegations.acceptance import AcceptanceTransitions, load_files
from molecule_core.delegations.acceptance_rules import evidence_of
from molecule_core.delegations.json_schema import SchemaValidator
from molecule_core.delegations.model import (
    ACCEPTANCE_TIMER,
    Acceptance,
    Delegation,
    DelegationPhase,
    DeliveredFile,
    SubmittedAnswer,
)
from molecule_core.delegations.transitions import load_acceptance, load_delegations
from molecule_core.delegations.writer import command_keys
from molecule_core.messages.events import AnswerContent
from molecule_core.messages.files.uploads import FileWriter
from molecule_core.store.database import Command, CommandSteps, Store, WriteSet
from molecule_core.store.timers import TIMERS_KEY, cancel_timer, set_timer
from molecule_core.wire.schemas.acceptance import AcceptanceCheck, CheckEvidence, FileCheck, SchemaCheck, TextCheck

# 4: checks that one process runs at the same time. Each may be a process of its own.
_MAX_PARALLEL = 4
# The limit of a check is CPU time. On the clock it may take longer: a busy machine is not the fault of an answer.
_CLOCK_SECONDS_PER_CPU_SECOND = 12
# 5 s: the first delay after an error, such as a file store that does not answer.
_RETRY_SECONDS = 5
_HEAD_BYTES = 64
_log = logging.getLogger("molecule.acceptance")


class CheckWork(NamedTuple):
    """An answer that this process checks."""

    row: Delegation
    acceptance: Acceptance
    answer: SubmittedAnswer
    files: Sequence[DeliveredFile]


class RunningCheck(NamedTuple):
    """The task that checks an answer, by the number of the answer."""

    task: "asyncio.Task[None]"
    answer_no: int


class AcceptanceWorker:
    """Runs the checks of stored answers."""

    def __init__(
        self,
        store: Store,
        files: FileWriter,
        transitions: AcceptanceTransitions,
        validator: SchemaValidator,
        *,
        clock: Clock,
        limits: Limits,
    ) -> None:
        self._store = store
        self._files = files
        self._transitions = transitions
        self._validator = validator
        self._clock = clock
        self._limits = limits
        self._slots = asyncio.Semaphore(_MAX_PARALLEL)
        self._running: dict[str, RunningCheck] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._failures: dict[str, int] = {}

    async def close(self) -> None:
        """Stop the checks that run; another process, or the next start, runs them again."""
        for each in self._tasks:
            each.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def on_due(self, key: str) -> None:
        """Claim an answer that is due and check it.

        The second answer of a delegation may be due while the task of the first one, which returned it, has not ended;
        it is checked right after. The claim of an answer that is being checked only goes on."""
        org_id, _, delegation_id = key.partition("/")
        work = await self._store.run(
            Command(org_id, ((ACCEPTANCE_TIMER, key),), partial(self._decide_claim, org_id, delegation_id))
        )
        earlier = self._running.get(key)
        if work is None or (earlier is not None and earlier.answer_no == work.acceptance.answer_no):
            return
        task = asyncio.get_running_loop().create_task(
            self._check_or_retry(key, work, None if earlier is None else earlier.task)
        )
        self._tasks.add(task)
        self._running[key] = RunningCheck(task, work.acceptance.answer_no)
        task.add_done_callback(partial(self._on_done, key))

    def _on_done(self, key: str, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if self._running[key].task is task:
            del self._running[key]
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("an answer could not be checked; it is tried again after its lease", exc_info=error)

    async def _check_or_retry(self, key: str, work: CheckWork, earlier: "asyncio.Task[None] | None") -> None:
        """Check an answer; after an error try again soon, with a growing delay up to the lease."""
        if earlier is not None:
            await asyncio.wait((earlier,))
        try:
            await self._check(work)
        except Exception:
            failures = self._failures[key] = self._failures.get(key, 0) + 1
            delay = min(_RETRY_SECONDS * 2 ** (failures - 1), self._limits.acceptance_lease_seconds)
            _log.exception("an answer could not be checked; it is tried again in %d s", delay)
            due, row = self._clock.now() + delay * SECOND, work.row
            await self._store.run(
                Command(row.org_id, ((ACCEPTANCE_TIMER, row.key),), partial(self._decide_retry, work, due))
            )
        else:
            self._failures.pop(key, None)

    def _decide_retry(self, work: CheckWork, due: int) -> CommandSteps[None]:
        for row in (yield from load_delegations(work.row.org_id, [work.row.id])):
            if row.open and row.phase is DelegationPhase.CHECKING:
                return WriteSet(None, [set_timer(ACCEPTANCE_TIMER, row.key, due)], notify=(TIMERS_KEY,))
        return WriteSet(None)

    def _decide_claim(self, org_id: str, delegation_id: str) -> CommandSteps[CheckWork | None]:
        for row in (yield from load_delegations(org_id, [delegation_id])):
            if not row.open or row.phase is not DelegationPhase.CHECKING:
                break
            acceptance = yield from load_acceptance(row)
            if acceptance.answer is None or acceptance.answer.is_waiting:
                break
            files = yield from load_files(row, acceptance.answer.content)
            lease = self._clock.now() + self._limits.acceptance_lease_seconds * SECOND
            work = CheckWork(row, acceptance, acceptance.answer, files)
            return WriteSet(work, [set_timer(ACCEPTANCE_TIMER, row.key, lease)], notify=(TIMERS_KEY,))
        return WriteSet(None, [cancel_timer(ACCEPTANCE_TIMER, f"{org_id}/{delegation_id}")])

    async def _check(self, work: CheckWork) -> None:
        async with self._slots:
            found = {
                number: await self._run_check(check, number, work)
                for number, check in enumerate(work.acceptance.checks, 1)
                if acceptance_rules.needs_io(check)
            }
        row = work.row
        command_steps = partial(self._decide_record, work, found)
        await self._store.run(Command(row.org_id, (*command_keys(row), (ACCEPTANCE_TIMER, row.key)), command_steps))

    def _decide_record(self, work: CheckWork, found: dict[int, CheckEvidence]) -> CommandSteps[None]:
        for row in (yield from load_delegations(work.row.org_id, [work.row.id])):
            if not row.open or row.phase is not DelegationPhase.CHECKING:
                break
            acceptance = yield from load_acceptance(row)
            if acceptance.answer is None or acceptance.answer.is_waiting:
                break
            if acceptance.answer_no != work.acceptance.answer_no:
                break
            recorded = yield from self._transitions.record_evidence(
                row, acceptance, acceptance.answer, found, self._clock.now()
            )
            return recorded.returning(None)
        return WriteSet(None)

    # -- checks --------------------------------------------------------------------------------------------------------

    async def _run_check(self, check: AcceptanceCheck, number: int, work: CheckWork) -> CheckEvidence:
        """Run one check. One that takes too long has failed."""
        seconds = self._limits.acceptance_seconds * _CLOCK_SECONDS_PER_CPU_SECOND
        try:
            async with asyncio.timeout(seconds):
                match check:
                    case FileCheck() | SchemaCheck() if isinstance(check, FileCheck) or check.file:
                        return await self._check_files(check, number, work.files)
                    case SchemaCheck():
                        return await self._check_json(check, number, work.answer.content)
                    case TextCheck():
                        return await self._check_pattern(check, number, work.answer.content)
        except TimeoutError:
            return evidence_of(check, number, problem=f"the check did not end within {seconds} seconds.")
        raise TypeError(f"{acceptance_rules.type_of(check)} needs no I/O")

    async def _check_files(
        self, check: FileCheck | SchemaCheck, number: int, files: Sequence[DeliveredFile]
    ) -> CheckEvidence:
        """Check the attached files that a check may accept, until one passes."""
        eligible, problem = acceptance_rules.eligible_files(check, files)
        file: DeliveredFile | None = None
        for file in eligible:
            problem = await self._file_problem(check, file)
            if not problem:
                break
        return evidence_of(check, number, problem=problem, file=file)

    async def _file_problem(self, check: FileCheck | SchemaCheck, file: DeliveredFile) -> str:
        is_whole, most = acceptance_rules.reads_whole_file(check), self._limits.acceptance_file_bytes
        if is_whole and file.size > most:
            return f"{file.name} has {file.size} bytes, and a check reads at most {most}."
        content = await self._read_file(file, file.size if is_whole else _HEAD_BYTES)
        if content is None:
            return f"{file.name} is not stored any more. Upload it again."
        if isinstance(check, FileCheck):
            return acceptance_rules.media_problem(check, file, content)
        error = await self._validator.validate(check.schema, content)
        return "" if error is None else f"{file.name} does not fit the schema: {error}"

    async def _read_file(self, file: DeliveredFile, count: int) -> bytes | None:
        try:
            _, reader = await self._files.read_file(file.workspace_id, file.id, None)
        except NotFound:
            return None
        try:
            content = b""
            while len(content) < count and (read := await reader.read(count - len(content))):
                content += read
            return content
        finally:
            reader.close()

    async def _check_json(self, check: SchemaCheck, number: int, answer: AnswerContent) -> CheckEvidence:
        content, most = acceptance_rules.json_of(answer), self._limits.acceptance_file_bytes
        if len(content) > most:
            problem = f"the JSON has {len(content)} bytes, and a check reads at most {most}."
            return evidence_of(check, number, problem=problem, text=content)
        error = await self._validator.validate(check.schema, content)
        problem = "" if error is None else f"the answer does not fit the schema: {error}"
        return evidence_of(check, number, problem=problem, text=content)

    async def _check_pattern(self, check: TextCheck, number: int, answer: AnswerContent) -> CheckEvidence:
        text = answer.text
        problem = acceptance_rules.text_problem(check, text)
        if not problem:
            schema = acceptance_rules.pattern_schema(check.pattern)
            error = await self._validator.validate(schema, acceptance_rules.encode_text(text))
            problem = "" if error is None else "the text does not match the pattern."
        return evidence_of(check, number, problem=problem, text=text.encode())
