"""The environment of `molecule mcp`: seats, wishes, the state folder, and one clear line for each mistake."""

import json
from pathlib import Path
from typing import Any

import pytest

from molecule_core.agent.bridges.settings import BridgeSettings
from molecule_core.agent.config import AgentSettings, ConfigurationError, read_configuration
from molecule_core.agent.runner.settings import RunnerSettings
from tests.requirements import requirement

ONE = {"WORKSPACE_ID": "w-1", "MOLECULE_WORKSPACE_TOKEN": "token-1", "PLATFORM_URL": "http://one.example:8080/"}


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """An environment with a state folder."""
    return {"CONFIGS_DIR": str(tmp_path / "state")}


def listed(home: dict[str, str], *entries: Any) -> dict[str, str]:
    """An environment with a list of seats."""
    return {**home, "MOLECULE_WORKSPACES": json.dumps(list(entries))}


def line_of(environ: dict[str, str]) -> str:
    """What a mistake is told as."""
    with pytest.raises(ConfigurationError) as caught:
        read_configuration(environ)
    line = str(caught.value)
    assert line and "\n" not in line
    return line


@requirement("G6")
def test_one_seat_is_read_from_three_variables(home: dict[str, str]) -> None:
    config = read_configuration({**home, **ONE})

    (seat,) = config.workspaces
    assert config.single
    assert (seat.id, seat.token, seat.url) == ("w-1", "token-1", "http://one.example:8080")
    assert config.settings == AgentSettings()


@requirement("G6")
def test_with_a_list_the_single_seat_is_ignored_even_if_it_is_wrong(home: dict[str, str]) -> None:
    seats = [{"id": "a", "token": "t-a", "platform_url": "https://a.example"}, {"id": "b", "token": "t-b"}]
    config = read_configuration(
        {**listed(home, *seats), **ONE, "WORKSPACE_ID": "not an id", "MOLECULE_WORKSPACE_TOKEN": ""}
    )

    assert not config.single
    assert [(each.id, each.token, each.url) for each in config.workspaces] == [
        ("a", "t-a", "https://a.example"),
        ("b", "t-b", "http://one.example:8080"),
    ]


@requirement("G6")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[{", "is not JSON"),
        ('"w-1"', "must be a JSON array"),
        ("[]", "is an empty array"),
        ('[{"id":"a","token":"t"}, 7]', "[1] must be an object"),
        ('[{"token":"t"}]', "[0]: id is missing"),
        ('[{"id":"","token":"t"}]', "[0]: id is missing"),
        ('[{"id":5,"token":"t"}]', "[0]: id is missing"),
        ('[{"id":"a"}]', "[0]: token is missing"),
        (
            '[{"id":"a","token":"t"},{"id":"a","token":"u"}]',
            "[1] has the id a, which an entry before it has: duplicate",
        ),
    ],
)
def test_each_wrong_list_is_told_by_its_own_line(text: str, said: str, home: dict[str, str]) -> None:
    line = line_of({**home, **ONE, "MOLECULE_WORKSPACES": text})
    assert line.startswith("MOLECULE_WORKSPACES") and said in line


@requirement("G6")
@pytest.mark.parametrize("missing", sorted(ONE))
def test_each_missing_variable_of_a_single_seat_is_named(missing: str, home: dict[str, str]) -> None:
    assert line_of({**home, **{name: value for name, value in ONE.items() if name != missing}}).startswith(missing)


OTHER_URLS = ("ftp://x", "example.org", "http://", "http://user:secret@x", "https://x?y=1", "http://:80")
NO_URLS = ("http://x:80a", "http://x:99999", "http://x:0", "http://[::1", "http://x/\udce9", "http://x\x01")


@requirement("G6")
@pytest.mark.parametrize("url", [*OTHER_URLS, *NO_URLS])
def test_what_is_no_address_of_a_server_is_refused_without_repeating_it(url: str, home: dict[str, str]) -> None:
    line = line_of({**home, **ONE, "PLATFORM_URL": url})
    assert "PLATFORM_URL is not a server address" in line and "secret" not in line


@requirement("G6")
@pytest.mark.parametrize("name", ["NAME", "DESCRIPTION", "SKILLS"])
def test_what_an_agent_says_of_itself_is_text(name: str, home: dict[str, str]) -> None:
    line = line_of({**home, **ONE, f"MOLECULE_AGENT_{name}": "caf\udce9"})
    assert line == f"MOLECULE_AGENT_{name} must be text in UTF-8"


@requirement("G6")
@pytest.mark.parametrize("id_", ["../../etc", "a b", "a/b", "ü", "x" * 129, "a\nb"])
def test_an_id_that_could_lead_elsewhere_is_no_id(id_: str, home: dict[str, str]) -> None:
    assert "not a workspace id" in line_of({**home, **ONE, "WORKSPACE_ID": id_})


@requirement("G6")
def test_a_token_with_a_line_break_is_no_token_and_is_not_repeated(home: dict[str, str]) -> None:
    line = line_of({**home, **ONE, "MOLECULE_WORKSPACE_TOKEN": "very secret\r\nx-admin: yes"})
    assert "not a token" in line and "secret" not in line


