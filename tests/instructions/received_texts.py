"""What an agent really receives: every kind of message, for the runtimes of the three defaults and for a program behind
a bridge, in each form, on every way. Made by the product's own functions; `scripts/docs` writes the snapshots anew, and
a review sees what has changed.

A task and its result are told from what a real server stored and handed over (delivered.py), approvals, whose noun
comes later, from fixtures. Tokens are those of a real tokenizer (o200k); the estimate that agents and people are told
stands beside them.
"""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import msgspec

from molecule_core.agent import message_format
from molecule_core.agent.bridges.program_input import program_input
from molecule_core.api.messages.inbox_view import InboxPresenter
from molecule_core.common.limits import Limits
from molecule_core.common.metrics import InstructionMeter
from molecule_core.instructions.builtin_templates import builtin_catalogue
from molecule_core.instructions.render import Renderer
from molecule_core.messages.model import ActivityPageRow
from molecule_core.messages.obligations.instructions import (
    InstructionBuilder,
    InstructionOptions,
    LastInstructions,
    RenderedInstructions,
)
from molecule_core.messages.reader import MessageReader
from molecule_core.org.model import Org, Workspace, WorkspaceStatus
from molecule_core.org.reader import OrgReader
from molecule_core.org.registry import OrgRegistry
from molecule_core.store.journal import JournalEntry
from molecule_core.views.feed import _encode_entry
from molecule_core.wire.schemas.envelope import InstructionForm, to_push_body
from molecule_core.wire.schemas.inbox import message_from_row
from molecule_core.wire.schemas.runtimes import Runtime
from tests.instructions.delivered_task import PUBLIC_URL, RESULT, TASK, delivered
from tests.instructions.runtimes import AGENTS, BRIDGED, card_of, runtime_of
from tests.instructions.tokenizer import tokens

FORMS: tuple[InstructionForm, ...] = ("full", "compact", "delta")
FOLDER = "tests/instructions/snapshots"
_AT = 1_800_000_000_000_000
_OWN, _PEER = "01900000-0000-7000-8000-00000000000a", "01900000-0000-7000-8000-00000000000b"
_ID = "01900000-0000-7000-8000-0000000000ff"
_FILE = {"kind": "file", "file": {"uri": f"molecule://{_OWN}/f-1", "name": "plan.pdf", "mimeType": "application/pdf"}}


APPROVAL = {"approval_id": "01900000-0000-7000-8000-0000000000a1", "revision": 1, "action_hash": "0123456789abcdef" * 4}
"""What the server writes beside the words of a message about an approval."""


class Kind(NamedTuple):
    """A sort of message, as it is stored; one that `is_delivered` was stored by a real server."""

    name: str
    kind: str
    intent: str = "request"
    from_peer: bool = False
    several: bool = False
    parts: tuple[Any, ...] = ({"kind": "text", "text": TASK},)
    metadata: dict[str, Any] = {}  # noqa: RUF012
    is_delivered: bool = False


KINDS = (
    Kind("canvas_user", "canvas_user"),
    Kind(
        "canvas_user, with a file, to an agent of several workspaces",
        "canvas_user",
        several=True,
        parts=({"kind": "text", "text": "See."}, _FILE),
    ),
    Kind("peer_agent", "peer_agent", from_peer=True),
    Kind("peer_agent, for information", "peer_agent", intent="inform", from_peer=True),
    Kind("broadcast", "broadcast", intent="inform", from_peer=True),
    Kind("chat_upload_receive", "chat_upload_receive", intent="inform", parts=(_FILE,)),
    Kind("chat_upload_receive, from a peer", "chat_upload_receive", intent="inform", from_peer=True, parts=(_FILE,)),
    Kind("delegation", "delegation", is_delivered=True),
    Kind(
        "delegation_result",
        "delegation_result",
        intent="inform",
        parts=({"kind": "text", "text": RESULT},),
        is_delivered=True,
    ),
    Kind("approval_request", "approval_request", from_peer=True, metadata=APPROVAL),
    Kind("approval_decision", "approval_decision", intent="inform", from_peer=True, metadata=APPROVAL),
    Kind("approval_decision, that asks for more", "approval_decision", from_peer=True, metadata=APPROVAL),
)


def _workspace(id_: str, name: str, agent: str, role: str | None = None) -> Workspace:
    return Workspace(
        id=id_,
        org_id="org-1",
        parent_id=None,
        name=name,
        role=role,
        runtime=runtime_of(agent),
        delivery_mode="poll",
        url=None,
        agent_card=json.dumps(card_of(agent, name)),
        status=WorkspaceStatus.ONLINE,
        tier=1,
        max_concurrent_tasks=1,
        instruction_template_id=None,
        talk_to_user_enabled=True,
        x=0.0,
        y=0.0,
        rev=1,
        created_at=_AT,
        updated_at=_AT,
        removed_at=None,
        external=False,
        instruction_compact=False,
        broadcast_enabled=False,
        collapsed=False,
    )


