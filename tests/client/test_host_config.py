"""What `molecule connect` writes into a host's configuration: our entry, and not a byte else."""

import json
import shlex
import tomllib
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from molecule_core.client import jsonc_edit, toml_edit
from molecule_core.client.host_config_edit import (
    add_hooks,
    add_workspace,
    configured_workspaces,
    remove_hooks,
    remove_workspace,
    update_command,
    update_hooks,
)
from molecule_core.client.jsonc_edit import JsonEditError
from molecule_core.client.toml_edit import TomlEditError
from molecule_core.tools.host_config import (
    HOSTS,
    Host,
    HostWorkspace,
    find_host,
    render_configuration,
    toml_table,
    workspace_entry,
)
from testing.step_counts import examples
from tests.client.host_configs import jsonc as jsonc_texts
from tests.client.host_configs import strict, toml
from tests.requirements import requirement

PROGRAM = ("/opt/python", "-P", "-m", "molecule_core")
COMMAND = (*PROGRAM, "mcp")
EARLIER = ("/opt/python", "-m", "molecule_core", "mcp")
ONE = HostWorkspace("01a2-one", "http://127.0.0.1:8080", "/home/ada/.molecule/agents/one.token")
OTHER = HostWorkspace("01a2-other", "https://molecule.example", "/home/ada/.molecule/agents/other.token")
WITH_FILES = [host for host in HOSTS if host.entry_path]
CONFIG = "/home/ada/a project/.mcp.json"


def host(name: str) -> Host:
    """A host by its name."""
    found = find_host(name)
    assert found is not None
    return found


def says(which: Host, text: str) -> dict[str, Any]:
    """What a configuration says to its host, by a reader that is not ours where there is one."""
    return tomllib.loads(text) if which.language == "toml" else jsonc_edit.value_of(text)


def others(which: Host, text: str) -> dict[str, Any]:
    """All that it says beside our entry; whether an empty table holds it makes no difference."""
    said = json.loads(json.dumps(says(which, text)))
    servers = said.get(which.entry_path[0])
    if isinstance(servers, dict):
        servers.pop("molecule", None)
        if not servers:
            del said[which.entry_path[0]]
    return dict(said)


def texts(which: Host) -> st.SearchStrategy[str]:
    """Configurations of a host."""
    if which.language == "toml":
        return toml()
    return st.one_of(jsonc_texts(), strict()) if which.grammar.trailing_commas else strict()


# -- any configuration survives ----------------------------------------------------------------------------------------


@requirement("G24")
@pytest.mark.parametrize("which", WITH_FILES, ids=lambda each: each.name)
@examples(100)
@given(data=st.data())
def test_whatever_else_is_configured_stays_and_said_twice_it_is_said_once(which: Host, data: st.DataObject) -> None:
    text = data.draw(texts(which))
    if not isinstance(says(which, text).get(which.entry_path[0], {}), dict):
        return  # refused: see below
    made = add_workspace(which, text, COMMAND, ONE)
    assert others(which, made) == others(which, text)
    assert configured_workspaces(which, made) == [workspace_entry(ONE)]
    assert add_workspace(which, made, COMMAND, ONE) == made
    assert others(which, remove_workspace(which, made, COMMAND, ONE.workspace_id)) == others(which, text)


@requirement("G24")
@examples(200)
@given(jsonc_texts(), st.sampled_from([("mcpServers", "molecule"), ("a", "b", "c"), ("new",)]))
def test_an_edit_of_json_keeps_every_comment_and_every_other_line(text: str, path: tuple[str, ...]) -> None:
    try:
        made = jsonc_edit.set_value(text, path, {"x": [1, "two"]})
    except JsonEditError:
        return  # something else stands there: refused
    start, end = _place(text, path)
    left = iter(made)
    assert all(sign in left for sign in text[:start] + text[end:] if not sign.isspace())


def _place(text: str, path: tuple[str, ...]) -> tuple[int, int]:
    """Where the value stands that is replaced; nowhere if there is none."""
    node = jsonc_edit._parse_root(text)
    for step in path:
        found = [value for key, _, value in node.members or [] if key == step]
        if not found:
            return 0, 0
        node = found[-1]
    return node.start, node.end


@requirement("G24")
@examples(150)
@given(strict())
def test_what_programs_read_strictly_stays_strict(text: str) -> None:
    which = host("claude-code")
    if isinstance(json.loads(text).get("mcpServers", {}), dict):
        assert json.loads(add_workspace(which, text, COMMAND, ONE))["mcpServers"]["molecule"]["command"] == COMMAND[0]


