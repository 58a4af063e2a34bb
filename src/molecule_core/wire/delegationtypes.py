"""What the tools about delegations take and give. `wire/tools.py` says what each of them is for."""

from typing import Annotated

from msgspec import Meta, Struct, field

from molecule_core.wire.tooltypes import Arguments, Leave

LONGEST_WAIT = 300
"""Seconds that one call may wait for a result."""
USUAL_WAIT = 20
_ID = r"^[A-Za-z0-9._:-]{1,128}$"
_MOST_TOOLS, _SHORT = 20, 100

_SEAT = r"^[A-Za-z0-9._:-]{0,128}$"
Giver = Annotated[
    str,
    Meta(
        pattern=_SEAT,
        description="The workspace you act as (its id); left out: the only one of yours that may talk to the target.",
    ),
]
Party = Annotated[
    str,
    Meta(
        pattern=_SEAT,
        description="The workspace you act as (its id); left out: the one of yours that gave the task or works on it.",
    ),
]
Target = Annotated[str, Meta(pattern=_ID, description="The workspace that is to do it: an id from list_peers.")]
Task = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=256 << 10,
        description="What it is to do, so that it stands alone: it knows nothing of your conversation.",
    ),
]
Deadline = Annotated[
    int,
    Meta(ge=0, description="Seconds after which it has failed if it is not done; 0 or left out: the server's usual."),
]
TaskId = Annotated[
    str, Meta(pattern=_ID, description="The task_id that delegating gave you, or that came with the message.")
]


class DelegateArguments(Arguments, frozen=True):
    """delegate_task."""

    workspace_id: Target
    task: Task
    wait: Annotated[
        int,
        Meta(
            ge=0,
            le=LONGEST_WAIT,
            description="Seconds that you wait for the result. If it takes longer, it comes into your inbox.",
        ),
    ] = USUAL_WAIT
    deadline_seconds: Deadline = 0
    via_workspace: Giver = ""
    approval_id: Leave = ""


class DelegateAsyncArguments(Arguments, frozen=True):
    """delegate_task_async."""

    workspace_id: Target
    task: Task
    deadline_seconds: Deadline = 0
    via_workspace: Giver = ""
    approval_id: Leave = ""


class CheckArguments(Arguments, frozen=True):
    """check_task_status."""

    task_id: TaskId
    workspace_id: Annotated[
        str, Meta(description="Not needed: older agents name the peer here, and nothing is read from it.")
    ] = ""
    via_workspace: Party = ""
    approval_id: Leave = ""


class CancelArguments(Arguments, frozen=True):
    """cancel_task."""

    task_id: TaskId
    reason: Annotated[str, Meta(description="Why, in a sentence; whoever works on it reads it.")] = ""
    via_workspace: Party = ""
    approval_id: Leave = ""


class ReportArguments(Arguments, frozen=True):
    """report_progress."""

    task_id: TaskId
    current_step: Annotated[str, Meta(description="What you do at this moment, in a few words.")] = ""
    tools_used: Annotated[
        list[Annotated[str, Meta(max_length=_SHORT)]],
        Meta(max_length=_MOST_TOOLS, description="The tools that you have used for it so far."),
    ] = field(default_factory=list)
    eta_hint: Annotated[str, Meta(description="How long it will take still, in your words.")] = ""
    percent: Annotated[int, Meta(ge=-1, le=100, description="How much is done, 0 to 100; -1: unknown.")] = -1
    via_workspace: Party = ""
    approval_id: Leave = ""


class DelegationReceipt(Struct, frozen=True, kw_only=True):
    """What became of a task. `task_id` and `delegation_id` are the same; `workspace_id` is the seat that delegated.
    `settled`: it has ended, and `result` or `error` with `advice` says how. `delivered`: `here`; `before`: it was
    handed over already, and stands here once more; `inbox`: it comes as a message. `note`: what to do while it runs."""

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


class TimelineEntry(Struct, frozen=True, kw_only=True):
    """What happened to a task, and when; `late`: after its end, and without effect."""

    at: str
    fact: str
    status: str
    phase: str
    attempt: int = 0
    late: bool = False
    detail: str = ""


class TaskStatus(Struct, frozen=True, kw_only=True):
    """How a task stands, with all that happened to it and, once it has ended, the whole result."""

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
    timeline: list[TimelineEntry] = []


class Noted(Struct, frozen=True, kw_only=True):
    """Whether a report of progress was taken: not, if the task has ended. `status`: how it stands."""

    task_id: str
    noted: bool
    status: str
