"""Checks answers of delegations: takes an answer, decides what its checks found, returns or ends the delegation.

Checks without I/O are decided in the transaction of the answer. For the others, the answer is stored and a timer makes
a process check it (`acceptance_worker`)."""

from collections.abc import Generator, Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec
from msgspec.structs import replace

from molecule_core.common.clock import to_rfc3339
from molecule_core.common.ids import IdGenerator
from molecule_core.delegations import acceptance_rules, rules
from molecule_core.delegations.model import (
    ACCEPTANCE_TIMER,
    Acceptance,
    Delegation,
    DelegationPhase,
    DelegationTrigger,
    DeliveredFile,
    SubmittedAnswer,
    delegation_wake_key,
)
from molecule_core.delegations.scopes import MAY, describe_scope
from molecule_core.delegations.transitions import (
    DelegationCloser,
    active_workspace,
    apply_trigger,
    load_acceptance,
    save_transition,
)
from molecule_core.messages.chains.model import ChainLink
from molecule_core.messages.events import AnswerContent, ReviewDecided, ReviewFile, ReviewRequested, ReviewsDropped
from molecule_core.messages.files.attachments import parse_file_uri
from molecule_core.messages.model import StoredFile
from molecule_core.org.reader import OrgReader
from molecule_core.runners.checks import RequestedCheck, RunnerChecks
from molecule_core.runners.model import CommandChecked
from molecule_core.store.database import CommandSteps, ReadQuery, RequestBatch, Statement, StepRequest, WriteSet
from molecule_core.store.journal import org_key
from molecule_core.store.timers import TIMERS_KEY, cancel_timer, set_timer
from molecule_core.wire.schemas.acceptance import FAILED, CheckEvidence, CommandCheck, ReviewCheck
from molecule_core.wire.schemas.delegations import DelegationStatus


