"""Decisions about checks of answers: which are valid, what they ask of an agent, what they find. Pure functions."""

from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from molecule_core.common.errors import InvalidMessage
from molecule_core.common.limits import Limits
from molecule_core.common.text import quote_lines, truncate_line
from molecule_core.delegations.json_schema import find_schema_error
from molecule_core.delegations.model import Acceptance, Delegation, DeliveredFile
from molecule_core.delegations.rules import TASK_PREVIEW, truncate_utf8
from molecule_core.messages.events import AnswerContent
from molecule_core.messages.model import StoredFile
from molecule_core.org.model import Workspace
from molecule_core.org.rules import OrgTree, ancestors, are_related
from molecule_core.runners.model import CommandChecked
from molecule_core.wire.schemas.acceptance import (
    FAILED,
    PASSED,
    AcceptanceCheck,
    CheckEvidence,
    CommandCheck,
    FileCheck,
    QuestionCheck,
    ReviewCheck,
    SchemaCheck,
    TextCheck,
)

_NAME_LENGTH, _TEXT_LENGTH = 120, 300
_SCHEMA_BYTES = 2000
_REVIEW_NOTE_LENGTH = 2000
_OUTPUT_BYTES = 4000
_JSON_TYPE = "application/json"
# The beginnings of files whose content can be recognised; a type that is not listed is only compared by name.
_SIGNATURES: dict[str, tuple[bytes, ...]] = {
    "application/pdf": (b"%PDF-",),
    "application/zip": (b"PK\x03\x04", b"PK\x05\x06"),
    "application/gzip": (b"\x1f\x8b",),
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
}
_CHECK_HINT = 'Use a list such as [{"type": "file", "name": "*.json"}, {"type": "text", "contains": "done"}].'


# -- valid checks ------------------------------------------------------------------------------------------------------


class AcceptanceTerms(Struct, frozen=True):
    """Valid checks of a delegation, and how many answers that fail are returned to the target."""

    checks: tuple[AcceptanceCheck, ...] = ()
    rounds: int = 0


NO_CHECKS = AcceptanceTerms()


def parse_terms(raw_checks: Any, rounds: Any, limits: Limits) -> AcceptanceTerms:
    """Return the checks that a delegator sent. Raises InvalidMessage."""
    if raw_checks is None and rounds is None:
        return NO_CHECKS
    try:
        checks = msgspec.convert([] if raw_checks is None else raw_checks, tuple[AcceptanceCheck, ...])
    except msgspec.ValidationError as error:
        raise InvalidMessage(reason=f"accept is not valid: {error}. {_CHECK_HINT}") from None
    if not checks:
        if rounds is not None:
            raise InvalidMessage(reason="rounds has no effect without accept. Add checks to accept, or remove rounds.")
        return NO_CHECKS
    if len(checks) > limits.acceptance_checks:
        most = limits.acceptance_checks
        raise InvalidMessage(reason=f"accept has {len(checks)} checks, and the limit is {most}. Remove some.")
    if len(msgspec.json.encode(checks)) > limits.acceptance_bytes:
        raise InvalidMessage(
            reason=f"accept is larger than the limit of {limits.acceptance_bytes} bytes. Simplify its schemas."
        )
    for number, check in enumerate(checks, 1):
        if (why := _find_check_error(check)) is not None:
            raise InvalidMessage(reason=f"check {number} of accept ({type_of(check)}) is not valid: {why}")
    question_ids = [check.id for check in checks if isinstance(check, QuestionCheck)]
    if len(set(question_ids)) < len(question_ids):
        raise InvalidMessage(reason="two questions of accept have the same id. Use a different id for each.")
    return AcceptanceTerms(checks, _parse_rounds(rounds, limits))


def _parse_rounds(rounds: Any, limits: Limits) -> int:
    if rounds is None:
        return min(limits.acceptance_default_rounds, limits.acceptance_rounds)
    if not isinstance(rounds, int) or isinstance(rounds, bool) or not 0 <= rounds <= limits.acceptance_rounds:
        raise InvalidMessage(reason=f"rounds is not valid. Use a number from 0 to {limits.acceptance_rounds}.")
    return rounds


def _find_check_error(check: AcceptanceCheck) -> str | None:
    """Return why a check cannot be used and what to do; None if it can."""
    match check:
        case FileCheck():
            if check.most_bytes and check.most_bytes < check.least_bytes:
                return "most_bytes is smaller than least_bytes. Change one of them."
        case SchemaCheck():
            if (error := find_schema_error(check.schema)) is not None:
                return f"its schema cannot be used: {error}. Correct the schema."
        case TextCheck():
            if not check.contains and not check.pattern:
                return "it has neither contains nor pattern. Add one of them."
            if check.pattern and find_schema_error(pattern_schema(check.pattern)) is not None:
                return (
                    "its pattern cannot be used. Use a regular expression without look-around and back-references, "
                    "and with small repetitions."
                )
    return None


