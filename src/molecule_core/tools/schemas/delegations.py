"""Arguments and results of the delegation tools. `tools/registry.py` specifies the tools."""

from typing import Annotated, Any

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
        description="Acting workspace. Default: your only one that may message the target.",
    ),
]
TaskPartyArgument = Annotated[
    str,
    Meta(
        pattern=_OPTIONAL_ID_PATTERN,
        description="Workspace to act as. Default: yours that delegated the task or works on it.",
    ),
]
TaskTargetArgument = Annotated[
    str, Meta(pattern=_ID_PATTERN, description="Id of the workspace to do the task, from list_peers.")
]
TaskTextArgument = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=256 << 10,
        description="The task, understandable alone: the peer cannot see your conversation.",
    ),
]
DeadlineArgument = Annotated[
    int,
    Meta(ge=0, description="Seconds until an unfinished task fails. 0: default."),
]
AcceptArgument = Annotated[
    list[dict[str, Any]],
    Meta(
        description='Checks of the result, as {"type":"file","name":"*.csv"}. Types with members: schema (schema), '
        "text (contains), question (id, question), review (reviewer_id, instructions), command (name).",
    ),
]
AcceptAsBeforeArgument = Annotated[list[dict[str, Any]], Meta(description="As in delegate_task.")]
RoundsAsBeforeArgument = Annotated[int, Meta(ge=-1, description="As in delegate_task.")]
RoundsArgument = Annotated[int, Meta(ge=-1, description="How often a failing result goes back. -1: default.")]
# Its members are not declared: all tools together must fit into 64 KiB. The server checks them.
ScopeArgument = Annotated[
    dict[str, Any],
    Meta(description='Limits, as {"tools":["docs.*"],"peers":[],"depth":0,"approvals":false}.'),
]
ScopeAsBeforeArgument = Annotated[dict[str, Any], Meta(description="As in delegate_task.")]
TaskIdArgument = Annotated[
    str, Meta(pattern=_ID_PATTERN, description="task_id that delegate_task returned, or delegation_id of the message.")
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
            description="Seconds to wait for the result. A later result arrives in your inbox.",
        ),
    ] = DEFAULT_RESULT_WAIT_SECONDS
    deadline_seconds: DeadlineArgument = 0
    accept: AcceptArgument = field(default_factory=list)
    rounds: RoundsArgument = -1
    may: ScopeArgument = field(default_factory=dict)
    via_workspace: DelegatorArgument = ""
    approval_id: ApprovalIdArgument = ""


class DelegateTaskAsyncArguments(ToolArguments, frozen=True):
    """Arguments of `delegate_task_async`."""

    workspace_id: TaskTargetArgument
    task: TaskTextArgument
    deadline_seconds: DeadlineArgument = 0
    accept: AcceptAsBeforeArgument = field(default_factory=list)
    rounds: RoundsAsBeforeArgument = -1
    may: ScopeAsBeforeArgument = field(default_factory=dict)
    via_workspace: DelegatorArgument = ""
    approval_id: ApprovalIdArgument = ""


class CheckTaskStatusArguments(ToolArguments, frozen=True):
    """Arguments of `check_task_status`."""

    task_id: TaskIdArgument
    workspace_id: Annotated[str, Meta(description="Ignored by the server.")] = ""
    via_workspace: TaskPartyArgument = ""
    approval_id: ApprovalIdArgument = ""


class CancelTaskArguments(ToolArguments, frozen=True):
    """Arguments of `cancel_task`."""

    task_id: TaskIdArgument
    reason: Annotated[str, Meta(description="The reason, in one sentence. The peer reads it.")] = ""
    via_workspace: TaskPartyArgument = ""
    approval_id: ApprovalIdArgument = ""


class ReportProgressArguments(ToolArguments, frozen=True):
    """Arguments of `report_progress`."""

    task_id: TaskIdArgument
    current_step: Annotated[str, Meta(description="Your current step, in a few words.")] = ""
    tools_used: Annotated[
        list[Annotated[str, Meta(max_length=_MAX_TOOL_NAME_LENGTH)]],
        Meta(max_length=_MAX_TOOLS, description="The tools that you have used for the task so far."),
    ] = field(default_factory=list)
    eta_hint: Annotated[str, Meta(description="Remaining time, in your words.")] = ""
    percent: Annotated[int, Meta(ge=-1, le=100, description="Percentage done, 0 to 100; -1: unknown.")] = -1
    via_workspace: TaskPartyArgument = ""
    approval_id: ApprovalIdArgument = ""


class DelegateTaskResult(Struct, frozen=True, kw_only=True):
    """State of a delegated task.

    `task_id` and `delegation_id` are equal; `workspace_id` is the delegating workspace. `settled`: it has ended; see
    `result`, or `error` and `advice`. `delivered`: the result is `here`; was delivered `before` and is repeated
    here; or comes as a message in the `inbox`. `verified`: it is completed and passed the checks. `note`: what to do
    while it runs."""

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
    verified: bool = False
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
    """State of a task with its timeline and, once it has ended, the complete result.

    `limited_until`: a limit of its vendor keeps the peer from working until then. `evidence`: what the checks found
    in each answer; `verified`: the task is completed and its answer passed them."""

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
    limited_until: str = ""
    current_step: str = ""
    tools_used: list[str] = []
    eta_hint: str = ""
    percent: int | None = None
    deadline: str = ""
    timeline: list[TaskTimelineEntry] = []
    verified: bool = False
    evidence: list[str] = []


class ReportProgressResult(Struct, frozen=True, kw_only=True):
    """Whether the progress was accepted (false for a task that has ended). `status`: of the task."""

    task_id: str
    noted: bool
    status: str
