"""Shapes of runners: what a runner reports, what operators request of it, and what they see."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

RunnerAction = Literal["start", "attach", "stop", "restart", "logs", "check"]
"""What is requested of a runner; a check only by the server itself."""
OperatorAction = Literal["start", "attach", "stop", "restart", "logs"]
RunnerRequestStatus = Literal["queued", "claimed", "done", "failed", "expired"]
RunState = Literal["starting", "running", "retrying", "stopped", "attached"]
RunnerAgentState = Literal["requested", "starting", "running", "retrying", "stopped", "attached", "unknown"]
ATTACHED_MODE = "attached"
"""In place of a permission mode: a person starts the agent, and the runner has written its configuration."""
_Line = Annotated[str, Meta(max_length=200)]
_Path = Annotated[str, Meta(max_length=4096)]


class InstalledAgent(Struct, frozen=True):
    """An agent that is installed on the machine. `modes`: permission modes that the runner's configuration allows."""

    kind: _Line
    title: _Line
    version: _Line
    modes: tuple[_Line, ...] = ()


class OpenSession(Struct, frozen=True):
    """An agent that a person has started in a terminal of the machine. `is_connected`: it runs `molecule mcp`.

    `runtime`: of a workspace for it."""

    kind: _Line
    title: _Line
    runtime: _Line
    folder: _Path
    pid: int
    is_connected: bool


class CheckOffer(Struct, frozen=True):
    """The names of the commands with which a runner can check the answers of a workspace."""

    workspace_id: _Line
    names: tuple[_Line, ...] = ()


class CheckOutcome(Struct, frozen=True, kw_only=True):
    """What a command found that checked an answer. `sha256`, `size`: of its whole output; `output`: the end of it."""

    exit_code: int
    seconds: float
    output: str = ""
    sha256: Annotated[str, Meta(max_length=64)] = ""
    size: Annotated[int, Meta(ge=0, lt=1 << 53)] = 0


class RunReport(Struct, frozen=True):
    """An agent that the runner runs. `text`: a short line, such as why it is started again."""

    workspace_id: _Line
    state: RunState
    text: _Line = ""
    restarts: int = 0


class RunnerReport(Struct, frozen=True):
    """What a runner is and runs. `folders`: agents may be started in these and below.

    `checks`: commands with which it can check answers, by workspace."""

    machine: _Line = ""
    version: _Line = ""
    installed: tuple[InstalledAgent, ...] = ()
    folders: tuple[_Path, ...] = ()
    agents: tuple[RunReport, ...] = ()
    sessions: tuple[OpenSession, ...] = ()
    checks: tuple[CheckOffer, ...] = ()


class ReportRunnerResponse(Struct, frozen=True):
    """Receipt of a report."""

    status: str
    poll_seconds: int


class ClaimRunnerRequestsBody(Struct, frozen=True):
    """How many seconds to wait for a request."""

    wait: Annotated[int, Meta(ge=0)] = 0


class ClaimedRunnerRequest(Struct, frozen=True, omit_defaults=True):
    """A request to carry out and confirm.

    `kind`, `folder`, `mode`, `workspace_name` and `token` (of the workspace) only to start or attach an agent; `check`:
    the name of a command to run."""

    id: str
    action: RunnerAction
    workspace_id: str
    kind: str = ""
    folder: str = ""
    mode: str = ""
    workspace_name: str = ""
    token: str = ""
    check: str = ""


class ClaimedRunnerRequests(Struct, frozen=True):
    """Requests to carry out, oldest first."""

    requests: list[ClaimedRunnerRequest]


class ConfirmRunnerRequestBody(Struct, frozen=True):
    """Outcome of a request. `text`: a short line, the reason if it failed. `output`: of the agent, for logs.

    `check`: what a command found."""

    status: Literal["done", "failed"]
    text: str = ""
    output: str = ""
    check: CheckOutcome | None = None


class ConfirmRunnerRequestResponse(Struct, frozen=True):
    """Receipt of an outcome."""

    status: RunnerRequestStatus


class EnrolRunnerBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Name of a new runner, such as the name of its machine."""

    name: str


class RequestRunnerBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A request to a runner. `kind`, `folder` and `mode` only to start an agent; without `mode`, its default.

    `attach` (with `kind` and `folder`) connects the sessions that a person starts there to the workspace."""

    action: OperatorAction
    workspace_id: str
    kind: str = ""
    folder: str = ""
    mode: str = ""


class RunnerAgentView(Struct, frozen=True):
    """An agent of a runner. `state`: `unknown` while the runner is gone."""

    workspace_id: str
    workspace_name: str
    kind: str
    folder: str
    mode: str
    state: RunnerAgentState
    text: str
    restarts: int


class RunnerView(Struct, frozen=True, omit_defaults=True):
    """A runner. `is_gone`: it has not polled for a while. `token`: only in the response that creates it."""

    id: str
    org_id: str
    name: str
    is_gone: bool
    created_at: str
    seen_at: str | None
    machine: str
    version: str
    installed: list[InstalledAgent]
    folders: list[str]
    agents: list[RunnerAgentView]
    sessions: list[OpenSession]
    checks: list[CheckOffer]
    token: str | None = None


class RemovedRunnerResponse(Struct, frozen=True):
    """Receipt of a removal."""

    status: str


class RunnerRequestView(Struct, frozen=True):
    """A request and its outcome. `output`: of the agent, for logs."""

    id: str
    runner_id: str
    workspace_id: str
    action: RunnerAction
    status: RunnerRequestStatus
    text: str
    output: str
    created_at: str