@requirement("G24")
@examples(150)
@given(st.one_of(jsonc_texts(), strict()))
@example('{"a":{}, // a note, with "quotes" and {braces}\n"hooks":{},"b":{}}')
@example('{"a":{}, // a note\n"hooks":{}}')
@example('{// a note\n"hooks":{}}')
@example('{"a":{}, // a note\r\n"hooks":{}, // another\r\n"b":{}\r\n}')
def test_hooks_stand_beside_those_of_others_and_go_without_a_trace(text: str) -> None:
    if not isinstance(jsonc_edit.value_of(text).get("hooks", {}), dict):
        return
    made = add_hooks(text, PROGRAM, CONFIG)
    hooks = jsonc_edit.value_of(made)["hooks"]
    started, waiting = hooks["SessionStart"][-2:]
    program = shlex.join(PROGRAM)
    inbox = f"{program} inbox-hook --config '{CONFIG}'"
    assert started["hooks"] == [{"type": "command", "command": inbox, "timeout": 10}]
    assert waiting["hooks"][0]["command"] == f"{program} host-hook --wait"
    assert waiting["hooks"][0]["asyncRewake"] is True
    assert [each["hooks"][0]["command"] for each in hooks["Stop"][-2:]] == [
        f"{program} host-hook",
        f"{program} host-hook --wait",
    ]
    assert add_hooks(made, PROGRAM, CONFIG) == made
    gone = jsonc_edit.value_of(remove_hooks(made))
    assert {**gone, "hooks": gone.get("hooks", {})} == {"hooks": {}, **jsonc_edit.value_of(text)}


# -- what exactly is written -------------------------------------------------------------------------------------------


@requirement("G24")
@pytest.mark.parametrize("which", WITH_FILES, ids=lambda each: each.name)
def test_a_second_workspace_goes_into_the_same_entry_and_out_of_it_again(which: Host) -> None:
    first = add_workspace(which, "", COMMAND, ONE)
    both = add_workspace(which, first, COMMAND, OTHER)
    assert configured_workspaces(which, both) == [workspace_entry(ONE), workspace_entry(OTHER)]
    place = says(which, both)[which.entry_path[0]]
    assert list(place) == ["molecule"]
    told = place["molecule"].get("env", place["molecule"].get("environment"))
    assert list(told) == ["MOLECULE_WORKSPACES"]
    assert json.loads(told["MOLECULE_WORKSPACES"]) == [workspace_entry(ONE), workspace_entry(OTHER)]
    assert says(which, remove_workspace(which, both, COMMAND, OTHER.workspace_id)) == says(which, first)
    assert others(which, remove_workspace(which, first, COMMAND, ONE.workspace_id)) == {}


@requirement("G24", "O3")
@pytest.mark.parametrize("which", WITH_FILES, ids=lambda each: each.name)
def test_what_is_printed_is_what_is_written_into_an_empty_file_and_holds_no_secret(which: Host) -> None:
    printed = render_configuration(which, COMMAND, [workspace_entry(ONE)])
    assert says(which, printed) == says(which, add_workspace(which, "", COMMAND, ONE))
    assert ONE.token_file in printed
    assert "mol_ws_" not in printed
    assert 'MOLECULE_WORKSPACE_TOKEN"' not in printed


@requirement("G24")
@pytest.mark.parametrize("which", WITH_FILES, ids=lambda each: each.name)
def test_the_command_of_an_earlier_version_is_replaced_and_a_persons_own_is_not(which: Host) -> None:
    assert update_command(which, add_workspace(which, "", EARLIER, ONE), COMMAND) == add_workspace(
        which, "", COMMAND, ONE
    )
    for text in ("", add_workspace(which, "", COMMAND, ONE), add_workspace(which, "", ("wrapped", "mcp"), ONE)):
        assert update_command(which, text, COMMAND) == text


@requirement("G24")
def test_the_program_of_earlier_hooks_is_replaced_and_their_options_stay() -> None:
    earlier = add_hooks("", ("/opt/python", "-m", "molecule_core"), CONFIG)
    assert update_hooks(earlier, PROGRAM) == add_hooks("", PROGRAM, CONFIG)
    assert add_hooks(earlier, PROGRAM, CONFIG) == add_hooks("", PROGRAM, CONFIG)
    inbox = {"type": "command", "command": f"/opt/molecule inbox-hook --config {CONFIG}", "timeout": 10}
    mine = {"type": "command", "command": "mine"}
    older = {"hooks": {"UserPromptSubmit": [{"hooks": [inbox]}, {"hooks": [mine]}]}}
    prompt = json.loads(add_hooks(json.dumps(older), PROGRAM, CONFIG))["hooks"]["UserPromptSubmit"]
    assert [each["command"] for group in prompt for each in group["hooks"]] == [
        "mine",
        f"{shlex.join(PROGRAM)} host-hook",
    ]
    assert update_hooks("{}", PROGRAM) == "{}"
    other = '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "python -m mine inbox-hook"}]}]}}'
    assert update_hooks(other, PROGRAM) == other