class AcceptanceTransitions:
    """Transitions of delegations whose answers must pass checks."""

    def __init__(
        self, org: OrgReader, closer: DelegationCloser, runner_checks: RunnerChecks, *, ids: IdGenerator
    ) -> None:
        self._org = org
        self.runner_checks = runner_checks
        self.closer = closer
        self._results = closer.results
        self._ids = ids

    def submit(self, row: Delegation, answer: AnswerContent, via: str, now: int) -> CommandSteps[Delegation]:
        """Take an answer: check it now, or store it to be checked. The answer is logged in its sender's own log."""
        acceptance = yield from load_acceptance(row)
        detail = rules.preview_of(answer.text)
        moved = apply_trigger(row, DelegationTrigger.SUBMITTED, now, detail=detail)
        logged = WriteSet[object](None)
        if (target := active_workspace(self._org, row.target_id)) is not None:
            logged += yield from self._results.insert_submitted_answer(target, row.source_id, row.id, answer)
        # The row with the id and the key of the answer is the one in the sender's log.
        content = replace(answer, id=self._ids.new(), dedupe_key=None, content_hash=None)
        if any(map(acceptance_rules.needs_io, acceptance.checks)):
            stored = replace(acceptance, answer=SubmittedAnswer(content, via))
            writes: list[Statement] = [
                ("save_acceptance", stored.to_row()),
                set_timer(ACCEPTANCE_TIMER, row.key, now),
            ]
            saved = save_transition(moved)
            return saved + WriteSet(None, writes, notify=(TIMERS_KEY,)) + logged
        settled = yield from self.record_evidence(moved.result, acceptance, SubmittedAnswer(content, via), {}, now)
        return WriteSet(settled.result, moved.writes, moved.events) + settled + logged

    def submit_report(self, row: Delegation, text: str, via: str, now: int) -> CommandSteps[Delegation]:
        """Take the target's report of the end as an answer, and withdraw the message that it answers."""
        target = active_workspace(self._org, row.target_id)
        if row.phase is DelegationPhase.CHECKING or target is None or row.message_seq is None:
            return WriteSet(row)
        answer = self._results.system_answer(row.target_id, text, row.context_id)
        withdrawn = yield from self._results.withdraw(
            target, row.message_seq, DelegationStatus.COMPLETED, by_target=True
        )
        return withdrawn.returning(row) + (yield from self.submit(row, answer, via, now))

    def record_evidence(
        self,
        row: Delegation,
        acceptance: Acceptance,
        answer: SubmittedAnswer,
        found: Mapping[int, CheckEvidence],
        now: int,
    ) -> CommandSteps[Delegation]:
        """Decide what an answer leads to: its commands and reviews, the end of the delegation, or its return.

        `found`: what the checks with I/O found, by number; the others are decided here. Commands are run, and then
        reviewers asked, only for an answer that passes all other checks."""
        files = yield from load_files(row, answer.content)
        checks, at = acceptance.checks, to_rfc3339(now)
        judged = {
            number: found.get(number) or acceptance_rules.judge_content(check, number, answer.content, files)
            for number, check in enumerate(checks, 1)
            if not isinstance(check, CommandCheck | ReviewCheck)
        }
        judged = {number: replace(each, answer=acceptance.answer_no, at=at) for number, each in judged.items()}
        return (yield from self._continue(row, acceptance, replace(answer, found=judged), now))

    def _continue(
        self, row: Delegation, acceptance: Acceptance, answer: SubmittedAnswer, now: int
    ) -> CommandSteps[Delegation]:
        """Do the next step of an answer: its commands, then its reviews, then its end. What has failed is settled."""
        if all(each.outcome != FAILED for each in answer.found.values()):
            if acceptance_rules.commands_of(acceptance.checks) and not answer.commands:
                return (yield from self._request_commands(row, acceptance, answer, now))
            if acceptance_rules.reviews_of(acceptance.checks) and not answer.reviews:
                return (yield from self._request_reviews(row, acceptance, answer, now))
        return (yield from self._settle(row, acceptance, answer, now))

    def _settle(
        self, row: Delegation, acceptance: Acceptance, answer: SubmittedAnswer, now: int
    ) -> CommandSteps[Delegation]:
        """Store what the checks of an answer found, and end the delegation or return the answer."""
        evidence = [each for _, each in sorted(answer.found.items())]
        recorded = WriteSet(row, [_insert_evidence(row, each) for each in evidence])
        if open_reviews := tuple(answer.open_reviews.values()):
            dropped = ReviewsDropped(open_reviews, "another check of the answer has failed")
            recorded += WriteSet(None, domain_events=[dropped])
        has_passed = len(evidence) == len(acceptance.checks)
        if has_passed and all(each.outcome != FAILED for each in evidence):
            return recorded + (yield from self._close(row, DelegationTrigger.PROVEN, answer, evidence, now))
        if not acceptance.is_last:
            return recorded + (yield from self._return_to_target(row, acceptance, evidence, now))
        explanation = f"no answer passed the checks:\n{acceptance_rules.describe_failures(evidence)}"
        system = self._results.system_answer(row.target_id, explanation, row.context_id)
        closed = yield from self._close(
            row, DelegationTrigger.UNPROVEN, SubmittedAnswer(system, answer.via), evidence, now
        )
        target, source = active_workspace(self._org, row.target_id), self._org.workspace(row.source_id)
        if target is None:
            return recorded + closed
        name = "" if source is None else source.name
        text = rules.end_notice(row, name, DelegationTrigger.UNPROVEN, explanation, "")
        notice = yield from self._results.insert_system_notice(target, row.source_id, text, {"delegation_id": row.id})
        return recorded + closed + notice

    # -- commands ------------------------------------------------------------------------------------------------------

    def _request_commands(
        self, row: Delegation, acceptance: Acceptance, answer: SubmittedAnswer, now: int
    ) -> CommandSteps[Delegation]:
        """Request all commands of runners. One that no runner offers any more has failed the answer."""
        offers = yield from self.runner_checks.find_offers(row.org_id, row.target_id, now)
        commands, target = acceptance_rules.commands_of(acceptance.checks), self._org.workspace(row.target_id)
        requested = WriteSet(row)
        waiting = replace(answer, commands={number: self._ids.new() for number in commands})
        for number, check in commands.items():
            why = acceptance_rules.command_problem(check, offers, "" if target is None else target.name)
            if why is not None:
                event = CommandChecked(
                    id="", delegation_id=row.id, runner_id="", runner_name="", problem=why, outcome=None, at=now
                )
                failed = self._found(acceptance, acceptance_rules.command_evidence(number, event), now)
                return (yield from self._settle(row, acceptance, _with_found(answer, failed), now))
            requested += self.runner_checks.request(
                offers[check.name],
                RequestedCheck(
                    id=waiting.commands[number],
                    org_id=row.org_id,
                    delegation_id=row.id,
                    workspace_id=row.target_id,
                    name=check.name,
                    at=now,
                    until=row.deadline_at,
                ),
            )
        return requested + _save_waiting(row, acceptance, waiting)

    def record_command(self, row: Delegation, event: CommandChecked) -> CommandSteps[Delegation]:
        """Record what a command found. One that the current answer does not wait for changes nothing."""
        if not row.open or row.phase is not DelegationPhase.CHECKING:
            return WriteSet(row)
        acceptance = yield from load_acceptance(row)
        answer = acceptance.answer
        numbers = {} if answer is None else {id_: number for number, id_ in answer.open_commands.items()}
        if answer is None or event.id not in numbers:
            return WriteSet(row)
        found = self._found(acceptance, acceptance_rules.command_evidence(numbers[event.id], event), event.at)
        decided = _with_found(answer, found)
        if found.outcome != FAILED and decided.open_commands:
            return WriteSet(row, [("save_acceptance", replace(acceptance, answer=decided).to_row())])
        return (yield from self._continue(row, acceptance, decided, event.at))

    def _found(self, acceptance: Acceptance, evidence: CheckEvidence, at: int) -> CheckEvidence:
        return replace(evidence, answer=acceptance.answer_no, at=to_rfc3339(at))

    # -- reviews -------------------------------------------------------------------------------------------------------

    def _request_reviews(
        self,
        row: Delegation,
        acceptance: Acceptance,
        answer: SubmittedAnswer,
        now: int,
    ) -> CommandSteps[Delegation]:
        """Ask all reviewers of an answer. One that cannot review any more has failed it."""
        target, source = active_workspace(self._org, row.target_id), active_workspace(self._org, row.source_id)
        if target is None or source is None:  # its removal ends the delegation
            return WriteSet(row)
        text = answer.content.text.encode()
        files = yield from load_files(row, answer.content)
        reviews = acceptance_rules.reviews_of(acceptance.checks)
        for number, check in reviews.items():
            reviewer = self._org.workspace(check.reviewer_id)
            problem = check.reviewer_id and acceptance_rules.reviewer_problem(reviewer, source, target, self._org)
            if problem:
                failed = acceptance_rules.review_evidence(number, is_passed=False, note=problem, answer=text)
                failed = self._found(acceptance, failed, now)
                return (yield from self._settle(row, acceptance, _with_found(answer, failed), now))
        waiting = replace(answer, reviews={number: self._ids.new() for number in reviews})
        domain_events = [
            ReviewRequested(
                id=waiting.reviews[number],
                delegation_id=row.id,
                check=number,
                source_id=source.id,
                worker_id=target.id,
                reviewer_id=check.reviewer_id or None,
                instructions=check.instructions,
                task=row.task,
                answer=answer.content.text,
                answer_sha256=sha256(text).hexdigest(),
                files=tuple(_to_review_file(each) for each in files if not each.problem),
                until=row.deadline_at,
                at=now,
            )
            for number, check in reviews.items()
        ]
        return _save_waiting(row, acceptance, waiting) + WriteSet(None, domain_events=domain_events)

    def record_review(self, row: Delegation, event: ReviewDecided) -> CommandSteps[Delegation]:
        """Record the decision of a review. One that the current answer does not wait for changes nothing."""
        if not row.open or row.phase is not DelegationPhase.CHECKING:
            return WriteSet(row)
        acceptance = yield from load_acceptance(row)
        answer = acceptance.answer
        numbers = {} if answer is None else {id_: number for number, id_ in answer.open_reviews.items()}
        if answer is None or event.id not in numbers:
            return WriteSet(row)
        number = numbers[event.id]
        found = acceptance_rules.review_evidence(
            number,
            is_passed=event.is_passed,
            note=event.note,
            by_id=event.by_id,
            by_name=event.by_name,
            answer=answer.content.text.encode(),
        )
        found = self._found(acceptance, found, event.at)
        decided = _with_found(answer, found)
        if event.is_passed and decided.open_reviews:
            return WriteSet(row, [("save_acceptance", replace(acceptance, answer=decided).to_row())])
        return (yield from self._settle(row, acceptance, decided, event.at))

    # -- outcomes ------------------------------------------------------------------------------------------------------

    def _close(
        self,
        row: Delegation,
        trigger: DelegationTrigger,
        answer: SubmittedAnswer,
        evidence: Sequence[CheckEvidence],
        now: int,
    ) -> CommandSteps[Delegation]:
        (transition,) = rules.transitions_for(row.state, trigger)
        closed = yield from self.closer.close(row, trigger, transition, answer.content, answer.via, now, evidence)
        return closed + WriteSet(closed.result, [cancel_timer(ACCEPTANCE_TIMER, row.key)])

    def _return_to_target(
        self, row: Delegation, acceptance: Acceptance, evidence: Sequence[CheckEvidence], now: int
    ) -> CommandSteps[Delegation]:
        """Return an answer to the target with the reasons, as a message of the same delegation."""
        detail = rules.preview_of(acceptance_rules.describe_failures(evidence))
        moved = apply_trigger(row, DelegationTrigger.RETURNED, now, detail=detail)
        target, source = active_workspace(self._org, row.target_id), self._org.workspace(row.source_id)
        if target is None:  # its removal ends the delegation
            return save_transition(moved)
        text = acceptance_rules.rework_text(row, acceptance, evidence, "" if source is None else source.name)
        details = {
            "delegation_id": row.id,
            "needs_work": [msgspec.to_builtins(each) for each in evidence if each.outcome == FAILED],
            "answers_left": acceptance.rounds - acceptance.answer_no + 1,
        }
        # The cache has the scope of each open delegation, so that this needs no query.
        scope = self.closer.scopes.scopes_of(row.target_id).get(row.id)
        if scope is not None:
            details[MAY] = msgspec.to_builtins(scope)
            text = f"{text}\n\n{describe_scope(scope)}"
        link = ChainLink(row.chain_id, row.hop, row.cause_id)
        message = yield from self._results.insert_rework(
            target, row.source_id, text, link, row.context_id or row.id, details
        )
        returned = replace(moved.result, message_seq=message.result.seq)
        waiting = replace(acceptance, answer_no=acceptance.answer_no + 1, message_id=message.result.id, answer=None)
        saved = save_transition(WriteSet(returned, moved.writes, moved.events))
        writes: list[Statement] = [
            ("save_acceptance", waiting.to_row()),
            cancel_timer(ACCEPTANCE_TIMER, row.key),
        ]
        return saved + WriteSet(None, writes) + message


