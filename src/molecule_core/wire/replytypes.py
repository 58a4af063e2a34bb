"""What the tools about reply handles and options take and give. `wire/tools.py` says what each of them is for."""

from typing import Annotated, Any

from msgspec import Meta, Struct, field

from molecule_core.wire.tooltypes import Arguments, Leave, Progress, Seat

_HANDLE = r"^[A-Za-z0-9._:-]{1,128}$"

Handle = Annotated[
    str, Meta(pattern=_HANDLE, description="The reply_handle in the message's instructions, such as m17-k3f9q.")
]


class AnswerArguments(Arguments, frozen=True):
    """reply."""

    handle: Handle
    text: Annotated[str, Meta(min_length=1, description="What you say, as plain text or Markdown.")]
    progress: Progress = False
    attachments: Annotated[
        list[dict[str, Any]],
        Meta(max_length=10, description="Files that you have uploaded: {uri, name, mimeType?, size?} each."),
    ] = field(default_factory=list)
    via_workspace: Seat = ""
    approval_id: Leave = ""


class DeclineArguments(Arguments, frozen=True):
    """decline."""

    handle: Handle
    reason: Annotated[str, Meta(min_length=1, description="Why, in a sentence; whoever asked reads it.")]
    via_workspace: Seat = ""
    approval_id: Leave = ""


class Closed(Struct, frozen=True, kw_only=True):
    """What became of the message that a handle belongs to: `state` is answered, declined, open if it was progress, or
    late if it was a task that had ended before: what you said is kept and has no effect. `activity_id` is what you
    said, `answers` the message; `peer_id` is empty if a person had sent it."""

    status: str
    workspace_id: str
    activity_id: str = ""
    answers: str = ""
    peer_id: str = ""
    state: str = ""
    acknowledged: bool = False
    note: str = ""


class OptionsArguments(Arguments, frozen=True):
    """present_options."""

    question: Annotated[str, Meta(min_length=1, description="What the person is to decide, so that it stands alone.")]
    options: Annotated[
        list[Annotated[str, Meta(min_length=1)]],
        Meta(
            min_length=1,
            description="What can be chosen, each as one short line: it is the text of a button. At most 10 of 120 "
            "characters, if the server's operator has not set it otherwise.",
        ),
    ]
    via_workspace: Seat = ""
    approval_id: Leave = ""
