"""Arguments and results of the tools for reply handles and options. `tools/registry.py` specifies the tools."""

from typing import Annotated, Any

from msgspec import Meta, Struct, field

from molecule_core.tools.schemas.messages import (
    ActingWorkspaceArgument,
    ApprovalIdArgument,
    ProgressArgument,
    ToolArguments,
)

_HANDLE_PATTERN = r"^[A-Za-z0-9._:-]{1,128}$"

ReplyHandleArgument = Annotated[
    str,
    Meta(pattern=_HANDLE_PATTERN, description="reply_handle from the message's instructions, for example m17-k3f9q."),
]


class ReplyByHandleArguments(ToolArguments, frozen=True):
    """Arguments of `reply`."""

    handle: ReplyHandleArgument
    text: Annotated[str, Meta(min_length=1, description="Your message, as plain text or Markdown.")]
    progress: ProgressArgument = False
    attachments: Annotated[
        list[dict[str, Any]],
        Meta(max_length=10, description="Uploaded files, each {uri, name, mimeType?, size?}."),
    ] = field(default_factory=list)
    data: Annotated[
        list[dict[str, Any]], Meta(max_length=10, description="Results as JSON objects, beside the text.")
    ] = field(default_factory=list)
    via_workspace: ActingWorkspaceArgument = ""
    approval_id: ApprovalIdArgument = ""


class DeclineArguments(ToolArguments, frozen=True):
    """Arguments of `decline`."""

    handle: ReplyHandleArgument
    reason: Annotated[str, Meta(min_length=1, description="The reason, in one sentence. The sender reads it.")]
    via_workspace: ActingWorkspaceArgument = ""
    approval_id: ApprovalIdArgument = ""


class ReplyByHandleResult(Struct, frozen=True, kw_only=True):
    """State of the message that the handle belongs to.

    `state`: answered, declined, open (after progress), or late (its task had already ended: your answer is stored
    and has no effect). `activity_id`: your answer; `answers`: the message; `peer_id` is empty if a person sent it."""

    status: str
    workspace_id: str
    activity_id: str = ""
    answers: str = ""
    peer_id: str = ""
    state: str = ""
    acknowledged: bool = False
    note: str = ""


class PresentOptionsArguments(ToolArguments, frozen=True):
    """Arguments of `present_options`."""

    question: Annotated[str, Meta(min_length=1, description="The question, understandable without context.")]
    options: Annotated[
        list[Annotated[str, Meta(min_length=1)]],
        Meta(
            min_length=1,
            description="The options, each one short line: the text of a button. At most 10 of 120 characters, "
            "unless the operator changed the limits.",
        ),
    ]
    via_workspace: ActingWorkspaceArgument = ""
    approval_id: ApprovalIdArgument = ""