def pattern_schema(pattern: str) -> dict[str, Any]:
    """Return the schema of the texts that match a regular expression."""
    return {"type": "string", "pattern": pattern}


def reviews_of(checks: Sequence[AcceptanceCheck]) -> dict[int, ReviewCheck]:
    """Return the reviews among checks, by number."""
    return {number: each for number, each in enumerate(checks, 1) if isinstance(each, ReviewCheck)}


def commands_of(checks: Sequence[AcceptanceCheck]) -> dict[int, CommandCheck]:
    """Return the commands among checks, by number."""
    return {number: each for number, each in enumerate(checks, 1) if isinstance(each, CommandCheck)}


def command_problem(check: CommandCheck, offered: Collection[str], target_name: str) -> str | None:
    """Return why a command cannot be run and what to do; None if a runner offers it."""
    if check.name in offered:
        return None
    names = ", ".join(sorted(offered)) or "none"
    return (
        f"no runner offers {_quoted(check.name)} for {truncate_line(target_name, _NAME_LENGTH)} (offered: {names}). "
        "Use an offered name, or ask the owner of the machine to add it to the checks of runner.toml."
    )


def reviewer_problem(reviewer: Workspace | None, source: Workspace, target: Workspace, org: OrgTree) -> str | None:
    """Return why a workspace cannot review an answer and what to do; None if it can. A reviewer is independent."""
    if reviewer is None or not are_related(org, source, reviewer):
        return "reviewer_id is not a workspace that the delegator may message. Use the id of another peer."
    if reviewer.removed:
        return "its reviewer was removed. Use another workspace, or omit reviewer_id to ask a person."
    if reviewer.id == target.id:
        return "its reviewer is the workspace that gets the task. Use another workspace."
    if any(each.id == target.id for each in ancestors(org, reviewer)):
        return "its reviewer is below the workspace that gets the task. Use a workspace that is not."
    return None


def type_of(check: AcceptanceCheck) -> str:
    """Return the type of a check as clients write it."""
    return str(check.__struct_config__.tag)


def needs_io(check: AcceptanceCheck) -> bool:
    """Return whether a check reads a file or runs a process."""
    match check:
        case FileCheck():
            return bool(check.media_type)
        case SchemaCheck():
            return True
        case TextCheck():
            return bool(check.pattern)
    return False


# -- texts for the target ----------------------------------------------------------------------------------------------


def describe_check(check: AcceptanceCheck) -> str:
    """Return what a check asks for, as an instruction for an agent."""
    match check:
        case FileCheck():
            kind = f" of type {truncate_line(check.media_type, _NAME_LENGTH)}" if check.media_type else ""
            bounds = f"at least {max(1, check.least_bytes)} bytes"
            bounds += f" and at most {check.most_bytes} bytes" if check.most_bytes else ""
            return f"Attach a new file named {_quoted(check.name)}{kind}, with {bounds}."
        case SchemaCheck():
            place = f"in an attached new file named {_quoted(check.file)}" if check.file else "as the answer itself"
            schema = truncate_utf8(msgspec.json.encode(check.schema).decode(), _SCHEMA_BYTES)
            return f"Give JSON {place} that fits this JSON schema: {schema}"
        case TextCheck():
            wishes = [f"contain {_quoted(check.contains)}"] if check.contains else []
            wishes += [f"match the regular expression {_quoted(check.pattern)}"] if check.pattern else []
            return f"Write a text. It must {' and '.join(wishes)}."
        case QuestionCheck():
            question = truncate_line(check.question, 1000)
            return f'Answer this question in a line that begins with "{check.id}:". Question: "{question}"'
        case CommandCheck():
            return f"The command {_quoted(check.name)} is run in your folder after your answer. It must end with 0."
        case ReviewCheck():
            reviewer = "Another workspace" if check.reviewer_id else "A person"
            about = f' It looks at this: "{truncate_line(check.instructions, 2000)}"' if check.instructions else ""
            return f"{reviewer} reviews the answer after the other checks, and passes or rejects it.{about}"


def _quoted(text: str) -> str:
    return f'"{truncate_line(text, 500)}"'


def describe_terms(terms: AcceptanceTerms) -> str:
    """Return the text that lists the checks for the target, below the task."""
    return "\n".join(
        (
            "The server checks your answer before it counts. The answer must pass every check:",
            *_numbered(terms.checks),
            f"An answer that fails comes back to you with the reasons, at most {terms.rounds} times. "
            "Send the answer only when the work is complete.",
        )
    )


