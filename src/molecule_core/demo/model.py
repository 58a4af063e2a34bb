"""Data of the demo: workspaces of the company, messages of its agents, and their actions."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from molecule_core.wire.schemas.acceptance import AcceptanceCheck
from molecule_core.wire.schemas.approvals import ApprovalStatus

Behaviour = Literal["lead", "specialist", "desk"]
Host = Literal["none", "mcp", "stdout", "push", "agent"]
Word = Annotated[str, Meta(min_length=1, max_length=100)]
Line = Annotated[str, Meta(min_length=1, max_length=500)]
# 120: an example is a button, which shows all of it.
Example = Annotated[str, Meta(min_length=1, max_length=120)]
Days = Annotated[float, Meta(ge=0, le=10_000)]
Money = Annotated[float, Meta(ge=0.000001, le=10_000)]
"""An amount in the currency of the organisation."""
MICROS = 1_000_000
"""Millionths in one unit of a currency."""


# -- crafts ------------------------------------------------------------------------------------------------------------


class BaseSkill(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag=str.lower):
    """A way to answer a text. `title` is the heading of the answer."""

    title: Line


class Topics(BaseSkill, frozen=True):
    """Lists what the text is about, at most `most` topics."""

    most: Annotated[int, Meta(ge=1, le=20)] = 5


class Check(Struct, frozen=True, forbid_unknown_fields=True):
    """Writes its sentence if one of the words is in the text, or unless one of them is. `#` means any number."""

    say: Line
    when: tuple[Word, ...] = ()
    unless: tuple[Word, ...] = ()


class Checks(BaseSkill, frozen=True):
    """Checks of the text."""

    items: Annotated[tuple[Check, ...], Meta(min_length=1, max_length=100)]


class Estimate(BaseSkill, frozen=True):
    """Days for the items that the text names; `otherwise` if it names none of the table."""

    days: Annotated[dict[Word, Days], Meta(min_length=1, max_length=100)]
    otherwise: Days = 1.0


class Plan(BaseSkill, frozen=True):
    """Steps. In each, `{thing}` is replaced by the first topic of the text, `{things}` by all of them."""

    steps: Annotated[tuple[Line, ...], Meta(min_length=1, max_length=20)]


DemoSkill = Topics | Checks | Estimate | Plan


# -- workspaces --------------------------------------------------------------------------------------------------------


class DemoBudget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a workspace may spend in a day. `lease`: what it reserves of that before each turn."""

    money: Money
    lease: Money