@requirement("G24")
def test_what_a_person_added_to_our_entry_stays() -> None:
    text = '{"mcpServers": {"molecule": {"command": "old", "timeout": 5, // slow disk\n "env": {"HTTP_PROXY": "x"}}}}'
    made = add_workspace(host("cursor"), text, COMMAND, ONE)
    entry = jsonc_edit.value_of(made)["mcpServers"]["molecule"]
    assert (entry["command"], entry["timeout"], entry["env"]["HTTP_PROXY"]) == ("/opt/python", 5, "x")
    assert "// slow disk" in made


@requirement("G24")
def test_a_seat_whose_token_was_written_by_hand_keeps_it_beside_the_new_one() -> None:
    text = '{"mcpServers": {"molecule": {"command": "molecule", "args": ["mcp"], "env": {"WORKSPACE_ID": "old", '
    text += '"MOLECULE_WORKSPACE_TOKEN": "by-hand", "PLATFORM_URL": "http://old"}}}}'
    made = add_workspace(host("gemini"), text, COMMAND, ONE)
    old = {"id": "old", "token": "by-hand", "platform_url": "http://old"}
    assert configured_workspaces(host("gemini"), made) == [old, workspace_entry(ONE)]
    assert configured_workspaces(host("gemini"), remove_workspace(host("gemini"), made, COMMAND, ONE.workspace_id)) == [
        old
    ]


@requirement("G24")
def test_codex_is_told_to_wait_for_us_and_to_ask_nobody_unless_a_person_said_otherwise() -> None:
    made = add_workspace(host("codex"), "# mine\nmodel = 'x' # y\n", COMMAND, ONE)
    assert made.startswith("# mine\nmodel = 'x' # y\n\n[mcp_servers.molecule]\n")
    entry = tomllib.loads(made)["mcp_servers"]["molecule"]
    assert (entry["default_tools_approval_mode"], entry["required"], entry["startup_timeout_sec"]) == (
        "approve",
        True,
        30,
    )
    own = made.replace('"approve"', '"prompt"').replace("required = true", "required = false")
    assert add_workspace(host("codex"), own, COMMAND, ONE) == own


@requirement("G24")
def test_claude_code_is_told_to_wait_for_us_unless_a_person_said_otherwise() -> None:
    made = add_workspace(host("claude-code"), "", COMMAND, ONE)
    assert json.loads(made)["mcpServers"]["molecule"]["alwaysLoad"] is True
    own = made.replace('"alwaysLoad": true', '"alwaysLoad": false')
    assert add_workspace(host("claude-code"), own, COMMAND, ONE) == own


@requirement("G24")
@pytest.mark.parametrize("which", WITH_FILES, ids=lambda each: each.name)
def test_members_of_a_remote_server_do_not_stay_beside_the_command(which: Host) -> None:
    remote: dict[str, Any] = {
        "url": "https://old.example/mcp",
        "httpUrl": "https://old.example/mcp",
        "headers": {"A": "b"},
    }
    remote |= {"transportType": "sse", "bearer_token_env_var": "TOKEN", "http_headers": {"A": "b"}, "timeout": 7}
    old: Any = remote
    for step in reversed(which.entry_path):
        old = {step: old}
    text = toml_table(which.entry_path, remote) if which.language == "toml" else json.dumps(old)

    entry = says(which, add_workspace(which, text, COMMAND, ONE))
    for step in which.entry_path:
        entry = entry[step]

    fresh = says(which, add_workspace(which, "", COMMAND, ONE))
    for step in which.entry_path:
        fresh = fresh[step]
    assert entry == {**fresh, "timeout": 7}


@requirement("G24")
def test_a_table_of_one_line_is_edited_as_such() -> None:
    text = 'mcp_servers = { files = { command = "f" } } # all\n'
    made = add_workspace(host("codex"), text, COMMAND, ONE)
    assert made.endswith("# all\n")
    assert list(tomllib.loads(made)["mcp_servers"]) == ["files", "molecule"]
    assert remove_workspace(host("codex"), made, COMMAND, ONE.workspace_id) == text


