"""A runner, the agents that it was asked to run, and requests to it."""

from typing import NamedTuple

from msgspec import Struct

from molecule_core.wire.schemas.runners import (
    CheckOutcome,
    ClaimedRunnerRequest,
    RunnerAction,
    RunnerReport,
    RunnerRequestStatus,
)


class Runner(Struct, frozen=True):
    """A runner. `seen_at`: when it polled last, or None. Times in microseconds."""

    id: str
    org_id: str
    name: str
    created_by: str
    created_at: int
    seen_at: int | None
    report: RunnerReport


class RunnerAgent(Struct, frozen=True):
    """An agent that a runner was asked to run, in the order of the columns.

    `request_id`: the request that started it. `token_hash`: of the workspace token that the runner was given; empty
    until it claims the request."""

    workspace_id: str
    runner_id: str
    org_id: str
    kind: str
    folder: str
    mode: str
    request_id: str
    token_hash: str
    created_at: int


class RunnerRequest(Struct, frozen=True):
    """A request to a runner, in the order of the columns. Times in microseconds."""

    id: str
    runner_id: str
    org_id: str
    workspace_id: str
    action: RunnerAction
    status: RunnerRequestStatus
    text: str
    output: str
    created_by: str
    created_at: int
    claimed_at: int | None
    expires_at: int

    @property
    def ended(self) -> bool:
        """Return whether the runner has confirmed it."""
        return self.status in ("done", "failed")


class RunnerRequestDraft(NamedTuple):
    """A request to make. `kind`, `folder` and `mode`: of an agent to start."""

    action: RunnerAction
    workspace_id: str
    kind: str
    folder: str
    mode: str
    created_by: str


CHECK_ACTION: RunnerAction = "check"
"""Requests of the server to check an answer."""
CHECK_CREATOR = "delegation:"
"""Prefix of what created such a request: a delegation."""
STARTING_ACTIONS = ("start", "attach")
"""Requests after which an agent belongs to a runner, which gets a token of its workspace."""


class EnrolledRunner(NamedTuple):
    """A new runner; `token` is shown only here."""

    runner: Runner
    token: str


class EndedTokens(NamedTuple):
    """Hashes of credentials that a change has ended, whose live channels end too."""

    hashes: tuple[str, ...] = ()


class ConfirmedRequest(NamedTuple):
    """A request after the runner has confirmed it."""

    status: RunnerRequestStatus
    ended: EndedTokens


class CommandChecked(Struct, frozen=True, kw_only=True):
    """A runner has run a command that checks an answer, or can never run it.

    `id`: of the request; `delegation_id`: that it is for. `problem`: why the command was not run; empty if it was.
    Times in microseconds."""

    id: str
    delegation_id: str
    runner_id: str
    runner_name: str
    problem: str
    outcome: CheckOutcome | None
    at: int


Claims = list[ClaimedRunnerRequest]


def runner_key(runner_id: str) -> str:
    """Return the wake-up key of requests to a runner."""
    return f"runner:{runner_id}"


def request_key(request_id: str) -> str:
    """Return the wake-up key of the outcome of a request."""
    return f"runner request:{request_id}"
