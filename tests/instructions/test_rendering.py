"""From templates and facts to words: the three that come with Molecule, forms, tools, inheritance, caches, failures."""

from hashlib import blake2b

import msgspec
import pytest
from msgspec.structs import replace

from molecule_core.common.limits import Limits
from molecule_core.instructions import builtin_templates, rules
from molecule_core.instructions.model import (
    ActiveVersion,
    AgentProfile,
    MessageContext,
    TemplateContent,
    TemplateVersionRef,
    Verbosity,
)
from molecule_core.instructions.render import Renderer, agent_profile
from molecule_core.wire.schemas.activity import MessageKind
from molecule_core.wire.schemas.agent_cards import ALL_TOOL_NAMES
from testing.templates import (
    HANDLE,
    ID,
    catalogue_of,
    rendered,
    renderer_of,
    said,
    seat,
    template,
)
from tests.requirements import requirement

RUNTIMES = ("claude-code", "codex", "generic-mcp", "gemini-cli", "opencode", "cline", "cursor", "langgraph")
USER = MessageContext(kind="canvas_user", intent="request", reply_handle=HANDLE, due_at="2026-01-01T00:00:00Z")
PEER = replace(USER, kind="peer_agent", peer_id=ID)
# As templates were written before there were programs that answer by a command.
OLDER = TemplateContent(
    reply_tool="reply_to_workspace",
    blocks={
        "reply": "{% if reply_handle %}{% for each in available_tools %}{% if each == 'reply' %}{{ each }}{% endif %}"
        "{% endfor %}{% elif reply_tool %}{{ reply_tool }}{% else %}over HTTP{% endif %}",
        "compact": "{% if reply_tool %}{{ reply_tool }}{% else %}over HTTP{% endif %}",
    },
)
OLD_TOOLS = tuple(name for name in ALL_TOOL_NAMES if name not in ("reply", "decline", "present_options"))


@requirement("I5")
@pytest.mark.parametrize(
    ("runtime", "template_id"),
    [
        ("claude-code", "claude-code-default"),
        ("Claude-Agent-SDK", "claude-code-default"),
        ("codex", "codex-default"),
        ("cursor", "generic-mcp-default"),
        ("", "generic-mcp-default"),
        ("a runtime of tomorrow", "generic-mcp-default"),
    ],
)
def test_a_workspace_without_a_template_has_that_of_its_runtime(runtime: str, template_id: str) -> None:
    assert renderer_of().choose_version(seat(runtime), "a") == TemplateVersionRef(
        template_id, builtin_templates.BUILT_IN_VERSION, ""
    )


@requirement("I5")
def test_a_chosen_template_that_is_gone_is_as_if_none_were_chosen() -> None:
    gone = msgspec.structs.replace(seat(), template_id="gone")
    assert renderer_of().choose_version(gone, "a").template_id == "claude-code-default"


@requirement("I5")
def test_an_organisations_own_version_counts_there_alone() -> None:
    own = template(
        "claude-code-default", TemplateContent(blocks={"reply": "own", "compact": "own"}), extends=None, version=2
    )
    renderer = renderer_of(own)
    assert renderer.choose_version(seat(), "a") == TemplateVersionRef("claude-code-default", 2, "org")
    assert renderer.choose_version(replace(seat(), org_id="other"), "a") == TemplateVersionRef(
        "claude-code-default", builtin_templates.BUILT_IN_VERSION, ""
    )


@requirement("I5")
def test_a_deleted_version_of_an_organisation_does_not_answer_for_a_default_of_its_number() -> None:
    said = {name: TemplateContent(blocks={"reply": name, "compact": name}) for name in ("own", "default")}
    number = builtin_templates.BUILT_IN_VERSION
    own = template("codex-default", said["own"], extends=None, version=number)
    default = template("codex-default", said["default"], extends=None, version=number, org_id="")
    catalogue = catalogue_of(own, default)
    catalogue.put_versions([], [ActiveVersion("org", "codex-default", number, None, 0, 0, removed_at=1)])
    renderer = Renderer(catalogue, public_url="", limits=Limits())
    assert renderer.choose_version(seat("codex"), "a") == TemplateVersionRef("codex-default", number, "")
    assert catalogue.find_active_template("org", "codex-default") == default
    assert catalogue.list_versions("org", "codex-default")[:2] == [own, default]
    catalogue.put_versions([], [ActiveVersion("org", "codex-default", number, None, 0, 0)])
    assert renderer.choose_version(seat("codex"), "a") == TemplateVersionRef("codex-default", number, "org")


