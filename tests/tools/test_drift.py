"""Nothing that is said or offered about tools drifts from the registry: the ten meanings of the original's table, each
under the name that it had there, and the proof that one adapter without one tool is noticed.

    scripts/docs        writes the three snapshots and docs/reference/tools.md anew; a review then sees what has changed
"""

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import ModuleType

import msgspec
import pytest
from click.testing import CliRunner

from molecule_core import langchain
from molecule_core.agent.config import read_configuration
from molecule_core.agent.host import mcp_host as agent_host
from molecule_core.agent.host.mcp_host import AgentHost
from molecule_core.api.approvals import gate
from molecule_core.api.mcp import tool_host
from molecule_core.cli import COMMANDS, tool
from molecule_core.tools import docs
from molecule_core.tools.mcp_dispatcher import tool_listing
from molecule_core.tools.registry import TOOLS
from molecule_core.tools.runners import approval_tools
from molecule_core.tools.spec import TOOL_SECTIONS, ToolSpec
from molecule_core.wire.schemas.acceptance import ReviewCheck
from molecule_core.wire.schemas.activity import APPROVAL_KINDS
from molecule_core.wire.schemas.agent_cards import ALL_TOOL_NAMES
from molecule_core.wire.schemas.runtimes import Runtime, tool_name
from testing.mcp_clients import hosted
from testing.running_server import running
from tests.requirements import requirement

ROOT = Path(__file__).resolve().parents[2]
SNAPSHOTS = Path(__file__).parent / "snapshots"
NAMES = [spec.name for spec in TOOLS]

OLD_NAMES = (
    "delegate_to_workspace",
    "check_delegation_status",
    "search_memory",
    "commit_hma_memory",
    "recall_hma_memory",
)
"""What the original called some of its tools before it renamed them."""


def rendered_sections() -> str:
    return docs.messaging_docs() + docs.inbox_and_memory_docs()


# -- what each adapter offers ------------------------------------------------------------------------------------------

SEAT = {"WORKSPACE_ID": "a", "MOLECULE_WORKSPACE_TOKEN": "t", "PLATFORM_URL": "http://127.0.0.1:9"}


async def of_the_agent(place: Path) -> list[str]:
    """`molecule mcp`, as its host sees it."""
    worker = AgentHost(read_configuration({**SEAT, "CONFIGS_DIR": str(place)}))
    return [tool_listing(spec)["name"] for spec in worker.tools()]


async def of_the_server(place: Path) -> list[str]:
    """/mcp, as a host sees it that has only an address and a token."""
    async with running("sqlite", str(place / "molecule.db"), place) as server:
        ops = await server.seat()
        async with hosted(server, ops.token, "stateless") as host:
            return [tool.name for tool in (await host.client.list_tools()).tools]


async def of_langchain(place: Path) -> list[str]:
    with langchain.Toolkit({**SEAT, "CONFIGS_DIR": str(place)}) as kit:
        return [each.name for each in kit.tools]


async def of_the_shell(place: Path) -> list[str]:
    said = CliRunner().invoke(tool.command, ["--list"])
    return re.findall(r"^(\w+): ", said.output, flags=re.MULTILINE)


async def of_prompts(place: Path) -> list[str]:
    return re.findall(r"^- \*\*(\w+)\*\*: ", rendered_sections(), flags=re.MULTILINE)


async def of_the_page(place: Path) -> list[str]:
    return re.findall(r"^### (\w+)$", "\n".join(docs.tools_page_lines()), flags=re.MULTILINE)


# The adapter, and the module that reads the registry for it.
ADAPTERS: dict[str, tuple[Callable[[Path], Awaitable[list[str]]], ModuleType]] = {
    "agent": (of_the_agent, agent_host),
    "server": (of_the_server, tool_host),
    "langchain": (of_langchain, langchain),
    "shell": (of_the_shell, tool),
    "prompts": (of_prompts, docs),
    "page": (of_the_page, docs),
}


async def check_offers_all(adapter: str, place: Path) -> None:
    """An adapter has every tool of the registry, in its order, and no other."""
    offers, _ = ADAPTERS[adapter]
    assert await offers(place) == NAMES


@requirement("G5")
@pytest.mark.parametrize("adapter", ADAPTERS)
async def test_an_adapter_offers_every_tool_of_the_registry(adapter: str, tmp_path: Path) -> None:
    """test_mcp_server_registers_every_registry_tool, for all adapters."""
    await check_offers_all(adapter, tmp_path)


@requirement("G5")
@pytest.mark.parametrize("adapter", ADAPTERS)
async def test_a_tool_that_one_adapter_lacks_fails(
    adapter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ADAPTERS[adapter][1], "TOOLS", TOOLS[1:])
    with pytest.raises(AssertionError, match=NAMES[0]):
        await check_offers_all(adapter, tmp_path)


def test_the_names_in_agent_cards_are_those_of_the_registry() -> None:
    assert list(ALL_TOOL_NAMES) == NAMES