class Desk:
    """The product's own hands, without a store, before a message of a sort: `row`, of the workspace `own`."""

    def __init__(self, agent: str, kind: Kind) -> None:
        self.agent = agent
        if kind.is_delivered:
            self.row, _, home, self.own, peer = delivered(agent)[kind.kind]
        else:
            self.row, home = row_of(kind), Org("org-1", "Default", False, _AT)
            self.own, peer = _workspace(_OWN, "Ops", agent), _workspace(_PEER, "Lead", agent, "leads")
        registry = OrgRegistry()
        registry.load([home], [self.own, peer], [])
        org = OrgReader(registry)
        renderer = Renderer(builtin_catalogue(), public_url=PUBLIC_URL, limits=Limits())
        nothing = cast(Any, None)
        self.telling = InstructionBuilder(
            renderer, org, nothing, InstructionMeter(), limits=Limits(), shape="both", adaptive=True
        )
        self.projection = InboxPresenter(self.telling)
        self.reader = MessageReader(nothing, org, nothing, limits=Limits(), public_url=PUBLIC_URL)

    def tells(self, form: InstructionForm, *, several: bool = False) -> RenderedInstructions:
        """What is said in a form: by what the agent was told before."""
        first = self._tell(LastInstructions(), several)
        if form == "full":
            return first
        state = first[1].last_instructions
        return self._tell(state if form == "compact" else msgspec.structs.replace(state, static_key="others"), several)

    def _tell(self, state: LastInstructions, several: bool) -> RenderedInstructions:
        due = self.telling.reply_due_at(self.own, self.row, _AT)
        told = self.telling.render(self.own, self.row, state, multi_workspace=several, due_at=due)
        assert told is not None
        return told


def row_of(kind: Kind) -> ActivityPageRow:
    """A message of a sort in the log."""
    message = {"kind": "message", "role": "user", "messageId": "m-1", "parts": list(kind.parts)}
    about = {} if kind.from_peer else {"source": "canvas", "user_id": "u-1", "username": "Ann"}
    params = {"message": {**message, "metadata": {"intent": kind.intent, **kind.metadata}}, "metadata": about}
    body = json.dumps({"jsonrpc": "2.0", "id": "m-1", "method": "message/send", "params": params})
    source = _PEER if kind.from_peer else None
    method = "chat_upload_receive" if kind.kind == "chat_upload_receive" else "message/send"
    summary = str(kind.parts[0].get("text", "plan.pdf"))
    head = (_ID, _OWN, 7, "a2a_receive", method, kind.kind, kind.intent, source, _OWN)
    return ActivityPageRow(
        *head, "ok", _AT, None, summary, None, body, None, None, None, 0, None, None, "thread-1", 5, 1
    )


def received(agent: str, kind: Kind, form: InstructionForm) -> Iterator[tuple[str, Any]]:
    """What an agent gets, way by way."""
    desk = Desk(agent, kind)
    row = desk.row
    said, _ = desk.tells(form, several=kind.several)
    spoken = msgspec.structs.replace(row, instructions=said)

    def shown(wish: InstructionOptions) -> Any:
        plain = desk.reader.to_activity_row(row, with_peer=True, with_files=True)
        return json.loads(msgspec.json.encode(desk.projection.present_row(plain, spoken, wish)))

    polled = shown(InstructionOptions(in_envelope=True, multi_workspace=kind.several))
    yield "instructions", polled["instructions"]
    yield "poll, beside the message", polled
    yield (
        "poll, in the text",
        shown(InstructionOptions(in_envelope=False))["request_body"]["params"]["message"]["parts"],
    )
    yield (
        "push",
        json.loads(to_push_body(row.request_body or "", said, message_id="m", context_id="c"))["params"]["message"],
    )
    if form == "full":
        yield "event stream", _streamed(desk, row, kind)
    message = message_from_row(polled, desk.own.id)
    seen = message if kind.several else msgspec.structs.replace(message, arrival_workspace_id="")
    yield "wait_for_message", json.loads(msgspec.json.encode(seen))
    if desk.own.runtime == "claude-code":
        content, meta = message_format.channel_text(message, single=not kind.several, runtime=Runtime.CLAUDE_CODE)
        yield "channel", {"content": content, "meta": meta}
    if desk.agent == BRIDGED:
        yield "standard input", program_input(message, preamble=False).decode()


def _streamed(desk: Desk, row: ActivityPageRow, kind: Kind) -> Any:
    """A live event knows nothing of what was told before: it tells all."""
    about = (row.id, row.seq, row.activity_type, 0, row.method, row.kind, row.source_id, row.target_id, row.status)
    rest = (None, row.summary, None, row.request_body, None, None)
    told = desk.reader._to_live_payload(
        *about, *rest, row.workspace_id, row.intent, _AT, row.context_id, row.inbound_no
    )
    fact = JournalEntry(9, "ACTIVITY_LOGGED", desk.own.id, "workspace", "activity", row.id, 1, _AT, None)
    wish = InstructionOptions(in_envelope=True, multi_workspace=kind.several)
    return json.loads(desk.projection.present_event(desk.own, wish, _encode_entry(fact, told)).payload)


def page(agent: str, form: InstructionForm) -> str:
    """The snapshot of one agent and form: what is the same as the instructions above it is not written out again."""
    return "\n".join(_page(agent, form)) + "\n"


def _page(agent: str, form: InstructionForm) -> Iterator[str]:
    yield f"{agent}, {form} form\n"
    for kind in KINDS:
        ways = dict(received(agent, kind, form))
        told = ways.pop("instructions")
        yield f"== {kind.name}: {tokens(told['text'])} tokens, told as {told['tokens']}\n"
        yield told["text"]
        yield "\n-- instructions\n" + json.dumps({**told, "text": "(above)"}, ensure_ascii=False)
        for way, got in ways.items():
            yield f"\n-- {way}\n{json.dumps(_short(got, told), ensure_ascii=False)}"
        yield ""


def _short(got: Any, told: dict[str, Any]) -> Any:
    if got == told:
        return "(above)"
    if isinstance(got, dict):
        return {name: _short(each, told) for name, each in got.items()}
    return [_short(each, told) for each in got] if isinstance(got, list) else got


def texts() -> Iterator[tuple[str, str]]:
    """Every snapshot with what it must hold."""
    for agent in AGENTS:
        for form in FORMS:
            yield f"{FOLDER}/{agent}-{form}.txt", page(agent, form)