@requirement("I9")
@pytest.mark.parametrize("form", list(Verbosity))
@pytest.mark.parametrize("kind", MessageKind)
@pytest.mark.parametrize(
    "tools", [ALL_TOOL_NAMES, OLD_TOOLS, ("inbox_pop",), ("send_message_to_user",), ("reply",), ()]
)
def test_a_tool_that_the_agent_has_not_is_never_named(tools: tuple[str, ...], kind: str, form: Verbosity) -> None:
    renderer = renderer_of()
    for runtime in RUNTIMES:
        for intent in ("request", "inform", "ack"):
            facts = replace(PEER, kind=kind, intent=intent, reminder=True, arrival_workspace_id=ID)
            made = rendered(renderer, seat(runtime, tools), facts, form)
            for name in ALL_TOOL_NAMES:
                if name not in tools:
                    assert f"{rules.tool_name_for(name, runtime)}(" not in made.text
                    assert f"{rules.tool_name_for(name, runtime)} " not in made.text.replace("reply tool", "")
            assert made.reply_via == "" or made.reply_via in [rules.tool_name_for(name, runtime) for name in tools]


@requirement("I9")
@pytest.mark.parametrize(
    ("runtime", "spelling"),
    [
        ("claude-code", "mcp__molecule__reply_to_workspace"),
        ("codex", "mcp__molecule.reply_to_workspace"),
        ("gemini-cli", "mcp_molecule_reply_to_workspace"),
        ("opencode", "molecule_reply_to_workspace"),
        ("cline", "molecule__reply_to_workspace"),
        ("langgraph", "reply_to_workspace"),
    ],
)
def test_tools_are_spelled_as_the_runtime_spells_them(runtime: str, spelling: str) -> None:
    made = rendered(renderer_of(), seat(runtime, OLD_TOOLS), USER)
    assert made.reply_via == spelling
    assert f'{spelling}(reply_handle="m17-k3f9q", text=…)' in made.text
    assert "reply_to_workspace" in made.available_tools


@requirement("I9")
def test_the_tool_that_answers_is_one_that_the_agent_has() -> None:
    renderer = renderer_of()

    def via(tools: tuple[str, ...], facts: MessageContext, *, known: bool = True) -> str:
        return rendered(renderer, seat("generic-mcp", tools, known=known), facts).reply_via

    assert via(ALL_TOOL_NAMES, USER) == "reply"
    assert via(OLD_TOOLS, USER) == via((), USER, known=False) == "reply_to_workspace"
    assert via(("reply", "inbox_pop"), PEER) == "reply"
    assert via(("send_message_to_user",), USER) == "send_message_to_user"
    assert via(("send_message_to_user",), PEER) == ""
    assert "answer over HTTP" in rendered(renderer, seat("generic-mcp", ("x",)), PEER).text


@requirement("I9")
@pytest.mark.parametrize(
    ("card", "tools", "known"),
    [
        (None, (), False),
        ('{"name": "Ops"}', (), False),
        ("not JSON", (), False),
        ("[1]", (), False),
        ('{"loaded_mcp_tools": []}', (), True),
        (
            '{"loaded_mcp_tools": ["mcp__molecule__reply", "mcp__other__reply", 3]}',
            ("reply", "mcp__other__reply"),
            True,
        ),
        ('{"capabilities": {"mcp": {"tools": [{"name": "molecule_decline"}, {"x": 1}]}}}', ("decline",), True),
        ('{"capabilities": [], "tools": {"reply": true}}', ("reply",), True),
    ],
)
def test_what_a_card_says_of_tools(card: str | None, tools: tuple[str, ...], known: bool) -> None:
    found = agent_profile("w", "o", "claude-code", None, card)
    assert (found.tools, found.has_tool_list) == (tools, known)