def load_files(row: Delegation, answer: AnswerContent) -> Generator[StepRequest, Any, list[DeliveredFile]]:
    """Read the files that an answer names, with the reason why each does not count."""
    contents = [part["file"] for part in answer.parts if part["kind"] == "file"]
    references = [parse_file_uri(each.get("uri")) for each in contents]
    ids = list(dict.fromkeys(each.id for each in references if each is not None))
    if not contents:
        return []
    queries = [ReadQuery("file", {"id": each, "reader_id": ""}) for each in ids]
    queries += [ReadQuery("file_is_mentioned", {"file_id": each}) for each in ids]
    found = yield RequestBatch(queries)
    stored = {each: StoredFile(*rows[0][:-1]) for each, rows in zip(ids, found, strict=False) if rows}
    mentioned = {each for each, rows in zip(ids, found[len(ids) :], strict=True) if rows}
    delivered = []
    for content, reference in zip(contents, references, strict=True):
        file = None if reference is None else stored.get(reference.id)
        if file is not None and file.org_id != row.org_id:
            file = None
        problem = acceptance_rules.delivery_problem(file, row, is_mentioned=file is not None and file.id in mentioned)
        delivered.append(_to_delivered(content, file, problem))
    return delivered


def _save_waiting(row: Delegation, acceptance: Acceptance, waiting: SubmittedAnswer) -> WriteSet[Delegation]:
    """Return the change that stores an answer which waits for others, and ends its timer."""
    writes: list[Statement] = [
        ("save_delegation", row),
        ("save_acceptance", replace(acceptance, answer=waiting).to_row()),
        cancel_timer(ACCEPTANCE_TIMER, row.key),
    ]
    return WriteSet(row, writes, notify=(delegation_wake_key(row.org_id, row.id), org_key(row.org_id)))


def _to_review_file(file: DeliveredFile) -> ReviewFile:
    return ReviewFile(
        f"/workspaces/{file.workspace_id}/files/{file.id}", file.name, file.mime_type, file.size, file.sha256
    )


def _with_found(answer: SubmittedAnswer, evidence: CheckEvidence) -> SubmittedAnswer:
    return replace(answer, found={**answer.found, evidence.check: evidence})


def _to_delivered(content: Mapping[str, Any], file: StoredFile | None, problem: str) -> DeliveredFile:
    if file is None:
        name = content.get("name")
        return DeliveredFile("", "", name if isinstance(name, str) else "file", "", 0, "", problem)
    return DeliveredFile(file.id, file.workspace_id, file.name, file.mime_type, file.size, file.sha256, problem)


def _insert_evidence(row: Delegation, evidence: CheckEvidence) -> Statement:
    encoded = msgspec.json.encode(evidence).decode()
    numbers = {"answer_no": evidence.answer, "check_no": evidence.check}
    return "insert_evidence", {"org_id": row.org_id, "delegation_id": row.id, **numbers, "evidence": encoded}
