"""What `molecule connect` writes into a host's configuration: our entry, and not a byte else."""

import json
import tomllib
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from molecule_core.client import jsonc, toml_text
from molecule_core.client.host_config import (
    hook_command,
    seats_of,
    with_hooks,
    with_seat,
    without_hooks,
    without_seat,
)
from molecule_core.client.jsonc import NotJson
from molecule_core.client.toml_text import NotToml
from molecule_core.wire.hosts import HOSTS, Host, Seat, configuration, entry_of_seat, host_of
from tests.requirements import requirement
from tests.rules.configs import jsonc as jsonc_texts
from tests.rules.configs import strict, toml
from tests.rules.effort import examples

COMMAND = ("/opt/python", "-m", "molecule_core", "mcp")
ONE = Seat("01a2-one", "http://127.0.0.1:8080", "/home/ada/.molecule/agents/one.token")
OTHER = Seat("01a2-other", "https://molecule.example", "/home/ada/.molecule/agents/other.token")
WITH_FILES = [host for host in HOSTS if host.place]
HOOK = hook_command("/opt/python", "/home/ada/a project/.mcp.json")


def host(name: str) -> Host:
    """A host by its name."""
    found = host_of(name)
    assert found is not None
    return found


def says(which: Host, text: str) -> dict[str, Any]:
    """What a configuration says to its host, by a reader that is not ours where there is one."""
    return tomllib.loads(text) if which.language == "toml" else jsonc.value_of(text)


def others(which: Host, text: str) -> dict[str, Any]:
    """All that it says beside our entry; whether an empty table holds it makes no difference."""
    said = json.loads(json.dumps(says(which, text)))
    servers = said.get(which.place[0])
    if isinstance(servers, dict):
        servers.pop("molecule", None)
        if not servers:
            del said[which.place[0]]
    return dict(said)


def texts(which: Host) -> st.SearchStrategy[str]:
    """Configurations of a host."""
    return toml() if which.language == "toml" else st.one_of(jsonc_texts(), strict())


# -- any configuration survives ----------------------------------------------------------------------------------------


@requirement("G24")
@pytest.mark.parametrize("which", WITH_FILES, ids=lambda each: each.name)
@examples(100)
@given(data=st.data())
def test_whatever_else_is_configured_stays_and_said_twice_it_is_said_once(which: Host, data: st.DataObject) -> None:
    text = data.draw(texts(which))
    if not isinstance(says(which, text).get(which.place[0], {}), dict):
        return  # refused: see below
    made = with_seat(which, text, COMMAND, ONE)
    assert others(which, made) == others(which, text)
    assert seats_of(which, made) == [entry_of_seat(ONE)]
    assert with_seat(which, made, COMMAND, ONE) == made
    assert others(which, without_seat(which, made, COMMAND, ONE.workspace_id)) == others(which, text)


@requirement("G24")
@examples(200)
@given(jsonc_texts(), st.sampled_from([("mcpServers", "molecule"), ("a", "b", "c"), ("new",)]))
def test_an_edit_of_json_keeps_every_comment_and_every_other_line(text: str, path: tuple[str, ...]) -> None:
    try:
        made = jsonc.set_value(text, path, {"x": [1, "two"]})
    except NotJson:
        return  # something else stands there: refused
    start, end = _place(text, path)
    left = iter(made)
    assert all(sign in left for sign in text[:start] + text[end:] if not sign.isspace())


def _place(text: str, path: tuple[str, ...]) -> tuple[int, int]:
    """Where the value stands that is replaced; nowhere if there is none."""
    node = jsonc._read(text)
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
        assert json.loads(with_seat(which, text, COMMAND, ONE))["mcpServers"]["molecule"]["command"] == COMMAND[0]


@requirement("G24")
@examples(150)
@given(st.one_of(jsonc_texts(), strict()))
@example('{"a":{}, // a note, with "quotes" and {braces}\n"hooks":{},"b":{}}')
@example('{"a":{}, // a note\n"hooks":{}}')
@example('{// a note\n"hooks":{}}')
@example('{"a":{}, // a note\r\n"hooks":{}, // another\r\n"b":{}\r\n}')
def test_hooks_stand_beside_those_of_others_and_go_without_a_trace(text: str) -> None:
    if not isinstance(jsonc.value_of(text).get("hooks", {}), dict):
        return
    made = with_hooks(text, HOOK)
    hooks = jsonc.value_of(made)["hooks"]
    for event in ("SessionStart", "UserPromptSubmit"):
        assert hooks[event][-1]["hooks"] == [{"type": "command", "command": HOOK, "timeout": 10}]
    assert with_hooks(made, HOOK) == made
    gone = jsonc.value_of(without_hooks(made))
    assert {**gone, "hooks": gone.get("hooks", {})} == {"hooks": {}, **jsonc.value_of(text)}


# -- what exactly is written -------------------------------------------------------------------------------------------