@requirement("I9")
@pytest.mark.parametrize(
    ("card", "by_command"),
    [
        ('{"bridge": "command", "loaded_mcp_tools": []}', True),
        ('{"bridge": "command"}', True),
        ('{"bridge": "command", "tools": ["reply"]}', False),
        ('{"bridge": "codex", "loaded_mcp_tools": []}', False),
        ('{"bridge": {"command": 1}, "loaded_mcp_tools": []}', False),
        ('{"loaded_mcp_tools": []}', False),
        ('["bridge"]', False),
        (None, False),
    ],
)
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_what_answers_for_a_program_behind_a_bridge_is_a_command_whatever_its_runtime(
    card: str | None, by_command: bool, runtime: str
) -> None:
    at = agent_profile("w", "org", runtime, None, card)
    made = rendered(renderer_of(), at, USER)
    assert at.answers_by_command is by_command
    assert (made.reply_via == "molecule reply") is by_command
    assert (f"`molecule reply {HANDLE}`" in made.text) is by_command
    assert ("sent as your answer when you end" in made.text) is by_command


@requirement("I5", "I9")
def test_a_template_that_does_not_know_the_command_says_to_a_program_what_it_says_to_an_agent_without_a_tool() -> None:
    older = template("older", OLDER, extends=None)
    knowing = template("knowing", TemplateContent(lines=("Questions go to {{ reply_tool }}.",)))
    renderer, tool_less = renderer_of(older, knowing), seat("generic-mcp", ())
    program = replace(tool_less, answers_by_command=True)
    for form in Verbosity:
        said = rendered(renderer, program, USER, form, choice=older.ref)
        assert said == rendered(renderer, tool_less, USER, form, choice=older.ref)
        assert (said.reply_via, HANDLE in said.text) == ("", False)
    assert "Questions go to molecule reply." in rendered(renderer, program, USER, choice=knowing.ref).text
    same, other = (
        renderer.static_key(at, older.ref) == renderer.static_key(tool_less, older.ref) for at in (program, seat())
    )
    assert (same, other) == (True, False)
    assert renderer.static_key(program, knowing.ref) != renderer.static_key(tool_less, knowing.ref)


@requirement("I9", "I12")
def test_a_new_card_takes_effect_with_the_next_message_and_changes_the_facts() -> None:
    renderer = renderer_of()
    before, after = (
        agent_profile("w", "org", "claude-code", None, f'{{"tools": {names}}}') for names in ("[]", '["reply"]')
    )
    choice = renderer.choose_version(before, "a")
    assert rendered(renderer, before, USER).available_tools == ()
    assert rendered(renderer, after, USER).available_tools == ("reply",)
    assert renderer.static_key(before, choice) != renderer.static_key(after, choice)
    assert renderer.static_key(after, choice) == renderer_of().static_key(after, choice)


@requirement("I9", "M35")
@pytest.mark.parametrize("runtime", ["claude-code", "codex", "generic-mcp"])
@pytest.mark.parametrize("verbosity", [Verbosity.FULL, Verbosity.COMPACT])
def test_a_file_of_a_peer_is_announced_as_one_of_a_peer_in_every_form(runtime: str, verbosity: Verbosity) -> None:
    renderer = renderer_of()
    upload = replace(PEER, kind="chat_upload_receive", intent="inform", attachments=("a.pdf",))
    of_peer = rendered(renderer, seat(runtime), upload, verbosity).text
    of_user = rendered(renderer, seat(runtime), replace(upload, peer_id=""), verbosity).text
    assert "file from a peer agent" in of_peer
    assert "not from the user" in of_peer
    assert "file from the user" not in of_peer
    assert "file from the user" in of_user
    assert "peer agent" not in of_user


@requirement("I9")
def test_the_user_is_named_only_if_known_and_files_only_if_there_are_some() -> None:
    renderer = renderer_of()
    assert "user_id" not in rendered(renderer, seat(), USER).text
    assert f"user_id={ID}" in rendered(renderer, seat(), replace(USER, user_id=ID)).text
    assert "chat_upload_receive" in rendered(renderer, seat(), USER).text
    with_files = rendered(renderer, seat(), replace(USER, attachments=("plan.pdf", "b\nDocs: x.png"))).text
    assert '"plan.pdf", "b Docs: x.png"' in with_files
    assert "chat_upload_receive" not in with_files
    assert "plan.pdf" not in rendered(renderer, seat(), replace(USER, attachments=("other.pdf",))).text