@requirement("Q6")
def test_a_rule_can_stop_every_tool_but_those_that_need_no_approval() -> None:
    """Without its routes in `_LOCAL_TOOL_ROUTES`, a tool of several requests would pass every rule."""
    never_gated = {*gate.UNGATED_TOOLS, *approval_tools.TOOL_NAMES}
    assert {spec.name for spec in TOOLS if not gate._routes_of_tool(spec)} == never_gated


# -- MCP ---------------------------------------------------------------------------------------------------------------


@requirement("G5")
@pytest.mark.parametrize("spec", TOOLS, ids=NAMES)
def test_what_mcp_says_of_a_tool_begins_with_its_short_line(spec: ToolSpec) -> None:
    """test_mcp_tool_descriptions_match_registry_short"""
    assert tool_listing(spec)["description"].split("\n")[0] == spec.summary


@requirement("G5")
@pytest.mark.parametrize("spec", TOOLS, ids=NAMES)
def test_the_schema_that_mcp_shows_is_the_one_that_calls_are_held_to(spec: ToolSpec) -> None:
    """test_mcp_tool_input_schemas_match_registry: properties, needed ones and bounds are those of the type."""
    shown = tool_listing(spec)["inputSchema"]
    own = msgspec.json.schema(spec.arguments_type)["$defs"][spec.arguments_type.__name__]
    assert shown["properties"].keys() == own["properties"].keys() == set(spec.arguments_type.__struct_fields__)
    assert shown.get("required", []) == own.get("required", [])
    assert tool_listing(spec)["outputSchema"]["properties"].keys() == set(spec.result_type.__struct_fields__)


# -- prompts -----------------------------------------------------------------------------------------------------------


@requirement("G4", "G5")
@pytest.mark.parametrize("runtime", Runtime, ids=lambda runtime: runtime.name)
def test_prompts_name_every_tool_by_bullet_and_by_heading_as_the_runtime_calls_it(runtime: Runtime) -> None:
    """test_a2a_instructions_text_includes_every_a2a_tool, for all sections and runtimes"""
    text = docs.messaging_docs(runtime) + docs.inbox_and_memory_docs(runtime)
    for spec in TOOLS:
        name = tool_name(spec.name, runtime)
        assert f"- **{name}**: " in text
        assert f"### {name}\n\n" in text
    bare = [name for name in NAMES if re.search(rf"(?<![\w.]){name}{'' if '_' in name else '[(`]'}", text)]
    assert bare == (NAMES if runtime is Runtime.BARE else [])
    assert all(spec.section in TOOL_SECTIONS for spec in TOOLS)


@requirement("G2", "G5")
@pytest.mark.parametrize("name", OLD_NAMES)
def test_no_old_name_is_spoken(name: str) -> None:
    """test_old_pre_rename_names_not_present_in_docs"""
    word = re.compile(rf"\b{name}\b")
    said = {
        "prompts": rendered_sections() + docs.cli_docs() + docs.server_instructions(several=True),
        "mcp": msgspec.json.encode([tool_listing(spec) for spec in TOOLS]).decode(),
        "command": "\n".join(COMMANDS),
    }
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    said |= {str(page.relative_to(ROOT)): page.read_text(encoding="utf-8") for page in pages}
    assert [place for place, text in said.items() if word.search(text)] == []


def test_the_search_for_old_names_would_find_one() -> None:
    word = re.compile(rf"\b{OLD_NAMES[0]}\b")
    assert word.search(f"Use `{OLD_NAMES[0]}` for that.")
    assert len(OLD_NAMES) == len(set(OLD_NAMES) - set(NAMES))


def _known_words() -> set[str]:
    """What may be spoken of: tools, what they take, what they give, members of checks, the kinds of messages."""
    schemas = [schema for spec in TOOLS for schema in (spec.input_schema, spec.output_schema)]
    known = {*NAMES, *APPROVAL_KINDS, *ReviewCheck.__struct_fields__}
    return known | {name for schema in schemas for name in _members(schema)}


def _members(schema: object) -> set[str]:
    if isinstance(schema, list):
        return {name for each in schema for name in _members(each)}
    if not isinstance(schema, dict):
        return set()
    own = set(schema["properties"]) if isinstance(schema.get("properties"), dict) else set()
    own |= set(schema["enum"]) if isinstance(schema.get("enum"), list) else set()
    return own | {name for each in schema.values() for name in _members(each)}


@requirement("G1", "G5")
@pytest.mark.parametrize(
    "said",
    [
        pytest.param(lambda: msgspec.json.encode([tool_listing(spec) for spec in TOOLS]).decode(), id="descriptions"),
        pytest.param(lambda: docs.server_instructions(several=True), id="instructions"),
        pytest.param(docs.cli_docs, id="shell"),
        pytest.param(lambda: tool_host.McpToolHost.instructions, id="server"),
        pytest.param(
            lambda: docs.server_instructions(several=True, workspace_ids=["a", "b"], poll_seconds=2), id="agent"
        ),
    ],
)
def test_whatever_is_spoken_of_exists(said: Callable[[], str]) -> None:
    """A tool or an argument that is renamed is not spoken of by its old name anywhere."""
    spoken = set(re.findall(r"\b[a-z]+(?:_[a-z]+)+\b", said()))
    assert spoken - _known_words() == set()
    assert spoken & set(NAMES)


