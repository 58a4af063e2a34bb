"""What a seat of the company is, what its agent hears, and what it does about it. Data only."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

Behaviour = Literal["lead", "specialist", "desk"]
Host = Literal["none", "mcp", "stdout", "push", "agent"]
Word = Annotated[str, Meta(min_length=1, max_length=100)]
Line = Annotated[str, Meta(min_length=1, max_length=500)]
Days = Annotated[float, Meta(ge=0, le=10_000)]


# -- crafts: what an agent makes of a text -----------------------------------------------------------------------------


class BaseSkill(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag=str.lower):
    """A way to answer a text. `title` stands above what it says."""

    title: Line


class Topics(BaseSkill, frozen=True):
    """What the text is about, at most `most` things."""

    most: Annotated[int, Meta(ge=1, le=20)] = 5


class Check(Struct, frozen=True, forbid_unknown_fields=True):
    """Says its sentence when one of the words is in the text, or unless one of them is. `#` stands for any number."""

    say: Line
    when: tuple[Word, ...] = ()
    unless: tuple[Word, ...] = ()


class Checks(BaseSkill, frozen=True):
    """Rules held against the text."""

    items: Annotated[tuple[Check, ...], Meta(min_length=1, max_length=100)]


class Estimate(BaseSkill, frozen=True):
    """Days for the things that the text names; `otherwise` if it names none that is in the table."""

    days: Annotated[dict[Word, Days], Meta(min_length=1, max_length=100)]
    otherwise: Days = 1.0


class Plan(BaseSkill, frozen=True):
    """Steps. In each, `{thing}` stands for the first thing that the text is about, `{things}` for all of them."""

    steps: Annotated[tuple[Line, ...], Meta(min_length=1, max_length=20)]


DemoSkill = Topics | Checks | Estimate | Plan


# -- seats -------------------------------------------------------------------------------------------------------------


class DemoSeat(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One seat, and those below it. `seconds`: how long its agent works on an answer, so that a person can see it.
    `host`: what the agent lives in; in a host of MCP servers it has tools, and does not speak HTTP; with `stdout` it
    only prints; with `push` it asks for nothing, and its messages are brought to it; with `agent` it is an agent of our
    own, with a script for a model. `reply_seconds`: after how long its answers are due, where that is not as long as
    everywhere. `progress`: whether it says how far it is with work that was delegated to it. `stumbles`: whether the
    first push of each delegation fails, as while a proxy restarts. `asks_before`: what it does not begin without leave:
    work that names one of these words. `prompt`: the file that its system prompt begins with; it is told to the server,
    and an agent without a model does not need it."""

    name: str
    role: str
    behaviour: Behaviour
    host: Host = "none"
    seconds: Annotated[float, Meta(ge=0, le=60)] = 1.0
    reply_seconds: Annotated[int, Meta(ge=0, le=3600)] | None = None
    progress: bool = False
    stumbles: bool = False
    asks_before: tuple[Word, ...] = ()
    prompt: str = ""
    craft: tuple[DemoSkill, ...] = ()
    seat: "tuple[DemoSeat, ...]" = ()


class SeatAssignment(Struct, frozen=True):
    """All that the agent of a seat is told when it starts."""

    url: str
    workspace_id: str
    token: str
    seat: DemoSeat
    folder: str = ""
    """Where it may keep what it must know in its next life."""


# -- what an agent hears -----------------------------------------------------------------------------------------------


class DemoPeer(Struct, frozen=True):
    """A workspace one may talk to. `words`: the stems of what it says of itself; without skills it is asked nothing."""

    id: str
    name: str
    place: Literal["above", "beside", "below"]
    has_skills: bool = True
    stems: frozenset[str] = frozenset()


class DemoApproval(Struct, frozen=True, kw_only=True):
    """An approval, as a message or the server tells of it. `revision`, `action_hash`: what exactly is asked for.
    `by`, `note`: who has decided, and what they said."""

    id: str
    status: str
    revision: int
    action_hash: str
    by: str = ""
    note: str = ""

    @property
    def is_pending(self) -> bool:
        """Whether nothing is decided."""
        return self.status in ("pending", "info_requested")


class DemoMessage(Struct, frozen=True, kw_only=True):
    """A message as it was handed out. `sender` is a workspace's id, or None for a person; `handle` names it in an
    answer, if it has such a name.

    `delegation_id`: of the work that it brings, that it is the result of, or that is over. `failed`: it has no result,
    and the text says why. `approval`: what it asks to be decided (`to_decide`), or tells or asks about one's own."""

    id: str
    attempt: int
    text: str
    sender: str | None = None
    handle: str = ""
    delegation_id: str = ""
    is_result: bool = False
    is_failed: bool = False
    wants_answer: bool = True
    approval: DemoApproval | None = None
    needs_decision: bool = False

    @property
    def is_delegated(self) -> bool:
        """Whether it brings work that somebody delegates."""
        return self.wants_answer and bool(self.delegation_id)


# -- what it does ------------------------------------------------------------------------------------------------------


class WorkAction(Struct, frozen=True):
    """Takes a moment over something, in sight of everybody."""

    seconds: float
    task: str


class SayAction(Struct, frozen=True):
    """Writes to the user. The same key is one effect. `answers`: the message that it is about; `progress`: it is not
    answered by this yet."""

    text: str
    key: str
    answers: str = ""
    progress: bool = False


class AnswerAction(Struct, frozen=True):
    """Answers a peer. A second answer to the same message is the first one."""

    message: DemoMessage
    text: str


class DelegateAction(Struct, frozen=True):
    """Gives work to a peer, as part of what `about` asks for. The same key is one delegation."""

    to: str
    text: str
    key: str
    about: str


class ReportAction(Struct, frozen=True):
    """Says how far the work on a delegation is. If it gets lost, the next one makes up for it."""

    delegation_id: str
    step: str
    percent: int


class AckAction(Struct, frozen=True):
    """Says that a message is handled."""

    message: DemoMessage


class AskApprovalAction(Struct, frozen=True):
    """Asks for leave to do something, as part of what the request `about` asks for. The same key is one approval: who
    asks again is told how it stands."""

    action: str
    reason: str
    task: str
    key: str
    about: str


class EscalateAction(Struct, frozen=True):
    """Leaves a decision to the next one above."""

    approval: DemoApproval
    note: str


class UseApprovalAction(Struct, frozen=True):
    """Says that one does now what was approved."""

    approval: DemoApproval


class WithdrawAction(Struct, frozen=True):
    """Wants leave no more."""

    approval: DemoApproval
    note: str


Action = (
    WorkAction
    | SayAction
    | AnswerAction
    | DelegateAction
    | ReportAction
    | AckAction
    | AskApprovalAction
    | EscalateAction
    | UseApprovalAction
    | WithdrawAction
)
