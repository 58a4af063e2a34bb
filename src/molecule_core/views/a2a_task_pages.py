"""Positions in the list of a caller's A2A tasks, and the tokens of its pages. Pure.

The list has parts: the newest tasks, those that began before them, and so on. Within a part, the last changed comes
first. A part is read by the time of begin, for which there are indexes; there is none for the time of the last change.
"""

import base64
import binascii
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from molecule_core.common.errors import CursorNotFound
from molecule_core.messages.task_reader import TaskHead

_MAX_NUMBER = (1 << 63) - 1
_Number = Annotated[int, Meta(ge=0, le=_MAX_NUMBER)]
_Id = Annotated[str, Meta(max_length=128, pattern=r"^[^\x00]*$")]


class TaskPosition(NamedTuple):
    """A position in the list. `before`: tasks of this part began before this one, by `begun` and id.

    `earlier`: number of tasks in the parts before it. `after`: the last task of this part that was returned, by the
    time of its change and its id; None at the beginning of the part."""

    before: tuple[_Number, _Id]
    earlier: _Number
    after: tuple[_Number, _Id] | None


FIRST = TaskPosition((_MAX_NUMBER, ""), 0, None)
"""The beginning of the list."""


def begin_order(head: TaskHead) -> tuple[int, str]:
    """Return what orders tasks by their begin."""
    return head.begun, head.id


def change_order(head: TaskHead) -> tuple[int, str]:
    """Return what orders tasks by their last change."""
    return head.changed_at, head.id


def hold_begin(position: TaskPosition, part: list[TaskHead]) -> TaskPosition:
    """Return the position with the bound of its part, which tasks that begin later do not move.

    `part`: its tasks, the newest first."""
    return position._replace(before=(part[0].begun + 1, "")) if position == FIRST and part else position


def follow_part(position: TaskPosition, part: list[TaskHead]) -> TaskPosition:
    """Return the beginning of the part after this one."""
    return TaskPosition(begin_order(part[-1]), position.earlier + len(part), None)


def encode_position(position: TaskPosition) -> str:
    """Return the token of the page that begins at a position."""
    return base64.urlsafe_b64encode(msgspec.json.encode(position)).decode()


def decode_position(token: str) -> TaskPosition:
    """Return the position that a token names. Raises CursorNotFound."""
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(token.encode()), type=TaskPosition)
    except (ValueError, binascii.Error, msgspec.MsgspecError):
        raise CursorNotFound(name="pageToken") from None