@requirement("G4", "G5")
@pytest.mark.parametrize(
    ("snapshot", "rendered"),
    [
        pytest.param("a2a_mcp.txt", docs.messaging_docs, id="test_a2a_mcp_instructions_match_snapshot"),
        pytest.param("a2a_cli.txt", docs.cli_docs, id="test_a2a_cli_instructions_match_snapshot"),
        pytest.param("inbox_memory.txt", docs.inbox_and_memory_docs, id="test_hma_instructions_match_snapshot"),
    ],
)
def test_what_is_rendered_is_what_was_reviewed(snapshot: str, rendered: Callable[[], str]) -> None:
    kept = (SNAPSHOTS / snapshot).read_bytes()
    assert kept.decode() == rendered(), "if this is meant: scripts/docs, and commit what it wrote"
    assert b"\r" not in kept


@requirement("G4")
def test_the_snapshots_keep_their_line_ends_on_every_system() -> None:
    assert "tests/tools/snapshots/*.txt text eol=lf" in (ROOT / ".gitattributes").read_text().splitlines()
    assert {path.name for path in SNAPSHOTS.iterdir()} == {"a2a_mcp.txt", "a2a_cli.txt", "inbox_memory.txt"}


@requirement("G3")
@pytest.mark.parametrize("runtime", Runtime, ids=lambda runtime: runtime.name)
@pytest.mark.parametrize("several", [False, True])
def test_the_instructions_tell_the_convention_in_one_paragraph_that_hosts_do_not_cut(
    runtime: Runtime, several: bool
) -> None:
    text = docs.server_instructions(runtime, several=several)
    assert len(text) < docs.MAX_INSTRUCTIONS_LENGTH
    assert "\n" not in text
    for name in ("reply_to_workspace", "inbox_pop", "wait_for_message", "inbox_peek"):
        assert tool_name(name, runtime) in text
    assert ("arrival_workspace_id" in text) is several


# -- the shell ---------------------------------------------------------------------------------------------------------


@requirement("G3")
@pytest.mark.parametrize("spec", TOOLS, ids=lambda spec: spec.name)
def test_nothing_that_reads_answers_or_acknowledges_is_refused_by_a_host_that_asks_nobody(spec: ToolSpec) -> None:
    """Codex with the approval policy `never` calls what only reads, and what is neither destructive nor open-world."""
    hints = spec.annotations
    assert hints.read_only or not (hints.destructive or hints.open_world) or spec.name == "update_agent_card"


@requirement("G4", "G5")
@pytest.mark.parametrize("spec", [spec for spec in TOOLS if spec.section == "a2a"], ids=lambda spec: spec.name)
def test_every_a2a_tool_has_a_word_for_the_shell_or_says_that_it_has_none(spec: ToolSpec) -> None:
    """test_cli_keyword_mapping_covers_every_a2a_tool: `cli` has no default, so whoever adds a tool must say; a tool
    without a word is named in the block, for `molecule tool NAME`."""
    assert "cli" in ToolSpec.__struct_fields__[: len(ToolSpec.__struct_fields__) - len(ToolSpec.__struct_defaults__)]
    if spec.cli is not None:
        assert spec.cli.split()[0] in COMMANDS
    else:
        assert re.search(rf"\b{spec.name}\b", docs.cli_docs())


@requirement("G4", "G5")
def test_the_block_for_the_shell_says_every_word_and_no_other() -> None:
    """test_cli_keyword_substrings_appear_in_cli_block"""
    words = {spec.cli for spec in TOOLS if spec.cli}
    said = set(re.findall(r"molecule (\w+(?: --async| request\b| decide\b)?)", docs.cli_docs()))
    assert said == {*words, "tool"}
    assert {each.split()[0] for each in said} <= set(COMMANDS)
    called = set(re.findall(r"molecule tool (\w+)", docs.cli_docs())) - {"NAME"}
    assert called <= set(NAMES)


@requirement("G4", "G5")
def test_every_call_in_the_block_for_the_shell_is_one_that_its_tool_takes() -> None:
    calls = re.findall(r"molecule tool (\w+) --json '(\{.+?\})'", docs.cli_docs())
    calls += re.findall(r"molecule tool (\w+) --json - <<'END'\n +(\{.+\})\n +END", docs.cli_docs())
    by_name = {spec.name: spec for spec in TOOLS}
    calls = [(name, text) for name, text in calls if name != "NAME"]
    assert len(calls) == 9
    for name, text in calls:
        by_name[name].parse_arguments(msgspec.json.decode(text.replace("...", "x")))
