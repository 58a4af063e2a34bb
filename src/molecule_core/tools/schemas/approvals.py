"""Arguments and results of the approval tools. `tools/registry.py` specifies the tools."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from molecule_core.tools.schemas.delegations import DEFAULT_RESULT_WAIT_SECONDS, MAX_RESULT_WAIT_SECONDS
from molecule_core.tools.schemas.messages import ActingWorkspaceArgument, ToolArguments

_ID_PATTERN = r"^[A-Za-z0-9._:-]{1,128}$"
_OPTIONAL_ID_PATTERN = r"^[A-Za-z0-9._:-]{0,128}$"
_MAX_REVISION = 1 << 31

DeciderArgument = Annotated[
    str,
    Meta(
        pattern=_OPTIONAL_ID_PATTERN,
        description="Id of the workspace to act as. Default: your workspace that received the request.",
    ),
]


class RequestApprovalArguments(ToolArguments, frozen=True):
    """Arguments of `request_approval`."""

    action: Annotated[
        str,
        Meta(
            min_length=1,
            description="Short name of the action, always the same for the same kind of action, for example deploy "
            "or refund.",
        ),
    ]
    reason: Annotated[
        str,
        Meta(
            min_length=1,
            description="The reason, understandable without context: the approver does not know your work.",
        ),
    ]
    details: Annotated[
        dict[str, Any],
        Meta(
            description="The exact action as data: command, recipient, amount. The decision applies to this and "
            "nothing else."
        ),
    ] = field(default_factory=dict)
    cost: Annotated[float, Meta(ge=0, description="Cost of the action, if it has one.")] | UnsetType = UNSET
    expires_in: Annotated[
        int,
        Meta(
            ge=0,
            description="Seconds until an undecided request counts as denied. 0: the server's setting.",
        ),
    ] = 0
    task_id: Annotated[
        str,
        Meta(
            pattern=_OPTIONAL_ID_PATTERN,
            description="task_id of the delegated task that needs the action, if any.",
        ),
    ] = ""
    wait: Annotated[
        int,
        Meta(
            ge=0,
            le=MAX_RESULT_WAIT_SECONDS,
            description="Seconds to wait for the decision. A later decision arrives in your inbox.",
        ),
    ] = DEFAULT_RESULT_WAIT_SECONDS
    via_workspace: ActingWorkspaceArgument = ""


class DecideApprovalArguments(ToolArguments, frozen=True):
    """Arguments of `decide_approval`."""

    approval_id: Annotated[str, Meta(pattern=_ID_PATTERN, description="approval_id of the message.")]
    decision: Annotated[
        Literal["approve", "deny", "escalate", "more_info"],
        Meta(
            description="approve; deny; escalate: the level above you decides; more_info: ask the requester, with "
            "the question as note."
        ),
    ]
    note: Annotated[str, Meta(description="Your reason or question. The requester reads it.")] = ""
    details: (
        Annotated[
            dict[str, Any],
            Meta(description="With approve, to allow the action only in another form: the complete changed details."),
        ]
        | UnsetType
    ) = UNSET
    revision: Annotated[
        int,
        Meta(
            ge=0,
            lt=_MAX_REVISION,
            description="revision of the message. Default: that of the only request that you were shown.",
        ),
    ] = 0
    action_hash: Annotated[
        str,
        Meta(
            pattern=_OPTIONAL_ID_PATTERN,
            description="action_hash of the message: identifies the exact action. Default: as for revision.",
        ),
    ] = ""
    via_workspace: DeciderArgument = ""


class RequestApprovalResult(Struct, frozen=True, kw_only=True):
    """State of an approval.

    `settled`: it has ended, and `status` says how; only `approved` allows the action. `details`: the details that
    are allowed if it is approved; `edited`: they differ from your proposal. `holder`: the current approver.
    `decided_by` and `said`: who decided, and the comment. `note`: what to do now."""

    approval_id: str
    workspace_id: str
    action: str
    status: str
    settled: bool
    revision: int
    action_hash: str
    details: dict[str, Any] = {}
    edited: bool = False
    holder: str = ""
    decided_by: str = ""
    said: str = ""
    expires_at: str = ""
    note: str = ""


class DecideApprovalResult(Struct, frozen=True, kw_only=True):
    """Effect of your decision.

    `status`: of the approval now; `revision` and `action_hash`: what you decided about; `holder`: the current
    approver, if it is still open. `note`: what to do now."""

    approval_id: str
    workspace_id: str
    action: str
    decision: str
    status: str
    settled: bool
    revision: int
    action_hash: str
    holder: str = ""
    note: str = ""