@requirement("G24")
@pytest.mark.parametrize("which", WITH_FILES, ids=lambda each: each.name)
def test_a_second_workspace_goes_into_the_same_entry_and_out_of_it_again(which: Host) -> None:
    first = with_seat(which, "", COMMAND, ONE)
    both = with_seat(which, first, COMMAND, OTHER)
    assert seats_of(which, both) == [entry_of_seat(ONE), entry_of_seat(OTHER)]
    place = says(which, both)[which.place[0]]
    assert list(place) == ["molecule"]
    told = place["molecule"].get("env", place["molecule"].get("environment"))
    assert list(told) == ["MOLECULE_WORKSPACES"]
    assert json.loads(told["MOLECULE_WORKSPACES"]) == [entry_of_seat(ONE), entry_of_seat(OTHER)]
    assert says(which, without_seat(which, both, COMMAND, OTHER.workspace_id)) == says(which, first)
    assert others(which, without_seat(which, first, COMMAND, ONE.workspace_id)) == {}


@requirement("G24", "O3")
@pytest.mark.parametrize("which", WITH_FILES, ids=lambda each: each.name)
def test_what_is_printed_is_what_is_written_into_an_empty_file_and_holds_no_secret(which: Host) -> None:
    printed = configuration(which, COMMAND, [entry_of_seat(ONE)])
    assert says(which, printed) == says(which, with_seat(which, "", COMMAND, ONE))
    assert ONE.token_file in printed
    assert "mol_ws_" not in printed
    assert 'MOLECULE_WORKSPACE_TOKEN"' not in printed


@requirement("G24")
def test_what_a_person_added_to_our_entry_stays() -> None:
    text = '{"mcpServers": {"molecule": {"command": "old", "timeout": 5, // slow disk\n "env": {"HTTP_PROXY": "x"}}}}'
    made = with_seat(host("cursor"), text, COMMAND, ONE)
    entry = jsonc.value_of(made)["mcpServers"]["molecule"]
    assert (entry["command"], entry["timeout"], entry["env"]["HTTP_PROXY"]) == ("/opt/python", 5, "x")
    assert "// slow disk" in made


@requirement("G24")
def test_a_seat_whose_token_was_written_by_hand_keeps_it_beside_the_new_one() -> None:
    text = '{"mcpServers": {"molecule": {"command": "molecule", "args": ["mcp"], "env": {"WORKSPACE_ID": "old", '
    text += '"MOLECULE_WORKSPACE_TOKEN": "by-hand", "PLATFORM_URL": "http://old"}}}}'
    made = with_seat(host("gemini"), text, COMMAND, ONE)
    old = {"id": "old", "token": "by-hand", "platform_url": "http://old"}
    assert seats_of(host("gemini"), made) == [old, entry_of_seat(ONE)]
    assert seats_of(host("gemini"), without_seat(host("gemini"), made, COMMAND, ONE.workspace_id)) == [old]


@requirement("G24")
def test_codex_is_told_to_wait_for_us_and_to_ask_nobody_unless_a_person_said_otherwise() -> None:
    made = with_seat(host("codex"), "# mine\nmodel = 'x' # y\n", COMMAND, ONE)
    assert made.startswith("# mine\nmodel = 'x' # y\n\n[mcp_servers.molecule]\n")
    entry = tomllib.loads(made)["mcp_servers"]["molecule"]
    assert (entry["default_tools_approval_mode"], entry["required"], entry["startup_timeout_sec"]) == (
        "approve",
        True,
        30,
    )
    own = made.replace('"approve"', '"prompt"').replace("required = true", "required = false")
    assert with_seat(host("codex"), own, COMMAND, ONE) == own


@requirement("G24")
def test_claude_code_is_told_to_wait_for_us_unless_a_person_said_otherwise() -> None:
    made = with_seat(host("claude-code"), "", COMMAND, ONE)
    assert json.loads(made)["mcpServers"]["molecule"]["alwaysLoad"] is True
    own = made.replace('"alwaysLoad": true', '"alwaysLoad": false')
    assert with_seat(host("claude-code"), own, COMMAND, ONE) == own


@requirement("G24")
def test_a_table_of_one_line_is_edited_as_such() -> None:
    text = 'mcp_servers = { files = { command = "f" } } # all\n'
    made = with_seat(host("codex"), text, COMMAND, ONE)
    assert made.endswith("# all\n")
    assert list(tomllib.loads(made)["mcp_servers"]) == ["files", "molecule"]
    assert without_seat(host("codex"), made, COMMAND, ONE.workspace_id) == text


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
        ("cursor", "[" * 5000),
        ("cursor", '{"a": ' * 5000),
        ("codex", "model = "),
        ("codex", "mcp_servers = 1"),
        ("codex", "[[mcp_servers]]\nname = 'x'\n"),
        ("codex", "[[mcp_servers.molecule]]\ncommand = 'x'\n"),
    ],
)
def test_what_cannot_be_read_or_is_meant_otherwise_is_refused(which: str, text: str) -> None:
    with pytest.raises((NotJson, NotToml)):
        with_seat(host(which), text, COMMAND, ONE)


@requirement("G24")
def test_of_a_name_that_stands_twice_the_last_is_edited_because_readers_take_it() -> None:
    made = jsonc.set_value('{"a": 1, "a": 2}', ("a",), 3)
    assert made == '{"a": 1, "a": 3}'
    assert jsonc.without(made, ("a",)) == "{}"


@requirement("G24")
def test_a_key_of_toml_in_any_spelling_is_found() -> None:
    text = "[ mcp_servers . 'molecule' ]\n\"command\" = 'old' # keep\n"
    made = toml_text.set_value(text, ("mcp_servers", "molecule", "command"), "new")
    assert made == '[ mcp_servers . \'molecule\' ]\n"command" = "new" # keep\n'