def _numbered(checks: Sequence[AcceptanceCheck]) -> list[str]:
    return [f"{number}. {describe_check(check)}" for number, check in enumerate(checks, 1)]


def describe_failures(evidence: Sequence[CheckEvidence]) -> str:
    """Return the failed checks with their reasons, a line each."""
    lines = []
    for each in evidence:
        if each.outcome == FAILED:
            lines.append(f"{each.check}. {each.type}: {each.detail}")
            lines += ["The end of its output:", quote_lines(each.output)] if each.output else []
    return "\n".join(lines)


def rework_text(row: Delegation, acceptance: Acceptance, evidence: Sequence[CheckEvidence], source_name: str) -> str:
    """Return the message that returns an answer to the target. `acceptance`: as it was when the answer came."""
    left = acceptance.rounds - acceptance.answer_no
    source = truncate_line(source_name, _NAME_LENGTH) or "another workspace"
    lines = [
        f"Needs work: your answer to a task that {source!r} delegated to you failed these checks:",
        describe_failures(evidence),
        "",
        "All checks:",
        *_numbered(acceptance.checks),
        "",
        f"Task from {source!r}:",
        quote_lines(truncate_utf8(row.task, TASK_PREVIEW * 10)),
        "",
        "Complete the work, then answer this message with the whole result. Attach files again.",
        f"After this, an answer that fails comes back {left} more times."
        if left
        else "This is the last answer: if it fails, the task fails.",
    ]
    return "\n".join(lines)


# -- what checks find --------------------------------------------------------------------------------------------------


def evidence_of(
    check: AcceptanceCheck,
    number: int,
    *,
    problem: str = "",
    file: DeliveredFile | None = None,
    text: bytes | None = None,
) -> CheckEvidence:
    """Return what a check found. `problem`: why it failed; empty if it passed. `text`: what was checked, if no file."""
    found = CheckEvidence(
        check=number,
        type=type_of(check),
        answer=0,
        outcome=FAILED if problem else PASSED,
        detail=truncate_line(problem, _TEXT_LENGTH * 2),
    )
    if file is not None:
        return replace(found, file=file.name, sha256=file.sha256, size=file.size)
    if text is not None:
        return replace(found, sha256=sha256(text).hexdigest(), size=len(text))
    return found


def review_evidence(
    number: int, *, is_passed: bool, note: str, by_id: str = "", by_name: str = "", answer: bytes
) -> CheckEvidence:
    """Return what a review found. `answer`: the text that was reviewed."""
    return CheckEvidence(
        check=number,
        type=type_of(ReviewCheck()),
        answer=0,
        outcome=PASSED if is_passed else FAILED,
        detail=truncate_line(note, _REVIEW_NOTE_LENGTH),
        sha256=sha256(answer).hexdigest(),
        size=len(answer),
        ran_by=by_id or "server",
        by=truncate_line(by_name, _NAME_LENGTH),
    )


def command_evidence(number: int, event: CommandChecked) -> CheckEvidence:
    """Return what a command found. Only an exit code of 0 passes."""
    outcome, problem = event.outcome, event.problem
    if outcome is not None and outcome.exit_code != 0:
        problem = f"exit code {outcome.exit_code}"
    found = CheckEvidence(
        check=number,
        type=type_of(CommandCheck(name="any")),
        answer=0,
        outcome=PASSED if outcome is not None and outcome.exit_code == 0 else FAILED,
        detail=truncate_line(problem, _TEXT_LENGTH * 2),
        ran_by=f"runner:{event.runner_id}" if event.runner_id else "server",
        by=truncate_line(event.runner_name, _NAME_LENGTH),
    )
    if outcome is None:
        return found
    kept = outcome.output.encode()[-_OUTPUT_BYTES:].decode(errors="ignore")
    return replace(
        found,
        exit_code=outcome.exit_code,
        seconds=outcome.seconds,
        output=kept,
        sha256=outcome.sha256,
        size=outcome.size,
    )


def judge_content(
    check: AcceptanceCheck, number: int, answer: AnswerContent, files: Sequence[DeliveredFile]
) -> CheckEvidence:
    """Return what a check finds that needs no I/O."""
    match check:
        case FileCheck():
            eligible, problem = eligible_files(check, files)
            return evidence_of(check, number, problem=problem, file=eligible[0] if eligible else None)
        case TextCheck():
            return evidence_of(check, number, problem=text_problem(check, answer.text), text=answer.text.encode())
        case QuestionCheck():
            reply = _reply_to(check, answer)
            problem = (
                "" if reply else f'question {check.id} has no answer. Write a line that begins with "{check.id}:".'
            )
            return evidence_of(check, number, problem=problem, text=reply.encode())
    raise TypeError(f"{type_of(check)} needs I/O")