@requirement("I10")
@pytest.mark.parametrize("form", list(Verbosity))
@pytest.mark.parametrize("tools", [ALL_TOOL_NAMES, OLD_TOOLS])
def test_of_several_workspaces_the_text_names_the_one_to_answer_as(tools: tuple[str, ...], form: Verbosity) -> None:
    several = rendered(renderer_of(), seat(tools=tools), replace(USER, arrival_workspace_id=ID), form)
    alone = rendered(renderer_of(), seat(tools=tools), USER, form)
    assert ID in several.text
    assert ID not in alone.text


@requirement("I14")
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_what_stays_the_same_comes_first(runtime: str) -> None:
    one = rendered(renderer_of(), seat(runtime), replace(USER, reply_handle="m1-aaaaa")).text
    other = rendered(renderer_of(), seat(runtime), replace(USER, reply_handle="m2-bbbbb", due_at="later")).text
    same = next(place for place, (left, right) in enumerate(zip(one, other, strict=False)) if left != right)
    assert same > len(one) * 0.7


@requirement("I15")
def test_the_forms_differ_in_how_much_they_say_and_not_in_how_to_answer() -> None:
    renderer = renderer_of()
    full, compact, delta = (rendered(renderer, seat(), USER, form) for form in Verbosity)
    call = f'mcp__molecule__reply(handle="{HANDLE}", text=…)'
    assert call in full.text and call in compact.text and call in delta.text
    assert len(compact.text) < len(full.text) / 3
    assert delta.text.startswith(compact.text)
    assert compact.tokens < full.tokens


@requirement("I15")
def test_a_reminder_is_one_line_more_before_all_others() -> None:
    renderer = renderer_of()
    plain = rendered(renderer, seat(), USER).text
    first, rest = rendered(renderer, seat(), replace(USER, reminder=True)).text.split("\n", 1)
    assert first.startswith("Reminder:")
    assert rest == plain


@requirement("I6")
def test_what_extends_adds_tools_and_lines_and_replaces_blocks_by_name() -> None:
    base = template("base", TemplateContent(lines=("base {{ kind }}",), tools=("company_search",)), extends="")
    leaf = template(
        "leaf",
        TemplateContent(
            lines=("leaf",), tools=("company_wiki",), blocks={"silence": "Silence."}, docs_url="https://x.example/d"
        ),
        extends="base",
    )
    renderer, at = renderer_of(base, leaf), seat(tools=(*ALL_TOOL_NAMES, "company_wiki", "company_search", "unknown"))
    made = rendered(renderer, at, USER, choice=leaf.ref)
    assert "base canvas_user\nleaf\n" in made.text
    assert "Silence." in made.text and "does not reach the sender" not in made.text
    assert made.available_tools[-2:] == ("company_search", "company_wiki")
    assert "unknown" not in made.available_tools
    assert made.docs_url == "https://x.example/d" and "Docs: https://x.example/d" in made.text
    assert made.text.startswith("This Molecule message is from the user")


@requirement("I6", "I12")
def test_the_chain_is_resolved_when_it_is_spoken() -> None:
    leaf = template("leaf", TemplateContent(lines=("leaf",)), extends="base")
    catalogue = catalogue_of(template("base", TemplateContent(lines=("old",)), extends=""), leaf)
    renderer = Renderer(catalogue, public_url="", limits=Limits())
    key = renderer.static_key(seat(), leaf.ref)
    assert "old\nleaf" in rendered(renderer, seat(), USER, choice=leaf.ref).text
    catalogue.put_versions(
        [template("base", TemplateContent(lines=("new",)), extends="", version=2)],
        [ActiveVersion("org", "base", 2, None, 0, 0)],
    )
    assert "new\nleaf" in rendered(renderer, seat(), USER, choice=leaf.ref).text
    assert renderer.static_key(seat(), leaf.ref) != key


@requirement("I12")
def test_the_same_facts_give_the_same_words_also_when_nothing_is_remembered() -> None:
    warm = renderer_of()
    for facts in (USER, PEER, replace(USER, user_id=ID), replace(PEER, due_at=""), replace(USER, attempt=2)):
        for form in Verbosity:
            first = rendered(warm, seat(), facts, form)
            assert rendered(warm, seat(), facts, form) == first == rendered(renderer_of(), seat(), facts, form)


