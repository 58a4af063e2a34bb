"""Open questions of agents as clients read them. Times are RFC 3339."""

from msgspec import Struct


class QuestionRow(Struct):
    """A question with options that no person has answered. `seq`: its position in the log of its workspace.

    `text`: its beginning if `is_cut`."""

    activity_id: str
    workspace_id: str
    workspace_name: str
    seq: int
    text: str
    is_cut: bool
    options: list[str]
    asked_at: str


class QuestionPage(Struct):
    """A page of open questions, oldest first. `after` of the next page: the last activity_id of this one."""

    questions: list[QuestionRow]
    reached_end: bool
