"""Arguments and results of the collaboration tools. `tools/collaboration_specs.py` specifies the tools."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from molecule_core.tools.schemas.messages import ActingWorkspaceArgument, ApprovalIdArgument, ToolArguments
from molecule_core.wire.schemas.thread_log import AgentStatus

_OPTIONAL_ID_PATTERN = r"^[A-Za-z0-9._:-]{0,128}$"
_MAX_TARGET_LENGTH = 512
_MAX_TARGETS = 64

OwnThreadArgument = Annotated[
    str, Meta(pattern=_OPTIONAL_ID_PATTERN, description="Thread to act from. Default: your own.")
]
AgentTargetArgument = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=_MAX_TARGET_LENGTH,
        description="thread_id or path of the agent: task_name of one directly below you, a/b for one "
        "below a, root/a from the root.",
    ),
]
AgentMessageArgument = Annotated[
    str,
    Meta(
        min_length=1, description="The message, understandable without context: the agent cannot see your conversation."
    ),
]


class SpawnAgentArguments(ToolArguments, frozen=True):
    """Arguments of `spawn_agent`."""

    task_name: Annotated[
        str,
        Meta(
            pattern=r"^[a-z0-9_]{1,64}$",
            description="Name of the task: a-z, 0-9 and _. The agent's path ends with it, so use each name once.",
        ),
    ]
    message: Annotated[
        str,
        Meta(min_length=1, description="The task, and what to report back. Make it understandable without context."),
    ]
    nickname: Annotated[str, Meta(max_length=100, description="Name that people see instead of task_name.")] = ""
    role: Annotated[str, Meta(max_length=100, description="Role in one word, for example tester.")] = ""
    kind: Annotated[
        Literal["spawned", "review"],
        Meta(description="review: the agent judges, by its own base_instructions. Default: spawned."),
    ] = "spawned"
    base_instructions: Annotated[
        str, Meta(description="Permanent instructions that replace yours; required for a review. Default: yours.")
    ] = ""
    model: Annotated[str, Meta(max_length=100, description="Model of the agent. Default: yours.")] = ""
    effort: Annotated[str, Meta(max_length=100, description="Reasoning effort. Default: yours.")] = ""
    fork_turns: Annotated[
        str,
        Meta(
            pattern=r"^(none|all|[1-9][0-9]{0,3})$",
            description="How many of your last turns the agent sees: none (default), all, or a number.",
        ),
    ] = "none"
    workspace_id: Annotated[
        str,
        Meta(
            pattern=_OPTIONAL_ID_PATTERN,
            description="Id of the agent's workspace, one that you may message. Default: yours.",
        ),
    ] = ""
    wake: (
        Annotated[
            Literal["wake", "queue", "digest"],
            Meta(
                description="When the agent ends: wake: wake you if you are idle; queue: keep the result for your "
                "next turn; digest: wake you when your last agent has ended. Default: wake, or queue if nothing can "
                "wake you."
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
        Meta(min_length=1, max_length=_MAX_TARGETS, description="The agents to wait for, each by thread_id or path."),
    ]
    mode: Annotated[
        Literal["any", "all"], Meta(description="any (default): until one agent has ended; all: until all have ended.")
    ] = "any"
    timeout: (
        Annotated[
            float,
            Meta(description="Seconds, 1 to 3600, within the server's limit. Default: the server's setting (30)."),
        ]
        | UnsetType
    ) = UNSET
    after: Annotated[
        dict[str, int],
        Meta(
            description="`after` of an earlier wait: ends up to there do not count again. Default: the ends reported "
            "to you."
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
        Meta(description="Agents below it: detach (default: they continue) or interrupt."),
    ] = "detach"
    thread_id: OwnThreadArgument = ""
    via_workspace: ActingWorkspaceArgument = ""
    approval_id: ApprovalIdArgument = ""


class CloseAgentArguments(ToolArguments, frozen=True):
    """Arguments of `close_agent`."""

    target: AgentTargetArgument
    descendants: Annotated[
        Literal["detach", "interrupt", "close"],
        Meta(description="Agents below it: detach (default: they continue), interrupt or close."),
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
            description="Only the agent of this path and the agents below it. Default: the whole tree.",
        ),
    ] = ""
    thread_id: OwnThreadArgument = ""
    via_workspace: ActingWorkspaceArgument = ""
    approval_id: ApprovalIdArgument = ""


class AgentSnapshot(Struct, frozen=True, kw_only=True):
    """State of an agent. `message`: its answer or error."""

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