@requirement("G24")
@pytest.mark.parametrize(
    ("which", "text"),
    [
        ("cursor", "{"),
        ("cursor", "[]"),
        ("cursor", '{"mcpServers": []}'),
        ("cursor", '{"mcpServers": "none"}'),
        ("cursor", "{'a': 1}"),
        ("cursor", '{"a": 1} trailing'),
        ("claude-code", "{\n  // mine\n}"),
        ("claude-code", '{"a": [1, 2, ]}'),
        ("gemini", '{"a": 1, /* last */ }'),
        ("gemini", "\ufeff{}"),
        ("cline", "{} // mine"),
        ("cursor", "[" * 5000),
        ("cursor", '{"a": ' * 5000),
        ("codex", "model = "),
        ("codex", "model = " + "[" * 5000),
        ("codex", "mcp_servers = 1"),
        ("codex", "[[mcp_servers]]\nname = 'x'\n"),
        ("codex", "[[mcp_servers.molecule]]\ncommand = 'x'\n"),
    ],
)
def test_what_cannot_be_read_or_is_meant_otherwise_is_refused(which: str, text: str) -> None:
    with pytest.raises((JsonEditError, TomlEditError)):
        add_workspace(host(which), text, COMMAND, ONE)


@requirement("G24")
def test_what_a_host_reads_is_accepted_and_what_it_does_not_is_named_with_its_line() -> None:
    for which, text in (
        ("claude-code", '\ufeff{"a": "// no comment, "}'),
        ("gemini", '// mine\n{"a": [], /* b */ "c": ",]"}'),
        ("opencode", '\ufeff// mine\n{"a": [1, ], }'),
        ("cursor", '\ufeff{"a": 1, // b\n}'),
    ):
        assert "molecule" in add_workspace(host(which), text, COMMAND, ONE)
    with pytest.raises(JsonEditError, match="line 3 has a comment, which its host does not accept"):
        add_workspace(host("claude-code"), '{\n  "a": "x//y",\n  "b": 1 // mine\n}', COMMAND, ONE)
    with pytest.raises(JsonEditError, match="line 2 has a comma after the last member"):
        add_workspace(host("gemini"), '{\n  "a": [1, 2, // mine\n]}', COMMAND, ONE)
    with pytest.raises(JsonEditError, match="line 1 has a byte order mark"):
        add_workspace(host("cline"), "\ufeff{}", COMMAND, ONE)


@requirement("G24")
def test_of_a_name_that_stands_twice_the_last_is_edited_because_readers_take_it() -> None:
    made = jsonc_edit.set_value('{"a": 1, "a": 2}', ("a",), 3)
    assert made == '{"a": 1, "a": 3}'
    assert jsonc_edit.without(made, ("a",)) == "{}"


@requirement("G24")
def test_a_key_of_toml_in_any_spelling_is_found() -> None:
    text = "[ mcp_servers . 'molecule' ]\n\"command\" = 'old' # keep\n"
    made = toml_edit.set_value(text, ("mcp_servers", "molecule", "command"), "new")
    assert made == '[ mcp_servers . \'molecule\' ]\n"command" = "new" # keep\n'


@requirement("G24")
def test_comments_before_the_next_table_survive_new_members_and_the_removal_of_ours() -> None:
    rest = "\n# about z\n[z]\nx = 1\n"
    made = add_workspace(host("codex"), f"[mcp_servers.molecule]\ncommand = 'old'\n{rest}", COMMAND, ONE)
    assert made.startswith('[mcp_servers.molecule]\ncommand = "/opt/python"\n') and f"\n{rest}" in made
    assert remove_workspace(host("codex"), made, COMMAND, ONE.workspace_id).startswith(rest)


@requirement("G24")
@pytest.mark.parametrize("text", ["\ufeffa = 1\r\n", "\ufeffa = 1\r\n# the end", "[mcp_servers.molecule]\r\nx = 1"])
def test_line_ends_and_the_byte_order_mark_of_a_toml_file_stay(text: str) -> None:
    made = add_workspace(host("codex"), text, COMMAND, ONE)
    assert made.startswith(text)
    assert made.count("\n") == made.count("\r\n")


@requirement("G24")
def test_an_array_of_tables_between_two_servers_loses_no_line() -> None:
    text = "[mcp_servers.a]\nx = 1\n\n# mine\n[[profiles]]\nname = 'p'\n"
    made = add_workspace(host("codex"), text, COMMAND, ONE)
    assert made.startswith(f"{text}\n[mcp_servers.molecule]\n")
    both = add_workspace(host("codex"), made, COMMAND, OTHER)
    assert configured_workspaces(host("codex"), both) == [workspace_entry(ONE), workspace_entry(OTHER)]
    assert set(text.splitlines()) <= set(both.splitlines())


@requirement("G24")
def test_an_entry_of_dotted_keys_is_edited_where_it_is() -> None:
    made = add_workspace(host("codex"), "mcp_servers.molecule.command = 'old' # keep\n[z]\n", COMMAND, ONE)
    assert made.startswith('mcp_servers.molecule.command = "/opt/python" # keep\nmcp_servers.molecule.args = [')
    assert "\n[z]\n\n[mcp_servers.molecule.env]\n" in made
    assert configured_workspaces(host("codex"), made) == [workspace_entry(ONE)]