class DemoWorkspace(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A workspace of the company (`[[seat]]` in the file), and those below it.

    `seconds`: how long its agent works on an answer, so that a person can see it. `host`: where the agent runs; `mcp`:
    in an MCP host, with tools and without HTTP; `stdout`: a program that only prints; `push`: its messages are pushed;
    `agent`: `molecule agent run` with a script for a model. `reply_seconds`: seconds until an answer is due, if not the
    server's default. `progress`: whether it reports progress on delegated work. `stumbles`: whether the first push of
    each delegation fails, as while a proxy restarts. `asks_before`: work that names one of these words needs an
    approval first. `prompt`: the start of its system prompt, which is reported to the server; an agent without a model
    does not need one. `examples`: requests that the page offers while its chat is empty. `accept`: checks that the
    answers of those that it asks must pass. `delivers`: name of the JSON file that it attaches to an answer to a peer;
    `hasty`: whether the file is unfinished until an answer is returned to it. `cost`: what it reports that an answer
    has cost. `budget`: what it may spend."""

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
    examples: Annotated[tuple[Example, ...], Meta(max_length=5)] = ()
    accept: Annotated[tuple[AcceptanceCheck, ...], Meta(max_length=10)] = ()
    delivers: str = ""
    hasty: bool = False
    cost: Money | None = None
    budget: DemoBudget | None = None
    craft: tuple[DemoSkill, ...] = ()
    seat: "tuple[DemoWorkspace, ...]" = ()


class AgentAssignment(Struct, frozen=True):
    """What an agent gets when it starts."""

    url: str
    workspace_id: str
    token: str
    seat: DemoWorkspace
    folder: str = ""
    """Folder for what the agent must keep across restarts."""


# -- input of an agent -------------------------------------------------------------------------------------------------


class DemoPeer(Struct, frozen=True):
    """A workspace that the agent can talk to. `stems`: of its description; without skills it gets no requests."""

    id: str
    name: str
    place: Literal["above", "beside", "below"]
    has_skills: bool = True
    stems: frozenset[str] = frozenset()


class DemoApproval(Struct, frozen=True, kw_only=True):
    """An approval, from a message or the API.

    `revision`, `action_hash`: the exact version that is asked for. `by`, `note`: the decider and their note."""

    id: str
    status: str
    revision: int
    action_hash: str
    by: str = ""
    note: str = ""

    @property
    def is_pending(self) -> bool:
        """Return whether there is no decision yet."""
        return self.status in (ApprovalStatus.PENDING, ApprovalStatus.INFO)


class DemoMessage(Struct, frozen=True, kw_only=True):
    """A delivered message. `sender` is a workspace id, or None for a person; `handle` is its reply handle, if any.

    `delegation_id`: the delegation that it begins, reports the result of, or ends. `is_failed`: there is no result, and
    the text says why. `is_returned`: an answer to the delegation failed its checks. `approval`: the one to decide
    (`needs_decision`), or the agent's own that it is about."""

    id: str
    attempt: int
    text: str
    sender: str | None = None
    handle: str = ""
    delegation_id: str = ""
    is_result: bool = False
    is_failed: bool = False
    is_returned: bool = False
    wants_answer: bool = True
    approval: DemoApproval | None = None
    needs_decision: bool = False

    @property
    def is_delegated(self) -> bool:
        """Return whether the message is delegated work."""
        return self.wants_answer and bool(self.delegation_id)


# -- actions -----------------------------------------------------------------------------------------------------------


class WorkAction(Struct, frozen=True):
    """Work visibly on a task for some time."""

    seconds: float
    task: str


class SayAction(Struct, frozen=True):
    """Write to the user; the same key has one effect.

    `answers`: the message that it is about; `progress`: it does not answer the message yet."""

    text: str
    key: str
    answers: str = ""
    progress: bool = False


class DemoFile(Struct, frozen=True):
    """A JSON file that an answer delivers."""

    name: str
    content: str


class AnswerAction(Struct, frozen=True):
    """Answer a peer. A second answer to the same message has no effect."""

    message: DemoMessage
    text: str
    file: DemoFile | None = None


class ReportCostAction(Struct, frozen=True):
    """Report what an answer has cost. A second report about the same message has no effect."""

    message: DemoMessage
    text: str
    cost: float


class DelegateAction(Struct, frozen=True):
    """Delegate work to a peer on behalf of the request `about`. The same key is one delegation."""

    to: str
    text: str
    key: str
    about: str


class ReportAction(Struct, frozen=True):
    """Report progress on a delegation. The next report makes up for a lost one."""

    delegation_id: str
    step: str
    percent: int


class AckAction(Struct, frozen=True):
    """Acknowledge a message."""

    message: DemoMessage


class AskApprovalAction(Struct, frozen=True):
    """Ask for an approval on behalf of the request `about`.

    The same key is one approval: asking again returns its status."""

    action: str
    reason: str
    task: str
    key: str
    about: str


class EscalateAction(Struct, frozen=True):
    """Escalate a decision to the next approver."""

    approval: DemoApproval
    note: str


class UseApprovalAction(Struct, frozen=True):
    """Report that an approved action is executed."""

    approval: DemoApproval


class WithdrawAction(Struct, frozen=True):
    """Withdraw an approval request."""

    approval: DemoApproval
    note: str


Action = (
    WorkAction
    | SayAction
    | AnswerAction
    | ReportCostAction
    | DelegateAction
    | ReportAction
    | AckAction
    | AskApprovalAction
    | EscalateAction
    | UseApprovalAction
    | WithdrawAction
)
