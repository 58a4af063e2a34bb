"""Arguments and results of the collaboration tools. `tools/collaboration_specs.py` specifies the tools."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from molecule_core.tools.schemas.messages import ActingWorkspaceArgument, ApprovalIdArgument, ToolArguments
from molecule_core.wire.schemas.thread_log import AgentStatus

_OPTIONAL_ID_PATTERN = r"^[A-Za-z0-9._:-]{0,128}$"
_MAX_TARGET_LENGTH = 512
_MAX_TARGETS = 64

OwnThreadArgument = Annotated[
    str,
    Meta(
        pattern=_OPTIONAL_ID_PATTERN,
        description="The thread that you act from; leave it out: your own.",
    ),
]
AgentTargetArgument = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=_MAX_TARGET_LENGTH,
        description="Which agent: its thread_id, or its path: a task_name for one below you, a/b for one below that, "
        "root/a from the root on.",
    ),
]
AgentMessageArgument = Annotated[
    str, Meta(min_length=1, description="What the agent is told. It must stand alone: the agent sees nothing of yours.")
]


class SpawnAgentArguments(ToolArguments, frozen=True):
    """Arguments of `spawn_agent`."""

    task_name: Annotated[
        str,
        Meta(
            pattern=r"^[a-z0-9_]{1,64}$",
            description="What you call its task, in a-z, 0-9 and _; the agent's path ends with it, so take each once.",
        ),
    ]
    message: Annotated[
        str,
        Meta(min_length=1, description="What it is to do, and what to come back with. It must stand alone."),
    ]
    nickname: Annotated[str, Meta(max_length=100, description="What people read in place of task_name.")] = ""
    role: Annotated[str, Meta(max_length=100, description="What it is, in a word, such as tester.")] = ""
    kind: Annotated[
        Literal["spawned", "review"],
        Meta(description="review: it judges, by base_instructions of its own. Left out: spawned."),
    ] = "spawned"
    base_instructions: Annotated[
        str,
        Meta(description="Its instructions, for good, in place of yours; a review needs them. Left out: yours."),
    ] = ""
    model: Annotated[str, Meta(max_length=100, description="Its model. Left out: yours.")] = ""
    effort: Annotated[str, Meta(max_length=100, description="How hard it thinks. Left out: as you do.")] = ""
    fork_turns: Annotated[
        str,
        Meta(
            pattern=r"^(none|all|[1-9][0-9]{0,3})$",
            description="How many of your last turns it sees: none (if left out), all, or a number.",
        ),
    ] = "none"
    workspace_id: Annotated[
        str,
        Meta(
            pattern=_OPTIONAL_ID_PATTERN,
            description="Where it sits: a workspace that you may talk to. Left out: your own.",
        ),
    ] = ""
    wake: (
        Annotated[
            Literal["wake", "queue", "digest"],
            Meta(
                description="When it ends: wake you if you are idle, queue the end for your next turn, or digest: wake "
                "you when the last of yours has ended. Left out: wake, and queue if nothing can wake you."
            ),
        ]
        | UnsetType
    ) = UNSET
    thread_id: OwnThreadArgument = ""
    via_workspace: ActingWorkspaceArgument = ""
    approval_id: ApprovalIdArgument = ""


class AgentMailArguments(ToolArguments, frozen=True):
    """Common arguments of `send_message` and `followup_task`."""

    target: AgentTargetArgument
    message: AgentMessageArgument
    thread_id: OwnThreadArgument = ""
    via_workspace: ActingWorkspaceArgument = ""
    approval_id: ApprovalIdArgument = ""


class SendMessageArguments(AgentMailArguments, frozen=True):
    """Arguments of `send_message`."""


class FollowupTaskArguments(AgentMailArguments, frozen=True):
    """Arguments of `followup_task`."""


class WaitAgentArguments(ToolArguments, frozen=True):
    """Arguments of `wait_agent`."""

    targets: Annotated[
        list[AgentTargetArgument],
        Meta(min_length=1, max_length=_MAX_TARGETS, description="The agents to wait for, each as target."),
    ]
    mode: Annotated[
        Literal["any", "all"], Meta(description="any: until one of them has ended (if left out); all: until all have.")
    ] = "any"
    timeout: (
        Annotated[
            float,
            Meta(description="Seconds, 1 to 3600, as far as the server allows; left out: the server's usual (30)."),
        ]
        | UnsetType
    ) = UNSET
    after: Annotated[
        dict[str, int],
        Meta(
            description="The `after` of an earlier wait: ends up to there do not count again. Left out: those that you "
            "were told."
        ),
    ] = field(default_factory=dict)
    thread_id: OwnThreadArgument = ""
    via_workspace: ActingWorkspaceArgument = ""
    approval_id: ApprovalIdArgument = ""


class InterruptAgentArguments(ToolArguments, frozen=True):
    """Arguments of `interrupt_agent`."""

    target: AgentTargetArgument
    descendants: Annotated[
        Literal["detach", "interrupt"],
        Meta(description="Of those below it: detach (they go on, if left out) or interrupt."),
    ] = "detach"
    thread_id: OwnThreadArgument = ""
    via_workspace: ActingWorkspaceArgument = ""
    approval_id: ApprovalIdArgument = ""


class CloseAgentArguments(ToolArguments, frozen=True):
    """Arguments of `close_agent`."""

    target: AgentTargetArgument
    descendants: Annotated[
        Literal["detach", "interrupt", "close"],
        Meta(description="Of those below it: detach (they go on, if left out), interrupt or close."),
    ] = "detach"
    thread_id: OwnThreadArgument = ""
    via_workspace: ActingWorkspaceArgument = ""
    approval_id: ApprovalIdArgument = ""


class ResumeAgentArguments(ToolArguments, frozen=True):
    """Arguments of `resume_agent`."""

    target: AgentTargetArgument
    thread_id: OwnThreadArgument = ""
    via_workspace: ActingWorkspaceArgument = ""
    approval_id: ApprovalIdArgument = ""


class ListAgentsArguments(ToolArguments, frozen=True):
    """Arguments of `list_agents`."""

    prefix: Annotated[
        str,
        Meta(
            max_length=_MAX_TARGET_LENGTH,
            description="Only the agent of this path and those below; left out: the tree.",
        ),
    ] = ""
    thread_id: OwnThreadArgument = ""
    via_workspace: ActingWorkspaceArgument = ""
    approval_id: ApprovalIdArgument = ""


class AgentSnapshot(Struct, frozen=True, kw_only=True):
    """State of an agent. `message`: its answer, or why it failed."""

    thread_id: str
    path: str
    nickname: str
    role: str
    status: AgentStatus
    message: str
    outcome: Literal["", "ended", "timed_out", "unknown", "interrupted", "source_lost"]


class AgentCallResult(Struct, frozen=True, kw_only=True):
    """Effect of a call on an agent.

    `thread_id`: the calling thread; `agent`: its state now, or before it was stopped. `note`: what to know and do
    now."""

    call_id: str
    workspace_id: str
    thread_id: str
    agent: AgentSnapshot
    note: str = ""


class WaitAgentResult(Struct, frozen=True, kw_only=True):
    """Result of a wait.

    `status`: completed, or interrupted by new input for you. `agents`: each target with its outcome. `after`: pass
    it to a later wait."""

    call_id: str
    workspace_id: str
    thread_id: str
    status: Literal["completed", "interrupted"]
    timed_out: bool
    agents: list[AgentSnapshot]
    after: dict[str, int] = {}
    note: str = ""


class ListAgentsResult(Struct, frozen=True, kw_only=True):
    """The agents of your tree. `thread_id`: your own thread."""

    workspace_id: str
    thread_id: str
    agents: list[AgentSnapshot]
    note: str = ""