@requirement("I12")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("no value", "no value"),
        ("{{ attempt }}", "2"),
        ("at {{ due_at }}, 100 %", "at 2026-01-01T00:00:00Z, 100 %"),
        ("{{ reply_handle }}{{ attempt }}", f"{HANDLE}2"),
        ("{{ reply_handle }} {{ reply_handle }}", f"{HANDLE} {HANDLE}"),
    ],
)
def test_words_have_as_many_values_as_their_text_names(text: str, words: str) -> None:
    assert said(text, replace(USER, attempt=2)) == words


@requirement("I12")
def test_no_condition_of_one_message_is_remembered_for_another() -> None:
    text = (
        "{% if peer_name == 'x' %}x{% elif peer_name == peer_role %}same{% else %}other{% endif %}"
        "{% for tool in available_tools %}{% if tool == peer_name %} tool {{ tool }}{% endif %}{% endfor %}"
        "{% if attempt == 2 %} again{% endif %}{% if reply_handle %} handle{% endif %}"
    )
    alone = template("alone", TemplateContent(blocks={"reply": text, "compact": "c"}), extends=None)
    warm = renderer_of(alone)
    for _ in range(2):
        for name in ("x", "y", "reply", "inbox_pop", ""):
            for role in ("x", "y", ""):
                for attempt in (1, 2):
                    for tools in (ALL_TOOL_NAMES, OLD_TOOLS):
                        facts = replace(USER, peer_name=name, peer_role=role, attempt=attempt)
                        at = seat("generic-mcp", tools)
                        cold = rendered(renderer_of(alone), at, facts, choice=alone.ref)
                        assert rendered(warm, at, facts, choice=alone.ref) == cold


@requirement("I13")
def test_what_says_too_much_says_nothing_and_is_counted() -> None:
    wordy = template("wordy", TemplateContent(blocks={"reply": "{{ peer_role }}" * 40, "compact": "c"}), extends=None)
    renderer, failures = (
        renderer_of(wordy, limits=Limits(instruction_bytes=1000)),
        list[tuple[AgentProfile, TemplateVersionRef, str]](),
    )
    renderer.on_failure = lambda *told: failures.append(told)
    assert renderer.render(seat(), wordy.ref, Verbosity.FULL, replace(USER, peer_role="r" * 100)) is None
    assert renderer.render(seat(), wordy.ref, Verbosity.FULL, replace(USER, peer_role="é" * 13)) is None
    assert renderer.render(seat(), wordy.ref, Verbosity.FULL, replace(USER, peer_role="r")) is not None
    assert renderer.render(seat(), TemplateVersionRef("gone", 1, "org"), Verbosity.FULL, USER) is None
    assert renderer.failure_count == len(failures) == 3
    assert failures[0] == (seat(), wordy.ref, "its text is larger than the limit of 1000 bytes")


@requirement("I16")
@pytest.mark.parametrize("percent", [1, 10, 50, 99])
def test_any_messages_in_a_row_hold_their_share_of_a_trial(percent: int) -> None:
    catalogue = catalogue_of(
        template("t", TemplateContent()), template("t", TemplateContent(lines=("new",)), version=2)
    )
    catalogue.put_versions([], [ActiveVersion("org", "t", 1, 2, percent, 0)])
    renderer = Renderer(catalogue, public_url="", limits=Limits())
    at = replace(seat(), template_id="t")
    tried = [renderer.choose_version(at, "a", number).version == 2 for number in range(1, 1001)]
    assert abs(sum(tried) - 10 * percent) <= 3
    for first in range(950):
        assert abs(sum(tried[first : first + 50]) - percent / 2) < 2
    assert tried == [renderer.choose_version(at, "b", number).version == 2 for number in range(1, 1001)]
    by_id = [renderer.choose_version(at, f"activity-{number}").version == 2 for number in range(1000)]
    assert abs(sum(by_id) - 10 * percent) < 60


@requirement("I5")
def test_a_seeded_text_that_changes_has_a_new_version() -> None:
    """A change of a text needs a new `BUILT_IN_VERSION`: a stored version never changes."""
    told = msgspec.json.encode(
        [(each.id, each.version, each.parts) for each in builtin_templates.iter_builtin_templates(0)]
    )
    assert (builtin_templates.BUILT_IN_VERSION, blake2b(told, digest_size=8).hexdigest()) == (9, "1780b801e96a590e")