@requirement("G6")
def test_a_token_file_is_honoured_and_the_token_itself_wins(home: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("from-file\n")
    without = {name: value for name, value in ONE.items() if name != "MOLECULE_WORKSPACE_TOKEN"}
    named = {"MOLECULE_WORKSPACE_TOKEN_FILE": str(file)}

    (read,) = read_configuration({**home, **without, **named}).workspaces
    (given,) = read_configuration({**home, **ONE, **named}).workspaces
    (entry,) = read_configuration(listed({**home, **ONE}, {"id": "a", "token_file": str(file)})).workspaces

    assert (read.token, read.token_file) == ("from-file", file)
    assert (given.token, given.token_file) == ("token-1", None)
    assert (entry.token, entry.token_file) == ("from-file", file)


@requirement("G6")
def test_a_token_file_in_the_home_folder_is_found(
    home: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "token").write_text("from-home")
    entries = listed({**home, **ONE}, {"id": "a", "token_file": "~/token"})
    assert read_configuration(entries).workspaces[0].token == "from-home"


@requirement("G6")
def test_the_token_that_a_container_put_into_the_state_folder_is_taken(home: dict[str, str]) -> None:
    folder = Path(home["CONFIGS_DIR"])
    folder.mkdir()
    (folder / ".auth_token").write_text("from-state")
    without = {name: value for name, value in ONE.items() if name != "MOLECULE_WORKSPACE_TOKEN"}
    assert read_configuration({**home, **without}).workspaces[0].token == "from-state"


@requirement("G6")
def test_a_token_file_that_is_not_there_is_told_by_its_path(home: dict[str, str], tmp_path: Path) -> None:
    without = {name: value for name, value in ONE.items() if name != "MOLECULE_WORKSPACE_TOKEN"}
    line = line_of({**home, **without, "MOLECULE_WORKSPACE_TOKEN_FILE": str(tmp_path / "none")})
    assert f"{tmp_path / 'none'} cannot be read" in line


@requirement("G6")
def test_without_a_folder_the_state_lies_in_the_home_closed_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("molecule_core.agent.config.CONTAINER_FOLDER", tmp_path / "no-container")
    folder = read_configuration(ONE).state
    assert folder == tmp_path / ".molecule-workspace"
    assert folder.stat().st_mode & 0o777 == 0o700


@requirement("G6")
def test_in_a_container_the_state_lies_where_its_configuration_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("molecule_core.agent.config.CONTAINER_FOLDER", tmp_path)
    assert read_configuration(ONE).state == tmp_path


@requirement("G6")
def test_a_state_folder_that_cannot_be_made_is_told(home: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "cannot be created" in line_of({**ONE, "CONFIGS_DIR": str(tmp_path / "file" / "below")})


@requirement("G6", "O2")
def test_every_wish_can_be_set_and_a_mistyped_one_is_told(home: dict[str, str]) -> None:
    asked = {
        "MOLECULE_MCP_CHANNEL": "OFF",
        "MOLECULE_MCP_LEASE_SECONDS": "60",
        "MOLECULE_MCP_DISABLE_HEARTBEAT": "1",
        "MOLECULE_MCP_POLL_TIMEOUT_SECS": "0",
        "MOLECULE_MCP_INBOX_MESSAGES": "",
    }
    wishes = read_configuration({**home, **ONE, **asked}).settings
    assert (wishes.channel, wishes.lease_seconds, wishes.disable_heartbeat) == ("off", 60, True)
    assert (wishes.poll_timeout_secs, wishes.inbox_messages) == (0, 200)
    assert "setting MOLECULE_MCP_LEASE does not exist" in line_of({**home, **ONE, "MOLECULE_MCP_LEASE": "60"})
    assert line_of({**home, **ONE, "MOLECULE_MCP_LEASE_SECONDS": "0"}).startswith("MOLECULE_MCP_LEASE_SECONDS: ")
    assert line_of({**home, **ONE, "MOLECULE_MCP_CHANNEL": "maybe"}).startswith("MOLECULE_MCP_CHANNEL: ")


@requirement("O2")
@pytest.mark.parametrize(
    ("defaults", "prefix"),
    [
        (AgentSettings(), "MOLECULE_MCP_"),
        (BridgeSettings(), "MOLECULE_BRIDGE_"),
        (RunnerSettings(), "MOLECULE_RUNNER_"),
    ],
)
def test_the_page_lists_every_setting_with_its_default(
    defaults: AgentSettings | BridgeSettings | RunnerSettings, prefix: str
) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "configuration.md").read_text(encoding="utf-8")
    rows = [each.split("|") for each in page.splitlines() if f" | `{prefix}" in each]
    told = {row[1].strip(" `"): row[3].strip(" `").replace(",", "") for row in rows}
    names = defaults.__struct_fields__
    assert told == {name: str(getattr(defaults, name)).removesuffix(".0").lower() for name in names}


@requirement("G6")
def test_a_seat_that_is_printed_shows_no_token(home: dict[str, str]) -> None:
    config = read_configuration({**home, **ONE})
    assert "token-1" not in repr(config) + str(config.workspaces[0])


def test_what_an_agent_says_of_itself_comes_from_three_variables(home: dict[str, str]) -> None:
    said = {
        "MOLECULE_AGENT_NAME": " Ops ",
        "MOLECULE_AGENT_DESCRIPTION": "keeps things running",
        "MOLECULE_AGENT_SKILLS": "deploy, ,roll back",
    }
    config = read_configuration({**home, **ONE, **said})
    assert (config.name, config.description, config.skills) == ("Ops", "keeps things running", ("deploy", "roll back"))
