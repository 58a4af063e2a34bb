"""Checks that the answer to a delegation must pass, and the evidence of what they found."""

from typing import Annotated, Any

from msgspec import Meta, Struct

PASSED, FAILED = "passed", "failed"
"""The outcomes of a check."""
_Pattern = Annotated[str, Meta(max_length=500)]
_Name = Annotated[str, Meta(max_length=200)]
_Size = Annotated[int, Meta(ge=0, lt=1 << 53)]


class FileCheck(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, tag="file"):
    """A new file is attached to the answer.

    `name`: its name, with * and ? as wildcards; `media_type`: what it contains; `most_bytes` 0: no bound."""

    name: _Name = "*"
    media_type: _Name = ""
    least_bytes: _Size = 1
    most_bytes: _Size = 0


class SchemaCheck(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, tag="schema"):
    """JSON of the answer fits a JSON schema.

    `file`: name of the attached file that has the JSON, with wildcards. Without it: the data part, else the text."""

    schema: dict[str, Any]
    file: _Name = ""


class TextCheck(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, tag="text"):
    """The text of the answer contains a text, matches a regular expression, or both.

    `pattern`: without look-around and back-references; it may match anywhere."""

    contains: _Pattern = ""
    pattern: _Pattern = ""


class QuestionCheck(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, tag="question"):
    """The answer has a text for a question: a line `id: text`, or `answers` of its data part."""

    id: Annotated[str, Meta(pattern="^[A-Za-z0-9._-]{1,40}$")]
    question: Annotated[str, Meta(min_length=1, max_length=1000)]


class ReviewCheck(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, tag="review"):
    """Another workspace or a person reads the answer, and passes or rejects it.

    `reviewer_id`: the workspace; without it, a person. `instructions`: what the reviewer must look at."""

    reviewer_id: _Name = ""
    instructions: Annotated[str, Meta(max_length=2000)] = ""


class CommandCheck(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, tag="command"):
    """A command that a runner runs in the folder of the target ends with 0.

    `name`: of a command that the owner of the machine allows in runner.toml."""

    name: Annotated[str, Meta(pattern="^[A-Za-z0-9._-]{1,64}$")]


AcceptanceCheck = FileCheck | SchemaCheck | TextCheck | QuestionCheck | CommandCheck | ReviewCheck


class CheckEvidence(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one check found in one answer.

    `check`: number in the list, from 1; `answer`: number of the answer, from 1. `outcome`: passed or failed, and
    `detail` why. `file`, `sha256` and `size`: of what was checked. `ran_by`: `server`, else the id of the workspace,
    `person:` or `runner:` and the id of what decided, and `by` its name. Of a command: `exit_code`, `seconds`, the end
    of its `output`, and hash and size of the whole output."""

    check: int
    type: str
    answer: int
    outcome: str
    detail: str = ""
    file: str = ""
    sha256: str = ""
    size: int | None = None
    ran_by: str = "server"
    by: str = ""
    exit_code: int | None = None
    seconds: float | None = None
    output: str = ""
    at: str = ""


class PendingReview(Struct, frozen=True, kw_only=True):
    """A review that is not decided yet. `reviewer_id`: the workspace that decides it; empty: a person."""

    check: int
    approval_id: str
    reviewer_id: str


class PendingCheckCommand(Struct, frozen=True, kw_only=True):
    """A command that has not ended yet."""

    check: int
    name: str


class AcceptanceReport(Struct, frozen=True, kw_only=True):
    """The checks of a delegation.

    `answers`: how many were checked; `rounds`: how many that fail are returned to the target. `evidence`: of all
    answers, in order. `reviews` and `commands`: those that the current answer waits for."""

    checks: list[AcceptanceCheck]
    sentences: list[str]
    rounds: int
    answers: int
    evidence: list[CheckEvidence]
    reviews: list[PendingReview]
    commands: list[PendingCheckCommand]
