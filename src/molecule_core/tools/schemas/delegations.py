"""Arguments and results of the delegation tools. `tools/registry.py` specifies the tools."""

from typing import Annotated

from msgspec import Meta, Struct, field

from molecule_core.tools.schemas.messages import ApprovalIdArgument, ToolArguments

MAX_RESULT_WAIT_SECONDS = 300
"""Maximum seconds that one call waits for a result."""
DEFAULT_RESULT_WAIT_SECONDS = 20
_ID_PATTERN = r"^[A-Za-z0-9._:-]{1,128}$"
_MAX_TOOLS, _MAX_TOOL_NAME_LENGTH = 20, 100

_OPTIONAL_ID_PATTERN = r"^[A-Za-z0-9._:-]{0,128}$"
DelegatorArgument = Annotated[
    str,
    Meta(
        pattern=_OPTIONAL_ID_PATTERN,
        description="The workspace you act as (its id); left out: the only one of yours that may talk to the target.",
    ),
]
TaskPartyArgument = Annotated[
    str,
    Meta(
        pattern=_OPTIONAL_ID_PATTERN,
        description="The workspace you act as (its id); left out: the one of yours that gave the task or works on it.",
    ),
]
TaskTargetArgument = Annotated[
    str, Meta(pattern=_ID_PATTERN, description="The workspace that is to do it: an id from list_peers.")
]
TaskTextArgument = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=256 << 10,
        description="What it is to do, so that it stands alone: it knows nothing of your conversation.",
    ),
]
DeadlineArgument = Annotated[
    int,
    Meta(ge=0, description="Seconds after which it has failed if it is not done; 0 or left out: the server's usual."),
]
TaskIdArgument = Annotated[
    str, Meta(pattern=_ID_PATTERN, description="The task_id that delegating gave you, or that came with the message.")
]


class DelegateTaskArguments(ToolArguments, frozen=True):
    """Arguments of `delegate_task`."""

    workspace_id: TaskTargetArgument
    task: TaskTextArgument
    wait: Annotated[
        int,
        Meta(
            ge=0,
            le=MAX_RESULT_WAIT_SECONDS,
            description="Seconds that you wait for the result. If it takes longer, it comes into your inbox.",
        ),
    ] = DEFAULT_RESULT_WAIT_SECONDS
    deadline_seconds: DeadlineArgument = 0
    via_workspace: DelegatorArgument = ""
    approval_id: ApprovalIdArgument = ""


class DelegateTaskAsyncArguments(ToolArguments, frozen=True):
    """Arguments of `delegate_task_async`."""

    workspace_id: TaskTargetArgument
    task: TaskTextArgument
    deadline_seconds: DeadlineArgument = 0
    via_workspace: DelegatorArgument = ""
    approval_id: ApprovalIdArgument = ""


class CheckTaskStatusArguments(ToolArguments, frozen=True):
    """Arguments of `check_task_status`."""

    task_id: TaskIdArgument
    workspace_id: Annotated[
        str, Meta(description="Not needed: older agents name the peer here, and nothing is read from it.")
    ] = ""
    via_workspace: TaskPartyArgument = ""
    approval_id: ApprovalIdArgument = ""


class CancelTaskArguments(ToolArguments, frozen=True):
    """Arguments of `cancel_task`."""

    task_id: TaskIdArgument
    reason: Annotated[str, Meta(description="Why, in a sentence; whoever works on it reads it.")] = ""
    via_workspace: TaskPartyArgument = ""
    approval_id: ApprovalIdArgument = ""


class ReportProgressArguments(ToolArguments, frozen=True):
    """Arguments of `report_progress`."""

    task_id: TaskIdArgument
    current_step: Annotated[str, Meta(description="What you do at this moment, in a few words.")] = ""
    tools_used: Annotated[
        list[Annotated[str, Meta(max_length=_MAX_TOOL_NAME_LENGTH)]],
        Meta(max_length=_MAX_TOOLS, description="The tools that you have used for it so far."),
    ] = field(default_factory=list)
    eta_hint: Annotated[str, Meta(description="How long it will take still, in your words.")] = ""
    percent: Annotated[int, Meta(ge=-1, le=100, description="How much is done, 0 to 100; -1: unknown.")] = -1
    via_workspace: TaskPartyArgument = ""
    approval_id: ApprovalIdArgument = ""


class DelegateTaskResult(Struct, frozen=True, kw_only=True):
    """State of a delegated task.

    `task_id` and `delegation_id` are equal; `workspace_id` is the delegating workspace. `settled`: it has ended; see
    `result`, or `error` and `advice`. `delivered`: the result is `here`; was delivered `before` and is repeated
    here; or comes as a message in the `inbox`. `note`: what to do while it runs."""

    task_id: str
    delegation_id: str
    workspace_id: str
    target_id: str
    status: str
    phase: str
    settled: bool
    result: str = ""
    delivered: str = ""
    error: str = ""
    reason: str = ""
    advice: str = ""
    idempotent_hit: bool = False
    note: str = ""


class TaskTimelineEntry(Struct, frozen=True, kw_only=True):
    """An entry in the timeline of a task. `late`: it arrived after the end and had no effect."""

    at: str
    fact: str
    status: str
    phase: str
    attempt: int = 0
    late: bool = False
    detail: str = ""


class TaskStatusResult(Struct, frozen=True, kw_only=True):
    """State of a task with its timeline and, once it has ended, the complete result."""

    task_id: str
    workspace_id: str
    source_id: str
    target_id: str
    status: str
    phase: str
    attempt: int
    result: str = ""
    error: str = ""
    reason: str = ""
    advice: str = ""
    stuck: bool = False
    current_step: str = ""
    tools_used: list[str] = []
    eta_hint: str = ""
    percent: int | None = None
    deadline: str = ""
    timeline: list[TaskTimelineEntry] = []


class ReportProgressResult(Struct, frozen=True, kw_only=True):
    """Whether the progress was accepted (false for a task that has ended). `status`: of the task."""

    task_id: str
    noted: bool
    status: str
