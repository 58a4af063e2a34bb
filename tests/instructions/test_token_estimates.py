"""The count of tokens is as far from a tokenizer's as docs/reference/templates.md and `script.estimate` say."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from molecule_core.instructions.language.compiler import estimate_tokens
from molecule_core.instructions.model import MessageContext, Verbosity
from molecule_core.wire.schemas.activity import MessageKind
from molecule_core.wire.schemas.agent_cards import ALL_TOOL_NAMES
from testing.templates import HANDLE, ID, rendered, renderer_of, seat
from tests.instructions.tokenizer import tokens
from tests.requirements import requirement

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "templates.md"
USER = MessageContext(
    kind="canvas_user", intent="request", reply_handle=HANDLE, due_at="2026-01-01T00:00:00Z", workspace_id=ID
)
MESSAGES = (
    USER,
    replace(USER, peer_id=ID, peer_name="Research"),
    replace(USER, peer_id=ID, user_id=ID, delegation_id=ID),
    replace(USER, arrival_workspace_id=ID, intent="inform"),
    replace(USER, reminder=True, attempt=2),
    replace(USER, attachments=("plan.pdf", "photo of a cat.png")),
    replace(USER, attachments=("f" * 255,) * 3),
)


@requirement("I14", "I15")
@pytest.mark.parametrize("runtime", ["claude-code", "codex", "generic-mcp", "gemini-cli", "opencode", "cline"])
@pytest.mark.parametrize(
    ("form", "most"), [(Verbosity.FULL, 1 / 6), (Verbosity.COMPACT, 1 / 3), (Verbosity.DELTA, 1 / 4)]
)
def test_the_estimate_is_within_what_the_documentation_says(runtime: str, form: Verbosity, most: float) -> None:
    renderer = renderer_of()
    some = ("reply_to_workspace", "inbox_pop")
    agents = [seat(runtime, tools) for tools in (ALL_TOOL_NAMES, some, ())]
    bridged = replace(agents[-1], answers_by_command=True)
    for agent in (*agents, seat(runtime, (), known=False), bridged):
        for kind in MessageKind:
            for facts in MESSAGES:
                made = rendered(renderer, agent, replace(facts, kind=kind), form)
                real = tokens(made.text)
                assert 0.9 * real <= made.tokens <= (1 + most) * real, (real, made.tokens, made.text)


@requirement("I14")
def test_the_costs_in_the_documentation_are_those_of_a_tokenizer() -> None:
    renderer = renderer_of()
    agents = [seat(runtime) for runtime in ("claude-code", "codex", "generic-mcp")]
    bridged = replace(seat("generic-mcp", ()), answers_by_command=True)
    full, compact = (
        [tokens(rendered(renderer, agent, USER, form).text) for agent in (*agents, bridged)]
        for form in (Verbosity.FULL, Verbosity.COMPACT)
    )
    told = " ".join(PAGE.read_text(encoding="utf-8").split())
    assert f"full {full[0]} (Claude Code), {full[1]} (Codex), {full[2]} (bare names)" in told
    assert f"compact {compact[0]}, {compact[1]}, {compact[2]}." in told
    assert f"A program behind a bridge: full {full[3]}, compact {compact[3]}." in told


def test_of_a_script_without_spaces_the_estimate_sees_little() -> None:
    text = "\u8bf7\u7528\u5de5\u5177\u56de\u7b54\u8fd9\u6761\u6d88\u606f" * 8
    assert estimate_tokens(text) < tokens(text) / 2
