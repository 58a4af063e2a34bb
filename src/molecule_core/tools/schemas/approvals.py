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
        description="The workspace you act as (its id); left out: the one of yours that is asked.",
    ),
]


class RequestApprovalArguments(ToolArguments, frozen=True):
    """Arguments of `request_approval`."""

    action: Annotated[
        str,
        Meta(
            min_length=1,
            description="What you want to do, as a short name that you use each time for the same sort of thing, such "
            "as deploy or refund.",
        ),
    ]
    reason: Annotated[
        str, Meta(min_length=1, description="Why, so that it stands alone: who decides knows nothing of your work.")
    ]
    details: Annotated[
        dict[str, Any],
        Meta(
            description="Exactly what you would do, as data: the command, the recipient, the amount. The decision is "
            "good for this and nothing else."
        ),
    ] = field(default_factory=dict)
    cost: Annotated[float, Meta(ge=0, description="What it costs, if it costs something.")] | UnsetType = UNSET
    expires_in: Annotated[
        int,
        Meta(
            ge=0,
            description="Seconds after which it is denied if nobody has decided; 0 or left out: the server's usual.",
        ),
    ] = 0
    task_id: Annotated[
        str,
        Meta(
            pattern=_OPTIONAL_ID_PATTERN,
            description="The task_id of the delegated task that this is for, if it is for one.",
        ),
    ] = ""
    wait: Annotated[
        int,
        Meta(
            ge=0,
            le=MAX_RESULT_WAIT_SECONDS,
            description="Seconds that you wait for the decision. If it takes longer, it comes into your inbox.",
        ),
    ] = DEFAULT_RESULT_WAIT_SECONDS
    via_workspace: ActingWorkspaceArgument = ""


class DecideApprovalArguments(ToolArguments, frozen=True):
    """Arguments of `decide_approval`."""

    approval_id: Annotated[str, Meta(pattern=_ID_PATTERN, description="The approval_id that stands in the message.")]
    decision: Annotated[
        Literal["approve", "deny", "escalate", "more_info"],
        Meta(
            description="approve or deny; escalate: whoever is above you decides; more_info: ask who wants to do it, "
            "with the question as note."
        ),
    ]
    note: Annotated[str, Meta(description="Why, or what you want to know; whoever asked reads it.")] = ""
    details: (
        Annotated[
            dict[str, Any],
            Meta(
                description="With approve, if it may be done only otherwise than proposed: the whole details instead."
            ),
        ]
        | UnsetType
    ) = UNSET
    revision: Annotated[
        int,
        Meta(
            ge=0,
            lt=_MAX_REVISION,
            description="The revision that stands in the message. Left out: of the only one that you were shown.",
        ),
    ] = 0
    action_hash: Annotated[
        str,
        Meta(
            pattern=_OPTIONAL_ID_PATTERN,
            description="The action_hash that stands in the message: it says exactly what you decide about. Left out: "
            "of the only one that you were shown.",
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