def eligible_files(check: FileCheck | SchemaCheck, files: Sequence[DeliveredFile]) -> tuple[list[DeliveredFile], str]:
    """Return the files of an answer that a check may accept; without any, also why not."""
    name = check.name if isinstance(check, FileCheck) else check.file
    named = [each for each in files if fnmatchcase(each.name.lower(), name.lower())]
    if not named:
        found = ", ".join(_quoted(each.name) for each in files) or "none"
        return [], f"no file named {_quoted(name)} was attached (attached: {found})."
    problems = [_file_problem(check, each) for each in named]
    eligible = [each for each, problem in zip(named, problems, strict=True) if not problem]
    return eligible, "" if eligible else next(filter(None, problems))


def _file_problem(check: FileCheck | SchemaCheck, file: DeliveredFile) -> str:
    if file.problem:
        return f"{_quoted(file.name)} {file.problem}"
    least, most = (check.least_bytes, check.most_bytes) if isinstance(check, FileCheck) else (1, 0)
    if file.size < max(1, least):
        return f"{_quoted(file.name)} has {file.size} bytes, and at least {max(1, least)} are needed."
    if most and file.size > most:
        return f"{_quoted(file.name)} has {file.size} bytes, and at most {most} are allowed."
    return ""


def delivery_problem(file: StoredFile | None, row: Delegation, *, is_mentioned: bool) -> str:
    """Return why a file of an answer does not count; empty if it does.

    `is_mentioned`: a message had it before: the task, an answer to another delegation, any other."""
    if file is None:
        return "is not stored on this server. Upload it, then attach it."
    if file.uploaded_by != f"workspace:{row.target_id}":
        return "was uploaded by another workspace. Upload your own file."
    if file.created_at < row.created_at:
        return "is older than this task. Upload the file that you made for this task."
    if is_mentioned:
        return "was delivered before, with another message. Upload the file that you made for this task."
    return ""


def media_problem(check: FileCheck, file: DeliveredFile, content: bytes) -> str:
    """Return why the content of a file is not of the type that a check names; empty if it is."""
    wanted = check.media_type.lower()
    is_right = file.mime_type.lower() == wanted
    if wanted in _SIGNATURES:
        is_right = content.startswith(_SIGNATURES[wanted])
    elif wanted == _JSON_TYPE:
        is_right = _is_json(content)
    elif wanted.startswith("text/"):
        is_right = is_right and _is_text(content)
    return "" if is_right else f"{_quoted(file.name)} is no file of type {wanted}."


def reads_whole_file(check: FileCheck | SchemaCheck) -> bool:
    """Return whether a check needs all of a file, or only its beginning."""
    if isinstance(check, SchemaCheck):
        return True
    wanted = check.media_type.lower()
    return wanted == _JSON_TYPE or wanted.startswith("text/")


def _is_json(content: bytes) -> bool:
    try:
        msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return False
    return True


def _is_text(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in content


def text_problem(check: TextCheck, text: str) -> str:
    """Return why a text does not contain what a check names; empty if it does. A pattern is not matched here."""
    if check.contains and check.contains not in text:
        return f"the text does not contain {_quoted(check.contains)}."
    return ""


def encode_text(text: str) -> bytes:
    """Return a text as JSON, for its check against a pattern."""
    return msgspec.json.encode(text)


def json_of(answer: AnswerContent) -> bytes:
    """Return the JSON text of an answer: its first data part, else its text without a fence of Markdown."""
    for part in answer.parts:
        if part["kind"] == "data":
            return msgspec.json.encode(part["data"])
    text = answer.text.strip()
    lines = text.splitlines()
    if len(lines) > 2 and lines[0].startswith("```") and lines[-1].strip() == "```":
        text = "\n".join(lines[1:-1])
    return text.encode()


def _reply_to(check: QuestionCheck, answer: AnswerContent) -> str:
    """Return the text that an answer has for a question; empty if it has none."""
    for part in answer.parts:
        replies = part["data"].get("answers") if part["kind"] == "data" and isinstance(part["data"], dict) else None
        reply = replies.get(check.id) if isinstance(replies, dict) else None
        if isinstance(reply, str) and reply.strip():
            return reply.strip()
    prefix = f"{check.id}:"
    for line in answer.text.splitlines():
        reply = line.strip()
        if reply.startswith(prefix) and (found := reply.removeprefix(prefix).strip()) and found != check.question:
            return found
    return ""
